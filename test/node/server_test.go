package node

import (
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/loam-os/loam/agent/status"
	"github.com/loam-os/loam/image/bundle"
	"github.com/loam-os/loam/test/judge"
)

// server is a web server of files that answers some requests otherwise.
type server struct {
	files http.Handler
	mu    sync.Mutex
	// bad answers for the files whose names end in suffix; nil if none.
	bad    http.Handler
	suffix string
}

func (s *server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	h := s.files
	if s.bad != nil && strings.HasSuffix(r.URL.Path, s.suffix) {
		h = s.bad
	}

	s.mu.Unlock()
	h.ServeHTTP(w, r)
}

// answer has files of that suffix be answered by bad from now on.
func (s *server) answer(suffix string, bad http.Handler) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.suffix = suffix
	s.bad = bad
}

// changed answers as the files would, but for what edit makes of the body. It
// ends the connection if that is shorter.
func (s *server) changed(edit func(body []byte) []byte) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		good := httptest.NewRecorder()
		s.files.ServeHTTP(good, r)
		for name, values := range good.Header() {
			w.Header()[name] = values
		}

		w.WriteHeader(good.Code)
		_, _ = w.Write(edit(good.Body.Bytes()))
	})
}

// TestABadServer has a node upgrade itself from a server that fails in every
// way there is: nothing wrong is written, and it finishes when the server is
// well. What it has armed can be canceled, and a crash of the agent ends nothing.
func TestABadServer(t *testing.T) {
	judge.Long(t, "agent/registry and image/repository")
	parallel(t, 3*time.Minute)
	v2 := next(t)
	u := v2.publish(t, nil)
	old := readFile(t, u.Dir+"/metadata/timestamp.json")
	u.Refresh()
	s := &server{files: u.Config.Handler}
	u.Server = httptest.NewServer(s)
	t.Cleanup(u.Close)
	n := newUpgradable(t, u)
	second := v2.manifest.Version
	n.wantBegin("loam upgrade --plan", "would bring "+second+" in place of ")

	s.answer("timestamp.json",
		http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(old) }))

	out := n.sh("loam upgrade --stay 2>&1; true")
	if !strings.Contains(out, "older than what was seen before") {
		t.Errorf("an old timestamp: %s", out)
	}

	if u := n.status().Upgrade; u.Phase != "" {
		t.Errorf("an old timestamp: %+v", u)
	}

	for _, bad := range []struct {
		name    string
		answer  http.Handler
		problem string
	}{
		{
			"it truncates",
			s.changed(func(b []byte) []byte { return b[:len(b)/2] }),
			"unexpected EOF",
		},
		{"it corrupts", s.changed(inverted), "chunk at "},
		{
			"it redirects to a page",
			http.RedirectHandler("/login", http.StatusFound),
			"404 Not Found",
		},
		{
			"it redirects in a circle",
			http.RedirectHandler("/circle.pack", http.StatusFound),
			"more than 5 redirects",
		},
		{
			"it has no such range",
			http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				w.WriteHeader(http.StatusRequestedRangeNotSatisfiable)
			}),
			"416",
		},
		{
			"it stalls", stalls, "no byte for 15 s",
		},
	} {
		t.Log(bad.name)
		s.answer(".pack", bad.answer)
		n.sh("(loam upgrade --stay --now >/dev/null 2>&1 &)")

		n.says(func(s status.Status) bool {
			return s.Upgrade.Phase == "staging" && strings.Contains(s.Upgrade.Problem, bad.problem)
		})

		if right, wrong := n.chunks(rootB, v2.file(".root")); wrong > 0 {
			t.Errorf("%s: %d wrong chunks, %d right ones", bad.name, wrong, right)
		}
	}

	s.answer("", nil)
	n.want("loam upgrade --stay --now 2>/dev/null", second+" is ready: the next restart tries it")
	n.holds(v2)

	// It is canceled: the next restart starts the system that runs.
	n.want("loam upgrade --cancel", "the upgrade to "+second+" is canceled; the running system stays")
	n.want("loam upgrade --cancel -o json 2>/dev/null; echo $?", "3")
	n.reboot()
	n.boots(n.build.manifest.Version, "a")
	n.up()
	n.says(func(s status.Status) bool { return s.Upgrade != nil && s.Upgrade.Phase == "" })

	// The agent is killed while it fetches, and goes on by itself.
	s.answer(".pack", stalls)
	n.sh("(loam upgrade --stay --now >/dev/null 2>&1 &)")
	n.says(func(s status.Status) bool { return s.Upgrade.Phase == "staging" })
	n.sh("systemctl kill --signal=KILL loam-agent")
	s.answer("", nil)
	n.says(func(s status.Status) bool { return s.Upgrade != nil && s.Upgrade.Phase == "armed" })
	n.holds(v2)
	n.reboot()
	n.boots(second, "b")
	n.up()
	n.off()
}

// stalls says nothing until the client goes.
var stalls = http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() })

// holds fails unless the second slot holds the system of a build.
func (n *upgradable) holds(b build) {
	n.node.t.Helper()
	for index, file := range map[int]string{rootB: b.file(".root"), verityB: b.file(".verity")} {
		if right, wrong := n.chunks(index, file); wrong > 0 || right == 0 {
			n.node.t.Errorf("partition %d: %d wrong chunks, %d right ones", index, wrong, right)
		}
	}
}

// inverted changes every byte: the client asked for none of the range.
func inverted(b []byte) []byte {
	for i := range b {
		b[i] = ^b[i]
	}
	return b
}

// chunks counts the chunks of a partition that equal a file's, and the chunks
// that are neither equal nor zeros, as they were before.
func (n *upgradable) chunks(index int, file string) (right, wrong int) {
	n.node.t.Helper()
	disk, err := os.Open(n.config.Disk)
	if err != nil {
		n.node.t.Fatal(err)
	}
	defer disk.Close()

	want, err := os.Open(file)
	if err != nil {
		n.node.t.Fatal(err)
	}
	defer want.Close()

	have := make([]byte, bundle.ChunkSize)
	is := make([]byte, bundle.ChunkSize)
	for off := n.partition(index); ; off += bundle.ChunkSize {
		size, err := io.ReadFull(want, is)
		if size == 0 {
			return right, wrong
		}

		if err != nil && err != io.ErrUnexpectedEOF {
			n.node.t.Fatal(err)
		}
		if _, err := disk.ReadAt(have[:size], off); err != nil {
			n.node.t.Fatal(err)
		}

		switch string(have[:size]) {
		case string(is[:size]):
			right++
		case string(make([]byte, size)):
		default:
			wrong++
		}
	}
}
