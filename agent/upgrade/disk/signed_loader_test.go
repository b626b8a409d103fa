package disk

import (
	"bytes"
	"io"
	"testing"

	"go.uber.org/zap"

	"github.com/loam-os/loam/firmware/authenticode"
	"github.com/loam-os/loam/firmware/bootdir"
	"github.com/loam-os/loam/firmware/bootentry"
	"github.com/loam-os/loam/firmware/efivar"
	"github.com/loam-os/loam/firmware/loader"
	"github.com/loam-os/loam/firmware/uki"
	imageesp "github.com/loam-os/loam/image/esp"
	"github.com/loam-os/loam/test/firmware"
	"github.com/loam-os/loam/test/keys"
)

// TestTheLoaderIsSignedAsItsUKISays: the root file system has it without
// signature, as it is the same whoever signs.
func TestTheLoaderIsSignedAsItsUKISays(t *testing.T) {
	key := keys.New(t, "one")
	other := keys.New(t, "other")
	there := firmware.SystemdBoot("257.9")
	own := firmware.SystemdBoot("258")
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
		{"not signed", key, nil, there},
		{"with what is no signature", key, []byte("what"), there},
	} {
		t.Run(tc.name, func(t *testing.T) {
			sections := []uki.Section{{Name: ".linux", Data: []byte("linux")}}
			if tc.signature != nil {
				sections = append(sections,
					uki.Section{Name: uki.LoaderSignature, Data: tc.signature})
			}

			const size = 528 << 20
			disk := firmware.NewMemory(nil)
			err := imageesp.Write(io.NewOffsetWriter(disk, 0), size, firmware.SectorSize,
				1, []imageesp.File{
					{Path: bootentry.Dir + "/loam.efi", Data: firmware.PE(sections...)},
					{Path: loader.Path("amd64"), Data: there},
				})
			if err != nil {
				t.Fatal(err)
			}

			files, err := bootdir.Open(disk, size, firmware.SectorSize)
			if err != nil {
				t.Fatal(err)
			}

			l := Loader{
				ESP:  &ESP{FS: files},
				Arch: "amd64",
				Sys: firmware.SecureBoot(
					firmware.SignatureList(string(efivar.X509), string(tc.db.Certificate.Raw)),
					nil,
				),
				Log: zap.NewNop(),
			}

			renewErr := l.Renew(own, &Entry{File: "loam.efi"})

			r, err := files.Open(loader.Path("amd64"))
			if err != nil {
				t.Fatal(err)
			}

			got, err := io.ReadAll(r)
			if err != nil || !bytes.Equal(got, tc.want) {
				t.Errorf("the ESP has %d bytes: %v, %v", len(got), renewErr, err)
			}
		})
	}
}
