// Package initial writes the files of machine.yaml on a machine that has not
// joined its cluster yet. Gardener's user data has them: the address of the API
// server, the identity of the machine, and a bootstrap token. The same user
// data is attached at every later boot, when the token has been used up and
// deleted and a configuration has replaced the other files with newer ones. So
// they are written once.
//
// The digest of the files is written last. After a power cut all files are
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
	"github.com/loam-os/loam/hint"
)

// ErrJoined means that the files of machine.yaml differ from the files with
// which the machine has joined its cluster.
var ErrJoined = hint.With(
	errors.New(
		"files of machine.yaml have changed and are not written: the machine has joined its "+
			"cluster with those from before",
	),
	"`loam reset` makes it forget the cluster and begin with the new ones",
)

// Place writes all files durably and reports whether it did. It never writes
// the same files twice, even if they have changed or gone since, and returns
// ErrJoined for different files on a machine that has joined its cluster. It
// can be repeated after an interruption at any point.
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

	// Recorded files are not written again, so the record comes last.
	return true, write(node, machine.PlacedFile, []byte(want+"\n"), 0o600)
}

// placed returns the digest of the files that were placed last, "" if none.
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

// digest identifies files by path and content, however machine.yaml writes
// them.
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

	text, _ := json.Marshal(list) // Encoding a file cannot fail.
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:])
}

func relative(name string) string { return strings.TrimPrefix(name, "/") }
