package upgrade_test

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/loam-os/loam/agent/durable"
	"github.com/loam-os/loam/agent/upgrade"
	"github.com/loam-os/loam/agent/upgrade/disk"
	"github.com/loam-os/loam/agent/upgrade/fill"
	"github.com/loam-os/loam/firmware/bootentry"
	"github.com/loam-os/loam/image/bundle"
	"github.com/loam-os/loam/partitions/fat"
	"github.com/loam-os/loam/test/firmware"
	"github.com/loam-os/loam/test/judge"
)

// process is the agent in a process of its own, which runs this program again.
// Its disk, the files of its state partition, and the list of what it did are
// in a directory.
type process struct {
	Dir     string
	Running upgrade.System
	Boot    int

	// Want is what an operator asks for, unless it is under way: a version,
	// "back" or "drill".
	Want    string
	Verdict upgrade.Verdict

	// Kill is the number of the point at which it dies, from 1 on; 0 for never.
	Kill int
}

// processVariable has a process as JSON.
const processVariable = "LOAM_PROCESS"

// points are the names of the moments that the process gets to.
type points struct {
	mu   sync.Mutex
	file *os.File
	n    int
	kill int
}

func openPoints(dir string, kill int) (*points, error) {
	name := filepath.Join(dir, "points")
	before, _ := os.ReadFile(name)
	f, err := os.OpenFile(name, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	return &points{file: f, n: strings.Count(string(before), "\n"), kill: kill}, err
}

// at marks the point called name. It may not return.
func (p *points) at(name string) {
	p.mu.Lock()
	defer p.mu.Unlock()

	p.n++
	if p.n == p.kill {
		_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
		select {}
	}

	if _, err := fmt.Fprintln(p.file, name); err != nil {
		panic(err)
	}
}

// TestProcess is what such a process does; in others it does nothing.
func TestProcess(t *testing.T) {
	text := os.Getenv(processVariable)
	if text == "" {
		return
	}

	var p process
	if err := json.Unmarshal([]byte(text), &p); err != nil {
		t.Fatal(err)
	}

	var op upgrade.Op
	var err error
	if p.Want == filling {
		err = p.fill(t)
	} else {
		op, err = p.run(t)
	}

	if errors.Is(err, errPanics) {
		op = upgrade.Op{Kind: upgrade.Reboot}
		err = nil
	}

	if err == nil {
		err = os.WriteFile(filepath.Join(p.Dir, "op"), []byte(op.Kind), 0o600)
	}

	if err != nil {
		t.Fatal(err)
	}
}

// run is the agent in one boot, until something else has to happen.
func (p process) run(t *testing.T) (op upgrade.Op, err error) {
	reached, err := openPoints(p.Dir, p.Kill)
	if err != nil {
		return op, err
	}

	whole, err := os.OpenFile(filepath.Join(p.Dir, "disk"), os.O_RDWR, 0)
	if err != nil {
		return op, err
	}

	root, err := os.OpenRoot(filepath.Join(p.Dir, "state"))
	if err != nil {
		return op, err
	}

	fixture, _ := newFixture(t, "1.0.0", "2.0.0", "3.0.0")
	files := upgrade.Files{Dir: durable.New(root, func(s durable.Step) error {
		if s.Op == durable.Rename || s.Op == durable.Remove {
			reached.at(s.String())
		}
		return nil
	})}

	u := fixture.upgraderOn(whole, files, p.Running)
	u.Boot.ID = fmt.Sprint(p.Boot)
	u.Decide = func(v upgrade.View) upgrade.Op {
		op := upgrade.Next(v)
		reached.at("before " + string(op.Kind))
		return op
	}

	u.Listener = hearing{
		done:     func(op upgrade.Op) { reached.at("after " + string(op.Kind)) },
		progress: func(p disk.Progress) { reached.at("filling " + p.Part) },
	}

	if err := p.ask(u, fixture); err != nil {
		return op, err
	}

	return u.Run(t.Context(), p.Verdict, packOnly(noPackFor(fixture, files)))
}

// ask begins the operation.
func (p process) ask(u *upgrade.Upgrader, fixture fixture) error {
	if j, err := upgrade.ReadJournal(u.Records); err != nil || j != nil {
		return err
	}

	switch p.Want {
	case "", "restore":
		return nil
	case "back":
		_, err := u.Rollback(upgrade.Options{}, false)
		return err
	case "drill":
		return u.Drill(upgrade.DrillPanic, false)
	}

	at := slices.IndexFunc(fixture.releases, func(r release) bool { return r.Version == p.Want })
	return u.Begin(fixture.releases[at].index, upgrade.Options{}, upgrade.Facts{})
}

// outcome is the state after an upgrade.
type outcome struct {
	Running upgrade.System
	Entries []string
	Failed  []upgrade.Failure
	Drill   *upgrade.Drill
	Files   []string
}

// box is a machine whose agent is a process.
type box struct {
	fixture
	t    testing.TB
	dir  string
	boot int
}

// goes is the machine from a boot to where nothing is left to do, with an agent
// that dies once at a point, unless that is 0.
func (m *box) goes(want string, word upgrade.Word, kill int) outcome {
	m.t.Helper()
	disk, err := os.OpenFile(filepath.Join(m.dir, "disk"), os.O_RDWR, 0)
	if err != nil {
		m.t.Fatal(err)
	}
	defer func() { _ = disk.Close() }()

	if want == "restore" {
		m.loses(disk)
	}

	started := false
	for range 4 * upgrade.Tries {
		runs, err := m.fixture.starts(disk)
		if err != nil {
			m.t.Fatal(err)
		}

		m.boot++
		p := process{
			Dir:     m.dir,
			Running: runs,
			Boot:    m.boot,
			Kill:    kill,
			Verdict: upgrade.Verdict{Word: upgrade.Good},
		}

		if !started {
			p.Want = want
		}
		if j, err := upgrade.ReadJournal(m.files()); err == nil && j != nil && j.Target == runs {
			p.Verdict = upgrade.Verdict{Word: word, Reason: "so it is"}
		}

		op := m.agent(p)
		if op == upgrade.Nothing {
			return m.outcome(disk, runs)
		}

		started = true
	}

	m.t.Fatal("it does not come to an end")
	return outcome{}
}

// loses takes the boot entries away.
func (m *box) loses(disk *os.File) {
	m.t.Helper()
	err := m.onESP(disk, func(files *fat.FS) error {
		all, err := files.ReadDir(bootentry.Dir)
		for _, f := range all {
			if !f.Dir && f.Size > 0 { // Fillers stay.
				err = errors.Join(err, files.Remove(bootentry.Dir+"/"+f.Name))
			}
		}
		return err
	})
	if err != nil {
		m.t.Fatal(err)
	}
}

// agent is the agent in one boot. An agent that was killed is started once
// more.
func (m *box) agent(p process) upgrade.OpKind {
	m.t.Helper()
	for {
		text, err := json.Marshal(p)
		if err != nil {
			m.t.Fatal(err)
		}

		cmd := exec.CommandContext(m.t.Context(), os.Args[0], "-test.run=^TestProcess$")
		cmd.Env = append(os.Environ(), processVariable+"="+string(text))
		out, err := cmd.CombinedOutput()
		exit, is := errors.AsType[*exec.ExitError](err)
		switch {
		case err == nil:
			op, err := os.ReadFile(filepath.Join(m.dir, "op"))
			if err != nil {
				m.t.Fatal(err)
			}
			return upgrade.OpKind(op)
		case is && exit.Sys().(syscall.WaitStatus).Signal() == syscall.SIGKILL && p.Kill > 0:
			p.Kill = 0
		default:
			m.t.Fatalf("%v\n%s", err, out)
		}
	}
}

func (m *box) files() upgrade.Files {
	m.t.Helper()
	root, err := os.OpenRoot(filepath.Join(m.dir, "state"))
	if err != nil {
		m.t.Fatal(err)
	}
	return upgrade.Files{Dir: durable.New(root, nil)}
}

func (m *box) outcome(disk *os.File, runs upgrade.System) outcome {
	m.t.Helper()
	o := outcome{Running: runs}
	l, err := firmware.Open(disk, m.table.Partitions[0].Start)
	var all []firmware.Entry
	if err == nil {
		all, err = l.Entries()
	}

	for _, e := range all {
		o.Entries = append(o.Entries, e.Name)
	}

	k := m.files()
	if err == nil {
		o.Failed, err = upgrade.Failures(k)
	}
	if err == nil {
		o.Drill, err = upgrade.LastDrill(k)
	}

	names, readErr := os.ReadDir(filepath.Join(m.dir, "state"))
	err = errors.Join(err, readErr)
	if err != nil {
		m.t.Fatal(err)
	}

	for _, n := range names {
		o.Files = append(o.Files, n.Name())
	}

	return o
}

// copied returns a copy of the machine.
func (m *box) copied(t *testing.T) *box {
	t.Helper()
	to := filepath.Join(t.TempDir(), "machine")
	out, err := exec.CommandContext(t.Context(), "cp", "-r", "--sparse=always", m.dir,
		to).CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}

	return &box{
		fixture: m.fixture,
		t:       t,
		dir:     to,
		boot:    m.boot,
	}
}

// newMachine has a disk of one system, and no files.
func newMachine(t *testing.T) *box {
	t.Helper()
	p, disk := newFixture(t, "1.0.0", "2.0.0", "3.0.0")
	m := &box{fixture: p, t: t, dir: t.TempDir()}
	f, err := os.Create(filepath.Join(m.dir, "disk"))
	if err == nil {
		err = errors.Join(f.Truncate(p.table.DiskSize),
			os.Mkdir(filepath.Join(m.dir, "state"), 0o700))
	}

	for n, b := range disk {
		_, e := f.WriteAt(b, n*sector)
		err = errors.Join(err, e)
	}

	err = errors.Join(err, f.Close())
	if err != nil {
		t.Fatal(err)
	}

	return m
}

// TestKilledAtEveryPoint kills the agent once at each point of upgrades, ways
// back and a drill; another process goes on, and the outcome is the same as
// without the kill. Without LOAM_CRASH_STATES it takes one point in fifteen, in short mode one in 45.
func TestKilledAtEveryPoint(t *testing.T) {
	began := time.Now()
	every := judge.Pick(45, 15)
	if os.Getenv("LOAM_CRASH_STATES") != "" {
		every = 1
	}

	m := newMachine(t)
	names := map[string]bool{}
	kills := 0
	for _, part := range []struct {
		name, want string
		word       upgrade.Word
	}{
		{"an upgrade to a good system", "2.0.0", upgrade.Good},
		{"back", "back", upgrade.Good},
		{"back to the newer one", "back", upgrade.Good},
		{"a drill", "drill", upgrade.Bad},
		{"an upgrade to a bad system", "3.0.0", upgrade.Bad},
		{"its entries are gone", "restore", upgrade.Good},
	} {
		t.Run(part.name, func(t *testing.T) {
			before := m.copied(t)
			m.t = t
			want := m.goes(part.want, part.word, 0)

			text, err := os.ReadFile(filepath.Join(m.dir, "points"))
			if err == nil {
				err = os.Remove(filepath.Join(m.dir, "points"))
			}

			if err != nil {
				t.Fatal(err)
			}

			turns := make(chan struct{}, runtime.NumCPU())
			var group sync.WaitGroup
			for i, name := range strings.Split(strings.TrimSpace(string(text)), "\n") {
				names[name] = true
				if (i+kills)%every > 0 {
					continue
				}

				kills++
				turns <- struct{}{}

				group.Go(func() {
					defer func() { <-turns }()
					t.Run(fmt.Sprintf("point %d, %s", i+1, name), func(t *testing.T) {
						diff := cmp.Diff(want, before.copied(t).goes(part.want, part.word, i+1))
						if diff != "" {
							t.Error(diff)
						}
					})
				})
			}

			group.Wait()
		})
	}

	for _, kind := range kinds(t) {
		if !names["before "+kind] && upgrade.OpKind(kind) != upgrade.Nothing &&
			upgrade.OpKind(kind) != upgrade.Observe {
			t.Errorf("no point before %q: no part of this test does it", kind)
		}
	}

	t.Logf("L5: killed at %d points, of %d names, in %s",
		kills, len(names), time.Since(began).Round(time.Second))
}

// kinds are the ops that the code has.
func kinds(t *testing.T) (all []string) {
	t.Helper()
	file, err := parser.ParseFile(token.NewFileSet(), "../../../agent/upgrade/next.go", nil, 0)
	if err != nil {
		t.Fatal(err)
	}

	ast.Inspect(file, func(n ast.Node) bool {
		if v, is := n.(*ast.ValueSpec); is {
			if name, is := v.Type.(*ast.Ident); is && name.Name == "OpKind" {
				all = append(all, strings.Trim(v.Values[0].(*ast.BasicLit).Value, `"`))
			}
		}
		return true
	})

	return all
}

// filling is what a process with that wish does.
const filling = "fill"

// fill makes the file disk from the fetched release.
func (p process) fill(t *testing.T) error {
	reached, err := openPoints(p.Dir, p.Kill)
	if err != nil {
		return err
	}

	disk, err := os.OpenFile(filepath.Join(p.Dir, "disk"), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return err
	}

	part, pack := stored(6 * blockSize)
	job := fill.Job{
		Target:   disk,
		Part:     part,
		Sources:  packOnly(asked{pack, reached}),
		Progress: func(fill.Stats) { reached.at("progress") },
	}

	return errors.Join(job.Run(t.Context()), fill.Verify(disk, part))
}

// blockSize is how much a fill takes at once.
const blockSize = 2 << 20

// stored is content of noise as a part, and its pack, whose chunks are stored
// as they are.
func stored(size int) (bundle.Part, []byte) {
	content := make([]byte, size)
	rng := rand.New(rand.NewPCG(2, 1))
	for i := range content {
		content[i] = byte(rng.Uint32())
	}

	sum := sha256.Sum256(content)
	part := bundle.Part{Size: int64(size), SHA256: hex.EncodeToString(sum[:])}
	at := int64(0)
	for c := range slices.Chunk(content, bundle.ChunkSize) {
		part.Chunks = append(part.Chunks,
			bundle.Chunk{SHA256: sha256.Sum256(c), At: at, Len: int64(len(c))})
		at += int64(len(c))
	}

	return part, content
}

// asked is a pack that records its requests.
type asked struct {
	packed
	*points
}

func (a asked) Range(ctx context.Context, off, n int64) (io.ReadCloser, error) {
	a.at(fmt.Sprint("fetched ", n))
	return a.packed.Range(ctx, off, n)
}

// TestAFillThatIsKilled dies at each step of a fill of several strides, and
// fetches 4 MiB twice at most.
func TestAFillThatIsKilled(t *testing.T) {
	_, pack := stored(6 * blockSize)
	const last = 2 * 6 // a fetch and a progress of each block
	most := 0
	for kill := 1; kill <= last; kill++ {
		m := &box{t: t, dir: t.TempDir()}
		m.agent(process{Dir: m.dir, Want: filling, Kill: kill})

		text, err := os.ReadFile(filepath.Join(m.dir, "points"))
		if err != nil {
			t.Fatal(err)
		}

		fetched := 0
		for line := range strings.Lines(string(text)) {
			n := 0
			_, _ = fmt.Sscanf(line, "fetched %d", &n) // or it is of another kind
			fetched += n
		}

		most = max(most, fetched-len(pack))
		if most > 4<<20 {
			t.Fatalf("killed at point %d: %d bytes fetched twice", kill, most)
		}
	}

	t.Logf("L5: killed at %d points of a fill, %d bytes fetched twice at most", last, most)
}
