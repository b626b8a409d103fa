// Package osc reads an OperatingSystemConfig, Gardener's description of a node.
// [Decode] reads it, [Check] reports everything that is wrong with it and
// [Merge] turns it into the desired state of the node. All three are pure.
// Nothing in a document is dropped silently: what the node cannot do is an
// error that names the field.
//
//	text --Decode--> OperatingSystemConfig --Check--> findings, all at once
//	                          |
//	          Env ------> MergeChecked --> config.Desired
//
// A fault that gardener-node-agent would accept is a warning
// (document.Error). In a document that an operator wrote, a warning is a
// mistake like any other; in a document from a cluster it is only reported.
// [document.Lenient] separates the two.
//
// All findings are reported at once, each with path, line and hint. A valid
// document is merged into a plain config.Desired. An error is something that a
// node cannot or must not do, a warning something that gardener-node-agent
// would accept. A document of an operator is refused for either, a document
// from a cluster only for errors (source.Document.FromCluster). Its warnings
// become config.Notes, which last as long as the document. Of duplicates the
// later one counts. The text of a unit takes precedence over files, and
// criConfig over both.
//
// An invalid kubeReserved in a document for updates in place is refused with
// the first document; gardener-node-agent finds it with the second. Units and
// files of Gardener's node agent and of SSH access are left out by name,
// whatever the source, so that a copy of a cluster's document means the same
// everywhere. Unit files and drop-ins get mode 0600, as in Gardener, because
// Environment= may be secret. The pure functions of agent/cri turn criConfig
// into files.
package osc
