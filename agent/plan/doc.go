// Package plan decides how to get from one generation to another: which paths
// change, which units are restarted, started or stopped, and why. It is pure,
// and exactly the plan is applied.
//
//	have, want: generation.Manifest --+
//	                                  +--Diff--> Plan: Files, Reload, Units
//	observed: states, relations ------+                          |
//	                                                  Action.Stage: the order
//
// [Diff] says for every file whether it is added, changed, removed or gets
// another mode, and for every unit what happens and why:
//
//   - A unit restarts when its text, a drop-in, an environment file or a listed
//     file changes. It reloads instead if it says X-ReloadIfChanged=yes and
//     only files change.
//   - Units that systemd takes along (Requires=, BindsTo=, PartOf=, RequiredBy=
//     of another) are in the plan, and are started last in case they stayed
//     down.
//   - A unit under several names is one action. The service of a socket is
//     stopped before the socket.
//   - What a timer or path unit starts runs once when it is new or changes,
//     after everything else, because its trigger may never ask for the first
//     run.
//   - What only a socket starts comes with its first connection. The reference
//     starts it at once, so that its state after an apply would not be its
//     state after a boot.
//   - What is not enabled is stopped when it changes, and left to its trigger.
//   - Slices need the daemon-reload only, also when they go.
package plan
