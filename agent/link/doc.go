// Package link brings network interfaces up in an initramfs, where there is no
// network manager. It speaks netlink, DHCP (RFC 2131) and DHCPv6 (RFC 8415),
// and accepts what IPv6 routers advertise (RFC 4862).
//
//	Connect: interfaces up --> DHCP, DHCPv6, router advertisements, in parallel
//	                                        |
//	                                        +--> the first address --> Network
package link
