package nodeagent

import (
	"encoding/base64"
	"fmt"
	"maps"
	"net/url"
	"path"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/version"

	"github.com/loam-os/loam/agent/document"
)

// The shortest periods that Gardener accepts.
const (
	minSync  = 15 * time.Second
	minStuck = 30 * time.Second
)

// check validates c. It refuses what Gardener's own agent refuses, except for
// the range of Kubernetes versions, which depends on the version of Gardener,
// and also what Loam needs to reach its cluster. An error in a field that Loam
// does not use is only a warning: a later Gardener may add a log level, and its
// documents must not be refused.
func check(report *document.Report, c Configuration) {
	oneOf(report, "logLevel", c.LogLevel, "info", "debug", "error")
	oneOf(report, "logFormat", c.LogFormat, "json", "text")

	switch c.ClientConnection.QPS.(type) {
	case nil, int64, float64:
	default:
		report.Warn("clientConnection.qps", "is not a number", "write digits, without quotes")
	}

	if c.ClientConnection.Burst < 0 {
		report.Warn("clientConnection.burst", "is negative", "")
	}

	for _, gate := range slices.Sorted(maps.Keys(c.FeatureGates)) {
		report.Warn("featureGates."+gate, "is not known here", "")
	}

	checkAPIServer(report, c.APIServer)
	if c.Bootstrap.KubeletDataVolumeSize < 0 {
		report.Add("bootstrap.kubeletDataVolumeSize", "is negative",
			"write the size of the disk in bytes")
	}

	checkControllers(report, c.Controllers)
}

func checkAPIServer(report *document.Report, a APIServer) {
	if a.Server == "" {
		report.Add("apiServer.server", "empty", "write the URL of the API server")
	}
	if u, err := url.Parse(a.Server); err == nil && u.User != nil {
		report.Warn("apiServer.server", document.Quote(a.Server)+" has a user, as whom no node logs in",
			"leave it out")
	}
	if _, err := base64.StdEncoding.DecodeString(a.CABundle); err != nil {
		report.Add("apiServer.caBundle", "is not base64", "")
	}
	if a.CAFile != "" && !path.IsAbs(a.CAFile) {
		report.Addf("apiServer.caFile", "begin it with /", "%s is not absolute",
			document.Quote(a.CAFile))
	}
}

func checkControllers(report *document.Report, c Controllers) {
	const at = "controllers."
	system := c.OperatingSystemConfig
	if system.SecretName == "" {
		report.Add(at+"operatingSystemConfig.secretName", "empty",
			"write the name of the Secret with the node's configuration")
	} else if wrong := validation.IsDNS1123Subdomain(system.SecretName); len(wrong) > 0 {
		report.Addf(at+"operatingSystemConfig.secretName", wrong[0],
			"%s is not the name of a Secret", document.Quote(system.SecretName))
	}

	if system.KubernetesVersion == "" {
		report.Add(at+"operatingSystemConfig.kubernetesVersion", "empty",
			"write the version of the kubelet, such as 1.36.3")
	} else if _, err := version.ParseGeneric(system.KubernetesVersion); err != nil {
		report.Addf(at+"operatingSystemConfig.kubernetesVersion", "write it as 1.36.3",
			"%s is not a version", document.Quote(system.KubernetesVersion))
	}

	atLeast(report, at+"operatingSystemConfig.syncPeriod", system.SyncPeriod, minSync)
	atLeast(report, at+"token.syncPeriod", c.Token.SyncPeriod, minSync)
	atLeast(report, at+"systemdUnitCheck.syncPeriod", c.SystemdUnitCheck.SyncPeriod, minSync)
	atLeast(report, at+"systemdUnitCheck.stuckThreshold",
		c.SystemdUnitCheck.StuckThreshold, minStuck)
	checkTokens(report, at+"token.syncConfigs", c.Token.SyncConfigs)
}

func checkTokens(report *document.Report, at string, tokens []TokenSync) {
	first := map[string]int{}
	for i, t := range tokens {
		at := fmt.Sprintf("%s[%d]", at, i)
		if t.SecretName == "" {
			report.Add(at+".secretName", "empty", "write the name of the Secret with the token")
		}

		earlier, twice := first[t.Path]
		switch {
		case t.Path == "":
			report.Add(at+".path", "empty", "write the path of the file for the token")
		case !path.IsAbs(t.Path) || path.Clean(t.Path) != t.Path:
			report.Addf(at+".path", "write it absolute, without . and ..", "%s is not a clean path",
				document.Quote(t.Path))
		case twice:
			report.Addf(at+".path", "give each token a file of its own",
				"%s is also the path of syncConfigs[%d]", document.Quote(t.Path), earlier)
		default:
			first[t.Path] = i
		}
	}
}

// oneOf checks an optional word.
func oneOf(report *document.Report, at, word string, known ...string) {
	if word != "" && !slices.Contains(known, word) {
		report.Warnf(at, "write one of "+strings.Join(known, ", "), "%s is not known here",
			document.Quote(word))
	}
}

// atLeast checks an optional Go duration.
func atLeast(report *document.Report, at, text string, least time.Duration) {
	if text == "" {
		return
	}
	d, err := time.ParseDuration(text)
	if err != nil {
		report.Warnf(at, "write it as 10m or 12h0m0s", "%s is not a duration", document.Quote(text))
	} else if d < least {
		report.Warnf(at, "", "%s is less than %s", text, least)
	}
}
