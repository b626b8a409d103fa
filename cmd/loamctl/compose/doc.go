// Package compose makes one OperatingSystemConfig of a directory in which units
// and files are files, as editors and diffs want them.
//
//	directory --Read--> Document: osc.yaml, units, files --Check--> text
package compose
