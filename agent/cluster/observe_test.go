package cluster

import (
	"testing"
	"time"
)

func TestFlappingNodeIsReported(t *testing.T) {
	for _, tt := range []struct {
		name    string
		minutes []int
		want    string
	}{
		{"four times", []int{0, 1, 2, 3}, "...."},
		{"five times in ten minutes", []int{0, 2, 4, 6, 8}, "....!"},
		{"five times in a day", []int{0, 300, 600, 900, 1200}, "....."},
		{
			"reported once, and again after five more",
			[]int{0, 1, 2, 3, 4, 5, 6, 7, 8, 9},
			"....!....!",
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var f flaps
			got := ""
			for _, m := range tt.minutes {
				var often bool
				f, often = f.next(noon.Add(time.Duration(m) * time.Minute))
				if often {
					got += "!"
				} else {
					got += "."
				}
			}
			if got != tt.want {
				t.Errorf("%s, want %s", got, tt.want)
			}
		})
	}
}
