package turns

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/loam-os/loam/hint"
)

var noon = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

func holder(machine, id string) Holder {
	return Holder{
		ID:      id,
		Machine: machine,
		Node:    machine,
		Target:  "new",
		Class:   Kubelet,
		Zone:    "a",
		Since:   noon,
	}
}

// running is a ledger with a holder and one that was restored.
func running() Ledger {
	l := New()
	l.State = Running
	l.Target = "new"
	l.Revision = 7
	l.Done = 2
	l.Size = 10
	l.Begun = noon
	l.Nodes = "a=b"
	l.Holders["node-1"] = holder("node-1", "1")
	l.Restored["node-2"] = holder("node-2", "2")
	l.Systems["1234"] = Rollout{
		Target:     "1234",
		Version:    "2.0.0",
		Revision:   1,
		Done:       1,
		Failed:     1,
		Unlabelled: 8,
		Reached:    70,
		Halted:     "node-9: it fell back",
	}
	return l
}

func TestALedgerIsWrittenAndRead(t *testing.T) {
	l := running()
	l.Halts["old"] = "node-3: no"
	l.Hurry = &Hurry{Max: Amount{Percent: 30}, Why: "a hole", Until: noon}
	l.Unlabelled = 9
	l.Reached = 80
	text := l.Annotations(map[string]string{
		"example.com/a":             "b",
		prefix + "why":              "old",
		unlabelledPrefix + "pruned": "3",
	})
	if text["example.com/a"] != "b" || text[prefix+"why"] != "" ||
		text[unlabelledPrefix+"pruned"] != "" {
		t.Errorf("%v", text)
	}

	got, err := ReadLedger(text)
	if diff := cmp.Diff(l, got); diff != "" || err != nil {
		t.Errorf("ledger (-want +got):\n%s%v", diff, err)
	}
}

// TestAnEntryKeepsItsText has entries that other programs and later versions write
// in another way. The admission policy lets an agent change no turn but its own.
func TestAnEntryKeepsItsText(t *testing.T) {
	before := running().Annotations(nil)
	for key, text := range map[string]string{
		prefix + "now":   `{"max": "30%", "why": "a hole", "until": "2026-03-01T12:00:00Z"}`,
		prefix + "begun": "2026-03-01T13:00:00+01:00",
		prefix + "done":  "+2",

		systemPrefix + "1234": `{"version": "2.0.0", "revision": 1, "done": 1, "failed": 1}`,

		holderPrefix + "node-1": `{"wave":1,"id":"1","machine":"node-1","node":"node-1",` +
			`"class":"firmware","since":"2026-03-01T12:00:00Z"}`,
		restoredPrefix + "node-2": `{"id":"2", "machine":"node-2", "node":"node-2"}`,
	} {
		before[key] = text
	}
	l, err := ReadLedger(before)
	if err != nil {
		t.Fatal(err)
	}

	me := Me{Machine: "node-3", Node: "node-3", Target: "new", Revision: 7, Nodes: "a=b"}
	want := maps.Clone(before)
	want[holderPrefix+"node-3"] = holder("node-3", "3").String()
	want[prefix+"reached"] = "0"
	got := l.Take(me, holder("node-3", "3"), 10).Annotations(before)
	got[prefix+"reached"] = "0"
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("with another turn (-want +got):\n%s", diff)
	}

	got = l.Give(Me{Machine: "node-1", Target: "1234", Version: "2.0.0"}, "1").Annotations(before)
	if text, isThere := got[holderPrefix+"node-1"]; isThere {
		t.Errorf("the turn that was given is still there: %s", text)
	}
	read, err := ReadLedger(got)
	if err != nil || read.Systems["1234"].Done != 2 || read.Holders["node-1"].ID != "" {
		t.Errorf("an entry that changed: %+v, %v", read, err)
	}
}

// TestAMachineWithALongNameTakesATurn has names as long as a Node may have, of which two
// differ at the end only. The name of an annotation has 63 characters at most.
func TestAMachineWithALongNameTakesATurn(t *testing.T) {
	long := strings.Repeat("rack-17.row-b.", 18)
	names := []string{"node-1", long[:62] + "x", long[:63] + "x", long[:251] + "-1", long[:251] + "-2"}
	l := New()
	fleet := Fleet{}
	for _, name := range names {
		h := holder(name, "1")
		l.Holders[name] = h
		fleet = append(fleet, Node{Name: name, Mark: h.String()})
	}
	l.Restored = New().Restore(Policy{}, Me{Pool: "pool"}, fleet).Restored

	text := l.Annotations(nil)
	if text[holderPrefix+names[1]] == "" {
		t.Error("a name that fits is not the name of its annotation")
	}
	for key := range text {
		if _, name, _ := strings.Cut(key, "/"); !keyName.MatchString(name) {
			t.Errorf("key %q", key)
		}
	}
	read, err := ReadLedger(text)
	if diff := cmp.Diff(l, read); diff != "" || err != nil || len(read.Restored) != len(names) {
		t.Errorf("%v (-want +got):\n%s", err, diff)
	}

	if _, err := ParseHolder(holder(long[:251]+"-10", "1").String()); err == nil {
		t.Error("a name with 254 characters is read")
	}
}

func TestALedgerThatIsNotUnderstoodIsRefused(t *testing.T) {
	for name, edit := range map[string]func(a map[string]string){
		"no state":            func(a map[string]string) { delete(a, prefix+"state") },
		"an unknown state":    func(a map[string]string) { a[prefix+"state"] = "merry" },
		"a count below none":  func(a map[string]string) { a[prefix+"done"] = "-1" },
		"a count in words":    func(a map[string]string) { a[prefix+"failed"] = "some" },
		"a revision in words": func(a map[string]string) { a[prefix+"revision"] = "x" },
		"a target that is no name of an annotation": func(a map[string]string) {
			a[prefix+"target"] = "!/?"
		},
		"a hurry in words":     func(a map[string]string) { a[prefix+"now"] = "yes" },
		"a hurry that is null": func(a map[string]string) { a[prefix+"now"] = "null" },
		"a hurry without a number": func(a map[string]string) {
			a[prefix+"now"] = `{"why":"a hole","until":"2026-03-01T13:00:00Z"}`
		},
		"a begin in words": func(a map[string]string) { a[prefix+"begun"] = "soon" },
		"a begin in a year of five digits": func(a map[string]string) {
			a[prefix+"begun"] = "9999-12-31T23:00:00-02:00"
		},
		"a count that has no next one": func(a map[string]string) {
			a[prefix+"done"] = "9223372036854775807"
		},
		"a system with a count that has no next one": func(a map[string]string) {
			a[systemPrefix+"1"] = `{"done":9223372036854775807}`
		},
		"a torn holder":       func(a map[string]string) { a[holderPrefix+"node-1"] = `{"id":` },
		"a holder without ID": func(a map[string]string) { a[holderPrefix+"node-1"] = `{}` },
		"a holder whose Node is a path": func(a map[string]string) {
			h := holder("node-1", "1")
			h.Node = "../namespaces/kube-system/configmaps/x"
			a[holderPrefix+"node-1"] = h.String()
		},
		"a torn rollout of a system": func(a map[string]string) { a[systemPrefix+"1"] = `{"done":` },
		"a system with a count below none": func(a map[string]string) {
			a[systemPrefix+"1"] = `{"done":-1}`
		},
		"a look at the labels in words": func(a map[string]string) {
			a[unlabelledPrefix+"1234"] = "x"
		},
		"a look at the labels below none": func(a map[string]string) {
			a[unlabelledPrefix+"1234"] = "-1"
		},
		"a turn of another machine": func(a map[string]string) {
			a[holderPrefix+"x"] = a[holderPrefix+"node-1"]
		},
	} {
		t.Run(name, func(t *testing.T) {
			a := maps.Clone(running().Annotations(nil))
			edit(a)
			if l, err := ReadLedger(a); err == nil {
				t.Errorf("%+v", l)
			}
		})
	}
}

// TestEveryMistakeInALedgerHasAHint checks that nobody who mistypes a state is told to
// delete the Lease: the nodes would make one that runs.
func TestEveryMistakeInALedgerHasAHint(t *testing.T) {
	for _, tt := range []struct{ key, text, hint string }{
		{prefix + "state", "Paused", "write one of running, paused, halted into it"},
		{prefix + "now", "{}", "correct or remove the annotation: without the Lease, a pause " +
			"would end, too"},
		{prefix + "done", "many", deleteLease},
		{holderPrefix + "node-1", "{}", deleteLease},
		{holderPrefix + "x", holder("y", "1").String(), deleteLease},
		{systemPrefix + "1", `{"done":-1}`, deleteLease},
		{unlabelledPrefix + "1234", "no", deleteLease},
		{reachedPrefix + "1234", "-1", deleteLease},
	} {
		t.Run(tt.key+" of "+tt.text, func(t *testing.T) {
			a := running().Annotations(nil)
			a[tt.key] = tt.text
			_, err := ReadLedger(a)
			if err == nil || hint.Of(err) != tt.hint || !strings.Contains(err.Error(), tt.key) {
				t.Errorf("%v, hint %q", err, hint.Of(err))
			}
		})
	}
}

// FuzzReadLedger checks that what one node reads and writes, the next one reads.
func FuzzReadLedger(f *testing.F) {
	for key, text := range running().Annotations(nil) {
		f.Add(key, text)
	}
	f.Add(prefix+"now", `{"max":"5%"}`)
	f.Add(prefix+"begun", "0000-01-01T00:00:00+01:00")
	f.Add(systemPrefix+"5678", "null")
	f.Add(haltPrefix+"old", "")

	me := Me{Machine: "node-1", Node: "node-1", Target: "new", Revision: 7}
	system := Me{Machine: "node-1", Node: "node-1", Target: "1234", Version: "2.0.0"}
	f.Fuzz(func(t *testing.T, key, text string) {
		a := running().Annotations(nil)
		a[key] = text
		l, err := ReadLedger(a)
		if err != nil {
			return
		}
		for _, next := range []Ledger{
			l,
			l.Pause("lunch"),
			l.Resume(),
			l.Take(me, holder("node-1", "3"), 10),
			l.Give(me, "1"),
			l.Fail(Policy{}, system, "1", "no"),
			l.Postpone(system, "1"),
		} {
			if _, err := ReadLedger(next.Annotations(nil)); err != nil {
				t.Errorf("%q of %q: %v", text, key, err)
			}
		}
	})
}

func TestMoves(t *testing.T) {
	me := Me{Machine: "node-1", Target: "new", Revision: 7}
	later := Me{Machine: "node-1", Target: "newer", Revision: 8}
	system := Me{Machine: "node-1", Target: "5678", Version: "3.0.0"}
	restart := Me{Machine: "node-1"}
	halted := running()
	halted.Halted = "node-3: no"
	halted.Failed = 1
	paused := running().Pause("lunch")
	twice := halted
	twice.Failed = 2

	for _, tt := range []struct {
		name      string
		got       Ledger
		state     State
		halted    string
		turns     int
		done      int
		failed    int
		postponed int
	}{
		{"give", running().Give(me, "1"), Running, "", 1, 3, 0, 0},
		{"give twice", running().Give(me, "1").Give(me, "1"), Running, "", 1, 3, 0, 0},
		{"give the turn of another", running().Give(me, "2"), Running, "", 2, 2, 0, 0},
		{"give after another target", running().Give(later, "1"), Running, "", 1, 1, 0, 0},
		{"give after a system", running().Give(system, "1"), Running, "", 1, 2, 0, 0},
		{"give after a restart", running().Give(restart, "1"), Running, "", 1, 2, 0, 0},
		{"take for a restart", halted.Take(restart, holder("node-3", "3"), 10), Running, "node-3: no", 2, 2, 1, 0},
		{"postpone", running().Postpone(me, "1"), Running, "", 1, 2, 0, 1},
		{"drop", running().Drop("node-1", "1"), Running, "", 1, 2, 0, 0},
		{"forget", running().Forget("node-2"), Running, "", 1, 2, 0, 0},
		{"fail", running().Fail(Policy{}, me, "1", "no"), Running, "node-1: no", 1, 2, 1, 0},
		{"fail and go on", running().Fail(Policy{MaxFailures: 1}, me, "1", "no"), Running, "", 1, 2, 1, 0},
		{"fail while paused", paused.Fail(Policy{}, me, "1", "no"), Paused, "node-1: no", 1, 2, 1, 0},
		{"resume", halted.Resume(), Running, "", 2, 2, 0, 0},
		{"resume after a pause", halted.Pause("lunch").Resume(), Running, "node-3: no", 2, 2, 1, 0},
		{"resume twice after a pause", halted.Pause("lunch").Resume().Resume(), Running, "", 2, 2, 0, 0},
		{"retry", Retried(halted, "new", 0), Running, "", 2, 2, 0, 0},
		{"retry one of two failures", Retried(twice, "new", 0), Running, "node-3: no", 2, 2, 1, 0},
		{"retry one of two where one may fail", Retried(twice, "new", 1), Running, "", 2, 2, 1, 0},
		{"retry by an unknown policy", Retried(halted, "new", -1), Running, "node-3: no", 2, 2, 0, 0},
		{"retry after a resume", Retried(halted.Resume(), "new", 0), Running, "", 2, 2, 0, 0},
		{"retry another target", Retried(halted, "old", 0), Running, "node-3: no", 2, 2, 1, 0},
		{"retry while paused", Retried(paused, "new", 0), Paused, "", 2, 2, 0, 0},
		{
			"another target ends a halt",
			halted.Take(later, holder("node-1", "3"), 10),
			Running,
			"",
			2,
			0,
			0,
			0,
		},
		{
			"a system does not end the halt of a configuration",
			halted.Take(system, holder("node-1", "3"), 10),
			Running,
			"node-3: no",
			2,
			2,
			1,
			0,
		},
		{
			"and not a pause",
			paused.Take(later, holder("node-1", "3"), 10),
			Paused,
			"",
			2,
			0,
			0,
			0,
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			l := tt.got
			if l.State != tt.state || l.Halted != tt.halted || len(l.Holders)+len(l.Restored) != tt.turns ||
				l.Done != tt.done || l.Failed != tt.failed || l.Postponed != tt.postponed {
				t.Errorf("%+v", l)
			}
		})
	}
}

func TestRestoreFindsTheMarks(t *testing.T) {
	l := New().Restore(Policy{}, Me{Pool: "pool", Nodes: "a=b"}, Fleet{
		{Name: "node-1", Mark: holder("machine-1", "1").String()},
		{Name: "node-2"},
		{Name: "node-3", Mark: "nonsense"},
	})
	want := holder("machine-1", "1")
	want.Node = "node-1"
	if diff := cmp.Diff(map[string]Holder{"machine-1": want}, l.Restored); diff != "" ||
		l.State != Running || l.Nodes != "a=b" {
		t.Errorf("%s restored of the Nodes %q (-want +got):\n%s", l.State, l.Nodes, diff)
	}
}

// TestSystemsHaveTheirOwnHalt fails one system on a node and then another: both
// are halted, and neither halts the configuration.
func TestSystemsHaveTheirOwnHalt(t *testing.T) {
	l := running()
	for _, target := range []string{"5678", "9abc"} {
		me := Me{Machine: "node-1", Target: target, Version: target}
		l = l.Take(me, holder("node-1", target), 10)
		l = l.Fail(Policy{}, me, target, "it fell back")
		if !l.stands(me) || l.Systems[target].Halted != "node-1: it fell back" {
			t.Errorf("%s: %+v", target, l.Systems)
		}
	}

	if l.Halted != "" || l.Done != 2 || len(l.Systems) != 3 {
		t.Errorf("%+v", l)
	}
	if l = l.Resume(); l.stands(Me{Target: "5678", Version: "5678"}) {
		t.Errorf("resumed: %+v", l.Systems)
	}
}

// TestASystemIsRolledOutAgain has a pool go back to a system that all its nodes have had:
// it begins anew, and counts on.
func TestASystemIsRolledOutAgain(t *testing.T) {
	me := Me{Machine: "node-1", Target: "5678", Version: "2.0.0"}
	l := running()
	l.Systems["5678"] = Rollout{Target: "5678", Version: "2.0.0", Begun: noon, Done: 9, Failed: 1}

	again := holder("node-1", "1")
	again.Target = "5678"
	again.Since = noon.Add(24 * time.Hour)
	for _, tt := range []struct {
		name        string
		size, begun int
		isAnew      bool
	}{
		{"before all have had their turn", 11, 0, false},
		{"while another node has its turn", 10, 1, false},
		{"again", 10, 0, true},
		{"once more", 5, 0, true},
		{"when some have had their turn again", 9, 0, false},
	} {
		l := l.clone()
		for range tt.begun {
			other := holder("node-2", "2")
			other.Target = "5678"
			l.Holders["node-2"] = other
		}
		got := l.Take(me, again, tt.size).Systems["5678"]
		isAnew := got.Begun.Equal(again.Since)
		if got.Done != 9 || isAnew != tt.isAnew || got.Failed != 1 {
			t.Errorf("%s: %+v", tt.name, got)
		}
	}
}

// TestAHaltOutlivesAnotherConfiguration has a configuration come back after
// another one: it is halted until a person resumes it.
func TestAHaltOutlivesAnotherConfiguration(t *testing.T) {
	me := Me{Machine: "node-1", Target: strings.Repeat("a", 64), Revision: 8}
	other := Me{Machine: "node-1", Target: "b", Revision: 9}
	again := me
	again.Revision = 10

	l := running().Take(me, holder("node-1", "3"), 10).Fail(Policy{}, me, "3", "no")
	l = l.Take(other, holder("node-1", "4"), 10).Give(other, "4")
	read, err := ReadLedger(l.Annotations(nil))
	if err != nil {
		t.Fatal(err)
	}
	if read.stands(other) || !read.stands(again) || read.toward(again).Halted != "node-1: no" {
		t.Errorf("%+v", read)
	}
	if read.Resume().stands(again) {
		t.Error("halted after a person has resumed it")
	}
}

// TestAHaltWithoutATargetHoldsForAll reads what a person has written into a ledger
// whose nodes have not changed to anything yet: nothing begins, and what is given
// meanwhile neither ends the halt nor writes a key without a name.
func TestAHaltWithoutATargetHoldsForAll(t *testing.T) {
	l := running()
	l.Target = ""
	text := l.Annotations(nil)
	text[prefix+"state"] = "halted"
	l, err := ReadLedger(text)
	if err != nil {
		t.Fatal(err)
	}

	me := Me{Machine: "node-1", Target: "new", Revision: 8}
	system := Me{Machine: "node-2", Target: "5678", Version: "3.0.0"}
	for _, after := range []Ledger{l, l.Give(me, "1"), l.Fail(Policy{}, me, "1", "no"),
		l.Give(system, "2"), l.Take(Me{Machine: "node-3"}, holder("node-3", "3"), 10)} {
		text := after.Annotations(nil)
		if text[prefix+"state"] != "halted" || text[prefix+"target"] != "" {
			t.Errorf("%v", text)
		}
		for key := range text {
			if strings.HasSuffix(key, "/") {
				t.Errorf("key %q", key)
			}
		}

		read, err := ReadLedger(text)
		if err != nil || !read.stands(me) || !read.stands(system) || read.stands(Me{}) {
			t.Errorf("%+v, %v", read, err)
		}
		d := Decide(Policy{}, read, system, fleet(), noon)
		if d.Stopped != stoppedByHalt || d.Why != "the rollout is halted: too many nodes have failed" {
			t.Errorf("%+v", d)
		}
		read = read.Resume()
		if read.stands(me) || read.stands(system) {
			t.Errorf("resumed: %+v", read)
		}
	}
}

// TestASystemIsRetried lets a node try once more the system that is halted.
func TestASystemIsRetried(t *testing.T) {
	l := running()
	for mayFail, want := range map[int]string{-1: "node-9: it fell back", 0: ""} {
		got := Retried(l, "1234", mayFail).Systems["1234"]
		if got.Halted != want || got.Failed != 0 || got.Done != 1 {
			t.Errorf("if %d may fail: %+v", mayFail, got)
		}
	}
	if l.Systems["1234"].Failed != 1 {
		t.Errorf("the ledger before has changed: %+v", l.Systems)
	}
}

// TestARetryKeepsAHaltByHand: that holds until resume, however many have failed.
func TestARetryKeepsAHaltByHand(t *testing.T) {
	for _, tt := range []struct {
		name            string
		why             string
		failed, mayFail int
		want            string
	}{
		{"by a failure", "node-3.example: a.service: no", 1, 0, ""},
		{"by hand without a reason", "", 1, 0, "too many nodes have failed"},
		{"by hand, then a node has failed", "it looks bad", 1, 0, "it looks bad"},
		{"by hand, with a name that is no machine's", "Carl P.: no", 1, 0, "Carl P.: no"},
		{"by hand, as no more have failed than may", "carl: it looks bad", 1, 1, "carl: it looks bad"},
		{"by hand before any has failed", "carl: it looks bad", 0, 0, "carl: it looks bad"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			text := running().Annotations(nil)
			text[prefix+"state"] = "halted"
			text[prefix+"failed"] = strconv.Itoa(tt.failed)
			if tt.why != "" {
				text[prefix+"why"] = tt.why
			}
			l, err := ReadLedger(text)
			if err != nil {
				t.Fatal(err)
			}

			got := Retried(l, "new", tt.mayFail)
			if got.Halted != tt.want || got.Failed != 0 {
				t.Errorf("halted %q, %d failed", got.Halted, got.Failed)
			}
			if resumed := got.Resume(); resumed.Halted != "" {
				t.Errorf("after resume, halted %q", resumed.Halted)
			}
		})
	}
}

func TestOldRolloutsOfSystemsAreForgotten(t *testing.T) {
	l := running()
	for i := range 10 {
		me := Me{Machine: "node-1", Target: fmt.Sprint(i), Version: "1", Revision: uint64(i)}
		l = l.Give(me, "")
	}

	var kept []string
	for target := range l.Systems {
		kept = append(kept, target)
	}
	slices.Sort(kept)
	// 1234 is halted.
	if diff := cmp.Diff([]string{"1234", "6", "7", "8", "9"}, kept); diff != "" {
		t.Errorf("systems (-want +got):\n%s", diff)
	}
}

func TestALedgerOfAnEarlierVersionIsHalted(t *testing.T) {
	text := running().Annotations(nil)
	text[prefix+"state"] = "halted"
	text[prefix+"why"] = "node-3: no"
	l, err := ReadLedger(text)
	if err != nil || l.State != Running || l.Halted != "node-3: no" || l.Why != "" {
		t.Errorf("%+v, %v", l, err)
	}
}

func TestRestoreFindsTheFailures(t *testing.T) {
	note := func(target, version string, revision uint64) string {
		return Failure{Target: target, Version: version, Revision: revision, Why: "no"}.String()
	}
	fleet := Fleet{
		{Name: "node-1", Failures: []string{note("old", "", 6), note("1234", "2.0.0", 1)}},
		{Name: "node-2", Failures: []string{note("new", "", 7), "nonsense"}},
		{Name: "node-3", Failures: []string{note("new", "", 7)}},
		{Name: "node-4", Failures: []string{note("old", "", 6)}},
	}

	for _, halts := range []string{"node-3: no", "node-2: no"} {
		l := New().Restore(Policy{MaxFailures: 1}, Me{Pool: "pool"}, fleet)
		system := l.Systems["1234"]
		if l.Target != "new" || l.Failed != 2 || l.Halted != halts ||
			system.Failed != 1 || system.Halted != "" {
			t.Errorf("%+v", l)
		}
		if back := (Me{Target: "old", Revision: 8}); !l.stands(back) {
			t.Errorf("what has failed before is not halted when it comes back: %+v", l)
		}
		slices.Reverse(fleet) // The Nodes have any order.
	}
}

// TestAFailureOfAnotherPoolHoldsNobodyUp has a Node that was moved here after a failure
// in its pool before, and one whose failure a ledger takes for a newer configuration.
func TestAFailureOfAnotherPoolHoldsNobodyUp(t *testing.T) {
	fails := func(f Failure) Ledger {
		return New().Restore(Policy{}, Me{Pool: "pool"}, Fleet{{Name: "node-1", Failures: []string{f.String()}}})
	}
	me := Me{Target: "new", Revision: 7}

	if l := fails(Failure{Pool: "other", Target: "foreign", Revision: math.MaxUint64}); l.isNewer(me) ||
		l.Target != "" || l.stands(me) {
		t.Errorf("a failure in another pool: %+v", l.Rollout)
	}
	if l := fails(Failure{Pool: "pool", Target: "new", Revision: 7}); !l.stands(me) {
		t.Errorf("a failure in this pool halts nothing: %+v", l.Rollout)
	}

	l := fails(Failure{Target: "foreign", Revision: math.MaxUint64})
	if !l.isNewer(me) {
		t.Fatalf("a failure that names no pool: %+v", l.Rollout)
	}
	l = l.Resume()
	if l = l.Take(me, holder("node-2", "2"), 1); l.Target != "new" || l.Revision != 7 {
		t.Errorf("resumed: %+v", l.Rollout)
	}
}

// TestRestoreTakesNoNonsense has annotations that a node can write to its own Node,
// and that would keep the ledger from being written.
func TestRestoreTakesNoNonsense(t *testing.T) {
	long := strings.Repeat("x", 1<<16)
	node := func(n int, mark Holder, f Failure) Node {
		return Node{Name: fmt.Sprint("node-", n), Mark: mark.String(), Failures: []string{f.String()}}
	}
	l := New().Restore(Policy{}, Me{Pool: "pool"}, Fleet{
		node(1, Holder{ID: "1", Machine: "no key", Node: "node-1"},
			Failure{Target: "no key", Version: "2.0.0"}),
		node(2, Holder{ID: "2", Machine: long, Node: "node-2"}, Failure{Target: long}),
		node(3, Holder{ID: "3", Machine: "", Node: "node-3"},
			Failure{Target: "1234", Version: "2.0.0", Why: long}),
		node(4, Holder{ID: "4", Machine: "node-4", Node: "node-4", Zone: long},
			Failure{Target: "5678", Version: "<"}),
		node(5, Holder{ID: "5", Machine: "node-5", Node: "a/b"}, Failure{}),
	})

	size := 0
	for key, text := range l.Annotations(nil) {
		size += len(text)
		_, name, _ := strings.Cut(key, "/")
		if !keyName.MatchString(name) {
			t.Errorf("key %.80q", key)
		}
	}
	_, isOdd := l.Systems["5678"]
	if len(l.Restored) > 0 || size > 2*maxWhy || l.Systems["1234"].Failed != 1 || isOdd {
		t.Errorf("%d bytes, systems %v", size, l.Systems)
	}
}
