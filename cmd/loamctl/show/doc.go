// Package show formats what loamctl has observed, as text or as JSON. It is pure.
package show
