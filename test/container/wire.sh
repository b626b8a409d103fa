# Makes a wire and starts what is at its other end. Run by wire.go in the container.
set -eu
systemctl stop systemd-networkd.socket systemd-networkd.service # It would start with the wire.
mount -o remount,bind,ro /sys                                   # Else networkd waits for a udevd.
ip netns add outside
# The wire ends at a port of a switch. Where it ended at the router, the router would lose
# its carrier whenever wire0 is down; back again, its first announcement can meet a queue that
# the kernel has not opened yet, and then networkd announces nothing any more.
ip link add wire0 type veth peer name port netns outside
ip -n outside link add peer address 02:00:00:00:00:01 type bridge stp_state 0 mcast_snooping 0
ip -n outside link add up0 type veth peer name up1 # What keeps the switch up.
ip -n outside link set up0 up
ip -n outside link set up1 master peer up
ip -n outside link set port master peer up
# Both log which packets come and go: nothing else says why an address did not come.
mkdir -p /run/systemd/system/systemd-networkd.service.d
printf '[Service]\nEnvironment=SYSTEMD_LOG_LEVEL=debug\n' > /run/systemd/system/systemd-networkd.service.d/debug.conf
systemctl daemon-reload
systemd-run --quiet --unit=outside --setenv=SYSTEMD_LOG_LEVEL=debug ip netns exec outside sh -ec '
	mount -o remount,bind,ro /sys
	mount -t tmpfs -o mode=0755 tmpfs /run/dbus
	mount -t tmpfs -o mode=0755 tmpfs /etc/systemd/network
	mount -t tmpfs -o mode=0755 tmpfs /run/systemd
	mkdir -p /run/systemd/netif/links /run/systemd/netif/leases
	chown -R systemd-network: /run/systemd/netif
	cp /srv/peer.network /etc/systemd/network
	exec /usr/lib/systemd/systemd-networkd'
