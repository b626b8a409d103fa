package initial_test

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/loam-os/loam/agent/durable"
	"github.com/loam-os/loam/agent/initial"
	"github.com/loam-os/loam/agent/machine"
)

const dir = machine.NodeAgentDirectory

var mode = uint32(0o640)

// given returns the files of user data with this token.
func given(token string) []machine.InitialFile {
	return []machine.InitialFile{
		{
			Path:    dir + "/config-v1.yaml",
			Content: "kind: NodeAgentConfiguration\n",
		},
		{
			Path:    dir + "/credentials/bootstrap-token",
			Mode:    &mode,
			Content: token,
		},
	}
}

// node is the root directory of a machine.
type node struct {
	path string
	root *os.Root
}

func newNode(t *testing.T) node {
	t.Helper()
	n := node{path: t.TempDir()}
	root, err := os.OpenRoot(n.path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { root.Close() })
	n.root = root

	return n
}

func (n node) place(files []machine.InitialFile, joined bool, hook durable.Hook) (bool, error) {
	return initial.Place(durable.New(n.root, hook), files, joined)
}

// token returns the node's bootstrap token, "" if none.
func (n node) token(t *testing.T) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(n.path, dir, "credentials/bootstrap-token"))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		t.Fatal(err)
	}
	return string(text)
}

func TestPlace(t *testing.T) {
	n := newNode(t)
	if wrote, err := n.place(given("one"), false, nil); !wrote || err != nil {
		t.Fatalf("Place on an empty machine = %v, %v", wrote, err)
	}

	var got []string
	for _, f := range given("one") {
		text, err := os.ReadFile(filepath.Join(n.path, f.Path))
		if err != nil {
			t.Fatal(err)
		}
		info, err := os.Stat(filepath.Join(n.path, f.Path))
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, info.Mode().String()+" "+string(text))
	}

	diff := cmp.Diff([]string{"-rw------- kind: NodeAgentConfiguration\n", "-rw-r----- one"}, got)
	if diff != "" {
		t.Errorf("files (-want +got):\n%s", diff)
	}
}

// Each row is a boot of a machine that was started with the token "one", which
// was then used up and deleted.
func TestLaterBoots(t *testing.T) {
	quoted := given("")
	quoted[1].Base64 = "b25l"

	for _, test := range []struct {
		name   string
		files  []machine.InitialFile
		joined bool
		want   string
		err    error
	}{
		{name: "the same user data", files: given("one"), joined: true},
		{
			name:   "the same files in another notation",
			files:  []machine.InitialFile{given("one")[0], quoted[1]},
			joined: true,
		},
		{name: "the same, and the certificate has expired", files: given("one")},
		{name: "a new token, and the certificate has expired", files: given("two"), want: "two"},
		{
			name:   "a new token for a machine that has joined",
			files:  given("two"),
			joined: true,
			err:    initial.ErrJoined,
		},
		{name: "no more files", joined: true},
	} {
		t.Run(test.name, func(t *testing.T) {
			n := newNode(t)
			if _, err := n.place(given("one"), false, nil); err != nil {
				t.Fatal(err)
			}
			if err := n.root.Remove(dir[1:] + "/credentials/bootstrap-token"); err != nil {
				t.Fatal(err)
			}

			wrote, err := n.place(test.files, test.joined, nil)
			if !errors.Is(err, test.err) || wrote != (test.want != "") {
				t.Errorf("Place = %v, %v, want error %v", wrote, err, test.err)
			}

			if got := n.token(t); got != test.want {
				t.Errorf("token %q, want %q", got, test.want)
			}
		})
	}
}

// Cuts the power before each step: the next boot has all files, and the boot
// after that, when the token has been used up, does not bring it back.
func TestPlaceSurvivesPowerCuts(t *testing.T) {
	errCut := errors.New("power cut")
	for at := 0; ; at++ {
		n := newNode(t)
		steps := 0
		_, err := n.place(given("one"), false, func(durable.Step) error {
			if steps == at {
				return errCut
			}
			steps++
			return nil
		})
		if err == nil {
			if at < 8 {
				t.Errorf("only %d steps", at)
			}
			return
		}

		if !errors.Is(err, errCut) {
			t.Fatal(err)
		}

		if _, err := n.place(given("one"), false, nil); err != nil || n.token(t) != "one" {
			t.Errorf("cut before step %d: token %q, %v", at, n.token(t), err)
		}
		if err := n.root.Remove(dir[1:] + "/credentials/bootstrap-token"); err != nil {
			t.Fatal(err)
		}
		if wrote, err := n.place(given("one"), false, nil); wrote || err != nil {
			t.Errorf("cut before step %d: the boot after it: Place = %v, %v", at, wrote, err)
		}
	}
}

func TestCorruptRecordWritesNothing(t *testing.T) {
	n := newNode(t)
	if err := os.MkdirAll(filepath.Join(n.path, machine.PlacedFile), 0o755); err != nil {
		t.Fatal(err)
	}
	if wrote, err := n.place(given("one"), false, nil); wrote || err == nil || n.token(t) != "" {
		t.Errorf("Place = %v, %v", wrote, err)
	}
}
