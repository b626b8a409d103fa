package networkd

import (
	"fmt"
	"os"
	"path"

	"github.com/loam-os/loam/agent/durable"
)

// unread is there until a networkd that runs has read what was put for it: an
// agent that ends before that leaves the restart to the next one.
const unread = "run/loam/network-unread"

// MarkUnread says, before Put, that networkd is to be restarted after it.
func MarkUnread(node *durable.Dir) error {
	if err := node.MkdirAll(path.Dir(unread)); err != nil {
		return fmt.Errorf("network: %w", err)
	}
	if err := node.WriteVolatile(unread, nil, 0o644); err != nil {
		return fmt.Errorf("network: %w", err)
	}
	return nil
}

// Unread reports whether that is still to be done.
func Unread(root *os.Root) bool {
	_, err := root.Stat(unread)
	return err == nil
}

// MarkRead says that it is done.
func MarkRead(node *durable.Dir) error { return node.Remove(unread) }
