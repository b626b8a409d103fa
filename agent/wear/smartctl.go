package wear

import (
	"encoding/json"
	"fmt"
	"math"
)

// report is what smartctl prints with --json (format version 1.0), as far as it
// matters here. Its numbers are floats, as a disk may say what no integer holds.
type report struct {
	Model  string `json:"model_name"`
	Serial string `json:"serial_number"`
	// SCSI disks have these instead of a model.
	Vendor  string `json:"scsi_vendor"`
	Product string `json:"scsi_product"`

	Health *struct {
		Passed bool `json:"passed"`
	} `json:"smart_status"`
	On struct {
		Hours float64 `json:"hours"`
	} `json:"power_on_time"`
	Temperature struct {
		Current float64 `json:"current"`
	} `json:"temperature"`

	NVMe *nvmeLog `json:"nvme_smart_health_information_log"`

	Attributes struct {
		Table []attribute `json:"table"`
	} `json:"ata_smart_attributes"`
	Statistics struct {
		Pages []struct {
			Number int         `json:"number"`
			Table  []statistic `json:"table"`
		} `json:"pages"`
	} `json:"ata_device_statistics"`

	SCSIUsed *float64 `json:"scsi_percentage_used_endurance_indicator"`
}

// nvmeLog is the SMART / Health Information log page (NVM Express Base
// Specification, section 5.16.1.3).
type nvmeLog struct {
	Warning float64 `json:"critical_warning"`
	Spare   float64 `json:"available_spare"`
	// SpareLimit is below what of Spare the disk warns; 0 if it has none.
	SpareLimit float64 `json:"available_spare_threshold"`
	Used       float64 `json:"percentage_used"`
	Unreadable float64 `json:"media_errors"`
}

// warnings are the bits of the critical warning of an NVMe disk that say that it
// fails. Bit 1 is the temperature, which passes.
var warnings = map[int]string{
	0: "its spare blocks are nearly used up",
	2: "it is not reliable after many errors",
	3: "it no longer takes writes",
	4: "the backup of its volatile memory has failed",
	5: "its persistent memory region no longer takes writes",
}

// attribute is a SMART attribute of an ATA disk, by the name that smartctl's
// database of drives has for it.
type attribute struct {
	ID int `json:"id"`
	// Name is that of the maker for what Value and Raw are.
	Name  string  `json:"name"`
	Value float64 `json:"value"`
	Raw   struct {
		Value float64 `json:"value"`
	} `json:"raw"`
}

// statistic is of the Device Statistics log of an ATA disk.
type statistic struct {
	Offset int     `json:"offset"`
	Value  float64 `json:"value"`
	Flags  struct {
		Valid bool `json:"valid"`
	} `json:"flags"`
}

// The Percentage Used Endurance Indicator in the Device Statistics log
// (ATA Command Set 4, section 9.5.9).
const (
	solidStatePage  = 7
	enduranceOffset = 8
)

// lifeLeft are the names of attributes whose normalized value falls from 100 to
// 0 while the flash memory is used up.
var lifeLeft = []string{
	"SSD_Life_Left",
	"Percent_Lifetime_Remain",
	"Remaining_Lifetime_Perc",
	"Perc_Rated_Life_Remain",
	"Media_Wearout_Indicator",
	"Wear_Leveling_Count",
}

// pending is the attribute that counts the blocks that an ATA disk could not
// read and has not replaced yet, "Current Pending Sector".
const pending = 197

// parse returns what smartctl printed about a disk; false if the disk says
// nothing of its health.
func parse(name string, text []byte) (r Reading, says bool, err error) {
	var said report
	if err := json.Unmarshal(text, &said); err != nil {
		return r, false, fmt.Errorf("read what smartctl says of %s: %w", name, err)
	}
	if said.Health == nil && said.NVMe == nil {
		return r, false, nil
	}

	r = Reading{
		Name:    name,
		Model:   said.Model,
		Serial:  said.Serial,
		Hours:   whole(said.On.Hours),
		Celsius: int(whole(said.Temperature.Current)),
	}
	if r.Model == "" {
		r.Model = said.Vendor + " " + said.Product
	}

	switch {
	case said.NVMe != nil:
		said.NVMe.addTo(&r)
	case !said.Health.Passed:
		r.Fails = []string{"its own assessment is that it will"}
	}
	r.Used = said.used(r.Used)
	for _, a := range said.Attributes.Table {
		if a.ID == pending {
			r.Unreadable = whole(a.Raw.Value)
		}
	}
	return r, true, nil
}

// addTo adds what an NVMe disk says.
func (l nvmeLog) addTo(r *Reading) {
	for bit := range 8 {
		if text, fails := warnings[bit]; fails && whole(l.Warning)&(1<<bit) != 0 {
			r.Fails = append(r.Fails, text)
		}
	}
	r.Used = percent(l.Used)
	if l.Spare > 0 || l.SpareLimit > 0 {
		r.Spare = percent(l.Spare)
	}
	r.Unreadable = whole(l.Unreadable)
}

// used returns how many percent of its life a SATA or SAS disk has used, or else
// what is known already.
func (r report) used(known *int) *int {
	if r.SCSIUsed != nil {
		return percent(*r.SCSIUsed)
	}

	for _, page := range r.Statistics.Pages {
		for _, s := range page.Table {
			if page.Number == solidStatePage && s.Offset == enduranceOffset && s.Flags.Valid {
				return percent(s.Value)
			}
		}
	}

	for _, name := range lifeLeft {
		for _, a := range r.Attributes.Table {
			if a.Name == name && a.Value <= 100 {
				return percent(100 - a.Value)
			}
		}
	}
	return known
}

// percent returns a percentage of one byte.
func percent(v float64) *int {
	n := int(min(whole(v), math.MaxUint8))
	return &n
}

// whole returns a number without a fraction, not below 0.
func whole(v float64) int64 {
	return int64(min(max(v, 0), 1<<53)) // What JSON has exactly.
}
