package bundle

import (
	"context"
	"errors"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/loam-os/loam/agent/durable"
	"github.com/loam-os/loam/hint"
	"github.com/loam-os/loam/hint/fault"
	"github.com/loam-os/loam/test/files"
)

func TestFetch(t *testing.T) {
	r := newRepo(t)
	want := texts("1.36.3")
	pack := r.publish(t, "1.36.3", "amd64", want)
	server := httptest.NewServer(http.FileServer(http.Dir(r.dir)))
	defer server.Close()

	for name, ref := range map[string]string{
		"a directory, such as a USB drive's": r.dir,
		"a web server":                       server.URL,
	} {
		t.Run(name, func(t *testing.T) {
			from := r.source(t)
			from.Ref = ref
			s := newStore(t)
			var last [2]int64
			req := request("1.36.3")
			req.Progress = func(done, all int64) {
				if done < last[0] || done > all {
					t.Errorf("%d of %d bytes after %d", done, all, last[0])
				}
				last = [2]int64{done, all}
			}

			b, err := s.Fetch(t.Context(), from, req)
			if err != nil {
				t.Fatal(err)
			}
			checkBundle(t, b, want)
			if last[0] != last[1] || last[0] < 3*chunk {
				t.Errorf("progress ended at %d of %d", last[0], last[1])
			}
			if info, err := os.Stat(b.Bin() + "/kubelet"); err != nil || info.Mode() != 0o755 {
				t.Errorf("kubelet: %v, %v", info, err)
			}
		})
	}

	t.Run("a bundle that is there asks no repository", func(t *testing.T) {
		s := newStore(t)
		if _, err := s.Fetch(t.Context(), r.source(t), request("1.36.3")); err != nil {
			t.Fatal(err)
		}
		if _, err := s.Fetch(t.Context(), Source{Ref: "/absent"}, request("1.36.3")); err != nil {
			t.Error(err)
		}
	})

	t.Run("a mirror has the pack, and the repository does not", func(t *testing.T) {
		copied := t.TempDir()
		if err := os.CopyFS(copied, os.DirFS(r.dir)); err != nil {
			t.Fatal(err)
		}
		if err := os.Remove(filepath.Join(copied, filepath.Base(pack))); err != nil {
			t.Fatal(err)
		}
		from := r.source(t)
		from.Ref = copied
		from.Mirrors = []string{server.URL}
		b, err := newStore(t).Fetch(t.Context(), from, request("1.36.3"))
		if err != nil {
			t.Fatal(err)
		}
		checkBundle(t, b, want)
	})
}

// counting serves a repository, and counts the bytes of packs.
func counting(t *testing.T, dir string) (url string, bytes *atomic.Int64) {
	t.Helper()
	bytes = new(atomic.Int64)
	files := http.FileServer(http.Dir(dir))
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.HasSuffix(r.URL.Path, ".pack") {
			w = &counter{w, bytes}
		}
		files.ServeHTTP(w, r)
	}))
	t.Cleanup(server.Close)
	return server.URL, bytes
}

type counter struct {
	http.ResponseWriter
	bytes *atomic.Int64
}

func (c *counter) Write(b []byte) (int, error) {
	n, err := c.ResponseWriter.Write(b)
	c.bytes.Add(int64(n))
	return n, err
}

func TestOnlyChunksThatNoOtherVersionHasAreFetched(t *testing.T) {
	r := newRepo(t)
	r.publish(t, "1.36.2", "amd64", texts("1.36.2"))
	r.publish(t, "1.36.3", "amd64", texts("1.36.3"))
	from := r.source(t)
	var bytes *atomic.Int64
	from.Ref, bytes = counting(t, r.dir)
	s := newStore(t)
	if _, err := s.Fetch(t.Context(), from, request("1.36.2")); err != nil {
		t.Fatal(err)
	}
	if n := bytes.Swap(0); n < 3*chunk {
		t.Errorf("%d bytes for the first version", n)
	}

	b, err := s.Fetch(t.Context(), from, request("1.36.3"))
	if err != nil {
		t.Fatal(err)
	}
	checkBundle(t, b, texts("1.36.3"))
	if n := bytes.Load(); n > 1000 {
		t.Errorf("%d bytes for the second version", n)
	}
}

// TestAFetchGoesOnWhereItWas: the first ends in the middle of the pack.
func TestAFetchGoesOnWhereItWas(t *testing.T) {
	r := newRepo(t)
	pack := r.publish(t, "1.36.3", "amd64", texts("1.36.3"))
	whole, err := os.ReadFile(pack)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(pack, 2*chunk+50); err != nil {
		t.Fatal(err)
	}
	from := r.source(t)
	var bytes *atomic.Int64
	from.Ref, bytes = counting(t, r.dir)

	s := newStore(t)
	_, err = s.Fetch(t.Context(), from, request("1.36.3"))
	if fault.Of(err) != fault.RepositoryUnreachable ||
		!strings.Contains(err.Error(), "fetch kubernetes-1.36.3-amd64.pack from "+from.Ref) {
		t.Errorf("%v, code %s", err, fault.Of(err))
	}
	if versions, err := s.Versions(); err != nil || len(versions) > 0 {
		t.Errorf("versions %v, %v", versions, err)
	}

	if err := os.WriteFile(pack, whole, 0o644); err != nil {
		t.Fatal(err)
	}
	bytes.Store(0)
	b, err := s.Fetch(t.Context(), from, request("1.36.3"))
	if err != nil {
		t.Fatal(err)
	}
	checkBundle(t, b, texts("1.36.3"))
	if n := bytes.Load(); n > 2*chunk {
		t.Errorf("%d bytes were fetched again", n)
	}
}

func TestFetchRefuses(t *testing.T) {
	r := newRepo(t)
	r.publish(t, "1.35.9", "amd64", texts("1.35.9"))
	r.publish(t, "1.36.3", "amd64", texts("1.36.3"))
	r.publish(t, "1.36.4", "arm64", texts("1.36.4"))
	damaged := newRepo(t)
	pack := damaged.publish(t, "1.36.3", "amd64", texts("1.36.3"))
	content, err := os.ReadFile(pack)
	if err != nil {
		t.Fatal(err)
	}
	content[chunk+7]++
	if err := os.WriteFile(pack, content, 0o644); err != nil {
		t.Fatal(err)
	}

	for _, tc := range []struct {
		name    string
		from    Source
		version string
		room    int64
		code    fault.Code
		want    []string
	}{
		{
			name:    "a version that the repository does not have",
			from:    r.source(t),
			version: "1.36.9",
			code:    fault.NoSuchRelease,
			want: []string{
				"version 1.36.9 of Kubernetes for amd64: not in the repository",
				"hint: it has 1.36.3, 1.35.9;",
			},
		},
		{
			name:    "a version for another architecture",
			from:    r.source(t),
			version: "1.36.4",
			code:    fault.WrongArchitecture,
			want: []string{
				"hint: it has the version for arm64; `loamctl kubernetes bundle 1.36.4 --arch amd64`",
			},
		},
		{
			name:    "a repository without Kubernetes",
			from:    newRepo(t).source(t),
			version: "1.36.3",
			code:    fault.NoSuchRelease,
			want:    []string{"hint: it has no Kubernetes for amd64;"},
		},
		{
			name:    "a damaged chunk",
			from:    damaged.source(t),
			version: "1.36.3",
			code:    fault.RepositoryDamaged,
			want: []string{
				"fetch kubernetes-1.36.3-amd64.pack from " + damaged.dir + ": bin/etcd: chunk at 1048576",
				"hint: `loamctl publish` of an intact copy repairs it",
			},
		},
		{
			name:    "no room",
			from:    r.source(t),
			version: "1.36.3",
			room:    50 << 20,
			code:    fault.StateFull,
			want: []string{
				"version 1.36.3 of Kubernetes: the state partition has 50 MiB free, this takes 67",
				"hint: see what takes the room",
			},
		},
		{
			name:    "a repository that is signed by others",
			from:    Source{Ref: r.dir, Root: damaged.source(t).Root, Keep: memory{}},
			version: "1.36.3",
			code:    fault.RepositoryUnsigned,
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			s := newStore(t)
			if tc.room > 0 {
				s.room = func() (int64, error) { return tc.room, nil }
			}
			_, err := s.Fetch(t.Context(), tc.from, request(tc.version))
			if fault.Of(err) != tc.code {
				t.Errorf("%v, code %s, want %s", err, fault.Of(err), tc.code)
			}
			for _, want := range tc.want {
				if err == nil || !strings.Contains(hint.Text(err), want) {
					t.Errorf("error %s, want %q", hint.Text(err), want)
				}
			}
			if versions, err := s.Versions(); err != nil || len(versions) > 0 {
				t.Errorf("versions %v, %v", versions, err)
			}
		})
	}
}

// TestRoomIsForWhatIsMissing: a fetch that goes on needs less.
func TestRoomIsForWhatIsMissing(t *testing.T) {
	r := newRepo(t)
	pack := r.publish(t, "1.36.3", "amd64", texts("1.36.3"))
	whole, err := os.ReadFile(pack)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(pack, 2*chunk+50); err != nil {
		t.Fatal(err)
	}
	s := newStore(t)
	if _, err := s.Fetch(t.Context(), r.source(t), request("1.36.3")); err == nil {
		t.Fatal("half of a pack is enough")
	}

	if err := os.WriteFile(pack, whole, 0o644); err != nil {
		t.Fatal(err)
	}
	s.room = func() (int64, error) { return spareRoom + 2*chunk, nil }
	if _, err := s.Fetch(t.Context(), r.source(t), request("1.36.3")); err != nil {
		t.Error(err)
	}
}

// TestADamagedBundleIsRepaired fetches only what is damaged of a bundle.
func TestADamagedBundleIsRepaired(t *testing.T) {
	r := newRepo(t)
	r.publish(t, "1.36.3", "amd64", texts("1.36.3"))
	from := r.source(t)
	var bytes *atomic.Int64
	from.Ref, bytes = counting(t, r.dir)
	s := newStore(t)
	b, err := s.Fetch(t.Context(), from, request("1.36.3"))
	if err != nil {
		t.Fatal(err)
	}
	err = errors.Join(
		os.Truncate(b.Bin()+"/kubelet", 5),
		os.Remove(b.Bin()+"/kube-scheduler"),
		os.Symlink("/bin/true", b.Bin()+"/kube-scheduler"),
	)
	if err != nil {
		t.Fatal(err)
	}

	bytes.Store(0)
	b, err = s.Fetch(t.Context(), from, request("1.36.3"))
	if err != nil {
		t.Fatal(err)
	}
	checkBundle(t, b, texts("1.36.3"))
	if n := bytes.Load(); n == 0 || n > chunk+1000 {
		t.Errorf("%d bytes were fetched again", n)
	}
	if names, err := s.names(); err != nil || len(names) != 1 {
		t.Errorf("left is %v, %v", names, err)
	}
}

// TestABundleInAnotherPlaceIsReplaced: an operator has given it the name of another
// version.
func TestABundleInAnotherPlaceIsReplaced(t *testing.T) {
	r := newRepo(t)
	for _, version := range []string{"1.36.3", "1.36.4"} {
		r.publish(t, version, "amd64", texts(version))
	}
	s := newStore(t)
	b, err := s.Fetch(t.Context(), r.source(t), request("1.36.3"))
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(b.Dir, s.path(place("1.36.4"))); err != nil {
		t.Fatal(err)
	}

	b, err = s.Fetch(t.Context(), r.source(t), request("1.36.4"))
	if err != nil || b.Version != "1.36.4" {
		t.Fatalf("version %q, %v", b.Version, err)
	}
	checkBundle(t, b, texts("1.36.4"))
}

func TestAFetchThatIsStopped(t *testing.T) {
	r := newRepo(t)
	r.publish(t, "1.36.3", "amd64", texts("1.36.3"))
	ctx, stop := context.WithCancel(t.Context())
	req := request("1.36.3")
	req.Progress = func(int64, int64) { stop() }
	s := newStore(t)
	if _, err := s.Fetch(ctx, r.source(t), req); !errors.Is(err, context.Canceled) {
		t.Errorf("error %v", err)
	}
}

func TestPrune(t *testing.T) {
	root := files.Root(t)
	s := NewStore(durable.New(root, nil))
	if err := s.Prune("1.36.3", []string{"1.36.1", "1.30.0"}); err != nil {
		t.Errorf("without a bundle: %v", err)
	}
	for _, name := range []string{
		"1.9.9", ".1.34.0", "1.36.1", "1.36.2", ".1.36.2", "1.36.3", ".1.36.3", "1.36.10", ".1.37.0", "notes",
	} {
		files.Write(t, filepath.Join(root.Name(), place(name), "bin/etcd"), name)
	}
	if err := s.Prune("1.36.3", []string{"1.36.1", "1.30.0"}); err != nil {
		t.Fatal(err)
	}

	entries, err := fs.ReadDir(root.FS(), Directory[1:])
	if err != nil {
		t.Fatal(err)
	}
	var have []string
	for _, entry := range entries {
		have = append(have, entry.Name())
	}
	want := []string{".1.36.3", ".1.37.0", "1.36.1", "1.36.10", "1.36.3", "notes"}
	if diff := cmp.Diff(want, have); diff != "" {
		t.Error(diff)
	}
}

// TestMeasure: a node says how large another version is, and what of it is new,
// and nothing of the node changes.
func TestMeasure(t *testing.T) {
	r := newRepo(t)
	before, after := texts("1.36.2"), texts("1.36.3")
	after["bin/kube-apiserver"] = []byte(strings.Repeat("kube-apiserver of 1.36.3\n", 50_000))
	r.publish(t, "1.36.2", "amd64", before)
	r.publish(t, "1.36.3", "amd64", after)

	dir := files.Root(t)
	s := NewStore(durable.New(dir, nil))
	_, err := Known(r.dir, dir.FS())
	if err == nil || !strings.HasSuffix(err.Error(), "has not read the repository "+r.dir+" yet") {
		t.Errorf("before the first fetch: %v", err)
	}
	from := r.source(t)
	from.Keep = directory{dir}
	if _, err := s.Fetch(t.Context(), from, request("1.36.2")); err != nil {
		t.Fatal(err)
	}
	trusted, err := dir.ReadFile("trusted.json")
	if err != nil {
		t.Fatal(err)
	}

	known, err := Known(r.dir, dir.FS())
	if err != nil {
		t.Fatal(err)
	}
	got, err := s.Measure(t.Context(), known, request("1.36.3"))
	if err != nil {
		t.Fatal(err)
	}
	var all, fresh int64
	for name, text := range after {
		all += int64(len(text))
		if string(text) != string(before[name]) {
			fresh += int64(len(text))
		}
	}
	if got.All != all || got.New != fresh || got.Fetched < chunk || got.Fetched > fresh-1_000_000 {
		t.Errorf("got %+v, want %d bytes, of which %d are new", got, all, fresh)
	}

	if _, err := s.Open("1.36.3"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the version that was measured: %v", err)
	}
	if text, err := dir.ReadFile("trusted.json"); err != nil || string(text) != string(trusted) {
		t.Errorf("the metadata are %d bytes, %v, and were %d", len(text), err, len(trusted))
	}
	_, err = s.Measure(t.Context(), known, request("1.36.4"))
	if fault.Of(err) != fault.NoSuchRelease || hint.Of(err) == "" {
		t.Errorf("a version that is not there: %v", err)
	}
}

// directory implements [repository.Records].
type directory struct{ *os.Root }

func (d directory) Read(name string) ([]byte, error) { return d.ReadFile(name) }

func (d directory) Write(name string, data []byte) error { return d.WriteFile(name, data, 0o600) }

// Errors of a fetch are in the status, in the log and on the consoles.
func TestErrorsOfAFetchHaveNoPassword(t *testing.T) {
	r := newRepo(t)
	r.publish(t, "1.36.3", "amd64", texts("1.36.3"))
	files := http.FileServer(http.Dir(r.dir))
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		if strings.HasSuffix(q.URL.Path, ".pack") {
			http.Error(w, "away", http.StatusServiceUnavailable)
			return
		}
		files.ServeHTTP(w, q)
	}))
	defer server.Close()

	for _, row := range []struct{ name, version string }{
		{"a version that is not there", "1.36.9"},
		{"a server that goes away", "1.36.3"},
	} {
		t.Run(row.name, func(t *testing.T) {
			from := r.source(t)
			from.Ref = strings.Replace(server.URL, "://", "://ada:s3cret@", 1)
			_, err := newStore(t).Fetch(t.Context(), from, request(row.version))
			if err == nil {
				t.Fatal("no error")
			}
			text := hint.Text(err)
			if strings.Contains(text, "s3cret") || !strings.Contains(text, "://ada:xxxxx@") {
				t.Error(text)
			}
		})
	}
}
