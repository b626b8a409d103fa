package main

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/loam-os/loam/agent/source"
)

const head = "apiVersion: extensions.gardener.cloud/v1alpha1\nkind: OperatingSystemConfig\n" +
	"spec:\n  files:\n"

// nobody is the user of that name on Debian.
const nobody = 65534

// aNode makes a node with two generations, and a document for a third.
func aNode(t *testing.T) (root, document string) {
	t.Helper()
	root = t.TempDir()
	writeFile(t, filepath.Join(root, "usr/lib/os-release"), "IMAGE_VERSION=1.2.3\n")
	writeFile(t, filepath.Join(root, "run/loam/status.json"), `{"hostname": "node-7", "phase": "waiting"}`)

	for i, text := range []string{"one", "two"} {
		doc := source.Document{
			Name: text,
			Text: []byte(head + "  - {path: /etc/a, content: {inline: {data: " + text + "}}}\n"),
		}
		if err := addGeneration(root, i+1, doc); err != nil {
			t.Fatal(err)
		}
	}

	document = filepath.Join(root, "new.yaml")
	writeFile(t, document, head+"  - {path: /etc/b, content: {inline: {data: three}}}\n")
	return root, document
}

// listing is all there is beneath root: mode, owner, size, times of change and
// content, a line each.
func listing(t *testing.T, root string) string {
	t.Helper()
	var out strings.Builder
	err := filepath.WalkDir(root, func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}

		info, err := d.Info()
		if err != nil {
			return err
		}

		s := info.Sys().(*syscall.Stat_t)
		var content []byte
		if d.Type() == 0 {
			content, err = os.ReadFile(name)
		}

		fmt.Fprintf(&out, "%s %v %d:%d %d links %d m %v c %v %x\n", name, info.Mode(), s.Uid, s.Gid,
			s.Size, s.Nlink, s.Mtim, s.Ctim, sha256.Sum256(content))
		return err
	})
	if err != nil {
		t.Fatal(err)
	}

	return out.String()
}

// looks are the commands that only look.
func looks(root, document string) [][]string {
	return [][]string{
		{"plan", "--root", root, document}, {"apply", "--dry-run", "--root", root, document},
		{"history", "--root", root}, {"diff", "--root", root},
		{"status", "--file", filepath.Join(root, "run/loam/status.json")},
	}
}

// loam runs the command in a process of its own, as the given user.
func loam(t *testing.T, as *syscall.Credential, args ...string) string {
	t.Helper()
	cmd := exec.Command("/proc/self/exe", args...)
	cmd.Args[0] = "loam" // TestMain takes that for the command.
	cmd.Dir = "/"
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: as}

	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Errorf("loam %v: %v\n%s", args, err, out)
	}

	return string(out)
}

func TestLookingChangesNothing(t *testing.T) {
	root, document := aNode(t)
	before := listing(t, root)
	for _, args := range looks(root, document) {
		loam(t, nil, args...)
	}
	if diff := cmp.Diff(before, listing(t, root)); diff != "" {
		t.Errorf("the node (-before +after):\n%s", diff)
	}
}

func TestLookingNeedsNothingToBeWritable(t *testing.T) {
	root, document := aNode(t)
	as := readOnly(t, root)
	for _, args := range looks(root, document) {
		loam(t, as, args...)
	}

	got := loam(t, as, "plan", "--root", root, document)
	if !strings.Contains(got, "added    /etc/b") {
		t.Errorf("plan: %s", got)
	}
}

// readOnly makes a tree that the returned user, nil for the present one, can
// read and not write.
func readOnly(t *testing.T, root string) (as *syscall.Credential) {
	t.Helper()
	isRoot := os.Geteuid() == 0
	if isRoot {
		as = &syscall.Credential{Uid: nobody, Gid: nobody}
		if err := os.Chmod(filepath.Dir(root), 0o711); err != nil {
			t.Fatal(err)
		}
	}

	var dirs []string
	err := filepath.WalkDir(root, func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.Type() == fs.ModeSymlink {
			return err
		}

		info, err := d.Info()
		if err == nil && isRoot {
			err = os.Chown(name, nobody, nobody)
		}

		if d.IsDir() {
			dirs = append(dirs, name)
		}

		return errors.Join(err, os.Chmod(name, info.Mode().Perm()&^0o222))
	})
	if err != nil {
		t.Fatal(err)
	}

	t.Cleanup(func() {
		for _, dir := range dirs { // so that they can be removed
			_ = os.Chmod(dir, 0o755)
		}
	})

	return as
}
