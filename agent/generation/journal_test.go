package generation

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestAtBoot(t *testing.T) {
	forward := Journal{
		From:   "A",
		To:     "B",
		Good:   "A",
		BootID: "1",
		Began:  time.Unix(7, 0),
	}

	with := func(change func(*Journal)) Journal {
		j := forward
		change(&j)
		return j
	}

	back := func(why string, boots int) Journal {
		return Journal{
			From:   "B",
			To:     "A",
			Good:   "A",
			Back:   why,
			Began:  forward.Began,
			BootID: "1",
			Boots:  boots,
		}
	}

	tests := []struct {
		name    string
		journal Journal
		boot    string
		current string
		want    Journal
		back    bool
	}{
		{"the same boot, as when the agent was restarted", forward, "1", "B", forward, false},
		{
			"the first boot after a power cut goes on",
			forward,
			"2",
			"B",
			with(func(j *Journal) { j.Boots = 1 }),
			false,
		},
		{
			"the second boot goes back",
			with(func(j *Journal) { j.Boots = 1 }),
			"3",
			"B",
			back("the node restarted 2 times before it had proven itself", 2),
			true,
		},
		{
			"a trial ends with any boot",
			with(func(j *Journal) { j.Try = &Try{} }),
			"2",
			"B",
			back("the node restarted before it was confirmed", 1),
			true,
		},
		{"the cut came before the flip", forward, "2", "A", forward, false},
		{
			"no generation to revert to",
			with(func(j *Journal) {
				j.Good = ""
				j.Boots = 5
			}),
			"9",
			"B",
			with(func(j *Journal) {
				j.Good = ""
				j.Boots = 6
			}),
			false,
		},
		{"already reverting", back("why", 2), "4", "A", back("why", 2), false},
		{"a journal that cannot be read", Journal{}, "2", "B", Journal{}, false},
	}

	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, isBack := tt.journal.AtBoot(tt.boot, tt.current)
			if diff := cmp.Diff(tt.want, got); diff != "" || isBack != tt.back {
				t.Errorf("back %v, journal (-want +got):\n%s", isBack, diff)
			}
		})
	}
}

func TestJournalOnDisk(t *testing.T) {
	s, root := newStore(t)
	if _, ok, err := s.Journal(); ok || err != nil {
		t.Errorf("a new store: %v %v", ok, err)
	}

	want := Journal{
		From:   "A",
		To:     "B",
		Good:   "A",
		Broken: []string{"x.service"},
		Try:    &Try{Until: time.Unix(9, 0).UTC(), Deadline: time.Minute},
		Began:  time.Unix(7, 0).UTC(),
	}
	if err := s.WriteJournal(want); err != nil {
		t.Fatal(err)
	}

	got, ok, err := s.Journal()
	if diff := cmp.Diff(want, got); diff != "" || !ok || err != nil {
		t.Errorf("%v %v (-want +got):\n%s", ok, err, diff)
	}

	if err := root.WriteFile("journal.json", []byte("{"), 0o644); err != nil {
		t.Fatal(err)
	}
	if got, ok, err := s.Journal(); got.To != "" || !ok || err != nil {
		t.Errorf("torn: %+v %v %v", got, ok, err)
	}
	if err := s.RemoveJournal(); err != nil {
		t.Fatal(err)
	}
}
