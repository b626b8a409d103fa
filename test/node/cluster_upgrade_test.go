package node

import (
	"errors"
	"os"
	"strings"
	"testing"

	"github.com/loam-os/loam/agent/status"
	"github.com/loam-os/loam/test/cluster/testcluster"
)

// newMember is a node of the test cluster, whose kubelet is Ready.
func newMember(t *testing.T, w *clusterTest, u updates) *upgradable {
	t.Helper()
	b := open(t)
	w.publish(20, "", "")

	m := b.flash(t, b.file(".raw"))
	if err := w.Connect(&m.config); err != nil {
		t.Fatal(err)
	}

	m.config.NoReboot = true
	n := &upgradable{
		machine: m,
		credentials: map[string]string{"loam.machine": w.Machine(w.BootstrapToken(t)) +
			u.machineYAML()},
	}

	n.unlayer()
	n.start()
	w.ApproveNodeAgent(t, stepTimeout)
	n.up()
	n.proven()
	w.await("the Node is Ready", testcluster.NodeAPI, testcluster.Condition("Ready", "True"))

	return n
}

// TestANodeOfAClusterUpgradesItself checks what only a cluster can report: that
// the kubelet of a system is not Ready, or nothing while the cluster is away.
func TestANodeOfAClusterUpgradesItself(t *testing.T) {
	if os.Getenv("LOAM_ALL") == "" {
		t.Skip("takes minutes: make upgrades runs it")
	}

	v2 := next(t)
	w := newClusterTest(t, v2.manifest.Arch)

	// The kubelet does not start with cgroups version 1.
	bad := v2.publish(t,
		withCmdline("systemd.unified_cgroup_hierarchy=0 SYSTEMD_CGROUP_ENABLE_LEGACY_FORCE=1")(t))
	good := v2.publish(t, nil)
	n := newMember(t, w, bad)
	n.sh("loam upgrade --stay")
	n.nowFrom(bad, good)
	n.fallsBack(v2.manifest.Version, "node: Node hello is not ready")
	w.await("the Node is Ready again", testcluster.NodeAPI, testcluster.Condition("Ready", "True"))
	w.await("the Node says that it fell back", testcluster.NodeAPI,
		testcluster.Condition("SystemUpgradeFailed", "True"))
	w.await("an Event says so", eventsAPI, hasReason("UpgradeFailed"))

	n.sh("loam upgrade --again --now --stay")
	w.StopAPI(t)
	n.reboot()
	n.boots(v2.manifest.Version, "b")
	n.up()

	// A trial takes two minutes, a verdict one more.
	n.sh("until test $(cut -d. -f1 /proc/uptime) -gt 240; do sleep 1; done")
	if s := n.status(); s.ImageVersion != v2.manifest.Version || s.Upgrade.Phase != "trial" ||
		!strings.Contains(s.Upgrade.Waits, "the API server cannot be reached") {
		t.Errorf("without the API server: %+v", s.Upgrade)
	}

	if names := n.entries(); !strings.Contains(names, "+2-1.efi") {
		t.Errorf("without the API server: %s", names)
	}

	w.StartAPI(t)
	n.says(func(s status.Status) bool { return s.Upgrade.Phase == "" && s.Phase == status.Applied })

	if names := n.entries(); strings.Contains(names, "+") {
		t.Errorf("with the API server: %s", names)
	}

	w.await("an Event says so", eventsAPI, hasReason("Upgraded"))
	w.await("the Node has not failed", testcluster.NodeAPI,
		testcluster.Condition("SystemUpgradeFailed", "False"))
	w.await("the Node is Ready", testcluster.NodeAPI, testcluster.Condition("Ready", "True"))
	n.off()
}

const eventsAPI = "/api/v1/events"

// hasReason wants an Event with that reason.
func hasReason(reason string) func(map[string]any) error {
	return func(events map[string]any) error {
		for _, e := range events["items"].([]any) {
			if e.(map[string]any)["reason"] == reason {
				return nil
			}
		}
		return errors.New("no event " + reason)
	}
}
