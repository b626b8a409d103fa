package machine_test

import (
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/loam-os/loam/agent/kernel"
	"github.com/loam-os/loam/agent/machine"
	"github.com/loam-os/loam/agent/metrics"
	"github.com/loam-os/loam/image/repository"
)

const head = "apiVersion: loam.dev/v1alpha1\nkind: Machine\n"

// root is the least of a root.json.
const root = `{"signed": {"_type": "root"}, "signatures": []}`

// authority is one of a test, as it is in a machine.yaml.
const authority = `      -----BEGIN CERTIFICATE-----
      MIIBcDCCARegAwIBAgIUCmqSAhrxS3PKLZL33oTuOPOjFqcwCgYIKoZIzj0EAwIw
      DTELMAkGA1UEAwwCY2EwIBcNMjYxMTIxMTk1NDI5WhgPMjEyNjEwMjgxOTU0Mjla
      MA0xCzAJBgNVBAMMAmNhMFkwEwYHKoZIzj0CAQYIKoZIzj0DAQcDQgAEy+9lpiRI
      00CRn1nCkknb6nkzFCN+f68x6tUs9U98Xn/V1WRRrhHHDayxdGis40EAB+xBErJC
      23a+fJALfeFp0qNTMFEwHQYDVR0OBBYEFFy1o93C+MRuO/KNTdsHZ5Pa7xDdMB8G
      A1UdIwQYMBaAFFy1o93C+MRuO/KNTdsHZ5Pa7xDdMA8GA1UdEwEB/wQFMAMBAf8w
      CgYIKoZIzj0EAwIDRwAwRAIgDs/iUwFb2QjvgvJpNSzjR2i1ZXe5sD2xcxGaiFz+
      PvYCIHi62ZGe8laq2HwxHRZfEzzvrXqVWgT6OCtOKzEKorpc
      -----END CERTIFICATE-----
`

// TestNodesOfAClusterTakeTags: Gardener names images by tags, an operator can look
// a digest up.
func TestNodesOfAClusterTakeTags(t *testing.T) {
	cluster := machine.Source{Cluster: &machine.Cluster{}}
	nodeAgent := machine.Source{NodeAgent: &machine.NodeAgent{}}
	file := machine.Source{File: &machine.File{Path: "/a"}}
	for _, test := range []struct {
		name, tags  string
		source      machine.Source
		digestsOnly bool
	}{
		{name: "no source", digestsOnly: true},
		{name: "a file", source: file, digestsOnly: true},
		{name: "a file, allowed", source: file, tags: "allow"},
		{name: "a cluster", source: cluster},
		{name: "Gardener", source: nodeAgent},
		{name: "Gardener, refused", source: nodeAgent, tags: "refuse", digestsOnly: true},
	} {
		m := machine.Machine{Source: test.source, Images: machine.Images{Tags: test.tags}}
		if got := m.DigestsOnly(); got != test.digestsOnly {
			t.Errorf("%s: %t", test.name, got)
		}
	}
}

func TestDecode(t *testing.T) {
	for _, test := range []struct {
		name, text string
		want       machine.Machine
	}{
		{name: "nothing but the head", text: head},
		{
			name: "fields without a value, which is as if they were not there",
			text: head + "network:\nsource: null\ncontents:\nupgrade: ~\ndataVolume:\n",
		},
		{
			name: "everything",
			text: head + "hostname: nuc-01.site\nsource:\n  file: {path: /etc/loam/config.yaml}\n" +
				"debugShell: [ttyS1, tty2, hvc0]\n" +
				"contents: {directory: {path: /var/lib/contents}}\n",
			want: machine.Machine{
				Contents: machine.Contents{
					Directory: &machine.Directory{Path: "/var/lib/contents"},
				},
				Hostname:   "nuc-01.site",
				Source:     machine.Source{File: &machine.File{Path: "/etc/loam/config.yaml"}},
				DebugShell: []string{"ttyS1", "tty2", "hvc0"},
			},
		},
		{
			name: "a proxy",
			text: head + "proxy:\n  url: http://node:secret@proxy.site.example:3128\n" +
				"  noProxy: [.site.example, 10.0.0.0/8]\n",
			want: machine.Machine{Proxy: machine.Proxy{
				URL:     "http://node:secret@proxy.site.example:3128",
				NoProxy: []string{".site.example", "10.0.0.0/8"},
			}},
		},
		{
			name: "a file of the ESP",
			text: head + "source: {esp: {path: /loam/config.yaml}}\n",
			want: machine.Machine{
				Source: machine.Source{ESP: &machine.ESP{Path: "/loam/config.yaml"}},
			},
		},
		{
			name: "a cluster",
			text: head + "source:\n  cluster:\n    server: https://a\n    secret: a.b\n" +
				"    zone: Eu_west-1.a\n    kubernetesVersion: 1.36.3\n    ca: |\n" + authority,
			want: machine.Machine{Source: machine.Source{Cluster: &machine.Cluster{
				Server:            "https://a",
				CA:                strings.ReplaceAll(authority, "      ", ""),
				Secret:            "a.b",
				Zone:              "Eu_west-1.a",
				KubernetesVersion: "1.36.3",
			}}},
		},
		{
			name: "where upgrades come from",
			text: head + "upgrade: {repository: 'https://updates.example/loam', root: '" + root + "', " +
				"version: 0.2.0, pace: 2h, trial: 5m, window: 'Sat 22:00-04:00'}\n",
			want: machine.Machine{Upgrade: machine.Upgrade{
				Repository: "https://updates.example/loam",
				Root:       root,
				Version:    "0.2.0",
				Pace:       "2h",
				Trial:      "5m",
				Window:     "Sat 22:00-04:00",
			}},
		},
		{
			name: "a system that is held",
			text: head + "upgrade: {hold: until the audit}\n",
			want: machine.Machine{Upgrade: machine.Upgrade{Hold: "until the audit"}},
		},
		{
			name: "turns for upgrades",
			text: head + "upgrade: {turns: {fleetlock: 'https://turns.example/base', group: line-3}}\n",
			want: machine.Machine{Upgrade: machine.Upgrade{
				Turns: machine.Turns{FleetLock: "https://turns.example/base", Group: "line-3"},
			}},
		},
		{
			name: "a directory of upgrades with a character that a URL has not",
			text: head + "upgrade: {mirrors: ['/srv/100%']}\n",
			want: machine.Machine{Upgrade: machine.Upgrade{Mirrors: []string{"/srv/100%"}}},
		},
		{
			name: "what is open of the kernel",
			text: head + "kernel: {modules: [sctp, pn-pep], userNamespaces: true, ioUring: true}\n",
			want: machine.Machine{Kernel: kernel.Opening{
				Modules:        []string{"sctp", "pn-pep"},
				UserNamespaces: true,
				IOUring:        true,
			}},
		},
		{
			name: "a disk for data",
			text: head + "dataVolume: {minSize: 90Gi, maxSize: 100G, serial: S1, model: FAST 1, " +
				"path: 'pci-0000:03:00.0-nvme-1', onlyEmpty: true, fileSystem: xfs}\n",
			want: machine.Machine{DataVolume: machine.Volume{
				DiskClaim: machine.DiskClaim{
					MinSize:   "90Gi",
					MaxSize:   "100G",
					Serial:    "S1",
					Model:     "FAST 1",
					Path:      "pci-0000:03:00.0-nvme-1",
					OnlyEmpty: true,
				},
				FileSystem: "xfs",
			}},
		},
		{
			name: "disks for system and state",
			text: head + "install: {disk: {serial: S1, model: FAST 1}, wipe: S1}\n" +
				"state: {disk: {minSize: 90Gi, maxSize: 100G, onlyEmpty: true}}\n",
			want: machine.Machine{
				Install: &machine.Install{
					Disk: machine.DiskClaim{Serial: "S1", Model: "FAST 1"},
					Wipe: "S1",
				},
				State: &machine.State{Disk: machine.DiskClaim{
					MinSize:   "90Gi",
					MaxSize:   "100G",
					OnlyEmpty: true,
				}},
			},
		},
		{
			name: "keys that sign later documents",
			text: head + "trust: {keys: [" + keyOne + ", " + keyTwo + "]}\n",
			want: machine.Machine{Trust: machine.Trust{Keys: []string{keyOne, keyTwo}}},
		},
		{
			name: "an encrypted state, which is made again if it is damaged",
			text: head + "state: {encrypt: tpm, onDamage: reset}\n",
			want: machine.Machine{State: &machine.State{
				Encrypt:  machine.EncryptTPM,
				OnDamage: machine.OnDamageReset,
			}},
		},
		{
			name: "a damaged state partition that is made again",
			text: head + "state: {onDamage: reset}\n",
			want: machine.Machine{State: &machine.State{OnDamage: machine.OnDamageReset}},
		},
		{
			name: "an encrypted state",
			text: head + "state: {encrypt: tpm}\n",
			want: machine.Machine{State: &machine.State{Encrypt: machine.EncryptTPM}},
		},
		{
			name: "a credential",
			text: head + "source: {credential: {name: loam.config}}\n",
			want: machine.Machine{
				Source: machine.Source{Credential: &machine.Credential{Name: "loam.config"}},
			},
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			got, err := machine.Decode("machine.yaml", []byte(test.text))
			if err != nil {
				t.Fatal(err)
			}
			test.want.APIVersion = machine.APIVersion
			test.want.Kind = machine.Kind
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("Decode (-want +got):\n%s", diff)
			}
		})
	}
}

// keyOne and keyTwo are public keys, as machine.yaml has them.
const (
	keyOne = "MCowBQYDK2VwAyEAiojj3XQJ8ZX9UtstPLpdcspnCb8dlBIb83SIAbQPb1w="
	keyTwo = "MCowBQYDK2VwAyEAgTl3Dqh9F19Wo1Rmw0x+zMuNipG07jeiXfYPW4/Js5Q="
)

func TestDecodeErrors(t *testing.T) {
	const (
		pathHint = "; hint: begin it with / and leave out . and .. and a / at the end"
		nameHint = "; hint: write at most 63 lower-case letters, digits, dashes and dots"
		credHint = " is not the name of a credential for Loam; hint: " +
			"write a name that begins with loam. such as loam.config"
		labelHint = "; hint: write up to 63 letters, digits, dots, dashes and underscores, " +
			"with a letter or digit at both ends"
		sizeHint = "; hint: write one such as 100Gi (of 1024), 100G (of 1000), " +
			"or a number of bytes in quotes"
		claimHint = "; hint: claim another disk: system, state, data and etcd have a disk each"

		repositoryHint = " is not a repository; hint: write an absolute directory, " +
			"http://HOST/DIR, https://HOST/DIR or oci://HOST/NAME:TAG"
		rootHint    = "; hint: write the text of metadata/1.root.json of the repository"
		versionHint = " is not the version of a release; hint: " +
			"write one version such as 0.2.0, or newest: there are no patterns"
		shareHint = " is not an address with a port; hint: write one such as 192.0.2.1:2752"
		ownHint   = " has a port at which the agent serves metrics and health on 127.0.0.1; " +
			"hint: write another port, or an address of the network"
		termHint = " is not a terminal; hint: write a name such as tty2, ttyS1 or hvc0, " +
			"without /dev/"
	)

	for _, test := range []struct{ name, text, want string }{
		{
			name: "another kind of document",
			text: "apiVersion: v1\nkind: Secret\ndata: {}\n",
			want: "m:1: apiVersion: \"v1\" is not known here; hint: write apiVersion: " +
				"loam.dev/v1alpha1\n" +
				"m:2: kind: \"Secret\" is not known here; hint: write kind: Machine",
		},
		{
			name: "a version that does not exist yet",
			text: "apiVersion: loam.dev/v1\nkind: Machine\nx: y\n",
			want: "m:1: apiVersion: \"loam.dev/v1\" is not known here; hint: write apiVersion: " +
				"loam.dev/v1alpha1",
		},
		{
			name: "no kind",
			text: "apiVersion: loam.dev/v1alpha1\n",
			want: "m:1: kind: an empty value is not known here; hint: write kind: Machine",
		},
		{
			name: "an unknown field",
			text: head + "hostName: a\n",
			want: "m:3: hostName: unknown field; hint: did you mean hostname?",
		},
		{
			name: "faults of all kinds at once",
			text: head + "hostName: a\nsource: {epc: {}}\ninstall: {disk: 5}\nhostname: A\n",
			want: "m:3: hostName: unknown field; hint: did you mean hostname?\n" +
				"m:4: source.epc: unknown field; hint: known here: file, esp, credential, " +
				"cluster, nodeAgent\n" +
				`m:5: install.disk: is the number "5", want fields; hint: ` +
				"write it as name: value lines\n" +
				`m:6: hostname: "A" is not a host name` + nameHint + ", such as a",
		},
		{
			name: "trust in no key",
			text: head + "trust: {keys: []}\n",
			want: "m:3: trust: is empty; hint: write keys, or leave it out: " +
				"no signature is needed then",
		},
		{
			name: "trust in half a key, and in a key twice",
			text: head + "trust: {keys: [MCowBQYDK2Vw, " + keyOne + ", " + keyOne + "]}\n",
			want: "m:3: trust.keys[0]: is not a public ed25519 key; hint: " +
				"write the line between BEGIN and END that `openssl pkey -in machine.key " +
				"-pubout` prints\n" +
				"m:3: trust.keys[2]: given twice; hint: keep one of them",
		},
		{
			name: "a hold that is more than a line",
			text: head + "upgrade: {hold: \"a\\nb\"}\n",
			want: "m:3: upgrade.hold: has a control character, or more than 200 bytes; hint: " +
				"say in a line why the machine keeps its system",
		},
		{
			name: "images of nothing",
			text: head + "images: {}\n",
			want: "m:3: images: is empty; hint: write tags or keys, or leave it out",
		},
		{
			name: "images by an unknown rule, and by a key that is none",
			text: head + "images: {tags: never, keys: [abc]}\n",
			want: `m:3: images.tags: "never" is not known here; hint: write allow or refuse` + "\n" +
				"m:3: images.keys[0]: is not a public key; hint: " +
				"write the text of cosign.pub, from -----BEGIN PUBLIC KEY----- on",
		},
		{
			name: "an upper-case host name",
			text: head + "hostname: NUC\n",
			want: `m:3: hostname: "NUC" is not a host name` + nameHint + ", such as nuc",
		},
		{
			name: "a host name that ends in a dash",
			text: head + "hostname: a-\n",
			want: `m:3: hostname: "a-" is not a host name: ` +
				"a name has letters and digits, with dashes and dots between them" + nameHint,
		},
		{
			name: "a host name with a dot at its end",
			text: head + "hostname: a.b.\n",
			want: `m:3: hostname: "a.b." is not a host name` + nameHint + ", such as a.b",
		},
		{
			name: "the host name of every machine",
			text: head + "hostname: localhost\n",
			want: `m:3: hostname: "localhost" is not a host name: every machine is called so` + nameHint,
		},
		{
			name: "an address for a host name",
			text: head + "hostname: 10.0.0.7\n",
			want: `m:3: hostname: "10.0.0.7" is not a host name: it is an address` + nameHint,
		},
		{
			name: "a long host name",
			text: head + "hostname: node-1." + strings.Repeat("site.", 12) + "example\n",
			want: `m:3: hostname: "node-1.` + strings.Repeat("site.", 10) +
				`sit"… is not a host name` + nameHint + ", such as node-1",
		},
		{
			name: "a cluster with networks that overlap",
			text: head + "cluster:\n  init:\n    pods: [10.96.0.0/12]\n",
			want: "m:4: cluster.init.services[0]: 10.96.0.0/16 overlaps 10.96.0.0/12 of pods[0]; " +
				"hint: write networks that have no address in common",
		},
		{
			name: "a cluster of its own beside a source",
			text: head + "source: {nodeAgent: {}}\ncluster: {init: {}}\n",
			want: "m:4: cluster.init: is set as well as source; hint: keep one of them: a machine " +
				"that is a cluster has its configuration from there",
		},
		{
			name: "a cluster that says nothing",
			text: head + "cluster: {}\n",
			want: "m:3: cluster: is empty; hint: write init: {}, which makes the machine a cluster, " +
				"or leave it out",
		},
		{
			name: "two sources",
			text: head + "source:\n  file: {path: /a}\n  esp: {path: /a}\n",
			want: "m:3: source: has more than one kind; hint: keep one of file, esp, credential, " +
				"cluster and nodeAgent",
		},
		{
			name: "a source without a path",
			text: head + "source:\n" +
				"  file: {}\n",
			want: "m:4: source.file.path: empty; hint: write an absolute path, " +
				"such as /loam/config.yaml",
		},
		{
			name: "a relative path",
			text: head + "source:\n  file: {path: a}\n",
			want: `m:4: source.file.path: "a" is not the absolute path of a file` + pathHint,
		},
		{
			name: "a path that leaves the ESP",
			text: head + "source:\n" +
				"  esp: {path: /../a}\n",
			want: `m:4: source.esp.path: "/../a" is not the absolute path of a file` + pathHint,
		},
		{
			name: "a directory of contents without a path",
			text: head + "contents: {directory: {}}\n",
			want: "m:3: contents.directory.path: empty; hint: write an absolute path, " +
				"such as /var/lib/contents",
		},
		{
			name: "a relative directory of contents",
			text: head + "contents: {directory: {path: a/}}\n",
			want: `m:3: contents.directory.path: "a/" is not the absolute path of a directory` +
				pathHint,
		},
		{
			name: "an API server with a password",
			text: head + "source:\n  cluster:\n    server: https://ada:s3cret@a\n    secret: a\n" +
				"    ca: |\n" + authority,
			want: `m:5: source.cluster.server: "https://…@a" has a user, as whom no node logs in; ` +
				"hint: leave it out: the node joins with bootstrapToken, and then has a certificate",
		},
		{
			name: "an oci repository with a password",
			text: head + "upgrade: {repository: 'oci://ada:s3cret@a/b', " +
				"mirrors: ['oci://ada:s3cret@a/b'], root: '{\"signed\": {\"_type\": \"root\"}}'}\n",
			want: `m:3: upgrade.repository: "oci://…@a/b" is not a repository; hint: write an ` +
				"absolute directory, http://HOST/DIR, https://HOST/DIR or oci://HOST/NAME:TAG\n" +
				`m:3: upgrade.mirrors[0]: "oci://…@a/b" is neither a directory nor a URL; hint: ` +
				"write one such as http://192.0.2.7:2752",
		},
		{
			name: "labels that no Node can have",
			text: head + "source:\n  cluster:\n    server: https://a\n    secret: a\n" +
				"    zone: eu west\n    kubernetesVersion: v1.\n    ca: |\n" + authority,
			want: `m:7: source.cluster.zone: "eu west" is not the value of a label` +
				labelHint + "\n" +
				`m:8: source.cluster.kubernetesVersion: "v1." is not the value of a label` +
				labelHint,
		},
		{
			name: "a credential of others",
			text: head + "source:\n" +
				"  credential: {name: passwd.root}\n",
			want: `m:4: source.credential.name: "passwd.root"` + credHint,
		},
		{
			name: "a credential that is a path",
			text: head + "source:\n" +
				"  credential: {name: loam./x}\n",
			want: `m:4: source.credential.name: "loam./x"` + credHint,
		},
		{
			name: "invalid sizes",
			text: head + "dataVolume:\n  minSize: 1.5Ti\n  maxSize: '0'\n",
			want: `m:4: dataVolume.minSize: "1.5Ti" is not a size` + sizeHint + "\n" +
				`m:5: dataVolume.maxSize: "0" is not a size` + sizeHint,
		},
		{
			name: "a range of no size",
			text: head + "dataVolume: {minSize: 100Gi, maxSize: 100G}\n",
			want: `m:3: dataVolume.maxSize: "100G" is less than minSize; hint: write the same or more`,
		},
		{
			name: "a disk by the path of a partition",
			text: head + "dataVolume: {path: pci-0000:03:00.0-nvme-1-part2}\n",
			want: `m:3: dataVolume.path: "pci-0000:03:00.0-nvme-1-part2" is the path of a partition; hint: write that of the disk: pci-0000:03:00.0-nvme-1`,
		},
		{
			name: "a disk by a name that changes",
			text: head + "dataVolume: {path: /dev/sdb}\n",
			want: `m:3: dataVolume.path: "/dev/sdb" is not a name in /dev/disk/by-path; hint: write one such as pci-0000:03:00.0-nvme-1: names such as /dev/sda change from boot to boot`,
		},
		{
			name: "a serial with blanks",
			text: head + "dataVolume: {serial: 'S1 '}\n",
			want: `m:3: dataVolume.serial: "S1 " has spaces around it; hint: leave them out: spaces around the disk's own value are ignored`,
		},
		{
			name: "a disk to install on that is not claimed",
			text: head + "install: {}\n",
			want: `m:3: install.disk: is empty; hint: write what identifies the disk, such as serial`,
		},
		{
			name: "a disk for state that is not claimed",
			text: head + "state: {disk: {}}\n",
			want: `m:3: state.disk: is empty; hint: write what identifies the disk, such as serial`,
		},
		{
			name: "another word for a damaged state partition",
			text: head + "state: {onDamage: format}\n",
			want: `m:3: state.onDamage: "format" is not known here; hint: write reset, or leave it out: a damaged state partition then stays as it is`,
		},
		{
			name: "another disk may be wiped than is installed on",
			text: head + "install: {disk: {model: FAST}, wipe: S1}\n",
			want: `m:3: install.wipe: "S1" is not install.disk.serial; hint: write the serial number of the disk twice: all that is on it is lost`,
		},
		{
			name: "a size that is none, of a disk to install on",
			text: head + "install: {disk: {minSize: '0'}}\n",
			want: `m:3: install.disk.minSize: "0" is not a size` + sizeHint,
		},
		{
			name: "a file system that is not made here",
			text: head + "dataVolume: {fileSystem: btrfs}\n",
			want: `m:3: dataVolume.fileSystem: "btrfs" is not known here; hint: write ext4 or xfs`,
		},
		{
			name: "a file system of etcd that Loam does not make",
			text: head + "cluster: {etcdVolume: {fileSystem: btrfs}}\n",
			want: `m:3: cluster.etcdVolume.fileSystem: "btrfs" is not known here; hint: write ext4 or xfs`,
		},
		{
			name: "a disk for the kubelet and for etcd",
			text: head + "dataVolume: {serial: S1}\ncluster: {etcdVolume: {serial: S1}}\n",
			want: `m:4: cluster.etcdVolume.serial: "S1" is also dataVolume.serial` + claimHint,
		},
		{
			name: "a volume of etcd on a node of another cluster",
			text: head + "source: {file: {path: /a}}\ncluster: {etcdVolume: {serial: S1}}\n",
			want: "m:4: cluster.etcdVolume: is set as well as source; hint: keep one of them: " +
				"only a machine that is a cluster runs etcd",
		},
		{
			name: "a volume of etcd that says nothing",
			text: head + "cluster: {init: {}, etcdVolume: {}}\n",
			want: "m:3: cluster.etcdVolume: is empty; hint: write what identifies the disk, such as " +
				"serial, or leave it out",
		},
		{
			name: "groups that say nothing",
			text: head + "network: {interfaces: []}\nsource: {}\ncontents: {}\n" +
				"upgrade: {}\ndataVolume: {}\n",
			want: "m:3: network: is empty; hint: write interfaces, or leave it out: the node " +
				"then does DHCP on every wired interface\n" +
				"m:4: source: is empty; hint: write one of file, esp, credential, cluster and " +
				"nodeAgent, or leave it out: the node then keeps the configuration it has\n" +
				"m:5: contents: is empty; hint: write directory, or leave it out\n" +
				"m:6: upgrade: is empty; hint: write repository and root, or leave it out\n" +
				"m:7: dataVolume: is empty; hint: write what identifies the disk, such as " +
				"serial, or leave it out",
		},
		{
			name: "a disk that is claimed twice",
			text: head + "install: {disk: {serial: S1}}\nstate: {disk: {serial: S1}}\n" +
				"dataVolume: {serial: S1}\n",
			want: `m:4: state.disk.serial: "S1" is also install.disk.serial` + claimHint + "\n" +
				`m:5: dataVolume.serial: "S1" is also install.disk.serial` + claimHint,
		},
		{
			name: "a repository that no node can open",
			text: head + "upgrade: {repository: 'ftp://a', root: '" + root + "'}\n",
			want: `m:3: upgrade.repository: "ftp://a"` + repositoryHint,
		},
		{
			name: "a repository in a directory that depends on where one is",
			text: head + "upgrade: {repository: updates, root: '" + root + "'}\n",
			want: `m:3: upgrade.repository: "updates"` + repositoryHint,
		},
		{
			name: "a mirror that no node can open",
			text: head + "upgrade: {mirrors: ['http://']}\n",
			want: `m:3: upgrade.mirrors[0]: "http://" is neither a directory nor a URL; hint: ` +
				"write one such as http://192.0.2.7:2752",
		},
		{
			name: "a root that is no JSON",
			text: head + "upgrade: {repository: /srv, root: 1.root.json}\n",
			want: "m:3: upgrade.root: is not JSON" + rootHint,
		},
		{
			name: "a root that says nothing",
			text: head + "upgrade: {repository: /srv, root: '{}'}\n",
			want: "m:3: upgrade.root: is not the root metadata of a repository" + rootHint,
		},
		{
			name: "other metadata than the root",
			text: head + `upgrade: {repository: /srv, root: '{"signed": {"_type": "snapshot"}}'}`,
			want: `m:3: upgrade.root: is the "snapshot" metadata of a repository, not the root` +
				rootHint,
		},
		{
			name: "a pattern of versions",
			text: head + "upgrade: {repository: /srv, root: '" + root + "', version: 0.2.x}\n",
			want: `m:3: upgrade.version: "0.2.x"` + versionHint,
		},
		{
			name: "a version that is a range",
			text: head + "upgrade: {repository: /srv, root: '" + root + "', version: '>=0.2'}\n",
			want: `m:3: upgrade.version: ">=0.2"` + versionHint,
		},
		{
			name: "a port that there is not",
			text: head + "upgrade: {share: '0.0.0.0:99999'}\n",
			want: `m:3: upgrade.share: "0.0.0.0:99999"` + shareHint,
		},
		{
			name: "the port of the metrics to share at, on all addresses",
			text: head + "upgrade: {share: ':2752'}\n",
			want: `m:3: upgrade.share: ":2752"` + ownHint,
		},
		{
			name: "the port of the health to share at, on all addresses of IPv6, too",
			text: head + "upgrade: {share: '[::]:2751'}\n",
			want: `m:3: upgrade.share: "[::]:2751"` + ownHint,
		},
		{
			name: "the address of the metrics to share at",
			text: head + "upgrade: {share: '127.0.0.1:2752'}\n",
			want: `m:3: upgrade.share: "127.0.0.1:2752"` + ownHint,
		},
		{
			name: "an authority, and one that is cut off",
			text: head + "source:\n  cluster:\n    server: https://a\n    secret: a\n    ca: |\n" +
				authority + "      -----BEGIN CERTIFICATE-----\n      MIIBcDCCARegAwIBAgIUCmqSAhrxS3PK\n",
			want: "m:7: source.cluster.ca: has a certificate that cannot be read, after 1 that can; hint: " +
				"write the certificate authority of the API server as PEM, " +
				"from -----BEGIN CERTIFICATE----- on",
		},
		{
			name: "the word of others for the newest release",
			text: head + "upgrade: {version: latest}\n",
			want: `m:3: upgrade.repository: is empty; hint: write where version "latest" is published` +
				"\n" + `m:3: upgrade.version: "latest"` + versionHint,
		},
		{
			name: "an API server without a host",
			text: head + "source:\n  cluster:\n    server: https://:6443\n    secret: a\n    ca: |\n" +
				authority,
			want: `m:5: source.cluster.server: "https://:6443" is not the URL of an API server; ` +
				"hint: write one such as https://api.example.com:6443",
		},
		{
			name: "a mirror with a port that is none",
			text: head + "upgrade: {mirrors: ['http://a:80800']}\n",
			want: `m:3: upgrade.mirrors[0]: "http://a:80800" is neither a directory nor a URL; hint: ` +
				"write one such as http://192.0.2.7:2752",
		},
		{
			name: "a registry without a name in it",
			text: head + "upgrade: {mirrors: ['oci://registry.example:5000']}\n",
			want: `m:3: upgrade.mirrors[0]: "oci://registry.example:5000" is neither a directory ` +
				"nor a URL; hint: write one such as http://192.0.2.7:2752",
		},
		{
			name: "a name to share at",
			text: head + "upgrade: {share: 'node-1:2752'}\n",
			want: `m:3: upgrade.share: "node-1:2752"` + shareHint,
		},
		{
			name: "turns at a server without a scheme",
			text: head + "upgrade: {turns: {fleetlock: '192.0.2.1:8080'}}\n",
			want: `m:3: upgrade.turns.fleetlock: "192.0.2.1:8080" is not a URL of a server` +
				"; hint: write one such as http://192.0.2.1:8080",
		},
		{
			name: "a group of turns without a server",
			text: head + "upgrade: {turns: {group: line-3}}\n",
			want: `m:3: upgrade.turns.group: has no server` +
				"; hint: write upgrade.turns.fleetlock, its URL",
		},
		{
			name: "a group of turns with a space",
			text: head + "upgrade: {turns: {fleetlock: 'http://a', group: line 3}}\n",
			want: `m:3: upgrade.turns.group: "line 3" is not a name of a group` +
				"; hint: write letters, digits, dots and hyphens, such as line-3",
		},
		{
			name: "a proxy of another kind",
			text: head + "proxy: {url: 'socks5://node:secret@proxy:1080'}\n",
			want: "m:3: proxy.url: the URL is not a URL of http or https" + proxyHint,
		},
		{
			name: "a proxy that is none",
			text: head + "proxy: {url: 'http://node:sec ret@proxy'}\n",
			want: "m:3: proxy.url: the URL is not a URL" + proxyHint,
		},
		{
			name: "what needs no proxy, and no proxy",
			text: head + "proxy: {noProxy: [a.example]}\n",
			want: "m:3: proxy.url: is missing" + proxyHint,
		},
		{
			name: "an exception that is none",
			text: head + "proxy: {url: 'http://proxy:3128', noProxy: ['*']}\n",
			want: `m:3: proxy.noProxy[0]: "*" is no name, domain, address or network; hint: ` +
				"write it as site.example, 192.0.2.1 or 10.0.0.0/8",
		},
		{
			name: "an empty proxy",
			text: head + "proxy: {}\n",
			want: "m:3: proxy: is empty; hint: write url, or leave it out: the node then needs no proxy",
		},
		{
			name: "what the kernel has no module for",
			text: head + "kernel:\n  modules: [SCTP, can, /dev/sctp, can]\n",
			want: `m:4: kernel.modules[0]: "SCTP" is not a module of the kernel; ` +
				"hint: write a name such as sctp or btrfs\n" +
				`m:4: kernel.modules[2]: "/dev/sctp" is not a module of the kernel; ` +
				"hint: write a name such as sctp or btrfs\n" +
				`m:4: kernel.modules[3]: "can" given twice; hint: keep one of them`,
		},
		{
			name: "nothing of the kernel",
			text: head + "kernel: {ioUring: false}\n",
			want: "m:3: kernel: is empty; hint: write modules, userNamespaces or ioUring, " +
				"or leave it out: all stays closed then",
		},
		{
			name: "a shell on a device path",
			text: head + "debugShell: [/dev/ttyS1]\n",
			want: `m:3: debugShell[0]: "/dev/ttyS1"` + termHint,
		},
		{
			name: "two shells on a terminal",
			text: head + "debugShell: [ttyS1, ttyS1]\n",
			want: `m:3: debugShell[1]: "ttyS1" given twice; hint: keep one of them`,
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			_, err := machine.Decode("m", []byte(test.text))
			if err == nil {
				t.Fatal("Decode: no error")
			}
			if diff := cmp.Diff(test.want, err.Error()); diff != "" {
				t.Errorf("Decode (-want +got):\n%s", diff)
			}
		})
	}
}

// proxyHint is the hint of every fault in a URL of a proxy.
const proxyHint = "; hint: write http://HOST:PORT, with USER:PASSWORD@ before the host if it " +
	"needs them; other signs than letters and digits in them as % and two hexadecimal digits"

// TestPasswordOfAProxyIsNotShown: neither in an error nor in the summary.
func TestPasswordOfAProxyIsNotShown(t *testing.T) {
	for _, text := range []string{
		"proxy: http://node:secret@proxy\n",
		"proxy: [http://node:secret@proxy]\n",
		"proxy: {url: [http://node:secret@proxy]}\n",
		"proxy: {url: {http: node:secret@proxy}}\n",
		"proxy: {url: 'ftp://node:secret@proxy'}\n",
		"proxy: {uri: 'http://node:secret@proxy'}\n",
	} {
		_, err := machine.Decode("m", []byte(head+text))
		if err == nil || strings.Contains(err.Error(), "secret") {
			t.Errorf("%s: %v", text, err)
		}
	}

	m, err := machine.Decode("m", []byte(head+"proxy: {url: 'http://node:secret@proxy:3128'}\n"))
	if err != nil {
		t.Fatal(err)
	}
	lines := m.Summary()
	summary := strings.Join(lines[:], "; ")
	if strings.Contains(summary, "secret") || !strings.Contains(summary, "by proxy proxy:3128") {
		t.Error(summary)
	}
}

func TestExample(t *testing.T) {
	text, err := os.ReadFile("../../examples/machine.yaml")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := machine.Decode("examples/machine.yaml", text); err != nil {
		t.Error(err)
	}
}

// FuzzDecode checks that whatever decodes is safe to act on.
func FuzzDecode(f *testing.F) {
	f.Add([]byte(head + "hostname: a\nsource: {file: {path: /a}}\ndebugShell: [ttyS1]\n"))
	f.Add([]byte(head + "source: {credential: {name: loam.config}}\n"))
	f.Add([]byte(head + "source: {esp: {path: /loam/config.yaml}}\n"))

	f.Fuzz(func(t *testing.T, text []byte) {
		m, err := machine.Decode("m", text)
		if err != nil {
			return
		}

		for _, name := range m.DebugShell {
			if strings.ContainsAny(name, "/. \n") {
				t.Errorf("terminal %q", name)
			}
		}

		if m.Source.Credential != nil && strings.Contains(m.Source.Credential.Name, "/") {
			t.Errorf("credential %q", m.Source.Credential.Name)
		}
		if m.Source.ESP != nil && strings.Contains(m.Source.ESP.Path, "/../") {
			t.Errorf("ESP file %q", m.Source.ESP.Path)
		}
	})
}

// What machine.yaml takes for a repository can be opened.
func TestARepositoryCanBeOpened(t *testing.T) {
	for _, ref := range []string{
		"https://a/updates", "http://a:8080", "oci://a/b", "oci://a:5000/b/c:d", "oci+http://a/b:c",
		"https://", "https://a:66443/x", "oci://a", "oci://a/", "oci://a:5000", "oci://a/b:", "oci://:5000/b",
		"oci://a/b@sha256:01", "oci://a/b:c:d", "oci://a/b%20c", "oci://a/b c",
	} {
		_, err := repository.Open(ref)
		if machine.IsRepository(ref) && err != nil {
			t.Errorf("%s is a repository for machine.yaml, and not for the node: %v", ref, err)
		}
	}
	for _, ref := range []string{"https://a/updates", "oci://a/b", "oci://a:5000/b/c:d"} {
		if !machine.IsRepository(ref) {
			t.Errorf("%s is no repository", ref)
		}
	}
}

// The agent's own servers are at the ports at which nothing is shared.
func TestTheAgentServesAtItsOwnPorts(t *testing.T) {
	for _, address := range []string{metrics.Address, metrics.HealthAddress} {
		_, err := machine.Decode("m", []byte(head+"upgrade: {share: '"+address+"'}\n"))
		if err == nil {
			t.Errorf("%s is accepted", address)
		}
	}
}
