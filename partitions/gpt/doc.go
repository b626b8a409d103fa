// Package gpt reads, writes and grows GUID partition tables (UEFI specification
// 2.10, section 5.3) of 128 entries of 128 bytes, the only shape that sfdisk,
// systemd-repart and Loam make. It runs on the node, also as PID 1, and depends
// on the standard library and a UUID type only.
//
//	Read --> Table --Partition, Grow, Validate--> Table --Write--> both copies
//	Create: a new Table for a disk that has none
//
// go-diskfs does not write the table: the GPT is also read and grown on the
// node, and go-diskfs must not be there.
package gpt
