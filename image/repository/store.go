// Package repository reads published updates: metadata signed by TUF roles (The
// Update Framework, specification 1.0), which name the indexes of the releases
// (image/bundle) by digest, beside the packs and what systemd-sysupdate reads.
// It is the half that a node needs, image/publish the half that writes. [Open]
// and [Update] are the functions to use first:
//
//	Open --> Store: a directory, a web server, an artifact of a registry
//	           |
//	Update --- + --> root --> timestamp --> snapshot --> targets --> News
//	              each is verified, and kept            /              \
//	              before the next is read       Release.Fetch      News.Permit
//	                                                  |                 |
//	                                             bundle.Index         Permit
//
// A repository has these files:
//
//	metadata/N.root.json  N.targets.json  N.snapshot.json  timestamp.json
//	targets/SHA256.BASE.index.json
//	BASE.pack  kubernetes-VERSION-ARCH.pack
//	BASE.efi  BASE_ROOT-PARTUUID.root  BASE_VERITY-PARTUUID.verity  SHA256SUMS  SHA256SUMS.gpg
//
// BASE is bundle.Base, for an index also bundle.KubernetesBase. All files but timestamp.json, SHA256SUMS and its
// signature keep their content for ever.
package repository

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/url"
	"strings"

	"github.com/loam-os/loam/hint/fault"
	"github.com/loam-os/loam/hint/redact"
)

// Store reads published files, by their slash-separated names. Nothing in it is
// trusted.
type Store interface {
	// Get returns the content of a file: ErrNotFound if absent, ErrTooLarge if
	// it has more than max bytes.
	Get(ctx context.Context, name string, max int64) ([]byte, error)
	// Range reads n bytes from off on. The reader gives exactly n bytes, or an
	// error: io.ErrUnexpectedEOF if there are fewer.
	Range(ctx context.Context, name string, off, n int64) (io.ReadCloser, error)
}

// Errors of a store, besides errors of network and disk.
var (
	ErrNotFound = fault.With(errors.New("not found"), fault.NotARepository)
	ErrTooLarge = fault.With(errors.New("larger than it may be"), fault.NotARepository)
	// ErrRange: the file ends before the bytes asked for, or the server sends
	// others.
	ErrRange = fault.With(errors.New("not the bytes asked for"), fault.RepositoryDamaged)
	// ErrStalled: no byte came for 15 seconds.
	ErrStalled = fault.With(errors.New("no byte for 15 s"), fault.RepositoryUnreachable)
	// ErrSlow: less came than the slowest line brings that an update is worth
	// waiting for.
	ErrSlow = fault.With(errors.New("less than 4 KiB/s for a minute"), fault.RepositoryUnreachable)
)

// Option of Open.
type Option func(*options)

type options struct {
	cas    []byte
	mirror bool
}

// Mirror is for a store that need not be trusted: it must not redirect its
// readers, and a server must support ranges.
func Mirror() Option { return func(o *options) { o.mirror = true } }

// CAs adds certificate authorities, in PEM, to the system's for https.
func CAs(pem []byte) Option { return func(o *options) { o.cas = append(o.cas, pem...) } }

// Open opens a directory (a path, or file://), or a web server's (http:// or
// https://), or an artifact of a registry (oci:// or oci+http://).
func Open(ref string, opts ...Option) (Store, error) {
	var o options
	for _, opt := range opts {
		opt(&o)
	}

	if r, is, err := ParseOCI(ref); is {
		if err != nil {
			return nil, err
		}
		return openOCI(r, o)
	}

	scheme, rest, ok := strings.Cut(ref, "://")
	if !ok {
		return openDir(ref)
	}

	u, err := url.Parse(ref)
	if err != nil { // Its text has parts of a password.
		return nil, fmt.Errorf("repository %s: not a URL", redact.URLs(ref))
	}

	switch {
	case scheme == "file" && u.Host == "" && strings.HasPrefix(rest, "/"):
		return openDir(u.Path)
	case (scheme == "http" || scheme == "https") && u.Host != "" && u.RawQuery == "" &&
		u.Fragment == "":
		return openHTTP(u, o)
	}

	return nil, fmt.Errorf("repository %s: want a directory, file:///DIR, http://HOST/DIR, "+
		"https://HOST/DIR or oci://HOST/NAME:TAG", u.Redacted())
}

// checkName refuses names that could lead out of the repository.
func checkName(name string) error {
	if !fs.ValidPath(name) || name == "." || strings.ContainsAny(name, "\\?#%") {
		return fmt.Errorf("name %q: not a name in a repository", name)
	}
	return nil
}

func checkRange(name string, off, n int64) error {
	if off < 0 || n <= 0 || off+n < off {
		return fmt.Errorf("%s: %d bytes at %d: %w", name, n, off, ErrRange)
	}
	return checkName(name)
}

// readAll reads r to its end, of at most limit bytes.
func readAll(r io.Reader, limit int64) ([]byte, error) {
	data, err := io.ReadAll(io.LimitReader(r, limit+1))
	if err == nil && int64(len(data)) > limit {
		return nil, fmt.Errorf("%w (%d bytes)", ErrTooLarge, limit)
	}
	return data, err
}

// exactly reads n bytes of body, neither fewer nor more.
type exactly struct {
	body io.ReadCloser
	left int64
}

func (e *exactly) Read(p []byte) (int, error) {
	if e.left == 0 {
		return 0, io.EOF
	}

	n, err := e.body.Read(p[:min(int64(len(p)), e.left)])
	e.left -= int64(n)
	if errors.Is(err, io.EOF) {
		err = nil
		if e.left > 0 {
			err = io.ErrUnexpectedEOF
		}
	}

	return n, err
}

func (e *exactly) Close() error { return e.body.Close() }
