// Package agent composes the node's life under systemd: it opens the node,
// finds out who it is, and starts the loop that owns it and what runs beside
// the loop.
//
//	Run -> own -> live -> identify -> loop.Loop
//	                               -> cluster, upgrades, liveness, network, drives, metrics
//
// Run opens the node (node), and takes who it is and what it follows from
// machine.yaml (life, identify). Another name, drive, disk or reset ends that run
// with an error that says so, and systemd starts the next. Each part is given
// what it needs, and returns what the next one needs.
//
// # The loop
//
// [github.com/loam-os/loam/agent/loop] owns the node. Sources, units, managed
// paths (agent/drift, inotify) and operators (agent/control, a unix socket for
// root) send it values. One step at a time changes the node, beside the loop,
// so that the loop stays responsive. agent/liveness probes containerd and the
// kubelet and has the loop restart what hangs. agent/metrics asks the loop for
// the node's state when it is scraped.
//
// The status goes to /run/loam/status.json and to every screen when it changes, and
// to serial consoles when something changed that matters to an operator. Without a
// change there is no write, no sync and no call.
//
// # Reset
//
// loam reset takes everything away that was ever configured: it removes units,
// files, generations and their content, pods (agent/pods), identity, and the
// kubelet's data. The agent that is asked writes /var/lib/loam/reset.json and
// ends. The next one, which reads no source and joins no cluster, does the
// work, so the way after a power cut is the usual way. A reset holds until an
// operator runs loam apply or machine.yaml changes.
package agent
