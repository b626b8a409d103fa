package plane

import (
	"fmt"
	"testing"
)

func TestAgree(t *testing.T) {
	record := func(name string) *Record {
		r := NewRecord(Settings{Name: name})
		return &r
	}
	a, b, c := record("a"), record("b"), record("c")

	for _, row := range []struct {
		name      string
		last      *Record
		own       *Record
		published *Record
		want      Step
	}{
		{name: "a new cluster", own: a, want: Publish},
		{name: "no change", last: a, own: a, published: a, want: Keep},
		{name: "the node has changed it", last: a, own: b, published: a, want: Publish},
		{name: "the cluster has changed it", last: a, own: a, published: b, want: Follow},
		{name: "both have, to the same", last: a, own: b, published: b, want: Keep},
		{name: "both have", last: a, own: b, published: c, want: Follow},
		{name: "the ConfigMap was deleted", last: a, own: a, want: Publish},
		{name: "nothing is known of before", own: a, published: b, want: Follow},
		{name: "published, and cut off before that was kept", own: a, published: a, want: Keep},
	} {
		t.Run(row.name, func(t *testing.T) {
			have := Agree(row.last, *row.own, row.published)
			if have != row.want {
				t.Errorf("%s, want %s", have, row.want)
			}
		})
	}
}

// TestARecordWithoutAHeader: fields that are not known are left out, but what is
// left must be a record.
func TestARecordWithoutAHeader(t *testing.T) {
	for _, text := range []string{
		`{"another": 1}`,
		`{"another": 1, "kind": "Cluster"}`,
		`{"another": 1, "apiVersion": "loam.dev/v1alpha1"}`,
	} {
		r, err := DecodeKept("record.json", []byte(text))
		if err == nil {
			t.Errorf("%s is %s", text, r.Text())
		}
	}
}

// agreement is a node and its ConfigMap in which records are letters. isSet and
// isEdited are whether they have changed since they last agreed.
type agreement struct {
	last, pending, own, published byte
	isSet, isEdited               bool
}

// session is what the node does, cut off after some writes.
func (a agreement) session(writes int) agreement {
	record := func(name byte) *Record {
		r := NewRecord(Settings{Name: string(name)})
		return &r
	}
	write := func(to *byte, value byte) {
		if writes > 0 {
			*to = value
		}
		writes--
	}

	own, published := *record(a.own), record(a.published)
	base := Base(record(a.last), record(a.pending), own, published)
	if base.Name[0] != a.last {
		write(&a.last, base.Name[0])
	}
	agreed := a.own
	switch Agree(base, own, published) {
	case Publish:
		write(&a.pending, agreed)
		write(&a.published, agreed)
	case Follow:
		agreed = a.published
		write(&a.pending, agreed)
		write(&a.own, agreed)
	}
	if base.Name[0] != agreed {
		write(&a.last, agreed)
	}
	if writes >= 0 {
		a.isSet = false
		a.isEdited = false
	}
	return a
}

// TestNoChangeIsLost has operators change both sides, and the power cut, in every
// order: the newest change is what they agree on, unless both sides have changed.
func TestNoChangeIsLost(t *testing.T) {
	var walk func(a agreement, trace string, newest byte, steps int)
	walk = func(a agreement, trace string, newest byte, steps int) {
		next := max(a.last, a.pending, a.own, a.published, newest) + 1
		end := a.session(4)
		if end.own != end.published || end.last != end.own {
			t.Errorf("%s: they do not agree: %c, %c", trace, end.own, end.published)
		}
		if end.own != newest && !(a.isSet && a.isEdited) {
			t.Errorf("%s: they agree on %c, want %c", trace, end.own, newest)
		}
		if steps == 0 {
			return
		}

		set, edited := a, a
		set.own, set.isSet = next, true
		edited.published, edited.isEdited = next, true
		walk(set, trace+" set", next, steps-1)
		walk(edited, trace+" edit", next, steps-1)
		for writes := 1; writes <= 3; writes++ {
			cut := a.session(writes)
			if !cut.isSet && !cut.isEdited {
				continue // It is the same as a session that was not cut off.
			}
			walk(cut, fmt.Sprintf("%s %d writes", trace, writes), newest, steps-1)
		}
		walk(end, trace+" agree", end.own, steps-1)
	}
	walk(agreement{last: 'a', pending: 'a', own: 'a', published: 'a'}, "", 'a', 4)
}
