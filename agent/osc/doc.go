// Package osc reads an OperatingSystemConfig, Gardener's description of a node:
// [Decode] reads it, [Check] says everything that is wrong with it and [Merge]
// turns it into the node's desired state. All of it is pure. Nothing in a
// document is dropped in silence: what cannot be carried out is an error that
// names it.
//
// What gardener-node-agent would take nevertheless is marked as a warning
// (document.Error): of a document that a person wrote it is a mistake like any
// other, of one that a cluster sends it is only mentioned. [document.Lenient]
// tells them apart.
//
// All findings are reported at once, each with its path, line and a hint, and a
// valid document is merged into a plain config.Desired. An error is what a node
// cannot or must not carry out, a warning what gardener-node-agent would
// accept. A document of an operator is refused for either, a document from a
// cluster only for errors (source.Document.FromCluster); its warnings are
// config.Notes, which come and go with the document. Of duplicates the later
// one counts; a unit's text takes precedence over files, and criConfig over
// both.
//
// An invalid kubeReserved in a document for updates in place is refused the
// first time; the reference finds it in the second document. Units and files of
// Gardener's node agent and of SSH access are left out by name, from any
// source, so that a copy of a cluster's document means the same from
// everywhere. Unit files and drop-ins are 0600, as Gardener has them, because
// Environment= may be secret. criConfig becomes files by the pure functions of
// agent/cri.
package osc
