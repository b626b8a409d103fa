package cluster

import (
	"fmt"
	"net"
	"net/http"
	"strconv"
	"testing"
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

// StartRegistry starts an empty registry, which ends with t. As Start, it skips
// where it has not been built.
func StartRegistry(t testing.TB, o RegistryOptions) *Registry {
	t.Helper()
	r := &Registry{
		host:    newHost(t, "registry"),
		network: networkOf(t, o.Bind),
		tls:     o.TLS,
		ca:      newAuthority(t, "loam test registry"),
	}
	r.port = freePort(t, r.network.loopback)
	r.client = r.ca.trusting(t)
	r.writePair(t, "registry", r.ca.server(t, "registry"))
	r.write(t, "registry.yaml", r.config())
	r.Start(t)
	return r
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

// Stop kills the registry: connections to it are reset, new ones refused.
func (r *Registry) Stop(t testing.TB) {
	t.Helper()
	r.process.kill()
	r.client.CloseIdleConnections()
}

// Start starts the registry (again), with the same port and content.
func (r *Registry) Start(t testing.TB) {
	t.Helper()
	r.process = r.start(t, "registry", "serve", "registry.yaml")
	r.await(t, r.process, func() error {
		_, err := do(r.client, request{method: http.MethodGet, url: r.URL() + "/v2/"})
		return err
	})
}
