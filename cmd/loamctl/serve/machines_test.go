package serve

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/loam-os/loam/agent/netboot"
	"github.com/loam-os/loam/hint"
	"github.com/loam-os/loam/image/pxe"
)

// options are for a server with a file for one machine and a default, of which
// both or one want a token.
func options(t *testing.T, own, others string) bootOptions {
	t.Helper()
	o := bootOptions{
		machines: t.TempDir(),
		state:    filepath.Join(t.TempDir(), "state"),
		tokens:   filepath.Join(t.TempDir(), "tokens"),
	}

	for name, text := range map[string]string{
		filepath.Join(o.machines, macOf(1)+".yaml"): "apiVersion: loam.dev/v1alpha1\n" +
			"kind: Machine\n# " + own,
		filepath.Join(o.machines, "default.yaml"): "apiVersion: loam.dev/v1alpha1\n" +
			"kind: Machine\n# " + others,
		o.tokens: "aaaaaa.0123456789abcdef\nbbbbbb.0123456789abcdef\n",
	} {
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}

	return o
}

const (
	wanted  = "<<BOOTSTRAP_TOKEN>>"
	install = "\ninstall: {disk: {serial: S1}}"
)

func TestSiteRefuses(t *testing.T) {
	for _, test := range []struct {
		name        string
		own, others string
		edit        func(*bootOptions)
		wantErr     string
	}{
		{
			"tokens for whoever asks",
			wanted,
			wanted,
			func(*bootOptions) {},
			"default.yaml has <<BOOTSTRAP_TOKEN>>, which is for machines with a file of their " +
				"own\nhint: --tokens-for-all",
		},
		{
			"no tokens",
			wanted,
			"",
			func(o *bootOptions) {
				o.tokens = ""
			},
			macOf(1) + ".yaml has <<BOOTSTRAP_TOKEN>>, and there are no tokens\n" +
				"hint: give --tokens or --kubeconfig",
		},
		{
			"tokens that end before they are used",
			"",
			"",
			func(o *bootOptions) {
				o.tokens = ""
				o.kubeconfig = "none"
				o.valid = time.Minute
			},
			"--tokens-valid 1m0s: a machine needs minutes to install itself\n" +
				"hint: give it 5m or more",
		},
		{
			"a group of tokens that no API server accepts",
			"",
			"",
			func(o *bootOptions) {
				o.tokens = ""
				o.kubeconfig = "none"
				o.valid = time.Hour
				o.group = "plant"
			},
			`--tokens-group "plant": no API server accepts a token with that group` + "\n" +
				"hint: write one group of small letters",
		},
		{
			"tokens that are not there",
			"",
			"",
			func(o *bootOptions) {
				o.tokens = "none"
			},
			"open none: no such file",
		},
		{
			"machines that are not there",
			"",
			"",
			func(o *bootOptions) {
				o.machines = "none"
			},
			"--machines: open none: no such file",
		},
		{
			"a file with a mistake",
			"\n" +
				"hostname: A",
			"",
			func(*bootOptions) {},
			macOf(1) + `.yaml:4: hostname: "A" is not a host name`,
		},
	} {
		o := options(t, test.own, test.others)
		test.edit(&o)
		_, err := o.machineServer(io.Discard)
		if err == nil || !strings.Contains(hint.Text(err), test.wantErr) {
			t.Errorf("%s: error %v, want %q", test.name, err, test.wantErr)
		}
	}
}

func TestSite(t *testing.T) {
	o := options(t, wanted, "for all")
	var out bytes.Buffer
	s, err := o.machineServer(&out)
	if err != nil {
		t.Fatal(err)
	}
	defer s.close()

	want := "machines  " + o.machines + ": 1 with a file of their own, default.yaml for others\n" +
		"boots     every machine that asks the network to boot it\n"
	if out.String() != want {
		t.Errorf("printed %q, want %q", &out, want)
	}

	text, from, err := s.Machine(t.Context(), pxe.Identity{MACs: []string{macOf(1)}})
	if err != nil || !strings.HasSuffix(string(text), "# aaaaaa.0123456789abcdef") ||
		from != macOf(1)+".yaml, with join token aaaaaa" {
		t.Errorf("a machine with a file of its own: %q from %q, %v", text, from, err)
	}

	text, from, err = s.Machine(t.Context(), pxe.Identity{MACs: []string{macOf(2)}})
	if err != nil || !strings.HasSuffix(string(text), "# for all") || from != "default.yaml" {
		t.Errorf("another: %q from %q, %v", text, from, err)
	}

	// The default is edited while machines ask.
	if err := os.WriteFile(filepath.Join(o.machines, "default.yaml"), append(text, wanted...),
		0o600); err != nil {
		t.Fatal(err)
	}

	text, _, err = s.Machine(t.Context(), pxe.Identity{MACs: []string{macOf(2)}})
	if err == nil || text != nil || errors.Is(err, pxe.ErrNone) {
		t.Errorf("a token for whoever asks: %q, %v", text, err)
	}
}

// TestASecondAddressForAToken: behind a relay a MAC proves nothing, so the log
// has to say that two addresses got one token, also after a restart.
func TestASecondAddressForAToken(t *testing.T) {
	o := options(t, wanted, "")
	var said string
	ask := func(address string) int {
		t.Helper()
		s, err := o.machineServer(io.Discard)
		if err != nil {
			t.Fatal(err)
		}
		defer s.close()

		web := pxe.Offers{}.Handler(s, func(_, _, got string) { said = got })
		r := httptest.NewRequest("GET", "/v1/machine?mac="+macOf(1), nil)
		r.RemoteAddr = address + ":1024"
		r.Header.Set(pxe.ClientHeader, "true")
		answer := httptest.NewRecorder()
		web.ServeHTTP(answer, r)
		return answer.Code
	}

	plain := macOf(1) + ".yaml, with join token aaaaaa"
	for _, row := range []struct{ address, want string }{
		{"192.0.2.50", plain},
		{"192.0.2.50", plain},
		{"203.0.113.9", plain + "; WARNING: 192.0.2.50 has had this token, too. " +
			"If that is another machine, delete the token in the cluster"},
		{"192.0.2.50", plain},
	} {
		if code := ask(row.address); code != 200 || said != row.want {
			t.Errorf("%s: %d, said %q, want %q", row.address, code, said, row.want)
		}
	}
}

// newNode returns the client with which a machine asks s while it starts.
func newNode(t *testing.T, s *machineServer, said pxe.Said, macs ...string) *netboot.Server {
	t.Helper()
	web := httptest.NewServer(pxe.Offers{}.Handler(s, said))
	t.Cleanup(web.Close)

	return &netboot.Server{
		URL:    web.URL,
		Node:   netboot.Identity{MACs: macs},
		Client: web.Client(),
		Say:    t.Logf,
		Moved:  func() {},
		Wait:   func(context.Context, time.Duration) error { return nil },
	}
}

// TestAJoinTokenIsSpentOnceItsMachineIsInstalled has a machine get its token,
// install itself, and ask for another.
func TestAJoinTokenIsSpentOnceItsMachineIsInstalled(t *testing.T) {
	s, err := options(t, wanted+install, "").machineServer(io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	defer s.close()
	machine := newNode(t, s, func(string, string, string) {}, macOf(1))

	text, err := machine.Machine(t.Context())
	if err != nil || !strings.Contains(string(text), "aaaaaa.0123456789abcdef") {
		t.Fatalf("machine.yaml %q, %v", text, err)
	}
	if err := machine.Installed(t.Context()); err != nil {
		t.Fatal(err)
	}

	if _, err := s.Token(t.Context(), macOf(1)+".yaml", []string{macOf(1)}); err == nil ||
		!strings.Contains(err.Error(), "has had its token") {
		t.Errorf("another token: %v", err)
	}
}

// TestMachinesReportThatTheyAreInstalled has machines say that they are, as they do
// before they start from their disk.
func TestMachinesReportThatTheyAreInstalled(t *testing.T) {
	for _, test := range []struct {
		name        string
		own, others string
		macs        []string
		want        string
	}{
		{
			"its file says install",
			install,
			"",
			[]string{macOf(1), macOf(2)},
			"boots from its disk from now on",
		},
		{
			"its file does not",
			"",
			install,
			[]string{macOf(1)},
			"error: " + macOf(1) + ".yaml has no install: it goes on booting from the network",
		},
		{
			"the file for others does",
			"",
			install,
			[]string{macOf(2)},
			"boots from its disk from now on",
		},
		{
			"the file for others does not",
			install,
			"",
			[]string{macOf(2)},
			"error: default.yaml has no install",
		},
		{
			"there is no file for it",
			install,
			"none",
			[]string{macOf(2)},
			"error: no machine.yaml for " + macOf(2),
		},
	} {
		o := options(t, test.own, test.others)
		if test.others == "none" {
			_ = os.Remove(filepath.Join(o.machines, "default.yaml"))
		}

		s, err := o.machineServer(io.Discard)
		if err != nil {
			t.Fatal(err)
		}
		defer s.close()

		var said string
		machine := newNode(t, s, func(_, _, got string) { said = got }, test.macs...)
		err = machine.Installed(t.Context())

		taken := !strings.HasPrefix(test.want, "error: ")
		if !strings.HasPrefix(said, test.want) || (err == nil) != taken {
			t.Errorf("%s: %v, said %q, want %q", test.name, err, said, test.want)
		}

		for _, mac := range test.macs {
			if s.IsInstalled(mac, nil) != taken {
				t.Errorf("%s: %s is installed: %v", test.name, mac, !taken)
			}
		}
	}
}

// TestANodeReadsWhatIsServed has a node ask for a machine.yaml that is larger
// than what net/http buffers, and for one with a mistake.
func TestANodeReadsWhatIsServed(t *testing.T) {
	o := options(t, strings.Repeat("a", 5000), "")
	s, err := o.machineServer(io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	defer s.close()

	node := newNode(t, s, func(string, string, string) {}, macOf(1))
	name := filepath.Join(o.machines, macOf(1)+".yaml")
	want, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	if got, err := node.Machine(t.Context()); err != nil || !bytes.Equal(got, want) {
		t.Errorf("%d bytes of %d, %v", len(got), len(want), err)
	}

	if err := os.WriteFile(name, append(want, "\nhostName: x"...), 0o600); err != nil {
		t.Fatal(err)
	}

	const reason = "503 Service Unavailable: 52:54:00:00:00:01.yaml:4: hostName: unknown field; " +
		"hint: did you mean hostname?"
	if _, err := node.Machine(t.Context()); err == nil || !strings.Contains(err.Error(), reason) {
		t.Errorf("a file with a mistake: %v", err)
	}
}

// TestLostPartsOfAMachineYAMLAreErrors removes parts of a machine.yaml
// while the server runs: a node that heard that it has none would start
// without.
func TestLostPartsOfAMachineYAMLAreErrors(t *testing.T) {
	for _, test := range []struct {
		name string
		lose func(o bootOptions) error
	}{
		{"the tokens", func(o bootOptions) error { return os.Remove(o.tokens) }},
		{"what its file is a link to", func(o bootOptions) error {
			file := filepath.Join(o.machines, macOf(1)+".yaml")
			return errors.Join(os.Remove(file), os.Symlink("gone", file))
		}},
		{"the directory of all files", func(o bootOptions) error {
			return os.RemoveAll(o.machines)
		}},
		{"the directory of the record", func(o bootOptions) error { return os.RemoveAll(o.state) }},
	} {
		t.Run(test.name, func(t *testing.T) {
			o := options(t, wanted, "")
			s, err := o.machineServer(io.Discard)
			if err != nil {
				t.Fatal(err)
			}
			defer s.close()

			if err := test.lose(o); err != nil {
				t.Fatal(err)
			}

			answer := httptest.NewRecorder()
			r := httptest.NewRequest("GET", "/v1/machine?mac="+macOf(1), nil)
			r.Header.Set(pxe.ClientHeader, "true")
			pxe.Offers{}.Handler(s, func(string, string, string) {}).ServeHTTP(answer, r)
			if answer.Code != http.StatusServiceUnavailable {
				t.Errorf("%d %s", answer.Code, answer.Body)
			}
		})
	}
}

func TestJournal(t *testing.T) {
	var out bytes.Buffer
	now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	j := journal{out: &out, now: func() time.Time { return now }, said: map[string]time.Time{}}
	offers := pxe.Offers{URL: "http://192.0.2.1:8080"}
	tell := j.offered(offers)
	r := pxe.Request{Kind: pxe.BIOS, Arch: "amd64", MAC: macOf(1)}
	for range 3 { // as firmware asks
		tell(r, pxe.Offer{}, pxe.ErrBIOS)
		now = now.Add(4 * time.Second)
	}

	j.say("192.0.2.7", "loads root by HTTP", "180.5 MB in 10.1 s")
	now = now.Add(again)
	r.Kind = pxe.Firmware
	tell(r, pxe.Offer{Disk: true}, nil)
	r.Kind = pxe.Init
	tell(r, pxe.Offer{File: offers.URL}, nil)

	const want = `12:00:00  52:54:00:00:00:01  BIOS PXE asks what to boot: its firmware starts as a BIOS, Loam by UEFI: switch that on in its setup, or start iPXE
12:00:12  192.0.2.7          loads root by HTTP: 180.5 MB in 10.1 s
12:00:27  52:54:00:00:00:01  UEFI PXE asks what to boot: its disk, as it is installed
12:00:27  52:54:00:00:00:01  Loam starts and asks for its server: http://192.0.2.1:8080
`
	if diff := cmp.Diff(want, out.String()); diff != "" {
		t.Errorf("printed (-want +got):\n%s", diff)
	}

	for i := range 2 * maxSaid {
		j.say(macOf(1), "asks", strconv.Itoa(i))
	}

	if len(j.said) > maxSaid {
		t.Errorf("%d lines are remembered", len(j.said))
	}
}
