// Package verity makes and checks dm-verity hash trees as veritysetup(8) does:
// format 1, SHA-256, blocks of 4096 bytes, a salt of 32 bytes, and a superblock
// in the first block of the hash device. Sources: the kernel's
// Documentation/admin-guide/device-mapper/verity.rst and cryptsetup's
// description of the on-disk format.
//
//	data --Build--> hash tree, root hash --> Superblock.Table --> dm-verity
//	root hash, PKCS #7 --NewSignature--> Encode --> partition --ParseSignature
package verity
