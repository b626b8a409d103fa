package install

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/loam-os/loam/firmware/efivar"
	"github.com/loam-os/loam/firmware/loadoption"
)

// TestStartNext: the disk is the next to be started and the first of the order,
// and is in the menu once.
func TestStartNext(t *testing.T) {
	sys := t.TempDir()
	layout := table(t, [32]byte{1, 16: 2})
	if err := StartNext(sys, layout); !errors.Is(err, ErrNoVariables) {
		t.Errorf("a machine without variables: %v", err)
	}

	if err := os.MkdirAll(filepath.Join(sys, efivar.Dir), 0o755); err != nil {
		t.Fatal(err)
	}

	for name, value := range map[string][]byte{
		"Boot0000":  []byte("network"),
		"BootOrder": loadoption.EncodeOrder(0, 7),
	} {
		if err := efivar.Write(sys, name, efivar.Global, value); err != nil {
			t.Fatal(err)
		}
	}

	for range 2 {
		if err := StartNext(sys, layout); err != nil {
			t.Fatal(err)
		}

		option, err := loaderOf(layout)
		if err != nil {
			t.Fatal(err)
		}

		for name, want := range map[string][]byte{
			"Boot0001":  option,
			"BootNext":  loadoption.EncodeOrder(1),
			"BootOrder": loadoption.EncodeOrder(1, 0, 7),
		} {
			have, err := efivar.Read(os.DirFS(sys), name, efivar.Global)
			if err != nil || !bytes.Equal(have, want) {
				t.Errorf("%s: %x, %v; want %x", name, have, err, want)
			}
		}
		if _, err := efivar.Read(os.DirFS(sys), "Boot0002", efivar.Global); err == nil {
			t.Error("the disk is in the menu twice")
		}
	}
}

// Firmware rewrites the option that it was given, and lists one that it cannot
// read: the disk is in the menu once all the same, and is the next to be started.
func TestTheDiskIsInTheMenuOnce(t *testing.T) {
	sys := t.TempDir()
	if err := os.MkdirAll(filepath.Join(sys, efivar.Dir), 0o755); err != nil {
		t.Fatal(err)
	}
	unreadable := filepath.Join(sys, efivar.Dir, "Boot0000-"+efivar.Global)
	if err := os.WriteFile(unreadable, nil, 0o644); err != nil {
		t.Fatal(err)
	}

	layout := table(t, [32]byte{1, 16: 2})
	for range 3 {
		if err := StartNext(sys, layout); err != nil {
			t.Fatal(err)
		}

		there, err := loadoption.List(os.DirFS(sys))
		if err != nil || len(there) != 2 || there[1] == nil {
			t.Fatalf("boot menu: %x, %v; want Boot0000 and Boot0001", there, err)
		}
		rewritten := append(there[1], "Auto"...)
		if err := efivar.Write(sys, "Boot0001", efivar.Global, rewritten); err != nil {
			t.Fatal(err)
		}
	}

	next, err := efivar.Read(os.DirFS(sys), "BootNext", efivar.Global)
	if err != nil || !bytes.Equal(next, loadoption.EncodeOrder(1)) {
		t.Errorf("BootNext: %x, %v", next, err)
	}
}
