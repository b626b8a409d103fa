// Package fakesystemd is a systemd for measurements: a process of its own that
// answers on a private socket as process 1 does, in D-Bus by godbus, but runs
// nothing. A job takes a fixed time and succeeds.
//
//	call --> connection --> Manager --> reply
//	                           +--> job --> signals to every connection
//
// It says the same as systemd 257: every property that a service has, with its
// type, and the signals around a job and a daemon-reload, to every connection. A
// test compares it with the systemd of the image.
package fakesystemd
