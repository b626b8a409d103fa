package hostname

import (
	"net/url"
	"strconv"
)

// InURL reports whether a URL names a host, and a port from 1 on if it has a colon
// behind it.
func InURL(u *url.URL) bool {
	if u.Hostname() == "" {
		return false
	}
	if u.Port() == "" {
		return u.Host[len(u.Host)-1] != ':'
	}
	port, err := strconv.ParseUint(u.Port(), 10, 16)
	return err == nil && port > 0
}
