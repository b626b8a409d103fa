package room

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/loam-os/loam/test/files"
)

const (
	mib     = 1 << 20
	segment = log + "/0000000000000000-0000000000000000.wal"
)

func TestNext(t *testing.T) {
	for _, row := range []struct {
		name  string
		usage Usage
		want  []Reservation
		all   bool
	}{
		{
			name:  "a database with holes, and a log that ends with its segment",
			usage: Usage{[]File{{segment, 64 * mib, 64 * mib}, {database, 16 * mib, mib}}, 8 << 30},
			want: []Reservation{
				{Name: segment, Length: 64*mib + segmentRoom},
				{Name: database, Length: 16*mib + databaseRoom},
			},
			all: true,
		},
		{
			name:  "all has its room",
			usage: Usage{[]File{{segment, 64 * mib, 68 * mib}, {database, 16 * mib, 144 * mib}}, 0},
			all:   true,
		},
		{
			name:  "a database that has used less than half of its room",
			usage: Usage{[]File{{database, 79 * mib, 144 * mib}}, 8 << 30},
			all:   true,
		},
		{
			name:  "a database that has used more",
			usage: Usage{[]File{{database, 81 * mib, 144 * mib}}, 8 << 30},
			want:  []Reservation{{Name: database, Length: 209 * mib}},
			all:   true,
		},
		{
			name: "a disk with little room",
			usage: Usage{[]File{{segment, 64 * mib, 64 * mib}, {database, 16 * mib, 16 * mib}},
				minFree + 10*mib},
			want: []Reservation{{Name: segment, Length: 64*mib + segmentRoom}},
		},
		{
			name:  "a full disk",
			usage: Usage{[]File{{segment, 64 * mib, 64 * mib}}, 0},
		},
	} {
		t.Run(row.name, func(t *testing.T) {
			reserve, all := Next(row.usage)
			diff := cmp.Diff(row.want, reserve, cmpopts.IgnoreUnexported(Reservation{}))
			if diff != "" || all != row.all {
				t.Errorf("all %v, want %v; (-want +got):\n%s", all, row.all, diff)
			}
		})
	}
}

// TestLastSegmentsOfTheLogCount: the last one and the next one. What is reserved
// changes no file.
func TestLastSegmentsOfTheLogCount(t *testing.T) {
	dir := files.Dir(t)
	next := log + "/0.tmp"
	for _, name := range []string{
		log + "/0000000000000000-0000000000000000.wal",
		log + "/0000000000000001-0000000000000100.wal",
		log + "/0000000000000000-0000000000000000.wal.broken",
		next, database,
	} {
		files.Write(t, filepath.Join(dir, name), name)
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer root.Close()

	u, err := Observe(root)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, f := range u.Files {
		names = append(names, f.Name)
	}
	want := []string{log + "/0000000000000001-0000000000000100.wal", next, database}
	if diff := cmp.Diff(want, names); diff != "" {
		t.Errorf("files (-want +got):\n%s", diff)
	}

	if err := apply(root, Reservation{Name: database, Length: mib}); err != nil {
		t.Fatal(err)
	}
	text, err := root.ReadFile(database)
	if err != nil || string(text) != database {
		t.Errorf("the database has %q, %v", text, err)
	}
	if u, err := Observe(root); err != nil || u.Reserved() < mib/2 {
		t.Errorf("%d bytes are reserved, %v", u.Reserved(), err)
	}
}

// TestAKeeperSaysWhatChanges, each once: an etcd without data is no news, and a link in the
// place of its database is not followed.
func TestAKeeperSaysWhatChanges(t *testing.T) {
	dir := files.Dir(t)
	var said []Event
	keeper := Keeper{Dir: filepath.Join(dir, "etcd"), Report: func(e Event) { said = append(said, e) }}
	keeper.Look()
	if said != nil {
		t.Errorf("without data it says %+v", said)
	}

	files.Write(t, filepath.Join(dir, "etcd", segment), "")
	outside := filepath.Join(dir, "outside")
	files.Write(t, outside, "x")
	place := filepath.Join(dir, "etcd", database)
	err := errors.Join(os.MkdirAll(filepath.Dir(place), 0o755), os.Symlink(outside, place))
	if err != nil {
		t.Fatal(err)
	}
	keeper.Look()
	keeper.Look()
	if len(said) != 1 || said[0].Err == nil {
		t.Errorf("of a link it says %+v", said)
	}
}
