package install

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"runtime"
	"slices"

	"github.com/loam-os/loam/firmware/efivar"
	"github.com/loam-os/loam/firmware/loader"
	"github.com/loam-os/loam/firmware/loadoption"
	"github.com/loam-os/loam/partitions"
	"github.com/loam-os/loam/partitions/gpt"
)

// ErrNoVariables says that there are no firmware variables: the machine was not
// started by UEFI, or its firmware hides them from the system.
var ErrNoVariables = errors.New("no variables of UEFI firmware")

// StartNext makes the firmware start the loader of a disk at the next start,
// and puts it first in the boot order. sys is the directory of sysfs.
func StartNext(sys string, table gpt.Table) error {
	root := os.DirFS(sys)
	if names, err := fs.ReadDir(root, efivar.Dir); err != nil || len(names) == 0 {
		return ErrNoVariables
	}

	option, err := loaderOf(table)
	if err != nil {
		return err
	}

	there, err := loadoption.List(root)
	if err != nil {
		return err
	}

	number, known, ok := loadoption.Place(there, option)
	if !ok {
		return errors.New("the firmware's boot menu is full")
	}

	write := func(name string, value []byte) error {
		return efivar.Write(sys, name, efivar.Global, value)
	}

	if !known {
		if err := write(loadoption.Name(number), option); err != nil {
			return err
		}
	}

	order, err := efivar.Read(root, "BootOrder", efivar.Global)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}

	next := write("BootNext", loadoption.EncodeOrder(number))
	return errors.Join(next,
		write("BootOrder",
			loadoption.EncodeOrder(loadoption.First(loadoption.ParseOrder(order), number)...)))
}

// loaderOf returns the boot entry for the loader on the ESP of a disk.
func loaderOf(table gpt.Table) ([]byte, error) {
	at := slices.IndexFunc(table.Partitions, func(p gpt.Partition) bool {
		return partitions.RoleOf(p.Type) == partitions.ESP
	})
	if at < 0 {
		return nil, fmt.Errorf("disk %s: no ESP", table.DiskGUID)
	}

	p := table.Partitions[at]
	sector := int64(table.SectorSize)
	return loadoption.Option{
		Description: "Loam",
		Partition:   uint32(p.Index),
		Start:       uint64(p.Start / sector),
		Size:        uint64(p.Size / sector),
		ID:          p.UUID,
		Path:        loader.Path(runtime.GOARCH),
	}.Encode(), nil
}
