package cluster

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"
	"time"

	"go.uber.org/zap"

	"github.com/loam-os/loam/agent/config"
)

// tokens is what is known of the token syncs of a node.
type tokens struct {
	// coming are in the configuration that is being applied, and written those
	// whose file was written, or could not be, as long as they are synced.
	// Cluster.mu guards both.
	coming  []Token
	written map[Token]bool

	// progress tells Prepare that written has changed.
	progress chan struct{}

	// checked is when the files were last compared with their Secrets, and for
	// which generation.
	checked   time.Time
	checkedOf string
}

// tokenCheck is how often the file of a token is compared with its Secret.
const tokenCheck = leaseRenew

// kept is what is known of the file of a token.
type kept struct {
	// token is what it has, failed that the Secret has none or another, which
	// could not be written.
	token  []byte
	failed bool
}

var (
	errNoSecret = errors.New("no such Secret")
	errNoKey    = errors.New("the Secret has no token")
)

// Prepare takes up the token syncs of a configuration that is about to be
// applied, and waits until their files are written: units of the same
// configuration may not start without them. It waits no longer than patience,
// and not at all while the API server does not answer. A zero configuration is
// for one that is not applied after all.
func (c *Cluster) Prepare(ctx context.Context, desired config.Desired) {
	coming, err := tokensIn(desired)
	if err != nil {
		c.Log.Error("read the token syncs of the configuration", zap.Error(err))
	}

	c.mu.Lock()
	c.tokens.coming = coming
	connected := c.link.Connected
	c.mu.Unlock()
	signal(c.followed)

	if !connected {
		return
	}

	limit := time.After(patience)
	for !c.areWritten(coming) {
		select {
		case <-c.tokens.progress:
		case <-limit:
			return
		case <-ctx.Done():
			return
		}
	}
}

// areWritten reports whether the files of all tokens were written, or could not
// be.
func (c *Cluster) areWritten(all []Token) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return !slices.ContainsFunc(all, func(t Token) bool { return !c.tokens.written[t] })
}

// allTokens are the token syncs of the node, one for each path: what the node
// runs goes before what is being applied, and that before what machine.yaml
// says.
func (s *session) allTokens() []Token {
	s.mu.Lock()
	coming := s.tokens.coming
	s.mu.Unlock()

	var all []Token
	for _, t := range slices.Concat(s.carried.tokens, coming, s.Tokens) {
		if !slices.ContainsFunc(all, func(other Token) bool { return other.Path == t.Path }) {
			all = append(all, t)
		}
	}

	return all
}

// followTokens has the Secrets of the tokens watched, and no others for tokens.
func (s *session) followTokens() {
	all := s.allTokens()
	s.forgetWritten(all)
	if slices.Equal(all, s.synced) {
		return
	}

	s.synced = all
	s.referTo(all)
	s.followAll(s.whole)
}

// referTo makes the Secrets of all tokens, and no others, those that have
// tokens.
func (s *session) referTo(all []Token) {
	s.mu.Lock()
	defer s.mu.Unlock()

	for _, r := range s.secrets {
		r.hasToken = false
	}

	for _, t := range all {
		r := s.refer(t.Secret)
		r.hasToken = true
		if r.kept == nil {
			r.kept = map[string]kept{}
		}
	}

	s.dropUnused()
}

// writeTokens writes the tokens that their files do not have. A file that
// cannot be written is tried again with the next step, and told once. No error
// is the API server's.
func (s *session) writeTokens(context.Context) error {
	check := s.isTokenCheckDue()
	for _, t := range s.synced {
		r, token, err := s.tokenOf(t)
		if r == nil {
			continue
		}

		have := r.kept[t.Path]
		isNew := !bytes.Equal(token, have.token)
		if err == nil && (isNew || check) {
			var wrote bool
			wrote, err = s.writeToken(t, token)
			if err == nil {
				have.token = token
			}
			if wrote && !isNew {
				s.Log.Warn("something else changed or removed a token: it is put back",
					zap.String("path", t.Path))
			}
		}

		if err != nil && !have.failed {
			s.Log.Error("keep a token", zap.String("secret", t.Secret),
				zap.String("path", t.Path), zap.Error(err))
			s.Event(true, "TokenSync",
				fmt.Sprintf("keep the token of Secret %s in %s: %v", t.Secret, t.Path, err))
		}

		have.failed = err != nil
		r.kept[t.Path] = have
		s.noteWritten(t)
	}

	return nil
}

// isTokenCheckDue reports whether the files of the tokens are to be compared:
// from time to time, and once another generation has been applied.
func (s *session) isTokenCheckDue() bool {
	now := s.Now()
	since := now.Sub(s.tokens.checked)
	if since >= 0 && since < tokenCheck-time.Second/10 &&
		s.tokens.checkedOf == s.status.Generation {
		return false
	}

	s.tokens.checked = now
	s.tokens.checkedOf = s.status.Generation
	return true
}

// noteWritten tells Prepare that a token was dealt with.
func (s *session) noteWritten(t Token) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.tokens.written[t] {
		s.tokens.written[t] = true
		signal(s.tokens.progress)
	}
}

// forgetWritten forgets which files were written of tokens that are not synced
// any more: should one come back, it has to be written again.
func (s *session) forgetWritten(all []Token) {
	s.mu.Lock()
	defer s.mu.Unlock()
	maps.DeleteFunc(s.tokens.written, func(t Token, _ bool) bool {
		return !slices.Contains(all, t)
	})
}

// tokenOf is what the Secret of a token says; nil for no reference before that
// is known. What a Secret said that goes stays in the file: what uses it may
// still be let in.
func (s *session) tokenOf(t Token) (*reference, []byte, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	r := s.secrets[t.Secret]
	switch {
	case r == nil || !r.hasToken || !r.isIt:
		return nil, nil, nil
	case r.data == nil:
		return r, nil, errNoSecret
	case len(r.data["token"]) == 0:
		return r, nil, errNoKey
	}

	return r, r.data["token"], nil
}

// writeToken reports whether it had to write.
func (s *session) writeToken(t Token, token []byte) (bool, error) {
	name := strings.TrimPrefix(t.Path, "/")
	dir := s.keep().dir
	if err := dir.MkdirAll(path.Dir(name)); err != nil {
		return false, err
	}
	return dir.WriteFile(name, token, 0o640)
}
