// Package network describes the network of a node: as the fields of
// machine.yaml, and as files of systemd-networkd. It is pure: values in, text
// out. agent/machine validates a Config before it is rendered.
//
//	machine.yaml --> Config --Render--> Files: .netdev and .network
package network
