// Package config crashes changes of the configuration: its tests stop the
// agent, or cut the power, before every durable step that agent/apply takes,
// with every state that the disk may then have (test/power), and have the steps
// fail. Afterwards the node has to be wholly old or wholly new, as an oracle
// says that knows what a new node with that configuration looks like, and has
// to take the next change.
//
// LOAM_CRASH_POINTS says how many points of each scenario are played ("all" for
// all of them), LOAM_CRASH_SEED which, and LOAM_CRASH_REPORT where the counts
// go.
package config
