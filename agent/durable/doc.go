// Package durable changes files so that a power cut leaves the old or the new
// state, never a mixture: write a temporary, fsync it, rename, fsync the
// directory (rename(2), fsync(2)). Every name is relative to the given root.
//
//	WriteFile: temporary --> fsync --> rename --> fsync of the directory
//	Batch:     many names, unsynced --> Sync: syncfs --> durable, all of them
//
// For many new names, a [Batch] uses one syncfs(2) instead of an fsync for
// each.
package durable
