// Package status is the agent's report on its node: a value with a stable JSON
// form, and a table for a console.
//
//	Status --Write--> /run/loam/status.json --Parse--> Status
//	   |                                                 |
//	   +--Table--> console                               +--Table--> loam status
package status
