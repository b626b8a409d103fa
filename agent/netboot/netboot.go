package netboot

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/loam-os/loam/agent/boot"
	"github.com/loam-os/loam/agent/link"
	"github.com/loam-os/loam/hint"
	"github.com/loam-os/loam/hint/redact"
)

// Server is where the system comes from.
type Server struct {
	// URL is its base, without a slash at the end.
	URL string

	// RootHash is the root hash of the system.
	RootHash [32]byte
	Node     Identity
	Client   *http.Client

	// Say shows a line on the console. Moved is called when a step has made
	// progress.
	Say   func(format string, args ...any)
	Moved func()

	// RequestTimeout is how long a transfer may go without data before it
	// fails. Wait is called between two attempts.
	RequestTimeout time.Duration
	Wait           func(context.Context, time.Duration) error

	// network leads to it.
	network link.Network
}

// clientHeader says that a machine asks, and no web page: a browser does not send
// it to another site before that one has allowed it.
const clientHeader = "Loam-Machine"

// Identity is what a server may recognise a node by.
type Identity struct {
	MACs         []string
	Serial, UUID string
	// Arch as Go names it.
	Arch string
}

// Query returns the parameters of a request that is about the node.
func (id Identity) Query() url.Values {
	values := url.Values{}
	for name, value := range map[string]string{
		"serial": id.Serial,
		"uuid":   id.UUID,
		"arch":   id.Arch,
	} {
		if value != "" {
			values.Set(name, value)
		}
	}
	for _, mac := range id.MACs {
		values.Add("mac", strings.ToLower(mac))
	}
	return values
}

// CheckURL returns an error if text is not the URL of a server.
func CheckURL(text string) error {
	u, err := url.Parse(text)
	if err != nil || u.Scheme != "http" || u.Host == "" || u.RawQuery != "" ||
		strings.HasSuffix(u.Path, "/") {
		return hint.With(fmt.Errorf("%q is not the URL of a server", redact.URLs(text)),
			"write one such as http://192.0.2.1:8080, without a / at the end; the "+
				"system that it sends is verified, its machine.yaml only if the image has "+
				"keys for it")
	}
	return nil
}

// Machine returns the machine.yaml that the server has for the node, nil if it
// has none.
func (s *Server) Machine(ctx context.Context) ([]byte, error) {
	const most = 1 << 20
	r := s.open(ctx, s.own("machine"), most)
	defer r.Close()

	text, err := io.ReadAll(r)
	if errors.Is(err, errNotFound) {
		return nil, nil
	}

	return text, err
}

// Packed opens the packed disk image.
func (s *Server) Packed(ctx context.Context) (io.ReadCloser, error) {
	return s.open(ctx, s.file("disk.raw.zst"), 0), nil
}

// System gets the root file system and its hash tree.
func (s *Server) System(ctx context.Context, dir string) (root, tree boot.File, err error) {
	tree, err = s.save(ctx, dir, "verity")
	if err != nil {
		return root, tree, err
	}
	root, err = s.save(ctx, dir, "root")
	return root, tree, err
}

// Installed reports to the server that the node has its system on a disk.
func (s *Server) Installed(ctx context.Context) error {
	r, err := newRequest(ctx, http.MethodPost, s.URL+s.own("installed"))
	if err != nil {
		return err
	}

	answer, err := s.Client.Do(r)
	if err != nil {
		return err
	}
	defer answer.Body.Close()

	if answer.StatusCode >= 300 {
		return refusal(answer)
	}

	return nil
}

// Disk returns "": the server is not on a disk of the machine.
func (s *Server) Disk() string { return "" }

// String returns the URL.
func (s *Server) String() string { return redact.URLs(s.URL) }

// newRequest returns a request with the header that the server demands of machines.
func newRequest(ctx context.Context, method, url string) (*http.Request, error) {
	r, err := http.NewRequestWithContext(ctx, method, url, nil)
	if err != nil {
		return nil, err
	}
	r.Header.Set(clientHeader, "true")
	return r, nil
}

// own returns the path of a request about the node, with its identity.
func (s *Server) own(name string) string { return "/v1/" + name + "?" + s.Node.Query().Encode() }

// file returns the path of a file of the system.
func (s *Server) file(name string) string {
	return "/v1/boot/" + hex.EncodeToString(s.RootHash[:]) + "/" + name
}

// save stores a file of the system in a directory.
func (s *Server) save(ctx context.Context, dir, name string) (boot.File, error) {
	file := boot.File{Name: filepath.Join(dir, name)}
	to, err := os.Create(file.Name)
	if err != nil {
		return file, err
	}

	from := s.open(ctx, s.file(name), 0)
	file.Size, err = io.Copy(to, from)
	return file, errors.Join(err, from.Close(), to.Close())
}
