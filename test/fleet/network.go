package fleet

import (
	"bytes"
	"context"
	"io"
	"math/rand/v2"
	"net/http"
	"os"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/loam-os/loam/test/apiserver"
)

// trouble is what is wrong with a network. The zero trouble is nothing.
type trouble struct {
	// cut is a partition. A request then waits for its answer if silent, or is
	// refused.
	cut, silent bool

	// lost is the share of the requests that the server does, and whose answers are
	// lost. busy is the share that it answers with 429, or with 500 or 504, before
	// or after it does them.
	lost, busy float64

	// slow is how long a request is on its way at most, 0 for a tenth of a second.
	slow time.Duration

	// watch is how long it takes until a watch begins.
	watch time.Duration
}

// trap is an accident that happens with the next request that matches.
type trap struct {
	matches func(*http.Request) bool

	// after says that the server has done the request, and its answer is on its way.
	after bool

	do func()
}

// network is the way of one machine to the server, with faults. It implements [http.RoundTripper]. Each request is on its way for a while, there and
// back, so an agent can die in between.
type network struct {
	fleet     *Fleet
	transport apiserver.Transport

	mu      sync.Mutex
	random  *rand.Rand
	trouble trouble
	trap    *trap

	// tamper changes an answer of the server, before the agent has it; nil for no
	// change. It seeds bugs.
	tamper func(*http.Request, *http.Response)

	// list is what the agent has listed last.
	list map[string]seenNode
}

func newNetwork(f *Fleet, random *rand.Rand) *network {
	return &network{
		fleet:     f,
		random:    random,
		transport: apiserver.Transport{Server: f.counts.around(f.Server)},
	}
}

// set makes t the trouble.
func (n *network) set(t trouble) {
	n.mu.Lock()
	n.trouble = t
	n.mu.Unlock()
	if t.cut {
		n.transport.Cut()
	}
}

// is returns the trouble.
func (n *network) is() trouble {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.trouble
}

// catch sets a trap, nil for none.
func (n *network) catch(t *trap) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.trap = t
}

// trip has the accident of a trap happen, if r is the request.
func (n *network) trip(r *http.Request, after bool) {
	n.mu.Lock()
	t := n.trap
	if t == nil || t.after != after || !t.matches(r) {
		n.mu.Unlock()
		return
	}
	n.trap = nil
	n.mu.Unlock()

	select {
	case n.fleet.happening <- t.do:
	case <-n.fleet.ctx.Done():
	}
	// Now it happens: the accident takes no time.
	sleep(r.Context(), time.Millisecond)
}

// fate is what happens to a request.
type fate struct {
	there, back time.Duration

	// isLost says that the answer is lost. code is an answer that is not that of the
	// server, 0 for none; done says that the server has done the request.
	isLost bool
	code   int
	done   bool

	// goesOn says that the request reaches the server although its agent does not
	// wait for it any more.
	goesOn bool
}

func (n *network) fate() fate {
	n.mu.Lock()
	defer n.mu.Unlock()
	t := n.trouble
	slow := t.slow
	if slow == 0 {
		slow = 100 * time.Millisecond
	}
	f := fate{
		there:  time.Millisecond + time.Duration(n.random.Int64N(int64(slow))),
		back:   time.Millisecond + time.Duration(n.random.Int64N(int64(slow))),
		isLost: n.random.Float64() < t.lost,
		goesOn: n.random.IntN(2) == 0,
	}
	if n.random.Float64() < t.busy {
		f.code = []int{
			http.StatusTooManyRequests, http.StatusInternalServerError, http.StatusGatewayTimeout,
		}[n.random.IntN(3)]
		f.done = f.code != http.StatusTooManyRequests && n.random.IntN(2) == 0
	}
	return f
}

var (
	errCut    error = syscall.ECONNREFUSED
	errLost   error = syscall.ECONNRESET
	errSilent error = os.ErrDeadlineExceeded
)

// RoundTrip implements [http.RoundTripper].
func (n *network) RoundTrip(r *http.Request) (*http.Response, error) {
	var body []byte
	if r.Body != nil {
		text, err := io.ReadAll(r.Body)
		_ = r.Body.Close()
		if err != nil {
			return nil, err
		}
		body = text
	}
	ctx := r.Context()
	fate := n.fate()
	n.mu.Lock()
	list := n.list
	n.mu.Unlock()

	if !sleep(ctx, fate.there) {
		if fate.goesOn && !n.is().cut && r.URL.Query().Get("watch") == "" {
			n.fleet.group.Go(func() {
				sleep(n.fleet.ctx, fate.back)
				n.serve(r, body, list)
			})
		}
		return nil, ctx.Err()
	}
	n.trip(r, false)
	if err := n.passes(ctx); err != nil {
		return nil, err
	}
	if r.URL.Query().Get("watch") != "" {
		if !sleep(ctx, n.is().watch) {
			return nil, ctx.Err()
		}
		return n.transport.RoundTrip(r)
	}
	if fate.code != 0 && !fate.done {
		return failed(r, fate.code), nil
	}

	a, list := n.serve(r, body, list)
	n.trip(r, true)
	if !sleep(ctx, fate.back) {
		return nil, ctx.Err()
	}
	if err := n.passes(ctx); err != nil {
		return nil, err
	}
	switch {
	case fate.isLost:
		return nil, errLost
	case fate.code != 0:
		return failed(r, fate.code), nil
	}

	n.mu.Lock()
	n.list = list
	n.mu.Unlock()
	return a, nil
}

// pingTimeout is after how long a client notices that a connection is dead: that is
// client-go's time without a frame, and for the answer to a ping after it.
const pingTimeout = 45 * time.Second

// passes returns an error in a partition.
func (n *network) passes(ctx context.Context) error {
	t := n.is()
	switch {
	case t.cut && t.silent:
		if !sleep(ctx, pingTimeout) {
			return ctx.Err()
		}
		return errSilent
	case t.cut:
		return errCut
	}
	return ctx.Err()
}

// serve has the server do a request, whether its agent waits or not. list is what
// the agent has listed before; serve returns what it has listed after. Requests are
// served one after the other, so it is known which node writes.
func (n *network) serve(
	r *http.Request, body []byte, list map[string]seenNode,
) (*http.Response, map[string]seenNode) {
	n.fleet.serving.Lock()
	defer n.fleet.serving.Unlock()
	n.fleet.checker.writes(list)
	defer n.fleet.checker.writes(nil)

	r = r.Clone(context.WithoutCancel(r.Context()))
	if body != nil {
		r.Body = io.NopCloser(bytes.NewReader(body))
	}
	a, err := n.transport.RoundTrip(r)
	if err != nil {
		n.fleet.Errorf("the server in memory: %v", err)
		return failed(r, http.StatusInternalServerError), list
	}
	if kindOf(r) == Lists && strings.Contains(r.Header.Get("Accept"), "as=Table") {
		name, isOne := strings.CutPrefix(r.URL.Query().Get("fieldSelector"), "metadata.name=")
		if isOne && list != nil {
			list = n.fleet.checker.lookedFor(name, list)
		} else {
			list = n.fleet.checker.listed()
		}
	}
	if n.tamper != nil {
		n.tamper(r, a)
	}
	return a, list
}

// failed is an answer of a server that is not well.
func failed(r *http.Request, code int) *http.Response {
	a := &http.Response{
		Status:     http.StatusText(code),
		StatusCode: code,
		Proto:      "HTTP/2.0",
		ProtoMajor: 2,
		Header:     http.Header{},
		Body:       io.NopCloser(strings.NewReader(http.StatusText(code))),
		Request:    r,
	}
	if code == http.StatusTooManyRequests {
		a.Header.Set("Retry-After", "1")
	}
	return a
}
