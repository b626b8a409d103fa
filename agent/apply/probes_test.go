package apply_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/loam-os/loam/agent/apply"
	"github.com/loam-os/loam/agent/config"
	"github.com/loam-os/loam/agent/health"
	"github.com/loam-os/loam/test/executor"
)

var errRefused = errors.New("connection refused")

// kubelet is a service that is up before it has read its flags: whether it
// works, only its answer shows.
type kubelet struct {
	answers bool
	// ready is when it answers, by the clock of the test; zero for at once.
	ready time.Time
}

func (k *kubelet) probe(context.Context) error {
	if !k.answers || time.Now().Before(k.ready) {
		return errRefused
	}
	return nil
}

func kubeletWith(text string) apply.Request {
	return request(unitsOf(ownUnit("kubelet.service", sleeper+"# "+text+"\n")))
}

// judged judges the change until its verdict.
func judged(t *testing.T, e *apply.Executor) health.Verdict {
	t.Helper()
	v, err := e.Judge(t.Context())
	for err == nil && v.Word == health.Wait {
		time.Sleep(v.Next - e.Config().Uptime())
		v, err = e.Judge(t.Context())
	}
	if err != nil {
		t.Fatal(err)
	}
	return v
}

func TestChangeIsGoodOnlyIfTheKubeletAnswersAgain(t *testing.T) {
	for _, test := range []struct {
		name          string
		before, after kubelet
		// slow is how long the kubelet takes to answer after the change.
		slow time.Duration
		want health.Word
		took time.Duration
	}{
		{
			name:   "it answers at once",
			before: kubelet{answers: true},
			after:  kubelet{answers: true},
			want:   health.Good,
			took:   10 * time.Second,
		},
		{
			name:   "it answers later",
			before: kubelet{answers: true},
			after:  kubelet{answers: true},
			slow:   20 * time.Second,
			want:   health.Good,
			took:   30 * time.Second,
		},
		{
			name:   "it does not answer any more",
			before: kubelet{answers: true},
			want:   health.Bad,
			took:   3 * time.Minute,
		},
		{
			name: "it did not answer before",
			want: health.Good,
			took: 10 * time.Second,
		},
	} {
		for _, restarted := range []bool{false, true} {
			name := test.name
			if restarted {
				name += ", and the agent is restarted"
			}
			t.Run(name, func(t *testing.T) {
				n, fake := fakeNode(t)
				e := n.executor(t, nil)
				mustApply(t, e, kubeletWith("one").Desired)
				accept(t, e)

				synctest.Test(t, func(t *testing.T) {
					began := time.Now()
					now := test.before
					start := func(e *apply.Executor) *apply.Executor {
						return executor.With(e, func(c *apply.Config) {
							c.Steady = 10 * time.Second
							c.Limit = 3 * time.Minute
							c.Uptime = func() time.Duration { return time.Hour + time.Since(began) }
							c.Probes = map[string]func(context.Context) error{
								"kubelet.service": func(ctx context.Context) error { return now.probe(ctx) },
							}
						})
					}

					e := start(e)
					if _, err := e.Apply(t.Context(), kubeletWith("two")); err != nil {
						t.Fatal(err)
					}
					now = test.after
					now.ready = began.Add(test.slow)

					if restarted {
						e = start(n.executor(t, nil))
						if _, err := e.Resume(t.Context()); err != nil {
							t.Fatal(err)
						}
					}

					v := judged(t, e)
					if took := time.Since(began); v.Word != test.want || took != test.took {
						t.Fatalf("%+v after %s, want %s after %s", v, took, test.want, test.took)
					}
					if v.Word == health.Good {
						return
					}

					const reason = "unit kubelet.service does not answer (connection refused) after 3m0s"
					if v.Unit != "kubelet.service" || v.Reason != reason {
						t.Errorf("verdict %+v", v)
					}
					if _, err := e.Conclude(t.Context(), v); err != nil {
						t.Fatal(err)
					}
					if text, _ := fake.Text("kubelet.service"); !strings.HasSuffix(text, "# one\n") {
						t.Errorf("after it was taken back: %q", text)
					}
				})
			})
		}
	}
}

// A change that replaces one without a verdict is held to what answered before
// both.
func TestChangeOfAChangeIsHeldToWhatAnsweredBeforeBoth(t *testing.T) {
	n, _ := fakeNode(t)
	e := n.executor(t, nil)
	mustApply(t, e, kubeletWith("one").Desired)
	accept(t, e)

	var now kubelet
	e = executor.With(e, func(c *apply.Config) {
		c.Probes = map[string]func(context.Context) error{
			"kubelet.service": func(ctx context.Context) error { return now.probe(ctx) },
		}
	})

	now.answers = true
	mustApply(t, e, kubeletWith("two").Desired)
	now.answers = false
	mustApply(t, e, kubeletWith("three").Desired)
	v, err := e.Judge(t.Context())
	if err != nil || v.Word != health.Wait || v.Unit != "kubelet.service" {
		t.Errorf("verdict %+v %v", v, err)
	}
}

// A kubelet that takes the request and says nothing costs a change two seconds.
func TestChangeOfAKubeletThatHangs(t *testing.T) {
	n, _ := fakeNode(t)
	e := n.executor(t, nil)
	d := kubeletWith("one").Desired
	d.Units = append(d.Units, config.Unit{Name: "containerd.service", Content: text(sleeper)})
	mustApply(t, e, d)
	accept(t, e)

	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		hangs := func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() }
		e := executor.With(e, func(c *apply.Config) {
			c.Probes = map[string]func(context.Context) error{
				"kubelet.service":    hangs,
				"containerd.service": hangs,
			}
		})
		if _, err := e.Apply(t.Context(), kubeletWith("two")); err != nil {
			t.Fatal(err)
		}
		if took := time.Since(began); took != 2*time.Second {
			t.Errorf("the change took %s", took)
		}
	})
}
