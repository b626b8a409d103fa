// Package liveness checks whether the kubelet, containerd and the programs of a control
// plane answer. systemd does not restart them when they hang, as they are still up.
//
//	probe --> error or nil --+
//	                         +--Next--> Health, Word --> Restart, Report
//	Standing of the unit ----+
//
// [Watch] restarts those that hang.
package liveness
