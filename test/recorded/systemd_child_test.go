package recorded

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"time"

	"github.com/loam-os/loam/test/fakesystemd"
)

// systemdVariable has this program run as the systemd of the node in that
// directory.
const systemdVariable = "LOAM_RECORDED_SYSTEMD"

// socketOf is where the systemd of the node in dir answers.
func socketOf(dir string) string { return filepath.Join(dir, "private") }

// runSystemd is a systemd, with 5 ms a job, until standard input ends.
func runSystemd(dir string) error {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return fmt.Errorf("fake systemd: %w", err)
	}
	defer root.Close()

	listener, err := net.Listen("unix", socketOf(dir))
	if err != nil {
		return fmt.Errorf("fake systemd: %w", err)
	}

	return fakesystemd.New(root, 5*time.Millisecond).Serve(untilInputEnds(), listener)
}

// startSystemd runs the systemd of the node in dir as a process of its own, and
// returns its socket.
func (w *fixture) startSystemd(dir string) string {
	w.Helper()
	w.startSelf(systemdVariable, dir)
	w.await("systemd", func() error {
		conn, err := net.Dial("unix", socketOf(dir))
		if err != nil {
			return err
		}
		return conn.Close()
	})
	return socketOf(dir)
}
