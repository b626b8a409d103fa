package plane

import "testing"

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
