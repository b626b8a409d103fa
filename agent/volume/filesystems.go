package volume

// fileSystems are the signatures in libblkid 2.43 (libblkid/src/superblocks),
// and the signatures of backup copies.
func fileSystems() []signature {
	out := []signature{
		{name: "vfat", at: from(0, 6*512, 6*4*kib), check: isFAT},
		{name: "vfat", magic: "FAT32   ", at: from(0x52, 6*512+0x52, 6*4*kib+0x52)},
		{name: "vfat", magic: "MSWIN", at: from(0x52)},
		{name: "vfat", magic: "MSDOS", at: from(0x36)},
		{name: "vfat", magic: "FAT16   ", at: from(0x36)},
		{name: "vfat", magic: "FAT12   ", at: from(0x36)},
		{name: "vfat", magic: "FAT     ", at: from(0x36)},
		{name: "ntfs", magic: "NTFS    ", at: append(from(3), sectorsBack(3, 1)...)},
		{name: "exfat", magic: "EXFAT   ", at: from(3, 12*512+3, 12*4*kib+3)},
		{name: "ReFS", magic: "\x00\x00\x00ReFS\x00", at: append(from(0), sectorsBack(0, 1)...)},
		{
			name:   "ext2",
			magic:  "\x53\xef",
			at:     from(1*kib + 0x38),
			detail: extKind,
		},
		{
			name:   "ext2",
			magic:  "\x53\xef",
			at:     from(lostStart + 1*kib + 0x38),
			check:  isExt,
			detail: extKind,
		},
		{name: "xfs", magic: "XFSB", at: from(0)},
		{name: "xfs_external_log", magic: "\xfe\xed\xba\xbe", at: steps(0, 512, 512, 0)},
		{name: "exfs", magic: "EXFS", at: from(0)},
		{name: "btrfs", magic: "_BHRfS_M", at: from(64*kib+64, 64*mib+64, 256*gib+64)},
		{name: "zfs_member", magic: "\x0c\xb1\xba\x00\x00\x00\x00\x00", at: zfsRings()},
		{name: "zfs_member", magic: "\x00\x00\x00\x00\x00\xba\xb1\x0c", at: zfsRings()},
		{
			name:  "zfs_member",
			magic: "\x00\x00\x00\x01\x00\x00\x00\x00\x00\x00\x00\x01",
			at:    shifted(zfsLabels(), 16*kib+4),
		},
		{name: "f2fs", magic: "\x10\x20\xf5\xf2", at: from(1*kib, 5*kib)},
		{name: "erofs", magic: "\xe2\xe1\xf5\xe0", at: from(1 * kib)},
		{name: "squashfs", magic: "hsqs", at: from(0)},
		{name: "squashfs3", magic: "sqsh", at: from(0)},
		{name: "cramfs", magic: "\x45\x3d\xcd\x28", at: from(0)},
		{name: "cramfs", magic: "\x28\xcd\x3d\x45", at: from(0)},
		{name: "romfs", magic: "-rom1fs-", at: from(0)},
		{name: "zonefs", magic: "SFOZ", at: from(0)},
		{name: "apfs", magic: "NXSB", at: from(32)},
		{
			name:   "hfs",
			magic:  "BD",
			at:     hfsCopies(),
			check:  isHFS,
			detail: wrapsHFSPlus,
		},
		{
			name:  "hfsplus",
			magic: "H+",
			at:    hfsCopies(),
			check: func(p probe) bool { return p.be16(2) == 4 },
		},
		{
			name:  "hfsplus",
			magic: "HX",
			at:    hfsCopies(),
			check: func(p probe) bool { return p.be16(2) == 5 },
		},
		{name: "jfs", magic: "JFS1", at: from(32*kib, 60*kib)},
		{name: "reiserfs", magic: "ReIsErFs", at: from(8*kib+20, 8*kib+52, 64*kib+52)},
		{name: "reiserfs", magic: "ReIsEr2Fs", at: from(64*kib + 52)},
		{name: "reiserfs", magic: "ReIsEr3Fs", at: from(64*kib + 52)},
		{name: "reiser4", magic: "ReIsEr4", at: from(64 * kib)},
		{
			name:   "gfs2",
			magic:  "\x01\x16\x19\x70",
			at:     from(64 * kib),
			detail: gfsKind,
		},
		{name: "ocfs", magic: "OracleCFS", at: from(8 * kib)},
		// Backup superblocks of OCFS2: at 4^n GiB.
		{
			name:  "ocfs2",
			magic: "OCFSV2",
			at:    from(1*kib, 2*kib, 4*kib, 8*kib, gib, 4*gib, 16*gib, 64*gib, 256*gib, 1024*gib),
		},
		{
			name:  "nilfs2",
			magic: "\x34\x34",
			at:    []place{{offset: 1*kib + 6}, {-4*kib + 6, 512}},
			check: func(p probe) bool { return p.le32(-6) == 2 },
		},
		{name: "ufs", at: shifted(from(0, 8*kib, 64*kib, 256*kib), 1372), check: isUFS},
		{name: "hpfs", magic: "\x49\xe8\x95\xf9", at: from(8 * kib)},
		{name: "minix", at: from(1 * kib), check: isMinix},
		{
			name:  "sysv",
			magic: "\x20\x7e\x18\xfd",
			at:    shifted(from(0, 9*kib, 15*kib, 18*kib), 1016),
		},
		{
			name:  "sysv",
			magic: "\xfd\x18\x7e\x20",
			at:    shifted(from(0, 9*kib, 15*kib, 18*kib), 1016),
		},
		{name: "xenix", magic: "\x2b\x55\x44", at: from(2 * kib)},
		{name: "xenix", magic: "\x44\x55\x2b", at: from(2 * kib)},
		{name: "vxfs", magic: "\xf5\xfc\x01\xa5", at: from(1 * kib)},
		{name: "vxfs", magic: "\xa5\x01\xfc\xf5", at: from(8 * kib)},
		{name: "nss", magic: "SPB5", at: from(4 * kib)},
		{name: "ubifs", magic: "\x31\x18\x10\x06", at: from(0)},
		{name: "bfs", magic: "\xce\xfa\xad\x1b", at: from(0)},
		{name: "befs", magic: "BFS1", at: from(32, 512+32)},
		{name: "befs", magic: "1SFB", at: from(32, 512+32)},
		{name: "scoutfs_meta", magic: "\x8b\x42\x3c\x10", at: from(64*kib + 4)},
		{name: "iso9660", magic: "CD001", at: steps(32*kib, 2*kib, 16, 1)},
		{name: "iso9660", magic: "CDROM", at: from(32*kib + 9)},
	}

	for _, magic := range []string{"BEA01", "BOOT2", "CDW02", "NSR02", "NSR03", "TEA01"} {
		out = append(out,
			signature{
				name:  "udf",
				magic: magic,
				at:    append(steps(32*kib, 2*kib, 16, 1), steps(32*kib, 4*kib, 16, 1)...),
			})
	}

	return append(out,
		signature{
			name:  "udf",
			magic: "\x02\x00",
			at:    udfAnchors(),
			check: isUDFAnchor,
		},
	)
}

func hfsCopies() []place { return append(from(1*kib), sectorsBack(0, 2)...) }

// zfsLabels are the four labels of 256 KiB of a ZFS device, two at each end.
func zfsLabels() []place {
	const label = 256 * kib
	return []place{{offset: 0}, {offset: label}, {-2 * label, label}, {-label, label}}
}

// zfsRings are the uberblocks: the second half of each label, in steps of 1 KiB
// or more.
func zfsRings() []place {
	var out []place
	for i := range int64(128) {
		out = append(out, shifted(zfsLabels(), 128*kib+i*kib)...)
	}
	return out
}

// udfAnchors are where an anchor volume descriptor pointer of UDF may be
// (ECMA-167 3/8.4.2.1), for each size of a block.
func udfAnchors() []place {
	var out []place
	for block := int64(512); block <= 4096; block *= 2 {
		out = append(out, place{offset: 256 * block}, place{offset: 512 * block},
			place{-block, block}, place{-257 * block, block})
	}
	return out
}

// extCopies are backup superblocks: of groups 1 and the powers of 3, 5 and 7
// (sparse_super), for each size of a block.
func extCopies() []signature {
	var out []signature
	for shift := range int64(7) {
		block := kib << shift
		for _, group := range []int64{1, 3, 5, 7, 9, 25, 27, 49} {
			start := group * 8 * block * block
			if block == kib {
				start += kib
			}
			out = append(out, signature{
				name:   "ext2",
				magic:  "\x53\xef",
				at:     from(start + 0x38),
				check:  isExtCopy(group, shift),
				detail: extKind,
			})
		}
	}

	return out
}

// xfsCopies are the superblocks of the other three allocation groups that
// mkfs.xfs makes on a disk of unknown geometry, with blocks of 4 KiB.
func xfsCopies(size int64) []place {
	var out []place
	blocks := size / (4 * kib)
	for i := int64(1); i < 4; i++ {
		for _, group := range []int64{blocks / 4, (blocks + 3) / 4} {
			out = append(out, place{offset: i * group * 4 * kib})
		}
	}
	return out
}
