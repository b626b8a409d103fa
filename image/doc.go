// Package image makes disk images: from a Spec a Plan, in which every offset,
// name and UUID is settled, from the plan the files, and then it opens what it
// wrote and checks each claim that the manifest makes.
//
// # A build
//
// loamctl build prints its plan, writes beside the old build, reopens the
// result, checks every claim of the manifest against the bytes, and then
// renames. Slow results are kept in ${XDG_CACHE_HOME:-~/.cache}/loam under a
// digest of their inputs. The steps are:
//
//  1. The tools tree ([github.com/loam-os/loam/image/tools]): Debian 13 with
//     mkosi, erofs-utils, systemd-boot, QEMU, OVMF and the judges. Every host
//     builds and tests with the same programs.
//  2. The root tree ([github.com/loam-os/loam/image/rootfs] and mkosi/): Debian
//     packages, trimmed.
//  3. The root file system: erofs, packed with zstd. The image of the tree is
//     cached. mkfs.erofs merges loam and os-release into a copy in incremental
//     mode, which takes a second.
//  4. The verity tree ([github.com/loam-os/loam/partitions/verity]), the
//     initramfs ([github.com/loam-os/loam/image/initramfs]: /init, the modules
//     for disks, the template of the state file system), the UKI
//     ([github.com/loam-os/loam/firmware/uki]), GPT and ESP, the raw image,
//     then qcow2 and zstd. A document of SPDX lists the software
//     ([github.com/loam-os/loam/image/sbom]), beside the image and as a section
//     of the UKI, where image/inspect finds it.
//
// Processors' microcode is not in the root file system. It is the section
// .ucode of the UKI, an archive that systemd-stub puts before the initramfs;
// the .initrd of the PXE set begins with it.
//
// The version is in the file os-release and nowhere else.
//
// # Signing
//
// [Sign] makes a signed build from another build, whole or not at all; loamctl
// build with a key does it last. It signs each program on the ESPs of disks and
// each .efi (firmware/authenticode, by firmware/pkcs7), and the root hash for
// its verity-sig partition. The same signature is in the index of a bundle, so
// that an upgrade writes it, too, if it can. The root file system stays as it
// is: the signature of the boot loader in it is a section of the UKI, and the
// agent adds it when it renews the loader. Files made from a disk image are
// made again.
//
// A signature has no time in it, and RSA by PKCS #1 v1.5 uses no random
// numbers, so signing again makes the same bytes. A build is not signed with
// enrollment keys beside it that would not start it, and signing without
// --enroll removes them. SHA256SUMS.gpg is written by image/openpgp.
//
// Keys for firmware (PK, KEK, db) are written as authenticated variables
// (firmware/efivar), byte for byte what efitools writes. On the ESP,
// systemd-boot enrolls them in firmware in setup mode.
package image
