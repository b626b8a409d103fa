package cluster_test

import (
	"bytes"
	"os"
	"path"
	"slices"
	"testing"

	"github.com/loam-os/loam/agent/durable"
	"github.com/loam-os/loam/agent/plane"
	"github.com/loam-os/loam/agent/plane/pki"
	"github.com/loam-os/loam/test/judge"
	"github.com/loam-os/loam/test/power"
)

const (
	planeDir    = "var/lib/loam/plane"
	keysDir     = planeDir + "/keys"
	authorities = keysDir + "/authorities"
	recordFile  = planeDir + "/record.json"
)

// bug is one that the node could have, as a change of what it does in a scenario.
type bug struct {
	name, scenario string
	seed           func(t *testing.T, r playback)
}

// in returns a seed that needs only the ops.
func in(change func([]power.Op)) func(*testing.T, playback) {
	return func(_ *testing.T, r playback) { change(r.Ops) }
}

// recordFirst moves the rename of the keys, with its syncs, behind the record.
func recordFirst(ops []power.Op) {
	keys := slices.IndexFunc(ops, func(op power.Op) bool {
		return op.Op == durable.Rename && op.Name == authorities
	})
	_, written := power.FirstWrite(ops, recordFile)
	power.Later(ops, keys, keys+3, written)
}

// etcdFirst moves the record behind the first start of etcd.
func etcdFirst(ops []power.Op) {
	start, end := power.FirstWrite(ops, recordFile)
	power.Later(ops, start, end, etcdStart(ops)+1)
}

// certificateFirst has each certificate written before its key, in its place.
func certificateFirst(t *testing.T, r playback) {
	dir := scratch(t)
	if err := r.Base.Live().Write(dir); err != nil {
		t.Fatal(err)
	}
	for _, leaf := range leavesOf(first()) {
		name := pki.Files{Dir: keysDir}.Leaf(leaf.Name)
		old, err := os.ReadFile(path.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		start, end := power.FirstWrite(r.Ops, name)
		write := r.Ops[start+1]
		if write.Op != durable.Write || end != start+5 {
			t.Fatalf("%s is written by %v", name, r.Ops[start:end])
		}

		whole := write
		whole.Name = name
		mixed := whole
		mixed.Data = slices.Concat(half(t, whole.Data, true), half(t, old, false))
		sync := power.Op{Step: durable.Step{Op: durable.SyncFile, Name: name}, Note: write.Note}
		copy(r.Ops[start:], []power.Op{mixed, sync, whole, sync})
	}
}

// half returns the certificate of a leaf, or its key.
func half(t *testing.T, text []byte, certificate bool) []byte {
	t.Helper()
	at := bytes.Index(text, []byte("-----BEGIN PRIVATE KEY-----"))
	if at < 0 {
		t.Fatalf("no key in\n%s", text)
	}
	if certificate {
		return text[:at]
	}
	return text[at:]
}

func bugs() []bug {
	const start, settings, renewal = "init", "set other settings", "renew at a start"
	without := func(op durable.Op, pattern string) func(*testing.T, playback) {
		return in(power.Without(op, pattern))
	}
	return []bug{
		{"the record comes before the keys", start, in(recordFirst)},
		{"etcd starts before the record is there", start, in(etcdFirst)},
		{"a key is not synced", start, without(durable.SyncFile, authorities+".new/*.key")},
		{"a public key is not synced", start, without(durable.SyncFile, authorities+".new/*.pub")},
		{"an authority is not synced", start, without(durable.SyncFile, authorities+".new/*.crt")},
		{"the names of the keys are not synced", start, without(durable.SyncDir, authorities+".new")},
		{"the keys are not in place when the record is", start, without(durable.SyncDir, keysDir)},
		{"the record is not in place when etcd starts", start, without(durable.SyncDir, planeDir)},
		{"the record is not synced", start, without(durable.SyncFile, planeDir+"/.*")},
		{"a first certificate is not synced", start, without(durable.SyncFile, keysDir+"/.*")},
		{"another record is not synced", settings, without(durable.SyncFile, planeDir+"/.*")},
		{"set ends before the record is in place", settings, without(durable.SyncDir, planeDir)},
		{"a renewed certificate is not synced", renewal, without(durable.SyncFile, keysDir+"/.*")},
		{"a certificate is written before its key", renewal, certificateFirst},
	}
}

// plainLosses are the cuts before each op after which the disk has all entries and no
// content, and all content and no entries, of what it may lose.
func (r playback) plainLosses() map[int][]power.Loss {
	chosen := map[int][]power.Loss{}
	for k := range r.Ops {
		chosen[k] = []power.Loss{
			{Entries: power.All, Content: power.None},
			{Entries: power.None, Content: power.All},
		}
	}
	return chosen
}

// TestSeededBugsAreFound plays what a cut leaves of each bug but not of the node: one of
// the points must be wrong.
func TestSeededBugsAreFound(t *testing.T) {
	judge.Long(t, "nothing: it tests the judges of TestPowerCuts, not the product")
	if "/"+recordFile != plane.RecordFile || "/"+keysDir != plane.KeysDirectory {
		t.Fatalf("the record is %s, the keys are in %s", plane.RecordFile, plane.KeysDirectory)
	}
	image := newImage(t)
	played := map[string]playback{}
	for _, s := range scenarios() {
		played[s.name] = s.play(t, image)
	}

	for _, b := range bugs() {
		t.Run(b.name, func(t *testing.T) {
			r := played[b.scenario]
			right := map[string]bool{}
			for _, p := range r.points(r.plainLosses()) {
				right[p.key] = true
			}
			r.Ops = slices.Clone(r.Ops)
			b.seed(t, r)
			r.etcd = etcdStart(r.Ops)
			r.find(t, right)
		})
	}
}

// find plays the points that are not right until one of them is found to be wrong.
func (r playback) find(t *testing.T, right map[string]bool) {
	t.Helper()
	wrong := slices.DeleteFunc(r.points(r.plainLosses()), func(p point) bool { return right[p.key] })
	for i, p := range wrong {
		if err := r.try(p); err != nil {
			t.Logf("found after %d of %d points: %.200v", i+1, len(wrong), err)
			return
		}
	}
	t.Errorf("not found in %d points", len(wrong))
}
