// Package document decodes YAML and JSON documents strictly: an unknown field,
// a duplicate key, a value of the wrong type or a second document is an error
// that names the field, the line and, if known, the remedy. All errors of a
// document are reported at once.
//
//	text --> YAML nodes --> fields of a struct, by json tags --> value
//	              |                     |
//	              +------> Errors <-----+   (path, line, problem, hint)
//	                         |
//	                      Lenient --> warnings | refusal
//
// The same decoder serves strict and lenient readers. What the decoder of the
// Kubernetes tools (sigs.k8s.io/yaml, not strict) accepts nevertheless is
// marked as a warning and decoded as they do: an unknown field is dropped, the
// last of duplicate keys counts, and so does the first of several documents; yes
// is true for a boolean, 5.0 a whole number, 5 the text "5" for a field of text,
// and << merges fields. A strict reader refuses any error, a lenient one what
// [Lenient] returns as a refusal.
//
// Fields are found by their json tags. Null means absent, as in the Kubernetes
// API. Without a mistake, scalars follow YAML 1.2, with one addition: an integer
// that begins with 0 is octal, as YAML 1.1 and the Kubernetes tools read it, so
// that 0644, 0o644 and 420 are one number. One difference is left: a word such
// as yes is text for a field of text, which Kubernetes' own decoder refuses.
package document
