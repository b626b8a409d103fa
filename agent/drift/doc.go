// Package drift notices changes of the node's managed paths, by inotify(7). It
// only reports which path changed; the agent decides what is wrong with it and
// whether to repair it.
//
//	paths --Set--> the names that lead to each --> one inotify watch a directory
//	inotify events --> paths that may have changed --> Events
//
// Some changes make no event in the directory of a path, and are only found by
// reading the files again: a write through a hard link elsewhere (such as in
// the content store), a write that is not yet followed by a close, a write
// through mmap(2), a file system mounted over a directory, and a change below
// an overlay.
//
// A watch covers the managed path and every name that its links lead through.
// The agent compares and repairs what is reported at once, and counts it. A
// path that cannot be watched is reported and retried, and does not delay the
// verdict on a change. Watches are kept from one set of paths to the next,
// unless something was mounted over them. While the kernel has no instance of
// inotify, or too few watches, the watcher uses what it has, retries with a
// backoff, and reports all paths each time.
package drift
