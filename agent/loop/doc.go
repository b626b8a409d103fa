// Package loop is the heart of the agent: one goroutine that owns the node. It
// reads the node's configuration, has it applied, judges the change, repairs
// what drifts, answers requests and publishes how the node stands.
//
//	sources, units, drift,          +-------------------------------+
//	requests, alarms  --- event --> | State                         |
//	                                |   |                           |
//	                                |  Next(State)         pure     |
//	                                |   v                           |
//	  perform(step), beside  <---   | Step                          |
//	          |                     |                               |
//	          +-----  Result  --->  | State.After(Step, Result) pure|
//	                                |   |                           |
//	  status.json, consoles,        |  State.Status()      pure     |
//	  cluster               <---    |   v                           |
//	                                | status.Status                 |
//	                                +-------------------------------+
//
// An event changes the [State], which only the loop's goroutine touches. [Next]
// decides from it which [Step] comes next. One step at a time runs, beside the
// loop, so that the loop stays responsive. It reads nothing of the state: the
// step has all that it needs. [State.After] says what its [Result] makes of the
// state, and [State.Status] what an operator sees of it.
//
// What the loop asks of the node is behind the interfaces of ports.go. A worker
// performs the steps. What else a result entails, such as an answer to a caller
// or an alarm, is in changes, repairs, the reconciler and resets: one type for
// each kind of step. A reporter writes logs and Events, and a publisher
// publishes the status.
//
// Two things are observed on the loop's goroutine, as they take milliseconds:
// the journal of the engine and the states of units.
package loop
