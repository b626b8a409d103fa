// Package cluster is the node's part in a Kubernetes cluster: its identity, the
// configuration that it receives, and what it reports. It is the only importer
// of client-go.
//
// With source cluster, the configuration is a Secret. The package uses three
// API groups and no clientset.
//
// # Identity
//
// Package credentials gets the node a client certificate with a bootstrap
// token, and keeps it.
//
// # One step
//
//	other goroutines              the goroutine of Run
//
//	Report, Event  --inbox-->  session  <--posted--  watches, background jobs
//	                              |
//	                              | what has changed
//	                              v
//	            +------------>  world   Node, Secret, status, clocks
//	            |                 |
//	            | what it has     | a copy
//	            | changed         v
//	            |               decide  pure: one for each controller
//	            |                 |
//	            |                 | action, outcome
//	            |                 v
//	            +------------    step   one request, file or unit
//
// An event changes the [world]. Then each [controller] runs a step: it decides
// on a copy of the world, by a function without I/O, does what it has decided,
// and puts the result into the world, where the next one sees it. It does not
// know the session, and says in its [outcome] when the next step is due and
// what the report of the Node waits for. Each has a file, with a table of its
// decisions in the test beside it. In their order:
//
//	carried.go     read what the configuration carries for the node agent
//	tokens.go      write tokens to their files
//	secrets.go     watch the Secrets of tokens and references: values.go has the
//	               values of the pending configuration
//	lease.go       renew the Lease that shows that the agent is alive
//	endpoint.go    follow the address of the API server
//	drain.go       evict the pods before a change, uncordon the Node after it
//	retry.go       try once more what has failed, if the Node's annotation asks for it
//	release.go     give the node its pending configuration: delay, drain, turn
//	update.go      update the node in place: updates.go has its state
//	readiness.go   wait for the static pods of the configuration
//	turns.go       take turns by the policy of the pool: ledger.go has the Lease,
//	               turn_needs.go what needs a turn, turn_system.go how upgrades wait
//	report.go      write labels, annotations, conditions and Events of the Node
//	baseline.go    record what later updates in place are compared with
//	addresses.go   restore an address that the Node lost
//	restart.go     restart the services that the Node's annotation names, in a turn
//	rollout.go     keep the Lease of a serial rollout
//	renewal.go     renew the certificate
//
// The types say which goroutine may touch what. A [Cluster] has only what
// several may use. What outlives a session is [memory], a variable of Run, so a
// new certificate loses neither the rollout nor the delay. Everything else is
// in the [session] and the controllers that it makes, and ends with it. A job
// in the background gets copies, and posts its result to Run's goroutine.
//
// # Watches
//
// Only single objects are watched: the Secret, the Node, the Lease of the
// rollout, the Secrets of tokens, and the Secrets that the configuration refers
// to. The Node is watched by its host name label until its name is known,
// because an API server counts a watch by label for every write of any Node.
//
// A new configuration is released at once, after the delay, or one node after
// the other, as Gardener's annotations ask, and the loop reads it like any
// other source. What the loop publishes goes back as labels, annotation,
// condition and Events of the Node. Without the API server the node runs on and
// only gets no updates; the status says since when. A new address of the API
// server in a configuration takes effect as soon as it is applied. If it does
// not answer within 30 s, the node returns to the previous one.
//
// # Tokens, rollout, reports
//
// Tokens of the node agent's configuration are synced before the configuration
// is applied, because its units may not start without them. Its Kubernetes
// version becomes the Node's label once it is applied. The sync owns the path
// of a token: a file of the configuration at that path is left out, an existing
// file stays, and changes by others are undone. A token is synced only to paths
// where a document may have files.
//
// Nodes in a serial rollout ignore the delay and take a Lease in turn. A node
// renews the Lease every 5 s until it is done, and does not take it before it
// has a Node: Gardener's authorizer refuses every Lease until then. The Lease
// of another node expires once this node has seen it unchanged for its term,
// whatever time that node wrote into it.
//
// With a policy in an annotation of the Secret, the nodes take turns by a
// ledger that they share (agent/turns), and neither delay nor serial rollout
// count. A configuration that stops and restarts nothing, by the exact plan, is
// released at once. Any other waits for a turn, which the node gives once the
// change is proven and its Node is Ready, or has failed. What is not known, such
// as the class of a configuration whose content is missing, counts as the
// heavier case. A turn is taken, too, to restart the services that the Node's
// annotation names.
//
// With a policy, new values of the Secrets that a configuration refers to are
// another configuration: they are released like another text, and the node
// resolves references by the values that were released. Without one, they are
// applied at once.
//
// Before a change that stops pods, and before the restart with another system,
// the node drains itself (agent/drain), once it has its turn. It uses the
// kubelet's certificate, which may do that in every cluster; the agent's own may
// not. If a budget does not let its pods go, it gives the turn back and is the
// last of the pool. The Node is uncordoned before the turn is given, which for a
// system is after its trial.
//
// A configuration that the node refuses or reverts, or that an operator holds,
// is reported to the cluster, where the reference only logs it: an Event with
// the first error's place and hint, and SystemdUnitsReady=False with reason
// OSCInvalid, OSCUnavailable, OSCNotApplied, OSCReverted or OSCHeld. There is
// one Event for each reason and document. A Node whose label says that its
// update was successful is not considered drained for the next update, whatever
// its condition says: the drainer removes the label first.
//
// Before the Node reports a configuration as applied, its static pods must run
// it: each mirror pod has the hash of its manifest and is Ready. The pods are
// watched only until then.
//
// A configuration with inPlaceUpdates that changes what needs a drained node
// (the kubelet's minor version or what it reserves, the operating system,
// certificate authorities, the service account key) is not released before the
// Node's condition says that it is drained.
package cluster
