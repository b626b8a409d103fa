package status

import (
	"fmt"
	"testing"
)

func TestEachCauseIsNewsOnceUntilTheProblemIsOver(t *testing.T) {
	var c Causes
	for i, step := range []struct {
		cause string
		want  bool
	}{
		{"", false},
		{"silent", true},
		{"refuses", true},
		{"silent", false},
		{"refuses", false},
		{"", true},
		{"", false},
		{"silent", true},
	} {
		news := false
		if c, news = c.With(step.cause); news != step.want {
			t.Errorf("step %d, %q: news %t", i, step.cause, news)
		}
	}
}

func TestCausesAreBounded(t *testing.T) {
	var c Causes
	for i := range 10 * maxCauses {
		c, _ = c.With(fmt.Sprint(i))
	}
	if len(c) != maxCauses || c[maxCauses-1] != fmt.Sprint(10*maxCauses-1) {
		t.Errorf("%d causes: %q", len(c), c)
	}
}
