package cluster

import (
	"testing"
	"time"
)

// The file of an earlier configuration may be old, and the node does not
// remember every token that it ever had.
func TestReaddedTokenIsWaitedFor(t *testing.T) {
	k, _ := newTestStore(t)
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
		t.Error("a synced token is no longer written")
	}

	s.carried.tokens = nil
	s.forgetWritten(s.allTokens())
	s.carried.tokens = []Token{goes}

	if c.areWritten([]Token{goes}) || !c.areWritten([]Token{stays}) || len(c.tokens.written) != 1 {
		t.Errorf("written: %v", c.tokens.written)
	}
}
