// Package apiserver is an API server of Kubernetes in memory, for the kinds that
// the agents of nodes use: Nodes, Leases, Secrets, Pods with evictions and
// PodDisruptionBudgets, and Events.
//
//	client-go --> Transport --> Server --> collection of a kind
//	               faults        |           versions, history
//	                             +--> Watched: every write, in order
//
// A [Server] is an [http.Handler]. A [Transport] calls it without a socket, so
// thousands of agents run in one bubble of testing/synctest.
//
// Resource versions, conflicts, watches with bookmarks, tables, patches, status
// and evictions are as the agents see them at a real API server: a suite of
// statements runs on both, and where they differ, this one is wrong. There is no
// authentication, no admission, no defaults and no validation beyond names, and a
// continued list sees the present objects.
package apiserver
