package cluster

import (
	"os"
	"time"
)

// Joined reports whether the node has a certificate of its cluster that is
// valid at now.
func Joined(root *os.Root, now time.Time) bool {
	who, ok := newCredentialStore(root).credentials()
	return ok && now.Before(who.NotAfter)
}
