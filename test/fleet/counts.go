package fleet

import (
	"maps"
	"net/http"
	"strings"
	"sync"
)

// Kinds of requests.
const (
	Watches   = "watches"   // begun
	Polls     = "polls"     // reads of the ledger
	Takes     = "takes"     // writes of the ledger that succeed
	Conflicts = "conflicts" // writes of the ledger that another node preceded
	Lists     = "lists"     // of Nodes
	Renewals  = "renewals"  // of the nodes' own Leases
	Events    = "events"    // created
	Patches   = "patches"   // of Nodes
	Others    = "others"
)

// counts counts the requests of agents, by kind.
type counts struct {
	mu     sync.Mutex
	number map[string]int
	bytes  map[string]int
}

func newCounts() *counts { return &counts{number: map[string]int{}, bytes: map[string]int{}} }

// around counts the requests to a server.
func (c *counts) around(server http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		kind := kindOf(r)
		if kind == Watches {
			c.count(kind, 0)
			server.ServeHTTP(w, r)
			return
		}

		a := &countedAnswer{ResponseWriter: w}
		server.ServeHTTP(a, r)
		if kind == Takes && a.code/100 != 2 {
			kind = Conflicts
		}
		c.count(kind, a.bytes)
	})
}

func (c *counts) count(kind string, bytes int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.number[kind]++
	c.bytes[kind] += bytes
}

// take returns the numbers of requests and the bytes of their answers since the
// last call.
func (c *counts) take() (number, bytes map[string]int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	number = maps.Clone(c.number)
	bytes = maps.Clone(c.bytes)
	clear(c.number)
	clear(c.bytes)
	return number, bytes
}

// kindOf returns the kind of a request.
func kindOf(r *http.Request) string {
	isLedger := strings.HasSuffix(r.URL.Path, "/leases/"+ledgerName)
	creates := r.Method == http.MethodPost
	switch {
	case r.URL.Query().Get("watch") != "":
		return Watches
	case isLedger && r.Method == http.MethodGet:
		return Polls
	case isLedger:
		return Takes
	case strings.HasSuffix(r.URL.Path, "/nodes") && r.Method == http.MethodGet:
		return Lists
	case strings.Contains(r.URL.Path, "/leases/"):
		return Renewals
	case strings.HasSuffix(r.URL.Path, "/events") && creates:
		return Events
	case strings.HasPrefix(r.URL.Path, nodesPath+"/") && r.Method == http.MethodPatch:
		return Patches
	}
	return Others
}

// countedAnswer counts what is written.
type countedAnswer struct {
	http.ResponseWriter
	code, bytes int
}

// WriteHeader implements [http.ResponseWriter].
func (a *countedAnswer) WriteHeader(code int) {
	a.code = code
	a.ResponseWriter.WriteHeader(code)
}

// Write implements [http.ResponseWriter].
func (a *countedAnswer) Write(text []byte) (int, error) {
	a.bytes += len(text)
	return a.ResponseWriter.Write(text)
}
