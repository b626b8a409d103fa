package cluster

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"path"
	"strings"

	"go.uber.org/zap"
)

// kept is what is known of the file of a token.
type kept struct {
	// token is what it has, failed that the Secret has none or another, which could
	// not be written.
	token  []byte
	failed bool
}

var (
	errNoSecret = errors.New("no such Secret")
	errNoKey    = errors.New("the Secret has no token")
)

// watchToken has the Secret of a token watched, by followAll.
func (s *session) watchToken(t Token) {
	s.mu.Lock()
	defer s.mu.Unlock()
	r := s.refer(t.Secret)
	r.hasToken, r.kept = true, map[string]kept{}
}

// writeTokens writes the tokens that their files do not have. A file that cannot be
// written is tried again with the next step, and told once. No error is the API
// server's.
func (s *session) writeTokens(context.Context) error {
	for _, t := range s.Tokens {
		r, token, err := s.tokenOf(t)
		if r == nil {
			continue
		}
		have := r.kept[t.Path]
		if err == nil && !bytes.Equal(token, have.token) {
			if err = s.writeToken(t, token); err == nil {
				have.token = token
			}
		}
		if err != nil && !have.failed {
			s.Log.Error("keep a token", zap.String("secret", t.Secret), zap.String("path", t.Path), zap.Error(err))
			s.Event(true, "TokenSync", fmt.Sprintf("keep the token of Secret %s in %s: %v", t.Secret, t.Path, err))
		}
		have.failed = err != nil
		r.kept[t.Path] = have
	}
	return nil
}

// tokenOf is what the Secret of a token says; nil for no reference before that is
// known. What a Secret said that goes stays in the file: what uses it may still be
// let in.
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

func (s *session) writeToken(t Token, token []byte) error {
	name := strings.TrimPrefix(t.Path, "/")
	dir := s.keep().dir
	if err := dir.MkdirAll(path.Dir(name)); err != nil {
		return err
	}
	_, err := dir.WriteFile(name, token, 0o640)
	return err
}
