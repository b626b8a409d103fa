package config_test

import (
	"fmt"
	"math/rand/v2"

	"github.com/loam-os/loam/test/power"
)

// crash is how a run of the agent ends: it is killed, or the power is cut.
type crash struct {
	kill bool
	loss power.Loss
}

func (c crash) String() string {
	if c.kill {
		return "kill"
	}
	return "power cut, " + c.loss.String()
}

// crashes are all ways to end before one op, with some random ones.
func crashes(random int, seed uint64) []crash {
	all := []crash{{kill: true}}
	for _, entries := range []power.Part{power.All, power.None} {
		for _, content := range []power.Part{power.All, power.None, power.Half, power.Zeros} {
			all = append(all, crash{loss: power.Loss{Entries: entries, Content: content}})
		}
	}

	for i := range random {
		all = append(all, crash{loss: power.Loss{
			Entries: power.Random,
			Content: power.Random,
			Seed:    seed<<16 + uint64(i),
		}})
	}
	return all
}

// leave is the disk that the crash leaves of d.
func (c crash) leave(d *power.Disk) *power.Disk {
	if c.kill {
		return d.Clone()
	}
	return d.Cut(c.loss, volatile...)
}

// point is one crash: before op k, in one way.
type point struct {
	k int
	crash
	disk  *power.Disk
	units crashUnits
	// key distinguishes the states that a crash leaves, with the results that
	// are right then.
	key string
}

// points returns the points of the chosen crashes that leave something new.
func (r playback) points(chosen map[int][]crash) []point {
	var all []point
	seen := map[string]bool{}
	r.Replay(func(k int, d *power.Disk) bool {
		units := r.Ops[k].Note.(crashUnits)
		for _, c := range chosen[k] {
			if c.kill && units.ran == nil {
				continue // /init is at work: there is no agent yet.
			}
			left := c.leave(d)
			key := fmt.Sprintf("%x %v", left.Sum(), r.allowedNames(k, !c.kill))
			if c.kill {
				key += fmt.Sprint(units.memory.Texts, units.running())
			}
			if !seen[key] {
				seen[key] = true
				all = append(all, point{
					k:     k,
					crash: c,
					disk:  left,
					units: units,
					key:   key,
				})
			}
		}
		return true
	})

	return all
}

// choose are the crashes to play, by op: limit of them by chance, 0 for all.
func (r playback) choose(limit, random int, seed uint64) map[int][]crash {
	var all []point
	for k := range r.Ops {
		for _, c := range crashes(random, seed+uint64(k)) {
			all = append(all, point{k: k, crash: c})
		}
	}

	if limit > 0 && limit < len(all) {
		chance := rand.New(rand.NewPCG(seed, 1))
		chance.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
		all = all[:limit]
	}

	chosen := map[int][]crash{}
	for _, p := range all {
		chosen[p.k] = append(chosen[p.k], p.crash)
	}
	return chosen
}

func (r playback) allowedNames(k int, cut bool) []string {
	var names []string
	for _, d := range r.allowed(k, cut) {
		names = append(names, d.Digest())
	}
	return names
}
