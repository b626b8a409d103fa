package wear

import (
	"io/fs"
	"path"
	"strconv"
	"strings"
)

// An eMMC says its life in tenths, from 1 for the first to 11 for over, and how
// many of its spare blocks are used (JESD84-B51, sections 7.4.24 and 7.4.25).
const (
	lifeOver     = 11 // what is above is not defined
	spareWarning = 2  // four fifths are used
	spareUrgent  = 3  // nine tenths are used
)

// readEMMC returns what an eMMC says of itself in sysfs; false for an SD card,
// which says nothing.
func readEMMC(root fs.FS, name string) (r Reading, says bool) {
	dir := path.Join("sys/block", name, "device")
	text := func(file string) string {
		text, err := fs.ReadFile(root, path.Join(dir, file))
		if err != nil {
			return "" // The disk is away, or does not say.
		}
		return strings.TrimSpace(string(text))
	}

	r = Reading{Name: name, Model: text("name"), Serial: text("serial")}

	// Two kinds of memory: the one that is worn most counts.
	tenths := int64(0)
	for _, life := range strings.Fields(text("life_time")) {
		if tenth := hexadecimal(life); tenth <= lifeOver {
			tenths = max(tenths, tenth)
		}
	}
	if tenths > 0 {
		r.Used = percent(float64(tenths-1) * 10)
		says = true
	}

	switch hexadecimal(text("pre_eol_info")) {
	case 0:
		return r, says
	case spareWarning:
		r.Spare = percent(20)
	case spareUrgent:
		r.Spare = percent(10)
		r.Fails = []string{"its spare blocks are nearly used up"}
	}
	return r, true
}

// hexadecimal returns a number such as 0x0a, 0 if the text is none.
func hexadecimal(text string) int64 {
	n, err := strconv.ParseInt(text, 0, 16)
	if err != nil {
		return 0
	}
	return n
}
