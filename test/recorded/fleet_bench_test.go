package recorded

import (
	"fmt"
	"os"
	"testing"
	"time"
)

func TestAChangeReachesAFleetInFewRequests(t *testing.T) {
	f := newFleet(t, 20, 0, osc("first"))
	before := f.tally()
	f.says(osc("second"))
	f.reached(osc("second"), len(f.nodes))
	f.rested()

	asked := f.tally().since(before)
	if each := (asked.watches + asked.rest) / float64(len(f.nodes)); each > 4 || asked.refused > 0 {
		t.Errorf("%.2f requests a node, %v refused", each, asked.refused)
	}
}

// BenchmarkFleet is from the answer to the PUT of the Secret until the last
// Node of a thousand has the annotation. All of it, the API server too, runs on
// this machine. Each change has proven itself before the next.
func BenchmarkFleet(b *testing.B) {
	f := newFleet(b, 1000, 10*time.Second, osc("first"))
	b.Run("1000", func(b *testing.B) {
		var times []time.Duration
		var half time.Duration
		var asked tally
		for i := range b.N {
			text := osc(fmt.Sprintf("%d of %d", i, b.N))
			before := f.tally()
			f.says(text)
			start := time.Now()
			middle, last := f.reached(text, len(f.nodes))
			times = append(times, last.Sub(start))
			half = half + middle.Sub(start)
			f.rested()
			asked = f.tally().since(before).plus(asked, 1)
		}

		each := float64(len(f.nodes) * b.N)
		b.ReportMetric((asked.watches+asked.rest+asked.refused)/each, "requests/change")
		b.ReportMetric(asked.watches/each, "watches/change")
		b.ReportMetric(asked.refused/each, "refused/change")
		b.ReportMetric(1000*asked.waited/each, "queued-ms/change")
		b.ReportMetric(float64(half.Milliseconds())/float64(b.N), "half-ms")
		b.ReportMetric(float64(usageOf(b, os.Getpid()).resident)/1e6/float64(len(f.nodes)),
			"rss-MB/node")
		median(b, times)
	})
}
