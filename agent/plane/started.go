package plane

import (
	"errors"
	"fmt"
	"io/fs"
	"regexp"
	"strconv"

	"github.com/loam-os/loam/agent/document"
)

// startedFile is written by the unit of etcd.
const startedFile = StateDirectory + "/started"

// Started is what last served from the data of etcd on a node.
type Started struct {
	// Kubernetes is the version of the bundle that etcd is from.
	Kubernetes string
	// Etcd is the version of etcd, such as 3.7.3.
	Etcd string
}

var (
	startedKubernetes = regexp.MustCompile(`(?m)^Kubernetes (\S+)$`)
	startedEtcd       = regexp.MustCompile(`(?m)^etcd Version: ([0-9]+)\.([0-9]+)(\.\S+)$`)
)

// Started returns what last served from the data of etcd, nil if that is not known:
// etcd has not started yet, or an earlier release has started it.
func (s Store) Started() (*Started, error) {
	text, err := s.dir.Root().ReadFile(startedFile[1:])
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}

	kubernetes := startedKubernetes.FindSubmatch(text)
	etcd, err := ParseEtcdVersion(text)
	if kubernetes == nil || !version.Match(kubernetes[1]) || err != nil {
		return nil, nil // A power cut has damaged it.
	}
	return &Started{string(kubernetes[1]), etcd}, nil
}

// Running returns the record r with the version of Kubernetes that last ran, so
// that one that never ran here can be taken back: no repository has it, or a
// program of it did not come up.
func (s Store) Running(r Record) (Record, error) {
	started, err := s.Started()
	if started != nil {
		r.Kubernetes = started.Kubernetes
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

// CheckEtcd reports why etcd of that version, from the bundle of a record, cannot
// take over the data of what has started. An etcd refuses data that one of a newer
// minor version has served, and takes over only those of the minor version before.
// So nothing else may change with the minor version of etcd, because a change that
// is reverted would lead to the older one. name and text are the valid record as a
// document.
func CheckEtcd(name string, text []byte, started Started, etcd string) error {
	r, origin, err := decode(name, text)
	if _, refusal := document.Lenient(err); refusal != nil {
		return refusal
	}
	report := document.NewReport(origin)
	before := Record{Settings: Settings{Kubernetes: started.Kubernetes}}
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
	case want > have && minorOf(r) != minorOf(before):
		report.Addf("kubernetes",
			fmt.Sprintf("write a version of 1.%d whose bundle has etcd %s first",
				minorOf(before), minorText(want)),
			"its bundle has etcd %s and this node runs Kubernetes %s with etcd %s: a change of both "+
				"could not be reverted", etcd, started.Kubernetes, started.Etcd)
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
