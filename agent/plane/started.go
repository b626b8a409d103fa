package plane

import (
	"fmt"
	"regexp"
	"strconv"

	"github.com/loam-os/loam/agent/document"
)

// startedFile is written by the unit of etcd.
const startedFile = StateDirectory + "/started"

// provenFile is startedFile as it was when the node last ran a record without a trial.
const provenFile = StateDirectory + "/proven"

// Started is what last served from the data of etcd on a node.
type Started struct {
	// Kubernetes is the version of the other programs. The bundle of another version
	// may have etcd: see [EtcdFirst].
	Kubernetes string
	// Etcd is the version of etcd, such as 3.7.3.
	Etcd string
	// Programs is the directory of etcd, "" if an earlier release has started it.
	Programs string
}

// Ran reports whether all programs were of the version of a record, in that
// directory.
func (s Started) Ran(r Record, programs string) bool {
	return s.Kubernetes == r.Kubernetes && (s.Programs == "" || s.Programs == programs)
}

var (
	startedKubernetes = regexp.MustCompile(`(?m)^Kubernetes (\S+)$`)
	startedPrograms   = regexp.MustCompile(`(?m)^Programs (/\S+)$`)
	startedEtcd       = regexp.MustCompile(`(?m)^etcd Version: ([0-9]+)\.([0-9]+)(\.\S+)$`)
)

// Running returns the record r with what the cluster cannot change as it is, so that
// what never ran here can be taken back: no repository has a version, or a program of
// it did not come up, or an operator has edited the record in its place.
func (s Store) Running(r Record) (Record, error) {
	applied, err := s.Applied()
	if err != nil {
		return r, err
	}
	if applied != nil {
		r.Name, r.Pods, r.Services = applied.Name, applied.Pods, applied.Services
	}
	r, err = s.withEncrypted(r, applied)
	if err != nil {
		return r, err
	}

	started, err := s.Started()
	if started != nil {
		r.Kubernetes = started.Kubernetes
	}
	if applied != nil && (started == nil || minorOf(*applied) > minorOf(r)) {
		r.Kubernetes = applied.Kubernetes // A full disk has kept no start of it.
	}
	return r, err
}

// ParseEtcdVersion returns the version in what `etcd --version` prints.
func ParseEtcdVersion(text []byte) (string, error) {
	found := startedEtcd.FindSubmatch(text)
	if found == nil {
		return "", fmt.Errorf("version of etcd: not in %.100q", text)
	}
	return fmt.Sprintf("%s.%s%s", found[1], found[2], found[3]), nil
}

// EtcdFirst reports whether etcd, of the version next, is changed before the other
// programs of its bundle. An etcd refuses data that one of a newer minor version has
// served. So nothing else may change with the minor version of etcd: if something
// else does not come up, the node could not go back to the older one.
//
// bundled is the version of etcd in the bundle of what has started, "" if it is not
// known, and onTrial is whether a change is on trial that may be the one of etcd. The
// other programs follow when it no longer is.
func EtcdFirst(started Started, bundled, next string, onTrial bool) bool {
	have, want := etcdMinor(started.Etcd), etcdMinor(next)
	if want > have {
		return true
	}
	return onTrial && want == have && bundled != "" && etcdMinor(bundled) < want
}

// CheckEtcd reports why etcd of that version, from the bundle of a record, cannot
// take over the data of what has started. An etcd refuses data that one of a newer
// minor version has served, and takes over only those of the minor version before.
// name and text are the valid record as a document.
func CheckEtcd(name string, text []byte, started Started, etcd string) error {
	_, origin, err := decode(name, text, checkNew)
	if _, refusal := document.Lenient(err); refusal != nil {
		return refusal
	}
	report := document.NewReport(origin)
	have, want := etcdMinor(started.Etcd), etcdMinor(etcd)
	switch {
	case want < have:
		report.Addf("kubernetes",
			fmt.Sprintf("write a version whose bundle has etcd %s or newer", minorText(have)),
			"etcd %s of its bundle cannot read the data that etcd %s has written", etcd, started.Etcd)
	case want > have+1:
		report.Addf("kubernetes",
			fmt.Sprintf("write a version whose bundle has etcd %s first", minorText(have+1)),
			"its bundle has etcd %s and the data are of etcd %s, which skips no minor version",
			etcd, started.Etcd)
	}
	return report.Err()
}

// etcdMinor returns a number that grows with the minor versions of etcd.
func etcdMinor(version string) int {
	found := startedEtcd.FindStringSubmatch("etcd Version: " + version)
	major, _ := strconv.Atoi(found[1])
	minor, _ := strconv.Atoi(found[2])
	return major*1000 + minor
}

func minorText(minor int) string { return fmt.Sprintf("%d.%d", minor/1000, minor%1000) }
