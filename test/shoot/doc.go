// Package shoot has what a real, unmodified Gardener sends to nodes and how it
// judges them: documents that Gardener's own code renders ([Documents]), and a
// control plane with Gardener's own authorizer and approver in front of it
// ([Run]). The programs that do so are in the nested module test/gardener.
//
//	test/gardener/render --Build--> program --Documents--> []Document
//	test/gardener/authorizer --Run--> Cluster that judges node agents
//
// test/gardener is a nested module that depends on Gardener: its program render
// writes the OperatingSystemConfigs of Shoots, and authorizer judges node
// agents by Gardener's own rules. This package builds both into the cache. It
// gives tests the documents, each with the document that it differs from in one
// change, and a control plane where the node agent has no other rights. Each
// document is applied on real systemd, over the document it differs from and
// back. Keys are seeded: a document has the same bytes in each run. A new
// version of Gardener is one line in versions.go and "sh version.sh VERSION" in
// test/gardener.
package shoot
