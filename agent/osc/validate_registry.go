package osc

import (
	"net/netip"
	"net/url"
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/loam-os/loam/agent/document"
)

// capabilities are what a mirror may be used for (containerd docs/hosts.md).
var capabilities = []string{"pull", "resolve", "push"}

func checkRegistries(report *document.Report, registries []Registry) {
	first := map[string]string{}
	for i, registry := range registries {
		at := item(containerdPath+".registries", i)
		checkUpstream(report, at+".upstream", registry.Upstream)
		checkOnce(report.Add, first, registry.Upstream, at+".upstream")

		if registry.Server != nil {
			checkURL(report, at+".server", *registry.Server)
		}

		urls := map[string]string{}
		for j, host := range registry.Hosts {
			at := item(at+".hosts", j)
			checkURL(report, at+".url", host.URL)
			checkOnce(report.Warn, urls, host.URL, at+".url")
			checkHost(report, at, host)
		}
	}
}

// checkOnce reports a value that is already in first, and otherwise records its
// place there.
func checkOnce(add func(path, problem, hint string), first map[string]string, value, at string) {
	if before, twice := first[value]; twice && value != "" {
		add(at, document.Quote(value)+" given twice, first at "+before, "keep one of them")
		return
	}
	first[value] = at
}

func checkHost(report *document.Report, at string, host RegistryHost) {
	first := map[string]string{}
	for i, capability := range host.Capabilities {
		at := item(at+".capabilities", i)
		if !slices.Contains(capabilities, capability) {
			report.Add(at, quoteOrEmpty(capability)+" is unknown", "write pull, resolve or push")
		}
		checkOnce(report.Warn, first, capability, at)
	}

	for i, file := range host.CACerts {
		at := item(at+".caCerts", i)
		switch {
		case file == "":
			report.Warn(at, "empty", "write the path of a file with certificates")
		case path.Clean(file) != file || file == "/" || file == "." || hasPart("/"+file, "..") ||
			strings.ContainsFunc(file, isControl):
			report.Warn(at, document.Quote(file)+" is not the path of a file",
				"write it with / at its beginning, or relative to the directory of the registry, "+
					"without . and ..")
		}
	}
}

// checkUpstream allows HOST, HOST:PORT and _default.
func checkUpstream(report *document.Report, at, upstream string) {
	host, port, hasPort := cutPort(upstream)
	switch {
	case upstream == "":
		report.Add(at, "empty", "write the registry's host, such as docker.io, or _default")
	case upstream == "_default":
	case hasPort && (port == "" || !isPort(port)):
		report.Add(at, document.Quote(upstream)+" has no port after its colon",
			"write a number up to 65535")
	case !isHost(host) || len(upstream) > maxName:
		report.Add(at, document.Quote(upstream)+" is not the host of a registry",
			"write HOST or HOST:PORT in lower case, without https://")
	}
}

// cutPort splits HOST:PORT, where HOST may be [IPv6].
func cutPort(text string) (host, port string, found bool) {
	if colon := strings.LastIndexByte(text, ':'); colon > strings.LastIndexByte(text, ']') {
		return text[:colon], text[colon+1:], true
	}
	return text, "", false
}

// isPort reports whether text, if not empty, is the number of a port.
func isPort(text string) bool {
	number, err := strconv.ParseUint(text, 10, 16)
	return text == "" || (err == nil && number > 0)
}

func isHost(host string) bool {
	if inner, ok := strings.CutPrefix(host, "["); ok {
		address, err := netip.ParseAddr(strings.TrimSuffix(inner, "]"))
		return err == nil && address.Is6() && address.Zone() == "" && strings.HasSuffix(inner, "]")
	}
	return len(host) <= 253 && hostName.MatchString(host)
}

func checkURL(report *document.Report, at, text string) {
	parsed, err := url.Parse(text)
	switch {
	case text == "":
		report.Add(at, "empty", "write a URL, such as https://mirror.example:5000")
	case err != nil || parsed.Host == "":
		report.Add(at, document.Quote(text)+" is not the URL of a registry",
			"begin it with https:// or http:// and a host")
	case (parsed.Scheme != "http" && parsed.Scheme != "https") || parsed.Hostname() == "":
		report.Warn(at, document.Quote(text)+" is not the URL of a registry",
			"begin it with https:// or http:// and a host")
	case !isPort(parsed.Port()):
		report.Warn(at, document.Quote(text)+" has no port after its colon",
			"write a number up to 65535")
	case parsed.User != nil || parsed.RawQuery != "" || parsed.Fragment != "":
		report.Warn(at, document.Quote(text)+" has a user, a query or a fragment",
			"leave only scheme, host, port and path")
	}
}
