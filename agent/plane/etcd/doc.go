// Package etcd keeps the node's etcd able to write.
//
//	status, alarms, members, metrics ---Observe---> State ---Next---> Step ---Apply---> etcd
//	                                                  |                ^
//	                                                  |                +-- Last
//	                                                  +--Condition, Problem--> log, loam cluster status
//
// etcd refuses writes for good once its file has reached its quota, until the
// file is small again and its NOSPACE alarm is disarmed. [Next] decides that,
// [Maintenance] does it on a node, and [Client] is the way to etcd: the JSON
// gateway at its client URL
// (https://etcd.io/docs/v3.6/dev-guide/api_grpc_gateway) and its metrics.
//
// What only an operator can repair is a [State.Problem] with a hint: a quota full
// of data, damaged data, a slow disk. Package disk refuses a slow disk before it
// has any data, and decides on the timing of etcd.
package etcd
