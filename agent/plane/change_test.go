package plane

import (
	"slices"
	"strings"
	"testing"

	"github.com/loam-os/loam/agent/document"
)

func TestFixedSettingsOfAClusterAreRefused(t *testing.T) {
	before, err := Decode("before.yaml", []byte(header+
		"name: a\nkubernetes: 1.36.3\nencrypt: [configmaps, secrets]\n"))
	if err != nil {
		t.Fatal(err)
	}

	const same = "name: a\nkubernetes: 1.36.3\nencrypt: [configmaps, secrets]\n"
	for name, row := range map[string]struct{ text, want string }{
		"nothing":     {same, ""},
		"what it can": {same + "schedulable: false\naudit: {policy: request}\n", ""},
		"another order": {
			strings.Replace(same, "configmaps, secrets", "secrets, configmaps", 1), "",
		},
		"a patch version":      {strings.Replace(same, "1.36.3", "1.36.9", 1), ""},
		"a patch version back": {strings.Replace(same, "1.36.3", "1.36.0", 1), ""},
		"the name": {
			strings.Replace(same, "name: a", "name: b", 1),
			`c.yaml:3: name: the cluster is "a"; hint: keep the name`,
		},
		"the pod network": {
			same + "pods: [10.1.0.0/16]\n",
			"c.yaml:6: pods: the networks of the cluster are 10.244.0.0/16; hint: keep them",
		},
		"another family of services": {
			same + "pods: [10.244.0.0/16, fd00:1::/56]\nservices: [10.96.0.0/16, fd00:2::/112]\n",
			"c.yaml:7: services: the networks of the cluster are 10.96.0.0/16",
		},
		"what is encrypted": {
			strings.Replace(same, "configmaps, ", "", 1),
			`c.yaml:5: encrypt: "configmaps" is encrypted in etcd; hint: keep it in the list`,
		},
		"an invalid record": {same + "network: x\n", `network: "x" is not known here`},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := DecodeChange("c.yaml", []byte(header+row.text), before)
			var lines []string
			if err != nil {
				lines = strings.Split(err.Error(), "\n")
			}
			found := slices.ContainsFunc(lines, func(line string) bool {
				return strings.Contains(line, row.want)
			})
			if (row.want == "" && err != nil) || (row.want != "" && !found) {
				t.Errorf("got %v\nwant %s", err, row.want)
			}
		})
	}
}

func TestAnUpgradeSkipsNoMinorVersion(t *testing.T) {
	for name, row := range map[string]struct{ to, want string }{
		"the next one": {"1.37.0", ""},
		"the one before": {
			"1.35.9",
			"kubernetes: the cluster runs 1.36.3; hint: write a version of the same or the next",
		},
		"the one after the next": {
			"1.38.0",
			"kubernetes: the cluster runs 1.36.3, and Kubernetes skips no minor version; " +
				"hint: upgrade to 1.37 first",
		},
	} {
		t.Run(name, func(t *testing.T) {
			report := new(document.Report)
			checkChange(report, ofVersion("1.36.3"), ofVersion(row.to))
			got := ""
			if err := report.Err(); err != nil {
				got = err.Error()
			}
			if (row.want == "") != (got == "") || !strings.HasPrefix(got, row.want) {
				t.Errorf("got %s\nwant %s", got, row.want)
			}
		})
	}
}

func ofVersion(text string) Record { return Record{Settings: Settings{Kubernetes: text}} }
