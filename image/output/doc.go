// Package output writes and describes the files of a build, for the packages
// that make builds (image/build, image/sign) and for those that read them
// (image/verify, image/update):
//
//   - [Lock] and [Replace]: one build at a time, whole or not at all.
//   - [Convert]: a disk image in another format.
//   - [WriteInstaller]: the USB installer.
//   - [WriteManifest] and [ReadManifest], [Describe] and [Check]: the manifest,
//     SHA256SUMS, and what they say about each file.
package output
