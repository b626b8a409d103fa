package loop

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/loam-os/loam/agent/status"
	"github.com/loam-os/loam/hint/fault"
)

func TestADiskFails(t *testing.T) {
	w := newFakeNode()
	w.text = "one"
	r := &recorder{}
	w.cluster = r
	read := func(used int, code fault.Code) []status.Disk {
		d := status.Disk{Name: "sda", Used: &used, Code: code}
		if code != "" {
			d.Problem = "sda is " + string(code)
		}
		return []status.Disk{d}
	}

	run(t, w, func(wait func()) {
		last := func() status.Status { return w.shown[len(w.shown)-1] }
		for _, step := range []struct {
			disks  []status.Disk
			health status.Health
			news   bool
		}{
			{read(10, ""), status.Well, false},
			{read(91, fault.DiskWorn), status.Well, true},
			{read(92, fault.DiskWorn), status.Well, false},
			{read(93, fault.DiskFailing), status.Degraded, true},
			{[]status.Disk{}, status.Well, true},
			{many(fault.DiskFailing), status.Degraded, true},
			{[]status.Disk{}, status.Well, true},
		} {
			told := len(w.told)
			w.disks <- step.disks
			wait()
			if last().Health != step.health || !slices.EqualFunc(last().Disks, step.disks, isSameDisk) ||
				(len(step.disks) > 0 && *last().Disks[0].Used != *step.disks[0].Used) {
				t.Errorf("%+v: the node is %s, disks %+v", step.disks, last().Health, last().Disks)
			}
			if news := len(w.told) > told; news != step.news {
				t.Errorf("%+v is news on the consoles: %t", step.disks, news)
			}
		}
	})

	told := slices.DeleteFunc(r.events, func(e string) bool { return !strings.HasPrefix(e, "Disk") })
	want := []string{"DiskWorn: sda is disk-worn", "DiskFailing: sda is disk-failing"}
	if len(told) != 3 || !strings.HasPrefix(told[2], "DiskFailing: d0 fails, d1 fails, ") ||
		!slices.Equal(told[:2], want) {
		t.Errorf("events %q, want %q", told, want)
	}
}

// many returns 200 disks.
func many(code fault.Code) []status.Disk {
	var all []status.Disk
	for i := range 200 {
		name, used := fmt.Sprint("d", i), 10
		all = append(all, status.Disk{Name: name, Used: &used, Code: code, Problem: name + " fails"})
	}
	return all
}
