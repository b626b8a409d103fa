package agent

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"go.uber.org/zap"
	"golang.org/x/sys/unix"

	"github.com/loam-os/loam/agent/durable"
)

// dueName is the file below /run by which Debian's packages say that the machine is
// to be restarted. kured and others look for it.
const dueName = "reboot-required"

// dueBegin is how Loam's text in it begins, and maxDue is longer than that text.
const (
	dueBegin = "Loam "
	maxDue   = 1 << 10
)

// dueFile tells the programs of others whether a restart is due.
type dueFile struct {
	run string
	log *zap.Logger

	// logged is the last error: the file is looked at with each step of an upgrade.
	logged string
}

// say says that a restart would bring the version, or, if it is "", that none does.
func (d *dueFile) say(version string) {
	text := ""
	err := sayRestart(d.run, version)
	if err != nil {
		text = err.Error()
	}
	if text != "" && text != d.logged {
		d.log.Error("say that a restart is due", zap.Error(err))
	}
	d.logged = text
}

// sayRestart says below run that a restart would bring the version, or, if it is "",
// that none does. What others have said there stays, and so does what is no regular
// file.
func sayRestart(run, version string) error {
	root, err := os.OpenRoot(run)
	if err != nil {
		return err
	}
	defer root.Close()

	info, err := root.Lstat(dueName)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return writeDue(root, version, "")
	case err != nil:
		return err
	case !info.Mode().IsRegular() && version == "":
		return nil
	case !info.Mode().IsRegular():
		return fmt.Errorf("%s is not a regular file: it stays as it is", filepath.Join(run, dueName))
	}

	text, err := readDue(root)
	isOurs := strings.HasPrefix(text, dueBegin)
	switch {
	case err != nil:
		return err
	case version == "" && isOurs:
		return root.Remove(dueName)
	case isOurs, text == "": // Nobody has written there, at most touched it.
		return writeDue(root, version, text)
	}
	return nil
}

// readDue returns how the file begins. It waits for nobody, whatever has taken its
// place since.
func readDue(root *os.Root) (string, error) {
	f, err := root.OpenFile(dueName, os.O_RDONLY|unix.O_NONBLOCK|unix.O_NOFOLLOW, 0)
	if err != nil {
		return "", err
	}
	defer f.Close()

	text, err := io.ReadAll(io.LimitReader(f, maxDue))
	return string(text), err
}

// writeDue writes that a restart would bring the version, if there is one and the
// file does not say so.
func writeDue(root *os.Root, version, before string) error {
	text := dueBegin + version + " is ready: the next restart tries it\n"
	if version == "" || text == before {
		return nil
	}
	return durable.New(root, nil).WriteVolatile(dueName, []byte(text), 0o644)
}
