package boot

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"golang.org/x/sys/unix"

	"github.com/loam-os/loam/firmware/kmod"
)

// ModulesDir holds the modules of the initramfs and depmod's indexes of them.
const ModulesDir = "/lib/modules"

// needed are modules that no hardware requests by a modalias.
var needed = [...]string{"dm_verity", "erofs", "overlay", "ext4", "quota_v2"}

// moduleLoader inserts modules, each once, in parallel: some drivers take long
// to probe their hardware, and the disk may be on another one.
type moduleLoader struct {
	index *kmod.Index
	log   func(format string, args ...any)
	seen  map[string]bool // modaliases looked up

	mu       sync.Mutex
	inserted map[string]*insertion // by file
	closed   bool
}

// insertion is a module that the kernel is loading.
type insertion struct {
	once sync.Once
	err  error
}

func newModuleLoader(log func(format string, args ...any)) (*moduleLoader, error) {
	var f kmod.Files
	for name, text := range map[string]*[]byte{
		"modules.dep": &f.Dep, "modules.alias": &f.Alias, "modules.softdep": &f.Softdep,
		"modules.builtin": &f.Builtin,
	} {
		var err error
		*text, err = os.ReadFile(filepath.Join(ModulesDir, name))
		if err != nil {
			return nil, fmt.Errorf("modules of the initramfs: %w", err)
		}
	}

	index, err := kmod.Parse(f)
	if err != nil {
		return nil, fmt.Errorf("modules of the initramfs: %w", err)
	}

	return &moduleLoader{
		index:    index,
		log:      log,
		seen:     map[string]bool{},
		inserted: map[string]*insertion{},
	}, nil
}

// load inserts a module and its dependencies. A dependency that refuses the
// machine (ENODEV: a faster variant for other processors) is skipped; if it was
// needed, the module that needs it returns an error.
func (l *moduleLoader) load(name string) error {
	files, err := l.index.Order(name)
	if err != nil {
		return err
	}
	for _, file := range files {
		err := l.insert(file)
		if errors.Is(err, unix.ENODEV) && file != files[len(files)-1] {
			continue
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// loadAll loads modules in parallel and waits for all.
func (l *moduleLoader) loadAll(names []string) error {
	errs := make([]error, len(names))
	var wg sync.WaitGroup
	for i, name := range names {
		wg.Go(func() { errs[i] = l.load(name) })
	}
	wg.Wait()
	return errors.Join(errs...)
}

// insert inserts a file, or waits until another call has inserted it.
func (l *moduleLoader) insert(file string) error {
	l.mu.Lock()
	in := l.inserted[file]
	if in == nil {
		in = &insertion{}
		l.inserted[file] = in
	}

	closed := l.closed
	l.mu.Unlock()
	if closed {
		return errClosed
	}

	in.once.Do(func() { in.err = insert(filepath.Join(ModulesDir, file)) })
	return in.err
}

// errClosed says that the initramfs is about to be removed.
var errClosed = errors.New("module left to the running system")

// close refuses further modules. The kernel finishes insertions under way
// before this process can become systemd.
func (l *moduleLoader) close() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.closed = true

	var names []string
	for file := range l.inserted {
		names = append(names, kmod.Name(file))
	}

	slices.Sort(names)
	l.log("modules: %s", strings.Join(names, " "))
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

// coldplug begins to load the drivers of all hardware that is new in sysfs. It
// does not wait: a driver that is ready causes device events. A driver that
// refuses its hardware (ENODEV) is no reason to stop.
func (l *moduleLoader) coldplug() {
	// The processor's crypto extensions make dm-verity several times faster.
	paths := []string{"/sys/devices/system/cpu/modalias"}
	found, _ := filepath.Glob("/sys/bus/*/devices/*/modalias")
	// SD and MMC cards have no such attribute, only the event
	// (drivers/mmc/core/bus.c).
	cards, _ := filepath.Glob("/sys/bus/mmc/devices/*/uevent")
	for _, p := range slices.Concat(paths, found, cards) {
		l.plug(p)
	}
}

func (l *moduleLoader) plug(path string) {
	text, err := os.ReadFile(path)
	modalias := modaliasOf(string(text))
	if err != nil || modalias == "" || l.seen[modalias] {
		return
	}

	l.seen[modalias] = true
	for _, name := range l.index.Match(modalias) {
		go func() {
			if err := l.load(name); err != nil && !errors.Is(err, errClosed) {
				l.log("%v (for %s)", err, modalias)
			}
		}()
	}
}

// modaliasOf returns the modalias in the attribute modalias, or in the
// attribute uevent.
func modaliasOf(text string) string {
	if _, after, ok := strings.Cut(text, "MODALIAS="); ok {
		text = after
	}
	line, _, _ := strings.Cut(text, "\n")
	return strings.TrimSpace(line)
}
