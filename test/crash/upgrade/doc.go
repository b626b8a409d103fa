// Package upgrade runs upgrades, drills and ways back on whole disks in memory:
// its tests cut the power, or kill the agent, at every moment. The result is a
// crash state: an emulated firmware and boot loader (test/firmware) start it,
// and the machine goes on. An oracle checks that it always comes up and ends as
// it should.
//
// LOAM_CRASH_STATES says how many different states the power cuts must reach.
// Without it, the tests take samples. Package test/power has the layers.
package upgrade
