package cluster

import (
	"bytes"
	"context"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path"
	"slices"
	"strings"
	"sync"
	"time"

	"go.uber.org/zap"

	"github.com/loam-os/loam/agent/durable"
)

// tokenCheck is how often token files are compared with their Secrets.
const tokenCheck = stepInterval

// tokenProgress is how the goroutine that applies a configuration waits for the
// session to write its tokens.
type tokenProgress struct {
	// changed signals that written has changed.
	changed chan struct{}

	mu sync.Mutex

	// coming are the tokens of the configuration that is being applied.
	coming []Token

	// written are the synced tokens whose file was written or could not be
	// written.
	written map[Token]bool

	// generation is the generation that the node runs.
	generation string
}

func newTokenProgress() *tokenProgress {
	return &tokenProgress{changed: make(chan struct{}, 1), written: map[Token]bool{}}
}

// prepare sets the tokens of the configuration that is about to be applied.
func (p *tokenProgress) prepare(coming []Token) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.coming = coming
}

// applied says which generation the node runs. If it is another, the coming
// configuration is applied, or was reverted.
func (p *tokenProgress) applied(generation string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.generation != generation {
		p.generation = generation
		p.coming = nil
	}
}

// wait waits for at most secretTimeout until all tokens are written.
func (p *tokenProgress) wait(ctx context.Context, all []Token) {
	limit := time.After(secretTimeout)
	for !p.areWritten(all) {
		select {
		case <-p.changed:
		case <-limit:
			return
		case <-ctx.Done():
			return
		}
	}
}

// areWritten reports whether the files of all tokens were written or could not
// be written.
func (p *tokenProgress) areWritten(all []Token) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return !slices.ContainsFunc(all, func(t Token) bool { return !p.written[t] })
}

// note says that a token was written or could not be written.
func (p *tokenProgress) note(t Token) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.written[t] {
		p.written[t] = true
		signal(p.changed)
	}
}

// sync returns the token syncs of the node, one for each path. The running
// configuration has precedence over the one being applied, and that over
// machine.yaml. It forgets tokens that are no longer synced: if one comes back,
// it must be written again.
func (p *tokenProgress) sync(running, machine []Token) []Token {
	p.mu.Lock()
	defer p.mu.Unlock()

	var all []Token
	for _, t := range slices.Concat(running, p.coming, machine) {
		if !slices.ContainsFunc(all, func(other Token) bool { return other.Path == t.Path }) {
			all = append(all, t)
		}
	}

	maps.DeleteFunc(p.written, func(t Token, _ bool) bool { return !slices.Contains(all, t) })
	return all
}

// tokenFile is the state of the file of a token.
type tokenFile struct {
	// token is what the session has written to the file. failed says that the
	// Secret has no token or that a new one could not be written.
	token  []byte
	failed bool
}

// isDue reports whether to write token to the file. check says that the file
// may have been changed by others.
func (f tokenFile) isDue(token []byte, check bool) bool {
	return check || !bytes.Equal(token, f.token)
}

// tokenChecks says when the files were last compared with their Secrets.
type tokenChecks struct {
	at         time.Time
	generation string
}

// isDue reports whether to compare the files with their Secrets: every
// tokenCheck, after a new generation, and after the clock was set back.
func (c tokenChecks) isDue(w world) bool {
	since := w.now.Sub(c.at)
	return since < 0 || since >= tokenCheck-leaseEarly || c.generation != w.status.Generation
}

// tokenController writes the tokens that differ from their files. The file
// keeps the last token of a Secret that is gone, which may still be valid.
type tokenController struct {
	root     *os.Root
	image    fs.FS
	secrets  *secretCache
	progress *tokenProgress
	inbox    inbox
	log      *zap.Logger

	// tokens are the syncs of the node, files the states of their files.
	tokens []Token
	files  map[Token]tokenFile
	checks tokenChecks
}

// step returns no error, because none would be the API server's. A file that
// cannot be written is retried with the next step and reported once.
func (c *tokenController) step(_ context.Context, w *world) (outcome, error) {
	c.setTokens(c.progress.sync(w.carried.tokens, w.config.Tokens))

	check := c.checks.isDue(*w)
	if check {
		c.checks = tokenChecks{w.now, w.status.Generation}
	}

	for _, t := range c.tokens {
		token, isKnown, err := c.secrets.token(t.Secret)
		if !isKnown {
			continue
		}

		file := c.files[t]
		if err == nil && file.isDue(token, check) {
			err = c.write(t, token, &file)
		}

		if err != nil && !file.failed {
			c.log.Error("sync a token", zap.String("secret", t.Secret),
				zap.String("path", t.Path), zap.Error(err))
			c.inbox.event(true, "TokenSync",
				fmt.Sprintf("sync the token of Secret %s to %s: %v", t.Secret, t.Path, err))
		}

		file.failed = err != nil
		c.files[t] = file
		c.progress.note(t)
	}

	return outcome{}, nil
}

// setTokens has the Secrets of all tokens watched, and no others for tokens.
func (c *tokenController) setTokens(all []Token) {
	if c.files != nil && slices.Equal(all, c.tokens) {
		return
	}

	files := map[Token]tokenFile{}
	for _, t := range all {
		files[t] = c.files[t]
	}

	c.tokens = all
	c.files = files
	c.secrets.followTokens(all)
}

// write writes token to the file of t.
func (c *tokenController) write(t Token, token []byte, file *tokenFile) error {
	dir := durable.New(c.root, nil).WithImage(c.image)
	name := strings.TrimPrefix(t.Path, "/")
	if err := dir.MkdirAll(path.Dir(name)); err != nil {
		return err
	}

	changed, err := dir.WriteFile(name, token, 0o640)
	if err != nil {
		return err
	}

	if changed && bytes.Equal(token, file.token) {
		c.log.Warn("restored a token that was changed or removed", zap.String("path", t.Path))
	}
	file.token = token
	return nil
}
