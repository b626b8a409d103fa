package image

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/loam-os/loam/image/bundle"
	"github.com/loam-os/loam/image/openpgp"
	"github.com/loam-os/loam/partitions"
	"github.com/loam-os/loam/partitions/gpt"
	"github.com/loam-os/loam/partitions/verity"
	"github.com/loam-os/loam/test/judge"
	"github.com/loam-os/loam/test/updates"
)

// TestSysupdate has systemd's own updater read a published directory and the
// disk of an image, and write the one to the other.
func TestSysupdate(t *testing.T) {
	judge.Systemd(t, "systemd-sysupdate")
	b := underTest(t)
	const version = "9.9.9"
	hash := [32]byte(slices.Concat(bytes.Repeat([]byte{0xab}, 16), bytes.Repeat([]byte{0xcd}, 16)))
	rootHash := hex.EncodeToString(hash[:])
	signature := verity.NewSignature(hash, []byte("a certificate"), []byte("a signature"))
	m := b.manifest
	r := updates.New(t)
	key, keyring := openPGPKey(t)
	r.SignSums = key.Sign
	r.Publish(bundle.Sources{
		Signature: &signature,
		ImageID:   m.ImageID,
		Version:   version,
		Arch:      m.Arch,
		Profile:   m.Profile,
		RootHash:  rootHash,
	}, b.file(t, ".root"), b.file(t, ".verity"), b.file(t, ".efi"))

	server := httptest.NewServer(http.FileServer(http.Dir(r.Dir)))
	t.Cleanup(server.Close)
	dir := t.TempDir()
	disk := filepath.Join(dir, "disk.raw")
	esp := filepath.Join(dir, "esp")
	copySparse(t, b.file(t, ".raw"), disk)

	if err := os.Mkdir(esp, 0o755); err != nil {
		t.Fatal(err)
	}

	arch := systemdArch[b.manifest.Arch]
	updater := judge.Sysupdate{
		Disk:    disk,
		ESP:     esp,
		URL:     server.URL,
		Arch:    arch,
		Running: b.manifest.Version,
		Signed:  true,
		Keyring: keyring,
	}

	// It has the entry of what runs, as the disk has.
	uki := filepath.Join(esp, fmt.Sprintf("loam-node-os_%s_%s.efi", b.manifest.Version, arch))
	if err := os.WriteFile(uki, nil, 0o444); err != nil {
		t.Fatal(err)
	}

	list := updater.Run(t, "list")
	for _, row := range []string{
		regexp.QuoteMeta(version) + ` +✓ +candidate`,
		regexp.QuoteMeta(b.manifest.Version) + ` +✓ +current`,
	} {
		if !regexp.MustCompile(row).MatchString(list) {
			t.Errorf("no row %q in\n%s", row, list)
		}
	}

	stranger := updater
	_, stranger.Keyring = openPGPKey(t)
	if out, err := stranger.Try(t, "update"); err == nil ||
		!strings.Contains(out, "DOWNLOAD INVALID: Signature verification failed.") {
		t.Errorf("with another keyring: %v\n%s", err, out)
	}

	updater.Run(t, "update")
	sameFile(t, filepath.Join(esp, fmt.Sprintf("loam-node-os_%s_%s+3-0.efi", version, arch)), 0,
		b.file(t, ".efi"))

	f, err := os.Open(disk)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()

	info, err := f.Stat()
	if err != nil {
		t.Fatal(err)
	}

	table, err := gpt.Read(f, info.Size(), b.manifest.SectorSize)
	if err != nil {
		t.Fatal(err)
	}

	slots, err := partitions.Slots(table, b.manifest.Arch)
	if err != nil {
		t.Fatal(err)
	}

	if hash, whole := slots[1].Holds(table, b.manifest.Arch); !whole ||
		hex.EncodeToString(hash[:]) != rootHash {
		t.Errorf("the other slot holds %x, %v", hash, whole)
	}

	content, err := signature.Encode()
	if err != nil {
		t.Fatal(err)
	}

	// It takes the first free partition: slot A's, whose system is not signed.
	sig := slices.IndexFunc(table.Partitions, func(p gpt.Partition) bool {
		return p.UUID == partitions.SigUUID(hash)
	})

	have := make([]byte, len(content))
	if sig < 0 {
		t.Error("no partition has the signature")
	} else if _, err := f.ReadAt(have, table.Partitions[sig].Start); err != nil ||
		!bytes.Equal(have, content) {
		t.Errorf("the signature is another: %v", err)
	}

	for index, name := range map[int]string{slots[1].Root: ".root", slots[1].Verity: ".verity"} {
		if p := table.Partition(index); p.Label != "loam-node-os_"+version {
			t.Errorf("partition %d is called %q", index, p.Label)
		}
		sameFile(t, disk, table.Partition(index).Start, b.file(t, name))
	}
}

// openPGPKey returns a key made by gpg, and a keyring with its public half.
func openPGPKey(t *testing.T) (key openpgp.Key, keyring string) {
	t.Helper()
	home, err := os.MkdirTemp("", "pgp") // t.TempDir is too long for the socket of gpg's agent.
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(home) })

	private, keyring := filepath.Join(home, "private"), filepath.Join(home, "public")
	for _, args := range [][]string{
		{"--quick-generate-key", "test", "ed25519", "sign", "never"},
		{"--output", private, "--export-secret-keys"},
		{"--output", keyring, "--export"},
	} {
		judge.Run(t, "gpg",
			append([]string{
				"--homedir", home, "--batch", "--pinentry-mode", "loopback", "--passphrase", "",
			}, args...)...)
	}

	key, err = openpgp.ReadKey(private, time.Now(), nil)
	if err != nil {
		t.Fatal(err)
	}

	return key, keyring
}

// privateKey is the file of the private key beside the keyring of [openPGPKey].
func privateKey(keyring string) string { return filepath.Join(filepath.Dir(keyring), "private") }

// sameFile fails unless what a file has from an offset on begins with another.
func sameFile(t *testing.T, file string, off int64, want string) {
	t.Helper()
	sum := func(name string, off, n int64) (string, int64) {
		f, err := os.Open(name)
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()

		h := sha256.New()
		got, err := io.Copy(h, io.NewSectionReader(f, off, n))
		if err != nil {
			t.Fatal(err)
		}

		return hex.EncodeToString(h.Sum(nil)), got
	}

	wanted, n := sum(want, 0, 1<<40)
	if got, _ := sum(file, off, n); got != wanted {
		t.Errorf("%s at %d is not %s", file, off, want)
	}
}
