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

// agreement is a node and its ConfigMap in which records are letters, and pending is 0 if
// there is none. isSet and isEdited are whether they have changed since they last agreed, and
// isCut whether a session since then was cut off.
type agreement struct {
	last, pending, own, published byte
	isSet, isEdited, isCut        bool
}

func (a agreement) set(to byte) agreement {
	a.own, a.isSet = to, true
	return a
}

func (a agreement) edit(to byte) agreement {
	a.published, a.isEdited = to, true
	return a
}

// session is what the node does, cut off after some writes. Unless it is nil, meanwhile
// changes one of both between the look at them and the write, which fails then.
func (a agreement) session(writes int, meanwhile func(agreement) agreement) agreement {
	record := func(name byte) *Record {
		if name == 0 {
			return nil
		}
		r := NewRecord(Settings{Name: string(name)})
		return &r
	}
	write := func(to *byte, value byte) (done bool) {
		writes--
		if writes >= 0 {
			*to = value
		}
		return writes >= 0
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
		if meanwhile != nil {
			before := a.published
			a = meanwhile(a)
			if a.published != before { // Another version of the ConfigMap is refused.
				a.pending = 0
				return a
			}
		}
		if write(&a.published, agreed) {
			a.isSet, a.isEdited = a.own != agreed, false
		}
	case Follow:
		agreed = a.published
		if meanwhile != nil {
			before := a.own
			a = meanwhile(a)
			if a.own != before {
				return a
			}
		}
		write(&a.pending, agreed)
		if write(&a.own, agreed) {
			a.isSet, a.isEdited = false, a.published != agreed
		}
	default:
		a.isSet, a.isEdited = false, false
		if meanwhile != nil {
			a = meanwhile(a)
		}
	}
	if base.Name[0] != agreed {
		write(&a.last, agreed)
	}
	a.isCut = writes < 0
	return a
}

// TestNoChangeIsLost has operators change both sides, also while the node looks at them,
// and the power cut, in every order: the newest change is what they agree on, or that of the
// ConfigMap if both sides have changed. Only if the power was cut as well may it be the other.
func TestNoChangeIsLost(t *testing.T) {
	var walk func(a agreement, trace string, newest byte, steps int)
	walk = func(a agreement, trace string, newest byte, steps int) {
		next := max(a.last, a.pending, a.own, a.published, newest) + 1
		end := a.session(4, nil)
		if end.own != end.published || end.last != end.own {
			t.Errorf("%s: they do not agree: %c, %c", trace, end.own, end.published)
		}
		bothChanged := a.isSet && a.isEdited
		want := newest
		switch {
		case bothChanged:
			want = a.published
		case !a.isSet && !a.isEdited:
			want = a.own
		}
		if end.own != want && !(bothChanged && a.isCut) {
			t.Errorf("%s: they agree on %c, want %c", trace, end.own, want)
		}
		if steps == 0 {
			return
		}

		set := func(a agreement) agreement { return a.set(next) }
		edit := func(a agreement) agreement { return a.edit(next) }
		walk(set(a), trace+" set", next, steps-1)
		walk(edit(a), trace+" edit", next, steps-1)
		walk(a.session(4, set), trace+" set meanwhile", next, steps-1)
		walk(a.session(4, edit), trace+" edit meanwhile", next, steps-1)
		for writes := 1; writes <= 3; writes++ {
			walk(a.session(writes, nil), fmt.Sprintf("%s %d writes", trace, writes), newest, steps-1)
		}
		walk(end, trace+" agree", end.own, steps-1)
	}
	walk(agreement{last: 'a', pending: 'a', own: 'a', published: 'a'}, "", 'a', 4)
}
