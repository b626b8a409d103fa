package repository

import (
	"encoding/json"
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/loam-os/loam/image/bundle"
)

var noon = time.Date(2026, 11, 28, 12, 0, 0, 0, time.UTC)

func TestWavesRise(t *testing.T) {
	many := make([]Wave, maxWaves+1)
	for i := range many {
		many[i] = Wave{noon.Add(time.Duration(i) * time.Hour), i + 1}
	}

	for _, tt := range []struct {
		name  string
		waves []Wave
		want  string // in the error, "" for none
	}{
		{"none", nil, ""},
		{"one, for some machines only", []Wave{{noon, 1}}, ""},
		{"up to all", []Wave{{noon, 1}, {noon.Add(time.Hour), 25}, {noon.Add(2 * time.Hour), 100}}, ""},
		{"as many as there may be", many[:maxWaves], ""},
		{"too many", many, "33 waves: want up to 32"},
		{"without a time", []Wave{{Share: 1}}, "wave 1: it has no time"},
		{"for no machine", []Wave{{noon, 0}}, "wave 1: 0 %"},
		{"for fewer than none", []Wave{{noon, -1}}, "wave 1: -1 %"},
		{"for more than all", []Wave{{noon, 101}}, "wave 1: 101 %"},
		{"at the same time", []Wave{{noon, 1}, {noon, 2}}, "wave 2: it is not later"},
		{"back in time", []Wave{{noon, 1}, {noon.Add(-time.Hour), 2}}, "wave 2: it is not later"},
		{"the same share", []Wave{{noon, 1}, {noon.Add(time.Hour), 1}}, "wave 2: 1 %: want more than 1"},
		{"a smaller share", []Wave{{noon, 5}, {noon.Add(time.Hour), 1}}, "wave 2: 1 %: want more than 5"},
	} {
		err := CheckWaves(tt.waves)
		if (err == nil) != (tt.want == "") || (err != nil && !strings.Contains(err.Error(), tt.want)) {
			t.Errorf("%s: %v, want %q", tt.name, err, tt.want)
		}
	}
}

// TestAWaveReachesItsShare counts, among many machines, those that each wave reaches,
// and that another version begins with other machines.
func TestAWaveReachesItsShare(t *testing.T) {
	const machines = 20_000
	waves := []Wave{{noon, 1}, {noon.Add(time.Hour), 25}, {noon.Add(2 * time.Hour), 60}}
	one := Release{Version: "1.2.3", Waves: waves}
	two := Release{Version: "1.2.4", Waves: waves}

	count := map[time.Time]int{}
	never, inBoth := 0, 0
	for i := range machines {
		id := fmt.Sprintf("%032x", i)
		from, ok := one.Reaches(id)
		if !ok {
			never++
			continue
		}
		count[from]++
		if again, _ := two.Reaches(id); from == noon && again == noon {
			inBoth++
		}
	}

	for _, tt := range []struct {
		name    string
		got     int
		percent float64
	}{
		{"first", count[noon], 1},
		{"second", count[noon.Add(time.Hour)], 24},
		{"third", count[noon.Add(2*time.Hour)], 35},
		{"never", never, 40},
	} {
		// Five times the standard deviation of a draw; the IDs are always the same.
		share := tt.percent / 100
		want := share * machines
		if off := math.Abs(float64(tt.got) - want); off > 5*math.Sqrt(want*(1-share)) {
			t.Errorf("%s: %d machines, want about %.0f", tt.name, tt.got, want)
		}
	}
	if inBoth > 20 {
		t.Errorf("%d machines are in the first wave of both versions, want about 2", inBoth)
	}
}

func TestAReleaseWithoutWavesReachesAllAtOnce(t *testing.T) {
	from, ok := Release{Version: "1.2.3"}.Reaches("any")
	if !from.IsZero() || !ok {
		t.Errorf("%v, %v", from, ok)
	}
}

// TestWavesAreRead publishes waves in the entry of a release. A reader takes no release
// whose waves it does not understand.
func TestWavesAreRead(t *testing.T) {
	ix := bundle.Index{ImageID: "loam-node-os", Version: "1.2.3", Arch: "amd64", Profile: "cloud"}
	waves := []Wave{{noon, 1}, {noon.Add(time.Hour), 100}}
	got, entry, err := Describe(ix, []byte("text"), waves)
	if err != nil {
		t.Fatal(err)
	}
	if len(got.Waves) != 2 || got.Waves[0] != waves[0] || got.Waves[1] != waves[1] {
		t.Errorf("read %v, want %v", got.Waves, waves)
	}

	broken := json.RawMessage(strings.Replace(string(*entry.Custom), `"share":100`, `"share":101`, 1))
	entry.Custom = &broken
	if _, err := release(got.Index, entry); err == nil {
		t.Error("a share of 101 % was read")
	}

	if _, _, err := Describe(ix, []byte("text"), []Wave{{noon, 0}}); err == nil {
		t.Error("a share of 0 % can be published")
	}
}
