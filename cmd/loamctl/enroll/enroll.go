package enroll

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"sync"
	"time"

	"github.com/loam-os/loam/agent/durable"
	"github.com/loam-os/loam/hint"
)

// Names in the directory of the record.
const (
	grantsFile   = "tokens.json"
	installedDir = "installed"
	lockFile     = "lock"
)

// maxMACs bounds the MACs that a grant keeps, as a client may invent them.
const maxMACs = 256

// Grant is a token that was given.
type Grant struct {
	Token string `json:"token"`

	// Name is the name of the machine's own file, "" for a machine without one,
	// which is known by its MACs.
	Name string `json:"name,omitzero"`

	// MACs are all MACs of the requests for this token.
	MACs  []string  `json:"macs"`
	Given time.Time `json:"given"`

	// Expires is zero for a token that the cluster alone knows the end of.
	Expires time.Time `json:"expires,omitzero"`

	// From is the address that the token was first given to, "" if unknown.
	From string `json:"from,omitzero"`

	// Known is set once the cluster takes the token, Used once the machine is
	// installed.
	Known bool `json:"known"`
	Used  bool `json:"used"`
}

// Source is where tokens are from.
type Source interface {
	// Next is a token that was not given yet, and when it expires.
	Next(given func(token string) bool, now time.Time) (token string, expires time.Time, err error)
	// Good reports whether a token that was given can still be used.
	Good(token string, expires, now time.Time) (bool, error)
	// Publish makes it known to the cluster, if it is not.
	Publish(ctx context.Context, token string, expires time.Time) error
}

// ErrSpent is a machine that is installed: it has had its token.
var ErrSpent = errors.New("is installed, and has had its token")

// Record is the record of the machines, in a directory that no other process
// writes to.
type Record struct {
	dir    *durable.Dir
	lock   *os.File
	source Source // nil if none
	now    func() time.Time

	mu     sync.Mutex
	grants []Grant
}

// Open reads the record in root, which may be empty. source is nil if there are
// no tokens to give.
func Open(root *os.Root, source Source, now func() time.Time) (*Record, error) {
	lock, err := durable.TryLock(root, lockFile)
	if errors.Is(err, durable.ErrLocked) {
		err = hint.With(err, "another loamctl serve has it")
	}
	if err != nil {
		return nil, fmt.Errorf("record of machines in %s: %w", root.Name(), err)
	}

	r := &Record{
		dir:    durable.New(root, nil),
		lock:   lock,
		source: source,
		now:    now,
	}
	if err := r.open(); err != nil {
		return nil, errors.Join(fmt.Errorf("record of machines in %s: %w", root.Name(), err),
			r.Close())
	}

	return r, nil
}

func (r *Record) open() error {
	if err := r.dir.MkdirAll(installedDir); err != nil {
		return err
	}

	_, err := durable.ReadJSON(r.dir.Root().FS(), grantsFile, &r.grants)
	if errors.Is(err, durable.ErrCorrupt) {
		return hint.With(err, "it says which tokens were given; restore it from a copy")
	}
	return err
}

// Close lets another process have the record.
func (r *Record) Close() error { return r.lock.Close() }

// Token returns the token of the machine that has a file of that name, or, if
// name is "", of one with these MACs. The record of it is durable before
// a machine has it. No other machine waits for the cluster.
func (r *Record) Token(ctx context.Context, name string, macs []string) (string, error) {
	if r.source == nil {
		return "", hint.With(errors.New("there are no tokens here"),
			"the server needs --tokens or --kubeconfig")
	}

	g, err := r.grant(name, macs)
	if err != nil || g.Known {
		return g.Token, err
	}
	if err := r.source.Publish(ctx, g.Token, g.Expires); err != nil {
		return "", fmt.Errorf("token for %s: %w", macs[0], err)
	}
	if err := r.published(g.Token); err != nil {
		return "", err
	}

	return g.Token, nil
}

// grant returns the grant for a machine, and adds it if absent.
func (r *Record) grant(name string, macs []string) (Grant, error) {
	r.mu.Lock()
	defer r.mu.Unlock()

	if marks := r.marksOf(name, r.known(name, macs)); len(marks) > 0 {
		return Grant{}, hint.With(fmt.Errorf("%s %w", macs[0], ErrSpent), "%s", removal(marks))
	}

	i, err := r.current(name, macs)
	if err != nil {
		return Grant{}, fmt.Errorf("token of %s: %w", macs[0], err)
	}

	grants := slices.Clone(r.grants)
	if i < 0 {
		grants = r.pruned()
		if name == "" && r.recent() >= maxPerHour {
			return Grant{}, fmt.Errorf("no token for %s: %w", macs[0], errTooMany)
		}

		token, expires, err := r.source.Next(r.given, r.now())
		if err != nil {
			return Grant{}, fmt.Errorf("no token for %s: %w", macs[0], err)
		}
		i = len(grants)
		grants = append(grants, Grant{
			Token:   token,
			Name:    name,
			Given:   r.now().UTC(),
			Expires: expires,
		})
	}

	if all := merged(grants[i].MACs, macs); len(all) <= maxMACs {
		grants[i].MACs = all
	}

	if err := r.save(grants); err != nil {
		return Grant{}, err
	}

	return grants[i], nil
}

// maxPerHour is how many machines without a file of their own get a new token in
// an hour. Anybody on the network can invent machines, and each token is a
// Secret in the cluster.
const maxPerHour = 100

// errTooMany is returned for the machines above maxPerHour.
var errTooMany = hint.With(
	fmt.Errorf("%d machines without a file of their own got one in the last hour", maxPerHour),
	"give the machine a file, or wait",
)

// recent counts the grants of the last hour to machines without a file.
func (r *Record) recent() (n int) {
	for _, g := range r.grants {
		if g.Name == "" && r.now().Sub(g.Given) < time.Hour {
			n++
		}
	}
	return n
}

// pruned are the grants without those that expired and were not used: nothing
// follows from them any more. They stay for an hour at least, for recent.
func (r *Record) pruned() []Grant {
	return slices.DeleteFunc(slices.Clone(r.grants), func(g Grant) bool {
		expired := !g.Expires.IsZero() && g.Expires.Before(r.now())
		return expired && !g.Used && r.now().Sub(g.Given) >= time.Hour
	})
}

// current is the grant that the machine goes on with, -1 if none.
func (r *Record) current(name string, macs []string) (int, error) {
	for i, g := range r.grants {
		if !g.isOf(name, macs) || g.Used {
			continue
		}
		if good, err := r.source.Good(g.Token, g.Expires, r.now()); good || err != nil {
			return i, err
		}
	}
	return -1, nil
}

// GivenTo notes that a token goes to an address, and returns the address that
// it was first given to. Two addresses may be one machine, or one machine and
// somebody who claims to be it.
func (r *Record) GivenTo(token, address string) (first string, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()

	i := slices.IndexFunc(r.grants, func(g Grant) bool { return g.Token == token })
	switch {
	case i < 0:
		return address, nil
	case r.grants[i].From != "":
		return r.grants[i].From, nil
	}

	grants := slices.Clone(r.grants)
	grants[i].From = address
	return address, r.save(grants)
}

// published notes that the cluster takes the token.
func (r *Record) published(token string) error {
	r.mu.Lock()
	defer r.mu.Unlock()

	grants := slices.Clone(r.grants)
	for i, g := range grants {
		grants[i].Known = g.Known || g.Token == token
	}

	return r.save(grants)
}

// known are macs, and the MACs that this machine used in earlier requests for
// its token. An impostor's requests have other MACs each time.
func (r *Record) known(name string, macs []string) []string {
	known := macs
	for _, g := range r.grants {
		if g.isOf(name, macs) {
			known = merged(known, g.MACs)
		}
	}
	return known
}

// merged is both, each once, in order.
func merged(a, b []string) []string {
	all := slices.Concat(a, b)
	slices.Sort(all)
	return slices.Compact(all)
}

func (g Grant) isOf(name string, macs []string) bool {
	if g.Name != "" || name != "" {
		return g.Name == name
	}
	return g.has(macs)
}

func (g Grant) has(macs []string) bool {
	return slices.ContainsFunc(macs, func(mac string) bool { return slices.Contains(g.MACs, mac) })
}

func (r *Record) given(token string) bool {
	return slices.ContainsFunc(r.grants, func(g Grant) bool { return g.Token == token })
}

// save stores these grants. They are secrets. They become valid when they are
// durable, so that no token is lost after it was handed out.
func (r *Record) save(grants []Grant) error {
	if err := r.dir.WriteJSON(grantsFile, grants, 0o600); err != nil {
		return fmt.Errorf("record of tokens: %w", err)
	}

	r.grants = grants
	return nil
}
