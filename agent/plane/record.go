package plane

import (
	"cmp"
	"encoding/json"
	"fmt"
	"net/netip"
	"slices"

	"github.com/loam-os/loam/agent/document"
)

// The only version and kind of document decoded here.
const (
	APIVersion = "loam.dev/v1alpha1"
	Kind       = "Cluster"
)

// Values of Record.Network: an interface for each pod, to which its node has a route, with
// none to the pods of other nodes yet; or nothing, for a network that the operator installs.
const (
	NetworkRoutes = "routes"
	NetworkNone   = "none"
)

// Values of Record.AddOns: what a cluster has beside its control plane. kube-proxy
// gives Services their addresses, and CoreDNS gives them names.
const (
	AddOnCoreDNS = "coredns"
	AddOnProxy   = "kube-proxy"
)

// Values of Audit.Policy: no audit log, a line for each request that changes
// something, and a line with the body of the request as well. The bodies of
// Secrets and ConfigMaps are never in it.
const (
	AuditNone     = "none"
	AuditMetadata = "metadata"
	AuditRequest  = "request"
)

// Record is the cluster, for all of its nodes. [Decode] fills in the defaults,
// so that a later release with other defaults changes no cluster.
type Record struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
	Settings
}

// Settings are what a cluster record says of its cluster.
type Settings struct {
	// Name is a DNS label. It is in the names of the certificate authorities.
	// A new cluster without it is called kubernetes.
	Name string `json:"name"`

	// Kubernetes is the version of the programs, such as 1.37.2, which a new
	// cluster has by default.
	Kubernetes string `json:"kubernetes"`

	// Pods are the networks of pods: one, or one of each family; 10.244.0.0/16 if
	// absent.
	Pods []string `json:"pods"`
	// Services are the networks of Services, of the same families in the same order;
	// 10.96.0.0/16 if absent. The first family is that of the Service kubernetes.
	Services []string `json:"services"`

	// Network is NetworkRoutes or NetworkNone, NetworkRoutes if empty.
	Network string `json:"network"`

	// AddOns are AddOnCoreDNS and AddOnProxy, both if absent. Without one of them,
	// the operator installs something in its place.
	AddOns []string `json:"addOns"`

	// Schedulable is whether pods of all kinds run on nodes with a control
	// plane, true if absent. The taint node-role.kubernetes.io/control-plane is as it
	// says.
	Schedulable *bool `json:"schedulable"`

	// CertificateNames are further names or addresses under which clients reach
	// the API server.
	CertificateNames []string `json:"certificateNames"`

	// Audit is about the audit log of the API server.
	Audit Audit `json:"audit"`

	// Encrypt are the resources that are encrypted in etcd, as RESOURCE or
	// RESOURCE.GROUP. Secrets are always among them.
	Encrypt []string `json:"encrypt"`
}

// TaintKey and TaintEffect keep pods of most kinds off a node with a control plane that
// is not Schedulable, as in clusters of kubeadm.
const (
	TaintKey    = "node-role.kubernetes.io/control-plane"
	TaintEffect = "NoSchedule"
)

// Audit is about the audit log of the API server.
type Audit struct {
	// Policy is AuditNone, AuditMetadata or AuditRequest.
	Policy string `json:"policy"`
}

// Decode reads and checks a record, and fills in the defaults. Errors are of
// type document.Errors, have everything that is wrong, and name the document as
// given.
func Decode(name string, text []byte) (Record, error) {
	r, _, err := decode(name, text, checkNew)
	return r, err
}

// decode is Decode with those checks that returns where the fields stood as well.
func decode(name string, text []byte, check func(place, Settings)) (Record, document.Origin, error) {
	var r Record
	origin, err := document.DecodeWithOrigin(name, text, &r)
	_, refusal := document.Lenient(err)
	if refusal != nil && (r.APIVersion == "" || r.Kind == "") {
		return r, origin, err
	}

	// In another kind of document every field would be unknown.
	report := document.NewReport(origin)
	report.Header(r.APIVersion, r.Kind, APIVersion, Kind)
	if headerErr := report.Err(); headerErr != nil {
		return r, origin, headerErr
	}

	r.fillIn()
	check(place{report, ""}, r.Settings)
	return r, origin, document.MergeChecked(err, report.Err())
}

// What [NewRecord] sets besides the defaults of each record.
const (
	defaultName    = "kubernetes"
	defaultVersion = "1.37.2"
)

// NewRecord returns the record of a new cluster with these settings. In contrast to
// a record, they may leave out name and version.
func NewRecord(s Settings) Record {
	s.Name = cmp.Or(s.Name, defaultName)
	s.Kubernetes = cmp.Or(s.Kubernetes, defaultVersion)
	s.fillIn()
	return Record{APIVersion, Kind, s}
}

// fillIn sets what the document leaves out.
func (r *Settings) fillIn() {
	if r.Pods == nil {
		r.Pods = []string{"10.244.0.0/16"}
	}
	if r.Services == nil {
		r.Services = []string{"10.96.0.0/16"}
	}

	if r.Network == "" {
		r.Network = NetworkRoutes
	}
	if r.AddOns == nil {
		r.AddOns = []string{AddOnCoreDNS, AddOnProxy}
	}
	if r.Schedulable == nil {
		r.Schedulable = new(true)
	}
	if r.Audit.Policy == "" {
		r.Audit.Policy = AuditNone
	}
	if r.Encrypt == nil {
		r.Encrypt = []string{secrets}
	}
}

// Text returns the record as a document.
func (r Record) Text() []byte {
	text, err := json.MarshalIndent(r, "", "  ")
	if err != nil { // It holds nothing that JSON cannot express.
		panic(fmt.Sprintf("encode the record: %v", err))
	}
	return append(text, '\n')
}

// Has reports whether the cluster has an add-on.
func (r Record) Has(addOn string) bool { return slices.Contains(r.AddOns, addOn) }

// DNS returns the address of the cluster's DNS server in each service network:
// the tenth, as in clusters of kubeadm. r must be checked.
func (r Record) DNS() []netip.Addr { return r.service(10) }

// API returns the address of the Service kubernetes: the first of the first
// service network, which the API server takes. r must be checked.
func (r Record) API() netip.Addr { return r.service(1)[0] }

// service returns the address at that place in each service network.
func (r Record) service(place int) []netip.Addr {
	var found []netip.Addr
	for _, text := range r.Services {
		address := netip.MustParsePrefix(text).Addr()
		for range place {
			address = address.Next()
		}
		found = append(found, address)
	}
	return found
}

// Encrypted returns the resources to encrypt in a fixed order, each once.
func (r Record) Encrypted() []string {
	sorted := slices.Clone(r.Encrypt)
	slices.Sort(sorted)
	return slices.Compact(sorted)
}
