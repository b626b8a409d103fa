package netboot

import (
	"bytes"
	"context"
	"errors"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/loam-os/loam/hint"
)

// serve is a server at that handler, whose waits take no time.
func serve(t *testing.T, handler http.HandlerFunc) (s *Server, waited *time.Duration) {
	t.Helper()
	web := httptest.NewServer(handler)
	t.Cleanup(web.Close)
	waited = new(time.Duration)
	s = &Server{
		URL:            web.URL,
		RootHash:       [32]byte{1},
		Node:           Identity{MACs: []string{"02:00:00:00:00:0A"}, Serial: "S 1", Arch: "amd64"},
		Client:         NewClient(time.Minute),
		Say:            t.Logf,
		Moved:          func() {},
		RequestTimeout: time.Minute,
		Wait:           func(_ context.Context, d time.Duration) error { *waited += d; return nil },
	}
	t.Cleanup(s.Client.CloseIdleConnections)

	return s, waited
}

// content returns 3 MiB without a repetition.
func content() []byte {
	b := make([]byte, 3<<20)
	r := rand.New(rand.NewPCG(1, 2))
	for i := range b {
		b[i] = byte(r.Uint32())
	}
	return b
}

// half sends a part of what it should, and breaks the connection.
type half struct {
	http.ResponseWriter
	left int
}

func (h *half) Write(b []byte) (int, error) {
	h.left -= len(b)
	if h.left <= 0 {
		panic(http.ErrAbortHandler)
	}
	return h.ResponseWriter.Write(b)
}

func TestATransferGoesOnWhereItWasCutOff(t *testing.T) {
	want := content()
	whole := func(w http.ResponseWriter, r *http.Request) {
		http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(want))
	}

	for _, test := range []struct {
		name   string
		answer func(n int, w http.ResponseWriter, r *http.Request)
		asked  int
	}{
		{"nothing is wrong", func(_ int, w http.ResponseWriter, r *http.Request) {
			whole(w, r)
		}, 1},
		{"the connection breaks twice", func(n int, w http.ResponseWriter, r *http.Request) {
			if n < 3 {
				w = &half{w, 1 << 20}
			}
			whole(w, r)
		}, 3},
		{
			"a server that knows no ranges sends all of it again",
			func(n int, w http.ResponseWriter, r *http.Request) {
				r.Header.Del("Range")
				if n == 1 {
					w = &half{w, 1 << 20}
				}
				whole(w, r)
			},
			2,
		},
		{"the server is not ready", func(n int, w http.ResponseWriter, r *http.Request) {
			if n < 4 {
				http.Error(w, "later", http.StatusServiceUnavailable)
				return
			}
			whole(w, r)
		}, 4},
		{
			"a range that was not asked for is not taken",
			func(n int, w http.ResponseWriter, r *http.Request) {
				switch n {
				case 1:
					w = &half{w, 1 << 20}
				case 2:
					r.Header.Set("Range", "bytes=3000000-")
				}
				whole(w, r)
			},
			3,
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			asked := 0
			s, _ := serve(t, func(w http.ResponseWriter, r *http.Request) {
				asked++
				test.answer(asked, w, r)
			})

			dir := t.TempDir()
			file, err := s.save(t.Context(), dir, "root")
			if err != nil {
				t.Fatal(err)
			}

			got, err := os.ReadFile(filepath.Join(dir, "root"))
			if err != nil || !bytes.Equal(got, want) || file.Size != int64(len(want)) {
				t.Errorf("%d bytes of %d, %v", len(got), len(want), err)
			}

			if asked != test.asked {
				t.Errorf("asked %d times, want %d", asked, test.asked)
			}
		})
	}
}

func TestATransferIsGivenUp(t *testing.T) {
	for _, test := range []struct {
		name   string
		answer http.HandlerFunc
		most   int64
		want   string
		waited time.Duration
	}{
		{"the server does not have it", http.NotFound, 0, "the server does not have it", 0},
		{
			"it is too large",
			func(w http.ResponseWriter, _ *http.Request) {
				_, _ = w.Write(make([]byte, 100))
			},
			10,
			"larger than allowed: 100 bytes",
			0,
		},
		{
			"the server is away for longer than the timeout",
			func(w http.ResponseWriter, _ *http.Request) {
				w.WriteHeader(http.StatusBadGateway)
			},
			0,
			"502 Bad Gateway\nhint: waited 1m0s",
			time.Minute,
		},
		{
			"the server says why, for no terminal to obey",
			func(w http.ResponseWriter, _ *http.Request) {
				http.Error(w, "a.yaml:3: x; hint: y\x1b[2J"+strings.Repeat("z", 2000),
					http.StatusServiceUnavailable)
			},
			0,
			"503 Service Unavailable: a.yaml:3: x; " +
				"hint: y [2J" + strings.Repeat("z", 1000) + "\nhint: waited",
			time.Minute,
		},
		{
			"a redirect is not followed",
			func(w http.ResponseWriter, r *http.Request) {
				http.Redirect(w, r, "http://192.0.2.1/", http.StatusFound)
			},
			0,
			"302 Found",
			time.Minute,
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			s, waited := serve(t, test.answer)
			_, err := io.ReadAll(s.open(t.Context(), "/x", test.most))
			if err == nil || !strings.Contains(hint.Text(err), test.want) {
				t.Errorf("error %v, want %q", err, test.want)
			}
			if *waited < test.waited || (test.waited == 0 && *waited > 0) {
				t.Errorf("waited %s, want %s", *waited, test.waited)
			}
		})
	}
}

func TestRequestsIdentifyTheNode(t *testing.T) {
	var asked []string
	s, _ := serve(t, func(w http.ResponseWriter, r *http.Request) {
		asked = append(asked, r.Method+" "+r.URL.String())
		if r.Header.Get("Loam-Machine") != "true" {
			t.Errorf("%s %s is not marked as a machine's", r.Method, r.URL.Path)
		}
		if r.URL.Path == "/v1/machine" {
			http.NotFound(w, r)
		}
	})

	text, err := s.Machine(t.Context())
	if text != nil || err != nil {
		t.Errorf("no machine.yaml: %q, %v", text, err)
	}

	packed, err := s.Packed(t.Context())
	if _, readErr := io.ReadAll(packed); errors.Join(err, readErr) != nil {
		t.Errorf("%v, %v", err, readErr)
	}

	if err := s.Installed(t.Context()); err != nil {
		t.Error(err)
	}

	const query = "?arch=amd64&mac=02%3A00%3A00%3A00%3A00%3A0a&serial=S+1"
	want := []string{
		"GET /v1/machine" + query, "GET /v1/boot/01" + strings.Repeat("0", 62) + "/disk.raw.zst",
		"POST /v1/installed" + query,
	}
	if diff := cmp.Diff(want, asked); diff != "" {
		t.Errorf("asked (-want +got):\n%s", diff)
	}
}

func TestIdentify(t *testing.T) {
	file := func(text string) *fstest.MapFile { return &fstest.MapFile{Data: []byte(text)} }
	pc := identify(fstest.MapFS{
		"sys/class/dmi/id/product_serial": file("C02X\n"),
		"sys/class/dmi/id/product_uuid":   file("03020100-0504-0706-0809-0A0B0C0D0E0F\n"),
	})
	if pc.Serial != "C02X" || !bytes.Equal(smbiosUUID(pc.UUID),
		[]byte{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15}) {
		t.Errorf("%+v", pc)
	}

	board := identify(
		fstest.MapFS{"sys/firmware/devicetree/base/serial-number": file("10000000abcd\x00")},
	)
	if board.Serial != "10000000abcd" || board.UUID != "" || smbiosUUID("") != nil {
		t.Errorf("%+v", board)
	}

	for url, ok := range map[string]bool{
		"http://192.0.2.1":           true,
		"http://192.0.2.1:8080/loam": true,
		"":                           false,
		"192.0.2.1":                  false,
		"https://x":                  false,
		"http://x/":                  false,
		"http://x?y":                 false,
	} {
		if err := CheckURL(url); (err == nil) != ok {
			t.Errorf("CheckURL(%q): %v", url, err)
		}
	}
}
