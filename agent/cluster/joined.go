package cluster

import (
	"os"
	"time"
)

// Joined reports whether the node has a certificate of its cluster that has not
// expired by now.
func Joined(root *os.Root, now time.Time) bool {
	who, ok := keepOf(root).credentials()
	return ok && now.Before(who.NotAfter)
}
