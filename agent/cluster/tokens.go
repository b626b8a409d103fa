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

// tokens is the state of the token syncs of a node.
type tokens struct {
	// coming are the tokens of the configuration that is being applied. written
	// are the synced tokens whose file was written or could not be written.
	// Cluster.mu guards both.
	coming  []Token
	written map[Token]bool

	// progress signals Prepare that written has changed.
	progress chan struct{}

	// checked is when the files were last compared with their Secrets,
	// checkedOf for which generation.
	checked   time.Time
	checkedOf string
}

// tokenCheck is how often token files are compared with their Secrets.
const tokenCheck = leaseRenew

// tokenFile is the state of the file of a token.
type tokenFile struct {
	// token is the content of the file. failed says that the Secret has no
	// token or that a new one could not be written.
	token  []byte
	failed bool
}

var (
	errNoSecret = errors.New("no such Secret")
	errNoKey    = errors.New("the Secret has no token")
)

// Prepare syncs the tokens of a configuration that is about to be applied and
// waits until their files are written, because units of that configuration may
// not start without them. It waits for at most secretTimeout, and not at all
// while the API server does not answer. A zero configuration withdraws one that
// is not applied after all.
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

	limit := time.After(secretTimeout)
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

// areWritten reports whether the files of all tokens were written or could not
// be written.
func (c *Cluster) areWritten(all []Token) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return !slices.ContainsFunc(all, func(t Token) bool { return !c.tokens.written[t] })
}

// allTokens returns the token syncs of the node, one for each path. The running
// configuration has precedence over the one being applied, and that over
// machine.yaml.
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

// followTokens watches the Secrets of the tokens, and no others for tokens.
func (s *session) followTokens() {
	all := s.allTokens()
	s.forgetWritten(all)
	if slices.Equal(all, s.tokensWatched) {
		return
	}

	s.tokensWatched = all
	s.referTo(all)
	s.followAll(s.ctx)
}

// referTo marks the Secrets of all tokens, and no others, as having tokens.
func (s *session) referTo(all []Token) {
	s.mu.Lock()
	defer s.mu.Unlock()

	for _, r := range s.secrets {
		r.hasToken = false
	}

	for _, t := range all {
		r := s.refer(t.Secret)
		r.hasToken = true
		if r.files == nil {
			r.files = map[string]tokenFile{}
		}
	}

	s.dropUnused()
}

// writeTokens writes the tokens that differ from their files. A file that
// cannot be written is retried with the next step and reported once. It returns
// no error, because none would be the API server's.
func (s *session) writeTokens(context.Context) error {
	check := s.isTokenCheckDue()
	for _, t := range s.tokensWatched {
		r, token, err := s.tokenOf(t)
		if r == nil {
			continue
		}

		have := r.files[t.Path]
		isNew := !bytes.Equal(token, have.token)
		if err == nil && (isNew || check) {
			var wrote bool
			wrote, err = s.writeToken(t, token)
			if err == nil {
				have.token = token
			}
			if wrote && !isNew {
				s.Log.Warn("restored a token that was changed or removed",
					zap.String("path", t.Path))
			}
		}

		if err != nil && !have.failed {
			s.Log.Error("sync a token", zap.String("secret", t.Secret),
				zap.String("path", t.Path), zap.Error(err))
			s.Event(true, "TokenSync",
				fmt.Sprintf("sync the token of Secret %s to %s: %v", t.Secret, t.Path, err))
		}

		have.failed = err != nil
		r.files[t.Path] = have
		s.noteWritten(t)
	}

	return nil
}

// isTokenCheckDue reports whether to compare the token files with their
// Secrets: every tokenCheck, and after a new generation.
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

// noteWritten tells Prepare that a token was handled.
func (s *session) noteWritten(t Token) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.tokens.written[t] {
		s.tokens.written[t] = true
		signal(s.tokens.progress)
	}
}

// forgetWritten forgets tokens that are no longer synced. If one comes back, it
// must be written again.
func (s *session) forgetWritten(all []Token) {
	s.mu.Lock()
	defer s.mu.Unlock()
	maps.DeleteFunc(s.tokens.written, func(t Token, _ bool) bool {
		return !slices.Contains(all, t)
	})
}

// tokenOf returns the token in a Secret; the reference is nil until the Secret
// is known. The file keeps the last token of a Secret that is gone, which may
// still be valid.
func (s *session) tokenOf(t Token) (*reference, []byte, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	r := s.secrets[t.Secret]
	switch {
	case r == nil || !r.hasToken || !r.isKnown:
		return nil, nil, nil
	case r.data == nil:
		return r, nil, errNoSecret
	case len(r.data["token"]) == 0:
		return r, nil, errNoKey
	}

	return r, r.data["token"], nil
}

// writeToken reports whether the file had to change.
func (s *session) writeToken(t Token, token []byte) (bool, error) {
	name := strings.TrimPrefix(t.Path, "/")
	dir := s.store().dir
	if err := dir.MkdirAll(path.Dir(name)); err != nil {
		return false, err
	}
	return dir.WriteFile(name, token, 0o640)
}
