package disk

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"path"
	"slices"
	"strings"

	"go.uber.org/zap"

	"github.com/loam-os/loam/agent/upgrade/records"
	"github.com/loam-os/loam/firmware/authenticode"
	"github.com/loam-os/loam/firmware/bootentry"
	"github.com/loam-os/loam/firmware/loader"
	"github.com/loam-os/loam/firmware/secureboot"
	"github.com/loam-os/loam/hint"
	"github.com/loam-os/loam/partitions/fat"
)

// ukisName is the file with what is known of the UKIs on the ESP.
const ukisName = "upgrade-ukis.json"

// knownUKIs are the UKIs of systems that have proved themselves. Files on the ESP
// have no checksums, so this is how damage is seen.
type knownUKIs struct {
	// Digests are Authenticode digests, 64 hex digits, by root hash. They do not
	// change when a UKI is signed once more.
	Digests map[string]string `json:"digests"`
	// Recovers says that the disk has a recovery entry.
	Recovers bool `json:"recovers"`
}

// ESPReport says what was damaged on the ESP, each in a sentence.
type ESPReport struct {
	// Repaired is as it should be again.
	Repaired []string
	// Left could not be repaired: the next start may fail.
	Left []string
	// Table says what is damaged of the partition table, and could not be repaired;
	// "" if nothing is.
	Table string
}

// espFacts is what there is on the ESP of a node on which nothing is under way.
type espFacts struct {
	// Started is the digest of the UKI that has started the running system, "" if
	// that is not known yet.
	Started string
	// Entry and Recovery are the UKIs of the boot entry and of the recovery entry.
	Entry, Recovery program
	// Proven says that the boot entry counts no tries. Misnamed says that it has
	// another name than it was made with.
	Proven, Misnamed bool
	// Twin is another entry of the running system, with a damaged name, "" if there
	// is no such entry.
	Twin string
	// Other is the version of the system in the other slot.
	Other string
	// OtherDamaged says that its UKI is gone or damaged, OtherMisnamed that the
	// loader cannot tell from the name of the entry which system it starts.
	OtherDamaged, OtherMisnamed bool
	// Recovers says that the disk has had a recovery entry; TextDamaged that the
	// text of the entry is not as it was made.
	Recovers, TextDamaged bool
	// LoaderDamaged says that the boot loader is not a program, or the running
	// system's own with another content.
	LoaderDamaged bool
}

// program is what the firmware judges of a program.
type program struct {
	// Digest is its Authenticode digest, "" if it is gone or damaged.
	Digest string
	// Starts says that Secure Boot lets it start.
	Starts bool
}

// espRepair is a step that repairs the ESP.
type espRepair struct {
	// damage is what was wrong, result how it is after the step.
	damage, result string
}

// String says what was repaired.
func (r espRepair) String() string { return r.damage + ", and " + r.result }

// failed says what could not be repaired.
func (r espRepair) failed(err error) string {
	return r.damage + ", and cannot be repaired: " + hint.Line(err)
}

// The steps.
var (
	noteStarted   = espRepair{"the UKI that was started was not recorded", "is recorded now"}
	renameEntry   = espRepair{"the boot entry had a wrong name", "has its own again"}
	removeTwin    = espRepair{"the boot entry had a copy with a wrong name", "has none now"}
	parkOther     = espRepair{"the entry of the other system had a wrong name", "is tried last now"}
	copyToEntry   = espRepair{"the boot entry was damaged", "is a copy of the recovery entry now"}
	copyFromEntry = espRepair{"the recovery entry was damaged", "is a copy of the boot entry now"}
	writeText     = espRepair{"the text of the recovery entry was damaged", "is written again"}
	writeLoader   = espRepair{"the boot loader was damaged", "is the running system's own again"}
)

// repairs returns the steps that repair what a node can repair, and what it
// cannot.
func (f espFacts) repairs() (steps []espRepair, left []string) {
	known := f.Started
	if known == "" && f.Entry.Digest != "" && f.Proven {
		known = f.Entry.Digest
		steps = append(steps, noteStarted)
	}

	entry := f.Entry.Digest == known
	spare := f.Recovery.Digest == known
	switch {
	case known == "": // It is not known what should be there.
	case spare && f.Recovery.Starts && (!entry || !f.Entry.Starts):
		steps = append(steps, copyToEntry)
	case !entry:
		left = append(left, "the boot entry of the running system is damaged, "+
			"and the recovery entry cannot replace it")
	case f.Recovers && f.Proven && (!spare || (f.Entry.Starts && !f.Recovery.Starts)):
		steps = append(steps, copyFromEntry)
	}

	switch {
	case f.Twin != "" && f.Proven:
		steps = append(steps, removeTwin)
	case f.Misnamed && f.Proven:
		steps = append(steps, renameEntry)
	}
	switch {
	case f.OtherDamaged:
		left = append(left, fmt.Sprintf("the boot entry of %s, to which the machine would "+
			"fall back, is damaged; the next upgrade replaces it", f.Other))
	case f.OtherMisnamed && f.Proven:
		steps = append(steps, parkOther)
	}
	if f.TextDamaged && f.Recovers {
		steps = append(steps, writeText)
	}
	if f.LoaderDamaged {
		steps = append(steps, writeLoader)
	}
	return steps, left
}

// espPasses is how often the ESP is observed, as long as something is repaired.
const espPasses = 3

// ESPCheck is one check of the ESP of a node on which nothing is under way.
type ESPCheck struct {
	Slot OtherSlot
	// Sys is sysfs, for what the firmware starts.
	Sys fs.FS
	// ImageID is the IMAGE_ID of the running system.
	ImageID string
	// Entry is the name that the boot entry of the running system has without
	// tries.
	Entry string
	// Loader is the boot loader that came with the running system, nil if none
	// did.
	Loader []byte

	esp *ESP
	// holds is the root hash of the system that the other slot is marked to hold,
	// "" if none.
	holds   string
	entries []Entry
	// known is the record of earlier checks.
	known knownUKIs
}

// Run looks for damage of the partition table and on the ESP, and repairs what it
// can from the copies that are there. An ESP that cannot be opened is damage, not
// an error.
func (c ESPCheck) Run() (r ESPReport, err error) {
	c.table(&r)
	c.esp, err = c.Slot.Disk.OpenESP()
	if err != nil {
		r.Left = append(r.Left, "the EFI system partition cannot be read: "+hint.Line(err))
		return r, nil
	}
	defer func() { err = errors.Join(err, c.esp.Close()) }()

	c.fileSystem(&r)
	structure := r.Left
	for range espPasses { // What one step repairs, another may need.
		facts, err := c.observe()
		if err != nil {
			return r, err
		}

		steps, left := facts.repairs()
		r.Left = append(slices.Clone(structure), left...)
		if !c.repair(steps, facts, &r) {
			break
		}
	}
	return r, nil
}

// table repairs the partition table. The ESP may be in order all the same.
func (c *ESPCheck) table(r *ESPReport) {
	damage, err := c.Slot.Disk.RepairTable()
	switch {
	case damage == nil && err != nil:
		r.Table = "the partition table: " + hint.Line(err)
	case err != nil:
		r.Table = fmt.Sprintf("the partition table is damaged (%s), and cannot be repaired: %s",
			strings.ReplaceAll(damage.Error(), "\n", "; "), hint.Line(err))
	case damage != nil:
		r.Repaired = append(r.Repaired, fmt.Sprintf("the partition table was damaged (%s), "+
			"and is repaired", strings.ReplaceAll(damage.Error(), "\n", "; ")))
	}
}

// fileSystem repairs what does not belong to one file.
func (c *ESPCheck) fileSystem(r *ESPReport) {
	before := c.esp.Check()
	if before.Clean() {
		return
	}

	err := c.esp.Reclaim()
	after := c.esp.Check()
	if err != nil || len(after.Broken)+len(after.Crossed) > 0 {
		r.Left = append(r.Left, "the file system of the EFI system partition: "+
			structure(after, err))
	}
	if damaged(before) && !damaged(after) {
		r.Repaired = append(r.Repaired, "the file system of the EFI system partition: "+
			structure(before, nil))
	}
}

// damaged reports whether more than what a power cut leaves is wrong.
func damaged(r fat.Report) bool {
	return r.BootSector != nil || r.BootCopy != nil || r.FATsDiffer > 0 ||
		len(r.Crossed)+len(r.Broken) > 0
}

// structure says the worst of what is wrong with a file system.
func structure(r fat.Report, err error) string {
	switch {
	case r.BootSector != nil:
		return r.BootSector.Error()
	case len(r.Broken) > 0:
		return r.Broken[0]
	case len(r.Crossed) > 0:
		return fmt.Sprintf("/%s and /%s share clusters", r.Crossed[0][0], r.Crossed[0][1])
	case err != nil:
		return err.Error()
	case r.BootCopy != nil:
		return r.BootCopy.Error()
	}
	return fmt.Sprintf("its tables differed for %d clusters", r.FATsDiffer)
}

func (c *ESPCheck) observe() (f espFacts, err error) {
	if err := records.Load(c.Slot.Records, ukisName, &c.known); err != nil {
		return f, err
	}
	running := c.Slot.Running
	f.Started = c.known.Digests[running]
	f.Recovers = c.known.Recovers

	firmware, err := secureboot.Observe(c.Sys)
	if err != nil {
		return f, err
	}

	c.holds, err = c.Slot.Holds()
	if err != nil {
		return f, err
	}

	recovers := Recovery{c.esp, c.Slot.Log}.RootHash()
	c.entries, err = c.esp.Entries()
	if err != nil && recovers != running {
		return f, err
	}

	entry := Find(c.entries, running)
	if entry != nil {
		f.Entry = c.program(firmware, entry.Path())
		f.Proven = !entry.Counted
		f.Misnamed = entry.File != c.Entry
		f.Twin = c.twin(entry)
	}
	if c.known.Digests[c.holds] != "" {
		c.observeOther(firmware, &f)
	}

	f.Recovery = c.program(firmware, loader.RecoveryUKI)
	f.Recovers = f.Recovers || recovers == running

	text, err := c.read(loader.RecoveryEntry)
	f.TextDamaged = err != nil || string(text) != loader.RecoveryText
	f.LoaderDamaged = c.loaderDamaged(entry)
	return f, nil
}

// twin returns another entry of the running system whose name is no name of a
// boot entry.
func (c *ESPCheck) twin(entry *Entry) string {
	for _, e := range c.entries {
		if e.RootHash == entry.RootHash && e.File != entry.File && e.ImageID == "" {
			return e.File
		}
	}
	return ""
}

// observeOther looks at the system in the other slot, which has run.
func (c *ESPCheck) observeOther(firmware secureboot.State, f *espFacts) {
	f.Other = cmp.Or(c.Slot.Version(c.ImageID), "the other system")
	e := Find(c.entries, c.holds)
	if e == nil || c.program(firmware, e.Path()).Digest != c.known.Digests[c.holds] {
		f.OtherDamaged = true
		return
	}

	name, err := bootentry.Parse(e.File)
	f.OtherMisnamed = err != nil || name.ImageID != c.ImageID || name.Version != f.Other
}

// program reads what the firmware judges of a program.
func (c *ESPCheck) program(firmware secureboot.State, name string) program {
	r, err := c.esp.Open(name)
	if err != nil {
		return program{}
	}
	im, err := authenticode.Read(r, r.Size())
	if err != nil {
		return program{}
	}
	return program{im.SHA256, !firmware.On || firmware.Check(im) == nil}
}

func (c *ESPCheck) read(name string) ([]byte, error) {
	r, err := c.esp.Open(name)
	if err != nil {
		return nil, err
	}
	return io.ReadAll(r)
}

// loaderDamaged reports whether the boot loader is not a program, or has another
// content than the running system's own, and either its version, or its size and
// no version that can be read. An operator may have chosen any other program.
func (c *ESPCheck) loaderDamaged(entry *Entry) bool {
	own := c.Loader
	if signed, err := c.bootLoader().signed(own, entry); err == nil {
		own = signed
	}
	want, err := authenticode.Read(bytes.NewReader(own), int64(len(own)))
	if err != nil {
		return false
	}

	there, err := c.read(loader.Path(c.Slot.Disk.Arch))
	if err != nil {
		return true
	}
	have, err := authenticode.Read(bytes.NewReader(there), int64(len(there)))
	if err != nil || have.SHA256 == want.SHA256 {
		return err != nil
	}

	version, err := loader.Version(bytes.NewReader(there))
	ours, _ := loader.Version(bytes.NewReader(own))
	if err != nil {
		return len(there) == len(own)
	}
	return version == ours
}

func (c *ESPCheck) bootLoader() Loader {
	return Loader{
		ESP:  c.esp,
		Arch: c.Slot.Disk.Arch,
		Sys:  c.Sys,
		Log:  c.Slot.Log,
	}
}

// repair carries out the steps, and reports whether one of them has repaired
// something.
func (c *ESPCheck) repair(steps []espRepair, f espFacts, r *ESPReport) (repaired bool) {
	for _, step := range steps {
		switch err := c.do(step, f); {
		case err != nil:
			c.Slot.Log.Error("repair the ESP", zap.String("damage", step.damage), zap.Error(err))
			r.Left = append(r.Left, step.failed(err))
		case step != noteStarted:
			c.Slot.Log.Warn("repaired the ESP", zap.Stringer("step", step))
			r.Repaired = append(r.Repaired, step.String())
			repaired = true
		}
	}
	return repaired
}

// do carries out one step.
func (c *ESPCheck) do(step espRepair, f espFacts) error {
	entry := Find(c.entries, c.Slot.Running)
	switch step {
	case noteStarted:
		return c.note(f)
	case renameEntry:
		return c.esp.Rename(bootentry.Dir, entry.File, c.Entry, false)
	case removeTwin:
		return c.esp.Remove(bootentry.Dir + "/" + f.Twin)
	case parkOther:
		return c.parkOther(f.Other)
	case copyToEntry:
		return c.copyToEntry(entry)
	case copyFromEntry:
		from, err := c.esp.Open(entry.Path())
		if err != nil {
			return err
		}
		return c.esp.Replace(loader.RecoveryUKI, from, entry.Size)
	case writeText:
		return c.writeText()
	case writeLoader:
		return c.writeLoader(entry)
	}
	return fmt.Errorf("%s: no such step", step)
}

// note records what has started the running system, and forgets the UKIs of
// systems that are in no slot any more.
func (c *ESPCheck) note(f espFacts) error {
	maps.DeleteFunc(c.known.Digests, func(rootHash, _ string) bool {
		return rootHash != c.holds
	})
	if c.known.Digests == nil {
		c.known.Digests = map[string]string{}
	}
	c.known.Digests[c.Slot.Running] = f.Entry.Digest
	c.known.Recovers = f.Recovers
	return records.Save(c.Slot.Records, ukisName, c.known)
}

// parkOther gives the entry of the other system its name again. It is not known
// any more whether it counted tries, so the loader tries it last: a newer one
// would be started first.
func (c *ESPCheck) parkOther(version string) error {
	n, err := bootentry.Parse(c.Entry)
	if err != nil {
		return err
	}
	n.Version = version
	n.Counted = true
	n.TriesLeft = 0
	n.TriesDone = 0
	name, err := bootentry.Format(n)
	if err != nil {
		return err
	}
	return c.esp.Rename(bootentry.Dir, Find(c.entries, c.holds).File, name, true)
}

// copyToEntry gives the boot entry the content of the recovery entry. The entry
// may be there under its name, with a content that cannot be read.
func (c *ESPCheck) copyToEntry(entry *Entry) error {
	if entry == nil {
		return Recovery{c.esp, c.Slot.Log}.Restore(c.Slot.Running, c.Entry)
	}
	from, err := c.esp.Open(loader.RecoveryUKI)
	if err != nil {
		return err
	}
	return c.esp.Replace(entry.Path(), from, from.Size())
}

// writeText writes the text of the recovery entry. It is read-only, so that the
// firmware does not rename it.
func (c *ESPCheck) writeText() error {
	_, err := c.esp.Open(loader.RecoveryEntry)
	made := errors.Is(err, fs.ErrNotExist)
	if err := c.esp.WriteFile(loader.RecoveryEntry, []byte(loader.RecoveryText)); err != nil {
		return err
	}
	if !made {
		return nil
	}
	name := path.Base(loader.RecoveryEntry)
	return c.esp.Rename(path.Dir(loader.RecoveryEntry), name, name, true)
}

func (c *ESPCheck) writeLoader(entry *Entry) error {
	l := c.bootLoader()
	own, err := l.signed(c.Loader, entry)
	if err == nil {
		err = l.starts(own)
	}
	if err != nil {
		return err
	}
	return c.esp.WriteFile(loader.Path(c.Slot.Disk.Arch), own)
}
