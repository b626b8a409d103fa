package cluster

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
)

// StatusError is an answer that is not 2xx.
type StatusError struct {
	Request string // method and URL
	Code    int
	Body    string
}

func (e *StatusError) Error() string {
	return fmt.Sprintf("%s: %d %s: %s",
		e.Request, e.Code, http.StatusText(e.Code), strings.TrimSpace(e.Body))
}

type request struct {
	method, url, body string
	header            http.Header
}

// response is an answer of 2xx.
type response struct {
	header http.Header
	body   []byte
}

func do(client *http.Client, r request) (response, error) {
	q, err := http.NewRequest(r.method, r.url, strings.NewReader(r.body))
	if err != nil {
		return response{}, err
	}

	if r.header != nil {
		q.Header = r.header
	}

	a, err := client.Do(q)
	if err != nil {
		return response{}, err
	}
	defer a.Body.Close()

	body, err := io.ReadAll(a.Body)
	if err != nil {
		return response{}, fmt.Errorf("%s %s: %w", r.method, r.url, err)
	}

	if a.StatusCode/100 != 2 {
		return response{}, &StatusError{
			Request: r.method + " " + r.url,
			Code:    a.StatusCode,
			Body:    string(body),
		}
	}

	return response{header: a.Header, body: body}, nil
}

// Do sends a request to the API server as admin and returns the body of its
// answer; a path is as /api/v1/nodes. A body is JSON, for a PATCH a merge
// patch. An answer that is not 2xx is a *StatusError.
func (e *endpoint) Do(method, path, body string) ([]byte, error) {
	return e.ask(e.admin, method, path, body, http.Header{})
}

// DoAs is Do as the bearer of a token.
func (e *endpoint) DoAs(token, method, path, body string) ([]byte, error) {
	return e.ask(e.anonymous, method, path, body, http.Header{"Authorization": {"Bearer " + token}})
}

// Watch calls seen with each line that the API server sends, as admin, on a
// path such as /api/v1/nodes?watch=1, until ctx ends.
func (e *endpoint) Watch(ctx context.Context, path string, seen func(line []byte)) error {
	q, err := http.NewRequestWithContext(ctx, http.MethodGet, e.URL()+path, nil)
	if err != nil {
		return err
	}

	a, err := e.admin.Transport.RoundTrip(q) // The client's own limit would end it.
	if err != nil {
		return err
	}
	defer a.Body.Close()

	lines := bufio.NewReaderSize(a.Body, 1<<20)
	for {
		line, err := lines.ReadBytes('\n')
		if err != nil {
			return err
		}
		seen(line)
	}
}

func (e *endpoint) ask(
	client *http.Client, method, path, body string, header http.Header,
) ([]byte, error) {
	header.Set("Content-Type", "application/json")
	if method == http.MethodPatch {
		header.Set("Content-Type", "application/merge-patch+json")
	}
	a, err := do(client, request{
		method: method,
		url:    e.URL() + path,
		body:   body,
		header: header,
	})
	return a.body, err
}
