package plane

import (
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"

	"github.com/loam-os/loam/agent/config"
	"github.com/loam-os/loam/agent/plane/pki"
)

// Render returns the configuration of a node with a control plane, in which each
// program is a unit of its name. It is pure. r must be checked.
func Render(r Record, m Member) config.Desired {
	units := []config.Unit{
		etcdUnit(r, m),
		apiServerUnit(r, m),
		controllerUnit(controllerManager, "controllers", m, controllerManagerFlags(r, m),
			"RuntimeDirectory="+controllerManager),
		// Asked to end, it exits with 1, as it does when it has lost an election.
		controllerUnit(scheduler, "scheduler", m, schedulerFlags(m), "SuccessExitStatus=1"),
		kubeletUnit(m),
	}
	if r.Has(AddOnProxy) {
		units = append(units, proxyUnit(m))
	} else {
		units = append(units, withoutProxyUnit())
	}
	return config.Desired{Files: files(r, m), Units: units}.Sorted()
}

// hardened is for a program that needs no more of root than to read its keys.
var hardened = []string{
	"CapabilityBoundingSet=",
	"NoNewPrivileges=yes",
	"PrivateTmp=yes",
	"ProtectHome=yes",
	"ProtectSystem=strict",
}

// etcdUnit runs etcd as a user of its own. Its keys stay files of root: systemd
// hands it copies.
func etcdUnit(r Record, m Member) config.Unit {
	args, credentials := asCredentials(etcdFlags(r, m), m.Keys.Dir)
	lines := []string{
		"Type=notify",
		"DynamicUser=yes",
		"User=" + etcd,
		"StateDirectory=" + path.Base(etcdData),
		"StateDirectoryMode=0700",
		"OOMScoreAdjust=-999",
		"IOWeight=1000",
		"LimitNOFILE=65536",
		"TimeoutStartSec=5min",
		// Asked to end, it waits 7 s for the watches of the API server, which do not
		// end. It loses nothing of what it has acknowledged.
		"KillSignal=SIGKILL",
		"SuccessExitStatus=SIGKILL",
		// A defragmentation that is cut off leaves a file as large as the data.
		// etcd 3.7 has the code that deletes it, but no longer calls it.
		"ExecStartPre=/bin/sh -c 'rm -f " + etcdData + "/member/snap/db.tmp.*'",
		"ExecStartPre=+" + prepareStarted(r, m),
		"ExecStartPre=-+" + gatherIfProven(),
		"EnvironmentFile=-" + etcdEnvironment,
		"ExecStartPost=-+" + keepStarted(),
	}
	return unit{
		name:        etcd,
		description: "etcd, the store of Kubernetes",
		header: []string{
			// The agent renews certificates before it is ready, and all other
			// programs wait for etcd.
			"After=loam-agent.service",
			"X-Loam-Certificates=" + m.EtcdCertificates,
		},
		program: m.etcd(),
		flags:   args,
		service: slices.Concat(lines, credentials),
	}.config()
}

// newStarted becomes startedFile when etcd serves.
const newStarted = startedFile + ".new"

// prepareStarted is a command that writes what is about to open the data of etcd: see
// [Started]. etcd raises the version of its data when it begins to serve, so another
// etcd must not start on a full disk, which would not keep that. The one that has
// served before starts all the same.
func prepareStarted(r Record, m Member) string {
	return fmt.Sprintf("/bin/sh -c '{ echo Kubernetes %s && echo Programs %s && %s --version; } >%s && "+
		"sync %s || { rm -f %s; %s --version | head -n 1 | grep -qxFf - %s; }'",
		r.Kubernetes, m.etcdPrograms(), m.etcd(), newStarted, newStarted, newStarted, m.etcd(),
		startedFile)
}

// etcdEnvironment is written before each start of etcd (etcd takes any flag from its
// environment).
const etcdEnvironment = "/run/etcd.env"

// gatherIfProven is a command that has an etcd gather the changes of its database for 10 s
// in place of 100 ms, of which an idle one then writes half as much. What it has
// acknowledged is in its log before. That is for an etcd that is no longer on trial: one
// of the minor version before panics when it meets entries of a newer version in the log,
// and knows that it must not start only from the database.
func gatherIfProven() string {
	return fmt.Sprintf("/bin/sh -c 'if cmp -s %s %s; then "+
		"echo ETCD_BACKEND_BATCH_INTERVAL=10s; echo ETCD_BACKEND_BATCH_LIMIT=100; fi >%s'",
		newStarted, provenFile, etcdEnvironment)
}

// keepStarted is a command that keeps what prepareStarted has written. systemd runs it
// when etcd is ready, which is when it serves.
func keepStarted() string {
	return fmt.Sprintf("/bin/sh -c 'if test -e %s; then mv %s %s && sync %s; fi'",
		newStarted, newStarted, startedFile, StateDirectory)
}

// asCredentials returns flags in which each file below dir is a credential of the
// unit, and the settings that load the credentials (systemd.exec(5)).
func asCredentials(f flags, dir string) (flags, []string) {
	changed := maps.Clone(f)
	var settings []string
	for _, name := range slices.Sorted(maps.Keys(f)) {
		file := f[name]
		if !strings.HasPrefix(file, dir+"/") {
			continue
		}
		changed[name] = "%d/" + path.Base(file)
		settings = append(settings, fmt.Sprintf("LoadCredential=%s:%s", path.Base(file), file))
	}
	slices.Sort(settings)
	return changed, slices.Compact(settings)
}

func apiServerUnit(r Record, m Member) config.Unit {
	u := unit{
		name:        apiServer,
		description: "Kubernetes API server",
		header:      []string{"After=network.target " + etcd + ".service"},
		program:     m.program(apiServer),
		flags:       apiServerFlags(r, m),
		service: slices.Concat([]string{
			"Type=notify",
			"OOMScoreAdjust=-998",
			"LimitNOFILE=1048576",
			"LogsDirectory=kubernetes",
			"LogsDirectoryMode=0700",
			// One that is ended on a busy machine begins anew, and is never ready.
			"TimeoutStartSec=15min",
			"ExecStartPost=" + awaitAPI(m),
		}, hardened),
	}
	if r.Audit.Policy != AuditNone {
		u.reads = []string{auditPolicyFile}
	}
	return u.config()
}

// awaitAPI is a command that waits until the API server is ready. It says that it
// serves before it has made the roles of an empty cluster, without which its
// clients are refused: the controller manager ends after 10 s of that. A program that
// is begun for each question would take from a slow machine what the API server needs.
func awaitAPI(m Member) string {
	return fmt.Sprintf("/usr/bin/curl --silent --fail --output /dev/null "+
		"--retry 1000 --retry-delay 1 --retry-all-errors --max-time 30 "+
		"--cacert %s --cert %s --connect-to ::127.0.0.1: https://%s:%d/readyz",
		m.Keys.Authority(pki.CA), m.Keys.Leaf(pki.Kubelet), pki.ServerName, apiPort)
}

// controllerUnit returns the unit of a client of the API server that controls
// something in the cluster.
func controllerUnit(name, what string, m Member, f flags, more ...string) config.Unit {
	return unit{
		name:        name,
		description: "Kubernetes " + what,
		header:      []string{"After=" + apiServer + ".service"},
		program:     m.program(name),
		flags:       f,
		service:     slices.Concat([]string{"OOMScoreAdjust=-997"}, more, hardened),
		reads:       []string{f["kubeconfig"]},
	}.config()
}

func kubeletUnit(m Member) config.Unit {
	return unit{
		name:        kubelet,
		description: "Kubernetes node agent",
		header: []string{
			"Wants=containerd.service",
			"After=containerd.service " + apiServer + ".service",
		},
		program: m.program(kubelet),
		flags:   kubeletFlags(m),
		service: []string{"Type=notify", "OOMScoreAdjust=-999", "Delegate=yes"},
		reads:   []string{kubeletConfigFile, kubeletFile},
	}.config()
}

// proxyUnit runs kube-proxy beside the kubelet, and not in a pod of it: Services
// have addresses whatever the container runtime does, and no image is needed. It
// changes rules of nftables, and limits of the connection tracking below /proc/sys
// and /sys.
func proxyUnit(m Member) config.Unit {
	return unit{
		name:        proxy,
		description: "Kubernetes Services of this node",
		header:      []string{"After=" + apiServer + ".service"},
		program:     m.program(proxy),
		flags:       flags{"config": proxyConfigFile},
		service: []string{
			"OOMScoreAdjust=-998",
			"CapabilityBoundingSet=CAP_NET_ADMIN",
			"NoNewPrivileges=yes",
			"PrivateTmp=yes",
			"ProtectHome=yes",
			"ProtectSystem=strict",
		},
		reads: []string{proxyConfigFile, proxyFile},
	}.config()
}

// DeleteRules returns the command that deletes the rules of kube-proxy.
func DeleteRules() []string {
	var commands []string
	for _, family := range []string{"ip", "ip6"} {
		// To delete a table that is not there is an error.
		for _, verb := range []string{"add", "delete"} {
			commands = append(commands, verb+" table "+family+" "+proxy)
		}
	}
	return []string{"/usr/sbin/nft", strings.Join(commands, "; ")}
}

// withoutProxyUnit deletes the rules of kube-proxy, which leaves them when it ends,
// so that Services work while it restarts. At the start of a machine there are none,
// and pods with a proxy of the operator, which may have the same tables, come later.
// It is the same for all versions, so that an upgrade does not run it again.
func withoutProxyUnit() config.Unit {
	command := DeleteRules()
	text := strings.Join([]string{
		"[Unit]",
		"Description=Remove the rules of kube-proxy",
		"Conflicts=" + proxy + ".service",
		"After=" + proxy + ".service",
		"Before=" + kubelet + ".service",
		"",
		"[Service]",
		"Type=oneshot",
		"RemainAfterExit=yes",
		"CapabilityBoundingSet=CAP_NET_ADMIN",
		"NoNewPrivileges=yes",
		"PrivateTmp=yes",
		"ProtectHome=yes",
		"ProtectSystem=strict",
		fmt.Sprintf("ExecStart=%s %q", command[0], command[1]),
		"", "[Install]", "WantedBy=multi-user.target", "",
	}, "\n")
	return config.Unit{Name: "kube-proxy-cleanup.service", Content: &text}
}

// unit is a service to be rendered; name is without .service.
type unit struct {
	name, description string
	// header and service are further lines of [Unit] and [Service].
	header, service []string
	program         string
	flags           flags
	// reads are files whose change restarts the service.
	reads []string
}

func (u unit) config() config.Unit {
	command := strings.Join(append([]string{u.program}, u.flags.args()...), " \\\n  ")
	lines := slices.Concat(
		[]string{"[Unit]", "Description=" + u.description},
		u.header,
		[]string{"StartLimitIntervalSec=0", "", "[Service]"},
		u.service,
		[]string{
			"Restart=always", "RestartSec=2", "ExecStart=" + command,
			"", "[Install]", "WantedBy=multi-user.target", "",
		},
	)
	text := strings.Join(lines, "\n")
	return config.Unit{Name: u.name + ".service", Content: &text, FilePaths: u.reads}
}
