// Command loam is the one binary of a running Loam node: the node agent under
// systemd, and the operator's tool on the node.
//
//	arguments --> flags of one verb --> one call --> print
//	                                     |
//	                 control.Client (changes) or offline (looks)
//
// It runs as loam agent under systemd. The other verbs are for an operator;
// loam boot --facts prints what /init would decide.
package main
