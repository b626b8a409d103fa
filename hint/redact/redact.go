// Package redact takes passwords out of a text that is to be shown: a status, an
// error, a log.
package redact

import (
	"net/url"
	"regexp"
	"strings"
)

// Mask takes the place of a secret, as in [url.URL.Redacted].
const Mask = "xxxxx"

var (
	// password is the password of a URL.
	password = regexp.MustCompile(`(://[^/\s:@]*:)[^/\s]+@`)
	// reference is a URL in a text.
	reference = regexp.MustCompile("[a-zA-Z][a-zA-Z0-9+.-]*://[^\\s\"'`]+")
)

// URLs returns a text without the passwords of the URLs in it. Of a URL that cannot
// be parsed, as its password has a slash or a number sign that is not encoded,
// nothing stays between :// and the last @.
func URLs(text string) string {
	text = password.ReplaceAllString(text, "${1}"+Mask+"@")
	return reference.ReplaceAllStringFunc(text, unparsed)
}

// unparsed returns a reference without what may be its password if it is not a URL,
// or has a colon without a port.
func unparsed(ref string) string {
	u, err := url.Parse(ref)
	isURL := err == nil && !strings.HasSuffix(u.Host, ":")
	at := strings.LastIndexByte(ref, '@')
	if at < 0 || isURL || strings.HasSuffix(ref[:at], ":"+Mask) {
		return ref
	}
	scheme, _, _ := strings.Cut(ref, "://")
	return scheme + "://" + Mask + ref[at:]
}
