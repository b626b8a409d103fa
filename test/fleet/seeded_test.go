package fleet

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/loam-os/loam/agent/turns"
	"github.com/loam-os/loam/test/judge"
)

// seeded are mistakes, made by the rig, and what the checker has to say of each.
var seeded = map[string]struct {
	want string
	make func(f *Fleet)
}{
	"one node more than the checker allows": {
		"have a turn or are away, allowed are 5",
		func(f *Fleet) { f.checker.limits.Total-- },
	},
	"a mark that is gone at once": {
		"is disturbed without a mark",
		func(f *Fleet) {
			for _, m := range f.members {
				m.network.tamper = func(r *http.Request, _ *http.Response) {
					if kindOf(r) == Patches && f.checker.listed()[m.name].mark != "" {
						f.sendAlone(http.MethodPatch, nodesPath+"/"+m.name,
							`{"metadata": {"annotations": {"`+markAnnotation+`": null}}}`)
					}
				}
			}
		},
	},
	"a mark for something else": {
		"is disturbed for " + sum(Configuration("two"))[:12],
		func(f *Fleet) {
			for _, m := range f.members {
				m.network.tamper = func(r *http.Request, _ *http.Response) {
					n := f.checker.listed()[m.name]
					if kindOf(r) != Patches || n.mark == "" || n.target == "else" {
						return
					}
					mark := turns.Holder{ID: n.mark, Machine: m.name, Node: m.name, Target: "else"}
					f.sendAlone(http.MethodPatch, nodesPath+"/"+m.name, fmt.Sprintf(
						`{"metadata": {"annotations": {%q: %q}}}`, markAnnotation, mark))
				}
			}
		},
	},
	"a list in which all Nodes are Ready": {
		"have a turn or are away, allowed are 6",
		func(f *Fleet) {
			for _, m := range f.members {
				m.network.tamper = func(r *http.Request, a *http.Response) {
					if kindOf(r) != Lists {
						return
					}
					text, err := io.ReadAll(a.Body)
					if err != nil {
						f.Error(err)
					}
					text = bytes.ReplaceAll(text, []byte(`"NotReady"`), []byte(`"Ready"`))
					a.Body = io.NopCloser(bytes.NewReader(text))
				}
			}
			for _, m := range f.members[:6] {
				m.ready(false)
			}
		},
	},
	"a node that restarts its kubelet without a turn": {
		"is disturbed without a mark",
		func(f *Fleet) {
			if err := f.members[7].restart(f.ctx, kubelet); err != nil {
				f.Error(err)
			}
		},
	},
}

func TestTheCheckerFindsBugs(t *testing.T) {
	judge.Long(t, "nothing: it tests the judges of fleets, not the product")
	for name, bug := range seeded {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				o := fifty()
				o.Nodes = 20
				o.Seed = 1
				o.Policy = `{"maxUnavailable": 6, "chunks": ["100%"]}`
				o.Limits = Limits{Total: 6}
				f := New(t, o, Configuration("one"))
				bug.make(f)
				f.Configure(Configuration("two"))
				time.Sleep(time.Hour) // Of the bubble.

				faults := strings.Join(f.checker.state().faults, "\n")
				if !strings.Contains(faults, bug.want) {
					t.Errorf("faults %q, want one with %q", faults, bug.want)
				}
			})
		})
	}
}
