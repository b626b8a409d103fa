package kubeconfig

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"time"

	"k8s.io/client-go/rest"

	"github.com/loam-os/loam/hint/fault"
	"github.com/loam-os/loam/hint/network"
)

// timeout is for one request.
const timeout = 30 * time.Second

// Server is an API server with the identity that a kubeconfig gives.
type Server struct {
	base      *url.URL
	client    *http.Client
	transport *http.Transport
}

// connect makes the client. Its transport is not the one of client-go, which says of
// a proxy that refuses only the status.
func connect(config *rest.Config) (*Server, error) {
	base, err := url.Parse(config.Host)
	if err != nil {
		return nil, err
	}
	tls, err := rest.TLSConfigFor(config)
	if err != nil {
		return nil, err
	}

	transport := &http.Transport{
		TLSClientConfig:        tls,
		Proxy:                  http.ProxyFromEnvironment,
		OnProxyConnectResponse: network.CheckProxy,
		ForceAttemptHTTP2:      true,
	}
	if config.Proxy != nil {
		transport.Proxy = config.Proxy
	}
	config.UserAgent = "loamctl"
	identified, err := rest.HTTPWrappersForConfig(config, transport)
	if err != nil {
		return nil, err
	}

	return &Server{
		base:      base,
		client:    &http.Client{Transport: identified, Timeout: timeout},
		transport: transport,
	}, nil
}

// StatusError is an answer that is not 2xx.
type StatusError struct {
	Code    int
	Message string
}

func (e *StatusError) Error() string { return fmt.Sprintf("%s (%d)", e.Message, e.Code) }

// FaultCode implements [fault.Coder].
func (e *StatusError) FaultCode() fault.Code {
	if e.Code == http.StatusUnauthorized || e.Code == http.StatusForbidden {
		return fault.ClusterRefuses
	}
	return ""
}

// maxAnswer is the longest answer in bytes: etcd takes 1.5 MiB, and base64 and
// the fields of the server come on top.
const maxAnswer = 8 << 20

// pageSize is how many objects with their metadata an answer has at most: of 5,000 Nodes,
// that is 10 to 20 MB in all.
const pageSize = "500"

// maxBegins is how often a list is begun. The API server forgets the rest of one that
// takes longer than some minutes.
const maxBegins = 3

// Do makes a request with body as JSON, nil if none, and decodes the answer
// into into, nil for nowhere. The body of a PATCH is a JSON Patch (RFC 6902). An answer
// that is not 2xx is a *StatusError.
func (s *Server) Do(ctx context.Context, method, path string, body, into any) error {
	request, err := s.request(ctx, method, path, body)
	if err != nil {
		return fmt.Errorf("%s %s: %w", method, path, err)
	}
	return s.send(request, into)
}

// Object is the metadata of an object.
type Object struct {
	Metadata struct {
		Name        string            `json:"name"`
		Labels      map[string]string `json:"labels"`
		Annotations map[string]string `json:"annotations"`
	} `json:"metadata"`
}

// metadataOnly asks for objects without their content (Kubernetes API concepts,
// "Receiving resources as metadata").
const metadataOnly = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1"

// asTable asks for a [Table].
const asTable = "application/json;as=Table;v=v1;g=meta.k8s.io"

// List returns the metadata of the objects at path that a label selector selects,
// "" for all.
func (s *Server) List(ctx context.Context, path, selector string) ([]Object, error) {
	query := url.Values{"limit": {pageSize}}
	all, err := s.list(ctx, path, selector, metadataOnly, query)
	return all.Items, err
}

// Table is a list as kubectl prints it (Kubernetes API concepts, "Receiving
// resources as Tables").
type Table struct {
	ColumnDefinitions []struct{ Name string }
	Rows              []Row
}

// Row is a row of a [Table].
type Row struct {
	Cells  []any
	Object Object
}

// Table lists the objects at path that a label selector selects, "" for all, as
// a table. Without details, it has no metadata and is one request: of 5,000 Nodes that
// is 40 KB instead of 10 MB.
func (s *Server) Table(ctx context.Context, path, selector string, details bool) (Table, error) {
	query := url.Values{"includeObject": {"None"}}
	if details {
		query.Set("includeObject", "Metadata")
		query.Set("limit", pageSize)
	}
	all, err := s.list(ctx, path, selector, asTable, query)
	return all.Table, err
}

// list is a list, or a page of it: with rows, or with items.
type list struct {
	Metadata struct{ Continue string }
	Table
	Items []Object
}

// list lists the objects at path that a label selector selects, "" for all, page by page
// if the query has a limit. If the API server has forgotten the rest of a list, it begins
// anew.
func (s *Server) list(
	ctx context.Context, path, selector, accept string, query url.Values,
) (list, error) {
	if selector != "" {
		query.Set("labelSelector", selector)
	}

	var all list
	for begins := 1; ; {
		request, err := s.request(ctx, http.MethodGet, path, nil)
		if err != nil {
			return list{}, fmt.Errorf("GET %s: %w", path, err)
		}
		request.URL.RawQuery = query.Encode()
		request.Header.Set("Accept", accept)

		var page list
		err = s.send(request, &page)
		switch {
		case isExpired(err) && query.Has("continue") && begins < maxBegins:
			begins++
			query.Del("continue")
			all = list{}
			continue
		case err != nil:
			return list{}, err
		}

		if len(page.ColumnDefinitions) > 0 {
			all.ColumnDefinitions = page.ColumnDefinitions
		}
		all.Rows = append(all.Rows, page.Rows...)
		all.Items = append(all.Items, page.Items...)
		if page.Metadata.Continue == "" {
			return all, nil
		}
		query.Set("continue", page.Metadata.Continue)
	}
}

// isExpired reports whether the API server has forgotten the rest of a list (Kubernetes
// API concepts, "Retrieving large results sets in chunks").
func isExpired(err error) bool {
	status, ok := errors.AsType[*StatusError](err)
	return ok && status.Code == http.StatusGone
}

// send makes the request, and decodes the answer into into, nil for nowhere.
func (s *Server) send(request *http.Request, into any) error {
	response, err := s.client.Do(request) // The error names method and URL.
	if err != nil {
		return err
	}
	defer response.Body.Close()

	answer, err := io.ReadAll(io.LimitReader(response.Body, maxAnswer+1))
	switch {
	case err != nil:
		return fmt.Errorf("%s %s: %w", request.Method, request.URL, err)
	case response.StatusCode/100 != 2:
		return statusError(response, answer)
	case len(answer) > maxAnswer:
		return fmt.Errorf("%s %s: the answer is longer than %d MiB", request.Method, request.URL,
			maxAnswer>>20)
	case into == nil:
		return nil
	}

	decoder := json.NewDecoder(bytes.NewReader(answer))
	decoder.UseNumber() // What is written back must be what was read.
	if err := decoder.Decode(into); err != nil {
		return fmt.Errorf("%s %s: %w", request.Method, request.URL, err)
	}

	return nil
}

// Close closes the connections that are kept for further requests.
func (s *Server) Close() { s.transport.CloseIdleConnections() }

func (s *Server) request(
	ctx context.Context, method, path string, body any,
) (*http.Request, error) {
	var text io.Reader
	if body != nil {
		encoded, err := json.Marshal(body)
		if err != nil {
			return nil, err
		}
		text = bytes.NewReader(encoded)
	}

	request, err := http.NewRequestWithContext(ctx, method, s.base.JoinPath(path).String(), text)
	if err != nil {
		return nil, err
	}

	request.Header.Set("Accept", "application/json")
	request.Header.Set("Content-Type", "application/json")
	if method == http.MethodPatch {
		request.Header.Set("Content-Type", "application/json-patch+json")
	}
	return request, nil
}

// statusError is what the server says in a Status object, or else as text.
func statusError(response *http.Response, answer []byte) error {
	var status struct{ Message string }
	_ = json.Unmarshal(answer, &status)
	short := answer[:min(len(answer), 200)]
	return &StatusError{
		Code:    response.StatusCode,
		Message: cmp.Or(status.Message, string(bytes.TrimSpace(short)), response.Status),
	}
}
