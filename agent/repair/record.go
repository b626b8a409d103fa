package repair

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"
	"time"

	"go.uber.org/zap"

	"github.com/loam-os/loam/agent/status"
	"github.com/loam-os/loam/firmware/bootdir"
	"github.com/loam-os/loam/hint"
	"github.com/loam-os/loam/partitions/fat"
)

// Files of the ESP.
const (
	espDir     = "loam"
	recordName = espDir + "/repair.json"
	logName    = espDir + "/repair.log"
	// AsideName is the copy of a state partition that was reset.
	AsideName = espDir + "/state-damaged.img.gz"
)

// Record is on the ESP, because the state partition cannot be trusted.
type Record struct {
	status.Repair

	// Repairs and Resets count what was begun within a day.
	Repairs int `json:"repairs"`
	Resets  int `json:"resets,omitempty"`

	// RepairedAt and ResetAt are when they began, the last ones last. A clock that
	// is wrong at every other start finds those of the start before the last.
	RepairedAt []time.Time `json:"repairedAt,omitempty"`
	ResetAt    []time.Time `json:"resetAt,omitempty"`
}

const (
	// forget is when repairs and resets are no longer counted.
	forget = 24 * time.Hour
	// maxTimes is how many of each are remembered.
	maxTimes = 16
)

// isNear reports whether a time is within a day, as far as the clock knows.
func isNear(at, now time.Time) bool { return now.Sub(at).Abs() <= forget }

// fresh returns the record without what is too old to matter.
func (r Record) fresh(now time.Time) Record {
	f := Record{
		Repairs:    near(r.RepairedAt, now),
		Resets:     near(r.ResetAt, now),
		RepairedAt: r.RepairedAt,
		ResetAt:    r.ResetAt,
	}
	if isNear(r.At, now) {
		f.Repair = r.Repair
		f.Repairs = max(f.Repairs, r.Repairs) // An earlier version has no times.
		f.Resets = max(f.Resets, r.Resets)
	}
	return f
}

// near returns how many of the times are within a day.
func near(times []time.Time, now time.Time) (count int) {
	for _, at := range times {
		if isNear(at, now) {
			count++
		}
	}
	return count
}

// with returns the times with one more.
func with(times []time.Time, at time.Time) []time.Time {
	times = append(slices.Clone(times), at)
	return times[max(0, len(times)-maxTimes):]
}

// WithESP calls do with the ESP in a device, which nothing else may write to.
func WithESP(device string, do func(*fat.FS) error) error {
	f, err := os.OpenFile(device, os.O_RDWR, 0)
	if err != nil {
		return fmt.Errorf("ESP: %w", err)
	}
	defer f.Close()

	size, err := f.Seek(0, io.SeekEnd)
	if err != nil {
		return fmt.Errorf("ESP: %w", err)
	}
	esp, err := bootdir.Open(f, size, sectorSize)
	if err != nil {
		return fmt.Errorf("ESP %s: %w", device, err)
	}
	if err := do(esp); err != nil {
		return fmt.Errorf("ESP %s: %w", device, err)
	}
	return nil
}

// sectorSize is a sector size that every disk supports.
const sectorSize = 512

// readRecord reads the record, and frees what a power cut has left on the ESP. The
// log of a repair that was cut off becomes the begin of the log: e2fsck may have
// removed what it names.
func (r Runner) readRecord() (Record, error) {
	var record Record
	err := WithESP(r.ESP, func(esp *fat.FS) error {
		if err := esp.Reclaim(); err != nil {
			return err
		}
		text, err := readFile(esp, recordName)
		if err != nil || text == nil {
			return err
		}
		if err := json.Unmarshal(text, &record); err != nil {
			return fmt.Errorf("%s: %w", recordName, err)
		}

		record = record.fresh(r.Now())
		if record.State != status.Repairing {
			return nil
		}
		log, err := readFile(esp, logName)
		if err != nil {
			return err
		}
		return os.WriteFile(r.logFile(), log, 0o600)
	})
	return record, err
}

// readFile reads a file, nil if it is absent.
func readFile(esp *fat.FS, name string) ([]byte, error) {
	r, err := esp.Open(name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	return io.ReadAll(r)
}

// write writes a file of the ESP.
func (r Runner) write(name string, content io.Reader, size int64) error {
	return WithESP(r.ESP, func(esp *fat.FS) error {
		if _, err := esp.ReadDir(espDir); errors.Is(err, fs.ErrNotExist) {
			if err := esp.Mkdir(espDir); err != nil {
				return err
			}
		}
		return esp.Replace(name, content, size)
	})
}

// record writes the record. If that fails, nothing restarts the machine.
func (r Runner) record(v *View) {
	text, err := json.MarshalIndent(v.Record, "", "  ")
	if err == nil {
		err = r.write(recordName, bytes.NewReader(text), int64(len(text)))
	}
	if err != nil {
		v.Uncounted = hint.Line(err)
		r.Log.Error("record the repair", zap.Error(err))
	}
}

// conclude writes the log and the record, in this order: what the record says
// has a log.
func (r Runner) conclude(v *View) {
	r.saveLog(v)
	r.record(v)
	r.System.Show(v.Record.Repair)
}

// saveLog writes the log to the ESP.
func (r Runner) saveLog(v *View) {
	log, err := os.Open(r.logFile())
	if errors.Is(err, fs.ErrNotExist) {
		return
	}
	if err == nil {
		defer log.Close()
		var info fs.FileInfo
		info, err = log.Stat()
		if err == nil {
			err = r.write(logName, log, info.Size())
		}
	}

	if err != nil {
		v.Uncounted = hint.Line(err)
		r.Log.Error("save the log of the repair", zap.Error(err))
		return
	}
	if v.Record.Log == "" {
		v.Record.Log = "/" + logName + " on the ESP"
	}
}

// remember is how long a repair is shown.
const remember = 30 * 24 * time.Hour

// ESP reads files of the EFI system partition (source.ESP).
type ESP interface {
	Open(path string) (io.ReadCloser, error)
}

// Last returns the last repair of a node that runs from its state partition,
// nil if there was none in the last month.
func Last(esp ESP, now time.Time) (*status.Repair, error) {
	file, err := esp.Open("/" + recordName)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read the last repair: %w", err)
	}
	defer file.Close()

	var r Record
	if err := json.NewDecoder(file).Decode(&r); err != nil {
		return nil, fmt.Errorf("read the last repair: %s: %w", recordName, err)
	}
	if age := now.Sub(r.At); age > remember || age < -remember {
		return nil, nil // In the future, it is from a clock that was wrong.
	}

	// An operator has repaired it, or it was only locked.
	if r.State == status.RepairFailed {
		return nil, nil
	}

	// The power was cut after e2fsck had done its work.
	if r.State == status.Repairing {
		r.State = status.RepairDone
		r.Log = "/" + logName + " on the ESP"
	}
	return &r.Repair, nil
}
