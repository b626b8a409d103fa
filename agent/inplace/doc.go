// Package inplace decides how a node is updated without being replaced by a new
// machine (Gardener GEP-31): which changes of a configuration need a drained
// node, and in which order they are made. It is pure.
//
// Next compares what was done with what is desired and returns the next step.
// Each step that succeeds is recorded in /var/lib/loam/inplace.json, so an
// interrupted update resumes. An operating system that fell back is not tried
// again until an operator removes the Node's annotation. When the host name
// changes (poll(2) on its file), the agent ends and starts again under the new
// name.
package inplace
