package main

import (
	"slices"

	"github.com/loam-os/loam/test/shoot"
)

// beside are the conditions of the figures of Gardener's own node agent, which
// is the reference.
var beside = "Gardener's own gardener-node-agent " + shoot.Versions()[0] +
	", in rounds that alternate with Loam's, on the same API server, " +
	"each with a Node, a Secret and a systemd of its own; it has every right, " +
	"no D-Bus daemon in between, and logs errors only; " +
	"a ratio is Loam's figure by the reference's; the rest as for "

// referenceChange measures the reference beside Loam, for the changes of
// BenchmarkChange.
var referenceChange = benchmark{
	name:   "ReferenceChange",
	in:     "./test/recorded",
	prefix: "change/reference/",
	rounds: 10,
	n:      10,
	figures: slices.Concat(
		// Loam's change is durable, which is most of a small one.
		referenceFigures("small", noGoal),
		referenceFigures("one-of-200", 1),
		referenceFigures("all-200", 1),
	),
	conditions: beside + "change",
}

// referenceStart measures the reference beside Loam, for the starts of
// BenchmarkStart.
var referenceStart = benchmark{
	name:   "ReferenceStart",
	in:     "./test/recorded",
	prefix: "start/reference/",
	rounds: 10,
	n:      10,
	figures: []figure{
		{"small", "small", "p50-ms", noGoal},
		{"small/ratio", "small", "p50-ratio", 1},
		{"200", "one-of-200", "p50-ms", noGoal},
		{"200/ratio", "one-of-200", "p50-ratio", 1},
	},
	conditions: beside + "start; from execve(2) of the reference",
}

// referenceFigures are the figures of a change, each with its ratio. written is
// the goal for the ratio of bytes written to the disk.
func referenceFigures(part string, written float64) []figure {
	return []figure{
		{part, part, "p50-ms", noGoal},
		{part + "/ratio", part, "p50-ratio", 1},
		{part + "/cpu", part, "cpu-ms", noGoal},
		{part + "/cpu/ratio", part, "cpu-ratio", 1},
		{part + "/switches", part, "switches", noGoal},
		{part + "/switches/ratio", part, "switches-ratio", 1},
		{part + "/calls", part + "-calls", "calls", noGoal},
		{part + "/calls/ratio", part + "-calls", "calls-ratio", 1},
		{part + "/written", part, "written-KiB", noGoal},
		{part + "/written/ratio", part, "written-ratio", written},
	}
}
