package node

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/loam-os/loam/agent/generation"
	"github.com/loam-os/loam/agent/status"
	"github.com/loam-os/loam/partitions"
	"github.com/loam-os/loam/partitions/ext4"
	"github.com/loam-os/loam/partitions/gpt"
	"github.com/loam-os/loam/partitions/sparse"
	"github.com/loam-os/loam/test/firmware"
)

// looks is how many states of the ESP and of the state partition the checkers
// of file systems look at.
const looks = 60

// TestPowerCutsOfARecordedNode records all that a node writes to its disk while
// it takes another configuration, upgrades itself, restarts and finds the new
// system well, and checks what power cuts leave of it.
func TestPowerCutsOfARecordedNode(t *testing.T) {
	if os.Getenv("LOAM_CRASH_STATES") == "" {
		t.Skip("takes minutes: make crash sets LOAM_CRASH_STATES")
	}

	began := time.Now()
	b := open(t)
	v2 := next(t)
	u := v2.publish(t, nil)
	m := b.flash(t, b.file(".raw"))
	m.config.Host = true
	m.config.NoReboot = true
	yaml := machineYAML(b.manifest.Arch, "source: {file: {path: "+watched+"}}\n"+u.machineYAML())
	n := &upgradable{machine: m, credentials: map[string]string{"loam.machine": yaml}}
	configure := func(text string) {
		n.write(watched, header+service("one")+"  files:\n"+file("/etc/demo/one", text))
		n.applied()
		n.proven()
	}

	n.start()
	n.up()
	configure("1")
	n.off()
	r := &replay{
		t:      t,
		m:      m,
		builds: []build{b, v2},
		rng:    rand.New(rand.NewPCG(1, 1)),
		whole:  map[int]bool{},
	}

	r.begin()

	var logs []string
	logged := func() {
		m.config.Log = filepath.Join(m.config.Dir, fmt.Sprint("log", len(logs)))
		logs = append(logs, m.config.Log)
		if err := os.WriteFile(m.config.Log, nil, 0o600); err != nil {
			t.Fatal(err)
		}

		n.start()
		n.up()
	}

	logged()
	configure("2")
	n.sh("loam upgrade --stay")
	fmt.Fprintln(n.Shell(), "systemctl reboot")
	n.ended()
	logged()
	n.boots(v2.manifest.Version, "b")

	n.says(func(s status.Status) bool {
		return s.Upgrade != nil && s.Upgrade.Phase == "" && s.Phase == status.Applied
	})

	n.off()
	recorded := time.Since(began)

	var epochs [][]firmware.Written
	for _, log := range logs {
		epochs = append(epochs, epochsOf(t, log)...)
	}

	r.play(epochs)
	t.Logf("L3: %d states at %d flushes of a node; the loader has looked at %d, fsck.vfat at %d, "+
		"e2fsck and the agent's reader at %d; in %s, of which recording %s",
		r.states, len(epochs), r.booted, r.esps, r.vars, time.Since(began).Round(time.Second),
		recorded.Round(time.Second))

	if r.states < 1000 {
		t.Errorf("%d states are not what was asked for", r.states)
	}
}

// epochsOf are a log's writes, by flushes.
func epochsOf(t *testing.T, log string) (epochs [][]firmware.Written) {
	t.Helper()
	text := readFile(t, log)
	requests, err := firmware.ReadLog(text)
	if err != nil {
		t.Fatal(err)
	}

	var now []firmware.Written
	for _, q := range requests {
		if q.Flush && len(now) > 0 {
			epochs = append(epochs, now)
			now = nil
		}
		for i := range len(q.Data) / firmware.SectorSize {
			now = append(now,
				firmware.Written{
					Sector: q.Sector + int64(i),
					Data:   q.Data[i*firmware.SectorSize:][:firmware.SectorSize],
				})
		}
	}

	return append(epochs, now)
}

// replay is a disk on its way from one system to another.
type replay struct {
	t      *testing.T
	m      *machine
	builds []build
	rng    *rand.Rand
	disk   *os.File
	table  gpt.Table // as it was; no partition moves
	// whole are partitions whose content is known to belong to their system.
	whole                      map[int]bool
	states, booted, esps, vars int
}

// begin begins with the present content of the machine's disk.
func (r *replay) begin() {
	r.t.Helper()
	name := filepath.Join(r.m.config.Dir, "replay.raw")
	r.m.tool("qemu-img", "convert", "-O", "raw", r.m.config.Disk, name)
	var err error
	r.disk, err = os.OpenFile(name, os.O_RDWR, 0)
	if err != nil {
		r.t.Fatal(err)
	}
	r.t.Cleanup(func() { _ = r.disk.Close() })

	r.table, err = gpt.Read(r.disk, r.size(), firmware.SectorSize)
	if err != nil {
		r.t.Fatal(err)
	}
}

func (r *replay) size() int64 {
	info, err := r.disk.Stat()
	if err != nil {
		r.t.Fatal(err)
	}
	return info.Size()
}

// play tries, at each flush, all of it, and some of the sectors.
func (r *replay) play(epochs [][]firmware.Written) {
	r.t.Helper()
	vars := 0
	seen := 0

	for _, e := range epochs {
		if r.of(e)[r.partition(partitions.State).Index] {
			vars++
		}
	}

	for i, e := range epochs {
		if r.t.Failed() {
			r.t.Fatalf("at flush %d of %d", i, len(epochs))
		}

		of := r.of(e)
		look := false
		if of[r.partition(partitions.State).Index] {
			seen++
			look = seen*looks/vars > (seen-1)*looks/vars
		}

		last := firmware.Last(e)
		for range 5 {
			some := firmware.Sectors{}
			for _, n := range slices.Sorted(maps.Keys(last)) {
				if r.rng.IntN(2) == 0 {
					some[n] = last[n]
				}
			}

			before := r.write(some)
			r.check(of, look && r.rng.IntN(3) == 0)
			r.write(before)
		}

		r.write(last)
		r.check(of, look)
	}
}

// of are the partitions that are written, 0 for the tables.
func (r *replay) of(e []firmware.Written) map[int]bool {
	all := map[int]bool{}
	for _, w := range e {
		at := w.Sector * firmware.SectorSize
		index := 0
		for _, p := range r.table.Partitions {
			if p.Start <= at && at < p.End() {
				index = p.Index
			}
		}
		all[index] = true
	}
	return all
}

func (r *replay) partition(role partitions.Role) gpt.Partition {
	kind := partitions.TypeUUID(role, r.builds[0].manifest.Arch)
	return r.table.Partitions[slices.IndexFunc(r.table.Partitions, func(p gpt.Partition) bool {
		return p.Type == kind
	})]
}

// write changes sectors, and returns their old content.
func (r *replay) write(all firmware.Sectors) (before firmware.Sectors) {
	before = firmware.Sectors{}
	for n, b := range all {
		old := make([]byte, len(b))
		_, err := r.disk.ReadAt(old, n*firmware.SectorSize)
		if err == nil {
			_, err = r.disk.WriteAt(b, n*firmware.SectorSize)
		}

		if err != nil {
			r.t.Fatal(err)
		}

		before[n] = old
	}

	return before
}

// check looks at a state by what was written in these partitions: at the state
// partition only if told to.
func (r *replay) check(of map[int]bool, look bool) {
	r.t.Helper()
	r.states++

	for index := range of {
		delete(r.whole, index)
	}

	esp := r.partition(partitions.ESP)
	state := r.partition(partitions.State)
	if len(of) > 1 || !of[state.Index] {
		r.booted++
		if err := r.boots(); err != nil {
			r.t.Errorf("the loader: %v", err)
		}
	}

	if of[esp.Index] && r.esps < looks {
		r.esps++
		r.vfat(r.extract(esp))
	}

	if look {
		r.vars++
		r.ext4(r.extract(state))
	}
}

// boots is a machine whose new system never comes up, unless it is
// blessed.
func (r *replay) boots() error {
	table, err := gpt.Read(r.disk, r.size(), firmware.SectorSize)
	if err != nil {
		return err
	}

	disk := layer{r.disk, firmware.Sectors{}}
	for range 5 {
		e, content, err := firmware.Start(disk, r.partition(partitions.ESP).Start)
		if err != nil {
			return err
		}

		sum := sha256.Sum256(content)
		at := slices.IndexFunc(r.builds, func(b build) bool {
			return r.sumOf(b, ".efi") == hex.EncodeToString(sum[:])
		})
		if at < 0 {
			return fmt.Errorf("%s is no UKI of a build", e.Name)
		}
		if err := r.slot(table, r.builds[at]); err != nil {
			return fmt.Errorf("%s: %w", e.Name, err)
		}

		if !strings.Contains(e.Name, "+") {
			return nil
		}
	}

	return errors.New("it does not fall back")
}

// sumOf is the digest that the manifest says of a file of a build.
func (r *replay) sumOf(b build, suffix string) string {
	text := readFile(r.t, filepath.Join(b.dir, "SHA256SUMS"))
	for line := range strings.Lines(string(text)) {
		sum, name, _ := strings.Cut(strings.TrimSpace(line), "  ")
		if strings.HasSuffix(name, suffix) {
			return sum
		}
	}
	r.t.Fatalf("SHA256SUMS of %s has no %s", b.dir, suffix)
	return ""
}

// slot makes sure that a build's root and verity tree are where its root hash
// says.
func (r *replay) slot(table gpt.Table, b build) error {
	raw, err := hex.DecodeString(b.manifest.RootHash)
	if err != nil {
		return err
	}

	for suffix, id := range map[string][16]byte{
		".root":   partitions.RootUUID([32]byte(raw)),
		".verity": partitions.VerityUUID([32]byte(raw)),
	} {
		at := slices.IndexFunc(table.Partitions, func(p gpt.Partition) bool {
			return [16]byte(p.UUID) == id
		})
		if at < 0 {
			return fmt.Errorf("its %s has no partition", suffix)
		}

		p := table.Partitions[at]
		if r.whole[p.Index] {
			continue
		}

		info, err := os.Stat(b.file(suffix))
		if err != nil {
			return err
		}

		h := sha256.New()
		if _, err := io.Copy(h, io.NewSectionReader(r.disk, p.Start, info.Size())); err != nil {
			return err
		}
		if hex.EncodeToString(h.Sum(nil)) != r.sumOf(b, suffix) {
			return fmt.Errorf("partition %d has another %s", p.Index, suffix)
		}

		r.whole[p.Index] = true
	}

	return nil
}

// layer is a disk whose writes go elsewhere.
type layer struct {
	io.ReaderAt
	over firmware.Sectors
}

func (l layer) ReadAt(p []byte, off int64) (int, error) {
	n, err := l.ReaderAt.ReadAt(p, off)
	for s, b := range l.over {
		if at := s*firmware.SectorSize - off; at > -firmware.SectorSize && at < int64(len(p)) {
			copy(p[max(0, at):], b[max(0, -at):])
		}
	}
	return n, err
}

// WriteAt takes full sectors, as firmware writes them.
func (l layer) WriteAt(p []byte, off int64) (int, error) {
	for i := 0; i < len(p); i += firmware.SectorSize {
		l.over[off/firmware.SectorSize+
			int64(i/firmware.SectorSize)] = slices.Clone(p[i:][:firmware.SectorSize])
	}
	return len(p), nil
}

// extract copies a partition to a file, which has no blocks where it is zeros.
func (r *replay) extract(p gpt.Partition) string {
	r.t.Helper()
	name := filepath.Join(r.m.config.Dir, "part.img")
	f, err := os.Create(name)
	if err == nil {
		err = f.Truncate(p.Size)
	}

	data, dataErr := sparse.Data(r.disk, p.End())
	err = errors.Join(err, dataErr)
	for _, e := range data {
		if start := max(e.Start, p.Start); start < e.End && err == nil {
			_, err = io.Copy(io.NewOffsetWriter(f, start-p.Start),
				io.NewSectionReader(r.disk, start, e.End-start))
		}
	}

	err = errors.Join(err, f.Close())
	if err != nil {
		r.t.Fatal(err)
	}

	return name
}

// known are fsck.vfat's words about what is there after a cut by design:
// clusters of a UKI that has no name yet, or no name any more, FATs of which
// one is written, and the number of free clusters, which is a hint.
var known = regexp.MustCompile(
	`^\s*(fsck\.fat .*|FATs differ but appear to be intact\.|Using first FAT\.|Reclaimed \d+ unused clusters? .*|Free cluster summary wrong .*|` +
		`Auto-correcting\.|Leaving filesystem unchanged\.|.* files, .* clusters|)$`,
)

func (r *replay) vfat(image string) {
	r.t.Helper()
	out, err := r.run("fsck.vfat", "-n", image)
	for line := range strings.Lines(out) {
		if !known.MatchString(strings.TrimRight(line, "\n")) {
			r.t.Errorf("fsck.vfat: %v\n%s", err, out)
			return
		}
	}
}

// ext4 does what a boot does to the state partition, which then has no fault,
// and reads the agent's files.
func (r *replay) ext4(image string) {
	r.t.Helper()
	f, err := os.OpenFile(image, os.O_RDWR, 0)
	if err == nil {
		err = errors.Join(ext4.Repair(f), f.Close()) // as /init does
	}

	if err != nil {
		r.t.Fatal(err)
	}

	if out, err := r.run("e2fsck", "-p", image); err != nil && exitCode(err) != 1 {
		r.t.Errorf("the journal is not replayed: %v\n%s", err, out)
		return
	}

	if out, err := r.run("e2fsck", "-fn", image); err != nil {
		r.t.Errorf("e2fsck: %v\n%s", err, out)
	}

	dir, err := os.MkdirTemp(r.m.config.Dir, "var")
	if err != nil {
		r.t.Fatal(err)
	}
	defer os.RemoveAll(dir)

	if out, err := r.run("debugfs", "-R", "rdump /lib/loam "+dir, image); err != nil {
		r.t.Errorf("debugfs: %v\n%s", err, out)
	}

	if err := readable(filepath.Join(dir, "loam"), r.builds); err != nil {
		r.t.Error(err)
	}
}

func (r *replay) run(name string, args ...string) (string, error) {
	out, err := r.m.run(r.m.config.Dir)(context.WithoutCancel(r.t.Context()), name,
		args...).CombinedOutput()
	return string(out), err
}

func exitCode(err error) int {
	exit, _ := errors.AsType[*exec.ExitError](err)
	return exit.ExitCode()
}

// readable checks that the systems' configurations are complete, and that each
// journal was written by the node.
func readable(dir string, builds []build) error {
	g := generation.Read(os.DirFS(dir))
	for i, b := range builds {
		m, there, err := g.Current(b.manifest.Version)
		if err != nil || (i == 0 && !there) {
			return fmt.Errorf("configuration of %s: %v, %w", b.manifest.Version, there, err)
		}

		for _, e := range m.Entries {
			if e.Digest == "" {
				continue
			}

			found, err := filepath.Glob(filepath.Join(dir, "store/sha256", e.Digest+"-*"))
			if err != nil || len(found) == 0 {
				return fmt.Errorf("%s has no content: %w", e.Path, err)
			}

			text, err := os.ReadFile(found[0])
			if sum := sha256.Sum256(text); err != nil || hex.EncodeToString(sum[:]) != e.Digest {
				return fmt.Errorf("%s has another content: %w", e.Path, err)
			}
		}
	}

	files, err := filepath.Glob(filepath.Join(dir, "*.json"))
	for _, name := range files {
		if text, e := os.ReadFile(name); e != nil || !json.Valid(text) {
			err = errors.Join(err, fmt.Errorf("%s: %q: %w", name, text, e))
		}
	}

	return err
}
