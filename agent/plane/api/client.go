// Package api is a client of the API server of this node's own cluster, for the
// few requests that the agent makes. It sends and reads JSON: the types of
// Kubernetes' own client are megabytes of program for objects that have three
// fields here.
package api

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"time"

	"github.com/loam-os/loam/agent/plane"
	"github.com/loam-os/loam/agent/plane/pki"
)

// requestTimeout is how long a request may take, except a watch.
const requestTimeout = 30 * time.Second

// watchTime is how long the API server keeps a watch, so that one whose
// connection is dead ends.
const watchTime = 5 * time.Minute

// Client is a client of the API server.
type Client struct {
	// server is https://HOST:PORT.
	server string
	http   *http.Client
}

// New returns a client of the node's API server with the certificate of a leaf. It
// does not connect yet, and must be closed.
func New(store plane.Store, leaf string) (*Client, error) {
	pair, authority, err := store.Client(leaf)
	if err != nil {
		return nil, err
	}

	roots := x509.NewCertPool()
	roots.AddCert(authority)
	return Over(&http.Transport{
		ForceAttemptHTTP2: true,
		// Close misses a connection whose watch ends at the same moment.
		IdleConnTimeout: requestTimeout,
		// A watch that is silent may be that of an API server that hangs.
		HTTP2: &http.HTTP2Config{
			SendPingTimeout: requestTimeout,
			PingTimeout:     requestTimeout,
		},
		TLSClientConfig: &tls.Config{
			RootCAs:      roots,
			ServerName:   pki.ServerName,
			Certificates: []tls.Certificate{pair},
		},
	}), nil
}

// Over returns a client of the node's API server over a transport.
func Over(transport http.RoundTripper) *Client {
	return &Client{server: plane.APIServerURL, http: &http.Client{Transport: transport}}
}

// Close closes the connections.
func (c *Client) Close() { c.http.CloseIdleConnections() }

// StatusError is an answer that is not a success.
type StatusError struct {
	// Code is the status of HTTP.
	Code int
	// Message is what the API server says.
	Message string
}

func (e *StatusError) Error() string { return fmt.Sprintf("%s (%d)", e.Message, e.Code) }

// IsNotFound reports whether an object does not exist.
func IsNotFound(err error) bool { return hasCode(err, http.StatusNotFound) }

// IsInvalid reports whether the API server refuses an object for its fields, such
// as one that cannot change in the object that is there.
func IsInvalid(err error) bool { return hasCode(err, http.StatusUnprocessableEntity) }

// IsConflict reports whether an object is another than the one that a change is for.
func IsConflict(err error) bool { return hasCode(err, http.StatusConflict) }

// IsRefused reports whether the API server answered that it did not do what it was asked
// for. After another error it may have.
func IsRefused(err error) bool {
	var status *StatusError
	return errors.As(err, &status) && status.Code >= 400 && status.Code < 500
}

func hasCode(err error, code int) bool {
	var status *StatusError
	return errors.As(err, &status) && status.Code == code
}

// Do sends a request with a body unless that is nil, and decodes the answer into
// an object unless that is nil. The error is a [*StatusError] if the API server
// refuses it.
func (c *Client) Do(ctx context.Context, method, path string, body, into any) error {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()

	return c.do(ctx, method, path, asJSON, body, into)
}

// List decodes the metadata of all objects at a path, and not their content, which
// may be megabytes of each.
func (c *Client) List(ctx context.Context, path string, into any) error {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()

	return c.do(ctx, http.MethodGet, path, asMetadata, nil, into)
}

func (c *Client) do(
	ctx context.Context, method, path, accept string, body, into any,
) error {
	response, err := c.send(ctx, method, path, accept, asJSON, body)
	if err != nil {
		return err
	}
	return decode(response, into)
}

// decode decodes an answer unless into is nil, and closes it.
func decode(response *http.Response, into any) error {
	defer response.Body.Close()

	if into == nil {
		_, err := io.Copy(io.Discard, response.Body)
		return err
	}
	err := json.NewDecoder(response.Body).Decode(into)
	if err != nil {
		return fmt.Errorf("read the answer of the API server: %w", err)
	}
	return nil
}

// Apply makes the object at a path have these fields by server-side apply (KEP-555):
// manager owns them, and takes them from others. The object is decoded into another
// one unless that is nil.
func (c *Client) Apply(ctx context.Context, path, manager string, object, into any) error {
	return c.apply(ctx, path, url.Values{"fieldManager": {manager}}, object, into)
}

// TryApply decodes what [Client.Apply] would make of an object. It changes nothing.
func (c *Client) TryApply(ctx context.Context, path, manager string, object, into any) error {
	query := url.Values{"fieldManager": {manager}, "dryRun": {"All"}}
	return c.apply(ctx, path, query, object, into)
}

func (c *Client) apply(
	ctx context.Context, path string, query url.Values, object, into any,
) error {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()

	query.Set("force", "true")
	response, err := c.send(ctx, http.MethodPatch, path+"?"+query.Encode(),
		asJSON, "application/apply-patch+yaml", object)
	if err != nil {
		return err
	}
	return decode(response, into)
}

// Merge changes fields of an object that exists (RFC 7386).
func (c *Client) Merge(ctx context.Context, path string, fields any) error {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()

	response, err := c.send(ctx, http.MethodPatch, path,
		asJSON, "application/merge-patch+json", fields)
	if err != nil {
		return err
	}
	return decode(response, nil)
}

// Delete deletes an object and what belongs to it, unless it is gone already.
func (c *Client) Delete(ctx context.Context, path string) error {
	query := url.Values{"propagationPolicy": {"Background"}}
	err := c.Do(ctx, http.MethodDelete, path+"?"+query.Encode(), nil, nil)
	if IsNotFound(err) {
		return nil
	}
	return err
}

// Watch calls seen for each change of an object after a version, until ctx ends,
// the API server ends the watch, or seen returns an error.
func (c *Client) Watch(
	ctx context.Context, collection, name, version string, seen func() error,
) error {
	query := url.Values{
		"watch":           {"true"},
		"fieldSelector":   {"metadata.name=" + name},
		"resourceVersion": {version},
		"timeoutSeconds":  {fmt.Sprint(int(watchTime.Seconds()))},
	}
	ctx, cancel := context.WithTimeout(ctx, watchTime+requestTimeout)
	defer cancel()
	response, err := c.send(ctx, http.MethodGet, collection+"?"+query.Encode(), asMetadataEvents, "", nil)
	if err != nil {
		return err
	}
	defer response.Body.Close()

	events := json.NewDecoder(response.Body)
	for {
		var event struct{ Type string }
		err := events.Decode(&event)
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		if err := seen(); err != nil {
			return err
		}
	}
}

// What a client accepts (Kubernetes: "API Concepts", "Metadata-only fetches").
const (
	asJSON           = "application/json"
	asMetadata       = asJSON + ";as=PartialObjectMetadataList;g=meta.k8s.io;v=v1"
	asMetadataEvents = asJSON + ";as=PartialObjectMetadata;g=meta.k8s.io;v=v1"
)

// send sends a request, and returns an answer that is a success.
func (c *Client) send(
	ctx context.Context, method, path, accept, kind string, body any,
) (*http.Response, error) {
	var text bytes.Buffer
	if body != nil {
		err := json.NewEncoder(&text).Encode(body)
		if err != nil {
			return nil, fmt.Errorf("encode the object: %w", err)
		}
	}

	request, err := http.NewRequestWithContext(ctx, method, c.server+path, &text)
	if err != nil {
		return nil, err
	}
	request.Header.Set("User-Agent", "loam")
	request.Header.Set("Accept", accept)
	if body != nil {
		request.Header.Set("Content-Type", kind)
	}

	response, err := c.http.Do(request)
	if err != nil {
		return nil, err
	}
	if response.StatusCode < 300 {
		return response, nil
	}
	defer response.Body.Close()
	return nil, statusError(response)
}

// maxMessage is how much is read of an answer that is no success.
const maxMessage = 64 << 10

func statusError(response *http.Response) error {
	failed := &StatusError{Code: response.StatusCode, Message: http.StatusText(response.StatusCode)}
	text, err := io.ReadAll(io.LimitReader(response.Body, maxMessage))
	if err != nil {
		return failed
	}

	var status struct{ Message string }
	if json.Unmarshal(text, &status) == nil && status.Message != "" {
		failed.Message = status.Message
	}
	return failed
}
