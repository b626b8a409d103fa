package recorded

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/loam-os/loam/test/cluster"
	"github.com/loam-os/loam/test/units"
)

// sized is a configuration of so many files of 2 KiB and units; those before
// changed say text.
func sized(files, units, changed int, text string) string {
	return size{
		files:    files,
		units:    units,
		changed:  changed,
		bytes:    2048,
		together: files,
	}.document(text)
}

// size is a document: how many files of how many bytes it has, how many of them
// are in one directory, and how many a change is of.
type size struct {
	name                                   string
	files, units, changed, bytes, together int
}

// path is where file i is.
func (s size) path(i int) string {
	if s.together >= s.files {
		return fmt.Sprintf("/etc/bench/%03d", i)
	}
	return fmt.Sprintf("/etc/bench/%03d/%03d", i/s.together, i)
}

// document is the document whose files that change say text.
func (s size) document(text string) string {
	var b strings.Builder
	b.WriteString("apiVersion: extensions.gardener.cloud/v1alpha1\nkind: OperatingSystemConfig\n" +
		"spec:\n  units:\n")

	for i := range s.units {
		fmt.Fprintf(&b, "  - name: unit-%03d.service\n"+
			"    content: "+
			"\"[Service]\\nExecStart=sleep "+
			"infinity\\n[Install]\\nWantedBy=multi-user.target\\n\"\n"+
			"    filePaths: [%s]\n", i, s.path(i%s.files))
	}

	b.WriteString("  files:\n")
	for i := range s.files {
		what := "the same"
		if i < s.changed {
			what = text
		}
		fmt.Fprintf(&b, "  - path: %s\n    content: {inline: {data: %q}}\n",
			s.path(i), s.content(i, what))
	}

	return b.String()
}

// content is file i, which says text.
func (s size) content(i int, text string) string {
	return fmt.Sprintf("%d %s %s", i, text, strings.Repeat("x", s.bytes-len(text)))
}

// annotations sends each value of the Node's annotation, and when it was seen.
func (w *fixture) annotations(ctx context.Context) <-chan annotation {
	return w.annotationsOf(ctx, "node-1")
}

// annotationsOf is annotations of a Node with another name.
func (w *fixture) annotationsOf(ctx context.Context, node string) <-chan annotation {
	seen := make(chan annotation, 64)
	go func() {
		_ = w.Watch(ctx, nodes+"?watch=1&fieldSelector=metadata.name="+node, func(line []byte) {
			now := time.Now()
			var event struct {
				Object struct {
					Metadata struct{ Annotations map[string]string }
				}
			}
			if json.Unmarshal(line, &event) == nil {
				seen <- annotation{
					event.Object.Metadata.Annotations["checksum/cloud-config-data"],
					now,
				}
			}
		})
	}()

	return seen
}

type annotation struct {
	value string
	at    time.Time
}

// until waits for a value, and returns when it was seen.
func until(b *testing.B, seen <-chan annotation, text string) time.Time {
	b.Helper()
	want := sum(text)

	// The reference needs half of one on a busy machine, and more when traced.
	limit := time.After(2 * time.Minute)
	for {
		select {
		case a := <-seen:
			if a.value == want {
				return a.at
			}
		case <-limit:
			b.Fatal("the Node was not annotated")
		}
	}
}

// median reports the median of times in milliseconds.
func median(b *testing.B, times []time.Duration) {
	slices.Sort(times)
	b.ReportMetric(float64(times[len(times)/2])/1e6, "p50-ms")
	b.ReportMetric(float64(times[0])/1e6, "min-ms")
	b.ReportMetric(float64(times[len(times)-1])/1e6, "max-ms")
	b.ReportMetric(0, "ns/op")
}

// written is what this process has handed to write(2), in bytes (proc(5), io).
func written(b *testing.B) int64 {
	b.Helper()
	text, err := os.ReadFile("/proc/self/io")
	if err != nil {
		b.Fatal(err)
	}

	_, rest, _ := strings.Cut(string(text), "wchar: ")
	value, _, _ := strings.Cut(rest, "\n")
	n, err := strconv.ParseInt(value, 10, 64)
	if err != nil {
		b.Fatal(err)
	}

	return n
}

// credentialsDir is where a node keeps its certificate.
const credentialsDir = "var/lib/gardener-node-agent/credentials"

// BenchmarkReaction is from the answer to the PUT of the Secret to the Node's
// annotation, with 5 ms for each job of systemd.
func BenchmarkReaction(b *testing.B) {
	w := newFixture(b, cluster.Options{Controllers: true})
	w.addNode()
	whole := b // Nodes outlive the parts they are made in.
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()

	seen := w.annotations(ctx)
	first := sized(1, 1, 1, "first")
	w.put(secretName, map[string]string{"osc.yaml": first})
	w.put("token", map[string]string{"token": "t"})
	w.startWith(b.TempDir(), w.BootstrapToken(b),
		&units.Fake{Around: units.Slow(5 * time.Millisecond)}, 10*time.Second)
	w.approve()
	until(b, seen, first)

	for _, size := range []struct {
		name                  string
		files, units, changed int
	}{{"small", 1, 1, 1}, {"one-of-200", 200, 50, 1}, {"all-200", 200, 50, 200}} {
		b.Run(size.name, func(b *testing.B) {
			before := sized(size.files, size.units, size.changed, "before "+strconv.Itoa(b.N))
			w.put(secretName, map[string]string{"osc.yaml": before})
			until(b, seen, before)
			var times []time.Duration
			bytes := written(b)

			for i := range b.N {
				text := sized(size.files, size.units, size.changed, fmt.Sprintf("%d of %d", i, b.N))
				w.put(secretName, map[string]string{"osc.yaml": text})
				start := time.Now()
				times = append(times, until(b, seen, text).Sub(start))
			}

			b.ReportMetric(float64(written(b)-bytes)/float64(b.N)/1e6, "written-MB")
			median(b, times)
		})
	}

	b.Run("node-appears", func(b *testing.B) {
		text := sized(1, 1, 1, fmt.Sprint("node ", b.N))
		w.put(secretName, map[string]string{"osc.yaml": text})
		until(b, seen, text)

		var times []time.Duration
		for range b.N {
			w.must("DELETE", nodes+"/node-1", "")
			w.addNode()
			start := time.Now()
			for (<-seen).value != "" { // of the Node before
			}
			times = append(times, until(b, seen, text).Sub(start))
		}

		median(b, times)
	})

	for _, size := range []struct {
		name         string
		files, units int
	}{{"start-small", 1, 1}, {"start-200", 200, 50}} {
		b.Run(size.name, func(b *testing.B) {
			text := sized(size.files, size.units, 1, fmt.Sprint("start ", b.N))
			w.put(secretName, map[string]string{"osc.yaml": text})
			until(b, seen, text)

			var times []time.Duration
			for range b.N {
				dir := whole.TempDir()
				err := os.CopyFS(filepath.Join(dir, credentialsDir),
					os.DirFS(filepath.Join(w.node.Dir, credentialsDir)))
				if err != nil {
					b.Fatal(err)
				}

				w.stop()
				w.must("PATCH", nodes+"/node-1",
					`{"metadata": {"annotations": {"checksum/cloud-config-data": null}}}`)
				start := time.Now()
				w.startWith(dir, "", &units.Fake{Around: units.Slow(5 * time.Millisecond)}, 10*time.Second)
				for (<-seen).value != "" { // of the node before
				}
				times = append(times, until(b, seen, text).Sub(start))
			}

			median(b, times)
		})
	}
}
