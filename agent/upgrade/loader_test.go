package upgrade

import (
	"bytes"
	"errors"
	"io"
	"io/fs"
	"testing"
	"testing/fstest"

	"github.com/loam-os/loam/firmware/authenticode"
	"github.com/loam-os/loam/firmware/efivar"
	"github.com/loam-os/loam/firmware/loader"
	"github.com/loam-os/loam/firmware/uki"
	"github.com/loam-os/loam/partitions/fat"
	"github.com/loam-os/loam/test/firmware"
	"github.com/loam-os/loam/test/keys"
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

// TestTheLoaderIsSignedAsItsUKISays: the root file system has it without signature, as it is the same whoever signs.
func TestTheLoaderIsSignedAsItsUKISays(t *testing.T) {
	key, other := keys.New(t, "one"), keys.New(t, "other")
	there, own := smallLoader("257.9"), smallLoader("258")
	signature, err := authenticode.Sign(own, key.Signer)
	if err != nil {
		t.Fatal(err)
	}
	signed, err := authenticode.Attach(own, signature)
	if err != nil {
		t.Fatal(err)
	}
	for _, tc := range []struct {
		name      string
		db        keys.Pair
		signature []byte
		want      []byte
	}{
		{"by one whom the firmware knows", key, signature, signed},
		{"by one whom it does not know", other, signature, there},
		{"by nobody", key, nil, there},
		{"with what is no signature", key, []byte("what"), there},
	} {
		t.Run(tc.name, func(t *testing.T) {
			c := newCourse(t, "1.0.0", "2.0.0")
			closeESP, err := c.u.open()
			if err != nil {
				t.Fatal(err)
			}
			defer closeESP()
			all, err := entries(c.u.esp)
			v := View{Running: c.running, Entries: all}
			sections := []uki.Section{{Name: ".linux", Data: []byte("linux")}}
			if tc.signature != nil {
				sections = append(sections, uki.Section{Name: uki.LoaderSignature, Data: tc.signature})
			}
			err = errors.Join(err, c.u.esp.WriteFile(loader.Path(arch), there), c.u.esp.WriteFile(fat.BootDir+"/"+all[0].File, smallPE(sections...)))
			if err != nil {
				t.Fatal(err)
			}
			c.u.Loader = func() ([]byte, error) { return own, nil }
			c.u.Sys = firmware.SecureBoot(firmware.SignatureList(string(efivar.X509), string(tc.db.Certificate.Raw)), nil)
			err = c.u.renewLoader(v)
			if got := onESP(t, c.u, loader.Path(arch)); !bytes.Equal(got, tc.want) {
				t.Errorf("the ESP has %d bytes: %v", len(got), err)
			}
		})
	}
}
