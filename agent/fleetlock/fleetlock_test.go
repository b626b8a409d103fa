package fleetlock

import (
	"encoding/json"
	"encoding/pem"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"go.uber.org/zap"

	"github.com/loam-os/loam/hint/fault"
)

// TestARequestIsThatOfTheSpecification compares it with the example of the
// protocol, and shows what a server refuses.
func TestARequestIsThatOfTheSpecification(t *testing.T) {
	var body any
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodPost || r.Header.Get("fleet-lock-protocol") != "true" ||
			r.URL.Path != "/base/v1/pre-reboot" {
			t.Errorf("%s %s %v", r.Method, r.URL, r.Header)
		}
		if err := json.NewDecoder(r.Body).Decode(&body); err != nil {
			t.Error(err)
		}
		w.WriteHeader(http.StatusNotFound)
		_, _ = io.WriteString(w, `{"kind": "failed_lock_semaphore_full",
			"value": "semaphore currently full, all slots are locked already"}`)
	}))
	defer server.Close()

	err := Server{
		URL:    server.URL + "/base/",
		Client: Client{ID: "c988d2509fdf5cdcbed39037c56406fb", Group: "default"},
		HTTP:   server.Client(),
	}.Lock(t.Context())
	if err == nil || !strings.HasSuffix(err.Error(),
		"semaphore currently full, all slots are locked already") {
		t.Errorf("%v", err)
	}

	var want any
	const example = `{"client_params": {"group": "default", "id": "c988d2509fdf5cdcbed39037c56406fb"}}`
	if err := json.Unmarshal([]byte(example), &want); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, body); diff != "" {
		t.Errorf("body (-want +got):\n%s", diff)
	}
}

// TestTheServerIsTrustedOnceItsAuthorityIsThere has a machine that asks before its
// configuration brings the authority of the server.
func TestTheServerIsTrustedOnceItsAuthorityIsThere(t *testing.T) {
	server := httptest.NewUnstartedServer(
		http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	server.Config.ErrorLog = log.New(io.Discard, "", 0)
	server.StartTLS()
	defer server.Close()
	bundle := filepath.Join(t.TempDir(), "bundle.crt")
	if err := os.WriteFile(bundle, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	t.Setenv("SSL_CERT_FILE", bundle)
	t.Setenv("SSL_CERT_DIR", t.TempDir())

	machine := Server{URL: server.URL, HTTP: NewHTTP()}
	err := machine.Lock(t.Context())
	if fault.Of(err) != fault.CertificateNotTrusted {
		t.Fatalf("before: %v", err)
	}

	authority := &pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw}
	if err := os.WriteFile(bundle, pem.EncodeToMemory(authority), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := machine.Lock(t.Context()); err != nil {
		t.Errorf("after: %v", err)
	}
}

// TestAnotherPageIsNoSlot has a server that redirects to a page, as the portal of a
// network does, and to the same path elsewhere.
func TestAnotherPageIsNoSlot(t *testing.T) {
	for code, want := range map[int]bool{
		http.StatusFound:             false,
		http.StatusMovedPermanently:  false,
		http.StatusSeeOther:          false,
		http.StatusPermanentRedirect: true,
	} {
		mux := http.NewServeMux()
		mux.Handle(LockPath, http.RedirectHandler("/page", code))
		mux.HandleFunc("/page", func(http.ResponseWriter, *http.Request) {})
		server := httptest.NewServer(mux)
		err := Server{URL: server.URL, HTTP: server.Client()}.Lock(t.Context())
		server.Close()
		if (err == nil) != want {
			t.Errorf("%d: %v", code, err)
		}
	}
}

func TestNext(t *testing.T) {
	for _, tt := range []struct {
		name  string
		state State
		want  Step
	}{
		{"the agent starts", State{}, Unlock},
		{"the agent starts, and an upgrade is armed", State{Phase: "armed"}, Nothing},
		{"the new system is on trial", State{Phase: "trial"}, Nothing},
		{"the new system has proven itself", State{Held: true}, Unlock},
		{"the slot is given", State{Released: true}, Nothing},
		{"it is about to restart", State{
			Phase:    "armed",
			Wanted:   true,
			Known:    true,
			Released: true,
		}, Lock},
		{"it has its slot", State{
			Phase:  "armed",
			Wanted: true,
			Known:  true,
			Held:   true,
		}, Nothing},
		{"its window has closed", State{Phase: "armed", Known: true, Held: true}, Unlock},
		{"the upgrade is canceled", State{Wanted: true, Known: true, Held: true}, Unlock},
		{"an upgrade is filled", State{Phase: "staging", Released: true}, Nothing},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if got := Next(tt.state); got != tt.want {
				t.Errorf("%q, want %q", got, tt.want)
			}
		})
	}
}

// answers are a server that refuses as often, and then does not.
type answers struct {
	refuses int
	// silent says that no answer reaches the machine.
	silent atomic.Bool
	asked  []string
}

func (a *answers) RoundTrip(r *http.Request) (*http.Response, error) {
	a.asked = append(a.asked, r.URL.Path)
	code := http.StatusOK
	if strings.HasSuffix(r.URL.Path, LockPath) && a.refuses > 0 {
		a.refuses--
		code = http.StatusConflict
	}
	if a.silent.Load() {
		return nil, io.ErrUnexpectedEOF
	}
	return &http.Response{StatusCode: code, Body: http.NoBody}, nil
}

// phaseOf returns the phase of an upgrade, which is armed or not under way.
func phaseOf(armed *atomic.Bool) func() string {
	return func() string {
		if armed.Load() {
			return "armed"
		}
		return ""
	}
}

// TestAMachineWaitsForItsSlot has others take it first.
func TestAMachineWaitsForItsSlot(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := &answers{refuses: 2}
		var armed atomic.Bool
		s := NewSlot(Server{
			URL:    "http://a",
			Client: Client{ID: "a", Group: DefaultGroup},
			HTTP:   &http.Client{Transport: server},
		}, phaseOf(&armed), func() float64 { return 0.5 }, zap.NewNop())

		go s.Run(t.Context())
		synctest.Wait()
		armed.Store(true)
		begun := time.Now()
		for s.Await(true) != "" {
			<-s.Changed()
		}
		if took := time.Since(begun); took < 2*retry || took > 3*retry {
			t.Errorf("it has its slot after %s", took)
		}

		armed.Store(false)
		time.Sleep(interval)
		synctest.Wait()
		if s.Await(true) == "" {
			t.Error("it may restart with a slot that it has given")
		}
		want := []string{UnlockPath, LockPath, LockPath, LockPath, UnlockPath}
		if diff := cmp.Diff(want, server.asked); diff != "" {
			t.Errorf("requests (-want +got):\n%s", diff)
		}
	})
}

// TestASlotWithoutAnAnswerIsGiven loses the answer to a request for a slot, which
// the server has given, before the upgrade is canceled.
func TestASlotWithoutAnAnswerIsGiven(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := &answers{}
		var armed atomic.Bool
		s := NewSlot(Server{
			URL:    "http://a",
			Client: Client{ID: "a", Group: DefaultGroup},
			HTTP:   &http.Client{Transport: server},
		}, phaseOf(&armed), func() float64 { return 0.5 }, zap.NewNop())

		go s.Run(t.Context())
		synctest.Wait()
		armed.Store(true)
		server.silent.Store(true)
		s.Await(true)
		synctest.Wait()

		armed.Store(false)
		server.silent.Store(false)
		time.Sleep(2 * retry)
		synctest.Wait()
		want := []string{UnlockPath, LockPath, UnlockPath}
		if diff := cmp.Diff(want, server.asked); diff != "" {
			t.Errorf("requests (-want +got):\n%s", diff)
		}
	})
}

// TestTheIDIsThatOfZincati has what systemd-id128(1) prints for a machine ID and
// the application ID of Zincati.
func TestTheIDIsThatOfZincati(t *testing.T) {
	for machine, want := range map[string]string{
		"1c09ca98649c4c7abc779cd04c96812e\n": "978a225b3d7b40e9acd7ce9b62f68444",
		"dfd7882acda64c34aca76193c46f5d4e":   "35ba2101ae3f4d45b96e9c51f461bbff",
	} {
		if got, err := ID(machine); err != nil || got != want {
			t.Errorf("%s %v, want %s", got, err, want)
		}
	}
	if id, err := ID("uninitialized\n"); err == nil {
		t.Errorf("%s", id)
	}
}

func TestWhyAMachineWaitsHasNoPassword(t *testing.T) {
	s := NewSlot(Server{URL: "http://ada:s3cret@192.0.2.1:8080"}, func() string { return "armed" },
		func() float64 { return 0 }, zap.NewNop())
	const want = "waits for a slot of http://ada:xxxxx@192.0.2.1:8080"
	if why := s.Await(true); why != want {
		t.Errorf("%q, want %q", why, want)
	}
}

func TestWhyAServerRefuses(t *testing.T) {
	for _, row := range []struct {
		name, text, want string
	}{
		{
			"as the protocol has it",
			`{"kind": "failed_lock_semaphore_full", "value": "all slots are locked"}`,
			"all slots are locked",
		},
		{"nothing", "", "421 Misdirected Request"},
		{
			"a text",
			"this server is not \"turns\"; hint: loamctl serve --host NAME\n",
			"421 Misdirected Request: this server is not \"turns\"; hint: loamctl serve --host NAME",
		},
		{
			"JSON of another protocol",
			`{"error": "no such path"}`,
			`421 Misdirected Request: {"error": "no such path"}`,
		},
		{"codes for a terminal", "a\x1b[2J\nb", "421 Misdirected Request: a [2J b"},
		{
			"a long page",
			strings.Repeat("a", 300),
			"421 Misdirected Request: " + strings.Repeat("a", 200) + " ...",
		},
		{
			"a long value",
			`{"value": "` + strings.Repeat("a", 300) + `"}`,
			strings.Repeat("a", 200) + " ...",
		},
	} {
		t.Run(row.name, func(t *testing.T) {
			if got := why(http.StatusMisdirectedRequest, []byte(row.text)); got != row.want {
				t.Errorf("%q, want %q", got, row.want)
			}
		})
	}
}

// A machine that waits says what the server says, and is up to date when that changes.
func TestAwaitSaysWhyThereIsNoSlot(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := &answers{refuses: 7} // A try each 30 s, in 180 s.
		var armed atomic.Bool
		armed.Store(true)
		s := NewSlot(Server{
			URL:    "http://a",
			Client: Client{ID: "a", Group: DefaultGroup},
			HTTP:   &http.Client{Transport: server},
		}, phaseOf(&armed), func() float64 { return 0.5 }, zap.NewNop())

		changes := func() bool {
			time.Sleep(2 * retry)
			synctest.Wait()
			select {
			case <-s.Changed():
				return true
			default:
				return false
			}
		}

		const unknown = "waits for a slot of http://a"
		if got := s.Await(true); got != unknown {
			t.Errorf("before it has asked: %q", got)
		}

		go s.Run(t.Context())
		const refused = unknown + ": POST http://a/v1/pre-reboot: 409 Conflict"
		if isNews, got := changes(), s.Await(true); !isNews || got != refused {
			t.Errorf("the server refuses: news %t, %q, want %q", isNews, got, refused)
		}
		if changes() {
			t.Error("the same reason again is a change")
		}

		server.silent.Store(true)
		isNews, got := changes(), s.Await(true)
		if !isNews || !strings.Contains(got, "unexpected EOF; hint: ") {
			t.Errorf("no answer: news %t, %q", isNews, got)
		}

		server.silent.Store(false)
		if isNews, got := changes(), s.Await(true); !isNews || got != "" {
			t.Errorf("it has its slot: news %t, %q", isNews, got)
		}
	})
}
