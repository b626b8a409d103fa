// Package luks reads, makes and changes the header of a LUKS2 container, which
// an encrypted state partition begins with. cryptsetup(8) reads what this
// package writes, and the other way round. The kernel's dm-crypt encrypts the
// data: [Header.Table] has the parameters of the mapping.
//
//	New --AddSlot, SetToken--> Header --Write--> device --Read--> Header
//	passphrase, Header.Open --> volume key --Header.Table--> dm-crypt
//
// The header is there twice, each copy with a checksum and a sequence number,
// and of the copies that are valid the one with the higher number counts. Write
// writes the second copy before the first one, each with a sync, so a power cut
// leaves the old header or the new one.
//
// A key slot has the volume key, encrypted by a passphrase. Several slots may
// open one container.
//
// The package reads containers with one segment of aes-xts-plain64 and key
// slots of argon2i, argon2id or PBKDF2, and refuses everything else, such as a
// container that is being encrypted again, or one with dm-integrity. Source:
// LUKS2 On-Disk Format Specification 1.1.3, and the files lib/luks2 and
// lib/luks1/af.c of cryptsetup.
package luks
