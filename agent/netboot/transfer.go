package netboot

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/loam-os/loam/agent/printable"
	"github.com/loam-os/loam/hint"
)

// errNotFound says that the server does not have the file. A retry would not
// help.
var errNotFound = errors.New("the server does not have it")

// transfer reads the content of a URL. If the connection breaks, it requests
// the rest, until no data has come for the Server's RequestTimeout.
type transfer struct {
	s   *Server
	ctx context.Context
	url string
	// most is the largest size that is accepted, 0 for any.
	most     int64
	body     io.ReadCloser
	at, size int64 // bytes; size is -1 before it is known
	idle     time.Duration
	shown    int64
}

func (s *Server) open(ctx context.Context, path string, most int64) *transfer {
	return &transfer{
		s:    s,
		ctx:  ctx,
		url:  s.URL + path,
		most: most,
		size: -1,
	}
}

// Read implements [io.Reader].
func (t *transfer) Read(p []byte) (int, error) {
	for {
		if t.size >= 0 && t.at >= t.size {
			return 0, io.EOF
		}

		n, err := t.readSome(p)
		if n > 0 {
			t.idle = 0
			t.at += int64(n)
			t.report()
			return n, nil
		}

		if errors.Is(err, errNotFound) || errors.Is(err, errTooLarge) {
			return 0, err
		}
		if err := t.pause(err); err != nil {
			return 0, err
		}
	}
}

// Close implements [io.Closer].
func (t *transfer) Close() error {
	if t.body == nil {
		return nil
	}
	err := t.body.Close()
	t.body = nil
	return err
}

var errTooLarge = errors.New("larger than allowed")

// readSome reads the next data. Without an open response, it makes a request
// first.
func (t *transfer) readSome(p []byte) (n int, err error) {
	if t.body == nil {
		if err := t.request(); err != nil || t.at >= t.size {
			return 0, err
		}
	}

	n, err = t.body.Read(p[:min(int64(len(p)), t.size-t.at)])
	if err != nil {
		_ = t.Close()
	}
	if n == 0 && errors.Is(err, io.EOF) {
		err = io.ErrUnexpectedEOF
	}

	return n, err
}

// request requests the missing part. If the server sends the whole file again,
// the part that is here is skipped.
func (t *transfer) request() error {
	r, err := newRequest(t.ctx, http.MethodGet, t.url)
	if err != nil {
		return err
	}

	if t.at > 0 {
		r.Header.Set("Range", fmt.Sprintf("bytes=%d-", t.at))
	}

	answer, err := t.s.Client.Do(r)
	if err != nil {
		return err
	}

	size, from, err := extent(answer)
	switch {
	case err != nil:
	case t.most > 0 && size > t.most:
		err = fmt.Errorf("%s: %w: %d bytes", t.url, errTooLarge, size)
	case t.size >= 0 && size != t.size:
		err = fmt.Errorf("%s: %d bytes, and %d before", t.url, size, t.size)
	case from > t.at:
		err = fmt.Errorf("%s: from byte %d, asked for %d", t.url, from, t.at)
	}

	if err == nil {
		err = t.skip(answer.Body, t.at-from)
	}

	if err != nil {
		answer.Body.Close()
		return err
	}

	t.body = answer.Body
	t.size = size
	return nil
}

// skip reads n bytes that are here already.
func (t *transfer) skip(r io.Reader, n int64) error {
	for n > 0 {
		got, err := io.CopyN(io.Discard, r, min(n, 1<<20))
		n -= got
		if err != nil {
			return err
		}
		t.s.Moved()
	}
	return nil
}

// extent returns the size of the file and the offset of the response's content.
func extent(answer *http.Response) (size, from int64, err error) {
	switch answer.StatusCode {
	case http.StatusOK:
		if answer.ContentLength < 0 {
			return 0, 0, fmt.Errorf("%s: the response has no length", answer.Request.URL.Redacted())
		}
		return answer.ContentLength, 0, nil
	case http.StatusPartialContent:
		if _, err := fmt.Sscanf(answer.Header.Get("Content-Range"), "bytes %d-",
			&from); err != nil {
			return 0, 0, fmt.Errorf("%s: Content-Range %q",
				answer.Request.URL.Redacted(), answer.Header.Get("Content-Range"))
		}

		_, total, _ := strings.Cut(answer.Header.Get("Content-Range"), "/")
		size, err = strconv.ParseInt(total, 10, 64)
		if err != nil || from < 0 || size < from {
			return 0, 0, fmt.Errorf("%s: Content-Range %q",
				answer.Request.URL.Redacted(), answer.Header.Get("Content-Range"))
		}

		return size, from, nil
	case http.StatusNotFound:
		return 0, 0, fmt.Errorf("%s: %w", answer.Request.URL.Redacted(), errNotFound)
	}

	return 0, 0, refusal(answer)
}

// refusal returns the error for a response with a bad status, with the
// server's explanation.
func refusal(answer *http.Response) error {
	// The status is enough, if no more comes.
	text, _ := io.ReadAll(io.LimitReader(answer.Body, 1<<10))
	reason := printable.Line(string(text), 1<<10)
	return errors.New(strings.TrimRight(fmt.Sprintf("%s %s: %s: %s",
		answer.Request.Method, answer.Request.URL.Redacted(), answer.Status, reason), ": "))
}

// pause waits before the next attempt.
func (t *transfer) pause(cause error) error {
	const step, most = time.Second, 10 * time.Second
	if err := t.ctx.Err(); err != nil {
		return err
	}

	if t.idle >= t.s.RequestTimeout {
		return hint.With(cause,
			"waited %s for it; is `loamctl serve` running, and does it serve this build?",
			t.s.RequestTimeout)
	}

	t.s.Say("%v; retrying", cause)
	t.s.Moved() // The wait does not count as a hang.
	d := min(max(step, t.idle), most)
	t.idle += d

	return t.s.Wait(t.ctx, d)
}

// report logs each quarter.
func (t *transfer) report() {
	t.s.Moved()
	if quarter := 4 * t.at / max(t.size, 1); quarter > t.shown && t.size > 1<<20 {
		t.shown = quarter
		name := t.url[strings.LastIndexByte(t.url, '/')+1:]
		t.s.Say("%s: %d of %d MiB", name, t.at>>20, t.size>>20)
	}
}

// NewClient returns a client for servers that are near. It follows no
// redirects, and gives up a connection that is idle for limit.
func NewClient(limit time.Duration) *http.Client {
	dialer := net.Dialer{Timeout: limit}

	return &http.Client{
		Transport: &http.Transport{
			DisableCompression: true,
			DialContext: func(ctx context.Context, network, address string) (net.Conn, error) {
				conn, err := dialer.DialContext(ctx, network, address)
				if err != nil {
					return nil, err
				}
				return limited{conn, limit}, nil
			},
		},
		CheckRedirect: func(*http.Request, []*http.Request) error {
			return http.ErrUseLastResponse
		},
	}
}

// limited is a connection whose reads time out.
type limited struct {
	net.Conn
	limit time.Duration
}

func (c limited) Read(p []byte) (int, error) {
	if err := c.SetReadDeadline(time.Now().Add(c.limit)); err != nil {
		return 0, err
	}
	return c.Conn.Read(p)
}
