package cluster_test

import (
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/loam-os/loam/agent/durable"
	"github.com/loam-os/loam/agent/plane"
	"github.com/loam-os/loam/test/judge"
	"github.com/loam-os/loam/test/power"
)

// scenario is something that a node does and that a power cut interrupts.
type scenario struct {
	name string
	// made says that the node has its cluster already, of the record first.
	made bool
	// now is the clock from then on.
	now time.Time
	// do begins when the machine has started, or with its start if it makes the cluster.
	do func(a *agent) error
	// want is the record in the end.
	want plane.Record
}

// changed returns the first record with a change.
func changed(change func(*plane.Record)) plane.Record {
	r := first()
	change(&r)
	return r
}

func scenarios() []scenario {
	nothing := func(*agent) error { return nil }
	sets := func(want plane.Record) func(*agent) error {
		return func(a *agent) error { return a.set(want) }
	}
	settings := changed(func(r *plane.Record) {
		r.Audit.Policy = plane.AuditMetadata
		r.Encrypt = []string{"configmaps", "secrets"}
		r.CertificateNames = []string{"api.plant.example"}
	})
	upgrade := changed(func(r *plane.Record) { r.Kubernetes = newVersion })

	return []scenario{
		{name: "init", now: early, do: nothing, want: first()},
		{name: "set other settings", made: true, now: early, do: sets(settings), want: settings},
		{name: "set another version", made: true, now: early, do: sets(upgrade), want: upgrade},
		{name: "renew at a start", made: true, now: late, do: nothing, want: first()},
		{
			name: "renew while it runs",
			made: true,
			now:  early,
			do:   func(a *agent) error { a.node.now = late; return nil },
			want: first(),
		},
	}
}

// playback is a scenario that has been played once.
type playback struct {
	scenario
	power.Recording
	image *os.Root
	// identity is that of the cluster, and looks are its files in the end.
	identity string
	looks    map[string]string
	// done is the op before which do has returned, and etcd the one at which etcd starts
	// first.
	done, etcd int
	// clock is the clock at an op, and after a cut there.
	clock func(k int) time.Time
}

// play plays a scenario without a cut.
func (s scenario) play(t testing.TB, image *os.Root) playback {
	t.Helper()
	n := newNode(t, image)
	if s.made {
		if err := n.goOn(first()); err != nil {
			t.Fatalf("%s, before: %v", s.name, err)
		}
	}

	base, err := power.Read(n.root)
	if err != nil {
		t.Fatal(err)
	}
	recorder := n.record(base)
	n.now = s.now
	r := playback{scenario: s, image: image}
	a, err := n.powerOn()
	if err != nil {
		t.Fatalf("%s: %v", s.name, err)
	}
	began := recorder.Len()
	if err := s.do(a); err != nil {
		t.Fatalf("%s: %v", s.name, err)
	}
	r.done = recorder.Len()
	if err := a.settle(); err != nil {
		t.Fatalf("%s: %v", s.name, err)
	}

	r.clock = func(k int) time.Time {
		if k >= began {
			return n.now
		}
		return s.now
	}
	r.finish(t, n, recorder)
	if err := n.atRest(); err != nil {
		t.Fatalf("%s: %v", s.name, err)
	}
	return r
}

// finish takes what a recording has led to.
func (r *playback) finish(t testing.TB, n *clusterNode, recorder *power.Recorder) {
	t.Helper()
	var err error
	if r.Recording, err = recorder.Recording(); err != nil {
		t.Fatalf("%s: %v", r.name, err)
	}
	n.hook = func(string) durable.Hook { return nil }
	n.systemd.mark = nil

	b, err := examine(n)
	if err != nil {
		t.Fatalf("%s: %v", r.name, err)
	}
	r.identity = b.identity
	r.looks = n.looks()
	r.etcd = etcdStart(r.Ops)
}

// etcdStart returns the op with which etcd starts first.
func etcdStart(ops []power.Op) int {
	for k, op := range ops {
		if op.Op == power.Mark && (op.From == "start "+etcdService || op.From == "restart "+etcdService) {
			return k
		}
	}
	return len(ops)
}

// allowed is what a cut before op k may leave.
func (r playback) allowed(k int) allowed {
	a := allowed{identity: r.identity, started: r.made || k > r.etcd, first: !r.made}
	if k < r.done {
		a.records = append(a.records, first())
	}
	if k >= r.done || k > 0 {
		a.records = append(a.records, r.want)
	}
	return a
}

// point is a cut before op k.
type point struct {
	k    int
	loss power.Loss
	disk *power.Disk
	key  string
}

// losses are what a cut takes of what was not synced.
func losses(random int, seed uint64) []power.Loss {
	var all []power.Loss
	for _, entries := range []power.Part{power.All, power.None} {
		for _, content := range []power.Part{power.All, power.None, power.Half, power.Zeros} {
			all = append(all, power.Loss{Entries: entries, Content: content})
		}
	}
	for i := range random {
		all = append(all, power.Loss{
			Entries: power.Random,
			Content: power.Random,
			Seed:    seed<<16 + uint64(i),
		})
	}
	return all
}

// choose returns the losses to play before each op: limit of them by chance, 0 for all.
func (r playback) choose(random, limit int, seed uint64) map[int][]power.Loss {
	type cut struct {
		k    int
		loss power.Loss
	}
	var all []cut
	for k := range r.Ops {
		for _, loss := range losses(random, seed+uint64(k)) {
			all = append(all, cut{k, loss})
		}
	}
	if limit > 0 && limit < len(all) {
		chance := rand.New(rand.NewPCG(seed, 1))
		chance.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
		all = all[:limit]
	}

	chosen := map[int][]power.Loss{}
	for _, c := range all {
		chosen[c.k] = append(chosen[c.k], c.loss)
	}
	return chosen
}

// points returns the chosen cuts that leave different disks.
func (r playback) points(chosen map[int][]power.Loss) []point {
	var all []point
	seen := map[string]bool{}
	r.Replay(func(k int, d *power.Disk) bool {
		for _, loss := range chosen[k] {
			disk := d.Cut(loss, volatile...)
			a := r.allowed(k)
			key := fmt.Sprintf("%x %d %v %s", disk.Sum(), len(a.records), a.started, r.clock(k))
			if !seen[key] {
				seen[key] = true
				all = append(all, point{k, loss, disk, key})
			}
		}
		return true
	})
	return all
}

// restore makes a node of what a cut has left.
func (r playback) restore(p point) (*clusterNode, func(), error) {
	dir, err := makeScratch()
	if err != nil {
		return nil, nil, err
	}
	end := func() { os.RemoveAll(dir) }
	if err := p.disk.Write(dir); err != nil {
		return nil, end, err
	}
	n, err := openNode(dir, r.image)
	if err != nil {
		return nil, end, err
	}
	n.now = r.clock(p.k)
	return n, func() { n.close(); os.RemoveAll(dir) }, nil
}

// try plays one point: nil if the node is well afterwards.
func (r playback) try(p point) error {
	n, end, err := r.restore(p)
	if end != nil {
		defer end()
	}
	if err == nil {
		err = check(n, r.allowed(p.k), r.want, r.looks)
	}
	if err != nil {
		return fmt.Errorf("%s, cut before op %d of %d (%s), %s: %w",
			r.name, p.k, len(r.Ops), r.Ops[p.k].Step, p.loss, err)
	}
	return nil
}

// crashSeed is LOAM_CRASH_SEED, or the same for everybody.
func crashSeed() uint64 {
	seed, err := strconv.ParseUint(os.Getenv("LOAM_CRASH_SEED"), 10, 64)
	if err != nil {
		return 1
	}
	return seed
}

// crashPoints is how many points of each scenario a run takes, 0 for all of them, and in
// how many recoveries it cuts a second time.
func crashPoints() (limit, again int) {
	points := os.Getenv("LOAM_CRASH_POINTS")
	if points == "all" {
		return 0, 100
	}
	limit, err := strconv.Atoi(points)
	if err != nil {
		limit = judge.Pick(8, 1500)
	}
	return limit, max(1, limit/60)
}

// TestPowerCuts cuts each scenario, and for a share of the points once more while the node
// recovers.
func TestPowerCuts(t *testing.T) {
	image := newImage(t)
	var mu sync.Mutex
	total := 0
	t.Run("cuts", func(t *testing.T) {
		for _, s := range scenarios() {
			t.Run(s.name, func(t *testing.T) {
				t.Parallel()
				r := s.play(t, image)
				once, twice := r.cut(t)
				t.Logf("%d points, %d of a second cut", once, twice)
				mu.Lock()
				defer mu.Unlock()
				total += once + twice
			})
		}
	})
	t.Logf("%d crash points in all", total)
	if limit, _ := crashPoints(); limit >= 1500 && total < 2000 {
		t.Errorf("only %d crash points in all", total)
	}
}

// cut plays points of a scenario, and returns how many.
func (r playback) cut(t *testing.T) (once, twice int) {
	t.Helper()
	limit, again := crashPoints()
	points := r.points(r.choose(12, limit, crashSeed()))
	for i, p := range points {
		if err := r.try(p); err != nil {
			t.Fatalf("LOAM_CRASH_SEED=%d: %v", crashSeed(), err)
		}
		if i >= again {
			continue
		}
		played, err := r.cutAgain(t, p)
		if err != nil {
			t.Fatalf("LOAM_CRASH_SEED=%d: %v", crashSeed(), err)
		}
		twice += played
	}
	return len(points), twice
}

// secondCuts is how many points of a recovery are played.
const secondCuts = 8

// cutAgain cuts the recovery from a point, and returns how many points it has played.
func (r playback) cutAgain(t *testing.T, p point) (int, error) {
	t.Helper()
	again, err := r.recover(t, p)
	if err != nil {
		return 0, err
	}
	points := again.points(again.choose(4, secondCuts, crashSeed()^uint64(p.k)))
	for i, second := range points {
		if err := again.try(second); err != nil {
			return i, fmt.Errorf("%s, cut before op %d (%s), %s; again %w",
				r.name, p.k, r.Ops[p.k].Step, p.loss, err)
		}
	}
	return len(points), nil
}

// recover records what follows a cut.
func (r playback) recover(t *testing.T, p point) (playback, error) {
	t.Helper()
	n, end, err := r.restore(p)
	if end != nil {
		defer end()
	}
	if err != nil {
		return playback{}, err
	}

	left, err := examine(n)
	if err != nil {
		return playback{}, err
	}
	recorder := n.record(p.disk)
	if err := n.goOn(r.want); err != nil {
		return playback{}, err
	}
	again := playback{scenario: r.scenario, image: r.image, clock: func(int) time.Time { return n.now }}
	again.name = "in the recovery"
	again.made = left.record != nil
	again.finish(t, n, recorder)
	again.done = len(again.Ops)
	if left.record != nil && string(left.record.Text()) == string(r.want.Text()) {
		again.done = 0
	}
	return again, nil
}
