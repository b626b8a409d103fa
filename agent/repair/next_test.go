package repair

import (
	"errors"
	"strings"
	"testing"

	"github.com/loam-os/loam/agent/status"
)

func TestNext(t *testing.T) {
	judged := View{
		Present:  true,
		Ext4:     true,
		Counted:  true,
		Preened:  true,
		Judged:   true,
		LogSaved: true,
	}
	with := func(v View, change func(*View)) View {
		change(&v)
		return v
	}
	hopeless := with(judged, func(v *View) { v.Forced = maxForced })
	exhausted := View{
		Present: true,
		Ext4:    true,
		Reset:   true,
		Record:  Record{Repairs: maxRepairs},
		Before:  status.RepairDone,
	}

	for _, tt := range []struct {
		name string
		view View
		want Op
	}{
		{"no state partition", View{Ext4: true, Reset: true}, Stay},
		{"a repair is counted before it begins", View{Present: true, Ext4: true}, CountRepair},
		{
			"what loses nothing comes first",
			View{Present: true, Ext4: true, Counted: true},
			Preen,
		},
		{
			"e2fsck is asked whether that was enough",
			View{Present: true, Ext4: true, Counted: true, Preened: true},
			Judge,
		},
		{
			"the log is safe before e2fsck may lose anything",
			with(judged, func(v *View) { v.LogSaved = false }),
			SaveLog,
		},
		{"then e2fsck may lose something", judged, Force},
		{"twice", with(judged, func(v *View) { v.Forced = 1 }), Force},
		{
			"a partition without errors has to mount",
			with(judged, func(v *View) { v.Clean = true }),
			KeepLog,
		},
		{
			"a file system without a journal gets one",
			with(judged, func(v *View) { v.Clean, v.NoJournal = true, true }),
			Journal,
		},
		{
			"a journal that cannot be made is no reason to restart",
			with(judged, func(v *View) { v.Clean, v.NoJournal, v.Failed = true, true, true }),
			Stay,
		},
		{
			"that is recorded",
			with(judged, func(v *View) { v.Clean, v.LogKept = true, true }),
			RecordRepaired,
		},
		{
			"and the machine restarts",
			with(judged, func(v *View) { v.Clean, v.LogKept, v.Recorded = true, true, true }),
			Restart,
		},
		{
			"not if the restart cannot be counted",
			with(judged, func(v *View) {
				v.Clean, v.LogKept, v.Recorded = true, true, true
				v.Uncounted = "the ESP is gone"
			}),
			Stay,
		},
		{"what cannot be repaired stays", hopeless, Stay},
		{
			"an owner who prefers a new one loses nothing that can be kept",
			with(hopeless, func(v *View) { v.Reset = true }),
			KeepAside,
		},
		{
			"a reset is counted before it begins",
			with(hopeless, func(v *View) { v.Reset, v.Aside = true, true }),
			CountReset,
		},
		{
			"then the partition is marked",
			with(hopeless, func(v *View) { v.Reset, v.Aside, v.Recorded = true, true, true }),
			Mark,
		},
		{
			"the next boot formats it",
			with(hopeless, func(v *View) { v.Reset, v.Marked = true, true }),
			Restart,
		},
		{
			"a mark that cannot be written is no reason to restart",
			with(hopeless, func(v *View) { v.Reset, v.Marked, v.Failed = true, true, true }),
			Stay,
		},
		{
			"no reset that cannot be counted",
			with(hopeless, func(v *View) { v.Reset, v.Uncounted = true, "the ESP is gone" }),
			Stay,
		},
		{
			"no third reset",
			with(hopeless, func(v *View) { v.Reset, v.Record.Resets = true, maxResets }),
			Stay,
		},
		{
			"a partition that the kernel does not mount stays if e2fsck finds nothing in it",
			with(judged, func(v *View) { v.Reset, v.Clean, v.Failed = true, true, true }),
			Stay,
		},
		{
			"so does one for which no journal can be made",
			with(judged, func(v *View) {
				v.Reset, v.Clean, v.NoJournal, v.Failed = true, true, true, true
			}),
			Stay,
		},
		{
			"unknown data stays",
			View{Present: true},
			Stay,
		},
		{
			"unknown data goes only if its owner says so",
			View{Present: true, Reset: true},
			KeepAside,
		},
		{
			"no fourth repair",
			View{Present: true, Ext4: true, Record: Record{Repairs: maxRepairs}},
			Stay,
		},
		{"repairs that did not help end in a reset, which asks e2fsck first", exhausted, Preen},
		{
			"whether there is anything left",
			with(exhausted, func(v *View) { v.Preened = true }),
			Judge,
		},
		{
			"and there is",
			with(exhausted, func(v *View) { v.Preened, v.Judged = true, true }),
			KeepAside,
		},
		{
			"a partition in which e2fsck finds nothing stays",
			with(exhausted, func(v *View) { v.Preened, v.Judged, v.Clean = true, true, true }),
			Stay,
		},
		{
			"so does one that had a verdict before, and has none now",
			with(exhausted, func(v *View) { v.Preened, v.Aborted = true, true }),
			Stay,
		},
		{
			"repairs that a power cut ended do not",
			View{
				Present: true,
				Ext4:    true,
				Reset:   true,
				Record:  Record{Repairs: maxRepairs},
				Before:  status.Repairing,
			},
			Stay,
		},
		{
			"nor does an e2fsck that came to no verdict",
			with(judged, func(v *View) { v.Reset, v.Aborted = true, true }),
			Stay,
		},
		{
			"but three of them do",
			with(exhausted, func(v *View) {
				v.Before = status.RepairFailed
				v.Preened, v.Aborted = true, true
			}),
			KeepAside,
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if got := Next(tt.view); got != tt.want {
				t.Errorf("Next: %s, want %s", got, tt.want)
			}
		})
	}
}

// TestWhyWithoutAVerdict says what to do about a check that has limits, and nothing of
// a reset, which the next restart would not do.
func TestWhyWithoutAVerdict(t *testing.T) {
	v := View{Present: true, Ext4: true, Counted: true}
	v.Record.Device = "/dev/vda8"
	v.abort(errors.New("e2fsck: signal: killed"))
	problem, hint := v.why()
	if problem != "e2fsck: signal: killed" ||
		!strings.HasPrefix(hint, "`e2fsck -fy /dev/vda8` in a debug shell") ||
		strings.Contains(hint, "onDamage") {
		t.Errorf("%s; hint: %s", problem, hint)
	}
}

// TestAPartitionInOrderIsNeverFormatted starts a node with onDamage: reset again and
// again whose /init does not mount the partition, for whatever reason. e2fsck finds
// nothing in it.
func TestAPartitionInOrderIsNeverFormatted(t *testing.T) {
	for name, want := range map[string]int{
		"the kernel mounts it":         maxRepairs,
		"the kernel does not mount it": 0,
	} {
		mounts := want > 0
		t.Run(name, func(t *testing.T) {
			var record Record
			restarts := 0
			for range 8 {
				v := View{Present: true, Ext4: true, Reset: true, Record: record, Before: record.State}
				op := playInOrder(t, &v, mounts)
				if op == Restart {
					restarts++
				}
				record = v.Record
				if op == Stay {
					record.State = status.RepairFailed
				}

				problem, hint := v.why()
				if op == Stay && (problem == "" || !strings.HasPrefix(hint, "e2fsck finds nothing")) {
					t.Errorf("%s; hint: %s", problem, hint)
				}
			}
			if restarts != want {
				t.Errorf("%d restarts, want %d", restarts, want)
			}
		})
	}
}

// playInOrder does the steps of a boot with a partition in which e2fsck finds nothing,
// and returns the last.
func playInOrder(t *testing.T, v *View, mounts bool) Op {
	t.Helper()
	for range 20 {
		op := Next(*v)
		switch op {
		case Restart, Stay:
			return op
		case CountRepair:
			v.Counted = true
			v.Record.Repairs++
		case Preen:
			v.Preened = true
		case Judge:
			v.Judged, v.Clean = true, true
		case KeepLog:
			v.LogKept = true
			if !mounts {
				v.fail(ErrMount)
			}
		case RecordRepaired:
			v.Recorded = true
			v.Record.State = status.RepairDone
		default:
			t.Fatalf("%s, of a partition in which e2fsck finds nothing: %+v", op, *v)
		}
	}
	t.Fatal("no end")
	return ""
}

// TestWhyRepairsDidNotHelp says only what is true: without onDamage, e2fsck has not
// been asked.
func TestWhyRepairsDidNotHelp(t *testing.T) {
	v := View{Present: true, Ext4: true, Record: Record{Repairs: maxRepairs}}
	problem, hint := v.why()
	if problem != "the repairs of the last day did not help" ||
		!strings.Contains(hint, "unless e2fsck finds nothing wrong with it") {
		t.Errorf("%s; hint: %s", problem, hint)
	}
}
