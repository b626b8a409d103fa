package node

import (
	"errors"
	"fmt"
	"maps"
	"net/http"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/loam-os/loam/agent/status"
	"github.com/loam-os/loam/agent/turns"
	"github.com/loam-os/loam/test/cluster/testcluster"
)

const (
	ledgerAPI      = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases/loam-rollout-pool"
	nodesAPI       = "/api/v1/nodes"
	deploymentsAPI = "/apis/apps/v1/namespaces/default/deployments"
	budgetsAPI     = "/apis/policy/v1/namespaces/default/poddisruptionbudgets"

	turnMark   = "loam.dev/turn"
	failedMark = "loam.dev/failed"
)

// pool is machines of a cluster that take turns: one may be away at a time.
type pool struct {
	*clusterTest
	machines map[string]*upgradable
}

// newPool switches on machines that may upgrade themselves, and waits until they are
// Ready.
func newPool(t *testing.T, u updates, names ...string) *pool {
	t.Helper()
	b := open(t)
	p := &pool{newClusterTest(t, b.manifest.Arch, names...), map[string]*upgradable{}}
	p.Policy = `{"maxUnavailable": 1, "drain": {"timeout": "20s"},
		"windows": [{"open": "00:00-24:00", "timeZone": "Europe/Berlin"}]}`
	if err := p.RestrictAgents(t.Context()); err != nil {
		t.Fatal(err)
	}
	p.publish(20, "", "")
	p.watchTurns(t)

	token := p.BootstrapToken(t)
	for _, name := range names {
		m := b.flash(t, b.file(".raw"))
		m.config.Host = true
		m.config.CPUs = 1
		m.config.MemoryMB = 3072
		p.machines[name] = &upgradable{
			machine:     m,
			credentials: map[string]string{"loam.machine": p.MachineNamed(name, token) + u.machineYAML()},
		}
		p.machines[name].start()
	}
	for _, n := range p.machines {
		n.boots(b.manifest.Version, "a")
	}
	for range names {
		p.ApproveNodeAgent(t, 2*stepTimeout)
	}
	p.reaches(p.OSC(20, "", ""))
	for _, n := range p.machines {
		n.shell()
	}
	return p
}

// watchTurns fails the test when the ledger has two turns, or two Nodes are drained: a
// node gives its turn once its Node is as it was before. That its mark is removed after
// that, the next node does not wait for.
func (p *pool) watchTurns(t *testing.T) {
	var group sync.WaitGroup
	group.Go(func() {
		for t.Context().Err() == nil {
			_ = p.Await(t.Context(), nodesAPI, func(nodes map[string]any) error {
				var drained []string
				for _, n := range nodes["items"].([]any) {
					n := n.(map[string]any)
					if n["spec"].(map[string]any)["unschedulable"] == true {
						drained = append(drained, n["metadata"].(map[string]any)["name"].(string))
					}
				}
				if len(drained) > 1 {
					t.Errorf("%q are drained at once", drained)
				}
				return nil
			})
			_ = p.Await(t.Context(), ledgerAPI, func(lease map[string]any) error {
				l, err := ledgerOf(lease)
				if err != nil {
					t.Errorf("the ledger: %v", err)
				} else if len(l.Holders) > 1 {
					t.Errorf("two turns at once: %v", slices.Sorted(maps.Keys(l.Holders)))
				}
				return nil
			})
			time.Sleep(200 * time.Millisecond)
		}
	})
	t.Cleanup(group.Wait)
}

// says gives the machines a configuration.
func (p *pool) says(text string) { p.Helper(); p.put(testcluster.Secret, "osc.yaml", text) }

// reaches waits until all machines run a configuration, are Ready and have no turn.
func (p *pool) reaches(text string) {
	p.Helper()
	for name := range p.machines {
		p.await(name+" runs the configuration", nodesAPI+"/"+name, runs(text))
		p.await(name+" is Ready", nodesAPI+"/"+name, testcluster.Condition("Ready", "True"))
		p.await(name+" has given its turn", nodesAPI+"/"+name, carries("annotations", turnMark, ""))
	}
}

// ledger waits until the ledger is as it should be.
func (p *pool) ledger(what string, right func(l turns.Ledger) error) (l turns.Ledger) {
	p.Helper()
	p.await(what, ledgerAPI, func(lease map[string]any) error {
		var err error
		if l, err = ledgerOf(lease); err != nil {
			return err
		}
		if err := right(l); err != nil {
			return fmt.Errorf("%w: %s", err, l.Summary())
		}
		return nil
	})
	return l
}

// ledgerOf reads the ledger from its Lease.
func ledgerOf(lease map[string]any) (turns.Ledger, error) {
	annotations := map[string]string{}
	all, _ := lease["metadata"].(map[string]any)["annotations"].(map[string]any)
	for key, value := range all {
		annotations[key] = value.(string)
	}
	return turns.ReadLedger(annotations)
}

// isOver wants nobody to have a turn.
func isOver(l turns.Ledger) error {
	if len(l.Holders) > 0 {
		return errors.New("there are turns")
	}
	return nil
}

// holder waits until a machine has its turn and may change.
func (p *pool) holder() (name string) {
	p.Helper()
	p.ledger("a turn", func(l turns.Ledger) error {
		for machine := range l.Holders {
			name = machine
			return nil
		}
		return errors.New("there is none")
	})
	p.await("the mark of "+name, nodesAPI+"/"+name, func(node map[string]any) error {
		if carries("annotations", turnMark, "")(node) == nil {
			return errors.New("there is none")
		}
		return nil
	})
	return name
}

// failed returns the only machine whose Node remembers a failure.
func (p *pool) failed() (name string) {
	p.Helper()
	p.await("the Node that remembers a failure", nodesAPI, func(nodes map[string]any) error {
		var names []string
		for _, n := range nodes["items"].([]any) {
			n := n.(map[string]any)
			if carries("annotations", failedMark, "")(n) != nil {
				names = append(names, n["metadata"].(map[string]any)["name"].(string))
			}
		}
		if len(names) != 1 {
			return fmt.Errorf("%q", names)
		}
		name = names[0]
		return nil
	})
	return name
}

// starts returns which start of a unit each machine runs, by name.
func (p *pool) starts(unit string) map[string]string {
	p.Helper()
	starts := map[string]string{}
	for name, n := range p.machines {
		n.node.t = p.T
		starts[name] = n.invocations(unit)[unit]
	}
	return starts
}

// create creates an object.
func (p *pool) create(path, body string) {
	p.Helper()
	if _, err := p.Do(http.MethodPost, path, body); err != nil {
		p.Fatal(err)
	}
}

// withContainerd is a configuration with which containerd reads so many files of
// /etc/cni/net.d.
func (p *pool) withContainerd(maxPods, files int) string {
	const before = "values: {bin_dir: /usr/lib/cni"
	return strings.Replace(p.OSC(maxPods, "", ""), before,
		fmt.Sprintf("%s, max_conf_num: %d", before, files), 1)
}

// TestMachinesTakeTurns has three machines at a real API server, with the policies of
// examples/cluster, change one after the other.
func TestMachinesTakeTurns(t *testing.T) {
	if os.Getenv("LOAM_ROLLOUT") == "" {
		t.Skip("make rollout-proof runs it; instead: TestNodesTakeTurnsByTheLedger of test/recorded")
	}
	first := open(t).manifest.Version
	v2 := next(t)
	panics := v2.publish(t, bad["its kernel panics"].change(t))
	p := newPool(t, panics, "node-1", "node-2", "node-3")
	kubelets := p.starts("kubelet.service")
	step := func(name string, run func(t *testing.T)) {
		t.Run(name, func(sub *testing.T) {
			p.T = sub
			for _, n := range p.machines {
				n.node.t = sub
			}
			run(sub)
		})
		p.T = t
		if t.Failed() {
			t.FailNow()
		}
	}

	step("one kubelet restarts at a time", func(t *testing.T) {
		p.says(p.OSC(21, "", ""))
		p.reaches(p.OSC(21, "", ""))
		if l := p.ledger("the end of all turns", isOver); l.Done != 3 || l.Failed != 0 {
			t.Errorf("ledger %s", l.Summary())
		}
		for name, start := range p.starts("kubelet.service") {
			if start == kubelets[name] {
				t.Errorf("the kubelet of %s runs as before", name)
			}
		}
	})

	step("a machine without power keeps its turn, and gives it once it is back", func(t *testing.T) {
		p.says(p.OSC(22, "", ""))
		name := p.holder()
		if err := p.machines[name].Kill(); err != nil {
			t.Fatal(err)
		}
		for other, n := range p.machines {
			if other == name {
				continue
			}
			n.says(func(s status.Status) bool {
				return s.Cluster != nil && strings.Contains(s.Cluster.Waits, "nodes are away")
			})
		}
		p.ledger("the turn of "+name, func(l turns.Ledger) error {
			if _, has := l.Holders[name]; !has || len(l.Holders) != 1 || l.Done != 0 {
				return fmt.Errorf("the power was cut too late: %s", l.Summary())
			}
			return nil
		})

		n := p.machines[name]
		n.start()
		n.node.t = t
		n.boots(first, "a")
		n.shell()
		p.reaches(p.OSC(22, "", ""))
		if l := p.ledger("the end of all turns", isOver); l.Done != 3 || l.Failed != 0 {
			t.Errorf("ledger %s", l.Summary())
		}
	})

	step("a budget postpones the change of the machine with its pod", func(t *testing.T) {
		p.create(deploymentsAPI, `{"metadata": {"name": "web"}, "spec": {
			"selector": {"matchLabels": {"app": "web"}},
			"template": {"metadata": {"labels": {"app": "web"}}, "spec": {
				"terminationGracePeriodSeconds": 1,
				"securityContext": {"appArmorProfile": {"type": "RuntimeDefault"}},
				"containers": [{"name": "web", "image": "registry.test/hello:v1"}]}}}}`)
		p.await("the pod runs", deploymentsAPI+"/web", testcluster.Condition("Available", "True"))
		p.create(budgetsAPI, `{"metadata": {"name": "web"}, "spec": {"minAvailable": 1,
			"selector": {"matchLabels": {"app": "web"}}}}`)

		p.says(p.withContainerd(22, 2))
		p.ledger("a change that is postponed", func(l turns.Ledger) error {
			if l.Postponed != 1 || l.Done != 2 || l.Failed != 0 {
				return errors.New("not yet")
			}
			return isOver(l)
		})
		p.await("the Event", eventsAPI, hasReason("DrainPostponed"))
		p.await("no Node is cordoned", nodesAPI, func(nodes map[string]any) error {
			for _, n := range nodes["items"].([]any) {
				if n.(map[string]any)["spec"].(map[string]any)["unschedulable"] == true {
					return fmt.Errorf("%v", n)
				}
			}
			return nil
		})

		if _, err := p.Do(http.MethodDelete, budgetsAPI+"/web", ""); err != nil {
			t.Fatal(err)
		}
		text := p.withContainerd(22, 3)
		p.says(text)
		p.reaches(text)
		if l := p.ledger("the end of all turns", isOver); l.Done != 3 || l.Failed != 0 {
			t.Errorf("ledger %s", l.Summary())
		}
		p.await("the pod runs", deploymentsAPI+"/web", testcluster.Condition("Available", "True"))
	})

	step("a bad configuration stops at the first machine", func(t *testing.T) {
		kubelets := p.starts("kubelet.service")
		p.publish(22, " --no-such-flag", "")
		l := p.ledger("the halt", func(l turns.Ledger) error {
			if l.Halted == "" {
				return errors.New("it is not halted")
			}
			return isOver(l)
		})
		name := p.failed()
		if l.Failed != 1 || !strings.HasPrefix(l.Halted, name+": ") {
			t.Errorf("%s has failed, ledger %s", name, l.Summary())
		}
		for other, start := range p.starts("kubelet.service") {
			if other != name && start != kubelets[other] {
				t.Errorf("the kubelet of %s was restarted", other)
			}
		}

		p.says(p.OSC(23, "", ""))
		p.reaches(p.OSC(23, "", ""))
	})

	step("a bad system stops at the first machine", func(t *testing.T) {
		kubelets := p.starts("kubelet.service")
		for _, n := range p.machines {
			n.sh("(loam upgrade >/run/upgrade.log 2>&1 &)")
		}
		name := p.holder()
		t.Logf("%s goes first", name)
		// A kernel that panics says nothing of its version.
		p.machines[name].boots(first, "a")

		l := p.ledger("the halt", func(l turns.Ledger) error {
			for _, r := range l.Systems {
				if r.Version == v2.manifest.Version && r.Halted != "" && r.Failed == 1 && r.Done == 0 {
					return isOver(l)
				}
			}
			return errors.New("the system is not halted")
		})
		t.Logf("ledger %s", l.Summary())
		p.await("its Node says so", nodesAPI+"/"+name, testcluster.Condition("SystemUpgradeFailed", "True"))
		for other, n := range p.machines {
			if other == name {
				continue
			}
			n.says(func(s status.Status) bool {
				return s.Cluster != nil && strings.Contains(s.Cluster.Waits, "halted")
			})
			if s := n.status(); s.ImageVersion != first || s.Upgrade.Phase != "armed" {
				t.Errorf("%s: %s, %+v", other, s.ImageVersion, s.Upgrade)
			}
			if now := n.invocations("kubelet.service")["kubelet.service"]; now != kubelets[other] {
				t.Errorf("%s was restarted", other)
			}
		}
	})
}
