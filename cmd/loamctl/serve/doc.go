// Package serve is the command `loamctl serve`: a web server for updates, for
// machines that boot from the network, and for turns.
//
//	repository         --> /                plain files        --> nodes that upgrade
//	builds             --> /v1/boot, DHCP, TFTP: what starts   --> firmware, /init
//	inventory, tokens  --> /v1/machine      a machine.yaml     --> /init
//	record of turns    --> the paths of FleetLock              --> agents that restart
//
// The command is in serve.go, what firmware and /init ask in boot.go, which machine
// gets what in machines.go, whom the server answers in hosts.go, and what it prints
// in journal.go.
package serve
