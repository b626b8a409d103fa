// Package registry provides files of container images. containerd pulls and
// keeps the images; the files are read from their layers, which are archives:
// nothing is unpacked or mounted.
//
//	reference --> mirrors' hosts.toml --> containerd pulls --> layers
//	                                                             |
//	config.Content <-- the topmost layer with the path <---------+
//
// It is the only importer of containerd's client. Images are pulled into a
// containerd namespace of Loam's own, through the mirrors of the same
// configuration. Certificates in /var/lib/ca-certificates-local of a
// configuration are trusted for the pull before its files are in place. With
// keys, an image is pulled only if one of them has signed it (agent/cosign), and
// its signature is kept with it.
package registry
