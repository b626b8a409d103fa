// Package config crashes changes of the configuration: its tests stop the
// agent, or cut the power, before every durable step that agent/apply takes,
// with every state that the disk may then have (test/power), or make the steps
// fail. Afterwards the node must be wholly old or wholly new, and apply the
// next change. An oracle decides: it knows what a new node with that
// configuration looks like.
//
// LOAM_CRASH_POINTS says how many points of each scenario are played ("all" for
// all of them), LOAM_CRASH_SEED which, and LOAM_CRASH_REPORT where the counts
// go.
package config
