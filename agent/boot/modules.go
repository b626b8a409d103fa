package boot

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/loam-os/loam/firmware/kmod"
)

// ModulesDir holds the initramfs' modules and the depmod texts about them.
const ModulesDir = "/lib/modules"

// needed are modules that no hardware asks for by a modalias.
var needed = [...]string{"dm_verity", "erofs", "overlay", "ext4", "quota_v2"}

// moduleLoader inserts modules, each once.
type moduleLoader struct {
	index *kmod.Index
	done  map[string]bool // files inserted
	seen  map[string]bool // modaliases looked up
}

func newModuleLoader() (*moduleLoader, error) {
	var f kmod.Files
	for name, text := range map[string]*[]byte{
		"modules.dep": &f.Dep, "modules.alias": &f.Alias, "modules.softdep": &f.Softdep, "modules.builtin": &f.Builtin,
	} {
		var err error
		if *text, err = os.ReadFile(filepath.Join(ModulesDir, name)); err != nil {
			return nil, fmt.Errorf("modules of the initramfs: %w", err)
		}
	}
	index, err := kmod.Parse(f)
	if err != nil {
		return nil, fmt.Errorf("modules of the initramfs: %w", err)
	}
	return &moduleLoader{index, map[string]bool{}, map[string]bool{}}, nil
}

// load inserts a module with what it depends on. A dependency that refuses the
// machine (ENODEV: a faster variant for other processors) is passed over; if
// it was needed, the module that needs it says so.
func (l *moduleLoader) load(name string) error {
	files, err := l.index.Order(name)
	if err != nil {
		return err
	}
	for _, file := range files {
		if l.done[file] {
			continue
		}
		err := insert(filepath.Join(ModulesDir, file))
		if errors.Is(err, unix.ENODEV) && file != files[len(files)-1] {
			continue
		}
		if err != nil {
			return err
		}
		l.done[file] = true
	}
	return nil
}

func insert(file string) error {
	f, err := os.Open(file)
	if err != nil {
		return fmt.Errorf("module: %w", err)
	}
	defer f.Close()
	if err := unix.FinitModule(int(f.Fd()), "", 0); err != nil && !errors.Is(err, unix.EEXIST) {
		return fmt.Errorf("insert module %s: %w", kmod.Name(file), err)
	}
	return nil
}

// coldplug loads the drivers of all hardware that sysfs shows and that has
// none yet. A driver that refuses its hardware (ENODEV) is no reason to stop:
// the disk may hang on another one.
func (l *moduleLoader) coldplug(log func(format string, args ...any)) {
	// The processor's crypto extensions make dm-verity several times faster.
	paths := []string{"/sys/devices/system/cpu/modalias"}
	found, _ := filepath.Glob("/sys/bus/*/devices/*/modalias")
	for _, p := range append(paths, found...) {
		l.plug(p, log)
	}
}

func (l *moduleLoader) plug(path string, log func(format string, args ...any)) {
	text, err := os.ReadFile(path)
	modalias := strings.TrimSpace(string(text))
	if err != nil || modalias == "" || l.seen[modalias] {
		return
	}
	l.seen[modalias] = true
	for _, name := range l.index.Match(modalias) {
		if err := l.load(name); err != nil {
			log("%v (for %s)", err, modalias)
		}
	}
}

// inserted lists the modules that run, for the record.
func (l *moduleLoader) inserted() []string {
	var names []string
	for file := range l.done {
		names = append(names, kmod.Name(file))
	}
	slices.Sort(names)
	return names
}
