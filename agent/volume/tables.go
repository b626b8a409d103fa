package volume

// partitionTables are the partition tables of libblkid 2.43
// (libblkid/src/partitions), and some that blkid does not look for: the copies
// of GPT at the end, and Windows' dynamic disks.
func partitionTables() []signature {
	return []signature{
		{name: "gpt", magic: "EFI PART", at: append(from(512, 4096), sectorsBack(0, 1)...)},
		{
			name:   "dos",
			magic:  "\x55\xaa",
			at:     from(510),
			check:  isMBR,
			detail: protective,
		},
		{
			name:  "mac",
			magic: "ER",
			at:    from(0),
			check: isMac,
		},
		{name: "sgi", magic: "\x0b\xe5\xa9\x41", at: from(0)},
		{
			name:  "sun",
			magic: "\xda\xbe",
			at:    from(508),
			check: isSun,
		},
		{name: "bsd", magic: "\x57\x45\x56\x82", at: from(0, 64, 128, 512)},
		{name: "aix", magic: "\xc9\xc2\xd4\xc1", at: from(0)},
		{name: "ultrix", magic: "\x57\x29\x03\x00\x01\x00\x00\x00", at: from(16384 - 72)},
		{name: "unixware", magic: "\x0d\x60\xe5\xca", at: from(29*512 + 4)},
		{name: "solaris", magic: "\xee\xde\x0d\x60", at: from(512 + 12)},
		{name: "atari", at: from(0), check: isAtari},
		// The volume label of a DASD is in its third block, in EBCDIC.
		{name: "dasd", magic: "\xe5\xd6\xd3\xf1", at: from(1024+4, 2048+4, 4096+4, 8192+4)},
		{name: "dasd", magic: "\xd3\xd5\xe7\xf1", at: from(1024, 2048, 4096, 8192)},
		{name: "dasd", magic: "\xc3\xd4\xe2\xf1", at: from(1024, 2048, 4096, 8192)},
		{name: "ldm", magic: "PRIVHEAD", at: append(from(6*512), sectorsBack(0, 1)...)},
	}
}

// raids are members of software and firmware RAID. Most have their signature at
// the end (libblkid/src/superblocks/*_raid.c; SNIA DDF 2.0).
func raids() []signature {
	const md, mdBig = "\xfc\x4e\x2b\xa9", "\xa9\x2b\x4e\xfc"
	promise := sectorsBack(0, 63, 255, 256, 16, 399, 591, 675, 735, 911, 974, 991, 951, 3087)

	return []signature{
		{
			name:    "linux_raid_member",
			version: "0.90",
			magic:   md,
			at:      []place{{-64 * kib, 64 * kib}},
		},
		{
			name:    "linux_raid_member",
			version: "0.90",
			magic:   mdBig,
			at:      []place{{-64 * kib, 64 * kib}},
		},
		{
			name:    "linux_raid_member",
			version: "1.0",
			magic:   md,
			at:      []place{{-8 * kib, 4 * kib}},
		},
		{
			name:    "linux_raid_member",
			version: "1.1",
			magic:   md,
			at:      from(0),
		},
		{
			name:    "linux_raid_member",
			version: "1.2",
			magic:   md,
			at:      from(4 * kib),
		},
		{name: "ddf_raid_member", magic: "\xde\x11\xde\x11", at: sectorsBack(0, 1, 257)},
		{name: "ddf_raid_member", magic: "\x11\xde\x11\xde", at: sectorsBack(0, 1, 257)},
		{name: "isw_raid_member", magic: "Intel Raid ISM Cfg Sig. ", at: sectorsBack(0, 2)},
		{name: "lsi_mega_raid_member", magic: "$XIDE$", at: sectorsBack(0, 1)},
		{
			name:  "via_raid_member",
			magic: "\x55\xaa",
			at:    sectorsBack(0, 1),
			check: isVIA,
		},
		{name: "silicon_medley_raid_member", magic: "\x00\x00\x00\x2f", at: sectorsBack(0x60, 1)},
		{name: "nvidia_raid_member", magic: "NVIDIA  ", at: sectorsBack(0, 2)},
		{name: "promise_fasttrack_raid_member", magic: "Promise Technology, Inc.", at: promise},
		{name: "hpt45x_raid_member", magic: "\xf3\x16\x78\x5a", at: sectorsBack(0, 11)},
		{name: "hpt45x_raid_member", magic: "\xfd\x16\x78\x5a", at: sectorsBack(0, 11)},
		{name: "hpt37x_raid_member", magic: "\xf0\x16\x78\x5a", at: from(9*512 + 32)},
		{name: "hpt37x_raid_member", magic: "\xfd\x16\x78\x5a", at: from(9*512 + 32)},
		{name: "adaptec_raid_member", magic: "DPTM", at: sectorsBack(256, 1)},
		{name: "jmicron_raid_member", magic: "JM", at: sectorsBack(0, 1)},
	}
}

// volumeManagers are layers between disks and file systems: volume managers,
// caches, encryption, replication, storage clusters.
func volumeManagers() []signature {
	const (
		bcache    = "\xc6\x85\x73\xf6\x4e\x1a\x45\xca\x82\x65\xf5\x7f\x48\xba\x6d\x81"
		bcachefs  = "\xc6\x85\x73\xf6\x66\xce\x90\xa9\xd9\x6a\x60\xcf\x80\x3d\xf7\xef"
		stratis   = "!Stra0tis\x86\xff\x02^\x41rh"
		bluestore = "bluestore block device"
		luks2     = "SKUL\xba\xbe"
	)

	drbd := []place{{-4*kib + 60, 4 * kib}, {-4*kib + 60, 512}}
	return []signature{
		{name: "LVM2_member", magic: "LVM2 001", at: steps(0, 512, 4, 24)},
		{name: "LVM2_member", magic: "LABELONE", at: steps(0, 512, 4, 0)},
		{
			name:  "LVM1_member",
			magic: "HM",
			at:    from(0),
			check: func(p probe) bool { v := p.le16(2); return v == 1 || v == 2 },
		},
		{name: "DM_snapshot_cow", magic: "SnAp", at: from(0)},
		{name: "DM_verity_hash", magic: "verity\x00\x00", at: from(0)},
		{name: "DM_integrity", magic: "integrt\x00", at: from(0)},
		{
			name:   "crypto_LUKS",
			magic:  "LUKS\xba\xbe",
			at:     from(0),
			detail: luksVersion,
		},
		// The second header of LUKS2 is where the first one ends (cryptsetup,
		// LUKS2 on-disk format, 2.1).
		{
			name:    "crypto_LUKS",
			version: "2",
			magic:   luks2,
			at:      from(16*kib, 32*kib, 64*kib, 128*kib, 256*kib, 512*kib, mib, 2*mib, 4*mib),
		},
		{name: "BitLocker", magic: "\xeb\x52\x90-FVE-FS-", at: from(0)},
		{name: "BitLocker", magic: "\xeb\x58\x90-FVE-FS-", at: from(0)},
		{
			name:   "BitLocker",
			magic:  "\xeb\x58\x90MSWIN4.1",
			at:     from(0),
			detail: toGoOrFAT,
		},
		{
			name:  "cs_fvault2",
			magic: "CS",
			at:    from(88),
			check: func(p probe) bool { return p.le16(-80) == 1 },
		},
		{name: "bcache", magic: bcache, at: from(4*kib + 24)},
		{
			name:  "bcachefs",
			magic: bcachefs,
			at:    append(from(7*512, 4*kib+24, 2*mib+24), place{-mib + 24, 512}),
		},
		{name: "stratis", magic: stratis, at: from(512+4, 9*512+4)},
		{name: "vdo", magic: "dmvdo001", at: from(0)},
		// Ceph writes the label of BlueStore five times (bdev label multi,
		// since Squid).
		{name: "ceph_bluestore", magic: bluestore, at: from(0, gib, 10*gib, 100*gib, 1000*gib)},
		{
			name:    "drbd",
			version: "0.7",
			magic:   "\x83\x74\x02\x6a",
			at:      []place{{-128*mib + 60, 4 * kib}},
		},
		{
			name:    "drbd",
			version: "8",
			magic:   "\x83\x74\x02\x6b",
			at:      drbd,
		},
		{
			name:    "drbd",
			version: "8",
			magic:   "\x83\x74\x02\x6c",
			at:      drbd,
		},
		{
			name:    "drbd",
			version: "9",
			magic:   "\x83\x74\x02\x6d",
			at:      drbd,
		},
		{name: "drbdmanage_control_volume", magic: "$DRBDmgr=q", at: from(0)},
		{name: "drbdproxy_datalog", magic: "DRBDdlh*", at: from(0)},
		{name: "oracleasm", magic: "ORCLDISK", at: append(from(32), asmCopies()...)},
		{name: "VMFS_volume_member", magic: "\x0d\xd0\x01\xc0", at: from(mib)},
		// VMFS is 16 MiB into its volume, if it has one.
		{name: "VMFS", magic: "\x5e\xf1\xab\x2f", at: from(2*mib, 18*mib)},
		{name: "ubi", magic: "UBI#", at: from(0)},
		{name: "mpool", magic: "mpoolDev", at: from(0)},
	}
}

// asmCopies are where Oracle ASM stores the copy of its disk header: in the
// last but one block of 4 KiB in the second allocation unit. A unit has 1 to 64
// MiB.
func asmCopies() []place {
	var out []place
	for unit := mib; unit <= 64*mib; unit *= 2 {
		out = append(out, place{offset: 2*unit - 8*kib + 32})
	}
	return out
}

// swaps are swap areas and hibernation images, with a signature at the end of
// the first page.
func swaps() []signature {
	var out []signature
	ends := from(4*kib-10, 8*kib-10, 16*kib-10, 32*kib-10, 64*kib-10)
	for _, s := range []struct{ name, version, magic string }{
		{"swap", "0", "SWAP-SPACE"}, {"swap", "1", "SWAPSPACE2"}, {"swsuspend", "", "S1SUSPEND"},
		{"swsuspend", "", "S2SUSPEND"}, {"swsuspend", "", "ULSUSPEND"},
		{"swsuspend", "", "LINHIB0001"},
	} {
		out = append(out, signature{
			name:    s.name,
			version: s.version,
			magic:   s.magic,
			at:      ends,
		})
	}

	return append(out,
		signature{name: "swsuspend", magic: "\xed\xc3\x02\xe9\x98\x56\xe5\x0c", at: from(0)})
}
