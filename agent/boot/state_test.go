package boot

import (
	"strings"
	"testing"

	"github.com/google/uuid"
)

// unwritable returns the decision for a disk on which each write fails.
func unwritable(t *testing.T, f Facts) Decision {
	t.Helper()
	f.Disks[0].Device = "/dev/full"
	d, err := Decide(f)
	if err != nil || d.State.Table == nil || d.State.Damage != nil || len(d.Warnings) > 0 {
		t.Fatalf("%+v, %v", d, err)
	}
	return d
}

// TestAStateIsMountedWithoutItsTable: the last sector of the disk is bad, or the
// disk has grown by sectors that cannot be written. The state is in order.
func TestAStateIsMountedWithoutItsTable(t *testing.T) {
	const bad = "backup copy: header sector 8388607: input/output error"
	const keeps = "the state partition keeps its size of 256 MiB: disk /dev/full: " +
		"write backup partition table: array: write /dev/full: no space left on device\n" +
		"hint: `dmesg` says more; the disk may be failing"

	for _, tt := range []struct {
		name   string
		change func(*Disk)
		want   []string
	}{
		{
			name:   "the backup copy is damaged",
			change: func(d *Disk) { d.Damage = bad },
			want:   []string{"partition table of /dev/full: " + bad, keeps},
		},
		{
			name:   "the disk has grown",
			change: func(d *Disk) { d.Size += gib },
			want:   []string{keeps},
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			f := machine()
			tt.change(&f.Disks[0])
			d := unwritable(t, f)

			if err := (stateMount{opener{&Init{}}}).prepare(&d); err != nil {
				t.Fatalf("the state is not mounted: %v", err)
			}
			if d.State.Size != 256*mib {
				t.Errorf("the partition has %d MiB", d.State.Size>>20)
			}

			said := recordOf(d, "", nil, 0).Warnings
			if strings.Join(said, "\n") != strings.Join(tt.want, "\n") {
				t.Errorf("warnings\n%s\nwant\n%s", strings.Join(said, "\n"),
					strings.Join(tt.want, "\n"))
			}
		})
	}
}

// TestAnIdentityThatIsNotWritten is in no boot option of the firmware.
func TestAnIdentityThatIsNotWritten(t *testing.T) {
	empty := func(f Facts) Facts {
		return with(f, 6, func(c *Content) { c.Filesystem = FilesystemEmpty })
	}

	for _, tt := range []struct {
		name  string
		facts Facts
		want  uuid.UUID
	}{
		{name: "a disk of an early version has none", facts: image(machine())},
		{name: "nor has a disk at its first start", facts: empty(image(machine()))},
		{
			name:  "a disk that was flashed has had one before",
			facts: empty(machine()),
			want:  uuid.UUID{15: 1},
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			d := unwritable(t, tt.facts)
			stateMount{opener{&Init{}}}.writeTable(&d)
			if d.State.ESP != tt.want {
				t.Errorf("boot options are renewed to %s, want %s", d.State.ESP, tt.want)
			}
		})
	}
}
