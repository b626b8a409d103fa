// Package networkd hands a node's network to systemd-networkd, keeps it for the
// next boot, and reads what became of it.
//
// The files for networkd are recorded in /var/lib/loam/network.json. /init puts
// them in /run, so networkd has them whatever becomes of the agent. The agent,
// which networkd waits for at boot, replaces them by the rename of one link if
// machine.yaml says something else.
//
// A running networkd is left alone: it does not remove a bond or VLAN that it
// has made, so a changed network would be half of two. Only the first document
// of a boot, from a drive that came late, takes effect at once, and only while
// there is no generation. The old network is not kept as a second try: that a
// cluster does not answer does not tell which network is wrong.
//
// The state that networkd leaves in /run/systemd/netif, in its own format, is
// read for the status, and tested against the image's networkd.
package networkd
