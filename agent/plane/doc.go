// Package plane describes a Kubernetes cluster that Loam nodes make by
// themselves.
//
//	text --Decode--> Record --+
//	        |                 +--Render--> config.Desired: units, files
//	        v         Member -+
//	findings with path and line
//
// The cluster record ([Record]) is the one document about it, with no secret and
// nothing that is different on each node. [Render] makes of it what the engine
// applies on a node with a control plane: etcd and the programs of Kubernetes as
// units, so that a control plane does not depend on its kubelet. Keys and
// certificates are files of agent/plane/pki, which the units refer to.
//
// Of the node alone is what was measured of its disk ([Store.FsyncP99]), which decides
// on the timing of etcd, whose data may be on a volume of their own
// (agent/volume.Etcd), and the address that it last had ([Store.Address]).
//
// [Store.Init] makes a node the first of a cluster, once: the keys first, and the
// record last. After a power cut it goes on, and it never makes keys for a node
// that has a record, or has lost one. It is called once address and programs are
// there and fit: until then another machine.yaml counts. [Store.Desired] issues the
// certificates that are due, and renders. The unit of etcd keeps what last served
// from its data ([Started]). [CheckEtcd] refuses an etcd that cannot read them, and
// [EtcdFirst] has etcd alone changed first if there is no way back from the next one.
// [CheckChange] compares a record with the one that last ran. Package
// agent/plane/local makes a node follow its record.
package plane
