package cluster

import (
	"testing"
	"time"
)

// TestATokenThatComesBackIsWaitedFor: what was written while a configuration
// had it may be old, and a node does not keep every token that it ever had in
// mind.
func TestATokenThatComesBackIsWaitedFor(t *testing.T) {
	k, _ := newKeep(t)
	stays := Token{"stays", "/var/a"}
	goes := Token{"goes", "/var/b"}
	c := New(Config{Tokens: []Token{stays}}, Env{Root: k.dir.Root(), Now: time.Now})
	s := &session{Cluster: c}

	both := []Token{stays, goes}
	s.carried.tokens = []Token{goes}
	s.forgetWritten(s.allTokens())

	for _, token := range both {
		s.noteWritten(token)
	}

	s.forgetWritten(s.allTokens())
	if !c.areWritten(both) {
		t.Error("a token that is synced is not written any more")
	}

	s.carried.tokens = nil
	s.forgetWritten(s.allTokens())
	s.carried.tokens = []Token{goes}

	if c.areWritten([]Token{goes}) || !c.areWritten([]Token{stays}) || len(c.tokens.written) != 1 {
		t.Errorf("written: %v", c.tokens.written)
	}
}
