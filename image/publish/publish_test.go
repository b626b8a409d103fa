package publish

import (
	"bytes"
	"crypto"
	"crypto/ed25519"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/theupdateframework/go-tuf/v2/metadata"

	"github.com/loam-os/loam/hint"
	"github.com/loam-os/loam/hint/fault"
	"github.com/loam-os/loam/image/repository"
	"github.com/loam-os/loam/image/update"
	"github.com/loam-os/loam/test/judge"
)

func TestAPublishedDirectory(t *testing.T) {
	f := newFixture(t)
	f.publish("0.2.0")
	r := f.publish("0.3.0")
	var have []string
	f.ok(filepath.WalkDir(f.dir, func(path string, d os.DirEntry, err error) error {
		rel, _ := filepath.Rel(f.dir, path)
		if err == nil && !d.IsDir() && !strings.Contains(rel, "0.2.0") {
			have = append(have, rel)
		}
		return err
	}))

	const base = "loam-node-os_0.3.0_x86-64"
	want := []string{
		"SHA256SUMS", base + ".efi", base + ".pack", base + "_" + strings.Repeat("a", 32) + ".root",
		base + "_" + strings.Repeat("b", 32) + ".verity",
		"metadata/.lock", "metadata/1.root.json", "metadata/1.snapshot.json",
		"metadata/1.targets.json", "metadata/2.snapshot.json", "metadata/2.targets.json",
		"metadata/3.snapshot.json", "metadata/3.targets.json", "metadata/timestamp.json",
		"targets/" + r.IndexSHA256 + "." + base + ".index.json",
	}
	if diff := cmp.Diff(want, have); diff != "" {
		t.Error(diff)
	}

	if n := strings.Count(string(f.read("SHA256SUMS")), "\n"); n != 6 {
		t.Errorf("SHA256SUMS has %d lines, want 6:\n%s", n, f.read("SHA256SUMS"))
	}

	cmd := exec.Command(judge.Find(t, "sha256sum"), "--check", "--strict", "--quiet", "SHA256SUMS")
	cmd.Dir = f.dir
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("sha256sum: %v\n%s", err, out)
	}
}

func TestSumsThatAreSignedStaySigned(t *testing.T) {
	f := newFixture(t)
	b := f.bundle("0.2.0")
	b.SignSums = func(text []byte) ([]byte, error) {
		return append([]byte("by me: "), text...), nil
	}

	_, err := f.tryPublish(b)
	f.ok(err)

	sums := f.read("SHA256SUMS")
	if got := string(f.read("SHA256SUMS.gpg")); got != "by me: "+string(sums) {
		t.Errorf("signature %q", got)
	}

	if _, err := f.tryPublish(f.bundle("0.3.0")); err == nil ||
		!strings.Contains(hint.Text(err), "hint: --sums-key signs it again") {
		t.Errorf("a release by nobody: %v", err)
	}

	if string(f.read("SHA256SUMS")) != string(sums) {
		t.Error("SHA256SUMS is another")
	}
}

func TestPublishingAgain(t *testing.T) {
	f := newFixture(t)
	b := f.bundle("0.2.0")
	first, err := f.tryPublish(b)
	f.ok(err)
	before := f.read("metadata/timestamp.json")
	again, err := f.tryPublish(b)
	if err != nil || !cmp.Equal(again, first) || string(before) != string(f.read("metadata/timestamp.json")) {
		t.Errorf("the same release again: %+v, %v", again, err)
	}

	b.Index.Profile = "metal"
	if _, err := f.tryPublish(b); err == nil ||
		!strings.Contains(hint.Text(err), "with other content\nhint: ") {
		t.Errorf("another release under the same name: %v", err)
	}
}

func TestPublishRefuses(t *testing.T) {
	for _, tc := range []struct {
		name   string
		change func(f *fixture, b *update.Bundle)
		err    string
	}{
		{"a directory that is no repository", func(f *fixture, _ *update.Bundle) {
			f.dir = f.TempDir()
		}, "--init` makes a new repository"},
		{"a pack that is not there", func(f *fixture, b *update.Bundle) {
			b.Pack = "none"
		}, "no such file"},
		{"a root of another size", func(f *fixture, b *update.Bundle) {
			b.Index.Root.Size--
		}, "want 111999 bytes"},
		{"an index that is not valid", func(f *fixture, b *update.Bundle) {
			b.Index.Version = "1_0"
		}, "boot entry"},
		{"no key of the targets", func(f *fixture, _ *update.Bundle) {
			f.keys.Targets = nil
		}, "sign 2.targets.json: no such key"},
		{"a repository that somebody else signed", func(f *fixture, _ *update.Bundle) {
			f.write("metadata/timestamp.json", newFixture(f).read("metadata/timestamp.json"))
		}, "not signed by enough"},
		{"a repository that is published to just now", func(f *fixture, _ *update.Bundle) {
			unlock, err := Lock(f.dir)
			f.ok(err)
			f.Cleanup(unlock)
		}, "another process publishes"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			f := newFixture(t)
			b := f.bundle("0.2.0")
			tc.change(f, &b)

			_, err := f.tryPublish(b)
			if err == nil || !strings.Contains(hint.Text(err), tc.err) {
				t.Errorf("error %v, want %q", err, tc.err)
			}
		})
	}
}

// TestAPublisherThatStopsAnywhereIsNotSeen: until timestamp.json is there,
// nodes read the repository as it was before.
func TestAPublisherThatStopsAnywhereIsNotSeen(t *testing.T) {
	f := newFixture(t)
	f.publish("0.2.0")
	stop := errors.New("stop")
	st := f.state()
	st.targets.Signed.Targets = map[string]*metadata.TargetFiles{}

	if err := f.signer().commit(st, func() error { return stop }); !errors.Is(err, stop) {
		t.Fatal(err)
	}
	if list := f.updated(); len(list) != 1 {
		t.Errorf("%v", list)
	}

	f.publish("0.3.0") // and the next publisher goes on
	if list := f.updated(); len(list) != 2 {
		t.Errorf("%v", list)
	}
}

func TestRefreshKeepsARepositoryAlive(t *testing.T) {
	f := newFixture(t)
	f.publish("0.2.0")
	f.updated()
	f.now = f.now.Add(30 * day)

	if _, err := f.update(); !errors.Is(err, repository.ErrExpired) {
		t.Fatalf("error %v", err)
	}

	f.ok(f.refresh(Keys{Timestamp: f.keys.Timestamp}, f.now))
	if list := f.updated(); len(list) != 1 {
		t.Errorf("%v", list)
	}
}

func TestNodesFollowARotation(t *testing.T) {
	f := newFixture(t)
	f.publish("0.2.0")
	f.updated()

	for range 3 {
		fresh := f.newKeys(1)
		f.ok(Rotate(f.dir, f.keys, fresh, 1, DefaultExpiries(), f.now))
		f.keys = fresh
	}

	f.publish("0.3.0")
	if list := f.updated(); len(list) != 2 {
		t.Errorf("%v", list)
	}

	// A node that is given the newest root from now on remembers what it saw of
	// the versions.
	old := f.copy()
	f.publish("0.4.0")
	f.updated()
	f.dir = old

	_, err := repository.Update(t.Context(), f.store(), f.node, f.read("metadata/4.root.json"),
		repository.Clock{Now: f.now})
	if !errors.Is(err, repository.ErrRollback) {
		t.Errorf("error %v", err)
	}
}

// TestOldKeysAreWorthNothingAfterARotation: not for a node that saw it,
// whatever root.json it was given.
func TestOldKeysAreWorthNothingAfterARotation(t *testing.T) {
	f := newFixture(t)
	f.publish("0.2.0")
	stolen := f.keys
	old := f.copy()
	fresh := f.newKeys(1)
	f.ok(Rotate(f.dir, f.keys, fresh, 1, DefaultExpiries(), f.now))
	f.updated()
	f.dir = old
	f.keys = stolen
	f.publish("6.6.6")
	f.publish("6.6.7")

	if _, err := f.update(); !errors.Is(err, repository.ErrUnsigned) {
		t.Errorf("error %v", err)
	}
}

// TestAStolenTimestampKeyThatRanAhead: after a rotation, versions begin where
// the publisher is (specification, 5.3.11).
func TestAStolenTimestampKeyThatRanAhead(t *testing.T) {
	f := newFixture(t)
	f.publish("0.2.0")
	honest := f.copy()
	f.stamp(func(m *metadata.Metadata[metadata.TimestampType]) { m.Signed.Version = 1 << 40 })
	f.updated()
	f.dir = honest

	if _, err := f.update(); !errors.Is(err, repository.ErrRollback) {
		t.Fatalf("error %v", err)
	}

	fresh := f.newKeys(1)
	fresh.Root = f.keys.Root
	f.ok(Rotate(f.dir, f.keys, fresh, 1, DefaultExpiries(), f.now))

	if list := f.updated(); len(list) != 1 {
		t.Errorf("%v", list)
	}
}

func TestThresholds(t *testing.T) {
	f := newFixture(t)
	three := f.newKeys(3)
	if err := Init(t.TempDir(), three, 4, DefaultExpiries(), f.now); err == nil ||
		!strings.Contains(err.Error(), "threshold of 4 with 3") {
		t.Errorf("error %v", err)
	}

	f.dir = t.TempDir()
	f.keys = three
	f.ok(Init(f.dir, three, 2, DefaultExpiries(), f.now))
	f.publish("0.2.0")
	f.updated()
	fresh := f.newKeys(3)
	one := Keys{Root: three.Root[:1]}
	if err := Rotate(f.dir, one, fresh, 2, DefaultExpiries(), f.now); err == nil ||
		!strings.Contains(hint.Text(err), "1 of its root keys are here, it takes 2\nhint: ") {
		t.Errorf("rotated by one key of two: %v", err)
	}

	before := f.copy()
	f.root(func(*metadata.RootType) {}, three.Root[0], fresh.Root[0], fresh.Root[1])

	if _, err := f.update(); !errors.Is(err, repository.ErrUnsigned) {
		t.Errorf("a root signed by one key of two: %v", err)
	}

	f.dir = before
	f.ok(Rotate(f.dir, Keys{Root: three.Root[1:]}, fresh, 3, DefaultExpiries(), f.now))

	if list := f.updated(); len(list) != 1 {
		t.Errorf("%v", list)
	}
}

func TestKeysAreNeverReplaced(t *testing.T) {
	dir := t.TempDir()
	if _, err := NewKeys(dir, 2); err != nil {
		t.Fatal(err)
	}

	keys, err := LoadKeys(dir, FilesOnly)
	if err != nil || len(keys.Root) != 2 || keys.Timestamp == nil {
		t.Fatalf("%d root keys, %v", len(keys.Root), err)
	}

	if _, err := NewKeys(dir, 2); err == nil ||
		!strings.Contains(hint.Text(err), "never replaced") {
		t.Errorf("error %v", err)
	}

	info, err := os.Stat(filepath.Join(dir, "targets.pem"))
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("mode %v, %v", info.Mode(), err)
	}
}

// TestOpensslMakesOurKeys: a key need not come from us.
func TestOpensslMakesOurKeys(t *testing.T) {
	dir := t.TempDir()
	judge.Run(t, "openssl", "genpkey", "-algorithm", "ed25519", "-out",
		filepath.Join(dir, "root-1.pem"))
	judge.Run(t, "openssl", "genpkey", "-algorithm", "ed25519", "-out",
		filepath.Join(dir, "timestamp.pem"))

	keys, err := LoadKeys(dir, FilesOnly)
	if err != nil || len(keys.Root) != 1 || keys.Timestamp == nil ||
		keys.Targets != nil {
		t.Errorf("%d root keys, %v", len(keys.Root), err)
	}

	judge.Run(t, "openssl", "ecparam", "-genkey", "-noout", "-name", "prime256v1", "-out",
		filepath.Join(dir, "ec.pem"))
	judge.Run(t, "openssl", "pkcs8", "-topk8", "-nocrypt", "-in", filepath.Join(dir, "ec.pem"),
		"-out", filepath.Join(dir, "targets.pem"))

	if _, err := LoadKeys(dir, FilesOnly); err == nil || !strings.Contains(err.Error(), "want ed25519") {
		t.Errorf("error %v", err)
	}
}

func TestInitRefusesARepository(t *testing.T) {
	f := newFixture(t)
	if err := Init(f.dir, f.keys, 1, DefaultExpiries(), f.now); err == nil ||
		!strings.Contains(err.Error(), "is one already") {
		t.Errorf("error %v", err)
	}
}

// TestKeysThatAreNotInFiles: what holds only the public keys publishes as what
// holds the private ones.
func TestKeysThatAreNotInFiles(t *testing.T) {
	dir := t.TempDir()
	files, err := NewKeys(dir, 1)
	if err != nil {
		t.Fatal(err)
	}

	held := map[string]crypto.Signer{}
	for name, key := range map[string]crypto.Signer{
		"root-1":    files.Root[0],
		"targets":   files.Targets,
		"snapshot":  files.Snapshot,
		"timestamp": files.Timestamp,
	} {
		held[name] = key
		der, err := x509.MarshalPKIXPublicKey(key.Public())
		if err != nil {
			t.Fatal(err)
		}
		text := pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: der})
		if err := os.WriteFile(filepath.Join(dir, name+".pem"), text, 0o600); err != nil {
			t.Fatal(err)
		}
	}

	keys, err := LoadKeys(dir, func(name string, _ ed25519.PublicKey) (crypto.Signer, error) {
		return held[name], nil
	})
	if err != nil {
		t.Fatal(err)
	}
	repo := t.TempDir()
	if err := Init(repo, keys, 1, DefaultExpiries(), start); err != nil {
		t.Fatal(err)
	}
	root, err := os.ReadFile(filepath.Join(repo, "metadata/1.root.json"))
	if err != nil {
		t.Fatal(err)
	}
	same := t.TempDir()
	if err := Init(same, files, 1, DefaultExpiries(), start); err != nil {
		t.Fatal(err)
	}
	if want, err := os.ReadFile(filepath.Join(same, "metadata/1.root.json")); err != nil ||
		!bytes.Equal(root, want) {
		t.Errorf("another root.json: %v\n%s\n%s", err, root, want)
	}

	keys, err = LoadKeys(dir, FilesOnly)
	if err != nil {
		t.Fatal(err)
	}
	err = Init(t.TempDir(), keys, 1, DefaultExpiries(), start)
	if fault.Of(err) != fault.KeyUnfit ||
		!strings.Contains(hint.Text(err), "its file has only the public key") {
		t.Errorf("without the private keys: %v", err)
	}
}
