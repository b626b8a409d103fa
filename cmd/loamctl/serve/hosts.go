package serve

import (
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strings"

	"github.com/loam-os/loam/image/pxe"
)

// hosts are the names and addresses by which clients may call this server, besides
// the address that they are connected to.
//
// A web page may have its own name resolve to the address of this server (DNS
// rebinding): the browser then takes this server for the page's own, and lets the
// page read answers and send any header. What it cannot change is the name in its
// requests.
type hosts []string

// have reports whether a request to host may be answered on a connection to local.
// The port does not count: it may be another one on the way here.
func (h hosts) have(host string, local netip.Addr) bool {
	name := strings.ToLower(host)
	if at, _, err := net.SplitHostPort(name); err == nil {
		name = at
	}
	name = strings.TrimSuffix(strings.TrimPrefix(name, "["), "]")

	local = local.Unmap().WithZone("")
	if address, err := netip.ParseAddr(name); err == nil &&
		address.Unmap().WithZone("") == local {
		return true
	}
	isName := func(own string) bool { return strings.EqualFold(own, name) }
	return slices.ContainsFunc(h, isName) || (name == "localhost" && local.IsLoopback())
}

// guard refuses requests to other hosts. Files that are public anyway are for any
// name, as firmware may be told one.
func (h hosts) guard(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !isPublic(r.URL.Path) && !h.have(r.Host, localOf(r)) {
			http.Error(w, fmt.Sprintf("this server is not %.100q; hint: if it is: "+
				"loamctl serve --host NAME", r.Host), http.StatusMisdirectedRequest)
			return
		}
		next.ServeHTTP(w, r)
	})
}

// isPublic reports whether a path is of a file of a repository or of a build, or
// the script of iPXE.
func isPublic(path string) bool {
	return !strings.HasPrefix(path, "/v1/") || strings.HasPrefix(path, pxe.FilesPath) ||
		path == pxe.ScriptPath
}

// localOf returns the address that a client is connected to, zero if unknown.
func localOf(r *http.Request) netip.Addr {
	addr, ok := r.Context().Value(http.LocalAddrContextKey).(net.Addr)
	if !ok {
		return netip.Addr{}
	}
	at, err := netip.ParseAddrPort(addr.String())
	if err != nil {
		return netip.Addr{}
	}
	return at.Addr()
}
