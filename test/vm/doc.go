// Package vm runs a Loam image in QEMU as an operator would: firmware, disk,
// serial consoles, and credentials handed over by SMBIOS.
//
//	Config --Start--> VM: QEMU --> Console.Expect: a line
//	                         |---> Shell.Run: a command
//	                         +---> Command: QMP
package vm
