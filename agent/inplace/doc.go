// Package inplace decides how a node is updated without being replaced by a new
// machine (Gardener GEP-31): what of a configuration needs the node to be
// drained first, and in which order it is done. It is pure.
//
// Next compares what was done with what is desired and returns the next step.
// Each step that succeeds is recorded in /var/lib/loam/inplace.json, so an
// update that was cut off resumes. A system that came back as it was is not
// tried again until an operator removes the Node's annotation. A changed host
// name (poll(2) on its file) ends the agent, which starts again as that node.
package inplace
