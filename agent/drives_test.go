package agent

import "testing"

func TestWhichDrivesAreNews(t *testing.T) {
	for _, test := range []struct {
		name       string
		known, now int
		want       bool
	}{
		{"none, as before", 0, 0, false},
		{"the first", 0, 1, true},
		{"the one that was read", 1, 1, false},
		{"a second beside it", 1, 2, true},
		{"it was read, and is taken away", 1, 0, false},
		{"one of two is taken away", 2, 1, true},
		{"both of two are taken away", 2, 0, true},
		{"still two", 2, 2, false},
	} {
		t.Run(test.name, func(t *testing.T) {
			if got := (&Drives{known: test.known}).others(test.now); got != test.want {
				t.Errorf("%t, want %t", got, test.want)
			}
		})
	}
}
