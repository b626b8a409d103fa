// Package disk reads and writes the disk of an upgrade: the slot that does not
// run, and the ESP. What comes next, and the journal of an upgrade, belong to
// package upgrade, which passes a root hash, an index or a boot entry to this
// one.
//
// [Open] opens the disk of a machine. [OtherSlot] has what is done to the slot,
// [Disk.OpenESP] the boot entries, [Recovery] and [Loader] the other programs on
// the ESP, and [ESPCheck] repairs damage between upgrades. [Fetcher] gets the
// parts of a release. Partitions are read and written without the page cache.
//
// # Power cuts
//
// A method that package upgrade calls as a step is done or not done after a
// power cut, and can be called again. A UKI has no name until all of it is on the
// disk.
//
// The ESP is edited by partitions/fat, not mounted: an entry appears, is
// renamed and goes by one write of one 512-byte sector. A counted entry is the
// last of its directory and the first in its sector, because EDK2 renames by
// appending at the end; so each count of a try is one sector, too.
//
// The loader is renewed when the system that brought a newer one has proved
// itself: all of it is on the disk, then one write of one sector makes it the
// content of \EFI\BOOT\BOOTX64.EFI. Any other program there stays.
//
// # Fill
//
// Filling asks the slot itself first, so it resumes without a journal of
// chunks, then the running slot and the UKIs on the ESP, then mirrors (copies
// of the repository, and nodes that share the chunks of what they run), and
// then the pack by range requests. Pieces of 2 MiB are read, compared, fetched
// and written in parallel, each in order. Every chunk is verified before it is
// written. A chunk that is right is not written; a chunk that cannot be read
// is.
//
// A slot whose system has run an upgrade need not be read to be compared: the
// digests of its chunks were noted then. The note serves for one fill and is
// deleted before the first write. If the slot does not verify afterwards, it is
// read and filled again. A server that sends nothing for 15 s, or less than 4
// KiB/s for a minute, is asked again later.
package disk
