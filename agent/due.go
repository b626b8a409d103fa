package agent

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// dueName is the file below /run by which Debian's packages say that the machine is
// to be restarted. kured and others look for it.
const dueName = "reboot-required"

// dueBegin is how Loam's text in it begins.
const dueBegin = "Loam "

// sayRestart says below run that a restart would bring the version, or, if it is "",
// that none does. What others have said there stays.
func sayRestart(run, version string) error {
	name := filepath.Join(run, dueName)
	text, err := os.ReadFile(name)
	isOurs := err == nil && strings.HasPrefix(string(text), dueBegin)
	switch {
	case err != nil && !errors.Is(err, fs.ErrNotExist):
		return err
	case version == "" && isOurs:
		return os.Remove(name)
	case version == "", err == nil && !isOurs:
		return nil
	}
	return os.WriteFile(name,
		[]byte(dueBegin+version+" is ready: the next restart tries it\n"), 0o644)
}
