// Package proxy renders the HTTP proxy of machine.yaml: as an environment file
// for the units that fetch something, containerd and the agent itself, and as
// the environment of the agent that runs.
//
//	Settings --Environment--> HTTP_PROXY, HTTPS_PROXY, NO_PROXY
//	                             |
//	                             +--Text--> File, which systemd reads
//
// The URL may have a password, so only root reads [File], and no error of this
// package has the URL.
package proxy

import (
	"errors"
	"net/netip"
	"net/url"
	"slices"
	"strings"

	"github.com/loam-os/loam/agent/hostname"
)

// File is the environment file, relative to the root directory
// (systemd.exec(5), EnvironmentFile=). It is kept for a start at which
// machine.yaml cannot be read.
const File = "var/lib/loam/proxy.env"

// Settings are a proxy, and what is reached without it.
type Settings struct {
	// URL is the proxy, "" for none.
	URL string
	// Direct are names, domains (".site.example"), addresses and networks.
	Direct []string
}

// always is reached without a proxy: the machine itself, its links, where
// clouds have their metadata, and the Services of a cluster.
var always = []string{
	"localhost", "127.0.0.0/8", "::1", "169.254.0.0/16", "fe80::/10", ".svc", ".cluster.local",
}

// Variable is a variable of the environment.
type Variable struct{ Name, Value string }

// Environment returns the variables, in the order of their names. Without a
// proxy they are empty, which is the same as if they were unset.
func (s Settings) Environment() []Variable {
	var to, direct string
	if s.URL != "" {
		to = canonical(s.URL)
		entries := slices.Concat(always, s.Direct)
		entries = slices.DeleteFunc(entries, func(entry string) bool { return entry == "" })
		direct = strings.Join(unique(entries), ",")
	}
	return []Variable{{"HTTPS_PROXY", to}, {"HTTP_PROXY", to}, {"NO_PROXY", direct}}
}

// canonical returns a URL in which nothing but letters, digits and signs is
// left that systemd gives no meaning.
func canonical(text string) string {
	u, err := url.Parse(text)
	if err != nil {
		return ""
	}
	return u.String()
}

func unique(entries []string) []string {
	var once []string
	for _, entry := range entries {
		if !slices.Contains(once, entry) {
			once = append(once, entry)
		}
	}
	return once
}

// Text returns the content of [File], "" without a proxy.
func (s Settings) Text() string {
	if s.URL == "" {
		return ""
	}

	var text strings.Builder
	text.WriteString("# From machine.yaml. The agent writes it.\n")
	for _, v := range s.Environment() {
		text.WriteString(v.Name + "=" + v.Value + "\n")
	}
	return text.String()
}

// CheckURL returns what is wrong with the URL of a proxy, without the URL.
func CheckURL(text string) error {
	u, err := url.Parse(text)
	switch {
	case err != nil:
		return errors.New("is not a URL")
	case u.Scheme != "http" && u.Scheme != "https":
		return errors.New("is not a URL of http or https")
	case u.Hostname() == "":
		return errors.New("has no host")
	case !hostname.InURL(u):
		return errors.New("has no port from 1 to 65535")
	case (u.Path != "" && u.Path != "/") || u.RawQuery != "" || u.Fragment != "":
		return errors.New("has more than a host and a port")
	}
	return nil
}

// IsDirect reports whether text can be in [Settings].Direct.
func IsDirect(text string) bool {
	if _, err := netip.ParseAddr(text); err == nil {
		return true
	}
	if _, err := netip.ParsePrefix(text); err == nil {
		return true
	}
	name := strings.ToLower(strings.TrimPrefix(text, "."))
	return hostname.IsName(name) && strings.Trim(name, "0123456789.") != ""
}
