// Package boot is PID 1 of the initramfs: it observes the machine, decides
// which slot to run, and makes that slot the root file system.
//
// Decide is a pure function of Facts. What acts is a method of Init, and an
// Init exists only in a process that is PID 1 on a ramfs: the same calls made
// by an ordinary root process would take /proc and /dev away from the machine.
// The package forks nothing.
package boot
