package serve

import (
	"cmp"
	"fmt"
	"io"
	"net/netip"
	"sync"
	"time"

	"github.com/loam-os/loam/agent/link/neighbour"
	"github.com/loam-os/loam/hint"
	"github.com/loam-os/loam/image/pxe"
)

// again is the time in which an equal message is not repeated: firmware asks
// several times.
const again = 15 * time.Second

// maxSaid bounds the lines that are remembered, as whoever asks can have one
// for each question.
const maxSaid = 1000

// journal prints a line for each thing that happens.
type journal struct {
	out io.Writer
	now func() time.Time

	mu   sync.Mutex
	said map[string]time.Time
}

// say prints what a machine asked and what it got.
func (j *journal) say(who, asked, got string) {
	if address, err := netip.ParseAddr(who); err == nil {
		who = called(address)
	}

	line := fmt.Sprintf("%-17s  %s: %s", who, asked, got)
	j.mu.Lock()
	defer j.mu.Unlock()

	now := j.now()
	if last, ok := j.said[line]; ok && now.Sub(last) < again {
		return
	}

	for old, at := range j.said {
		if now.Sub(at) >= again {
			delete(j.said, old)
		}
	}

	if len(j.said) >= maxSaid {
		clear(j.said)
	}

	j.said[line] = now
	fmt.Fprintf(j.out, "%s  %s\n", now.Format(time.TimeOnly), line)
}

// called is the MAC of an address of this network, and else the address.
func called(address netip.Addr) string {
	return cmp.Or(neighbour.MAC(address), address.String())
}

// offered records the answer to a machine over DHCP.
func (j *journal) offered(offers pxe.Offers) func(pxe.Request, pxe.Offer, error) {
	return func(r pxe.Request, offer pxe.Offer, err error) {
		asks := string(r.Kind) + " asks what to boot"
		switch {
		case err != nil:
			j.say(r.MAC, asks, hint.Line(err))
		case r.Kind == pxe.Init:
			j.say(r.MAC, "Loam starts and asks for its server", offer.File)
		case offer.Disk:
			j.say(r.MAC, asks, "its disk, as it is installed")
		case r.Kind == pxe.IPXE:
			j.say(r.MAC, asks, offer.File)
		default:
			j.say(r.MAC, asks, offers.Builds[r.Arch].String()+" for "+r.Arch)
		}
	}
}
