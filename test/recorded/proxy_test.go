package recorded

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"slices"
	"sync"

	"sigs.k8s.io/yaml"
)

// proxy is between a node and its API server, and answers some requests itself.
// A client certificate cannot be passed through: who shows one is impersonated.
type proxy struct {
	*httptest.Server
	trusted []byte

	// bearer asks as whoever a token is of, admin as who may do everything.
	bearer, admin *http.Transport
	copies        sync.WaitGroup

	// answers reports that it has answered a request itself; nil if none. It
	// is set before the node starts.
	answers func(w http.ResponseWriter, r *http.Request) bool

	mu sync.Mutex

	// running is the watch of the Secret with the configuration, nil if none.
	running *io.PipeWriter

	// open lets other requests begin once it is closed; gone are the requests
	// to answer with 410.
	open chan struct{}
	gone int
}

// interpose has the node reach the API server through a proxy.
func (w *fixture) interpose() *proxy {
	w.Helper()
	target, err := url.Parse(w.URL())
	if err != nil {
		w.Fatal(err)
	}

	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM([]byte(w.CA()))
	p := &proxy{
		trusted: []byte(w.CA()),
		bearer:  &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots}},
		admin: &http.Transport{TLSClientConfig: &tls.Config{
			RootCAs:      roots,
			Certificates: []tls.Certificate{w.adminCertificate()},
		}},
	}

	p.Server = httptest.NewUnstartedServer(p.handler(target))
	p.TLS = &tls.Config{ClientAuth: tls.VerifyClientCertIfGiven, ClientCAs: roots}
	p.EnableHTTP2 = true
	p.Config.ErrorLog = log.New(io.Discard, "", 0)
	p.StartTLS()

	w.Cleanup(func() {
		p.Close()
		p.admin.CloseIdleConnections()
		p.bearer.CloseIdleConnections()
		p.copies.Wait()
	})

	w.proxy = p
	return p
}

func (w *fixture) adminCertificate() tls.Certificate {
	w.Helper()
	certificate, key := w.pairOf(w.Admin(w.TB))
	cert, err := tls.X509KeyPair(certificate, key)
	if err != nil {
		w.Fatal(err)
	}

	return cert
}

// pairOf returns the certificate and the key of a kubeconfig, PEM.
func (w *fixture) pairOf(kubeconfig string) (certificate, key []byte) {
	w.Helper()
	var config struct {
		Users []struct {
			User struct {
				Certificate []byte `json:"client-certificate-data"`
				Key         []byte `json:"client-key-data"`
			} `json:"user"`
		} `json:"users"`
	}
	if err := yaml.Unmarshal([]byte(kubeconfig), &config); err != nil {
		w.Fatal(err)
	}
	return config.Users[0].User.Certificate, config.Users[0].User.Key
}

// ca is the authority that a node trusts when it reaches the proxy.
func (p *proxy) ca() []byte {
	own := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: p.Certificate().Raw})
	return slices.Concat(p.trusted, own)
}

func (p *proxy) handler(target *url.URL) http.Handler {
	pass := &httputil.ReverseProxy{
		Rewrite:        func(r *httputil.ProxyRequest) { r.SetURL(target); impersonate(r) },
		Transport:      p,
		FlushInterval:  -1,
		ModifyResponse: p.tap,
		ErrorLog:       log.New(io.Discard, "", 0),
	}

	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if isWatch(r) && p.isGone(r) {
			w.Header().Set("Content-Type", "application/json")
			w.WriteHeader(http.StatusGone)
			_, _ = io.WriteString(w, expired)
			return
		}
		if p.answers != nil && p.answers(w, r) {
			return
		}
		pass.ServeHTTP(w, r)
	})
}

// impersonate asks in the name of who has shown a certificate.
func impersonate(r *httputil.ProxyRequest) {
	if shown := r.In.TLS.PeerCertificates; len(shown) > 0 {
		r.Out.Header["Impersonate-User"] = []string{shown[0].Subject.CommonName}
		r.Out.Header["Impersonate-Group"] = shown[0].Subject.Organization
	}
	if isWatch(r.In) {
		r.Out.Header.Set("Accept", "application/json") // An event is a line.
	}
}

// RoundTrip implements [http.RoundTripper].
func (p *proxy) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.Header.Get("Impersonate-User") == "" {
		return p.bearer.RoundTrip(r)
	}
	return p.admin.RoundTrip(r)
}
