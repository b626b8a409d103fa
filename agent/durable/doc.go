// Package durable changes files so that a power cut leaves the old or the new
// state, never a mixture: write a temporary, fsync it, rename, fsync the
// directory (rename(2), fsync(2)). Every name is relative to the given root.
//
//	WriteFile: temporary --> fsync --> rename --> fsync of the directory
//	Batch:     many names, unsynced --> Sync: syncfs --> durable, all of them
//
// For many new names, a [Batch] uses one syncfs(2) instead of an fsync for
// each.
//
// Pods can write to some of the directories, and put a link in the place of
// one. So each change opens the directory of its name without following links
// (openat2(2)), except those that the image has ([Dir.WithImage]), and does the
// rest below that descriptor. What is behind any other link is a [LinkError],
// and stays as it is. Only reads follow links, within the root.
package durable
