package hint_test

import (
	"errors"
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/loam-os/loam/hint"
)

// received is an error with hints that wraps an error of the same text.
type received struct{ error }

func (r received) Unwrap() []error { return []error{r.error} }

func (r received) Hints() []string { return []string{"delete files"} }

func TestTextOfAnErrorHasTheHintsAfterTheProblem(t *testing.T) {
	full := hint.With(errors.New("disk full"), "delete %d files", 2)

	for _, row := range []struct {
		name string
		err  error
		want string
		line string
	}{
		{
			name: "without a hint",
			err:  errors.New("disk full"),
			want: "disk full",
			line: "disk full",
		},
		{
			name: "with a hint",
			err:  full,
			want: "disk full\nhint: delete 2 files",
			line: "disk full; hint: delete 2 files",
		},
		{
			name: "wrapped: the hint stays at the end",
			err:  fmt.Errorf("write a: %w (1 more)", full),
			want: "write a: disk full (1 more)\nhint: delete 2 files",
			line: "write a: disk full (1 more); hint: delete 2 files",
		},
		{
			name: "with two hints: the one of the cause comes first",
			err:  hint.With(fmt.Errorf("write a: %w", full), "see the log"),
			want: "write a: disk full\nhint: delete 2 files\nhint: see the log",
			line: "write a: disk full; hint: delete 2 files; hint: see the log",
		},
		{
			name: "of two errors with one hint: it is said once",
			err:  fmt.Errorf("%w and %w", full, hint.With(errors.New("no disk"), "delete 2 files")),
			want: "disk full and no disk\nhint: delete 2 files",
			line: "disk full and no disk; hint: delete 2 files",
		},
		{
			name: "of two joined errors: each has its hint below it",
			err:  errors.Join(full, hint.With(errors.New("no disk"), "add one")),
			want: "disk full\nhint: delete 2 files\nno disk\nhint: add one",
			line: "disk full\nno disk; hint: delete 2 files; hint: add one",
		},
		{
			name: "of an error that repeats the text of what it wraps: its own hint",
			err:  received{errors.New("disk full")},
			want: "disk full\nhint: delete files",
			line: "disk full; hint: delete files",
		},
	} {
		t.Run(row.name, func(t *testing.T) {
			if diff := cmp.Diff(row.want, hint.Text(row.err)); diff != "" {
				t.Errorf("text (-want +have)\n%s", diff)
			}
			if diff := cmp.Diff(row.line, hint.Line(row.err)); diff != "" {
				t.Errorf("line (-want +have)\n%s", diff)
			}
		})
	}
}

func TestErrorIsStillWhatItWraps(t *testing.T) {
	full := errors.New("disk full")
	if err := hint.With(full, "delete files"); !errors.Is(err, full) || err.Error() != "disk full" {
		t.Errorf("%v is not %v", err, full)
	}
}

func TestHintsOfAnErrorAreOneTextForAField(t *testing.T) {
	inner := hint.With(errors.New("disk full"), "delete files")
	if have := hint.Of(hint.With(inner, "see the log")); have != "delete files; see the log" {
		t.Errorf("hint %q", have)
	}
	if have := hint.Of(errors.New("disk full")); have != "" {
		t.Errorf("hint %q of an error without one", have)
	}
}

func TestMessageHasTheHintsOfItsErrorsAtTheEnd(t *testing.T) {
	err := hint.With(errors.New("disk full"), "delete files")
	want := "write a: disk full, again in 5 s\nhint: delete files"
	if have := hint.Sprintf("write %s: %v, again in %d s", "a", err, 5); have != want {
		t.Errorf("message %q, want %q", have, want)
	}
}

func TestErrorWithItsHintsInTheTextHasThemOnce(t *testing.T) {
	full := hint.With(errors.New("disk full"), "delete files")
	want := "disk full\nhint: delete files"

	have := hint.InText(fmt.Errorf("write: %w", full))
	if !errors.Is(have, full) {
		t.Errorf("%v is not %v", have, full)
	}
	if have.Error() != "write: "+want || hint.Text(have) != have.Error() {
		t.Errorf("%q, to be printed as %q", have, hint.Text(have))
	}
	if err := hint.InText(nil); err != nil {
		t.Errorf("no error became %v", err)
	}
}
