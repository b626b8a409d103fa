package tools

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
)

// Release is the Debian release of the tools tree and of the root tree.
const Release = "trixie"

// Source is one suite of one archive: a line of sources.list(5).
type Source struct{ URI, Suite string }

// Mirror returns the sources at the archives uris. An archive whose name ends
// in -security is asked for the security updates, any other for the release
// and its updates. Without an archive of security updates among uris, Mirror
// adds the one that belongs to the first: a system without them is worse than a
// build that fails.
func Mirror(uris ...string) []Source {
	var sources []Source
	secure := false
	for _, uri := range uris {
		uri = strings.TrimSuffix(uri, "/")
		if isSecurity(uri) {
			secure = true
			sources = append(sources, Source{uri, Release + "-security"})
			continue
		}
		sources = append(sources, Source{uri, Release}, Source{uri, Release + "-updates"})
	}

	if len(uris) > 0 && !secure {
		uri := security(strings.TrimSuffix(uris[0], "/"))
		sources = append(sources, Source{uri, Release + "-security"})
	}

	return sources
}

// snapshot is an archive as it was at a time (snapshot.debian.org): its name
// and the time.
var snapshot = regexp.MustCompile(`^(.*)/(\d{8}T\d{6}Z)$`)

// isSecurity reports whether an archive is one of security updates.
func isSecurity(uri string) bool {
	if m := snapshot.FindStringSubmatch(uri); m != nil {
		uri = m[1]
	}
	return strings.HasSuffix(uri, "-security")
}

// security is the archive of security updates that belongs to an archive.
func security(uri string) string {
	if m := snapshot.FindStringSubmatch(uri); m != nil {
		return m[1] + "-security/" + m[2]
	}
	return uri + "-security"
}

// HostMirrors asks apt for the Debian archives that this machine uses. It
// returns none on other distributions.
func HostMirrors(ctx context.Context) ([]string, error) {
	out, err := exec.CommandContext(ctx, "apt-get", "indextargets", "--format",
		"$(LABEL)|$(REPO_URI)", "Created-By: Packages").Output()
	if err != nil {
		return nil, fmt.Errorf("apt-get indextargets: %w", err)
	}
	return debianArchives(string(out)), nil
}

// debianArchives picks the Debian archives from lines LABEL|URI, each once.
func debianArchives(lines string) []string {
	var uris []string
	seen := map[string]bool{}
	for line := range strings.Lines(lines) {
		label, uri, _ := strings.Cut(strings.TrimSpace(line), "|")
		if (label == "Debian" || label == "Debian-Security") && !seen[uri] {
			seen[uri] = true
			uris = append(uris, uri)
		}
	}
	return uris
}

// readSources reads what mmdebstrap wrote into the tree dir.
func readSources(dir string) ([]Source, error) {
	f, err := os.Open(filepath.Join(dir, "etc/apt/sources.list"))
	if err != nil {
		return nil, fmt.Errorf("sources of the tools tree: %w", err)
	}
	defer f.Close()

	var sources []Source
	for sc := bufio.NewScanner(f); sc.Scan(); {
		line := sc.Text()
		if i := strings.Index(line, "]"); i >= 0 { // deb [options] URI SUITE COMPONENT
			line = "deb" + line[i+1:]
		}
		if field := strings.Fields(line); len(field) >= 3 && field[0] == "deb" {
			sources = append(sources, Source{strings.TrimSuffix(field[1], "/"), field[2]})
		}
	}

	if len(sources) == 0 {
		return nil, fmt.Errorf("sources of the tools tree: none in %s", f.Name())
	}

	return sources, nil
}

// String is the line of sources.list(5).
func (s Source) String() string {
	options := ""
	if s.frozen() {
		options = "[check-valid-until=no] "
	}
	return fmt.Sprintf("deb %s%s %s main", options, s.URI, s.Suite)
}

// frozen reports whether the source never changes, so that its Release file is
// past its date.
func (s Source) frozen() bool { return snapshot.MatchString(s.URI) }

// Deb822 is the paragraph of a file *.sources, see sources.list(5), for these
// components of the archive.
func (s Source) Deb822(components ...string) string {
	text := fmt.Sprintf("Types: deb\nURIs: %s\nSuites: %s\nComponents: %s\nSigned-By: %s\n",
		s.URI, s.Suite, strings.Join(components, " "), keyring)
	if s.frozen() {
		text += "Check-Valid-Until: no\n"
	}
	return text + "\n"
}
