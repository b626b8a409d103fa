package generation

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"slices"
	"strings"

	"github.com/loam-os/loam/agent/config"
	"github.com/loam-os/loam/agent/unitfile"
)

// Vendor is the image's part of the units that a configuration names.
type Vendor struct {
	// Texts are unit texts by unit name, templates of instances included.
	Texts map[string]string

	// Masked are the units that the image masks, whose text is empty.
	Masked map[string]bool

	// Paths are the paths of those texts in the image, absolute.
	Paths map[string]string

	// Links are the image's own enablement links to those units, such as
	// multi-user.target.wants/containerd.service, sorted.
	Links []string
}

// vendorDirs are the image's unit directories, highest precedence first.
var vendorDirs = [...]string{
	"etc/systemd/system", "usr/local/lib/systemd/system", "usr/lib/systemd/system",
}

// Catalog caches the units of an image. Each is read when it is first needed:
// an image does not change while it runs.
type Catalog struct {
	image fs.FS

	// dirs are the names in each of vendorDirs, nil before they were listed.
	// Most units are in none of them. links are the enablement links.
	dirs  *[len(vendorDirs)]map[string]bool
	links []string
	units map[string]vendorUnit
}

// vendorUnit is one unit of the image. Its path is "" if the image does not
// have the file.
type vendorUnit struct {
	text, path string
	masked     bool
}

// NewCatalog returns a Catalog of the root directory of the image alone. It
// reads nothing yet.
func NewCatalog(image fs.FS) *Catalog {
	return &Catalog{image: image, units: map[string]vendorUnit{}}
}

// ReadVendor calls Read of a new Catalog.
func ReadVendor(image fs.FS, d config.Desired) (Vendor, error) { return NewCatalog(image).Read(d) }

// Read looks up every unit that d names, with templates and the units of Also=,
// and the timers, paths and sockets that may start one of them. An absent unit
// is not an error here.
func (c *Catalog) Read(d config.Desired) (Vendor, error) {
	if err := c.list(); err != nil {
		return Vendor{}, fmt.Errorf("list the image's units: %w", err)
	}

	v := Vendor{Texts: map[string]string{}, Masked: map[string]bool{}, Paths: map[string]string{}}
	own := map[string]string{}

	var queue []string
	for _, link := range c.links {
		if slices.ContainsFunc(triggers[:], func(t trigger) bool {
			return path.Ext(link) == t.suffix
		}) {
			queue = append(queue, path.Base(link))
		}
	}

	for _, u := range d.Units {
		queue = append(queue, u.Name)
		if u.Content != nil {
			own[u.Name] = *u.Content
		}
	}

	seen := map[string]bool{"": true}
	for len(queue) > 0 {
		name := queue[0]
		queue = queue[1:]
		if seen[name] {
			continue
		}

		seen[name] = true
		u, err := c.unit(name)
		if err != nil {
			return Vendor{}, fmt.Errorf("read the image's unit %s: %w", name, err)
		}

		v.add(name, u)
		text, ok := own[name]
		if !ok {
			text = u.text
		}

		queue = append(queue, unitfile.TemplateOf(name))
		if stem, ok := strings.CutSuffix(name, ".service"); ok {
			for _, kind := range triggers {
				queue = append(queue, stem+kind.suffix)
			}
		}

		queue = append(queue, unitfile.Parse(text).Install().Also...)
	}

	for _, link := range c.links {
		if seen[path.Base(link)] {
			v.Links = append(v.Links, link)
		}
	}

	return v, nil
}

func (v *Vendor) add(name string, u vendorUnit) {
	if u.path == "" {
		return
	}
	v.Texts[name] = u.text
	v.Paths[name] = u.path
	if u.masked {
		v.Masked[name] = true
	}
}

// list reads the names in vendorDirs, and the enablement links.
func (c *Catalog) list() error {
	if c.dirs != nil {
		return nil
	}

	var dirs [len(vendorDirs)]map[string]bool
	var links []string
	for i, dir := range vendorDirs {
		children, err := fs.ReadDir(c.image, dir)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}

		dirs[i] = make(map[string]bool, len(children))
		for _, child := range children {
			dirs[i][child.Name()] = true
		}

		for _, child := range children {
			made, err := c.linksIn(dir, child.Name())
			if err != nil {
				return err
			}
			links = append(links, made...)
		}
	}

	slices.Sort(links)
	c.dirs = &dirs
	c.links = slices.Compact(links)

	return nil
}

// linksIn returns the enablement links in child of dir, which may also be no
// directory of links.
func (c *Catalog) linksIn(dir, child string) ([]string, error) {
	switch path.Ext(child) {
	case ".wants", ".requires", ".upholds":
	default:
		return nil, nil
	}

	entries, err := fs.ReadDir(c.image, path.Join(dir, child))
	if err != nil {
		return nil, err
	}

	var links []string
	for _, entry := range entries {
		links = append(links, path.Join(child, entry.Name()))
	}

	return links, nil
}

// unit returns the image's unit called name.
func (c *Catalog) unit(name string) (vendorUnit, error) {
	if u, known := c.units[name]; known {
		return u, nil
	}

	var u vendorUnit
	for i, dir := range vendorDirs {
		if !c.dirs[i][name] {
			continue
		}

		file := path.Join(dir, name)
		text, masked, err := readThrough(c.image, file)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}

		if err != nil {
			return vendorUnit{}, err
		}

		u = vendorUnit{text: text, path: "/" + file, masked: masked}
		break
	}

	if u.path != "" {
		// Such a directory is not in the image, and its name may be anything.
		c.units[name] = u
	}

	return u, nil
}

// readThrough reads a file whose name may be a symbolic link to an absolute
// path of the same image, which an *os.Root does not follow. A unit that is a
// link to /dev/null is masked: its text is empty.
func readThrough(image fs.FS, name string) (text string, masked bool, err error) {
	for range 8 { // the longest chain of aliases
		target, err := fs.ReadLink(image, name)
		if err != nil {
			text, err := fs.ReadFile(image, name)
			return string(text), false, err
		}
		if target == os.DevNull {
			return "", true, nil
		}
		if rest, ok := strings.CutPrefix(target, "/"); ok {
			name = path.Clean(rest)
		} else {
			name = path.Join(path.Dir(name), target)
		}
	}

	return "", false, fmt.Errorf("%s: too many symbolic links", name)
}
