// Package initial puts the files of machine.yaml on a machine that has not
// joined its cluster yet. Gardener's user data has them: how the API server is
// reached, who the machine is, and a bootstrap token. The same user data is
// attached at every later boot, when the token has been used up and deleted and
// a configuration has brought newer files in the place of the others. So they
// are written once.
//
// The digest of what was written comes last, so after a power cut all of it is
// written again, and a used bootstrap token does not come back with the next
// boot.
package initial

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"strings"

	"github.com/loam-os/loam/agent/durable"
	"github.com/loam-os/loam/agent/machine"
)

// ErrJoined means that the files of machine.yaml are others than those that the
// machine has joined its cluster with.
var ErrJoined = errors.New("files of machine.yaml have changed and are not written: " +
	"the machine has joined its cluster with those from before; " +
	"hint: `loam reset` makes it forget the cluster and begin with the new ones")

// Place writes files durably, all of them, and reports whether it did. It
// writes none that it has written before, whatever has become of them, and
// returns ErrJoined instead of writing others to a machine that has joined its
// cluster. Cut off anywhere, it can be called again.
func Place(node *durable.Dir, files []machine.InitialFile, joined bool) (bool, error) {
	if len(files) == 0 {
		return false, nil
	}

	want := digest(files)
	have, err := placed(node)
	switch {
	case err != nil:
		return false, err
	case have == want:
		return false, nil
	case joined:
		return false, ErrJoined
	}

	for _, f := range files {
		if err := write(node, f.Path, f.Data(), f.Permissions()); err != nil {
			return false, err
		}
	}

	// What is recorded must not be written again, so the record comes last.
	return true, write(node, machine.PlacedFile, []byte(want+"\n"), 0o600)
}

// placed returns the digest of the files that were placed last, "" if none
// were.
func placed(node *durable.Dir) (string, error) {
	text, err := node.Root().ReadFile(relative(machine.PlacedFile))
	if errors.Is(err, fs.ErrNotExist) {
		return "", nil
	}
	if err != nil {
		return "", fmt.Errorf("read which files of machine.yaml were written: %w", err)
	}
	return strings.TrimSpace(string(text)), nil
}

func write(node *durable.Dir, name string, data []byte, mode fs.FileMode) error {
	name = relative(name)
	if err := node.MkdirAll(path.Dir(name)); err != nil {
		return err
	}
	_, err := node.WriteFile(name, data, mode)
	return err
}

// digest identifies files by where they are and what is in them, however
// machine.yaml writes that.
func digest(files []machine.InitialFile) string {
	type file struct {
		Path string
		Mode fs.FileMode
		Data []byte
	}

	list := make([]file, len(files))
	for i, f := range files {
		list[i] = file{
			Path: f.Path,
			Mode: f.Permissions(),
			Data: f.Data(),
		}
	}

	text, _ := json.Marshal(list) // No type of file can fail.
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:])
}

func relative(name string) string { return strings.TrimPrefix(name, "/") }
