package drain_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	core "k8s.io/api/core/v1"

	"github.com/loam-os/loam/agent/drain"
)

var tenMinutes = drain.Policy{Timeout: 10 * time.Minute}

func TestADrainAndItsRelease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newAPI(newPod("a"), newPod("b"))
		result, err := drain.Drain(t.Context(), f, tenMinutes)
		if err != nil || result.Postponed != "" {
			t.Fatalf("%+v: %v", result, err)
		}

		want := []string{"Drained", "MaintenanceInProgress"}
		if diff := cmp.Diff(want, f.conditions()); diff != "" {
			t.Errorf("conditions (-want +got):\n%s", diff)
		}
		if !f.node.Spec.Unschedulable || !drain.IsUnderWay(f.node) || len(f.pods) > 0 {
			t.Errorf("%+v, %d pods", f.node, len(f.pods))
		}

		if err := drain.Release(t.Context(), f); err != nil {
			t.Fatal(err)
		}
		f.isAsBefore(t, false)
	})
}

// isAsBefore checks that nothing of a drain is left on the Node.
func (f *fakeAPI) isAsBefore(t *testing.T, cordoned bool) {
	t.Helper()
	n := f.node
	if n.Spec.Unschedulable != cordoned || drain.IsUnderWay(n) || len(n.Status.Conditions) > 0 {
		t.Errorf("cordoned %t, annotations %v, conditions %v",
			n.Spec.Unschedulable, n.Annotations, f.conditions())
	}
}

func TestDrainKeepsCordonsOfOperators(t *testing.T) {
	for _, tt := range []struct {
		name      string
		before    func(f *fakeAPI, request string)
		postponed bool
		cordoned  bool
	}{
		{"a cordon from before", func(f *fakeAPI, request string) {
			f.node.Spec.Unschedulable = f.node.Spec.Unschedulable || len(f.requests) == 0
		}, false, true},
		{"a cordon that is faster than Loam's", func(f *fakeAPI, request string) {
			if strings.Contains(request, `"unschedulable":true`) && !f.node.Spec.Unschedulable {
				f.node.Spec.Unschedulable = true
				f.touch()
			}
		}, false, true},
		{"an uncordon during the drain", func(f *fakeAPI, request string) {
			if request == "evict a" {
				f.node.Spec.Unschedulable = false
				f.touch()
			}
		}, true, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := newAPI(newPod("a"))
				f.before = func(request string) { tt.before(f, request) }
				result, err := drain.Drain(t.Context(), f, tenMinutes)
				if err != nil || (result.Postponed != "") != tt.postponed {
					t.Fatalf("%+v: %v", result, err)
				}

				f.before = nil
				if err := drain.Release(t.Context(), f); err != nil {
					t.Fatal(err)
				}
				f.isAsBefore(t, tt.cordoned)
			})
		})
	}
}

func TestABudgetPostpones(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newAPI(newPod("a"), newPod("b"), newPod("c"))
		f.refuse = func(name string) error {
			if name == "c" {
				return nil
			}
			return budgetError("web", 0)
		}

		begun := time.Now()
		result, err := drain.Drain(t.Context(), f, tenMinutes)
		if err != nil {
			t.Fatal(err)
		}
		const why = "The disruption budget web needs 2 healthy pods and has 2 currently"
		want := drain.Result{
			Postponed: "2 pods left after 10m0s: default/a: " + why + "; default/b: " + why,
			Pods:      []string{"default/a", "default/b"},
			Budgets:   []string{"default/web"},
		}
		if diff := cmp.Diff(want, result); diff != "" {
			t.Errorf("result (-want +got):\n%s", diff)
		}
		if took := time.Since(begun); took != tenMinutes.Timeout {
			t.Errorf("postponed after %s", took)
		}
		f.isAsBefore(t, false)
	})
}

// TestAClockThatIsSetBackDoesNotProlongADrain has a clock that is three days ahead when the
// drain begins, and an agent that is killed after it was set back.
func TestAClockThatIsSetBackDoesNotProlongADrain(t *testing.T) {
	for _, cordoned := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			f := newAPI(newPod("a"))
			f.node.Spec.Unschedulable = cordoned
			f.refuse = func(string) error { return budgetError("web", 0) }
			f.ahead = 72 * time.Hour
			patches := 0
			f.before = func(request string) {
				if request == "read" && slices.Contains(f.requests, "evict a") {
					f.ahead = 0
				}
				if strings.Contains(request, "since") {
					patches++
				}
			}

			begun := time.Now()
			first, kill := context.WithTimeout(t.Context(), 6*time.Minute)
			defer kill()
			if result, err := drain.Drain(first, f, tenMinutes); err == nil {
				t.Fatalf("not killed: %+v", result)
			}
			if !f.node.Spec.Unschedulable {
				t.Error("not cordoned")
			}

			second, stop := context.WithTimeout(t.Context(), time.Hour)
			defer stop()
			result, err := drain.Drain(second, f, tenMinutes)
			if err != nil || result.Postponed == "" {
				t.Fatalf("%+v: %v", result, err)
			}
			if took := time.Since(begun); took > tenMinutes.Timeout+10*time.Second {
				t.Errorf("postponed after %s", took)
			}
			if patches != 2 {
				t.Errorf("%d records of a drain, want one more: %v", patches, f.requests)
			}
			f.isAsBefore(t, cordoned)
		})
	}
}

func TestABudgetThatOpensIsWaitedFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newAPI(newPod("a"))
		begun := time.Now()
		var tries []time.Duration
		f.refuse = func(string) error {
			at := time.Since(begun)
			tries = append(tries, at)
			if at < 25*time.Second {
				return budgetError("web", 10)
			}
			return nil
		}

		result, err := drain.Drain(t.Context(), f, tenMinutes)
		if err != nil || result.Postponed != "" {
			t.Fatalf("%+v: %v", result, err)
		}
		// As often as Retry-After says.
		want := []time.Duration{0, 10 * time.Second, 20 * time.Second, 30 * time.Second}
		if !slices.Equal(tries, want) {
			t.Errorf("tries %v, want %v", tries, want)
		}
	})
}

func TestAPolicyThatKeepsPodsDisturbsNothing(t *testing.T) {
	bare := newPod("bare")
	bare.OwnerReferences = nil
	f := newAPI(newPod("a"), bare)

	result, err := drain.Drain(t.Context(), f, tenMinutes)
	want := "the policy keeps 1 pod: default/bare: " +
		"has no controller that would create it again"
	if err != nil || result.Postponed != want {
		t.Errorf("%+v: %v", result, err)
	}
	for _, request := range f.requests {
		if request != "read" && request != "list" {
			t.Errorf("request %q", request)
		}
	}
}

func TestNoMorePodsThanAFewAreEvictedAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var pods []core.Pod
		for i := range 30 {
			pods = append(pods, newPod(fmt.Sprintf("pod-%02d", i)))
		}
		f := newAPI(pods...)
		slow := &slowAPI{fakeAPI: f}

		if result, err := drain.Drain(t.Context(), slow, tenMinutes); err != nil ||
			result.Postponed != "" || len(f.pods) > 0 {
			t.Fatalf("%+v: %v", result, err)
		}
		if slow.most != 8 {
			t.Errorf("%d at once", slow.most)
		}
	})
}

// slowAPI counts the evictions that are under way.
type slowAPI struct {
	*fakeAPI
	now, most int
}

func (s *slowAPI) Evict(ctx context.Context, pod *core.Pod) error {
	s.mu.Lock()
	s.now++
	s.most = max(s.most, s.now)
	s.mu.Unlock()

	time.Sleep(time.Second)

	s.mu.Lock()
	s.now--
	s.mu.Unlock()
	return s.fakeAPI.Evict(ctx, pod)
}

// TestAKillAtEachRequest ends the agent at each request of a drain, before the
// request takes effect and after, and starts it again.
func TestAKillAtEachRequest(t *testing.T) {
	for _, cordoned := range []bool{false, true} {
		for _, lost := range []bool{false, true} {
			points := 0
			for cut := 1; killAt(t, cut, lost, cordoned); cut++ {
				points++
			}
			if points < 7 {
				t.Errorf("%d requests of a drain", points)
			}
		}
	}
}

// killAt plays one drain, in which the agent is killed at that request. It
// returns false if there are fewer requests.
func killAt(t *testing.T, cut int, lost, cordoned bool) (killed bool) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		f := newAPI(newPod("a"), newPod("b"))
		f.node.Spec.Unschedulable = cordoned
		f.cut = cut
		f.lost = lost

		for range 3 {
			_, err := drain.Drain(t.Context(), f, tenMinutes)
			if err == nil {
				err = drain.Release(t.Context(), f)
			}
			if err == nil {
				break
			}
			if !errors.Is(err, errCut) {
				t.Fatal(err)
			}
			killed = true
			f.cut = 0
		}
		if len(f.pods) > 0 {
			t.Errorf("cut %d: %d pods are left", cut, len(f.pods))
		}
		f.isAsBefore(t, cordoned)
	})
	return killed
}
