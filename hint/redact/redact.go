// Package redact takes passwords out of a text that is to be shown: a status, an
// error, a log.
package redact

import (
	"net/netip"
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
	// token is a bootstrap token, of which the part before the dot is no secret.
	token = regexp.MustCompile(`\b([a-z0-9]{6})\.[a-z0-9]{16}\b`)
)

// Tokens returns a text without the secrets of the bootstrap tokens in it.
func Tokens(text string) string { return token.ReplaceAllString(text, "${1}."+Mask) }

// URLs returns a text without the passwords of the URLs in it. If a password may have
// a slash or a number sign that is not encoded, nothing stays between :// and the
// last @.
func URLs(text string) string {
	if !strings.Contains(text, "://") {
		return text
	}
	text = password.ReplaceAllString(text, "${1}"+Mask+"@")
	return reference.ReplaceAllStringFunc(text, unparsed)
}

// unparsed returns a reference without what may be its password if it is not a URL,
// or another one than was meant.
func unparsed(ref string) string {
	at := strings.LastIndexByte(ref, '@')
	if at < 0 || strings.HasSuffix(ref[:at], ":"+Mask) {
		return ref
	}

	u, err := url.Parse(ref)
	if err == nil && !isMistaken(u, ref[at+1:]) {
		return ref
	}
	scheme, _, _ := strings.Cut(ref, "://")
	return scheme + "://" + Mask + ref[at:]
}

// isMistaken reports whether what url.Parse takes for host and port may be a user and
// the digits before the first slash of a password. No user is an address, and no host
// begins like a digest. last is what follows the last @.
func isMistaken(u *url.URL, last string) bool {
	if u.User != nil || !strings.Contains(u.Host, ":") || strings.HasPrefix(last, "sha256:") {
		return false
	}
	_, err := netip.ParseAddr(u.Hostname())
	return err != nil || u.Port() == ""
}
