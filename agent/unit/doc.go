// Package unit controls systemd over D-Bus: it starts, stops and observes units
// (org.freedesktop.systemd1(5)). It is the only importer of go-systemd.
//
//	Start, Stop, Restart --> job --> JobRemoved signal --> nil or JobError
//	Show(names) --> ListUnitsByNames --> changed since? --> GetAll --> State
//	signals --> Changes: the names of units whose State may be another
//
// It uses systemd's private socket and needs no D-Bus daemon. One connection
// carries calls and signals. Units are listed in one call, and shown in detail
// only when systemd has signaled a change since: systemd sends the signals of a
// change before it answers the next call.
package unit
