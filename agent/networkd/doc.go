// Package networkd hands a node's network to systemd-networkd, stores it for
// the next boot, and observes the result.
//
// The files for networkd are recorded in /var/lib/loam/network.json. /init
// writes them to /run, so networkd has them even if the agent does not start.
// The agent, which networkd waits for at boot, replaces them by renaming one
// link if machine.yaml says something else.
//
// A running networkd is left alone: it does not remove a bond or VLAN that it
// has made, so a changed network would be a mixture of two. Only the first
// document of a boot, from a config drive that came late, takes effect at once,
// and only while there is no generation. The old network is not kept as a
// fallback: a cluster that does not answer does not tell which network is
// wrong.
//
// The status is read from the state that networkd keeps in /run/systemd/netif.
// Its format is internal to networkd, so a test reads it from the image's
// networkd.
package networkd
