package upgrade

import (
	"bytes"
	"io"
	"io/fs"
	"testing"
	"testing/fstest"

	"github.com/loam-os/loam/firmware/loader"
	"github.com/loam-os/loam/test/firmware"
)

// onESP is the content of a file there.
func onESP(t *testing.T, u *Upgrader, path string) []byte {
	t.Helper()
	closeESP, err := u.open()
	if err != nil {
		t.Fatal(err)
	}
	defer closeESP()
	r, err := u.esp.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	content, err := io.ReadAll(r)
	if err != nil {
		t.Fatal(err)
	}
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
		{name: "a newer one", there: smallLoader("257.9"), own: smallLoader("257.13-1~deb13u1"), want: smallLoader("257.13-1~deb13u1")},
		{name: "the same", there: smallLoader("257.9"), own: append(smallLoader("257.9"), 0), want: smallLoader("257.9")},
		{name: "an older one", there: smallLoader("258"), own: smallLoader("257.9"), want: smallLoader("258")},
		{name: "in the place of another program", there: []byte("GRUB"), own: smallLoader("257.9"), want: []byte("GRUB")},
		{name: "a newer one that the firmware does not start", there: smallLoader("257.9"), own: smallLoader("258"), want: smallLoader("257.9"), sys: firmware.SecureBoot(nil, nil)},
		{name: "a newer one that is in the firmware's db", there: smallLoader("257.9"), own: smallLoader("258"), want: smallLoader("258"), sys: firmware.SecureBoot(firmware.Digest(t, smallLoader("258")), nil)},
		{name: "which is none", there: smallLoader("257.9"), own: []byte("what"), want: smallLoader("257.9")},
		{name: "if it has one", there: smallLoader("257.9"), err: fs.ErrNotExist, want: smallLoader("257.9")},
	} {
		t.Run(tc.name, func(t *testing.T) {
			c := newCourse(t, "1.0.0", "2.0.0")
			closeESP, err := c.u.open()
			if err != nil {
				t.Fatal(err)
			}
			if err := c.u.esp.WriteFile(loader.Path(arch), tc.there); err != nil {
				t.Fatal(err)
			}
			closeESP()
			c.upgrade("2.0.0", Wish{})
			if got := onESP(t, c.u, loader.Path(arch)); !bytes.Equal(got, tc.there) {
				t.Error("it is there before the system is well")
			}
			c.u.Loader = func() ([]byte, error) { return tc.own, tc.err }
			if tc.sys != nil {
				c.u.Sys = tc.sys
			}
			if op := c.run(Verdict{Word: Good}); op.Kind != Nothing {
				t.Fatalf("in the end: %v", op)
			}
			if got := onESP(t, c.u, loader.Path(arch)); !bytes.Equal(got, tc.want) {
				t.Errorf("the ESP has %q", got)
			}
		})
	}
}
