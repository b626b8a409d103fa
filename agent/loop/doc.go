// Package loop is the heart of the agent: one goroutine that owns the node. It
// reads the node's configuration, has it applied, judges the change, repairs
// what drifts, answers requests and publishes how the node stands.
//
//	sources, units, drift,          +--------------------------------+
//	requests, alarms  --- event --> | State                          |
//	                                |   |                            |
//	                                |  Next(State)          pure     |
//	                                |   v                            |
//	  worker.perform(step)   <---   | Step -- State.Begin   pure     |
//	          |                     |           |                    |
//	          +----- Result   --->  | State.After(Step, Result) pure |
//	                                |   |                            |
//	  node, log, callers,           |   v                            |
//	  cluster, alarms        <---   | State, []Effect                |
//	          |                     |                                |
//	          +-- observation --->  | a pure function: as above      |
//	                                +--------------------------------+
//
// An event changes the [State], which only the loop's goroutine touches. [Next]
// decides from it which [Step] comes next. One step at a time runs, beside the
// loop, so that the loop stays responsive. It reads nothing of the state: the
// step has all that it needs, and its [Result] has what it has made of the node.
//
// Each event, [State.Begin] and [State.After] return the next state and a list of
// [Effect] values: a line in the log, an alarm, an answer, a publication, the begin
// of a step. The runner does them in their order. Some ask for an observation,
// which a pure function takes in, as it takes in a result: what that entails is
// done before the next effect of the list. Nothing but the worker and the runner
// touches the node.
//
// The way of `loam apply` is a file for each station:
//
//	apply.go      Requests.Apply asks, and waits for the answer
//	events.go     the loop takes the request while no step runs
//	request.go    Admit makes it a step: Read
//	read.go       the worker reads the document, holds.go holds the source's
//	reconcile.go  the result begins the next step: Apply
//	apply.go      the node is changed: the caller waits for the verdict
//	observe.go    the units are observed and judged, until there is a verdict
//	conclude.go   the step Conclude has carried it out: the effect Answer
//	do.go         the runner answers
//
// All of a [Kind] of step is in one file: what asks for it, if an operator does,
// how it begins, what the worker does, and what its result entails.
//
// What the loop asks of the node is behind the interfaces of ports.go.
// [State.Status] is what an operator sees, which a publisher publishes. The states
// of units, the verdict and the kernel's limits are observed on the loop's
// goroutine, as they take milliseconds.
package loop
