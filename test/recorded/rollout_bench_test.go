package recorded

import (
	"context"
	"errors"
	"fmt"
	"os"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/loam-os/loam/test/cluster"
)

// restartTime is how long a kubelet restarts.
const restartTime = 15 * time.Second

// rolloutMemory is how much of the machine the agents and the API server take each, about,
// before they collect their garbage more often.
const rolloutMemory = "9GiB"

// BenchmarkRollout is from the answer to the PUT of the Secret until all nodes, 1,000,
// 5,000 or LOAM_FLEET, have changed and given their turns. 5 % may be away, and the
// admission policies of examples/cluster look at each write. The requests are those of
// the audit log.
func BenchmarkRollout(b *testing.B) {
	if os.Getenv("GOMEMLIMIT") == "" {
		b.Setenv("GOMEMLIMIT", rolloutMemory) // Of kube-apiserver and etcd.
		debug.SetMemoryLimit(9 << 30)
	}

	sizes := []int{1000, 5000}
	if text := os.Getenv("LOAM_FLEET"); text != "" {
		size, err := strconv.Atoi(text)
		if err != nil {
			b.Fatal(err)
		}
		sizes = []int{size}
	}
	for _, size := range sizes {
		b.Run(strconv.Itoa(size), func(b *testing.B) { benchmarkRollout(b, size) })
	}
}

func benchmarkRollout(b *testing.B, size int) {
	f := newPoolIn(b, cluster.Start(b, cluster.Options{Audit: true}), size,
		`{"maxUnavailable": "5%"}`, func(ctx context.Context, _ string) error {
			select {
			case <-time.After(restartTime):
				return nil
			case <-ctx.Done():
				return ctx.Err()
			}
		})
	f.patience = 2 * time.Hour

	var times []time.Duration
	var asked traffic
	for i := range b.N {
		text := osc(fmt.Sprintf("%d of %d", i, b.N))
		start := time.Now()
		f.says(text)
		f.reached(text, len(f.nodes))
		ledger := f.settled()
		times = append(times, time.Since(start))
		if ledger.Done != len(f.nodes) || ledger.Failed > 0 {
			b.Errorf("ledger %s", ledger.Summary())
		}
		asked.add(b, f, start)
	}
	asked.report(b, len(f.nodes))
	slices.Sort(times)
	b.ReportMetric(times[len(times)/2].Minutes(), "min")
}

// traffic is what node agents have asked of the API server.
type traffic struct {
	// rest are neither polls nor renewals, and conflicts those of them that write the
	// ledger after another node.
	polls, renewals, rest, conflicts int

	// took is how long each request took that is no watch.
	took []time.Duration

	// verbs counts the requests by verb and resource.
	verbs map[string]int
}

// add adds the requests since start.
func (a *traffic) add(b *testing.B, f *fleet, start time.Time) {
	b.Helper()
	all, err := f.Requests()
	if err != nil {
		b.Fatal(err)
	}
	if a.verbs == nil {
		a.verbs = map[string]int{}
	}
	for _, r := range all {
		isAgent := strings.HasPrefix(r.User, "gardener.cloud:node-agent:")
		if !isAgent || r.Begun.Before(start) || r.Verb == "watch" {
			continue
		}
		a.took = append(a.took, r.Took)
		a.verbs[r.Verb+"-"+r.Resource]++
		isLedger := r.Name == "loam-rollout-pool"
		switch {
		case isLedger && r.Verb == "get":
			a.polls++
		case isLedger && r.Code == 409:
			a.conflicts++
			a.rest++
		case r.Resource == "leases" && !isLedger:
			a.renewals++
		default:
			a.rest++
		}
	}
	if len(a.took) == 0 {
		b.Fatal(errors.New("the audit log has no request of an agent"))
	}
}

// report reports the requests of a node and change.
func (a *traffic) report(b *testing.B, nodes int) {
	each := func(n int) float64 { return float64(n) / float64(nodes*b.N) }
	b.ReportMetric(each(a.polls), "polls")
	b.ReportMetric(each(a.rest), "requests")
	b.ReportMetric(each(a.conflicts), "conflicts")
	b.ReportMetric(each(a.renewals), "renewals")
	for verb, n := range a.verbs {
		b.ReportMetric(each(n), verb)
	}

	slices.Sort(a.took)
	b.ReportMetric(float64(a.took[len(a.took)*99/100].Microseconds())/1000, "p99-ms")
	b.ReportMetric(float64(a.took[len(a.took)/2].Microseconds())/1000, "median-ms")
}
