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
	"net/textproto"
	"sync"

	"golang.org/x/sys/unix"

	"github.com/loam-os/loam/hint"
	"github.com/loam-os/loam/hint/fault"
)

// Client is the Node behind a socket. If the context of a method ends, the
// client stops waiting; the agent continues with the request.
type Client struct {
	// Socket is the path of the socket; if empty, it is the constant Socket.
	Socket string
	// Asked, if set, is called when the agent has been reached. It is called again
	// when a request is repeated.
	Asked func()
}

var _ Node = Client{}

// Apply implements [Node].
func (c Client) Apply(ctx context.Context, request ApplyRequest) (Outcome, error) {
	return retry(ctx, func() (Outcome, error) { return send[Outcome](ctx, c, applyPath, request) })
}

// Confirm implements [Node].
func (c Client) Confirm(ctx context.Context) (Outcome, error) {
	return send[Outcome](ctx, c, confirmPath, struct{}{})
}

// Rollback implements [Node].
func (c Client) Rollback(ctx context.Context, request RollbackRequest) (Outcome, error) {
	return send[Outcome](ctx, c, rollbackPath, request)
}

// Verify implements [Node]. It does not call Progress after it has returned.
func (c Client) Verify(ctx context.Context, request VerifyRequest) (VerifyReport, error) {
	if request.Progress != nil {
		var one sync.Mutex
		ended := false
		defer func() {
			one.Lock()
			defer one.Unlock()
			ended = true
		}()

		ctx = httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{
			Got1xxResponse: func(_ int, header textproto.MIMEHeader) error {
				one.Lock()
				defer one.Unlock()
				a, err := amountOf(header)
				if err == nil && !ended {
					request.Progress(a.done, a.all)
				}
				return err
			},
		})
	}
	return send[VerifyReport](ctx, c, verifyPath, request)
}

// Upgrade implements [Node].
func (c Client) Upgrade(ctx context.Context, request UpgradeRequest) (Outcome, error) {
	return send[Outcome](ctx, c, upgradePath, request)
}

// Reset implements [Node].
func (c Client) Reset(ctx context.Context) (Outcome, error) {
	return retry(ctx, func() (Outcome, error) {
		return send[Outcome](ctx, c, resetPath, struct{}{})
	})
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
