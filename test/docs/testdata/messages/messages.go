// Package messages has an error of each form that test/docs finds.
package messages

import (
	"errors"
	"fmt"

	"github.com/loam-os/loam/hint"
)

// Refusal is an error with a code.
type Refusal struct{ Code, Problem, Hint string }

// Hints implements [hint.Hinted].
func (r *Refusal) Hints() []string {
	if r.Code == "" {
		return []string{"of the error " + "itself"}
	}
	return []string{r.Hint} // Whoever makes it has the hint.
}

const again = "try it again"

var places = []struct{ pattern, reason, hint string }{
	{"/etc/a", "it belongs to a", "choose b"},
}

func refuse(code, hint, problem string, args ...any) *Refusal {
	return &Refusal{Code: code, Problem: fmt.Sprintf(problem, args...), Hint: hint}
}

func all(name string, size int, err error) []any {
	advice := "write one"
	if near := nearest(name); near != "" {
		advice = "did you mean " + near + "?"
	}
	return []any{
		errors.New("in a text\nhint: write it"),
		hint.With(errors.New("disk full"), "delete files of %s", name),
		hint.With(err, again+", "+
			"or twice"),
		fmt.Errorf("%s: with a constant: %w; hint: "+again, name, err),
		refuse("too-large", "make it smaller", "%s takes %d MiB", "the system", size),
		Refusal{Problem: "in a struct", Hint: advice},
		places,
		"in no call: %d\nhint: look here",
	}
}

func nearest(name string) string {
	if name == "" {
		return ""
	}
	return name[1:]
}
