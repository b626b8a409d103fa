package tools

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// Release is the Debian release of the tools tree and of the root tree.
const Release = "trixie"

// Source is one suite of one archive: a line of sources.list(5).
type Source struct{ URI, Suite string }

// Mirror returns the sources at the archives uris. An archive whose name ends
// in -security is asked for the security updates, any other for the release
// and its updates.
func Mirror(uris ...string) []Source {
	var sources []Source
	for _, uri := range uris {
		uri = strings.TrimSuffix(uri, "/")
		if strings.HasSuffix(uri, "-security") {
			sources = append(sources, Source{uri, Release + "-security"})
			continue
		}
		sources = append(sources, Source{uri, Release}, Source{uri, Release + "-updates"})
	}
	return sources
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
func (s Source) String() string { return fmt.Sprintf("deb %s %s main", s.URI, s.Suite) }

// Deb822 is the paragraph of a file *.sources, see sources.list(5), for these
// components of the archive.
func (s Source) Deb822(components ...string) string {
	return fmt.Sprintf("Types: deb\nURIs: %s\nSuites: %s\nComponents: %s\nSigned-By: %s\n\n",
		s.URI, s.Suite, strings.Join(components, " "), keyring)
}
