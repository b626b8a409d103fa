package pki

import (
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/loam-os/loam/agent/durable"
	"github.com/loam-os/loam/hint"
	"github.com/loam-os/loam/test/files"
)

const keysDir = "var/lib/loam/plane/keys"

func renew(t *testing.T, s Store, now time.Time) []Renewal {
	t.Helper()
	renewed, err := s.Renew(Leaves(names), []string{"secrets"}, at(now))
	if err != nil {
		t.Fatal(err)
	}
	return renewed
}

// verify checks each leaf at that time as its peers do.
func verify(t *testing.T, s Store, leaves []Leaf, now time.Time) {
	t.Helper()
	authorities, err := s.Authorities()
	if err != nil {
		t.Fatal(err)
	}

	have := s.Certificates(leaves)
	for _, leaf := range leaves {
		cert := have[leaf.Name]
		if cert == nil {
			t.Fatalf("%s: there is no certificate", leaf.Name)
		}
		roots := x509.NewCertPool()
		roots.AddCert(authorities[leaf.Authority].Certificate)
		for _, usage := range leaf.usage() {
			name := ""
			if usage == x509.ExtKeyUsageServerAuth {
				name = leaf.Names[0]
			}
			if _, err := cert.Verify(x509.VerifyOptions{
				Roots:       roots,
				CurrentTime: now,
				DNSName:     name,
				KeyUsages:   []x509.ExtKeyUsage{usage},
			}); err != nil {
				t.Errorf("%s on %s: %v", leaf.Name, now.Format(time.DateOnly), err)
			}
		}
	}
}

func TestACluster(t *testing.T) {
	root := files.Root(t)
	steps := 0
	store := NewStore(durable.New(root, func(durable.Step) error { steps++; return nil }), keysDir)

	if _, err := store.Renew(nil, nil, at(built)); !errors.Is(err, ErrAbsent) {
		t.Errorf("renew without authorities: %v", err)
	}
	if err := store.Create("plant-7", at(built)); err != nil {
		t.Fatal(err)
	}
	if err := store.Create("plant-8", at(built)); !errors.Is(err, ErrExists) {
		t.Errorf("a second cluster: %v", err)
	}

	if renewed := renew(t, store, built); len(renewed) != len(Leaves(names)) {
		t.Errorf("issued %v", renewed)
	}
	verify(t, store, Leaves(names), built)

	before := steps
	if renewed := renew(t, store, built.Add(day)); renewed != nil || steps != before {
		t.Errorf("all is well, but %d steps were done for %v", steps-before, renewed)
	}
}

func TestOnlyRootReadsKeys(t *testing.T) {
	root := files.Root(t)
	store := NewStore(durable.New(root, nil), keysDir)
	if err := store.Create("plant-7", at(built)); err != nil {
		t.Fatal(err)
	}
	renew(t, store, built)

	err := fs.WalkDir(root.FS(), keysDir, func(name string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		info, err := e.Info()
		if err != nil {
			return err
		}
		want := fs.FileMode(0o600)
		if strings.HasSuffix(name, ".crt") || strings.HasSuffix(name, ".pub") {
			want = 0o644
		}
		text, err := root.ReadFile(name)
		if info.Mode() != want || (want == 0o644 && strings.Contains(string(text), "PRIVATE")) {
			t.Errorf("%s has mode %s:\n%s", name, info.Mode(), text)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

func TestSecretsAreEncryptedFromTheStart(t *testing.T) {
	root := files.Root(t)
	store := NewStore(durable.New(root, nil), keysDir)
	if err := store.Create("plant-7", at(built)); err != nil {
		t.Fatal(err)
	}

	var first string
	for _, resources := range [][]string{{"secrets"}, {"configmaps", "secrets"}} {
		if _, err := store.Renew(nil, resources, at(built)); err != nil {
			t.Fatal(err)
		}
		var config struct {
			Resources []struct {
				Resources []string
				Providers []struct {
					Secretbox struct{ Keys []struct{ Secret []byte } }
				}
			}
		}
		text, err := root.ReadFile(store.files.Encryption())
		if err != nil {
			t.Fatal(err)
		}
		if err := json.Unmarshal(text, &config); err != nil {
			t.Fatal(err)
		}

		got := config.Resources[0]
		key := string(got.Providers[0].Secretbox.Keys[0].Secret)
		if fmt.Sprint(got.Resources) != fmt.Sprint(resources) || len(key) != 32 ||
			(first != "" && key != first) {
			t.Errorf("encryption configuration %s", text)
		}
		first = key
	}
}

// Clocks jump between starts: behind the image, right, years ahead. In each
// order every leaf is valid at each start.
func TestWrongClocksInAllOrders(t *testing.T) {
	clocks := []time.Time{
		built, built.AddDate(0, 9, 0), built.AddDate(5, 0, 0), built.AddDate(15, 0, 0),
	}
	var orders func(done, left []time.Time) [][]time.Time
	orders = func(done, left []time.Time) [][]time.Time {
		if len(left) == 0 {
			return [][]time.Time{done}
		}
		var all [][]time.Time
		for i, next := range left {
			rest := append(append([]time.Time{}, left[:i]...), left[i+1:]...)
			all = append(all, orders(append(append([]time.Time{}, done...), next), rest)...)
		}
		return all
	}

	for _, order := range orders(nil, clocks) {
		store := NewStore(durable.New(files.Root(t), nil), keysDir)
		if err := store.Create("plant-7", at(order[0])); err != nil {
			t.Fatal(err)
		}
		for _, now := range order {
			renew(t, store, now)
			verify(t, store, Leaves(names), now)
		}
	}
}

func TestDamageIsNotReplacedByAnotherCluster(t *testing.T) {
	root := files.Root(t)
	store := NewStore(durable.New(root, nil), keysDir)
	if err := store.Create("plant-7", at(built)); err != nil {
		t.Fatal(err)
	}
	renew(t, store, built)

	// A leaf is issued again,
	if err := root.WriteFile(store.files.Leaf(Kubelet), []byte("x"), 0o600); err != nil {
		t.Fatal(err)
	}
	renewed := renew(t, store, built)
	if len(renewed) != 1 || renewed[0].Leaf.Name != Kubelet {
		t.Errorf("renewed %v", renewed)
	}

	// an authority is not.
	if err := root.Remove(store.files.AuthorityKey(EtcdCA)); err != nil {
		t.Fatal(err)
	}
	_, err := store.Renew(Leaves(names), nil, at(built))
	if !errors.Is(err, os.ErrNotExist) || !strings.HasPrefix(hint.Of(err), "restore ") {
		t.Errorf("without the key of an authority: %v; hint %s", err, hint.Of(err))
	}
	if err := store.Create("plant-7", at(built)); !errors.Is(err, ErrExists) {
		t.Errorf("created again: %v", err)
	}
}
