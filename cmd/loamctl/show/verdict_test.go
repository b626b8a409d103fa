package show_test

import (
	"errors"
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/loam-os/loam/agent/document"
	"github.com/loam-os/loam/cmd/loamctl/show"
	"github.com/loam-os/loam/hint"
	"github.com/loam-os/loam/hint/fault"
)

func TestFaultsOfAnError(t *testing.T) {
	one := errors.New("one")
	two := hint.With(errors.New("two"), "do two")
	field := document.Error{File: "a.yaml", Line: 3, Path: "spec", Problem: "empty", Hint: "fill it"}
	inField := show.Fault{
		Document: "a.yaml",
		Line:     3,
		Path:     "spec",
		Problem:  "empty",
		Hint:     "fill it",
		Code:     fault.DocumentInvalid,
	}

	for _, test := range []struct {
		name string
		err  error
		want []show.Fault
	}{
		{"none", nil, nil},
		{
			"one with a hint and a code",
			fault.With(two, fault.DocumentInvalid),
			[]show.Fault{{Problem: "two", Hint: "do two", Code: fault.DocumentInvalid}},
		},
		{
			"a document",
			fmt.Errorf("read: %w", document.Errors{field, field}),
			[]show.Fault{inField, inField},
		},
		{
			"several, of which one is in a document",
			hint.With(fault.With(errors.Join(one, two, field), fault.FileMissing), "see --help"),
			[]show.Fault{
				{Problem: "one", Hint: "see --help", Code: fault.FileMissing},
				{Problem: "two", Hint: "do two", Code: fault.FileMissing},
				inField,
			},
		},
		{
			"two in one sentence",
			fmt.Errorf("%w because of %w", one, two),
			[]show.Fault{{Problem: "one because of two", Hint: "do two", Code: fault.Failed}},
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			if diff := cmp.Diff(test.want, show.Faults(test.err)); diff != "" {
				t.Errorf("faults (-want +got):\n%s", diff)
			}
		})
	}
}
