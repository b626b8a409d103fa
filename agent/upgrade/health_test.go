package upgrade

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/loam-os/loam/agent/upgrade/disk"
)

func TestATrialIsJudgedByWhatWasBefore(t *testing.T) {
	well := Check{State: Well}
	ill := Check{State: Ill, Detail: "down"}
	unclear := Check{State: Unclear, Detail: "no answer"}
	before := Health{"kubelet": well, "node": well, "old": ill}
	type look struct {
		at   time.Duration
		now  Health
		word Word
		why  string
	}

	for _, test := range []struct {
		name  string
		trial Trial
		looks []look
	}{
		{"as well as before", Trial{Baseline: before}, []look{
			{
				20 * time.Second,
				Health{"kubelet": well, "node": well, "old": ill},
				Wait,
				"all is as well as before",
			},
			{
				40 * time.Second,
				Health{"kubelet": well, "node": well},
				Wait,
				"all is as well as before",
			},
			{
				50 * time.Second,
				Health{"kubelet": well, "node": well},
				Good,
				"nothing is worse than before",
			},
		}},
		{"what was ill may stay so, and new things may be", Trial{Baseline: before}, []look{
			{
				0,
				Health{"kubelet": well, "node": well, "old": ill, "new": ill},
				Wait,
				"all is as well as before",
			},
			{
				30 * time.Second,
				Health{"kubelet": well, "node": well, "old": ill, "new": ill},
				Good,
				"nothing is worse than before",
			},
		}},
		{"it takes its time", Trial{Baseline: before}, []look{
			{10 * time.Second, Health{"kubelet": ill, "node": well}, Wait, "kubelet: down"},
			{90 * time.Second, Health{"kubelet": well, "node": ill}, Wait, "node: down"},
			{
				9 * time.Minute,
				Health{"kubelet": well, "node": well},
				Wait,
				"all is as well as before",
			},
			{
				10 * time.Minute,
				Health{"kubelet": well, "node": well},
				Good,
				"nothing is worse than before",
			},
		}},
		{"a moment of weakness restarts the time", Trial{Baseline: before}, []look{
			{0, Health{"kubelet": well, "node": well}, Wait, "all is as well as before"},
			{29 * time.Second, Health{"kubelet": ill, "node": well}, Wait, "kubelet: down"},
			{
				31 * time.Second,
				Health{"kubelet": well, "node": well},
				Wait,
				"all is as well as before",
			},
			{
				60 * time.Second,
				Health{"kubelet": well, "node": well},
				Wait,
				"all is as well as before",
			},
			{
				61 * time.Second,
				Health{"kubelet": well, "node": well},
				Good,
				"nothing is worse than before",
			},
		}},
		{"it does not get there", Trial{Baseline: before}, []look{
			{9 * time.Minute, Health{"kubelet": ill, "node": well}, Wait, "kubelet: down"},
			{10*time.Minute - 1, Health{"kubelet": ill, "node": well}, Wait, "kubelet: down"},
			{10 * time.Minute, Health{"kubelet": ill, "node": well}, Bad, "kubelet: down"},
		}},
		{"something is not there any more", Trial{Baseline: before}, []look{
			{8 * time.Minute, Health{"node": well}, Wait, "kubelet is not there"},
			{10 * time.Minute, Health{"node": well}, Bad, "kubelet is not there"},
		}},
		{"a server that is away is no verdict, however long", Trial{Baseline: before}, []look{
			{time.Minute, Health{"kubelet": well, "node": unclear}, Wait, "node: no answer"},
			{24 * time.Hour, Health{"kubelet": well, "node": unclear}, Wait, "node: no answer"},
			{
				25 * time.Hour,
				Health{"kubelet": well, "node": well},
				Wait,
				"all is as well as before",
			},
			{
				26 * time.Hour,
				Health{"kubelet": well, "node": well},
				Good,
				"nothing is worse than before",
			},
		}},
		{
			"a server that was away before says nothing after",
			Trial{Baseline: Health{"node": unclear}},
			[]look{
				{0, Health{"node": ill}, Wait, "all is as well as before"},
				{30 * time.Second, Health{"node": ill}, Good, "nothing is worse than before"},
			},
		},
		{"without a baseline all has to be well", Trial{}, []look{
			{time.Minute, Health{"a": well, "b": ill}, Wait, "b: down"},
			{10 * time.Minute, Health{"a": well, "b": ill}, Bad, "b: down"},
		}},
		{"it takes a minute to be sure", Trial{Baseline: before}, []look{
			{
				9 * time.Minute,
				Health{"kubelet": well, "node": well},
				Wait,
				"all is as well as before",
			},
			{11 * time.Minute, nil, Wait, "the agent is busy"},
			{11 * time.Minute, Health{"kubelet": ill, "node": well}, Wait, "kubelet: down"},
			{12*time.Minute - 1, Health{"kubelet": ill, "node": well}, Wait, "kubelet: down"},
			{12 * time.Minute, Health{"kubelet": ill, "node": well}, Bad, "kubelet: down"},
		}},
		{"a server that comes back tells old news at first", Trial{Baseline: before}, []look{
			{time.Hour, Health{"kubelet": well, "node": unclear}, Wait, "node: no answer"},
			{time.Hour + time.Second, Health{"kubelet": well, "node": ill}, Wait, "node: down"},
			{
				time.Hour + 30*time.Second,
				Health{"kubelet": well, "node": well},
				Wait,
				"all is as well as before",
			},
			{
				time.Hour + 60*time.Second,
				Health{"kubelet": well, "node": well},
				Good,
				"nothing is worse than before",
			},
		}},
		{
			"a unit that the configuration has no more",
			Trial{Baseline: Health{"unit a": well, "kubelet": well}},
			[]look{
				{0, Health{"kubelet": well}, Wait, "all is as well as before"},
				{30 * time.Second, Health{"kubelet": well}, Good, "nothing is worse than before"},
			},
		},
		{"a unit that restarts all the time", Trial{Baseline: Health{"unit a": well}}, []look{
			{0, Health{"unit a": {State: Well, Life: "1"}}, Wait, "all is as well as before"},
			{
				2 * time.Second,
				Health{"unit a": {State: Well, Life: "2"}},
				Wait,
				"all is as well as before",
			},
			{
				4 * time.Second,
				Health{"unit a": {State: Well, Life: "3"}},
				Wait,
				"all is as well as before",
			},
			{
				6 * time.Second,
				Health{"unit a": {State: Well, Life: "4"}},
				Wait,
				"unit a: it does not stay up",
			},
			{
				40 * time.Second,
				Health{"unit a": {State: Well, Life: "5"}},
				Wait,
				"unit a: it does not stay up",
			},
			{
				42 * time.Second,
				Health{"unit a": {State: Well, Life: "5"}},
				Wait,
				"all is as well as before",
			},
			{
				72 * time.Second,
				Health{"unit a": {State: Well, Life: "5"}},
				Good,
				"nothing is worse than before",
			},
		}},
	} {
		t.Run(test.name, func(t *testing.T) {
			test.trial.Limit = 10 * time.Minute
			for _, l := range test.looks {
				v := test.trial.Judge(l.now, l.at)
				if v.Word != l.word || v.Reason != l.why {
					t.Errorf("at %s: %q, %q; want %q, %q", l.at, v.Word, v.Reason, l.word, l.why)
				}
			}
		})
	}
}

func TestNextMendsBeforeAllElse(t *testing.T) {
	running := System{"1.0.0", "1.0.0"}
	orphan := disk.Entry{File: "LOAM-N~1.EFI", RootHash: "1.0.0", Orphan: true}
	other := disk.Entry{File: "LOAM-N~2.EFI", RootHash: "2.0.0", Orphan: true}
	unreadable := disk.Entry{File: "LOAM-N~3.EFI", Orphan: true}
	fresh := "loam-node-os_1.0.0_x86-64+3-0.efi"

	for _, test := range []struct {
		name    string
		entries []disk.Entry
		want    Op
	}{
		{
			"an orphan beside the entry of what runs",
			[]disk.Entry{entry("1.0.0", false, 0, 0), orphan},
			Op{Kind: Drop, File: orphan.File},
		},
		{
			"an orphan of another system",
			[]disk.Entry{entry("1.0.0", false, 0, 0), other},
			Op{Kind: Drop, File: other.File},
		},
		{
			"an orphan that is all there is of what runs",
			[]disk.Entry{orphan},
			Op{Kind: Relink, File: orphan.File, To: "loam-node-os_1.0.0_x86-64.efi"},
		},
		{"an orphan that cannot be read, and may be what runs", []disk.Entry{unreadable}, Op{}},
		{
			"one of another system, beside ours",
			[]disk.Entry{entry("1.0.0", false, 0, 0), unreadable},
			Op{},
		},
		{
			"two of another system",
			[]disk.Entry{entry("1.0.0", false, 0, 0), {File: "arch.efi"}, {File: "other.efi"}},
			Op{},
		},
		{
			"two counts of one system",
			[]disk.Entry{entry("1.0.0", true, 3, 0), entry("1.0.0", true, 2, 1)},
			Op{Kind: Drop, File: "loam-node-os_1.0.0_x86-64+3-0.efi"},
		},
		{
			"two counts, the other way round",
			[]disk.Entry{entry("1.0.0", true, 2, 1), entry("1.0.0", true, 3, 0)},
			Op{Kind: Drop, File: "loam-node-os_1.0.0_x86-64+3-0.efi"},
		},
		{
			"a blessed entry that is counted",
			[]disk.Entry{entry("1.0.0", true, 1, 2), entry("1.0.0", false, 0, 0)},
			Op{Kind: Drop, File: "loam-node-os_1.0.0_x86-64+1-2.efi"},
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			got := Next(View{Running: running, Entry: fresh, Entries: test.entries})
			got.Reason = ""
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("next (-want +got):\n%s", diff)
			}
		})
	}
}
