package networkd

import (
	"fmt"
	"os"
	"path"

	"github.com/loam-os/loam/agent/durable"
)

// unread exists until a running networkd has read the files that were written
// for it. If the agent ends before that, the next one restarts networkd.
const unread = "run/loam/network-unread"

// MarkUnread records, before Put, that networkd must be restarted after it.
func MarkUnread(node *durable.Dir) error {
	if err := node.MkdirAll(path.Dir(unread)); err != nil {
		return fmt.Errorf("network: %w", err)
	}
	if err := node.WriteVolatile(unread, nil, 0o644); err != nil {
		return fmt.Errorf("network: %w", err)
	}
	return nil
}

// Unread reports whether networkd must still be restarted.
func Unread(root *os.Root) bool {
	_, err := root.Stat(unread)
	return err == nil
}

// MarkRead records that networkd has been restarted.
func MarkRead(node *durable.Dir) error { return node.Remove(unread) }
