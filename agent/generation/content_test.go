package generation

import (
	"errors"
	"io"
	"io/fs"
	"strings"
	"testing"

	"github.com/loam-os/loam/agent/config"
)

// endless is a file that another one has replaced, which goes on for ever, or for
// longer than the agent has time.
type endless struct{ fs.File }

// limit ends a test that reads it all.
const limit = 1 << 20

func (endless) Read(p []byte) (int, error) {
	if len(p) == 0 {
		return 0, nil
	}
	p[0] = 'x'
	return 1, nil
}

// counted fails after limit bytes.
type counted struct {
	endless
	n int
}

func (c *counted) Read(p []byte) (int, error) {
	c.n++
	if c.n > limit {
		return 0, errors.New("it is read to its end")
	}
	return c.endless.Read(p)
}

func (c *counted) Close() error { return nil }

// exchanged is a file system in which every file is exchanged for an endless one after a
// look at it.
type exchanged struct {
	fs.FS
	file *counted
}

func (e exchanged) Lstat(name string) (fs.FileInfo, error) { return fs.Lstat(e.FS, name) }

func (e exchanged) ReadLink(name string) (string, error) { return fs.ReadLink(e.FS, name) }

func (e exchanged) Open(string) (fs.File, error) { return e.file, nil }

// TestAnEndlessFileIsNotReadToItsEnd that a pod has put in the place of a file: neither
// compared with what the node manages, nor copied into the store.
func TestAnEndlessFileIsNotReadToItsEnd(t *testing.T) {
	s, root := newStore(t)
	if err := root.WriteFile("a", []byte("text"), 0o644); err != nil {
		t.Fatal(err)
	}
	text := config.Text("text")
	file := &counted{}
	if isContent(exchanged{root.FS(), file}, "a", 0o644, text.Digest, text.Size) || file.n > limit {
		t.Errorf("after %d bytes", file.n)
	}

	file = &counted{}
	from, err := openChecked(config.Stream(text.Digest, text.Size,
		func() (io.ReadCloser, error) { return file, nil }))
	if err != nil {
		t.Fatal(err)
	}
	err = s.dir.WriteFrom("copy", from, 0o600)
	if !errors.Is(err, errContent) || file.n > limit || !strings.Contains(err.Error(), "copy") {
		t.Errorf("%v after %d bytes", err, file.n)
	}
}
