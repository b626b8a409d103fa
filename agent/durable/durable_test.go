package durable_test

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/loam-os/loam/agent/durable"
	"github.com/loam-os/loam/test/files"
)

var errPower = errors.New("power cut")

func open(t *testing.T) *os.Root {
	t.Helper()
	root := files.Root(t)
	return root
}

func TestStepsOfAWrite(t *testing.T) {
	var steps []string
	root := open(t)
	dir := durable.New(root, func(step durable.Step) error {
		steps = append(steps, step.String())
		return nil
	})

	for range 2 {
		if _, err := dir.WriteFile("a", []byte("one"), 0o640); err != nil {
			t.Fatal(err)
		}
	}

	// The second write has nothing to do.
	temp := ".ca978112ca1bbdca.loam-new"
	want := []string{
		"create " + temp, "write " + temp, "sync " + temp, "rename a from " + temp, "sync dir .",
	}
	if diff := cmp.Diff(want, steps); diff != "" {
		t.Errorf("steps (-want +got):\n%s", diff)
	}

	info, err := root.Stat("a")
	if err != nil || info.Mode() != 0o640 {
		t.Errorf("mode %v, %v", info.Mode(), err)
	}
}

// TestCut stops a rewrite before each step: the file has the old or the new
// content, and a later write succeeds.
func TestCut(t *testing.T) {
	for cut := range 5 {
		root := open(t)
		if _, err := durable.New(root, nil).WriteFile("a", []byte("old"), 0o644); err != nil {
			t.Fatal(err)
		}

		left := cut
		dir := durable.New(root, func(durable.Step) error {
			left--
			if left < 0 {
				return errPower
			}
			return nil
		})
		if _, err := dir.WriteFile("a", []byte("new"), 0o600); !errors.Is(err, errPower) {
			t.Fatalf("cut at %d: %v", cut, err)
		}

		got, err := root.ReadFile("a")
		want := []string{"old", "old", "old", "old", "new"}[cut]
		if err != nil || string(got) != want {
			t.Errorf("cut at %d: %q, %v, want %q", cut, got, err, want)
		}

		did, err := durable.New(root, nil).WriteFile("a", []byte("new"), 0o600)
		if err != nil || did != (cut < 4) {
			t.Errorf("write after a cut at %d: %v, %v", cut, did, err)
		}
	}
}

func TestMkdirAllThroughALinkThatLeadsNowhereYet(t *testing.T) {
	root := open(t)
	if err := root.Symlink("var/opt", "opt"); err != nil {
		t.Fatal(err)
	}
	if err := durable.New(root, nil).WithImage(root.FS()).MkdirAll("opt/bin"); err != nil {
		t.Fatal(err)
	}
	if info, err := root.Stat("var/opt/bin"); err != nil || info.Mode().Perm() != 0o755 {
		t.Errorf("%v, %v", info, err)
	}
}

func TestRefuses(t *testing.T) {
	root := open(t)
	dir := durable.New(root, nil)
	if err := dir.MkdirAll("a/b"); err != nil {
		t.Fatal(err)
	}
	if _, err := dir.WriteFile("a", nil, 0o644); err == nil {
		t.Error("a directory was replaced by a file")
	}

	if _, err := dir.WriteFile("../a", nil, 0o644); err == nil {
		t.Error("a file outside of the root was written")
	}
	if err := dir.Remove("absent"); err != nil {
		t.Errorf("remove of what is not there: %v", err)
	}
	if names, _ := os.ReadDir(root.Name()); len(names) != 1 {
		t.Errorf("temporary files are left: %v", names)
	}
}

func TestAppend(t *testing.T) {
	root := open(t)
	dir := durable.New(root, nil)
	for _, line := range []string{"one", "two"} {
		if err := dir.Append("log", []byte(line), 0o600); err != nil {
			t.Fatal(err)
		}
	}

	// A power cut leaves part of a line, and the next line starts on its own.
	if err := root.WriteFile("log", []byte("one\ntwo\nthr"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := dir.Append("log", []byte("four"), 0o600); err != nil {
		t.Fatal(err)
	}
	if got, err := root.ReadFile("log"); err != nil || string(got) != "one\ntwo\nthr\nfour\n" {
		t.Errorf("%q %v", got, err)
	}
}

func TestBatchSyncsWhatItMade(t *testing.T) {
	for _, files := range []int{3, 100} {
		var synced []string
		root := open(t)
		dir := durable.New(root, func(step durable.Step) error {
			if strings.HasPrefix(string(step.Op), "sync") {
				synced = append(synced, step.String())
			}
			return nil
		})

		b := dir.Batch()
		err := b.Mkdir("d")
		for i := range files {
			err = errors.Join(err, b.File(fmt.Sprintf("d/f%03d", i), strings.NewReader("x"), 0o640))
		}

		err = errors.Join(err, b.Link("d/f000", "l"), b.Symlink("d", "s"), b.Sync())
		if err != nil {
			t.Fatal(err)
		}

		want := []string{"sync d/f000", "sync d/f001", "sync d/f002", "sync dir .", "sync dir d"}
		if files > 32 {
			want = []string{"sync all ."}
		}

		if diff := cmp.Diff(want, synced); diff != "" {
			t.Errorf("%d files (-want +got):\n%s", files, diff)
		}
		if err := b.File("l", strings.NewReader(""), 0o600); err == nil {
			t.Error("a batch replaced a file")
		}
	}
}

func TestBatchWorksInADirectoryThatIsMadeAgain(t *testing.T) {
	root := open(t)
	dir := durable.New(root, nil)
	b := dir.Batch()
	defer b.Close()

	err := errors.Join(b.Mkdir("d"), dir.RemoveAll("d"), b.Mkdir("d"))
	if err != nil {
		t.Fatal(err)
	}

	if err := errors.Join(b.File("d/f", strings.NewReader("x"), 0o640), b.Sync()); err != nil {
		t.Fatal(err)
	}
	if text, err := root.ReadFile("d/f"); err != nil || string(text) != "x" {
		t.Errorf("%q, %v", text, err)
	}
}

// TestFault fails each step of a rewrite once: the file has the old or the new
// content, no temporary is left, and the same Dir can write again.
func TestFault(t *testing.T) {
	for at := range 5 {
		root := open(t)
		left := at
		dir := durable.New(root, func(durable.Step) error {
			left--
			if left == -1 {
				return &durable.Fault{Err: errPower}
			}
			return nil
		})
		if _, err := dir.WriteFile("a", []byte("new"), 0o644); !errors.Is(err, errPower) {
			t.Fatalf("fault at step %d: %v", at, err)
		}

		if names, _ := os.ReadDir(root.Name()); len(names) > 1 || (at < 4 && len(names) > 0) {
			t.Errorf("after a fault at step %d there are %v", at, names)
		}
		if did, err := dir.WriteFile("a", []byte("new"), 0o644); err != nil || did != (at < 4) {
			t.Errorf("write after a fault at step %d: %v %v", at, did, err)
		}
	}
}
