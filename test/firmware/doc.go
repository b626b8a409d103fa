// Package firmware models what starts a node, for tests of updates: EDK2's FAT
// driver, systemd-boot, and disks that lose power.
//
//	Disk --Start--> EDK2's FAT --> Loader.Boot: counts a try --> Entry
//	Recorder: every write up to each flush --Subsets--> what a cut may leave
//
// The model is written from the behaviour of OVMF and systemd-boot 257, with
// which the tests of this package compare it sector by sector. It shares no
// code with partitions/fat, so that each checks the other, and has from
// firmware/bootentry the order of entries only.
package firmware
