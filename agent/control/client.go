package control

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/http"
	"net/http/httptrace"

	"golang.org/x/sys/unix"

	"github.com/loam-os/loam/hint"
	"github.com/loam-os/loam/hint/fault"
)

// Client is the Agent behind a socket. If the context of a method ends, the
// client stops waiting; the agent continues with the request.
type Client struct {
	// Socket is the path of the socket; if empty, it is the constant Socket.
	Socket string
	// Asked, if set, is called when the agent has been reached. It is called again
	// when a request is repeated.
	Asked func()
}

// send makes one request on a connection of its own.
func send[A any](ctx context.Context, c Client, path string, request any) (A, error) {
	var done A
	body, err := json.Marshal(request)
	if err != nil {
		return done, fmt.Errorf("write request %s: %w", path, err)
	}

	if c.Asked != nil {
		ctx = httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{
			GotConn: func(httptrace.GotConnInfo) { c.Asked() },
		})
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://agent"+path,
		bytes.NewReader(body))
	if err != nil {
		return done, fmt.Errorf("write request %s: %w", path, err)
	}

	response, err := c.transport().RoundTrip(r)
	if err != nil {
		return done, unreachable(err)
	}
	defer response.Body.Close()

	err = read(response, &done)
	return done, err
}

func (c Client) transport() *http.Transport {
	return &http.Transport{
		DisableKeepAlives: true,
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, "unix", cmp.Or(c.Socket, Socket))
		},
	}
}

// read decodes an answer into done, or returns the error that it carries.
func read(response *http.Response, done any) error {
	decoder := json.NewDecoder(response.Body)
	if response.StatusCode == http.StatusOK {
		if err := decoder.Decode(done); err != nil {
			return fmt.Errorf("read the agent's answer: %w", err)
		}
		return nil
	}

	var f failure
	if err := decoder.Decode(&f); err != nil || f.Text == "" {
		return fmt.Errorf("the agent answers %s", response.Status)
	}

	return f
}

// ErrNoAgent means that no process listens on the socket.
var ErrNoAgent = fault.With(errors.New("no agent runs"), fault.AgentNotRunning)

// unreachable explains why a request has no answer.
func unreachable(err error) error {
	switch {
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		return hint.With(fmt.Errorf("the agent goes on with the request: %w", err),
			"`loam status` shows how far it is")
	case errors.Is(err, fs.ErrPermission):
		return hint.With(fmt.Errorf("connect to the agent: %w", err), "run the command as root")
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, unix.ECONNREFUSED):
		return hint.With(fmt.Errorf("%w: %w", ErrNoAgent, err), "systemctl status loam-agent")
	}
	err = fmt.Errorf("the agent ended before it answered: %w", err)
	return hint.With(fault.With(err, fault.AgentNotRunning), "systemctl status loam-agent")
}
