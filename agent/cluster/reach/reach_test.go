package reach

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"errors"
	"fmt"
	"io"
	"log"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"
	"unicode/utf8"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/google/go-cmp/cmp"

	"github.com/loam-os/loam/hint"
	"github.com/loam-os/loam/hint/fault"
)

var (
	noon = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

	wired = Network{
		Links: []Link{
			{Name: "enp1s0", State: "routable", Addresses: []string{"192.0.2.10/24"}},
			{Name: "enp2s0", State: "no-carrier"},
		},
		DNS: []string{"192.0.2.53"},
	}
)

// attempt is a request of a node with a network, at noon.
func attempt(server string) Attempt {
	return Attempt{
		Server:  server,
		As:      "bootstrap token abcdef",
		Now:     noon,
		Network: wired,
	}
}

// dialling is the error of a connection that the kernel refuses.
func dialling(err error) error {
	return &url.Error{Op: "Post", URL: "https://api:6443/apis", Err: &net.OpError{
		Op:   "dial",
		Net:  "tcp",
		Addr: &net.TCPAddr{IP: net.IPv4(203, 0, 113, 7), Port: 6443},
		Err:  os.NewSyscallError("connect", err),
	}}
}

// looking is the error of a name.
func looking(err net.DNSError) error {
	err.Name = "api.plant.example"
	op := &net.OpError{Op: "dial", Net: "tcp", Err: &err}
	return &url.Error{Op: "Post", URL: "https://api.plant.example:6443/apis", Err: op}
}

func TestExplain(t *testing.T) {
	secret := schema.GroupResource{Resource: "secrets"}

	for _, tt := range []struct {
		name    string
		err     error
		network Network
		code    fault.Code
		text    string
	}{
		{
			"a name that no server knows",
			looking(net.DNSError{Err: "no such host", Server: "192.0.2.53:53", IsNotFound: true}),
			wired, fault.NameNotFound,
			"the name server 192.0.2.53 knows no address of api.plant.example",
		},
		{
			"a name server that is silent",
			looking(net.DNSError{Err: "i/o timeout", Server: "[2001:db8::53]:53", IsTimeout: true}),
			wired, fault.NameNotFound,
			"the name server 2001:db8::53 does not say the address of api.plant.example: i/o timeout",
		},
		{
			"no name server",
			looking(net.DNSError{Err: "connection refused", Server: "127.0.0.1:53"}),
			Network{}, fault.NameNotFound,
			"api.plant.example cannot be looked up: the node has no name server",
		},
		{
			"no route",
			dialling(syscall.ENETUNREACH),
			wired, fault.NoRoute,
			"api.plant.example:6443 cannot be reached: no route leads there",
		},
		{
			"no address",
			dialling(syscall.ENETUNREACH),
			Network{Links: []Link{{Name: "enp1s0", State: "no-carrier"}}}, fault.NoRoute,
			"api.plant.example:6443 cannot be reached: no interface has an address",
		},
		{
			"a host that is not there",
			dialling(syscall.EHOSTUNREACH),
			wired, fault.NoRoute,
			"api.plant.example:6443 cannot be reached: no route leads there",
		},
		{
			"nothing listens",
			dialling(syscall.ECONNREFUSED),
			wired, fault.ServerUnreachable,
			"api.plant.example:6443 refuses the connection: nothing listens there",
		},
		{
			"a firewall drops",
			dialling(syscall.ETIMEDOUT),
			wired, fault.ServerUnreachable,
			"api.plant.example:6443 does not answer",
		},
		{
			"a proxy is away",
			&url.Error{Op: "Post", URL: "https://api:6443", Err: &net.OpError{
				Op: "proxyconnect", Net: "tcp", Err: errors.New("connection refused"),
			}},
			wired, fault.ServerUnreachable,
			"the proxy does not connect: connection refused",
		},
		{
			"a proxy with another certificate",
			&url.Error{Op: "Post", URL: "https://api:6443", Err: &net.OpError{
				Op: "proxyconnect", Net: "tcp", Err: x509.UnknownAuthorityError{},
			}},
			wired, fault.ServerUnreachable,
			"the proxy does not connect: x509: certificate signed by unknown authority",
		},
		{
			"a right that is missing",
			fmt.Errorf("get: %w", apierrors.NewForbidden(secret, "pool-a", errors.New("no role"))),
			wired, fault.ClusterRefuses,
			`get: secrets "pool-a" is forbidden: no role`,
		},
		{
			"a certificate that the API server does not know",
			apierrors.NewUnauthorized("Unauthorized"),
			wired, fault.CertificateRefused,
			"the API server does not accept bootstrap token abcdef",
		},
		{
			"an API server without its database",
			apierrors.NewInternalError(errors.New("etcd is away")),
			wired, fault.ServerUnreachable,
			"the API server answers 500 Internal Server Error: Internal error occurred: etcd is away",
		},
		{
			"an error with a code",
			fault.With(errors.New("not approved yet"), fault.ApprovalPending),
			wired, fault.ApprovalPending,
			"not approved yet",
		},
		{
			"an answer with a code",
			fault.With(fmt.Errorf("it has expired: %w", apierrors.NewUnauthorized("Unauthorized")),
				fault.TokenRefused),
			wired, fault.TokenRefused,
			"it has expired: Unauthorized",
		},
		{
			"anything else",
			errors.New("parse the key: not PEM"),
			wired, fault.Failed,
			"parse the key: not PEM",
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			a := attempt("https://api.plant.example:6443")
			a.Network = tt.network
			got := Explain(tt.err, a)
			if got.Code != tt.code || got.Text != tt.text {
				t.Errorf("%s: %s", got.Code, got.Text)
			}
			if got.Hint == "" && tt.code != fault.Failed {
				t.Error("no hint")
			}
		})
	}
}

// shows is a server on this machine that answers with a certificate.
func shows(t *testing.T, name string, from, until time.Time) *httptest.Server {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}

	template := &x509.Certificate{
		SerialNumber:          big.NewInt(1),
		Subject:               pkix.Name{CommonName: "plant"},
		NotBefore:             from,
		NotAfter:              until,
		DNSNames:              []string{name},
		BasicConstraintsValid: true,
		IsCA:                  true,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}

	server := httptest.NewUnstartedServer(http.NotFoundHandler())
	server.TLS = &tls.Config{Certificates: []tls.Certificate{
		{Certificate: [][]byte{der}, PrivateKey: key},
	}}
	server.Config.ErrorLog = log.New(io.Discard, "", 0)
	server.StartTLS()
	t.Cleanup(server.Close)
	return server
}

// What Go says of a server is Go's to change, so these errors are real ones.
func TestExplainRealConnections(t *testing.T) {
	day := 24 * time.Hour

	plain := httptest.NewServer(http.NotFoundHandler())
	t.Cleanup(plain.Close)
	closing, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { closing.Close() })
	go func() {
		for {
			c, err := closing.Accept()
			if err != nil {
				return
			}
			c.Close()
		}
	}()
	empty, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	empty.Close()

	old := shows(t, "localhost", noon.Add(-2*day), noon.Add(-day))
	later := shows(t, "localhost", noon.Add(day), noon.Add(2*day))
	other := shows(t, "another.example", noon.Add(-day), noon.Add(day))
	modern := shows(t, "localhost", noon.Add(-day), noon.Add(day))
	modern.TLS.MinVersion = tls.VersionTLS13
	stranger := shows(t, "localhost", noon.Add(-day), noon.Add(day))

	for _, tt := range []struct {
		name, url string
		trusted   *httptest.Server
		versions  uint16
		code      fault.Code
		text      string
	}{
		{"expired", old.URL, old, 0, fault.CertificateExpired, "has expired at 2026-02-28 12:00 UTC"},
		{"begins later", later.URL, later, 0, fault.ClockDoubtful, "is not yet valid: it begins at 2026-03-02"},
		{"another name", other.URL, other, 0, fault.CertificateNotTrusted, "valid for another.example, not localhost"},
		{"unknown authority", stranger.URL, old, 0, fault.CertificateNotTrusted, `"CN=plant", that this node`},
		{"another version of TLS", modern.URL, modern, tls.VersionTLS12, fault.TLSFailed, "protocol version"},
		{"no TLS", "https://" + strings.TrimPrefix(plain.URL, "http://"), old, 0, fault.TLSFailed, "HTTP response to HTTPS client"},
		{"closes", "https://" + closing.Addr().String(), old, 0, fault.ServerUnreachable, "ends the connection"},
		{"nothing listens", "https://" + empty.Addr().String(), old, 0, fault.ServerUnreachable, "refuses the connection"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			pool := x509.NewCertPool()
			pool.AddCert(certificateOf(t, tt.trusted))
			client := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{
				RootCAs:    pool,
				ServerName: "localhost",
				MaxVersion: tt.versions,
				Time:       func() time.Time { return noon },
			}}}
			defer client.CloseIdleConnections()

			response, err := client.Get(tt.url)
			if err == nil {
				response.Body.Close()
				t.Fatal("it answers")
			}
			got := Explain(fmt.Errorf("request a certificate: %w", err), attempt(tt.url))
			if got.Code != tt.code || !strings.Contains(got.Text, tt.text) {
				t.Errorf("%s: %s", got.Code, got.Text)
			}
			if host := strings.TrimPrefix(tt.url, "https://"); !strings.Contains(got.Text, host) {
				t.Errorf("%q does not name %s", got.Text, host)
			}
		})
	}
}

// certificateOf returns the certificate that a server shows.
func certificateOf(t *testing.T, s *httptest.Server) *x509.Certificate {
	t.Helper()
	c, err := x509.ParseCertificate(s.TLS.Certificates[0].Certificate[0])
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func TestTried(t *testing.T) {
	for _, tt := range []struct {
		name    string
		as      string
		network Network
		want    string
	}{
		{
			"with an address", "bootstrap token abcdef", wired,
			"api:6443 with bootstrap token abcdef, from enp1s0 192.0.2.10/24, name server 192.0.2.53",
		},
		{
			"without an address", "the node's certificate",
			Network{Links: []Link{{Name: "enp1s0", State: "no-carrier"}}},
			"api:6443 with the node's certificate, from enp1s0 no-carrier, without an address",
		},
		{"without an interface", "", Network{}, "api:6443, from no interface"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			a := Attempt{Server: "https://api:6443", As: tt.as, Network: tt.network}
			if diff := cmp.Diff(tt.want, Explain(errors.New("no"), a).Tried); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// A node without a token has tried nothing.
func TestNothingIsTriedWithoutARequest(t *testing.T) {
	err := fmt.Errorf("join: %w", Untried(fault.With(errors.New("no token"), fault.TokenMissing)))
	got := Explain(err, attempt("https://api:6443"))
	if got.Tried != "" || got.Code != fault.TokenMissing || got.Text != "join: no token" {
		t.Errorf("%+v", got)
	}
	if err := Untried(nil); err != nil {
		t.Error(err)
	}
}

func TestTriedHasTheAddressOfAName(t *testing.T) {
	got := Explain(dialling(syscall.ECONNREFUSED), attempt("https://api.plant.example:6443")).Tried
	if !strings.HasPrefix(got, "api.plant.example:6443 at 203.0.113.7:6443 with ") {
		t.Error(got)
	}
}

// What a server, its certificate or who approves says may be anything, and goes to
// the consoles of the node.
func TestTextOfAServerBecomesOneLine(t *testing.T) {
	certificate := &x509.Certificate{DNSNames: []string{"a\x1b[2J\nloam b: applied"}}
	err := x509.HostnameError{Certificate: certificate, Host: "api"}
	got := Explain(err, attempt("https://api:6443")).Text
	if strings.ContainsAny(got, "\x1b\n") || !strings.Contains(got, "loam b: applied") {
		t.Errorf("%q", got)
	}

	long := fault.With(errors.New(strings.Repeat("é", 1<<20)), fault.ApprovalDenied)
	got = Explain(long, attempt("https://api:6443")).Text
	if len(got) > 600 || !utf8.ValidString(got) {
		t.Errorf("%d bytes: %q", len(got), got)
	}
}

// A load balancer has another page each time, with the number of the request.
func TestTheTextHasNoPageOfALoadBalancer(t *testing.T) {
	for _, tt := range []struct {
		code int
		want string
	}{
		{http.StatusServiceUnavailable, "the API server answers 503 Service Unavailable"},
		{http.StatusForbidden, "api:6443 answers 403 Forbidden, but not as an API server does"},
	} {
		err := apierrors.NewGenericServerResponse(tt.code, "post", schema.GroupResource{}, "",
			"<html>\nrequest 1234", 0, true)
		got := Explain(fmt.Errorf("request: %w", err), attempt("https://api:6443"))
		if got.Text != tt.want || got.Hint == "" {
			t.Errorf("%+v", got)
		}
	}
}

// Each try has another port, and a log would fill with the same problem.
func TestTheTextOfACauseIsTheSame(t *testing.T) {
	reset := func(port int) error {
		return &url.Error{Op: "Get", URL: "https://api:6443", Err: &net.OpError{
			Op: "read", Net: "tcp",
			Source: &net.TCPAddr{IP: net.IPv4(192, 0, 2, 10), Port: port},
			Addr:   &net.TCPAddr{IP: net.IPv4(203, 0, 113, 7), Port: 6443},
			Err:    os.NewSyscallError("read", syscall.ECONNRESET),
		}}
	}

	proxied := func(port int) error {
		return &url.Error{Op: "Get", URL: "https://api:6443", Err: &net.OpError{
			Op: "proxyconnect", Net: "tcp", Err: reset(port),
		}}
	}

	a := attempt("https://api:6443")
	for _, failed := range []func(port int) error{reset, proxied} {
		one := Explain(failed(40000), a).Text
		other := Explain(failed(40001), a).Text
		if one != other || !strings.Contains(one, "reset by peer") {
			t.Errorf("%q, then %q", one, other)
		}
	}
}

func TestExplainKeepsTheHintOfAnError(t *testing.T) {
	err := hint.With(dialling(syscall.ECONNREFUSED), "start it")
	if got := Explain(err, attempt("https://api:6443")); got.Hint != "start it" {
		t.Errorf("hint %q", got.Hint)
	}
	if got := Explain(nil, attempt("https://api:6443")); got != (Problem{}) {
		t.Errorf("%+v of no error", got)
	}
}
