# Makes a wire and starts what is at its other end. Run by wire.go in the container.
set -eu
systemctl stop systemd-networkd.socket systemd-networkd.service # It would start with the wire.
mount -o remount,bind,ro /sys                                   # Else networkd waits for a udevd.
ip netns add outside
ip link add wire0 type veth peer name peer netns outside
systemd-run --quiet --unit=outside ip netns exec outside sh -ec '
	mount -o remount,bind,ro /sys
	mount -t tmpfs -o mode=0755 tmpfs /run/dbus
	mount -t tmpfs -o mode=0755 tmpfs /etc/systemd/network
	mount -t tmpfs -o mode=0755 tmpfs /run/systemd
	mkdir -p /run/systemd/netif/links /run/systemd/netif/leases
	chown -R systemd-network: /run/systemd/netif
	cp /srv/peer.network /etc/systemd/network
	exec /usr/lib/systemd/systemd-networkd'
