package serve

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"strings"
	"testing"

	"github.com/loam-os/loam/image/pxe"
)

func TestHosts(t *testing.T) {
	names := hosts{"boot.example", "203.0.113.5"}
	for _, test := range []struct {
		host, local string
		want        bool
	}{
		{"192.0.2.1:8080", "192.0.2.1", true},
		{"192.0.2.1", "192.0.2.1", true},
		{"192.0.2.1:8080", "::ffff:192.0.2.1", true},
		{"192.0.2.1:9090", "192.0.2.1", true}, // a port that is forwarded
		{"[2001:db8::1]:8080", "2001:db8::1", true},
		{"[2001:DB8:0::1]", "2001:db8::1", true},
		{"[fe80::1]:8080", "fe80::1%eth0", true},
		{"boot.example:8080", "192.0.2.1", true},
		{"Boot.Example", "192.0.2.1", true},
		{"203.0.113.5:8080", "192.0.2.1", true},
		{"localhost:8080", "127.0.0.1", true},
		{"localhost:8080", "::1", true},

		{"other", "192.0.2.1", false},
		{"other:8080", "192.0.2.1", false},
		{"192.0.2.2:8080", "192.0.2.1", false},
		{"192.0.2.1.other.example", "192.0.2.1", false},
		{"boot.example.other", "192.0.2.1", false},
		{"localhost:8080", "192.0.2.1", false},
		{"", "192.0.2.1", false},
		{"", "", false},
		{"invalid IP", "", false},
	} {
		local, _ := netip.ParseAddr(test.local)
		if got := names.have(test.host, local); got != test.want {
			t.Errorf("%q at %s: %t, want %t", test.host, test.local, got, test.want)
		}
	}
}

// TestWebPages asks a server over real HTTP as browsers do for pages, and as
// machines do.
func TestWebPages(t *testing.T) {
	o := options(t, wanted, "for all")
	machines, err := o.machineServer(io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	defer machines.close()

	dir, _, _ := servedBuild(t)
	build, err := pxe.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer build.Close()

	mux := http.NewServeMux()
	offers := pxe.Offers{Builds: map[string]*pxe.Build{"amd64": build}}
	mux.Handle("/v1/", offers.Handler(machines, func(string, string, string) {}))
	turns, err := serveTurns(mux, t.TempDir(), 1, io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	defer turns.Close()

	web := httptest.NewServer(hosts{"boot.example"}.guard(mux))
	defer web.Close()

	lock := `{"client_params": {"id": "one", "group": "default"}}`
	for _, test := range []struct {
		name, method, path, host, header, body string
		want                                   int
	}{
		{
			name:   "a page of another site reads",
			method: "GET",
			path:   "/v1/machine?mac=" + macOf(1),
			want:   http.StatusForbidden,
		},
		{
			name:   "a page of another site posts",
			method: "POST",
			path:   "/v1/installed?mac=" + macOf(1),
			want:   http.StatusForbidden,
		},
		{
			name:   "a browser asks whether a page may send the header",
			method: "OPTIONS",
			path:   "/v1/machine?mac=" + macOf(1),
			want:   http.StatusMethodNotAllowed,
		},
		{
			name:   "a page whose name resolves to the server",
			method: "GET",
			path:   "/v1/machine?mac=" + macOf(1),
			host:   "other",
			header: pxe.ClientHeader,
			want:   http.StatusMisdirectedRequest,
		},
		{
			name:   "such a page takes a turn",
			method: "POST",
			path:   "/v1/pre-reboot",
			host:   "other",
			header: "fleet-lock-protocol",
			body:   lock,
			want:   http.StatusMisdirectedRequest,
		},
		{
			name:   "such a page lists turns",
			method: "GET",
			path:   "/v1/turns",
			host:   "other:80",
			want:   http.StatusMisdirectedRequest,
		},
		{
			name:   "a page of another site takes a turn",
			method: "POST",
			path:   "/v1/pre-reboot",
			body:   lock,
			want:   http.StatusBadRequest,
		},
		{
			name:   "firmware that was told a name",
			method: "GET",
			path:   "/v1/boot/00ff/pxe.efi",
			host:   "firmware.example",
			want:   http.StatusOK,
		},
		{
			name:   "iPXE that was told a name",
			method: "GET",
			path:   "/v1/ipxe",
			host:   "firmware.example",
			want:   http.StatusOK,
		},
		{
			name:   "an operator",
			method: "GET",
			path:   "/v1/turns",
			want:   http.StatusOK,
		},
		{
			name:   "a machine that was told a name",
			method: "GET",
			path:   "/v1/machine?mac=" + macOf(2),
			host:   "boot.example",
			header: pxe.ClientHeader,
			want:   http.StatusOK,
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			r, err := http.NewRequestWithContext(t.Context(), test.method, web.URL+test.path,
				strings.NewReader(test.body))
			if err != nil {
				t.Fatal(err)
			}
			r.Host = test.host
			if test.header != "" {
				r.Header.Set(test.header, "true")
			}

			answer, err := web.Client().Do(r)
			if err != nil {
				t.Fatal(err)
			}
			defer answer.Body.Close()
			text, err := io.ReadAll(answer.Body)
			if err != nil {
				t.Fatal(err)
			}
			if answer.StatusCode != test.want {
				t.Errorf("%s %s", answer.Status, text)
			}
			for name := range answer.Header {
				if strings.HasPrefix(name, "Access-Control-") {
					t.Errorf("header %s allows pages what they ask for", name)
				}
			}
		})
	}

	// No token was given, and no machine is installed.
	if machines.IsInstalled(macOf(1), nil) {
		t.Error("a page has a machine boot from its disk")
	}
	if _, err := os.Stat(o.state + "/tokens.json"); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a page has a token given: %v", err)
	}
}

// TestServeRefusesOtherHosts has the command itself asked by another name.
func TestServeRefusesOtherHosts(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	out, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer out.Close()

	cmd := Command()
	cmd.SetArgs([]string{
		"--turns", "1", "--state", t.TempDir(), "--listen", "127.0.0.1:0", "--host", "turns.example",
	})
	cmd.SetOut(w)
	ended := make(chan error, 1)
	go func() {
		ended <- cmd.ExecuteContext(ctx)
		w.Close()
	}()

	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	url, ok := strings.CutPrefix(strings.TrimSpace(line), "serving 1 turns at ")
	if !ok {
		t.Fatalf("printed %q", line)
	}

	for host, want := range map[string]int{
		"other":              http.StatusMisdirectedRequest,
		"turns.example:8080": http.StatusOK,
		"":                   http.StatusOK,
	} {
		r, err := http.NewRequestWithContext(ctx, http.MethodGet, url+"/v1/turns", nil)
		if err != nil {
			t.Fatal(err)
		}
		r.Host = host
		answer, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		answer.Body.Close()
		if answer.StatusCode != want {
			t.Errorf("host %q: %s, want %d", host, answer.Status, want)
		}
	}

	cancel()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

// TestAMachineThatAddsAMACOfAnother asks on the server's link with its own MAC and
// one more, for what is of the other.
func TestAMachineThatAddsAMACOfAnother(t *testing.T) {
	const victim, thief = 1, 2
	for _, test := range []struct {
		name   string
		link   int // whose MAC the server knows, 0 if none
		path   string
		status int
	}{
		{"the machine itself", victim, "/v1/machine?mac=" + macOf(victim), 200},
		{
			"the machine itself, with two devices", victim,
			"/v1/machine?mac=" + macOf(3) + "&mac=" + macOf(victim), 200,
		},
		{
			"another one, with its own MAC, too", thief,
			"/v1/machine?mac=" + macOf(victim) + "&mac=" + macOf(thief), 403,
		},
		{
			"another one says that it is installed", thief,
			"/v1/installed?mac=" + macOf(thief) + "&mac=" + macOf(victim), 403,
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			o := options(t, wanted+"\ninstall: {disk: {serial: S1}}", "for all")
			s, err := o.machineServer(io.Discard)
			if err != nil {
				t.Fatal(err)
			}
			defer s.close()

			offers := pxe.Offers{Neighbour: func(netip.Addr) string { return macOf(test.link) }}
			method := "GET"
			if strings.HasPrefix(test.path, "/v1/installed") {
				method = "POST"
			}
			r := httptest.NewRequest(method, test.path, nil)
			r.Header.Set(pxe.ClientHeader, "true")
			w := httptest.NewRecorder()
			offers.Handler(s, func(string, string, string) {}).ServeHTTP(w, r)
			if w.Code != test.status {
				t.Errorf("%d %s", w.Code, w.Body)
			}
			if given := strings.Contains(w.Body.String(), "0123456789abcdef"); given !=
				(test.status == 200) {
				t.Errorf("has the token: %t", given)
			}
			if s.IsInstalled(macOf(victim), nil) {
				t.Error("the machine of the file is installed")
			}
		})
	}
}

// TestAMachineThatIsSaidToBeInstalled has a machine without a file of its own say that
// it is installed, with a MAC of another one beside its own: the other's firmware
// goes on booting from the network, unless it says the same UUID.
func TestAMachineThatIsSaidToBeInstalled(t *testing.T) {
	const install = "\ninstall: {disk: {serial: S1}}"
	const own, other = "00000000-0000-4000-8000-000000000001", "00000000-0000-4000-8000-000000000002"
	for _, test := range []struct {
		name string
		// link is the MAC that the server knows the machine by.
		link  string
		uuids []string
		want  bool
	}{
		{"another machine", macOf(2), []string{other, "turned"}, false},
		{"a machine that says no UUID", macOf(2), nil, false},
		{"a second device of the machine", macOf(2), []string{"turned", own}, true},
		{"behind a router", "", []string{other}, true},
	} {
		t.Run(test.name, func(t *testing.T) {
			o := options(t, "", install)
			s, err := o.machineServer(io.Discard)
			if err != nil {
				t.Fatal(err)
			}
			defer s.close()

			offers := pxe.Offers{Neighbour: func(netip.Addr) string { return test.link }}
			web := offers.Handler(s, func(string, string, string) {})
			ask := func(method, path string) *httptest.ResponseRecorder {
				r := httptest.NewRequest(method, path, nil)
				r.Header.Set(pxe.ClientHeader, "true")
				w := httptest.NewRecorder()
				web.ServeHTTP(w, r)
				return w
			}
			w := ask("POST", "/v1/installed?uuid="+own+"&mac="+macOf(2)+"&mac="+macOf(3))
			if w.Code != 200 {
				t.Fatalf("%d %s", w.Code, w.Body)
			}

			if !s.IsInstalled(macOf(2), nil) {
				t.Error("the machine itself is not installed")
			}
			if got := s.IsInstalled(macOf(3), test.uuids); got != test.want {
				t.Errorf("the other MAC is installed: %t", got)
			}
			script := "/v1/ipxe?arch=x86_64&mac=" + macOf(3)
			if len(test.uuids) > 0 {
				script += "&uuid=" + test.uuids[len(test.uuids)-1]
			}
			answer := ask("GET", script).Body.String()
			if got := strings.Contains(answer, "is installed"); got != test.want {
				t.Errorf("iPXE of the other MAC starts its disk: %t", got)
			}
		})
	}
}

// TestATokenForAllIsOneMachines has a machine without a file ask with the MAC of
// another one beside its own.
func TestATokenForAllIsOneMachines(t *testing.T) {
	o := options(t, "", wanted)
	o.everybody = true
	s, err := o.machineServer(io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	defer s.close()

	token := func(link int, macs ...string) string {
		t.Helper()
		text, _, err := s.Machine(t.Context(), pxe.Identity{MACs: macs, LinkMAC: macOf(link)})
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	first := token(2, macOf(2))
	if again := token(2, macOf(2)); again != first {
		t.Error("a machine that asks again gets another token")
	}
	if other := token(3, macOf(2), macOf(3)); other == first {
		t.Error("two machines have one token")
	}
}
