// Command loamctl is Loam's tool on a workstation: it builds images and runs
// them in virtual machines.
//
//	arguments --> flags of one verb --> one call into image/... --> print
//
// Only loamctl knows how to write whole disks.
package main
