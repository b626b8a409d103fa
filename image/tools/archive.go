package tools

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/loam-os/loam/image/lock"
)

// Archive is what Debian's archives have now, for some architectures, as this
// host's apt has fetched and verified it.
type Archive struct {
	// dir is the root of apt's files, a temporary directory.
	dir     string
	archs   []string
	offered map[string][]lock.Package
	date    time.Time
}

// OpenArchive fetches the indexes of the sources, for architectures and
// components. [Archive.Close] removes them.
func OpenArchive(
	ctx context.Context, log io.Writer, sources []Source, archs []string, components ...string,
) (*Archive, error) {
	if len(sources) == 0 {
		sources = Mirror(debianArchive)
	}

	dir, err := os.MkdirTemp("", "loam-archive-")
	if err != nil {
		return nil, err
	}

	a := &Archive{dir: dir, archs: archs, offered: map[string][]lock.Package{}}
	if err := errors.Join(a.prepare(sources, components), a.update(ctx, log)); err != nil {
		return nil, errors.Join(fmt.Errorf("read Debian's archives: %w", err), a.Close())
	}

	if err := a.read(); err != nil {
		return nil, errors.Join(fmt.Errorf("read Debian's archives: %w", err), a.Close())
	}

	return a, nil
}

// debianArchive is where hosts without an archive of their own find Debian.
const debianArchive = "http://deb.debian.org/debian"

// Close removes what was fetched.
func (a *Archive) Close() error { return os.RemoveAll(a.dir) }

// Date is the date of the newest Release file.
func (a *Archive) Date() time.Time { return a.date }

// Offered returns the versions of a package that the archives have.
func (a *Archive) Offered(name, arch string) []lock.Package { return a.offered[name+" "+arch] }

// aptConfig is a configuration of apt (apt.conf(5)) that knows nothing of this
// host.
const aptConfig = `Dir "ROOT/";
Dir::State "state/";
Dir::State::status "ROOT/status";
Dir::Cache "cache/";
Dir::Log "log/";
Dir::Etc "etc/apt/";
Dir::Etc::sourcelist "loam.sources";
Dir::Etc::sourceparts "/dev/null";
Dir::Etc::parts "/dev/null";
Acquire::Languages "none";
Acquire::GzipIndexes "false";
Acquire::PDiffs "false";
APT::Sandbox::User "root";
APT::Install-Recommends "false";
`

// prepare writes what apt reads.
func (a *Archive) prepare(sources []Source, components []string) error {
	for _, d := range []string{
		"etc/apt/preferences.d", "state/lists/partial", "cache/archives/partial",
	} {
		if err := os.MkdirAll(filepath.Join(a.dir, d), 0o755); err != nil {
			return err
		}
	}

	var list bytes.Buffer
	for _, s := range sources {
		list.WriteString(s.Deb822(components...))
	}

	files := map[string]string{
		"etc/apt/loam.sources": list.String(),
		"status":               "",
		"apt.conf":             strings.ReplaceAll(aptConfig, "ROOT", a.dir),
	}
	for name, text := range files {
		if err := os.WriteFile(filepath.Join(a.dir, name), []byte(text), 0o644); err != nil {
			return err
		}
	}

	return nil
}

// apt runs apt-get with the archive's files, for architectures, the first of
// which is the system's own.
func (a *Archive) apt(ctx context.Context, archs []string, args ...string) *exec.Cmd {
	options := []string{"-o", "APT::Architecture=" + archs[0]}
	for _, arch := range archs {
		options = append(options, "-o", "APT::Architectures::="+arch)
	}

	cmd := exec.CommandContext(ctx, "apt-get", append(options, args...)...)
	cmd.Env = append(os.Environ(), "APT_CONFIG="+filepath.Join(a.dir, "apt.conf"), "LC_ALL=C")
	return cmd
}

func (a *Archive) update(ctx context.Context, log io.Writer) error {
	cmd := a.apt(ctx, a.archs, "--error-on=any", "update")
	cmd.Stdout = log
	cmd.Stderr = log
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("apt-get update: %w", err)
	}
	return nil
}

// read reads the indexes and the dates of their Release files.
func (a *Archive) read() error {
	lists := filepath.Join(a.dir, "state/lists")
	indexes, err := filepath.Glob(filepath.Join(lists, "*_Packages"))
	if err != nil || len(indexes) == 0 {
		return fmt.Errorf("no index in %s", lists)
	}

	for _, file := range indexes {
		if err := a.readIndex(file); err != nil {
			return err
		}
	}

	releases, err := filepath.Glob(filepath.Join(lists, "*Release"))
	if err != nil {
		return err
	}

	for _, file := range releases {
		text, err := os.ReadFile(file)
		if err != nil {
			return err
		}
		if date := releaseDate(text); date.After(a.date) {
			a.date = date
		}
	}

	if a.date.IsZero() {
		return errors.New("no Release file has a date")
	}

	return nil
}

// releaseDate is the date of a Release file (Debian Repository Format, "Date").
func releaseDate(text []byte) time.Time {
	for line := range bytes.Lines(text) {
		if value, ok := strings.CutPrefix(string(line), "Date: "); ok {
			date, err := http.ParseTime(
				strings.Replace(strings.TrimSpace(value), "UTC", "GMT", 1))
			if err == nil {
				return date
			}
		}
	}
	return time.Time{}
}

// readIndex reads a Packages file: paragraphs of fields, parted by empty lines
// (Debian Repository Format).
func (a *Archive) readIndex(file string) error {
	f, err := os.Open(file)
	if err != nil {
		return err
	}
	defer f.Close()

	var p lock.Package
	add := func() {
		if p.Name != "" {
			key := p.Name + " " + p.Arch
			if !slices.Contains(a.offered[key], p) {
				a.offered[key] = append(a.offered[key], p)
			}
		}
		p = lock.Package{}
	}

	sc := bufio.NewScanner(f)
	sc.Buffer(nil, 1<<24)
	for sc.Scan() {
		key, value, _ := strings.Cut(sc.Text(), ": ")
		switch key {
		case "":
			add()
		case "Package":
			p.Name = value
		case "Architecture":
			p.Arch = value
		case "Version":
			p.Version = value
		case "SHA256":
			p.SHA256 = value
		}
	}
	add()

	return sc.Err()
}

// Resolve returns the packages that a new system of these architectures gets
// which installs names: with what they depend on, and what each system has.
// status is a status file of dpkg with what is there already, "" for nothing.
func (a *Archive) Resolve(
	ctx context.Context, archs []string, status string, names []string,
) ([]lock.Package, error) {
	err := os.WriteFile(filepath.Join(a.dir, "status"), []byte(status), 0o644)
	if err != nil {
		return nil, err
	}

	native := "?architecture(" + archs[0] + ")"
	args := append([]string{
		"--simulate", "install",
		"?and(?essential," + native + ")", "?and(?priority(required)," + native + ")",
	}, names...)

	cmd := a.apt(ctx, archs, args...)
	var problem bytes.Buffer
	cmd.Stderr = &problem
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("apt-get --simulate install: %w\n%s%s", err, out, problem.Bytes())
	}

	var list []lock.Package
	for _, found := range installed(string(out)) {
		i := slices.IndexFunc(a.Offered(found.Name, found.Arch), func(p lock.Package) bool {
			return p.Version == found.Version
		})
		if i < 0 {
			return nil, fmt.Errorf("%s %s %s: no index has it", found.Name, found.Arch,
				found.Version)
		}
		list = append(list, a.Offered(found.Name, found.Arch)[i])
	}

	if len(list) == 0 {
		return nil, fmt.Errorf("apt-get --simulate installs nothing\n%s", out)
	}

	return list, nil
}

// inst is a line of apt-get --simulate: Inst NAME[:ARCH] (VERSION RELEASE
// [ARCH]).
var inst = regexp.MustCompile(`(?m)^Inst (\S+?)(?::\S+)? (?:\[[^]]*\] )?\((\S+) .*\[(\S+)\]\)`)

// installed reads what apt-get --simulate would install.
func installed(out string) []lock.Package {
	var list []lock.Package
	for _, m := range inst.FindAllStringSubmatch(out, -1) {
		list = append(list, lock.Package{Name: m[1], Version: m[2], Arch: m[3]})
	}
	return list
}

// CheckLock reports which packages of a lock that systems of these
// architectures can have are no longer in the archives, as a
// [lock.MissingError].
func CheckLock(
	ctx context.Context, log io.Writer, l lock.Lock, sources []Source, archs ...string,
) error {
	a, err := OpenArchive(ctx, log, sources, archs, "main", "non-free-firmware")
	if err != nil {
		return err
	}
	defer a.Close()

	if problems := lock.Missing(l.For(archs...), a.Offered); len(problems) > 0 {
		return lock.NewMissingError(problems)
	}

	return nil
}
