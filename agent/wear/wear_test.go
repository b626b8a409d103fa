package wear

import (
	"encoding/json"
	"os"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/google/go-cmp/cmp"

	"github.com/loam-os/loam/hint/fault"
)

// TestParse reads what smartctl of the image printed about disks of QEMU, and
// what it prints of disks that are worn or fail.
func TestParse(t *testing.T) {
	nvme := Reading{Name: "d", Model: "QEMU NVMe Ctrl", Serial: "S-nvme", Used: new(0), Celsius: 50}
	with := func(change func(r *Reading)) *Reading {
		r := nvme
		change(&r)
		return &r
	}
	sata := Reading{Name: "d", Model: "QEMU HARDDISK", Serial: "S-ide", Hours: 1, Celsius: 31}
	ata := func(change func(r *Reading)) *Reading {
		r := sata
		change(&r)
		return &r
	}

	for _, test := range []struct {
		name, file string
		// change is merged into the file (RFC 7396).
		change string
		want   *Reading // nil: it says nothing
	}{
		{"NVMe, as it is", "nvme", "", &nvme},
		{"SATA, as it is", "sata", "", &sata},
		{"virtio", "virtio", "", nil},
		{
			"life and spare blocks", "nvme",
			`{"nvme_smart_health_information_log": {"percentage_used": 97, "available_spare": 40,
				"available_spare_threshold": 10, "media_errors": 12},
				"power_on_time": {"hours": 30000}}`,
			with(func(r *Reading) {
				r.Used, r.Spare, r.Unreadable, r.Hours = new(97), new(40), 12, 30000
			}),
		},
		{
			"every warning", "nvme", `{"nvme_smart_health_information_log": {"critical_warning": 63}}`,
			with(func(r *Reading) {
				r.Fails = []string{
					"its spare blocks are nearly used up",
					"it is not reliable after many errors",
					"it no longer takes writes",
					"the backup of its volatile memory has failed",
					"its persistent memory region no longer takes writes",
				}
			}),
		},
		{
			"too hot", "nvme",
			`{"nvme_smart_health_information_log": {"critical_warning": 2},
				"smart_status": {"passed": false}, "temperature": {"current": 91}}`,
			with(func(r *Reading) { r.Celsius = 91 }),
		},
		{
			"numbers of a broken disk", "nvme",
			`{"nvme_smart_health_information_log": {"percentage_used": 1e300, "media_errors": -4,
				"critical_warning": 1e99}, "power_on_time": {"hours": 3.4e38}}`,
			with(func(r *Reading) { r.Used, r.Hours = new(255), 1<<53 }),
		},
		{
			"its own assessment", "sata", `{"smart_status": {"passed": false}}`,
			ata(func(r *Reading) { r.Fails = []string{"its own assessment is that it will"} }),
		},
		{
			"statistics come before attributes", "sata",
			`{"ata_device_statistics": {"pages": [
				{"number": 1, "table": [{"offset": 8, "value": 5, "flags": {"valid": true}}]},
				{"number": 7, "table": [
					{"offset": 16, "value": 6, "flags": {"valid": true}},
					{"offset": 8, "value": 31, "flags": {"valid": true}}]}]},
			  "ata_smart_attributes": {"table": [{"id": 231, "name": "SSD_Life_Left", "value": 10}]}}`,
			ata(func(r *Reading) { r.Used = new(31) }),
		},
		{
			"statistics that are not valid", "sata",
			`{"ata_device_statistics": {"pages": [
				{"number": 7, "table": [{"offset": 8, "value": 31, "flags": {"valid": false}}]}]},
			  "ata_smart_attributes": {"table": [{"id": 177, "name": "Wear_Leveling_Count", "value": 4},
				{"id": 197, "name": "Current_Pending_Sector", "value": 100, "raw": {"value": 8}}]}}`,
			ata(func(r *Reading) { r.Used, r.Unreadable = new(96), 8 }),
		},
		{
			"an attribute that is no percentage", "sata",
			`{"ata_smart_attributes": {"table": [
				{"id": 177, "name": "Wear_Leveling_Count", "value": 200}]}}`,
			&sata,
		},
		{
			"SAS", "sata",
			`{"model_name": null, "scsi_vendor": "EXAMPLE", "scsi_product": "S900",
				"scsi_percentage_used_endurance_indicator": 3}`,
			ata(func(r *Reading) { r.Model, r.Used = "EXAMPLE S900", new(3) }),
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			got, says, err := parse("d", merged(t, "testdata/"+test.file+".json", test.change))
			if err != nil {
				t.Fatal(err)
			}
			if says != (test.want != nil) {
				t.Fatalf("says %t: %+v", says, got)
			}
			if !says {
				return
			}
			if diff := cmp.Diff(*test.want, got); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
}

// merged returns the JSON of a file with a change merged into it.
func merged(t *testing.T, file, change string) []byte {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if change == "" {
		return text
	}

	var base, more map[string]any
	if err := json.Unmarshal(text, &base); err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal([]byte(change), &more); err != nil {
		t.Fatal(err)
	}
	merge(base, more)
	text, err = json.Marshal(base)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

func merge(base, more map[string]any) {
	for key, v := range more {
		inner, ok := v.(map[string]any)
		below, isObject := base[key].(map[string]any)
		switch {
		case ok && isObject:
			merge(below, inner)
		case v == nil:
			delete(base, key)
		default:
			base[key] = v
		}
	}
}

func TestParseRefusesOtherText(t *testing.T) {
	for _, text := range []string{"", "smartctl: killed", `{"model_name": 7}`, `[]`} {
		if r, _, err := parse("sda", []byte(text)); err == nil ||
			!strings.Contains(err.Error(), "smartctl says of sda") {
			t.Errorf("%q: %+v, %v", text, r, err)
		}
	}
}

func TestEMMC(t *testing.T) {
	for _, test := range []struct {
		name, life, end string
		want            *Reading // nil: it says nothing
	}{
		{"an SD card", "", "", nil},
		{"one that does not define it", "0x00 0x00", "0x00", nil},
		{"new", "0x01 0x01", "0x01", &Reading{Used: new(0)}},
		{"the kind that is worn most", "0x02 0x0a", "0x01", &Reading{Used: new(90)}},
		{"beyond its life", "0x0b 0x01", "0x01", &Reading{Used: new(100)}},
		{"what is not defined", "0xff 0x02", "0x01", &Reading{Used: new(10)}},
		{"few spare blocks", "0x03 0x03", "0x02", &Reading{Used: new(20), Spare: new(20)}},
		{
			"hardly any", "0x03 0x03", "0x03",
			&Reading{
				Used: new(20), Spare: new(10),
				Fails: []string{"its spare blocks are nearly used up"},
			},
		},
		{"no numbers", "worn very", "much", nil},
	} {
		t.Run(test.name, func(t *testing.T) {
			root := fstest.MapFS{}
			for file, text := range map[string]string{
				"life_time": test.life, "pre_eol_info": test.end, "name": "DG4016", "serial": "0x1234abcd",
			} {
				if text != "" {
					root["sys/block/mmcblk0/device/"+file] = &fstest.MapFile{Data: []byte(text + "\n")}
				}
			}

			got, says := readEMMC(root, "mmcblk0")
			if says != (test.want != nil) {
				t.Fatalf("says %t: %+v", says, got)
			}
			if !says {
				return
			}
			test.want.Name, test.want.Model, test.want.Serial = "mmcblk0", "DG4016", "0x1234abcd"
			if diff := cmp.Diff(*test.want, got); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
}

func TestDecide(t *testing.T) {
	for _, test := range []struct {
		name    string
		reading Reading
		code    fault.Code
		problem string
	}{
		{"well", Reading{Used: new(89), Unreadable: 3}, "", ""},
		{"says little", Reading{}, "", ""},
		{
			"worn", Reading{Model: "M", Serial: "S", Used: new(90)}, fault.DiskWorn,
			"the disk sda (M, serial number S) is worn: 90 % of the writes that it is made for are used",
		},
		{
			"fails and is worn", Reading{Used: new(120), Fails: []string{"a", "b"}}, fault.DiskFailing,
			"the disk sda fails: a, b",
		},
		{
			"calls itself a terminal command",
			Reading{Model: "\x1b[2J\u009bM\n" + strings.Repeat("m", 1<<20), Fails: []string{"a"}},
			fault.DiskFailing,
			"the disk sda ([2J M " + strings.Repeat("m", 58) + " ...) fails: a",
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			test.reading.Name = "sda"
			got := decide(test.reading)
			if got.Code != test.code || got.Problem != test.problem ||
				(got.Hint != "") != (test.code != "") {
				t.Errorf("%+v, want %s: %s", got, test.code, test.problem)
			}
		})
	}

	got, err := NewObserver(sysfs(), nil).Observe(t.Context())
	if got == nil || len(got) > 0 || err != nil {
		t.Errorf("no disk: %+v, %v, want none, and not unknown", got, err)
	}
}

// TestObserve asks no disk that is virtual, of another machine, or without a
// medium.
func TestObserve(t *testing.T) {
	file := func(text string) *fstest.MapFile { return &fstest.MapFile{Data: []byte(text)} }
	root := fstest.MapFS{
		"sys/block/vda/size":                      file("2048\n"),
		"sys/block/sda/size":                      file("0\n"),
		"sys/block/sdb/size":                      file("2048\n"),
		"sys/block/sdb/hidden":                    file("1\n"),
		"sys/block/mmcblk1boot0/size":             file("2048\n"),
		"sys/block/mmcblk1boot0/device/life_time": file("0x0b 0x0b\n"),
		"sys/block/mmcblk1/size":                  file("2048\n"),
		"sys/block/mmcblk1/device/life_time":      file("0x04 0x01\n"),
		"sys/block/mmcblk1/device/pre_eol_info":   file("0x01\n"),
	}
	got, err := NewObserver(root, nil).Observe(t.Context())
	if err != nil || len(got) != 1 || got[0].Name != "mmcblk1" || *got[0].Used != 30 {
		t.Errorf("%+v, %v, want the eMMC", got, err)
	}
}
