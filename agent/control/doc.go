// Package control connects a command on the node with the agent that owns the
// node: HTTP with JSON over a unix socket. Both ends implement Agent, so a
// request through the socket is the same as a call of the agent. A verification also
// reports how far it is, by informational responses before its answer.
//
//	loam apply --> Client --HTTP, /run/loam/agent.sock--> Serve --> Agent
//	                                                                 |
//	outcome or error <-----------------------------------------------+
package control
