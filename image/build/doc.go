// Package build makes all files of an image plan in a directory, checks them,
// and puts the directory in the place of the old build. [Build.Run] is the
// function to use first.
//
// It writes beside the old build, reopens the result, checks every claim of the
// manifest against the bytes, and then renames. Slow results are kept in
// ${XDG_CACHE_HOME:-~/.cache}/loam under a digest of their inputs. Each step is
// a value made of values before it:
//
//	mkosi/ --> root tree ----------+---> root file system --> verity tree --> root hash
//	cmd/   --> loam, init, --------+                                             |
//	           init-live           |          image.Plan.WithRootHash <----------+
//	                               v                    v
//	          kernel, modules, microcode, SBOM --> initramfs, UKI
//	                                                    |
//	        manifest <-- bundle <-- PXE set, installer <-- disk: raw, qcow2, zst
//
//	 1. The tools tree ([github.com/loam-os/loam/image/tools]): Debian 13 with
//	    mkosi, erofs-utils, systemd-boot, QEMU, OVMF and the judges. Every host
//	    builds and tests with the same programs.
//	 2. The root tree ([github.com/loam-os/loam/image/rootfs] and mkosi/): Debian
//	    packages, trimmed.
//	 3. The root file system: erofs, packed with zstd. The image of the tree is
//	    cached. mkfs.erofs merges loam and os-release into a copy in incremental
//	    mode, which takes a second.
//	 4. The verity tree ([github.com/loam-os/loam/partitions/verity]), the
//	    initramfs ([github.com/loam-os/loam/image/initramfs]: /init, the modules
//	    for disks, the template of the state file system), the UKI
//	    ([github.com/loam-os/loam/firmware/uki]), GPT and ESP, the raw image,
//	    then qcow2 and zstd. A document of SPDX lists the software
//	    ([github.com/loam-os/loam/image/sbom]), beside the image and as a section
//	    of the UKI, where image/inspect finds it.
//
// Processors' microcode is not in the root file system. It is the section
// .ucode of the UKI, an archive that systemd-stub puts before the initramfs;
// the .initrd of the PXE set begins with it.
//
// The version is in the file os-release and nowhere else.
package build
