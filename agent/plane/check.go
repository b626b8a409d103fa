package plane

import (
	"fmt"
	"net/netip"
	"regexp"
	"slices"
	"strings"

	"github.com/loam-os/loam/agent/document"
	"github.com/loam-os/loam/agent/hostname"
)

// minors are the minor versions of Kubernetes 1 whose flags are known here.
var minors = []string{"36", "37"}

// secrets is the resource that is always encrypted.
const secrets = "secrets"

var (
	label   = regexp.MustCompile(`^[a-z]([a-z0-9-]{0,61}[a-z0-9])?$`)
	version = regexp.MustCompile(`^1\.(0|[1-9][0-9]*)\.(0|[1-9][0-9]*)$`)
	// A resource, and its group unless it is of the core group.
	resource = regexp.MustCompile(`^[a-z]([a-z0-9-]*[a-z0-9])?(\.[a-z0-9]([a-z0-9.-]*[a-z0-9])?)?$`)
)

// CheckInit reports what is wrong with the settings of a new cluster, which are at
// a path of the document.
func CheckInit(report *document.Report, path string, s Settings) {
	checkNew(place{report, path + "."}, NewRecord(s).Settings)
}

// place reports what is wrong with settings in a document. prefix leads to their
// fields.
type place struct {
	report *document.Report
	prefix string
}

// Add is [document.Report.Add] for a field.
func (p place) Add(field, problem, hint string) {
	p.report.Add(p.prefix+field, problem, hint)
}

// Addf is [document.Report.Addf] for a field.
func (p place) Addf(field, hint, format string, args ...any) {
	p.report.Addf(p.prefix+field, hint, format, args...)
}

// checkNew is check for settings that the programs of this release are to have.
func checkNew(report place, r Settings) {
	check(report, r)
	if version.MatchString(r.Kubernetes) && !r.IsKnown() {
		report.Add("kubernetes", document.Quote(r.Kubernetes)+" is not known to this release of Loam",
			"write a version of 1."+strings.Join(minors, " or 1."))
	}
}

// IsKnown reports whether this release knows the flags of the version of Kubernetes. A
// node that went back to an earlier release of Loam may run a later one.
func (r Settings) IsKnown() bool {
	return slices.Contains(minors, version.FindStringSubmatch(r.Kubernetes)[1])
}

// check reports what is wrong in settings of any release.
func check(report place, r Settings) {
	if !label.MatchString(r.Name) {
		report.Add("name", document.Quote(r.Name)+" is not the name of a cluster",
			"write at most 63 lower-case letters, digits and dashes, with a letter first")
	}

	checkVersion(report, r.Kubernetes)
	checkNetworks(report, r)

	oneOf(report, "network", r.Network, NetworkRoutes, NetworkNone)
	oneOf(report, "audit.policy", r.Audit.Policy, AuditNone, AuditMetadata, AuditRequest)

	checkAddOns(report, r.AddOns)
	checkCertificateNames(report, r.CertificateNames)
	checkEncrypt(report, r.Encrypt)
}

func checkVersion(report place, text string) {
	if !version.MatchString(text) {
		report.Add("kubernetes", document.Quote(text)+" is not a version of Kubernetes",
			"write one such as "+defaultVersion+", without a v")
	}
}

// oneOf reports a value that is not among the known ones.
func oneOf(report place, at, value string, known ...string) {
	if !slices.Contains(known, value) {
		report.Add(at, document.Quote(value)+" is not known here",
			"write "+strings.Join(known, " or "))
	}
}

func checkAddOns(report place, names []string) {
	for i, name := range names {
		at := fmt.Sprintf("addOns[%d]", i)
		oneOf(report, at, name, AddOnCoreDNS, AddOnProxy)
		if slices.Contains(names[:i], name) {
			report.Add(at, document.Quote(name)+" given twice", "keep one of them")
		}
	}
}

// maxCertificateNames is far below the number at which no client reads the
// certificate any longer: crypto/tls takes 256 KiB, and a name has up to 253 bytes.
const maxCertificateNames = 100

func checkCertificateNames(report place, names []string) {
	if len(names) > maxCertificateNames {
		report.Addf("certificateNames", fmt.Sprintf("write at most %d", maxCertificateNames),
			"has %d names: no client would read the certificate", len(names))
	}
	for i, name := range names {
		at := fmt.Sprintf("certificateNames[%d]", i)
		address, err := netip.ParseAddr(name)
		switch {
		case err != nil && (len(name) > 253 || !hostname.IsName(name)), address.Zone() != "":
			report.Add(at, document.Quote(name)+" is neither a DNS name nor an address",
				"write one such as api.plant.example or 192.0.2.10")
		case slices.Contains(names[:i], name):
			report.Add(at, document.Quote(name)+" given twice", "keep one of them")
		}
	}
}

func checkEncrypt(report place, resources []string) {
	for i, name := range resources {
		at := fmt.Sprintf("encrypt[%d]", i)
		switch {
		case !resource.MatchString(name):
			report.Add(at, document.Quote(name)+" is not a resource",
				"write one such as configmaps, or with its group, such as leases.coordination.k8s.io")
		case isRefused(name):
			advice := "leave it out"
			if strings.HasSuffix(name, ".events.k8s.io") {
				advice = "write events"
			}
			report.Add(at, "the API server does not encrypt "+document.Quote(name), advice)
		case slices.Contains(resources[:i], name):
			report.Add(at, document.Quote(name)+" given twice", "keep one of them")
		}
	}

	if !slices.Contains(resources, secrets) {
		report.Add("encrypt", "has no secrets", "add secrets: they are always encrypted")
	}
}

// internal are objects in etcd that are no resources of the API.
var internal = []string{"apiserveripinfo", "serviceipallocations", "servicenodeportallocations"}

// isRefused reports whether the API server would refuse a resource to encrypt
// (k8s.io/apiserver, pkg/apis/apiserver/validation): it would not start any more, and
// no resource can leave the list again.
func isRefused(name string) bool {
	_, group, _ := strings.Cut(name, ".")
	return group == "events.k8s.io" || group == "extensions" || slices.Contains(internal, name)
}
