// Package image decides what an image is: from a [Spec] it makes a [Plan], in
// which every offset, name and UUID of the image is settled. It is pure: it
// reads no file and writes none. [Decide] is the function to use first.
//
// The packages below it carry a plan out, and know each other only downwards:
//
//	build      makes the files of a plan, unsigned or signed
//	sign       makes a signed build from another build
//	verify     checks each claim of a build's manifest against the bytes
//	update     makes and reads the update bundle of a build
//	output     writes what several of them write: manifest, sums, formats
//
// A plan becomes more certain on its way through a build, and each step returns
// a new one:
//
//	Spec -- Decide --> Plan -- WithRootHash --> UUIDs, command line
//	                        -- WithDisk ------> command line of the PXE set
package image
