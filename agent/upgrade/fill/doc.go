// Package fill makes a slot hold another system. A [Job] fills one device with
// one part of a release: what the device has already stays, what is elsewhere
// on this machine is copied ([Local]), and what is missing is fetched
// ([Sources]) from mirrors near by, or from the pack in the repository. All
// bytes are verified before they are written, so no source is trusted.
//
//	bundle.Part: the chunks that the device should have, in order
//	      |
//	for each: on the device? --> in Local? --> Sources: mirrors, then the pack
//	              |                 |             |
//	              v                 +--> verify --+--> write
//	            keep it
//
// A job that is cut off is just run again: the device tells what it has.
package fill
