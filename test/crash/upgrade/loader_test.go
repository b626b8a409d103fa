package upgrade_test

import (
	"bytes"
	"io"
	"io/fs"
	"testing"
	"testing/fstest"

	"github.com/loam-os/loam/agent/upgrade"
	"github.com/loam-os/loam/firmware/loader"
	"github.com/loam-os/loam/partitions/fat"
	"github.com/loam-os/loam/test/firmware"
)

// fileOnESP is the content of a file there.
func (c *course) fileOnESP(path string) []byte {
	c.t.Helper()
	var content []byte
	c.onESP(func(files *fat.FS) error {
		r, err := files.Open(path)
		if err == nil {
			content, err = io.ReadAll(r)
		}
		return err
	})
	return content
}

func TestASystemThatIsWellBringsItsLoader(t *testing.T) {
	for _, tc := range []struct {
		name       string
		there, own []byte
		err        error
		want       []byte
		sys        fstest.MapFS
	}{
		{
			name:  "a newer one",
			there: firmware.SystemdBoot("257.9"),
			own:   firmware.SystemdBoot("257.13-1~deb13u1"),
			want:  firmware.SystemdBoot("257.13-1~deb13u1"),
		},
		{
			name:  "the same",
			there: firmware.SystemdBoot("257.9"),
			own:   append(firmware.SystemdBoot("257.9"), 0),
			want:  firmware.SystemdBoot("257.9"),
		},
		{
			name:  "an older one",
			there: firmware.SystemdBoot("258"),
			own:   firmware.SystemdBoot("257.9"),
			want:  firmware.SystemdBoot("258"),
		},
		{
			name:  "in the place of another program",
			there: []byte("GRUB"),
			own:   firmware.SystemdBoot("257.9"),
			want:  []byte("GRUB"),
		},
		{
			name:  "a newer one that the firmware does not start",
			there: firmware.SystemdBoot("257.9"),
			own:   firmware.SystemdBoot("258"),
			want:  firmware.SystemdBoot("257.9"),
			sys:   firmware.SecureBoot(nil, nil),
		},
		{
			name:  "a newer one that is in the firmware's db",
			there: firmware.SystemdBoot("257.9"),
			own:   firmware.SystemdBoot("258"),
			want:  firmware.SystemdBoot("258"),
			sys:   firmware.SecureBoot(firmware.Digest(t, firmware.SystemdBoot("258")), nil),
		},
		{
			name:  "which is none",
			there: firmware.SystemdBoot("257.9"),
			own:   []byte("what"),
			want:  firmware.SystemdBoot("257.9"),
		},
		{
			name:  "if it has one",
			there: firmware.SystemdBoot("257.9"),
			err:   fs.ErrNotExist,
			want:  firmware.SystemdBoot("257.9"),
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			c := newCourse(t, "1.0.0", "2.0.0")
			c.onESP(func(files *fat.FS) error {
				return files.WriteFile(loader.Path(arch), tc.there)
			})

			c.upgrade("2.0.0", upgrade.Options{})
			if got := c.fileOnESP(loader.Path(arch)); !bytes.Equal(got, tc.there) {
				t.Error("it is there before the system is well")
			}

			c.node().loader, c.node().loaderErr = tc.own, tc.err
			if tc.sys != nil {
				c.u.Sys = tc.sys
			}

			if op := c.run(upgrade.Verdict{Word: upgrade.Good}); op.Kind != upgrade.Nothing {
				t.Fatalf("in the end: %v", op)
			}
			if got := c.fileOnESP(loader.Path(arch)); !bytes.Equal(got, tc.want) {
				t.Errorf("the ESP has %q", got)
			}
		})
	}
}
