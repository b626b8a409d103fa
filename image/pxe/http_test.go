package pxe

import (
	"context"
	"errors"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/loam-os/loam/hint"
	"github.com/loam-os/loam/hint/fault"
	"github.com/loam-os/loam/image/manifest"
)

// oneMachine knows one machine.
type oneMachine struct{ asked, installed []Identity }

func (s *oneMachine) Machine(_ context.Context, id Identity) ([]byte, string, error) {
	s.asked = append(s.asked, id)
	switch {
	case id.Serial == "broken":
		wrong := fault.With(errors.New("default.yaml:3: x: unknown field"), fault.DocumentInvalid)
		return nil, "", hint.With(wrong, "y")
	case id.Serial == "no tokens":
		return nil, "", hint.With(&fs.PathError{
			Op:   "open",
			Path: "/srv/tokens",
			Err:  fs.ErrNotExist,
		}, "write a list to /srv/tokens")
	case !slices.Contains(id.MACs, mac.String()):
		return nil, "", hint.With(ErrNone, "write a.yaml")
	}
	return []byte("kind: Machine\n"), "a.yaml", nil
}

func (s *oneMachine) Installed(id Identity) (string, error) {
	s.installed = append(s.installed, id)
	return "rm x", nil
}

func (s *oneMachine) IsInstalled(mac string, _ []string) bool {
	return slices.ContainsFunc(s.installed, func(id Identity) bool {
		return slices.Contains(id.MACs, mac)
	})
}

// TestHandler asks as a machine does, from its first file to its last word.
func TestHandler(t *testing.T) {
	b, err := Open(write(t, func(*manifest.Manifest) {}))
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()

	o := Offers{URL: "http://192.0.2.1:8080", Builds: map[string]*Build{"amd64": b}}
	s := &oneMachine{}
	var said []string
	h := o.Handler(s, func(who, asked, got string) { said = append(said, who+" "+asked+": "+got) })
	const boots = "#!ipxe\necho loam 1 metal from http://192.0.2.1:8080\n" +
		"kernel http://192.0.2.1:8080/v1/boot/amd64-hash/vmlinuz initrd=initrd quiet " +
		"loam.server=http://192.0.2.1:8080\n" +
		"initrd --name initrd http://192.0.2.1:8080/v1/boot/amd64-hash/initrd\nboot\n"

	for _, test := range []struct {
		name, method, path, ranges string
		status                     int
		want                       string
	}{
		{
			name:   "a file",
			path:   "/v1/boot/amd64-hash/root",
			status: 200,
			want:   "loam.root",
		},
		{
			name:   "a part of it",
			path:   "/v1/boot/amd64-hash/root",
			ranges: "bytes=5-6",
			status: 206,
			want:   "ro",
		},
		{
			name:   "more than there is",
			path:   "/v1/boot/amd64-hash/root",
			ranges: "bytes=100-",
			status: 416,
			want:   "invalid range: failed to overlap\n",
		},
		{
			name:   "its size, as firmware asks",
			method: "HEAD",
			path:   "/v1/boot/amd64-hash/pxe.efi",
			status: 200,
		},
		{
			name:   "the disk image",
			path:   "/v1/boot/amd64-hash/disk.raw.zst",
			status: 200,
			want:   "loam.raw.zst",
		},
		{
			name:   "another build",
			path:   "/v1/boot/other/root",
			status: 404,
			want:   "404 page not found\n",
		},
		{
			name:   "a file that is not served",
			path:   "/v1/boot/amd64-hash/manifest.json",
			status: 404,
			want:   "404 page not found\n",
		},
		{
			name:   "iPXE's first question",
			path:   "/v1/ipxe",
			status: 200,
			want: "#!ipxe\n" +
				"chain http://192.0.2.1:8080/v1/ipxe?arch=${buildarch}&mac=${netX/mac}&uuid=${uuid}\n",
		},
		{
			name:   "iPXE's second",
			path:   "/v1/ipxe?arch=x86_64&mac=" + mac.String(),
			status: 200,
			want:   boots,
		},
		{
			name:   "iPXE that a BIOS has started",
			path:   "/v1/ipxe?arch=i386&mac=" + mac.String(),
			status: 200,
			want:   boots,
		},
		{
			name:   "iPXE on what there is no build for",
			path:   "/v1/ipxe?arch=arm64",
			status: 200,
			want: "#!ipxe\necho http://192.0.2.1:8080 has no build for this machine\nsleep 10\n" +
				"exit 1\n",
		},
		{
			name:   "machine.yaml",
			path:   "/v1/machine?mac=52:54:00:AB:00:00&mac=52-54-00-12-34-56&serial=%20S1%20&uuid=AA&arch=amd64",
			status: 200,
			want:   "kind: Machine\n",
		},
		{
			name:   "none",
			path:   "/v1/machine?mac=52:54:00:00:00:01",
			status: 404,
			want:   "no machine.yaml; hint: write a.yaml\n",
		},
		{
			name:   "one with a mistake",
			path:   "/v1/machine?serial=broken&mac=52:54:00:00:00:01",
			status: 503,
			want:   "default.yaml:3: x: unknown field; hint: y\n",
		},
		{
			name:   "a problem of the server",
			path:   "/v1/machine?serial=no+tokens&mac=52:54:00:00:00:01",
			status: 503,
			want:   "file-missing; hint: the log of the server has more\n",
		},
		{
			name:   "nobody",
			path:   "/v1/machine?serial=S1",
			status: 400,
			want:   "mac is missing\n",
		},
		{
			name:   "a MAC that is none",
			path:   "/v1/machine?mac=../../x",
			status: 400,
			want:   "mac \"../../x\": not a MAC address\n",
		},
		{
			name:   "a MAC that is too long",
			path:   "/v1/machine?mac=00:00:00:00:fe:80:00:00",
			status: 400,
			want:   "mac \"00:00:00:00:fe:80:00:00\": not a MAC address\n",
		},
		{
			name:   "a serial number of a novel",
			path:   "/v1/machine?mac=52:54:00:00:00:01&serial=" + strings.Repeat("a", 300),
			status: 400,
			want:   "more than a machine has\n",
		},
		{
			name:   "installed by GET",
			path:   "/v1/installed?mac=" + mac.String(),
			status: 405,
			want:   "Method Not Allowed\n",
		},
		{
			name:   "installed",
			method: "POST",
			path:   "/v1/installed?serial=S1&mac=" + mac.String(),
			status: 200,
		},
		{
			name:   "iPXE on a machine that is installed",
			path:   "/v1/ipxe?arch=x86_64&mac=52:54:00:12:34:56",
			status: 200,
			want:   "#!ipxe\necho This machine is installed: it boots from its disk\nexit\n",
		},
	} {
		r := httptest.NewRequest(
			strings.ToUpper(test.method+map[bool]string{true: "GET"}[test.method == ""]),
			test.path,
			nil,
		)

		r.Header.Set(ClientHeader, "true")
		if test.ranges != "" {
			r.Header.Set("Range", test.ranges)
		}

		w := &recorder{httptest.NewRecorder()}
		h.ServeHTTP(w, r)
		if w.Code != test.status || w.Body.String() != test.want {
			t.Errorf("%s: %d %q, want %d %q", test.name, w.Code, w.Body, test.status, test.want)
		}

		if strings.HasSuffix(test.path, ".efi") &&
			(w.Header().Get("Content-Type") != "application/efi" ||
				w.Header().Get("Content-Length") != "12") {
			t.Errorf("%s: %v", test.name, w.Header())
		}
	}

	// Two addresses that claim one MAC are told apart.
	for _, address := range []string{"192.0.2.50", "10.66.66.66"} {
		r := httptest.NewRequest(http.MethodGet, "/v1/machine?mac=52:54:00:AB:00:00", nil)
		r.RemoteAddr = address + ":1"
		r.Header.Set(ClientHeader, "true")
		h.ServeHTTP(&recorder{httptest.NewRecorder()}, r)
		line := said[len(said)-1]
		if !strings.HasPrefix(line, "52:54:00:ab:00:00 asks for its machine.yaml, at "+address+":") {
			t.Errorf("%s asks, and the log says %q", address, line)
		}
	}

	// A page in a browser that can connect to this server, and older browsers: they
	// do not say that it is of another site.
	asked := len(s.asked)
	installed := len(s.installed)
	for _, page := range []*http.Request{
		httptest.NewRequest(http.MethodGet, "/v1/machine?mac="+mac.String(), nil),
		httptest.NewRequest(http.MethodPost, "/v1/installed?mac="+mac.String(), nil),
	} {
		w := httptest.NewRecorder()
		h.ServeHTTP(&recorder{w}, page)
		if w.Code != http.StatusForbidden || len(s.asked) != asked ||
			len(s.installed) != installed {
			t.Errorf("%s by a page: %d %s", page.URL, w.Code, w.Body)
		}
	}

	want := Identity{
		MACs:   []string{"52:54:00:ab:00:00", "52:54:00:12:34:56"},
		Serial: "S1",
		UUID:   "aa",
		Arch:   "amd64",

		Address: "192.0.2.1",
	}
	if diff := cmp.Diff(want, s.asked[0]); diff != "" {
		t.Errorf("identity (-want +got):\n%s", diff)
	}

	for _, line := range []string{
		"192.0.2.1 loads root by HTTP: 0.0 MB in 0.0 s",
		`52:54:00:12:34:56 is installed, serial "S1", at 192.0.2.1: boots from its disk from now on; from the network again: rm x`,
		"52:54:00:12:34:56 iPXE asks what to do: boot for x86_64",
		"52:54:00:12:34:56 iPXE asks what to do: start from its disk, as it is installed",
		`52:54:00:00:00:01 asks for its machine.yaml, serial "broken", at 192.0.2.1: error: default.yaml:3: x: unknown field; hint: y`,
		`52:54:00:00:00:01 asks for its machine.yaml, serial "no tokens", at 192.0.2.1: error: open /srv/tokens: file does not exist; hint: write a list to /srv/tokens`,
	} {
		if !slices.Contains(said, line) {
			t.Errorf("never said %q, but\n%s", line, strings.Join(said, "\n"))
		}
	}
}

// TestAMachineThatClaimsToBeAnother asks from an address whose MAC the server
// knows.
func TestAMachineThatClaimsToBeAnother(t *testing.T) {
	table := map[netip.Addr]string{netip.MustParseAddr("192.0.2.1"): mac.String()}
	for _, test := range []struct {
		name, from, asks string
		status           int
		said             string
	}{
		{"itself", "192.0.2.1:1", "mac=" + mac.String(), 200, "a.yaml"},
		{
			"by another of its MACs", "[::ffff:192.0.2.1]:1",
			"mac=52:54:00:ab:00:00&mac=" + mac.String(), 200, "a.yaml",
		},
		{"from behind a router", "198.51.100.1:1", "mac=" + mac.String(), 200, "a.yaml"},
		{
			"another", "192.0.2.1:1", "mac=52:54:00:00:00:01", 403,
			mac.String() + " asks for its machine.yaml as 52:54:00:00:00:01, at 192.0.2.1: " +
				"nothing, as that is not its MAC",
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			said := ""
			o := Offers{Neighbour: func(a netip.Addr) string { return table[a.Unmap()] }}
			h := o.Handler(&oneMachine{}, func(who, asked, got string) {
				said = who + " " + asked + ": " + got
			})
			r := httptest.NewRequest("GET", "/v1/machine?"+test.asks, nil)
			r.RemoteAddr = test.from
			r.Header.Set(ClientHeader, "true")
			w := httptest.NewRecorder()
			h.ServeHTTP(w, r)
			if w.Code != test.status || !strings.HasSuffix(said, test.said) {
				t.Errorf("%d %q, said %q", w.Code, w.Body, said)
			}
		})
	}
}

// recorder takes a deadline, as a connection does.
type recorder struct{ *httptest.ResponseRecorder }

func (recorder) SetWriteDeadline(time.Time) error { return nil }
