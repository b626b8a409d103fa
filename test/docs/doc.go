// Package docs keeps the documentation true: it generates docs/reference from
// the code, and finds in the pages what a test can try, such as examples and
// command lines.
//
//	cobra commands, struct tags, messages in the code --> docs/reference/*.md
//	pages --> Blocks, Lines --> tried by the tests
//
// `make docs` writes the reference; the tests fail when it is stale.
package docs
