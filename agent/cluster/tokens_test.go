package cluster

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/zap"
	core "k8s.io/api/core/v1"

	"github.com/loam-os/loam/agent/durable"
	"github.com/loam-os/loam/test/files"
)

func TestOneTokenForEachPath(t *testing.T) {
	running := []Token{{"running", "/var/a"}}
	coming := []Token{{"coming", "/var/a"}, {"coming", "/var/b"}}
	machine := []Token{{"machine", "/var/b"}, {"machine", "/var/c"}}

	p := newTokenProgress()
	p.prepare(coming)
	want := []Token{{"running", "/var/a"}, {"coming", "/var/b"}, {"machine", "/var/c"}}
	if diff := cmp.Diff(want, p.sync(running, machine)); diff != "" {
		t.Errorf("while a configuration is applied (-want +got):\n%s", diff)
	}

	p.applied("000002-0123456789ab")
	want = []Token{{"running", "/var/a"}, {"machine", "/var/b"}, {"machine", "/var/c"}}
	if diff := cmp.Diff(want, p.sync(running, machine)); diff != "" {
		t.Errorf("once another is applied (-want +got):\n%s", diff)
	}

	p.prepare(coming)
	p.applied("000002-0123456789ab")
	if got := p.sync(nil, nil); len(got) != 2 {
		t.Errorf("while the next is applied: %v", got)
	}
}

// The file of an earlier configuration may be old, and the node does not
// remember all earlier tokens.
func TestReaddedTokenIsWaitedFor(t *testing.T) {
	stays := Token{"stays", "/var/a"}
	goes := Token{"goes", "/var/b"}
	both := []Token{stays, goes}
	machine := []Token{stays}

	p := newTokenProgress()
	p.sync([]Token{goes}, machine)
	p.note(stays)
	p.note(goes)
	p.sync([]Token{goes}, machine)
	if !p.areWritten(both) {
		t.Error("a synced token is no longer written")
	}

	p.sync(nil, machine)
	p.sync([]Token{goes}, machine)
	if p.areWritten([]Token{goes}) || !p.areWritten([]Token{stays}) || len(p.written) != 1 {
		t.Errorf("written: %v", p.written)
	}
}

func TestTokenFileChecks(t *testing.T) {
	for _, tt := range []struct {
		name string
		edit func(w *world)
		want bool
	}{
		{"just checked", func(*world) {}, false},
		{"due", func(w *world) { w.now = noon.Add(tokenCheck) }, true},
		{"with a new generation", func(w *world) { w.status.Generation = "000002-a" }, true},
		{"after the clock was set back", func(w *world) { w.now = noon.Add(-time.Hour) }, true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			w := newWorld()
			checks := tokenChecks{noon, w.status.Generation}
			tt.edit(&w)
			if got := checks.isDue(w); got != tt.want {
				t.Error(got)
			}
		})
	}
}

func TestATokenIsWrittenBehindNoLinkButTheImages(t *testing.T) {
	root := files.Root(t)
	image := files.Root(t)
	err := errors.Join(
		root.Mkdir("away", 0o755),
		root.Symlink("away", "link"),
		root.Symlink("var/opt", "opt"),
		image.Symlink("var/opt", "opt"),
	)
	if err != nil {
		t.Fatal(err)
	}

	c := tokenController{root: root, image: image.FS(), log: zap.NewNop()}
	err = c.write(Token{"token", "/link/token"}, []byte("one"), &tokenFile{})
	if _, ok := errors.AsType[*durable.LinkError](err); !ok {
		t.Errorf("error %v", err)
	}
	if _, err := root.Lstat("away/token"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the token is behind the link: %v", err)
	}

	if err := c.write(Token{"token", "/opt/token"}, []byte("one"), &tokenFile{}); err != nil {
		t.Error(err)
	}
	if got, err := root.ReadFile("var/opt/token"); string(got) != "one" {
		t.Errorf("token %q, %v", got, err)
	}
}

// Follows one token through what may happen to its Secret and its file.
func TestTokenFileFollowsItsSecret(t *testing.T) {
	root := files.Root(t)
	const path = "/var/token"
	file := filepath.Join(root.Name(), path)
	progress := newTokenProgress()
	inbox := newInbox()
	c := tokenController{
		root:     root,
		secrets:  newSecretCache(make(chan struct{}, 1)),
		progress: progress,
		inbox:    inbox,
		log:      zap.NewNop(),
	}

	w := newWorld()
	token := Token{"token", path}
	w.config.Tokens = []Token{token}
	see := func(data map[string][]byte) {
		var secret *core.Secret
		if data != nil {
			secret = &core.Secret{Data: data}
		}
		c.secrets.see(c.secrets.secrets["token"], secret)
	}

	for _, tt := range []struct {
		name    string
		do      func()
		want    string
		written bool
		event   bool
	}{
		{"a Secret that was not seen yet", func() {}, "", false, false},
		{"a Secret that does not exist", func() { see(nil) }, "", true, true},
		{"it still does not", func() {}, "", true, false},
		{"a token", func() { see(map[string][]byte{"token": []byte("one")}) }, "one", true, false},
		{"another", func() { see(map[string][]byte{"token": []byte("two")}) }, "two", true, false},
		{
			"a Secret without its token",
			func() { see(map[string][]byte{"a": nil}) },
			"two",
			true,
			true,
		},
		{
			"the token is back",
			func() {
				see(map[string][]byte{"token": []byte("two")})
			},
			"two",
			true,
			false,
		},
		{
			"a file that something else changed",
			func() {
				files.Write(t, filepath.Join(root.Name(), path), "other")
			},
			"other",
			true,
			false,
		},
		{"when it is checked", func() { w.now = w.now.Add(tokenCheck) }, "two", true, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if _, err := c.step(t.Context(), &w); err != nil {
				t.Fatal(err)
			}
			tt.do()
			if _, err := c.step(t.Context(), &w); err != nil {
				t.Fatal(err)
			}

			if got, _ := os.ReadFile(file); string(got) != tt.want {
				t.Errorf("file %q, want %q", got, tt.want)
			}
			if got := progress.areWritten([]Token{token}); got != tt.written {
				t.Errorf("written %v", got)
			}

			select {
			case e := <-inbox.events:
				if !tt.event {
					t.Errorf("Event %+v", e)
				}
			default:
				if tt.event {
					t.Error("no Event")
				}
			}
		})
	}
}
