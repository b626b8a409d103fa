// Package drain empties a node before a change that stops its pods, as kubectl
// drain does, with the rights that every cluster gives a kubelet: it changes
// its own Node, lists its own pods and evicts them.
//
// [Drain] cordons the Node and evicts its pods within their
// PodDisruptionBudgets. The change follows. [Release] uncordons the Node after
// it. Both may be called again after an error, a restart of the agent or a power
// cut: all that they have to remember is in one annotation of the Node, which is
// written and removed by the same request as the cordon.
//
//	Node, its pods, what became of evictions --> Next --> one Step
//
//	Drain:   read -> list -> cordon -> report -> list -> evict, wait ... -> report
//	Release: read -> report -> uncordon
//
// [Next] is pure. Which pods are evicted is [Select], which is equal to kubectl's
// choice with --ignore-daemonsets.
//
// A drain that takes too long, or that may not evict a pod, is postponed: the
// Node is released, and the [Result] names the pods and their budgets. A Node
// that was cordoned before stays cordoned, also after the change. If an operator
// uncordons the Node meanwhile, the drain is postponed, too. After a clock that was
// ahead is set back, the time of the drain begins again, once.
//
// The conditions are defined in KEP-5683: MaintenancePlanned and DrainInProgress,
// then Drained and MaintenanceInProgress. Release removes them.
package drain
