// Package source finds and reads the documents of a node: its machine.yaml and,
// from the source that it names, the configuration.
//
//	command line, credentials, fw_cfg, /run/loam, ESP, drives
//	      |
//	    Find --> Document: machine.yaml --> machine.Source
//	                                             |
//	                                            New --> Source: Read, Watch
//
// machine.yaml is looked for in loam.config= on the kernel command line, in the
// credential loam.machine (SMBIOS, fw_cfg: systemd imports both), in fw_cfg, in
// /run/loam on a node that runs from memory, in loam/ on the ESP, and on a
// drive labelled LOAM or CIDATA. An error in one place is an error, never a
// silent step to the next. Nothing waits for drives: when one appears, and the
// node has had no document yet, the agent ends and starts again with its
// machine.yaml. Afterwards another drive changes nothing, and once the node is
// configured its copy of a drive's document counts ([Accepted]). A node with
// trusted keys takes only signed documents ([Verify]).
package source
