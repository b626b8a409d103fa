// Package pxe tells machines that ask the network what to boot: Loam, from this
// server. It speaks beside the network's own DHCP server (ProxyDHCP: Preboot
// Execution Environment 2.1, and RFC 4578) and gives no addresses.
//
//	packet --ParseRequest--> Request --Offers.For--> Offer --reply--> packet
//	                                      ^                  names the boot file
//	build directory --Open--> Build ------+
//	                            |
//	                            +--Files--> TFTP, HTTP --> firmware, iPXE, init-live
//
// ParseRequest and Offers.For are pure and say which packet gets which answer.
// The answer on port 67 is an offer without an address, on port 4011 an ACK.
// Both name the boot file, so that firmware which asks only one of the ports
// gets it. TFTP and HTTP have the same names (v1/boot/ROOTHASH/…): a map of
// files that were opened and compared with the manifest before any port was
// opened. Nothing else can be requested.
//
// The system needs no trust in this server: init-live verifies it by the
// command line in the UKI, and Secure Boot verifies the UKI. iPXE gets its
// command line from us.
//
// Tests run on a network of their own (test/ethernet). Fifty machines boot on
// it at once, and EDK2's firmware and iPXE boot the image.
package pxe
