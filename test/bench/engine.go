package main

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/loam-os/loam/agent/apply"
	"github.com/loam-os/loam/agent/config"
	"github.com/loam-os/loam/agent/durable"
	"github.com/loam-os/loam/agent/health"
	"github.com/loam-os/loam/agent/osc"
	"github.com/loam-os/loam/test/units"
)

// cost is what one operation took.
type cost struct {
	total, sync time.Duration
	syncs       int
	// written counts the bytes of write(2), read the bytes of read(2).
	written, read int64
}

func (c cost) own() float64 { return float64(c.total-c.sync) / 1e6 }

// meter measures an executor: the hook before each durable step tells how long
// the one before took.
type meter struct {
	cost
	last    time.Time
	syncing bool
}

func (m *meter) hook(s durable.Step) error {
	m.stop()
	m.syncing = strings.HasPrefix(string(s.Op), "sync")
	if m.syncing {
		m.syncs++
		m.last = time.Now()
	}
	return nil
}

func (m *meter) stop() {
	if m.syncing {
		m.sync += time.Since(m.last)
	}
	m.syncing = false
}

// do measures f.
func (m *meter) do(f func() error) (cost, error) {
	m.cost = cost{}
	written, read, err := transferred()
	if err != nil {
		return cost{}, err
	}

	start := time.Now()
	err = f()
	m.stop()
	m.total = time.Since(start)
	w, r, ioErr := transferred()
	m.written = w - written
	m.read = r - read

	return m.cost, errors.Join(err, ioErr)
}

// transferred reads wchar and rchar of /proc/self/io (proc_pid_io(5)).
func transferred() (written, read int64, err error) {
	text, err := os.ReadFile("/proc/self/io")
	if err != nil {
		return 0, 0, err
	}

	for line := range strings.Lines(string(text)) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), ": ")
		switch name {
		case "wchar":
			written, err = strconv.ParseInt(value, 10, 64)
		case "rchar":
			read, err = strconv.ParseInt(value, 10, 64)
		}
		if err != nil {
			return 0, 0, err
		}
	}

	return written, read, nil
}

// rig is an executor on a real file system.
type rig struct {
	*apply.Executor
	meter *meter
	roots []*os.Root
}

// lay makes a node in a new directory beneath dir. What the one before it has
// left stays until all is measured: an ext4 without a journal does not use
// inodes again for up to five minutes after they were deleted, and takes longer
// to find others meanwhile (find_inode_bit in fs/ext4/ialloc.c).
func newRig(name string) (*rig, error) {
	if err := os.MkdirAll(filepath.Join(dir, "engine"), 0o755); err != nil {
		return nil, err
	}

	base, err := os.MkdirTemp(filepath.Join(dir, "engine"), name+"-")
	if err != nil {
		return nil, err
	}

	b := &rig{meter: &meter{}}
	for _, name := range []string{"node/var/lib/loam", "image"} {
		if err := os.MkdirAll(filepath.Join(base, name), 0o755); err != nil {
			return nil, err
		}
	}

	for _, name := range []string{"node", "node/var/lib/loam", "image"} {
		root, err := os.OpenRoot(filepath.Join(base, name))
		if err != nil {
			return nil, err
		}
		b.roots = append(b.roots, root)
	}

	b.Executor = apply.Open(apply.Config{
		State:     durable.New(b.roots[1], b.meter.hook),
		Node:      durable.New(b.roots[0], b.meter.hook),
		Image:     b.roots[2].FS(),
		Units:     &units.Fake{},
		OSVersion: "1",
		BootID:    "bench",
		JobWait:   time.Minute,
		Limit:     time.Minute,
		Now:       time.Now,
		Uptime:    func() time.Duration { return time.Hour },
	})

	return b, nil
}

func (b *rig) close() error {
	var errs []error
	for _, root := range b.roots {
		errs = append(errs, root.Close())
	}
	return errors.Join(errs...)
}

// apply makes the node d, and measures; prove gives it the verdict that it is
// good, which is measured by itself.
func (b *rig) apply(ctx context.Context, d config.Desired) (applied, proven cost, err error) {
	applied, err = b.meter.do(func() error {
		_, err := b.Apply(ctx, apply.Request{Desired: d, Source: "bench"})
		return err
	})
	if err != nil {
		return
	}
	proven, err = b.meter.do(func() error {
		_, err := b.Conclude(ctx, health.Verdict{Word: health.Good})
		return err
	})
	return
}

// files is a configuration of n files of 2 KiB, ten in a directory, and units
// units that have a share of them in their filePaths. The file with the number
// changed has the text salt.
func files(n, units, changed int, salt string) config.Desired {
	var d config.Desired
	text := strings.Repeat("a line of a configuration file\n", 2048/31)
	for i := range n {
		content := fmt.Sprintf("# file %d\n%s", i, text)
		if i == changed {
			content = fmt.Sprintf("# file %d %s\n%s", i, salt, text)
		}
		d.Files = append(d.Files,
			config.File{Path: name(i), Mode: 0o644, Content: config.Text(content)})
	}

	for i := range units {
		service := fmt.Sprintf("[Unit]\nDescription=Unit %d\n[Service]\n"+
			"ExecStart=/bin/sleep infinity\n[Install]\nWantedBy=multi-user.target\n", i)
		u := config.Unit{Name: fmt.Sprintf("bench-%04d.service", i), Content: &service}
		for j := i; j < n; j += units {
			u.FilePaths = append(u.FilePaths, name(j))
		}
		d.Units = append(d.Units, u)
	}

	return d
}

func name(i int) string { return fmt.Sprintf("/etc/bench/%03d/file-%04d.conf", i/10, i) }

// measureEngine is what the configuration engine costs.
func measureEngine(ctx context.Context, r *report) error {
	for _, measure := range []func(context.Context, *report) error{
		measureOneFile, measureFirst, measureKubelet, measureGardener,
	} {
		if err := measure(ctx, r); err != nil {
			return err
		}
	}
	return os.RemoveAll(filepath.Join(dir, "engine"))
}

const repeats = 15

// oneOf is a rig that has n files, and how to change one of them.
type oneOf struct {
	*rig
	n               int
	applied, proven []cost
}

func newOneOf(ctx context.Context, n int) (*oneOf, error) {
	b, err := newRig(fmt.Sprintf("one-of-%d", n))
	if err != nil {
		return nil, err
	}
	_, _, err = b.apply(ctx, files(n, 50, -1, ""))
	return &oneOf{rig: b, n: n}, err
}

func (o *oneOf) change(ctx context.Context, salt int) error {
	applied, proven, err := o.apply(ctx, files(o.n, 50, 17, fmt.Sprint("change ", salt)))
	o.applied = append(o.applied, applied)
	o.proven = append(o.proven, proven)
	return err
}

func measureOneFile(ctx context.Context, r *report) error {
	few, err := newOneOf(ctx, 200)
	if err != nil {
		return err
	}
	defer few.close()

	many, err := newOneOf(ctx, 2000)
	if err != nil {
		return err
	}
	defer many.close()

	for i := range repeats { // In turn: what else the machine does then counts for both.
		if err := errors.Join(few.change(ctx, i), many.change(ctx, i)); err != nil {
			return err
		}
	}

	of200 := few.applied
	proven := few.proven
	of2000 := many.applied
	var ratios []float64
	for i := range of200 {
		ratios = append(ratios, of2000[i].own()/of200[i].own())
	}

	conditions := conditions("ext4, nothing deleted in the five minutes before, " +
		"200 files of 2 KiB in 20 directories, 50 units, one file changed; " +
		"systemd that takes no time")

	limit := fmt.Sprintf("the disk: %.1f ms of fsync besides",
		median(each(of200, func(c cost) float64 { return float64(c.sync) / 1e6 })))
	return r.add(
		result("config/one-of-200/own", "ms", 10, limit,
			conditions+"; plan, write, flip, place, journal", each(of200, cost.own)...),
		result("config/one-of-200/fsyncs", "calls", 18, "2 for the file, 16 for the rest",
			conditions+", verdict included", pairs(of200, proven, func(a, p cost) float64 {
				return float64(a.syncs + p.syncs)
			})...),
		result("config/one-of-200/written", "bytes", 3*2048+64<<10, "the manifest",
			conditions+", verdict included", pairs(of200, proven, func(a, p cost) float64 {
				return float64(a.written + p.written)
			})...),
		result("config/one-of-2000-to-200/own", "ratio", 3, "the manifest, which lists all files",
			conditions+", and the same of 2,000 files", ratios...),
	)
}

// each is f of every cost, pairs of every two.
func each(costs []cost, f func(cost) float64) []float64 {
	values := make([]float64, len(costs))
	for i, c := range costs {
		values[i] = f(c)
	}
	return values
}

func pairs(a, b []cost, f func(a, b cost) float64) []float64 {
	values := make([]float64, len(a))
	for i := range a {
		values[i] = f(a[i], b[i])
	}
	return values
}

func median(values []float64) float64 { return result("", "", 0, "", "", values...).Value }

// childVariable makes the program measure the first apply alone, for its
// memory.
const childVariable = "LOAM_BENCH_FIRST"

// first is a first apply of a large document, from its text on.
type first struct {
	Milliseconds float64
	// Peak is the largest resident memory of the process, in MB.
	Peak float64
}

func measureFirst(ctx context.Context, r *report) error {
	var times, peaks []float64
	for range 5 {
		self, err := os.Executable()
		if err != nil {
			return err
		}

		cmd := exec.CommandContext(ctx, self)
		cmd.Env = append(os.Environ(), childVariable+"=1")
		cmd.Stderr = os.Stderr

		text, err := cmd.Output()
		if err != nil {
			return fmt.Errorf("first apply in a process of its own: %w", err)
		}

		var f first
		if err := json.Unmarshal(text, &f); err != nil {
			return err
		}

		times = append(times, f.Milliseconds)
		peaks = append(peaks, f.Peak)
	}

	conditions := conditions("ext4, document of 1 MiB, 500 units with a file each, " +
		"from its text to the flip; unit starts take no time")
	return r.add(
		result("config/first-1MiB/time", "ms", 1000, "one syncfs of 2,500 new names",
			conditions, times...),
		result("config/first-1MiB/rss", "MB", 60, "the document's tree of nodes",
			conditions+", peak of the process", peaks...),
	)
}

// firstApply is what the child does.
func firstApply(ctx context.Context, out io.Writer) error {
	b, err := newRig("first")
	if err != nil {
		return err
	}
	defer b.close()

	text := bigDocument()
	c, err := b.meter.do(func() error {
		doc, err := osc.Decode("big.yaml", text)
		if err != nil {
			return err
		}

		desired, err := osc.Merge(doc, osc.Env{})
		if err != nil {
			return err
		}

		_, err = b.Apply(ctx, apply.Request{Desired: desired, Source: "big.yaml"})
		return err
	})
	if err != nil {
		return err
	}

	var usage unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_SELF, &usage); err != nil {
		return err
	}

	return json.NewEncoder(out).Encode(first{
		float64(c.total) / 1e6,
		float64(usage.Maxrss) * 1024 / 1e6,
	})
}

// bigDocument is an OperatingSystemConfig of a little more than 1 MiB.
func bigDocument() []byte {
	var text strings.Builder
	text.WriteString("apiVersion: extensions.gardener.cloud/v1alpha1\n" +
		"kind: OperatingSystemConfig\nspec:\n  units:\n")

	for i := range 500 {
		fmt.Fprintf(&text, "  - name: big-%03d.service\n    filePaths: [/etc/big/%03d.conf]\n"+
			"    content: |\n      [Service]\n      ExecStart=/bin/sleep infinity\n"+
			"      [Install]\n      WantedBy=multi-user.target\n", i, i)
	}

	text.WriteString("  files:\n")
	for i := range 500 {
		fmt.Fprintf(&text, "  - path: /etc/big/%03d.conf\n    permissions: 0644\n    content:\n"+
			"      inline:\n        data: |\n", i)
		for line := range 36 {
			fmt.Fprintf(&text,
				"          key-%03d-%02d = a value that is some fifty letters long\n", i, line)
		}
	}

	return []byte(text.String())
}

// measureKubelet changes a binary of 80 MB there and back.
func measureKubelet(ctx context.Context, r *report) error {
	const size = 80_000_000
	b, err := newRig("kubelet")
	if err != nil {
		return err
	}
	defer b.close()

	var versions []config.Desired
	for i := range 2 {
		c, err := binary(filepath.Join(dir, "engine", fmt.Sprint("kubelet-", i)), byte(i+1), size)
		if err != nil {
			return err
		}
		d := files(20, 5, -1, "")
		d.Files = append(d.Files, config.File{Path: "/opt/bin/kubelet", Mode: 0o755, Content: c})
		versions = append(versions, d)
	}
	if _, _, err := b.apply(ctx, versions[0]); err != nil {
		return err
	}

	there, _, err := b.apply(ctx, versions[1])
	if err != nil {
		return err
	}

	back, _, err := b.apply(ctx, versions[0])
	if err != nil {
		return err
	}

	conditions := conditions("ext4, /opt/bin/kubelet of 80 MB among 20 files, from a directory")
	return r.add(
		result("config/kubelet/written", "ratio", 1.01, "its own size, once", conditions,
			float64(there.written)/size),
		result("config/kubelet/time", "s", 5,
			fmt.Sprintf("the disk: %.2f s of fsync in it",
				there.sync.Seconds()), conditions, there.total.Seconds()),
		result("config/kubelet/back", "bytes", 64<<10, "manifest and journal: no content",
			conditions+", back to the one before", float64(back.written)),
	)
}

// binary makes a file of size bytes and is its content, streamed.
func binary(file string, seed byte, size int64) (config.Content, error) {
	f, err := os.Create(file)
	if err != nil {
		return config.Content{}, err
	}

	block := make([]byte, 1<<20)
	for i := range block {
		block[i] = byte(i>>8) ^ byte(i)*seed
	}

	for left := size; left > 0 && err == nil; left -= int64(len(block)) {
		_, err = f.Write(block[:min(left, int64(len(block)))])
	}

	err = errors.Join(err, f.Close())
	if err != nil {
		return config.Content{}, err
	}

	digest, err := digestOf(file)
	return config.Stream(digest, size, func() (io.ReadCloser, error) { return os.Open(file) }), err
}

func digestOf(file string) (string, error) {
	f, err := os.Open(file)
	if err != nil {
		return "", err
	}
	defer f.Close()

	sum := sha256.New()
	if _, err := io.Copy(sum, f); err != nil {
		return "", err
	}

	return hex.EncodeToString(sum.Sum(nil)), nil
}
