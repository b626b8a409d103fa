package plane

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/mod/semver"

	"github.com/loam-os/loam/agent/document"
)

// DecodeChange is [Decode] for a record that is to replace before, which is in
// use. It also reports what a cluster cannot change.
func DecodeChange(name string, text []byte, before Record) (Record, error) {
	after, origin, err := decode(name, text, checkNew)
	if err != nil {
		return after, err
	}

	report := document.NewReport(origin)
	checkChange(report, before, after)
	return after, report.Err()
}

// CheckChange is [DecodeChange] for a record that replaced before already, of which
// text is the valid document: an operator has edited it.
func CheckChange(name string, text []byte, before Record) error {
	after, origin, err := decode(name, text, checkNew)
	if _, refusal := document.Lenient(err); refusal != nil {
		return refusal
	}

	report := document.NewReport(origin)
	checkChange(report, before, after)
	return report.Err()
}

// checkChange reports what a cluster cannot change. Both records are valid.
func checkChange(report *document.Report, before, after Record) {
	if after.Name != before.Name {
		report.Add("name", fmt.Sprintf("the cluster is %s", document.Quote(before.Name)),
			"keep the name: it is in the certificates of the cluster")
	}

	fixed := func(at string, was, is []string) {
		if !slices.Equal(was, is) {
			report.Addf(at, "keep them: pods, Services and certificates have addresses in them",
				"the networks of the cluster are %s", strings.Join(was, " and "))
		}
	}
	fixed("pods", before.Pods, after.Pods)
	fixed("services", before.Services, after.Services)

	for _, name := range before.Encrypt {
		if !slices.Contains(after.Encrypt, name) {
			report.Add("encrypt", document.Quote(name)+" is encrypted in etcd",
				"keep it in the list: otherwise nothing could read it")
		}
	}

	// Programs may be one minor version apart while they are replaced (Kubernetes:
	// "Version Skew Policy"), and the API server never goes back.
	switch step := minorOf(after) - minorOf(before); {
	case step < 0:
		report.Add("kubernetes", "the cluster runs "+before.Kubernetes,
			"write a version of the same or the next minor version: etcd may have objects "+
				"that an older one cannot read")
	case step > 1:
		report.Addf("kubernetes", fmt.Sprintf("upgrade to 1.%d first", minorOf(before)+1),
			"the cluster runs %s, and Kubernetes skips no minor version", before.Kubernetes)
	}
}

// Earlier returns the earlier one of two versions of Kubernetes.
func Earlier(a, b string) string {
	if semver.Compare("v"+a, "v"+b) <= 0 {
		return a
	}
	return b
}

// minorOf returns the minor version of Kubernetes of a valid record.
func minorOf(r Record) int {
	minor, _ := strconv.Atoi(version.FindStringSubmatch(r.Kubernetes)[1])
	return minor
}
