package cluster

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strconv"
)

// RegistryOptions are of a registry to be.
type RegistryOptions struct {
	// Bind is the address it listens on: 127.0.0.1 if empty, or ::1.
	Bind string
	// TLS serves HTTPS, under an authority of its own.
	TLS bool
}

// Registry is a running OCI registry.
type Registry struct {
	*host   // where its process runs
	network network
	port    int
	tls     bool
	ca      authority
	process *process
	client  *http.Client
}

// RunRegistry starts an empty registry of the program that Build has built,
// with its files and log in dir. It is ready when RunRegistry returns, and runs
// until Close.
func RunRegistry(
	ctx context.Context, dir string, programs map[string]string, o RegistryOptions,
) (*Registry, error) {
	r := &Registry{host: &host{dir: dir, programs: programs}, tls: o.TLS}
	err := r.prepare(o.Bind)
	if err == nil {
		err = r.serve(ctx)
	}

	if err != nil {
		r.Close()
		return nil, err
	}

	return r, nil
}

// prepare decides where the registry is and who it is known as.
func (r *Registry) prepare(bind string) (err error) {
	r.network, err = networkOf(bind)
	if err != nil {
		return err
	}

	r.port, err = r.reservePort(r.network.loopback)
	if err != nil {
		return err
	}

	r.ca, err = newAuthority("loam test registry")
	if err != nil {
		return err
	}

	r.client = r.ca.trusting()
	own, err := r.ca.server("registry")
	return errors.Join(err, r.writePair("registry", own), r.write("registry.yaml", r.config()))
}

// Close ends the registry. Nothing of it is left but the files.
func (r *Registry) Close() {
	if r.client != nil {
		r.client.CloseIdleConnections()
	}
	r.end()
}

func (r *Registry) config() string {
	text := fmt.Sprintf(`version: 0.1
log: {level: warn, accesslog: {disabled: true}}
storage: {filesystem: {rootdirectory: data}}
http:
  addr: %q
`, r.Address())
	if r.tls {
		text += "  tls: {certificate: registry.crt, key: registry.key}\n"
	}
	return text
}

// Address is host:port, which references begin with.
func (r *Registry) Address() string { return r.at(r.network.loopback) }

// GuestAddress is the address that a QEMU guest with user networking uses.
func (r *Registry) GuestAddress() string { return r.at(r.network.fromGuest) }

func (r *Registry) at(ip string) string { return net.JoinHostPort(ip, strconv.Itoa(r.port)) }

// URL is where its API is.
func (r *Registry) URL() string {
	if r.tls {
		return "https://" + r.Address()
	}
	return "http://" + r.Address()
}

// CA is the certificate of its authority, PEM. Without TLS it has no use.
func (r *Registry) CA() string { return r.ca.pem }

func (r *Registry) serve(ctx context.Context) (err error) {
	r.process, err = r.start("registry", "serve", "registry.yaml")
	if err != nil {
		return err
	}
	return r.await(ctx, r.process, func() error {
		_, err := do(r.client, request{method: http.MethodGet, url: r.URL() + "/v2/"})
		return err
	})
}
