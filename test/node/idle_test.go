package node

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/loam-os/loam/test/cluster/testcluster"
)

// leaseAPI is the path of the agent's sign of life, which it renews every 10 s.
const leaseAPI = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases/gardener-node-agent-" +
	testcluster.Node

// renewed wants the agent to have renewed its Lease since then.
func renewed(since time.Time) func(map[string]any) error {
	return func(lease map[string]any) error {
		at, err := time.Parse(time.RFC3339Nano,
			lease["spec"].(map[string]any)["renewTime"].(string))
		if err == nil && at.Before(since) {
			err = fmt.Errorf("renewed at %s", at)
		}
		return err
	}
}

// sized is text with so many more files of 2 KiB and units.
func sized(text string, files, units int) string {
	var u, f strings.Builder
	for i := range units {
		fmt.Fprintf(&u, "  - name: unit-%03d.service\n"+
			"    content: \"[Service]\\nExecStart=sleep "+
			"infinity\\n[Install]\\nWantedBy=multi-user.target\\n\"\n"+
			"    filePaths: [/etc/bench/%03d]\n", i, i%files)
	}

	f.WriteString("  files:\n")
	for i := range files {
		fmt.Fprintf(&f, "  - path: /etc/bench/%03d\n    content: {inline: {data: %q}}\n",
			i, fmt.Sprintf("%d %s", i, strings.Repeat("x", 2048)))
	}

	return strings.Replace(text, "  files:\n", u.String()+f.String(), 1)
}

// measureIdle logs what the agent has of the memory, which proc_pid_status(5)
// has in KiB, and how often its threads wake up while there is nothing to do
// for a minute.
func measureIdle(t *testing.T, n *node, w *clusterTest) {
	w.becomes(sized(w.updatable(n.status().ImageVersion, summer, "300m"), 200, 50))
	n.proven()
	w.await("what comes after a change is over", leaseAPI, renewed(time.Now().Add(20*time.Second)))
	n.want(
		"ls /etc/bench | wc -l; systemctl list-units --state=active 'unit-*' --no-legend | wc -l",
		"200\n50",
	)

	var wakeups, resident, anonymous, file float64
	n.sh("pid=$(systemctl show -P MainPID loam-agent.service)")
	n.sh("count() { cat /proc/$pid/task/*/status | awk '/^voluntary/ {n += $2} END {print n}'; }")

	out := n.sh("before=$(count); sleep 60; echo $(($(count) - before)); " +
		"awk '/^(VmRSS|RssAnon|RssFile)/ {print $2}' /proc/$pid/status")
	if _, err := fmt.Sscan(out, &wakeups, &resident, &anonymous, &file); err != nil {
		t.Fatalf("%q: %v", out, err)
	}

	const mb = 1e6 / 1024
	t.Logf("agent: rss %.1f MB (anon %.1f, file %.1f), wake-ups %.1f/s",
		resident/mb, anonymous/mb, file/mb, wakeups/60)
}
