// Package netboot gets the system of a node that runs from memory over the
// network, by DHCP and HTTP. The server is not trusted with the system, which
// is verified with the digests on the kernel's command line. Its machine.yaml
// is verified with the keys there, if there are any: agent/live decides what it
// may ask for. There is no HTTPS: it would hide a join token, but the clock may be
// wrong this early, and it would trust the server where a signature trusts its
// author.
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
