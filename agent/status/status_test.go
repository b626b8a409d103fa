package status

import (
	"bytes"
	"os"
	"testing"

	"github.com/loam-os/loam/agent/durable"
)

// An error of a fetch may name the repository. Only `loam plan`, as root, needs the
// password.
func TestOnlyTheRepositoryOfAStatusHasAPassword(t *testing.T) {
	dir := t.TempDir()
	root, err := os.OpenRoot(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer root.Close()

	const repository = "https://ada:s3cret@192.0.2.1/updates"
	s := Status{
		Repository: repository,
		Upgrade:    &Upgrade{Problem: "fetch a.pack from " + repository + ": no answer"},
	}
	if err := Write(durable.New(root, nil), s); err != nil {
		t.Fatal(err)
	}

	text, err := os.ReadFile(dir + Path)
	if err != nil {
		t.Fatal(err)
	}
	if n := bytes.Count(text, []byte("s3cret")); n != 1 {
		t.Errorf("the password is there %d times:\n%s", n, text)
	}
	if info, err := os.Stat(dir + Path); err != nil || info.Mode() != 0o600 {
		t.Errorf("mode %v, %v", info, err)
	}

	read, err := Parse(text)
	if err != nil || read.Repository != repository {
		t.Errorf("repository %q, %v", read.Repository, err)
	}
	const want = "fetch a.pack from https://ada:xxxxx@192.0.2.1/updates: no answer"
	if read.Upgrade.Problem != want {
		t.Errorf("%q, want %q", read.Upgrade.Problem, want)
	}
}
