package nodeagent_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/loam-os/loam/agent/document"
	"github.com/loam-os/loam/agent/nodeagent"
)

// text is written as by Gardener v1.149.0, with one more line.
const text = `apiServer:
  caFile: /var/lib/gardener-node-agent/cluster-ca.crt
  server: https://api.edge.site.local
apiVersion: nodeagent.config.gardener.cloud/v1alpha1
bootstrap:
  kubeletDataVolumeSize: 26843545600
clientConnection:
  acceptContentTypes: ""
  burst: 0
  contentType: ""
  kubeconfig: ""
  qps: 0
controllers:
  operatingSystemConfig:
    kubernetesVersion: 1.35.7
    secretName: gardener-node-agent-worker-e27dc83e1f751f88
  systemdUnitCheck: {}
  token:
    syncConfigs:
    - path: /var/lib/opentelemetry-collector/auth-token
      secretName: gardener-opentelemetry-collector
    syncPeriod: 12h0m0s
kind: NodeAgentConfiguration
logFormat: ""
logLevel: ""
server: {}
featureGates: {}
`

func TestDecode(t *testing.T) {
	got, warnings, err := nodeagent.Decode("config.yaml", []byte(text))
	if err != nil || warnings != nil {
		t.Fatalf("%v, %v", warnings, err)
	}

	if got.APIServer.Server != "https://api.edge.site.local" ||
		got.Bootstrap.KubeletDataVolumeSize != 26843545600 {
		t.Errorf("%+v", got)
	}

	want := []nodeagent.TokenSync{
		{
			SecretName: "gardener-opentelemetry-collector",
			Path:       "/var/lib/opentelemetry-collector/auth-token",
		},
	}
	if diff := cmp.Diff(want, got.Controllers.Token.SyncConfigs); diff != "" {
		t.Errorf("tokens (-want +got):\n%s", diff)
	}
}

// Each row replaces a line of text.
func TestCheck(t *testing.T) {
	const tokens = "    - path: /var/lib/opentelemetry-collector/auth-token\n"

	for _, tt := range []struct{ name, line, by, want string }{
		{
			"another version",
			"v1alpha1",
			"v1",
			`config.yaml:4: apiVersion: "nodeagent.config.gardener.cloud/v1" is not known here; hint: write apiVersion: nodeagent.config.gardener.cloud/v1alpha1`,
		},
		{
			"no server",
			"  server: https://api.edge.site.local",
			"",
			"config.yaml:1: apiServer.server: empty; hint: write the URL of the API server",
		},
		{
			"a relative path of the CA",
			"caFile: /var",
			"caFile: var",
			`config.yaml:2: apiServer.caFile: "var/lib/gardener-node-agent/cluster-ca.crt" is not absolute; hint: begin it with /`,
		},
		{
			"a bundle that is none",
			"  caFile: ",
			"  caBundle: ",
			"config.yaml:2: apiServer.caBundle: is not base64",
		},
		{
			"no Secret",
			"secretName: gardener-node",
			"oldName: gardener-node",
			"config.yaml:14: " +
				"controllers.operatingSystemConfig.secretName: empty; hint: " +
				"write the name of the Secret with the node's configuration",
		},
		{
			"no version of Kubernetes",
			"1.35.7",
			"",
			"config.yaml:15: controllers.operatingSystemConfig.kubernetesVersion: empty; hint: " +
				"write the version of the kubelet, such as 1.36.3",
		},
		{
			"a version that is none",
			"1.35.7",
			"new",
			`config.yaml:15: controllers.operatingSystemConfig.kubernetesVersion: "new" is not a version; hint: write it as 1.36.3`,
		},
		{
			"a token without a Secret",
			"secretName: gardener-open",
			"oldName: gardener-open",
			"config.yaml:20: controllers.token.syncConfigs[0].secretName: empty; hint: " +
				"write the name of the Secret with the token",
		},
		{
			"a token without a path",
			tokens,
			"    - path:\n",
			"config.yaml:20: " +
				"controllers.token.syncConfigs[0].path: empty; hint: " +
				"write the path of the file for the token",
		},
		{
			"a path that leads out",
			tokens,
			"    - path: /var/../etc/shadow\n",
			`config.yaml:20: controllers.token.syncConfigs[0].path: "/var/../etc/shadow" is not a clean path; hint: write it absolute, without . and ..`,
		},
		{
			"two tokens at one path",
			tokens,
			tokens + "      secretName: a\n" + tokens,
			`config.yaml:22: controllers.token.syncConfigs[1].path: "/var/lib/opentelemetry-collector/auth-token" is also the path of syncConfigs[0]; hint: give each token a file of its own`,
		},
		{
			"a size that is none",
			"26843545600",
			"-1",
			"config.yaml:6: bootstrap.kubeletDataVolumeSize: is negative; hint: " +
				"write the size of the disk in bytes",
		},
		{
			"a field of another type",
			"burst: 0",
			"burst: many",
			`config.yaml:9: clientConnection.burst: is the string "many", want a whole number; hint: write digits, without quotes`,
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			_, err := decodeWith(t, tt.line, tt.by)
			var errs document.Errors
			if err != nil && !errors.As(err, &errs) {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tt.want, errs.Error()); diff != "" {
				t.Errorf("error (-want +got):\n%s", diff)
			}
		})
	}
}

// Fields that Loam does not use only cause warnings. Each row replaces a line
// of text.
func TestFieldsThatLoamDoesNotUseAreWarnings(t *testing.T) {
	for _, tt := range []struct{ name, line, by, want string }{
		{
			"a level",
			`logLevel: ""`,
			"logLevel: warn",
			`config.yaml:25: logLevel: "warn" is not known here; hint: write one of info, debug, error`,
		},
		{
			"a format",
			`logFormat: ""`,
			"logFormat: xml",
			`config.yaml:24: logFormat: "xml" is not known here; hint: write one of json, text`,
		},
		{
			"a negative burst",
			"burst: 0",
			"burst: -1",
			"config.yaml:9: clientConnection.burst: is negative",
		},
		{"a rate with a fraction", "qps: 0", "qps: 0.5", ""},
		{
			"a rate that is text",
			"qps: 0",
			`qps: "5"`,
			"config.yaml:12: clientConnection.qps: " +
				"is not a number; hint: write digits, without quotes",
		},
		{
			"a short period",
			"12h0m0s",
			"14s",
			"config.yaml:22: controllers.token.syncPeriod: 14s is less than 15s",
		},
		{
			"a period that is none",
			"12h0m0s",
			"often",
			`config.yaml:22: controllers.token.syncPeriod: "often" is not a duration; hint: write it as 10m or 12h0m0s`,
		},
		{
			"a short threshold",
			"systemdUnitCheck: {}",
			"systemdUnitCheck: {stuckThreshold: 29s}",
			"config.yaml:17: controllers.systemdUnitCheck.stuckThreshold: 29s is less than 30s",
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			warnings, err := decodeWith(t, tt.line, tt.by)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tt.want, warnings.Error()); diff != "" {
				t.Errorf("warnings (-want +got):\n%s", diff)
			}
		})
	}
}

// decodeWith decodes text with a line replaced.
func decodeWith(t *testing.T, line, by string) (document.Errors, error) {
	t.Helper()
	changed := strings.Replace(text, line, by, 1)
	if changed == text {
		t.Fatal("the text has no such line")
	}
	_, warnings, err := nodeagent.Decode("config.yaml", []byte(changed))
	return warnings, err
}

func TestLaterGardenerIsAccepted(t *testing.T) {
	later := strings.Replace(text, "featureGates: {}\n", "featureGates: {SomeGate: true}\n"+
		"someday: {a: new field}\n", 1)
	_, warnings, err := nodeagent.Decode("config.yaml", []byte(later))
	if err != nil {
		t.Fatal(err)
	}

	want := "config.yaml:28: someday: unknown field; hint: known here: apiVersion, kind, " +
		"clientConnection, logLevel, logFormat, server, debugging, " +
		"featureGates, apiServer, bootstrap, controllers\n" +
		"config.yaml:27: featureGates.SomeGate: is not known here"
	if diff := cmp.Diff(want, warnings.Error()); diff != "" {
		t.Errorf("warnings (-want +got):\n%s", diff)
	}
}
