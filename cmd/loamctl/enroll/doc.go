// Package enroll gives each machine that joins one token, and keeps the record of it: a machine that asks again
// while it installs itself gets the same, and no token is for two.
//
//	machine asks --> Record.Token --> it has a grant? --> the same token
//	                                       no
//	                                       +--> Source.Next --> grant --> token
//
// A grant is durable before its token is given. The mark of an installed
// machine is a file that an operator removes. A forged MAC gets what its owner
// would get; a forged "installed" keeps a machine on its disk, if it comes from that MAC or
// says that machine's UUID. That report is
// accepted only for a machine whose file has install, and the marks of each
// file have a directory of their own, so invented machines use up no other's
// marks. Everything is logged.
package enroll
