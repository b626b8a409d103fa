// Package show formats generations for display: the difference between two, the
// history of a node, and notes on a plan. It is pure.
//
//	two generations, contents --> Comparison.Difference --> String
//	records of the ledger     --> History.Text
//	plan.Plan                 --> Notes
package show
