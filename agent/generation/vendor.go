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
)

// Vendor is what the image knows of the units a configuration names.
type Vendor struct {
	// Texts are unit texts by unit name, templates of instances included.
	Texts map[string]string
	// Masked are the units that the image masks, whose text is empty.
	Masked map[string]bool
	// Paths are where those texts are in the image, absolute.
	Paths map[string]string
	// Links are the image's own enablement links to those units, such as
	// multi-user.target.wants/containerd.service, sorted.
	Links []string
}

// vendorDirs are where an image has units, the one that counts more first.
var vendorDirs = [...]string{"etc/systemd/system", "usr/local/lib/systemd/system", "usr/lib/systemd/system"}

// ReadVendor looks up in image, the root directory of the image alone, every
// unit that d names, with templates and whatever Also= leads to, and the timers,
// paths and sockets that may start one of them. A unit that is not there is not an
// error here.
func ReadVendor(image fs.FS, d config.Desired) (Vendor, error) {
	v := Vendor{Texts: map[string]string{}, Masked: map[string]bool{}, Paths: map[string]string{}}
	dirs, err := listVendor(image)
	if err != nil {
		return Vendor{}, err
	}
	links, err := listLinks(image, dirs)
	if err != nil {
		return Vendor{}, err
	}

	own := map[string]string{}
	var queue []string
	for _, link := range links {
		if slices.ContainsFunc(triggers[:], func(t trigger) bool { return path.Ext(link) == t.suffix }) {
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
		if err := v.read(image, dirs, name); err != nil {
			return Vendor{}, err
		}
		text, ok := own[name]
		if !ok {
			text = v.Texts[name]
		}
		queue = append(queue, TemplateOf(name))
		if stem, ok := strings.CutSuffix(name, ".service"); ok {
			for _, kind := range triggers {
				queue = append(queue, stem+kind.suffix)
			}
		}
		queue = append(queue, parseInstall(text).also...)
	}

	v.Links = slices.DeleteFunc(links, func(link string) bool { return !seen[path.Base(link)] })
	return v, nil
}

// listVendor are the names in each of vendorDirs: most units that are looked for
// are in none.
func listVendor(image fs.FS) ([len(vendorDirs)]map[string]bool, error) {
	var all [len(vendorDirs)]map[string]bool
	for i, dir := range vendorDirs {
		children, err := fs.ReadDir(image, dir)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return all, fmt.Errorf("list the image's units: %w", err)
		}
		all[i] = make(map[string]bool, len(children))
		for _, child := range children {
			all[i][child.Name()] = true
		}
	}
	return all, nil
}

func (v *Vendor) read(image fs.FS, dirs [len(vendorDirs)]map[string]bool, name string) error {
	for i, dir := range vendorDirs {
		if !dirs[i][name] {
			continue
		}
		file := path.Join(dir, name)
		text, masked, err := readThrough(image, file)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return fmt.Errorf("read the image's unit %s: %w", name, err)
		}
		v.Texts[name], v.Paths[name] = text, "/"+file
		if masked {
			v.Masked[name] = true
		}
		return nil
	}
	return nil
}

// listLinks are all enablement links of the image, sorted: see Vendor.Links.
func listLinks(image fs.FS, dirs [len(vendorDirs)]map[string]bool) ([]string, error) {
	var all []string
	for i, dir := range vendorDirs {
		for child := range dirs[i] {
			switch path.Ext(child) {
			case ".wants", ".requires", ".upholds":
			default:
				continue
			}
			links, err := fs.ReadDir(image, path.Join(dir, child))
			if err != nil {
				return nil, fmt.Errorf("list the image's units: %w", err)
			}
			for _, link := range links {
				all = append(all, path.Join(child, link.Name()))
			}
		}
	}
	slices.Sort(all)
	return slices.Compact(all), nil
}

// readThrough reads a file whose name may be a symbolic link to an absolute
// path of the same image; an *os.Root does not follow those. A unit that is a
// link to /dev/null is masked: its text is empty.
func readThrough(image fs.FS, name string) (text string, masked bool, err error) {
	for range 8 { // as deep as a chain of aliases gets
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
