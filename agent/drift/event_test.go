package drift

import (
	"encoding/binary"
	"maps"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"
)

// raw is an event as the kernel writes it; the length of its name is a multiple
// of 16 bytes.
func raw(watch int32, mask uint32, name string) []byte {
	var padded []byte
	if name != "" {
		padded = make([]byte, (len(name)/16+1)*16)
		copy(padded, name)
	}

	b := binary.NativeEndian.AppendUint32(nil, uint32(watch))
	b = binary.NativeEndian.AppendUint32(b, mask)
	b = binary.NativeEndian.AppendUint32(b, 0)
	b = binary.NativeEndian.AppendUint32(b, uint32(len(padded)))

	return append(b, padded...)
}

func TestMatch(t *testing.T) {
	below := map[string][]string{"/etc/app": {"/etc/app/a", "/etc/app/b"}, "/etc": {"/etc/c"}}
	dirs := table{
		1: {ways: map[string][]string{"etc": {"/etc", "/etc/app"}}},
		2: {
			ways:  map[string][]string{"app": {"/etc/app"}},
			files: map[string][]string{"c": {"/etc/c"}},
		},
		3: {files: map[string][]string{"a": {"/etc/app/a"}, "b": {"/etc/app/b"}}},
	}

	all := []string{"/etc/app/a", "/etc/app/b", "/etc/c"}
	for _, test := range []struct {
		name  string
		raw   []byte
		want  []string
		moved bool
	}{
		{name: "no events"},
		{
			name:  "events were dropped",
			raw:   raw(-1, unix.IN_Q_OVERFLOW, ""),
			want:  all,
			moved: true,
		},
		{name: "a file written", raw: raw(3, unix.IN_CLOSE_WRITE, "a"), want: all[:1]},
		{
			name: "two files in one read",
			raw:  append(raw(3, unix.IN_ATTRIB, "b"), raw(2, unix.IN_DELETE, "c")...),
			want: all[1:],
		},
		{name: "a foreign file", raw: raw(3, unix.IN_CREATE, "c")},
		{name: "a watch given up", raw: raw(4, unix.IN_IGNORED, "")},
		{
			name:  "a directory above replaced",
			raw:   raw(2, unix.IN_MOVED_TO|unix.IN_ISDIR, "app"),
			want:  all[:2],
			moved: true,
		},
		{
			name: "a directory above of another mode",
			raw:  raw(2, unix.IN_ATTRIB|unix.IN_ISDIR, "app"),
		},
		{
			name: "a watched directory of another mode",
			raw:  raw(3, unix.IN_ATTRIB|unix.IN_ISDIR, ""),
		},
		{
			name:  "a watched directory unmounted",
			raw:   raw(2, unix.IN_UNMOUNT, ""),
			want:  all,
			moved: true,
		},
		{
			name:  "a watched directory gone",
			raw:   raw(3, unix.IN_IGNORED, ""),
			want:  all[:2],
			moved: true,
		},
		{name: "a truncated event is dropped", raw: raw(3, unix.IN_CLOSE_WRITE, "a")[:20]},
	} {
		t.Run(test.name, func(t *testing.T) {
			changed, moved := dirs.match(test.raw, below)
			diff := cmp.Diff(test.want, slices.Sorted(maps.Keys(changed)))
			if diff != "" || moved != test.moved {
				t.Errorf("moved %t, want %t; changed (-want +got):\n%s", moved, test.moved, diff)
			}
		})
	}
}

// Parsing always ends, and events written again are the same.
func FuzzParse(f *testing.F) {
	f.Add([]byte(nil))
	f.Add(append(raw(1, unix.IN_CREATE, "name"), raw(-1, unix.IN_Q_OVERFLOW, "")...))
	f.Add(raw(1, unix.IN_CREATE, "name")[:18])

	f.Fuzz(func(t *testing.T, input []byte) {
		events := slices.Collect(parse(input))
		if len(events) > len(input)/unix.SizeofInotifyEvent {
			t.Fatalf("%d events in %d bytes", len(events), len(input))
		}

		var again []byte
		for _, e := range events {
			again = append(again, raw(e.watch, e.mask, e.name)...)
		}

		diff := cmp.Diff(events, slices.Collect(parse(again)), cmp.AllowUnexported(event{}))
		if diff != "" {
			t.Errorf("parsed again (-want +got):\n%s", diff)
		}
	})
}
