// Package drift notices that something touched a managed path of the node, by
// inotify(7). It only says which path; what is wrong with it, and whether that
// is repaired, is decided elsewhere.
//
// Some changes make no event in the directory of a path, and only reading the
// files again finds them: content written through a hard link elsewhere (the
// content store is such a place), a write that is not yet followed by a close,
// a write through mmap(2), a file system mounted over a directory, and a change
// beneath an overlay.
//
// A watch covers the managed path, and each name through which its link leads.
// The agent compares and repairs what is reported at once, and counts it. A
// path that cannot be watched is shown and tried again, and does not keep a
// change from its verdict. What is watched already stays so in the next set of
// paths, unless something was mounted over it. While the kernel has too few
// watches, the watcher goes on with those it has and tries again, with a
// backoff.
package drift
