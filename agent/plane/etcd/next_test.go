package etcd

import (
	"math"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

var noon = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

const mib = 1 << 20

// well is an etcd with a quota of 1000 MiB that is changed by each function.
func well(changes ...func(*State)) State {
	s := State{
		Size:     50 * mib,
		InUse:    40 * mib,
		Quota:    1000 * mib,
		Revision: 7,
		Member:   1,
		Leader:   1,
		Members:  1,
	}
	for _, change := range changes {
		change(&s)
	}
	return s
}

func sized(size, inUse int64) func(*State) {
	return func(s *State) {
		s.Size = size * mib
		s.InUse = inUse * mib
	}
}

func alarmed(alarms ...Alarm) func(*State) { return func(s *State) { s.Alarms = alarms } }

func TestNext(t *testing.T) {
	own := Alarm{1, NoSpace}
	ago := func(d time.Duration) time.Time { return noon.Add(-d) }

	for _, row := range []struct {
		name  string
		state State
		last  Last
		want  Step
	}{
		{name: "all is well", state: well()},
		{
			name:  "a small file of which nothing is in use",
			state: well(sized(99, 1)),
		},
		{
			name:  "a large file of which half is in use",
			state: well(sized(100, 50)),
		},
		{
			name:  "a large file of which less than half is in use",
			state: well(sized(100, 49)),
			want: Step{
				Action: Defragment,
				Reason: "less than half of the file of 100 MiB is in use",
			},
		},
		{
			name:  "fragmented again within the hour",
			state: well(sized(100, 49)),
			last:  Last{Defragmented: ago(59 * time.Minute)},
			want:  Step{Reason: "etcd was defragmented within the last hour"},
		},
		{
			name:  "fragmented again after an hour",
			state: well(sized(100, 49)),
			last:  Last{Defragmented: ago(time.Hour)},
			want: Step{
				Action: Defragment,
				Reason: "less than half of the file of 100 MiB is in use",
			},
		},
		{
			name:  "fragmented, with other members",
			state: well(sized(100, 49), func(s *State) { s.Members = 3 }),
			want:  Step{Reason: "there are other members"},
		},
		{
			name:  "fragmented, without a leader",
			state: well(sized(100, 49), func(s *State) { s.Leader = 0 }),
			want:  Step{Reason: "there is no leader"},
		},
		{
			name:  "an alarm, at first",
			state: well(sized(1000, 990), alarmed(own)),
			want: Step{
				Action:   Compact,
				Revision: 7,
				Reason:   "the file has reached its quota",
			},
		},
		{
			name:  "an alarm, and what was compacted makes room",
			state: well(sized(1000, 799), alarmed(own)),
			last:  Last{Revision: 7, Compacted: ago(time.Second)},
			want: Step{
				Action: Defragment,
				Reason: "the file has reached its quota, and 799 MiB are in use",
			},
		},
		{
			name:  "an alarm, and what was compacted seems to make too little room",
			state: well(sized(1000, 800), alarmed(own)),
			last:  Last{Revision: 7, Unsure: true, Compacted: ago(time.Second)},
			want: Step{
				Action: Defragment,
				Reason: "the file has reached its quota, and 800 MiB are in use",
			},
		},
		{
			name:  "an alarm, and too little room after the defragmentation",
			state: well(sized(800, 800), alarmed(own)),
			last: Last{
				Revision:     7,
				Compacted:    ago(2 * time.Hour),
				Defragmented: ago(2 * time.Hour),
			},
			want: Step{Reason: "the quota is full of data"},
		},
		{
			name:  "an alarm, and too little room, soon after a defragmentation",
			state: well(sized(1000, 800), alarmed(own)),
			last: Last{
				Revision:     7,
				Unsure:       true,
				Compacted:    ago(time.Second),
				Defragmented: ago(4 * time.Minute),
			},
			want: Step{Reason: "etcd was defragmented minutes ago"},
		},
		{
			name:  "an alarm, full, and then something is deleted",
			state: well(sized(1000, 800), alarmed(own)),
			last:  Last{Revision: 6, Compacted: ago(30 * time.Second)},
			want: Step{
				Action:   Compact,
				Revision: 7,
				Reason:   "the file has reached its quota",
			},
		},
		{
			name:  "an alarm, full, while something is deleted all the time",
			state: well(sized(1000, 800), alarmed(own)),
			last: Last{
				Revision:     6,
				Unsure:       true,
				Compacted:    ago(29 * time.Second),
				Defragmented: ago(28 * time.Second),
			},
			want: Step{Reason: "etcd was defragmented minutes ago"},
		},
		{
			name:  "an alarm soon after a defragmentation",
			state: well(sized(1000, 100), alarmed(own)),
			last:  Last{Revision: 7, Defragmented: ago(4 * time.Minute)},
			want:  Step{Reason: "etcd was defragmented minutes ago"},
		},
		{
			name:  "an alarm, and a defragmentation half an hour ago",
			state: well(sized(1000, 100), alarmed(own)),
			last:  Last{Revision: 7, Defragmented: ago(30 * time.Minute)},
			want: Step{
				Action: Defragment,
				Reason: "the file has reached its quota, and 100 MiB are in use",
			},
		},
		{
			name:  "an alarm, and the file is small now",
			state: well(sized(799, 790), alarmed(own)),
			last:  Last{Revision: 7, Defragmented: ago(time.Second)},
			want: Step{
				Action: Disarm,
				Member: 1,
				Reason: "the file has only 799 MiB now",
			},
		},
		{
			name:  "an alarm, and the quota is larger now",
			state: well(sized(799, 790), alarmed(own)),
			want: Step{
				Action: Disarm,
				Member: 1,
				Reason: "the file has only 799 MiB now",
			},
		},
		{
			name:  "an alarm that comes back at once",
			state: well(alarmed(own)),
			last:  Last{Disarmed: ago(time.Second)},
			want:  Step{Reason: "the alarm was disarmed a moment ago"},
		},
		{
			name:  "an alarm of another member",
			state: well(alarmed(Alarm{2, NoSpace})),
			want:  Step{Reason: "the alarm is of another member"},
		},
		{
			name:  "damaged data",
			state: well(sized(100, 1), alarmed(Alarm{1, Corrupt})),
			want:  Step{Reason: "the data is damaged"},
		},
		{
			name:  "damaged data of another member, and an alarm",
			state: well(alarmed(own, Alarm{2, Corrupt})),
			want:  Step{Reason: "the data is damaged"},
		},
		{
			name:  "an etcd that does not tell its quota",
			state: well(alarmed(own), func(s *State) { s.Quota = 0 }),
			want:  Step{Reason: "the quota is not known"},
		},
	} {
		t.Run(row.name, func(t *testing.T) {
			if diff := cmp.Diff(row.want, Next(row.state, noon, row.last)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestCondition(t *testing.T) {
	slow := func(s *State) {
		s.FsyncP99 = 100 * time.Millisecond
		s.Recent = 100
	}
	const ms = time.Millisecond
	syncs := func(count uint64, limit, measured time.Duration) State {
		return well(func(s *State) {
			s.Fsyncs = Histogram{{limit.Seconds(), count}, {math.Inf(1), count}}
			s.FsyncP99 = limit
			s.Measured = measured
		})
	}
	for _, row := range []struct {
		name  string
		state State
		want  Condition
		// problem is "" if all is well. hinted says whether it has a hint.
		problem string
		hinted  bool
	}{
		{name: "all is well", state: well(), want: Well},
		{
			name:    "nearly full",
			state:   well(sized(850, 800)),
			want:    Filling,
			problem: "etcd is nearly full: 800 MiB of 1000 MiB are in use",
			hinted:  true,
		},
		{
			name:    "full of data",
			state:   well(sized(1000, 990), alarmed(Alarm{1, NoSpace})),
			want:    Full,
			problem: "etcd is full of data and refuses writes (NOSPACE): 990 MiB of 1000 MiB are in use",
			hinted:  true,
		},
		{
			name:    "full of free pages",
			state:   well(sized(1000, 9), alarmed(Alarm{1, NoSpace})),
			want:    Shrinking,
			problem: "etcd refuses writes (NOSPACE): 9 MiB of 1000 MiB are in use",
			hinted:  true,
		},
		{
			name:    "damaged, and full",
			state:   well(alarmed(Alarm{1, NoSpace}, Alarm{1, Corrupt})),
			want:    Damaged,
			problem: "etcd has found that its data is damaged (CORRUPT)",
			hinted:  true,
		},
		{
			name:    "without a leader",
			state:   well(func(s *State) { s.Leader = 0 }),
			want:    Leaderless,
			problem: "etcd has no leader",
			hinted:  true,
		},
		{
			name:    "on a slow disk",
			state:   well(slow),
			want:    Slow,
			problem: "the disk of etcd is slow: a sync takes up to 100 ms",
			hinted:  true,
		},
		{
			name:  "two slow syncs, which are no percentile",
			state: well(slow, func(s *State) { s.Recent = 2 }),
			want:  Well,
		},
		{
			name:  "on a disk that is too slow for etcd's own timing",
			state: syncs(1000, 16*ms, 0),
			want:  Slower,
			problem: "the timing of etcd (heartbeat 100 ms, election 1000 ms) is too short for " +
				"its disk: a sync takes up to 16 ms",
			hinted: true,
		},
		{name: "while the machine starts", state: syncs(999, 16*ms, 0), want: Well},
		{name: "on the disk that was measured", state: syncs(1000, 16*ms, 12*ms), want: Well},
		{
			name:  "on a disk that has become slower",
			state: syncs(1000, 64*ms, 12*ms),
			want:  Slower,
			problem: "the timing of etcd (heartbeat 200 ms, election 2000 ms) is too short for " +
				"its disk: a sync takes up to 63 ms",
			hinted: true,
		},
		{name: "on a disk that has become faster", state: syncs(1000, ms, 70*ms), want: Well},
	} {
		t.Run(row.name, func(t *testing.T) {
			if got := row.state.Condition(); got != row.want {
				t.Errorf("condition %q, want %q", got, row.want)
			}
			checkProblem(t, row.state.Problem(), row.problem, row.hinted)
		})
	}
}

// TestAfter: only a compaction that has succeeded needs no other one.
func TestAfter(t *testing.T) {
	compact := Step{Action: Compact, Revision: 7}
	failed := Last{}.After(compact, noon, cmpopts.AnyError)
	if diff := cmp.Diff(Last{Compacted: noon}, failed); diff != "" {
		t.Errorf("failed (-want +got):\n%s", diff)
	}
	done := Last{}.After(compact, noon, nil)
	if diff := cmp.Diff(Last{Compacted: noon, Revision: 7, Unsure: true}, done); diff != "" {
		t.Errorf("done (-want +got):\n%s", diff)
	}

	defragment := Step{Action: Defragment}
	if !done.After(defragment, noon, cmpopts.AnyError).Unsure {
		t.Error("a defragmentation that failed makes sure what is in use")
	}
	if done.After(defragment, noon, nil).Unsure {
		t.Error("a defragmentation leaves unsure what is in use")
	}
}
