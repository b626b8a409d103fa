package machine_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/loam-os/loam/agent/machine"
	"github.com/loam-os/loam/agent/volume"
)

// TestOfferedClaimsChooseTheirDisk: each line that a refusal offers for machine.yaml
// has the disk that it is offered for chosen.
func TestOfferedClaimsChooseTheirDisk(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 6))
	offers := 0
	refusals := 0
	for range 2000 {
		var disks []volume.Disk
		for i := range 1 + r.IntN(5) {
			d := volume.Disk{
				Device:     fmt.Sprintf("/dev/sd%c", 'a'+i),
				Size:       int64(100+r.IntN(3)) << 30,
				SectorSize: 512,
				Serial:     []string{"", "S1", "S 2", "0x10", `"S'3\`, "1e3", "yes"}[r.IntN(7)],
				Model:      []string{"", "FAST", "SLOW: 1"}[r.IntN(3)],
				Removable:  r.IntN(9) == 0,
			}

			if r.IntN(3) > 0 {
				d.Paths = []string{fmt.Sprintf("pci-0000:%02d:00.0-ata-1", i)}
			}

			switch r.IntN(6) {
			case 0:
				d.Content.Evidence = []volume.Evidence{{Name: "ext4", Offset: 1080}}
			case 1:
				d.Uses = []string{"mounted at /var"}
			case 2:
				if r.IntN(3) == 0 {
					d.Content = volume.Content{
						Evidence:   []volume.Evidence{{Name: "xfs"}},
						Volume:     volume.Label,
						FileSystem: "xfs",
					}
				}
			}

			disks = append(disks, d)
		}

		made := r.IntN(4) == 0
		_, err := volume.Decide(volume.Facts{Disks: disks, Made: made}, volume.OfSize(101<<30))
		refusal := (*volume.Refusal)(nil)
		if !errors.As(err, &refusal) {
			continue
		}

		refusals++
		for _, c := range refusal.Candidates {
			for _, offer := range []struct {
				yaml    string
				emptied bool
			}{{c.Offer, false}, {c.OfferEmptied, true}} {
				if offer.yaml == "" {
					continue
				}

				offers++
				m, err := machine.Decode("offer", []byte(head+offer.yaml+"\n"))
				if err != nil {
					t.Fatal(err)
				}

				got, err := volume.Decide(
					volume.Facts{Disks: emptied(disks, c.Disk.Device, offer.emptied), Made: made},
					m.DataVolume.Claim(),
				)
				if err != nil || got.Device != c.Disk.Device {
					t.Errorf("%s for %s takes %q\n%v\n%v",
						offer.yaml, c.Disk.Device, got.Device, err, refusal)
				}
			}
		}
	}

	t.Logf("%d offers in %d refusals", offers, refusals)
}

// emptied are the disks with that one empty, if really.
func emptied(disks []volume.Disk, device string, really bool) []volume.Disk {
	out := append([]volume.Disk(nil), disks...)
	for i := range out {
		if really && out[i].Device == device {
			out[i].Content = volume.Content{}
		}
	}
	return out
}
