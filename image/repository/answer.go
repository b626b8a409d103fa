package repository

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"

	"github.com/loam-os/loam/hint"
	"github.com/loam-os/loam/hint/fault"
)

// position makes the body of an answer begin at off.
func position(resp *http.Response, off, n int64) error {
	switch resp.StatusCode {
	case http.StatusPartialContent:
		return checkContentRange(resp, off, n)
	case http.StatusOK:
		if resp.ContentLength >= 0 && resp.ContentLength < off+n {
			return fmt.Errorf("the file has %d: %w", resp.ContentLength, ErrRange)
		}
		if _, err := io.CopyN(io.Discard, resp.Body, off); err != nil {
			return unexpected(err)
		}
		return nil
	case http.StatusRequestedRangeNotSatisfiable:
		return fmt.Errorf("server answers %s: %w", resp.Status, ErrRange)
	}
	return fault.With(fmt.Errorf("server answers %s", resp.Status), fault.RepositoryUnreachable)
}

// checkContentRange compares with "bytes 0-99/1234" (RFC 9110, 14.4). More
// ranges than one come without it.
func checkContentRange(resp *http.Response, off, n int64) error {
	have := resp.Header.Get("Content-Range")
	span, size, _ := strings.Cut(have, "/")
	total, err := strconv.ParseInt(size, 10, 64)
	if span != fmt.Sprintf("bytes %d-%d", off, off+n-1) ||
		(size != "*" && (err != nil || total < off+n)) {
		return fmt.Errorf("Content-Range %.80q: %w", have, ErrRange)
	}

	if resp.ContentLength >= 0 && resp.ContentLength != n {
		return fmt.Errorf("Content-Length %d: %w", resp.ContentLength, ErrRange)
	}

	return nil
}

func unexpected(err error) error {
	if errors.Is(err, io.EOF) {
		return io.ErrUnexpectedEOF
	}
	return err
}

// checkAnswer checks what every response must fulfil. Some object stores answer
// 403 for a file that does not exist.
func checkAnswer(resp *http.Response) error {
	switch code := resp.StatusCode; {
	case code == http.StatusNotFound, code == http.StatusGone:
		return fmt.Errorf("server answers %s: %w", resp.Status, ErrNotFound)
	case code == http.StatusForbidden:
		return hint.With(fmt.Errorf("server answers %s: %w", resp.Status, ErrNotFound),
			"the server, or a proxy on the way to it, may not let this machine have it")
	case resp.Header.Get("Content-Encoding") != "" &&
		resp.Header.Get("Content-Encoding") != "identity":
		return fmt.Errorf("Content-Encoding %.40q: not asked for",
			resp.Header.Get("Content-Encoding"))
	}
	return nil
}
