package apply_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/loam-os/loam/agent/apply"
	"github.com/loam-os/loam/agent/health"
	"github.com/loam-os/loam/agent/unit"
	"github.com/loam-os/loam/test/executor"
	"github.com/loam-os/loam/test/units"
)

// hang has the services of a systemd start for ever once they are restarted.
func hang(fake *units.Fake) {
	fake.Around = func(ctx context.Context, job units.Job, do func() error) error {
		if job.Verb != "restart" {
			return do()
		}
		fake.Set(job.Unit, unit.State{Active: "activating", Sub: "start", Job: true})
		<-ctx.Done()
		return &unit.JobError{Verb: job.Verb, Unit: job.Unit, Err: ctx.Err()}
	}
}

// asking is the sleeper with a TimeoutStartSec=.
func asking(limit time.Duration) string {
	return strings.Replace(sleeper, "[Service]\n",
		fmt.Sprintf("[Service]\nTimeoutStartSec=%d\n", int(limit.Seconds())), 1)
}

// The time of a change begins with its first job: the wait for the jobs does
// not come on top of it.
func TestUnitThatHangsIsTakenBackInTime(t *testing.T) {
	stages := []string{"containerd.service", "a.service", "kubelet.service"}
	for _, tt := range []struct {
		name   string
		units  []string
		limits map[string]time.Duration
		want   time.Duration
		bad    string
	}{
		{"one unit", stages[1:2], nil, 3 * time.Minute, stages[1]},
		{"a unit in each stage", stages, nil, 3*time.Minute + 10*time.Second, stages[0]},
		{
			"a unit that asks for longer",
			stages[1:2],
			map[string]time.Duration{stages[1]: 5 * time.Minute},
			5*time.Minute + 10*time.Second,
			stages[1],
		},
		{
			// The second stage begins after 310 s, and has its 100 s.
			"a unit that asks for longer, and one after it",
			stages[1:],
			map[string]time.Duration{stages[1]: 5 * time.Minute},
			5*time.Minute + 10*time.Second + 80*time.Second,
			stages[1],
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			n, fake := fakeNode(t)
			configured := func(comment string) apply.Request {
				d := unitsOf()
				for _, name := range tt.units {
					service := sleeper
					if limit, asks := tt.limits[name]; asks {
						service = asking(limit)
					}
					d.Units = append(d.Units, ownUnit(name, service+comment))
				}
				return request(d)
			}
			e := n.executor(t, nil)
			if _, err := e.Apply(t.Context(), configured("")); err != nil {
				t.Fatal(err)
			}
			accept(t, e)
			hang(fake)

			synctest.Test(t, func(t *testing.T) {
				began := time.Now()
				uptime := func() time.Duration { return time.Hour + time.Since(began) }
				e := executor.With(e, func(c *apply.Config) {
					c.JobWait = 100 * time.Second
					c.Limit = 3 * time.Minute
					c.Uptime = uptime
				})
				if _, err := e.Apply(t.Context(), configured("# new\n")); err == nil {
					t.Fatal("a job that does not end has ended")
				}

				v, err := e.Judge(t.Context())
				for err == nil && v.Word == health.Wait {
					time.Sleep(v.Next - uptime())
					v, err = e.Judge(t.Context())
				}
				want := fmt.Sprintf("unit %s is activating/start after %dm", tt.bad,
					int(tt.want.Minutes()))
				if err != nil || v.Word != health.Bad || v.Unit != tt.bad ||
					!strings.HasPrefix(v.Reason, want) {
					t.Errorf("verdict %+v %v, want %s", v, err, want)
				}
				if took := time.Since(began); took != tt.want {
					t.Errorf("it took %s, want %s", took, tt.want)
				}
			})
		})
	}
}
