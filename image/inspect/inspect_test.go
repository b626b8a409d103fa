package inspect

import (
	"errors"
	"io"
	"strings"
	"testing"

	"github.com/google/uuid"

	"github.com/loam-os/loam/firmware/loader"
	"github.com/loam-os/loam/image/esp"
	"github.com/loam-os/loam/partitions"
	"github.com/loam-os/loam/partitions/gpt"
	"github.com/loam-os/loam/test/firmware"
)

// TestALoaderThatCannotBeRead: an unreadable loader is not a missing loader.
func TestALoaderThatCannotBeRead(t *testing.T) {
	for _, test := range []struct{ name, file, want string }{
		{"none", "loader/loader.conf", ""},
		{
			"a directory in its place",
			loader.Path("amd64") + "/file",
			"partition 1: open: " + loader.Path("amd64"),
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			disk := firmware.NewMemory(nil)
			part := gpt.Partition{
				Index: 1,
				Type:  partitions.TypeUUID(partitions.ESP, "amd64"),
				UUID:  uuid.New(),
				Label: "esp",
				Start: gpt.Alignment,
				Size:  528 << 20,
			}

			table := gpt.Table{
				DiskGUID:   uuid.New(),
				SectorSize: 512,
				DiskSize:   part.End() + gpt.Alignment,
				Partitions: []gpt.Partition{part},
			}

			err := errors.Join(table.Create(disk),
				esp.Write(io.NewOffsetWriter(disk, part.Start), part.Size, 512, 1,
					[]esp.File{{Path: test.file, Data: []byte("text")}}))
			if err != nil {
				t.Fatal(err)
			}

			if _, err := Read(disk, table.DiskSize); (err == nil) != (test.want == "") ||
				err != nil && !strings.Contains(err.Error(), test.want) {
				t.Errorf("%v, want %q", err, test.want)
			}
		})
	}
}
