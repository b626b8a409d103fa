package plane

import (
	"encoding/json"
	"fmt"
	"net/netip"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/loam-os/loam/agent/document"
)

const header = "apiVersion: loam.dev/v1alpha1\nkind: Cluster\n"

func TestDefaultsAreWrittenOut(t *testing.T) {
	r, err := Decode("cluster.yaml", []byte(header+"name: plant-7\nkubernetes: 1.37.2\n"))
	if err != nil {
		t.Fatal(err)
	}

	want := Record{
		APIVersion: APIVersion,
		Kind:       Kind,
		Settings: Settings{
			Name:        "plant-7",
			Kubernetes:  "1.37.2",
			Pods:        []string{"10.244.0.0/16"},
			Services:    []string{"10.96.0.0/16"},
			Network:     "routes",
			AddOns:      []string{"coredns", "kube-proxy"},
			Schedulable: new(true),
			Audit:       Audit{Policy: "none"},
			Encrypt:     []string{"secrets"},
		},
	}
	if diff := cmp.Diff(want, r); diff != "" {
		t.Errorf("record (-want +got):\n%s", diff)
	}

	if r.API() != netip.MustParseAddr("10.96.0.1") || fmt.Sprint(r.DNS()) != "[10.96.0.10]" {
		t.Errorf("API server at %s, DNS at %s", r.API(), r.DNS())
	}
}

// A new cluster needs no settings at all.
func TestANewRecordIsValid(t *testing.T) {
	r := NewRecord(Settings{Pods: []string{"10.1.0.0/16"}})
	text, err := json.Marshal(r)
	if err != nil {
		t.Fatal(err)
	}
	again, err := Decode("record.json", text)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(r, again); diff != "" || r.Name == "" || r.Pods[0] != "10.1.0.0/16" {
		t.Errorf("record (-made +read):\n%s", diff)
	}
}

// The record is kept as JSON, with its defaults.
func TestAWrittenRecordReadsTheSame(t *testing.T) {
	before, err := Decode("cluster.yaml", []byte(header+"name: a\nkubernetes: 1.36.0\n"+
		"pods: [fd00:10::/56, 10.1.0.0/16]\nservices: [fd00:11::/112, 10.2.0.0/16]\n"+
		"network: none\naddOns: []\nschedulable: false\ncertificateNames: [api.example, 192.0.2.10]\n"+
		"audit: {policy: metadata}\n"+
		"encrypt: [secrets, leases.coordination.k8s.io, s3-buckets.example.com]\n"))
	if err != nil {
		t.Fatal(err)
	}

	text, err := json.Marshal(before)
	if err != nil {
		t.Fatal(err)
	}
	after, err := Decode("record.json", text)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(before, after); diff != "" {
		t.Errorf("record (-before +after):\n%s", diff)
	}
}

func TestDecodeRefuses(t *testing.T) {
	const (
		named = "name: a\n"
		valid = named + "kubernetes: 1.37.2\n"
	)
	for name, row := range map[string]struct{ text, want string }{
		"an unknown field": {
			valid + "network_: none\n", "network_: unknown field; hint: did you mean network?",
		},
		"no name":                 {"kubernetes: 1.37.2\n", `name: "" is not the name of a cluster`},
		"a name with dots":        {"name: a.b\nkubernetes: 1.37.2\n", `name: "a.b" is not`},
		"no version":              {named, `kubernetes: "" is not a version`},
		"a version with a v":      {named + "kubernetes: v1.37.2\n", "; hint: write one such as 1.37.2"},
		"a version with no patch": {named + `kubernetes: "1.36"` + "\n", "is not a version"},
		"a version of the future": {
			named + "kubernetes: 1.99.0\n",
			`kubernetes: "1.99.0" is not known to this release of Loam; hint: write a version of 1.36 or 1.37`,
		},
		"more names than a certificate can have": {
			valid + "certificateNames: [" + many(101) + "]\n",
			"certificateNames: has 101 names",
		},
		"text as a network": {valid + "pods: [ten]\n", `pods[0]: "ten" is not a network`},
		"an address in a network": {
			valid + "pods: [10.1.2.3/16]\n", "hint: write the network: 10.1.0.0/16",
		},
		"a scalar as networks": {valid + "pods: 10.1.0.0/16\n", "pods: is "},
		"no networks":          {valid + "pods: []\n", "pods: has 0 networks"},
		"a pod network for no node": {
			valid + "pods: [10.1.0.0/25]\n", "pods[0]: 10.1.0.0/25 is too small: each node takes a /24",
		},
		"a pod network of too many nodes": {
			valid + "pods: [fd00::/40]\nservices: [fd01::/112]\n",
			"pods[0]: fd00::/40 is too large",
		},
		"a service network without the DNS server": {
			valid + "services: [10.96.0.0/29]\n",
			"services[0]: 10.96.0.0/29 is too small for the services of a cluster; " +
				"hint: write a network of /28 or larger",
		},
		"a service network that etcd would feel": {
			valid + "services: [10.0.0.0/8]\npods: [172.16.0.0/16]\n",
			"hint: write a network of /12 or smaller",
		},
		"networks that overlap": {
			valid + "pods: [10.96.0.0/12]\n",
			"services[0]: 10.96.0.0/16 overlaps 10.96.0.0/12 of pods[0]",
		},
		"a network of loopback": {
			valid + "pods: [127.0.0.0/16]\n", "overlaps 127.0.0.0/8, which is never routed",
		},
		"two networks of one family": {
			valid + "pods: [10.1.0.0/16, 10.2.0.0/16]\n",
			"pods[1]: is of the same family as the network before it",
		},
		"other families of pods and services": {
			valid + "pods: [fd00::/56]\n", "services[0]: is of another family than pods[0]",
		},
		"services of one family only": {
			valid + "pods: [10.1.0.0/16, fd00::/56]\n", "services: has other families than pods",
		},
		"an unknown network": {
			valid + "network: calico\n",
			`network: "calico" is not known here; hint: write routes or none`,
		},
		"an unknown add-on": {
			valid + "addOns: [dashboard]\n",
			`addOns[0]: "dashboard" is not known here; hint: write coredns or kube-proxy`,
		},
		"an add-on twice": {
			valid + "addOns: [coredns, coredns]\n", `addOns[1]: "coredns" given twice`,
		},
		"an unknown audit policy": {
			valid + "audit: {policy: all}\n", "hint: write none or metadata or request",
		},
		"a certificate for a URL": {
			valid + "certificateNames: [https://a]\n",
			`certificateNames[0]: "https://a" is neither a DNS name nor an address`,
		},
		"a certificate for an address of one link": {
			valid + "certificateNames: [fe80::1%eth0]\n", "is neither a DNS name nor an address",
		},
		"a certificate name twice": {
			valid + "certificateNames: [a, a]\n", `certificateNames[1]: "a" given twice`,
		},
		"secrets in clear": {
			valid + "encrypt: [configmaps]\n", "encrypt: has no secrets; hint: add secrets",
		},
		"everything by a wildcard": {
			valid + "encrypt: [secrets, '*.*']\n", `encrypt[1]: "*.*" is not a resource`,
		},
		"events by a group that etcd does not have": {
			valid + "encrypt: [secrets, events.events.k8s.io]\n",
			`encrypt[1]: the API server does not encrypt "events.events.k8s.io"; hint: write events`,
		},
		"a group that is gone": {
			valid + "encrypt: [secrets, ingresses.extensions]\n",
			`encrypt[1]: the API server does not encrypt "ingresses.extensions"; hint: leave it out`,
		},
		"what is no resource of the API": {
			valid + "encrypt: [secrets, serviceipallocations]\n",
			`encrypt[1]: the API server does not encrypt "serviceipallocations"; hint: leave it out`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := Decode("c.yaml", []byte(header+row.text))
			if err == nil || !strings.Contains(err.Error(), row.want) {
				t.Errorf("got %v\nwant %s", err, row.want)
			}
			problems, _ := err.(document.Errors)
			for _, p := range problems {
				if p.Hint == "" || p.Line == 0 {
					t.Errorf("line %d, hint %q: %v", p.Line, p.Hint, p)
				}
			}
		})
	}
}

func TestAnotherKindIsNamedFirst(t *testing.T) {
	_, err := Decode("c.yaml", []byte("apiVersion: loam.dev/v1alpha1\nkind: Machine\nhostname: a\n"))
	want := `c.yaml:2: kind: "Machine" is not known here; hint: write kind: Cluster`
	if err == nil || err.Error() != want {
		t.Errorf("got %v\nwant %s", err, want)
	}
}

// many returns n names in a list of YAML.
func many(n int) string {
	var names []string
	for i := range n {
		names = append(names, fmt.Sprintf("name-%d.example", i))
	}
	return strings.Join(names, ", ")
}
