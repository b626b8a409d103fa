// Package machine reads machine.yaml. It has all that a node must know from the
// start, above all where its configuration comes from.
//
//	text --Decode--> Machine --> Source:    where the configuration is
//	        |                    DiskClaim: which disk, as a volume.Claim
//	        v                    Network:   what networkd gets
//	findings with path and line
package machine
