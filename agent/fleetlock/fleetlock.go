// Package fleetlock keeps machines that share no cluster from restarting all at
// once, by the FleetLock protocol of Zincati
// (coreos.github.io/zincati/development/fleetlock/protocol): a server has slots,
// and a machine restarts with another system only while it has one. Airlock,
// poseidon/fleetlock and `loamctl serve --turns` are such servers.
//
//	service.Service --Await--> Slot --Next--> POST /v1/pre-reboot
//	                                          POST /v1/steady-state
//
// [Slot] implements the turns of upgrades: [Slot.Run] is its goroutine, which
// does what [Next] says. A slot outlives the restart: the new system gives it
// back once its trial is over, however that ended. The protocol knows no
// failures, so it does not stop a bad release.
package fleetlock

import (
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"crypto/tls"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"regexp"
	"strings"

	"github.com/loam-os/loam/agent/printable"
	"github.com/loam-os/loam/hint"
	"github.com/loam-os/loam/hint/network"
	"github.com/loam-os/loam/hint/redact"
	"github.com/loam-os/loam/image/repository/roots"
)

// Header must be "true" in each request, so that no other request is taken for
// one.
const Header = "fleet-lock-protocol"

// Paths of the protocol, after the base URL.
const (
	LockPath   = "/v1/pre-reboot"
	UnlockPath = "/v1/steady-state"
)

// DefaultGroup is the group of a machine that names none.
const DefaultGroup = "default"

// group matches the names of groups.
var group = regexp.MustCompile(`^[a-zA-Z0-9.-]+$`)

// IsGroup reports whether name may be the name of a group.
func IsGroup(name string) bool { return group.MatchString(name) }

// Request is the body of a request.
type Request struct {
	Client Client `json:"client_params"`
}

// Client is the machine that makes a request.
type Client struct {
	ID    string `json:"id"`
	Group string `json:"group"`
}

// Refusal is the body of an answer that is not 200. Kind is one of few words,
// Value is for people.
type Refusal struct {
	Kind  string `json:"kind"`
	Value string `json:"value"`
}

// Server is a server as one machine asks it.
type Server struct {
	// URL is the base URL.
	URL string

	Client Client
	// HTTP is [NewHTTP] but in tests.
	HTTP *http.Client
}

// NewHTTP returns a client for a machine that runs for months and asks seldom: each
// request trusts the authorities that the machine has by then.
func NewHTTP() *http.Client {
	return &http.Client{Transport: network.RoundTripper{RoundTripper: fresh{}}}
}

// fresh makes a connection for each request.
type fresh struct{}

// RoundTrip implements [http.RoundTripper].
func (fresh) RoundTrip(r *http.Request) (*http.Response, error) {
	trust, err := roots.Machine()
	if err != nil {
		return nil, err
	}

	return (&http.Transport{
		Proxy:                  http.ProxyFromEnvironment,
		OnProxyConnectResponse: network.CheckProxy,
		TLSClientConfig:        &tls.Config{RootCAs: trust, MinVersion: tls.VersionTLS12},
		DisableKeepAlives:      true,
	}).RoundTrip(r)
}

// Lock takes a slot, or keeps the one that the machine has.
func (s Server) Lock(ctx context.Context) error { return s.post(ctx, LockPath) }

// Unlock gives the slot of the machine back, if it has one.
func (s Server) Unlock(ctx context.Context) error { return s.post(ctx, UnlockPath) }

// maxAnswer is the longest answer that is read, in bytes, and maxRedirects how many
// redirects are followed.
const (
	maxAnswer    = 64 << 10
	maxRedirects = 3
)

func (s Server) post(ctx context.Context, path string) error {
	body, err := json.Marshal(Request{s.Client})
	if err != nil {
		return err
	}
	url := strings.TrimSuffix(s.URL, "/") + path
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, url, bytes.NewReader(body))
	if err != nil {
		return fmt.Errorf("%q is not the URL of a server", redact.URLs(url))
	}
	r.Header.Set(Header, "true")
	r.Header.Set("Content-Type", "application/json")

	client := *s.HTTP
	client.CheckRedirect = samePost
	answer, err := client.Do(r)
	if err != nil {
		return hint.With(err, "the server is upgrade.turns.fleetlock of machine.yaml")
	}
	defer answer.Body.Close()
	if answer.StatusCode == http.StatusOK {
		return nil
	}

	text, _ := io.ReadAll(io.LimitReader(answer.Body, maxAnswer)) // The status says it, too.
	return fmt.Errorf("POST %s: %s", redact.URLs(url), why(answer.StatusCode, text))
}

// maxWhy is how much of an answer is shown, in bytes.
const maxWhy = 200

// why returns why a server refuses, from its answer. What is before it may answer with
// a text, or a page.
func why(code int, text []byte) string {
	var refused Refusal
	if err := json.Unmarshal(text, &refused); err == nil && refused.Value != "" {
		return printable.Line(refused.Value, maxWhy)
	}

	status := strings.TrimSpace(fmt.Sprintf("%d %s", code, http.StatusText(code)))
	if said := printable.Line(string(text), maxWhy); said != "" {
		return status + ": " + said
	}
	return status
}

// samePost follows a redirect only if it keeps the request as it is: another page
// says nothing of a slot, although it answers with 200.
func samePost(r *http.Request, before []*http.Request) error {
	if r.Method != http.MethodPost || len(before) > maxRedirects {
		return http.ErrUseLastResponse
	}
	return nil
}

// zincati is the application ID of Zincati (sd-id128(3)). poseidon/fleetlock
// finds the Node of a machine by the ID that Zincati would have.
const zincati = "de35106b6ec24688b63afddaa156679b"

// ID returns the ID of the machine with a machine-id(5), as
// `systemd-id128 machine-id --app-specific` makes it for Zincati.
func ID(machineID string) (string, error) {
	key, err := hex.DecodeString(strings.TrimSpace(machineID))
	if err != nil || len(key) != 16 {
		return "", fmt.Errorf("%.40q is not a machine ID", machineID)
	}
	app, err := hex.DecodeString(zincati)
	if err != nil {
		return "", err
	}

	mac := hmac.New(sha256.New, key)
	mac.Write(app)
	id := mac.Sum(nil)[:16]
	id[6] = id[6]&0x0f | 0x40 // A random UUID, version 4 (RFC 9562).
	id[8] = id[8]&0x3f | 0x80
	return hex.EncodeToString(id), nil
}
