package repository

import (
	"context"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/loam-os/loam/hint"
	"github.com/loam-os/loam/hint/fault"
	"github.com/loam-os/loam/hint/network"
)

// part answers a range request as a server should, but for what change does to
// the headers; n bytes of the body are sent.
func part(n int, change func(http.Header)) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Range", "bytes 10-19/36")
		w.Header().Set("Content-Length", "10")
		change(w.Header())
		w.WriteHeader(http.StatusPartialContent)
		_, _ = w.Write(content[10 : 10+n])
	}
}

func whole(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(content) }

// TestFaultsOfAServer: bytes 10 to 19 are asked for.
func TestFaultsOfAServer(t *testing.T) {
	status := func(code int) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(code) }
	}

	set := func(key, value string) func(http.Header) {
		return func(h http.Header) { h.Set(key, value) }
	}

	for _, tc := range []struct {
		name   string
		server http.HandlerFunc
		want   string
		is     error
		err    string
	}{
		{"no fault", part(10, func(http.Header) {}), "abcdefghij", nil, ""},
		{
			"the size of the whole is not said",
			part(10, set("Content-Range", "bytes 10-19/*")),
			"abcdefghij",
			nil,
			"",
		},
		{"the whole file instead of the range", whole, "abcdefghij", nil, ""},
		{
			"the whole file, which is too short",
			func(w http.ResponseWriter, _ *http.Request) {
				_, _ = w.Write(content[:15])
			},
			"",
			ErrRange,
			"the file has 15",
		},
		{
			"the whole file without length, too short",
			func(w http.ResponseWriter, _ *http.Request) {
				_, _ = w.Write(content[:5])
				_ = http.NewResponseController(w).Flush()
				_, _ = w.Write(content[5:15])
			},
			"abcde",
			io.ErrUnexpectedEOF,
			"",
		},
		{
			"the whole file without length, shorter than the offset",
			func(w http.ResponseWriter, _ *http.Request) {
				_, _ = w.Write(content[:5])
				_ = http.NewResponseController(w).Flush()
			},
			"",
			io.ErrUnexpectedEOF,
			"",
		},
		{"416", status(416), "", ErrRange, "416"},
		{
			"another range",
			part(10, set("Content-Range", "bytes 0-9/36")),
			"",
			ErrRange,
			`Content-Range "bytes 0-9/36"`,
		},
		{
			"a shorter range",
			part(10, set("Content-Range", "bytes 10-18/36")),
			"",
			ErrRange,
			"Content-Range",
		},
		{
			"a range beyond the size",
			part(10, set("Content-Range", "bytes 10-19/15")),
			"",
			ErrRange,
			"Content-Range",
		},
		{
			"no Content-Range",
			part(10, func(h http.Header) { h.Del("Content-Range") }),
			"",
			ErrRange,
			"Content-Range",
		},
		{"another length", part(9, set("Content-Length", "9")), "", ErrRange, "Content-Length 9"},
		{"a body cut off", part(4, func(http.Header) {}), "abcd", io.ErrUnexpectedEOF, ""},
		{
			"compressed",
			part(10, set("Content-Encoding", "gzip")),
			"",
			nil,
			`Content-Encoding "gzip": not asked for`,
		},
		{"404", status(404), "", ErrNotFound, "404"},
		{"403, as object stores say it", status(403), "", ErrNotFound, "403"},
		{
			"407, which is of a proxy",
			status(407),
			"",
			nil,
			"the proxy wants a user and a password",
		},
		{"503", status(503), "", nil, "server answers 503 Service Unavailable"},
		{"204", status(204), "", nil, "server answers 204"},
		{
			"an endless circle of redirects",
			func(w http.ResponseWriter, r *http.Request) {
				http.Redirect(w, r, r.URL.Path, http.StatusFound)
			},
			"",
			nil,
			"more than 5 redirects",
		},
		{
			"a redirect to a file",
			func(w http.ResponseWriter, r *http.Request) {
				http.Redirect(w, r, "file:///etc/passwd", http.StatusFound)
			},
			"",
			nil,
			"unsupported protocol scheme",
		},
		{
			"no HTTP",
			func(w http.ResponseWriter, _ *http.Request) {
				conn, _, err := http.NewResponseController(w).Hijack()
				if err == nil {
					fmt.Fprint(conn, "SSH-2.0-OpenSSH_10.0\r\n")
					conn.Close()
				}
			},
			"",
			nil,
			"malformed HTTP",
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			server := httptest.NewServer(tc.server)
			defer server.Close()

			s, err := Open(server.URL)
			if err != nil {
				t.Fatal(err)
			}

			got, err := readRange(t, s, "file", 10, 10)
			if string(got) != tc.want || (err != nil) != (tc.is != nil || tc.err != "") {
				t.Fatalf("%q, %v, want %q", got, err, tc.want)
			}

			if (tc.is != nil && !errors.Is(err, tc.is)) ||
				(err != nil && !strings.Contains(err.Error(), tc.err)) {
				t.Errorf("error %v, want %v %q", err, tc.is, tc.err)
			}
		})
	}
}

// A file that a proxy denies is not one that the repository lacks: the repository was
// not asked.
func TestAProxyThatDeniesARepository(t *testing.T) {
	proxy := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("X-Squid-Error", "ERR_ACCESS_DENIED 0")
		w.WriteHeader(http.StatusForbidden)
	}))
	defer proxy.Close()
	s, err := Open(proxy.URL)
	if err != nil {
		t.Fatal(err)
	}

	_, whole := s.Get(t.Context(), "file", 100)
	_, part := readRange(t, s, "file", 10, 10)
	for _, err := range []error{whole, part} {
		if errors.Is(err, ErrNotFound) || fault.Of(err) != fault.ProxyRefuses {
			t.Errorf("%v: code %s", err, fault.Of(err))
		}
	}
}

func TestAFileThatIsDeniedHasAHint(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusForbidden)
	}))
	defer server.Close()
	s, err := Open(server.URL)
	if err != nil {
		t.Fatal(err)
	}

	_, err = s.Get(t.Context(), "file", 100)
	if !errors.Is(err, ErrNotFound) || !strings.Contains(hint.Of(err), "a proxy on the way") {
		t.Errorf("%v, hint %q", err, hint.Of(err))
	}
}

func TestAServerThatIsOverloadedIsUnreachable(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusServiceUnavailable)
	}))
	defer server.Close()
	s, err := Open(server.URL)
	if err != nil {
		t.Fatal(err)
	}

	_, whole := s.Get(t.Context(), "file", 100)
	_, part := readRange(t, s, "file", 10, 10)
	for _, err := range []error{whole, part} {
		if code := fault.Of(err); code != fault.RepositoryUnreachable {
			t.Errorf("%v: code %s", err, code)
		}
	}
}

func TestAServerThatIsAwayIsNamed(t *testing.T) {
	server := httptest.NewServer(http.NotFoundHandler())
	server.Close()
	s, err := Open(server.URL)
	if err != nil {
		t.Fatal(err)
	}

	_, err = s.Get(t.Context(), "metadata/timestamp.json", 100)
	want := server.URL + "/metadata/timestamp.json\": connect to " +
		server.Listener.Addr().String() + ": "
	if err == nil || !strings.Contains(err.Error(), want) ||
		!strings.Contains(hint.Of(err), "is the server running") {
		t.Errorf("%v, hint %q; want %q", err, hint.Of(err), want)
	}
}

func TestFaultsOfAServerWithAWholeFile(t *testing.T) {
	for _, tc := range []struct {
		name   string
		server http.HandlerFunc
		is     error
	}{
		{"without end", func(w http.ResponseWriter, r *http.Request) {
			for r.Context().Err() == nil {
				if _, err := w.Write(content); err != nil {
					return
				}
			}
		}, ErrTooLarge},
		{"said to be huge", func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Length", "1000000000000")
		}, ErrTooLarge},
		{"cut off", func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Length", "36")
			_, _ = w.Write(content[:20])
		}, io.ErrUnexpectedEOF},
	} {
		t.Run(tc.name, func(t *testing.T) {
			server := httptest.NewServer(tc.server)
			defer server.Close()

			s, err := Open(server.URL)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := s.Get(t.Context(), "file", 100); !errors.Is(err, tc.is) {
				t.Errorf("error %v, want %v", err, tc.is)
			}
		})
	}
}

func TestTLS(t *testing.T) {
	plain := httptest.NewServer(http.HandlerFunc(whole))
	defer plain.Close()
	server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/away" {
			http.Redirect(w, r, plain.URL, http.StatusFound)
			return
		}
		whole(w, r)
	}))

	server.Config.ErrorLog = nil
	defer server.Close()

	ca := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})
	for _, tc := range []struct {
		name, file string
		options    []Option
		err        string
	}{
		{"an authority that the system does not know", "file", nil, "certificate"},
		{"the same, given", "file", []Option{CAs(ca)}, ""},
		{"a redirect to http", "away", []Option{CAs(ca)}, "redirect from https to http"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			s, err := Open(server.URL, tc.options...)
			if err != nil {
				t.Fatal(err)
			}
			_, err = s.Get(t.Context(), tc.file, 100)
			if (tc.err == "" && err != nil) ||
				(tc.err != "" && (err == nil || !strings.Contains(err.Error(), tc.err))) {
				t.Errorf("error %v, want %q", err, tc.err)
			}
		})
	}
}

// TestAServerThatStalls: after some bytes of the body, or before its answer.
// The connection is in memory, time is not real.
func TestAServerThatStalls(t *testing.T) {
	for _, tc := range []struct{ name, answer, got string }{
		{"before its answer", "", ""},
		{"in the body", "HTTP/1.1 206 Partial Content\r\nContent-Length: 10\r\n" +
			"Content-Range: bytes 10-19/36\r\n\r\nabcd", "abcd"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s, err := Open("http://server")
				if err != nil {
					t.Fatal(err)
				}

				here, there := net.Pipe()
				defer there.Close()
				explained := s.(*httpStore).client.(*http.Client).Transport.(network.RoundTripper)
				transport := explained.RoundTripper.(stalling).RoundTripper.(*http.Transport)
				transport.Proxy = nil
				transport.DialContext = func(context.Context, string, string) (net.Conn, error) {
					return here, nil
				}

				go func() {
					_, _ = there.Read(make([]byte, 4096))
					_, _ = io.WriteString(there, tc.answer)
				}()

				begin := time.Now()
				got, err := readRange(t, s, "file", 10, 10)
				if string(got) != tc.got || !errors.Is(err, ErrStalled) {
					t.Errorf("%q, %v", got, err)
				}

				if took := time.Since(begin); took != 15*time.Second {
					t.Errorf("took %v", took)
				}
			})
		})
	}
}

// TestTheLeastSpeed: a bad line is not a server that does not want to, and a
// reader that takes its time is not the server's fault.
func TestTheLeastSpeed(t *testing.T) {
	type step struct {
		pause time.Duration
		bytes int
	}

	for _, tc := range []struct {
		name  string
		steps []step
		times int
		// reader is how long the reader takes before each read.
		reader, want time.Duration
		err          error
	}{
		{"a line of 16 KiB/s", []step{{time.Second, 16 << 10}}, 600, 0, 10 * time.Minute, nil},
		{
			"one of half that, which is gone for 14 s in a minute",
			append([]step{{14 * time.Second, 1}},
				slices.Repeat([]step{{time.Second, 8 << 10}}, 46)...),
			5,
			0,
			5 * time.Minute,
			nil,
		},
		{
			"a few bytes after a long time",
			[]step{{14 * time.Second, 5}},
			4,
			0,
			56 * time.Second,
			nil,
		},
		{"a byte every 14 s", []step{{14 * time.Second, 1}}, 600, 0, 70 * time.Second, ErrSlow},
		{
			"4 KiB/s, but for a byte a second",
			[]step{{time.Second, 4<<10 - 1}},
			600,
			0,
			time.Minute,
			ErrSlow,
		},
		{
			"a lot, and then a byte a second",
			append([]step{{0, 8 << 20}}, slices.Repeat([]step{{time.Second, 1}}, 600)...),
			1,
			0,
			2 * time.Minute,
			ErrSlow,
		},
		{
			"all at once, for a reader that takes its time",
			[]step{{0, 1}},
			20,
			10 * time.Second,
			210 * time.Second,
			nil,
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithCancelCause(t.Context())
				server, client := io.Pipe()
				body := &watched{ReadCloser: server, ctx: ctx, cancel: cancel}
				var group sync.WaitGroup
				defer group.Wait()

				defer body.Close()

				group.Go(func() {
					defer client.Close()
					for range tc.times {
						for _, s := range tc.steps {
							time.Sleep(s.pause)
							if _, err := client.Write(make([]byte, s.bytes)); err != nil {
								return
							}
						}
					}
				})

				begin, err := time.Now(), error(nil)
				for buf := make([]byte, 8<<20); err == nil; {
					time.Sleep(tc.reader)
					_, err = body.Read(buf)
				}

				took := time.Since(begin)
				if took != tc.want || (err != io.EOF && !errors.Is(err, tc.err)) ||
					(err == io.EOF) != (tc.err == nil) {
					t.Errorf("after %v: %v, want %v after %v", took, err, tc.err, tc.want)
				}
			})
		})
	}
}

func TestARequestEndsWithItsContext(t *testing.T) {
	begun := make(chan struct{})
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_ = http.NewResponseController(w).Flush()
		close(begun)
		<-r.Context().Done()
	}))
	defer server.Close()

	s, err := Open(server.URL)
	if err != nil {
		t.Fatal(err)
	}

	ctx, cancel := context.WithCancel(t.Context())
	go func() { <-begun; cancel() }()
	if _, err := s.Get(ctx, "file", 100); !errors.Is(err, context.Canceled) {
		t.Errorf("error %v", err)
	}
}

// TestAMirrorIsNotFollowed has a mirror that redirects its readers, and a
// mirror that does not support ranges.
func TestAMirrorIsNotFollowed(t *testing.T) {
	there := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, "0123456789")
	}))
	t.Cleanup(there.Close)
	elsewhere := httptest.NewServer(http.RedirectHandler(there.URL, http.StatusFound))
	t.Cleanup(elsewhere.Close)

	for url, want := range map[string]string{
		elsewhere.URL: "redirect from",
		there.URL:     "knows no ranges",
	} {
		s, err := Open(url, Mirror())
		if err != nil {
			t.Fatal(err)
		}
		if _, err := s.Range(t.Context(), "the.pack", 2, 3); err == nil ||
			!strings.Contains(err.Error(), want) {
			t.Errorf("error %v, want %q", err, want)
		}
	}

	// The repository itself may have its files elsewhere.
	s, err := Open(elsewhere.URL)
	if err != nil {
		t.Fatal(err)
	}
	if got, err := readRange(t, s, "the.pack", 2, 3); string(got) != "234" || err != nil {
		t.Errorf("%q, %v", got, err)
	}
}
