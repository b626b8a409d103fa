// Package netboot gets the system of a node that runs from memory over the
// network, by DHCP and HTTP. The server is not trusted with the system, which
// is verified with the digests on the kernel's command line. Its machine.yaml
// is not authenticated: agent/live decides what that may ask for.
//
//	Await: drivers, link.Connect --> Server
//	                                   |
//	Machine: machine.yaml of this machine
//	System:  root and tree, by ranges --> verified by their digests
//	Packed:  the disk image, for agent/install
//
// agent/link configures the network: DHCP, router advertisements, DHCPv6 and
// netlink. HTTP transfers use ranges, so that they resume.
package netboot
