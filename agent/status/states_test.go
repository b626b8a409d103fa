package status

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/rogpeppe/go-internal/txtar"

	"github.com/loam-os/loam/agent/config"
	"github.com/loam-os/loam/hint/fault"
)

// now is when each of the states is looked at, 15 minutes after kernel start.
var now = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

const (
	one   = "000001-0123456789ab"
	two   = "000002-123456789abc"
	three = "000003-23456789abcd"
)

// firstBoot is a node that has just started.
func firstBoot() Status {
	return Status{
		Phase:        Waiting,
		ImageID:      "loam-node-os",
		ImageVersion: "0.1.0",
		Slot:         "a",
		RootHash:     strings.Repeat("0123456789abcdef", 4),
		Kernel:       "6.12.48+deb13-amd64",
		SecureBoot:   "on",
		Hostname:     "node-1",
		Machine:      "/efi/loam/machine.yaml",
		Repository:   "https://releases.example.org/loam",
		Uptime:       Duration(15 * time.Minute),
		Network: &Network{
			From: NetworkOfMachine,
			Interfaces: []Interface{
				{Name: "enp1s0", State: "routable", Addresses: []string{"192.0.2.10/24"}},
			},
		},
		Upgrade: &Upgrade{},
	}
}

// running is a node that runs its second configuration and is well.
func running() Status {
	s := firstBoot()
	s.Phase = Applied
	s.AppliedAt = Duration(12300 * time.Millisecond)
	s.Generation = two
	s.Source = "/var/lib/demo/config.yaml"
	s.Files = 12
	s.Units = []Unit{
		well("containerd.service"),
		well("hello.service"),
		well("kubelet.service"),
	}
	s.Upgrade.Other = "0.0.9"
	return s
}

// member is a node of a cluster that is well.
func member() Status {
	s := running()
	s.Source = "Secret kube-system/pool-edge"
	s.Cluster = &Cluster{
		Server:    "https://api.example.org:6443",
		Secret:    "pool-edge",
		Node:      "node-1",
		Connected: true,
		Reached:   true,
		Ready:     true,
		Since:     now.Add(-14 * time.Minute),
		Expires:   now.Add(90 * 24 * time.Hour),
	}
	return s
}

func well(name string) Unit {
	return Unit{
		Name:    name,
		Active:  "active",
		Sub:     "running",
		Settled: true,
		Since:   Duration(11500 * time.Millisecond),
	}
}

func unwell(name, active, sub string) Unit {
	return Unit{
		Name:   name,
		Active: active,
		Sub:    sub,
		Since:  Duration(870 * time.Second),
	}
}

// refuse has the node run what it ran before.
func (s *Status) refuse(kind Refusal, e Error) {
	s.Phase = Failed
	s.Refused = true
	s.Refusal = kind
	s.Error = &e
}

// lowState and fullRun are file systems with little room.
var (
	lowState = FileSystem{
		Path:    "/var",
		Problem: "the state partition (/var) is nearly full: 90.0 MiB of 8.0 GiB are free, and 4100 of 524288 inodes",
		Hint:    "`du -xhd3 /var | sort -h | tail` shows what takes the room",
		Code:    fault.DiskNearlyFull,
	}
	fullRun = FileSystem{
		Path:    "/run",
		Full:    true,
		Problem: "/run is full: 0.0 MiB of 390.0 MiB are free",
		Hint:    "`du -xhd3 /run | sort -h | tail` shows what takes the room",
		Code:    fault.DiskFull,
	}
)

const helloLog = "hello: listen tcp :80: address already in use"

// states are the states of a node that an operator may meet.
var states = []struct {
	name string
	of   func() Status
	edit func(s *Status)
}{
	{"agent-starts", firstBoot, func(s *Status) { s.Phase = "" }},
	{"first-boot", firstBoot, func(s *Status) {
		s.Upgrade = nil
		s.Repository = ""
	}},
	{"waiting-for-source", firstBoot, func(s *Status) {
		s.Missing = "/var/lib/demo/config.yaml: not there"
	}},
	{"no-machine-yaml", firstBoot, func(s *Status) {
		s.Machine = ""
		s.Network.From = NetworkOfImage
		s.Missing = "this node has no source of configuration"
	}},
	{"machine-yaml-wrong", firstBoot, func(s *Status) {
		s.Phase = Failed
		s.Network.From = NetworkKept
		s.Error = &Error{
			Document: "/efi/loam/machine.yaml",
			Line:     12,
			Path:     "network.interfaces[3].vlan.id",
			Problem:  "4095 is not between 1 and 4094",
			Hint:     "write the ID of the VLAN",
		}
	}},
	{"first-configuration-refused", firstBoot, func(s *Status) {
		s.refuse(Invalid, Error{
			Document: "/var/lib/demo/config.yaml",
			Line:     6,
			Path:     "spec.units[0].filePaths[0]",
			Problem:  `"/etc/demo/one" is not among the files`,
			Hint:     "add the file, or remove it here",
		})
	}},
	{"applying", running, func(s *Status) {
		s.Phase = Applying
		s.Change = &Change{Good: one}
	}},
	{"unit-waits", running, func(s *Status) {
		s.Phase = Applying
		s.Change = &Change{Good: one, Waits: "unit hello.service is activating/start"}
		s.Awaited = &Awaited{
			Unit:     "hello.service",
			State:    "activating/start",
			Others:   2,
			Deadline: Duration(17 * time.Minute),
		}
		s.Units[1] = unwell("hello.service", "activating", "start")
	}},
	{"unit-hangs", running, func(s *Status) {
		s.refuse(Reverted, Error{
			Unit: "hello.service",
			Problem: "generation " + three + " was taken back: unit hello.service is " +
				"activating/start after 3m0s; its log ends: waiting for the database",
			Hint: "`loam why` shows its log; change it, or try it again with `loam apply`",
		})
		s.RevertedFrom = three
	}},
	{"applied", running, func(*Status) {}},
	{"refused-document", running, func(s *Status) {
		s.refuse(Invalid, Error{
			Document: "/var/lib/demo/config.yaml",
			Line:     12,
			Path:     "spec.units[2].name",
			Problem:  "empty",
			Hint:     "give the unit a name",
		})
	}},
	{"content-unavailable", member, func(s *Status) {
		s.refuse(Unavailable, Error{
			Document: "Secret kube-system/pool-edge",
			Line:     31,
			Path:     "spec.files[2].content.imageRef",
			Problem:  "registry.example.org/tools:1.2: 503 Service Unavailable",
			Hint:     "the node goes on by itself once the registry answers",
		})
	}},
	{"taken-back", member, func(s *Status) {
		s.refuse(Reverted, Error{
			Unit: "hello.service",
			Problem: "generation " + three + " was taken back: unit hello.service failed: " +
				"exit-code, exit code 1; its log ends: " + helloLog,
			Hint: "`loam why` shows its log; change it, or try it again with `loam apply`",
		})
		s.RevertedFrom = three
	}},
	{"held", member, func(s *Status) {
		s.Held = &Held{Digest: "23456789abcd", Why: "rolled back by the operator"}
	}},
	{"watched", running, func(s *Status) {
		s.Change = &Change{Good: one, Waits: "all units that count are well"}
	}},
	{"watched-first", running, func(s *Status) {
		s.Generation = one
		s.Change = &Change{Waits: "all units that count are well"}
	}},
	{"trial-of-configuration", running, func(s *Status) {
		s.Source = "new.yaml"
		s.Change = &Change{
			Good:  one,
			Until: now.Add(4*time.Minute + 50*time.Second),
			Waits: "it is well and waits to be confirmed",
		}
	}},
	{"unit-failed", running, func(s *Status) {
		s.Phase = Failed
		s.Units[1] = unwell("hello.service", "failed", "failed")
		s.Error = &Error{
			Unit: "hello.service",
			Problem: "unit hello.service failed: exit-code, exit code 1; its log ends: " +
				helloLog,
			Hint: "`loam logs hello.service`",
		}
	}},
	{"unit-restarts", running, func(s *Status) {
		s.Units[1] = unwell("hello.service", "activating", "auto-restart")
		s.Warnings = []string{"unit hello.service does not stay up: systemd has restarted it " +
			"3 times; its log ends: " + helloLog + "; hint: `loam logs hello.service`"}
	}},
	{"upgrade-fetching", member, func(s *Status) {
		s.Upgrade.Phase = "staging"
		s.Upgrade.From = "0.1.0"
		s.Upgrade.To = "0.2.0"
		s.Upgrade.Part = "root"
		s.Upgrade.Done = 120 << 20
		s.Upgrade.Size = 480 << 20
		s.Upgrade.Other = ""
	}},
	{"upgrade-unreachable", member, func(s *Status) {
		s.Upgrade.Phase = "staging"
		s.Upgrade.From = "0.1.0"
		s.Upgrade.To = "0.2.0"
		s.Upgrade.Problem = "https://releases.example.org/loam: connection refused"
		s.Upgrade.Retry = now.Add(40 * time.Second)
		s.Upgrade.Other = ""
	}},
	{"upgrade-armed", member, func(s *Status) {
		s.Upgrade.Phase = "armed"
		s.Upgrade.From = "0.1.0"
		s.Upgrade.To = "0.2.0"
		s.Upgrade.Waits = "restarts on Mon at 02:00 UTC"
		s.Upgrade.Restarts = now.Add(14 * time.Hour)
		s.Upgrade.Other = "0.2.0"
	}},
	{"upgrade-on-trial", member, func(s *Status) {
		s.ImageVersion = "0.2.0"
		s.Slot = "b"
		s.Uptime = Duration(4 * time.Minute)
		s.Upgrade.Phase = "trial"
		s.Upgrade.From = "0.1.0"
		s.Upgrade.To = "0.2.0"
		s.Upgrade.Waits = "node: Node node-1 is not ready"
		s.Upgrade.Deadline = Duration(10 * time.Minute)
		s.Upgrade.Other = "0.1.0"
	}},
	{"upgrade-blessed", member, func(s *Status) {
		s.ImageVersion = "0.2.0"
		s.Slot = "b"
		s.Upgrade.Other = "0.1.0"
	}},
	{"upgrade-fell-back", member, func(s *Status) {
		s.Upgrade.Failed = []FailedSystem{{
			Version: "0.2.0",
			Reason:  "node: Node node-1 is not ready",
			At:      now.Add(-time.Hour),
		}}
		s.Upgrade.Other = "0.2.0"
	}},
	{"drill", member, func(s *Status) {
		s.Upgrade.Phase = "drill"
		s.Upgrade.From = "0.1.0"
		s.Upgrade.To = "0.1.0"
		s.Upgrade.Waits = "it fails on purpose"
	}},
	{"drill-done", member, func(s *Status) {
		s.Upgrade.Drill = &Drill{
			By:    "panic",
			At:    now.Add(-time.Hour),
			Boots: 3,
			Took:  Duration(95 * time.Second),
		}
	}},
	{"drill-failed", member, func(s *Status) {
		s.Upgrade.Drill = &Drill{By: "check", At: now.Add(-time.Hour), Problem: "it was blessed"}
	}},
	{"canceled", member, func(s *Status) {
		s.Upgrade.Failed = []FailedSystem{{
			Version: "0.2.0",
			Reason:  "canceled by the operator",
			At:      now.Add(-time.Minute),
		}}
		s.Upgrade.Other = ""
	}},
	{"data-volume", running, func(s *Status) {
		s.Volume = &Volume{Device: "/dev/vdb", FileSystem: "xfs", Size: 50 << 30}
	}},
	{"data-volume-missing", running, func(s *Status) {
		s.Phase = Failed
		s.Volume = &Volume{Problem: "no data volume: no disk that is free matches"}
		s.Error = s.Volume.Fault()
	}},
	{"disk-missing", running, func(s *Status) {
		s.Phase = Failed
		s.Volume = &Volume{
			Device:     "/dev/vdb",
			FileSystem: "xfs",
			Problem:    "the data volume that the node had is not there",
			Hint:       "plug the disk in",
		}
		s.Error = s.Volume.Fault()
	}},
	{"network-missing", running, func(s *Status) {
		s.Network.Interfaces = []Interface{{Name: "enp1s0", As: "left", State: "no-carrier"}}
		s.Network.Problems = []string{"enp1s0 (left): no carrier"}
	}},
	{"clock-behind", member, func(s *Status) {
		s.Cluster.Connected = false
		s.Cluster.Reached = false
		s.Cluster.Since = time.Unix(0, 0)
		s.Cluster.Problem = "x509: certificate has expired or is not yet valid: current time " +
			"1970-01-01T00:15:00Z is before 2026-02-01T00:00:00Z; hint: this node's clock may be " +
			"wrong: `timedatectl`"
	}},
	{"cluster-connecting", firstBoot, func(s *Status) {
		s.Missing = "the Secret kube-system/pool-edge was not read yet"
		s.Cluster = &Cluster{Server: "https://api.example.org:6443", Since: now.Add(-time.Second)}
	}},
	{"cluster-away", member, func(s *Status) {
		s.Cluster.Connected = false
		s.Cluster.Since = now.Add(-3 * time.Minute)
		s.Cluster.Problem = "192.0.2.1:6443 refuses the connection: nothing listens there"
		s.Cluster.Tried = "api.example.org:6443 with the node's certificate, " +
			"from enp1s0 192.0.2.10/24, name server 192.0.2.53"
		s.Cluster.Hint = "check that the API server runs, and its port"
		s.Cluster.Code = fault.ServerUnreachable
	}},
	{"cluster-refused", firstBoot, func(s *Status) {
		s.Cluster = &Cluster{
			Server:  "https://api.example.org:6443",
			Since:   now.Add(-3 * time.Minute),
			Reached: true,
			Problem: "the bootstrap token is unknown or has expired: Unauthorized",
			Tried: "api.example.org:6443 with bootstrap token abcdef, from enp1s0 192.0.2.10/24, " +
				"name server 192.0.2.53",
			Hint: "`kubeadm token create` makes a new one; give it to the node in machine.yaml",
			Code: fault.TokenRefused,
		}
	}},
	{"cluster-not-approved", firstBoot, func(s *Status) {
		s.Cluster = &Cluster{
			Server: "https://api.example.org:6443",
			Since:  now.Add(-time.Minute),
			Problem: "the request for a certificate node-agent-csr-0123456789abcdef0123456789abcdef " +
				"is not approved yet",
			Tried: "api.example.org:6443 with bootstrap token abcdef, from enp1s0 192.0.2.10/24, " +
				"name server 192.0.2.53",
			Hint: "Gardener approves it if it knows the machine by this name; `kubectl certificate " +
				"approve node-agent-csr-0123456789abcdef0123456789abcdef` does it by hand",
			Code: fault.ApprovalPending,
		}
	}},
	{"agent-ended", member, func(s *Status) {
		s.Phase = Failed
		s.Error = &Error{
			Problem: "the node agent has ended: signal ABRT; systemd starts it again",
			Hint:    "`loam logs` shows its last lines; units and pods run on without it",
			Code:    fault.AgentEnded,
		}
	}},
	{"certificate-expired", member, func(s *Status) {
		s.Cluster.Connected = false
		s.Cluster.Since = now.Add(-time.Hour)
		s.Cluster.Expires = now.Add(-time.Hour)
		s.Cluster.Problem = "the certificate expired at 2026-03-01 11:00:00, and there is no " +
			"bootstrap token"
		s.Cluster.Code = fault.CertificateExpired
	}},
	{"node-deleted", member, func(s *Status) {
		s.Cluster.Ready = false
		s.Cluster.Node = ""
		s.Cluster.Problem = "Node node-1 is gone since 11:59:50 UTC; " +
			"the kubelet is restarted soon, so that it registers it again"
	}},
	{"token-missing", firstBoot, func(s *Status) {
		s.Phase = Failed
		s.Error = &Error{
			Document: "machine.yaml",
			Path:     "source.cluster.token",
			Problem:  "/var/lib/loam/token: not there",
			Hint:     "write the bootstrap token to it",
		}
	}},
	{"static-pods-awaited", member, func(s *Status) {
		s.ControlPlane = true
		s.Cluster.Waits = "static pod kube-apiserver runs an earlier configuration"
	}},
	{"turn-held", member, func(s *Status) {
		s.Cluster.Turn = Turn{
			For:   "0.2.0",
			Class: "reboot",
			Since: time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC),
		}
	}},
	{"debug-shell", running, func(s *Status) { s.DebugShells = []string{"ttyS1"} }},
	{"drift-repaired", running, func(s *Status) {
		s.Drift = Drift{Repaired: 2, Last: "/etc/hello/greeting", At: Duration(93 * time.Second)}
	}},
	{"drift-stays", running, func(s *Status) {
		s.Phase = Failed
		s.Error = &Error{
			Problem: "repair /etc/hello/greeting: read-only file system",
			Hint: "the kernel made a file system read-only, see `dmesg`; a restart of the machine " +
				"repairs the state partition",
		}
	}},
	{"mirror-waits", running, func(s *Status) {
		s.Waits = []config.Probe{{
			Path: "/etc/containerd/certs.d/registry.example.org/hosts.toml",
			URLs: []string{"https://mirror.example.org/v2/"},
		}}
	}},
	{"update-wanted", member, func(s *Status) {
		s.Update = &config.Update{OSVersion: "0.2.0", Kubelet: "1.35.0", ServiceAccountKey: now}
	}},
	{"notes", member, func(s *Status) {
		for _, field := range []string{"spec.a", "spec.b", "spec.c"} {
			s.Notes = append(s.Notes, config.Note{
				Document: "osc.yaml",
				Line:     3,
				Path:     field,
				Problem:  "unknown field",
				Hint:     "leave it out",
			})
		}
	}},
	{"reset-begun", running, func(s *Status) {
		s.Phase = Applying
		s.Reset = &Reset{At: now.Add(-2 * time.Second)}
	}},
	{"reset-stuck", running, func(s *Status) {
		s.Phase = Failed
		s.Reset = &Reset{At: now.Add(-time.Minute)}
		s.Error = &Error{
			Problem: "reset: unmount /var/lib/kubelet: device or resource busy",
			Hint:    "`loam reset` goes on",
		}
	}},
	{"reset-done", firstBoot, func(s *Status) {
		s.Reset = &Reset{At: now.Add(-time.Minute), Done: true}
	}},
	{"state-in-memory", running, func(s *Status) {
		s.Slot = "memory"
		s.Upgrade = nil
		s.Repository = ""
		s.Warnings = []string{"the state is in memory: the next restart begins with nothing"}
	}},
	{"state-read-only", running, func(s *Status) {
		s.refuse(NotApplied, Error{
			Problem: "write generation " + three + ": read-only file system",
			Code:    fault.ReadOnly,
			Hint: "the kernel made a file system read-only, see `dmesg`; a restart of the machine " +
				"repairs the state partition",
		})
	}},
	{"state-repairing", firstBoot, func(s *Status) {
		s.Phase = ""
		s.Upgrade = nil
		s.Repair = &Repair{
			State:  Repairing,
			At:     now,
			Device: "/dev/vda8",
			Damage: "its file system has errors that are not repaired",
		}
	}},
	{"state-repaired", running, func(s *Status) {
		s.Repair = &Repair{
			State:   RepairDone,
			At:      now.Add(-time.Hour),
			Device:  "/dev/vda8",
			Damage:  "its file system has errors that are not repaired",
			Changes: 5,
			First: []string{
				"Inode 14 seems to contain garbage.  Clear? yes",
				"Entry 'hello' in /lib/demo (131073) has deleted/unused inode 14.  Clear? yes",
				"Unconnected directory inode 20 (was in /lib/demo)  Connect to /lost+found? yes",
				"Inode 20 ref count is 3, should be 2.  Fix? yes",
				"Inode bitmap differences:  -14  Fix? yes",
			},
			Log: "/var/lib/loam/repair/20260301T110000Z.log",
		}
	}},
	{"state-repaired-not-counted", firstBoot, func(s *Status) {
		s.Upgrade = nil
		s.Repair = &Repair{
			State:  RepairFailed,
			At:     now,
			Device: "/dev/vda8",
			Damage: "its file system has errors that are not repaired",
			Problem: "it is repaired, but a restart cannot be counted: ESP: " +
				"open /dev/vda1: no such device",
			Hint: "restart the machine: `systemctl reboot`",
		}
	}},
	{"state-reset", running, func(s *Status) {
		s.Repair = &Repair{
			State:  RepairReset,
			At:     now.Add(-time.Hour),
			Device: "/dev/vda8",
			Damage: "holds unknown data (unknown content)",
			Kept:   "/loam/state-damaged.img.gz on the ESP",
		}
	}},
	{"state-reset-no-copy", running, func(s *Status) {
		s.Repair = &Repair{
			State:   RepairReset,
			At:      now.Add(-time.Hour),
			Device:  "/dev/vda8",
			Damage:  "holds unknown data (unknown content)",
			Problem: "no room on the ESP for a copy of the state partition",
		}
	}},
	{"state-damaged", member, func(s *Status) {
		s.Upgrade = nil
		s.Repair = &Repair{
			State:   RepairFailed,
			At:      now,
			Device:  "/dev/vda8",
			Damage:  "no ext4 superblock",
			Problem: "e2fsck cannot repair it",
			Code:    "state-damaged",
			Log:     "/loam/repair.log on the ESP",
			Hint: "with `state: {onDamage: reset}` in machine.yaml, a restart formats it, " +
				"and all that it holds is lost",
		}
	}},
	{"state-locked", firstBoot, func(s *Status) {
		s.Upgrade = nil
		s.Repair = &Repair{
			State:  RepairFailed,
			At:     now,
			Device: "/dev/vda8",
			Damage: "no key opens it: unseal with the TPM: the firmware's Secure Boot state or " +
				"keys have changed (PCR 7): Secure Boot was on, and is off",
			Problem: "nothing on it is changed",
			Code:    "state-locked",
			Hint: "give the recovery key to the machine, in the file loam-state.key on a USB " +
				"disk with FAT32 or in the credential loam.state-key, and restart it",
		}
	}},
	{"disk-full", member, func(s *Status) {
		s.refuse(NotApplied, Error{
			Problem: "write generation " + three + ": no space left on device",
			Code:    fault.DiskFull,
			Hint: "free room on the state partition, `df -h /var` and `df -i /var`; " +
				"the node goes on by itself",
		})
	}},
	{"clock-in-the-future", running, func(s *Status) {
		s.Clock = &WrongClock{
			Problem: "the hardware's clock says 2026-03-01, and the node uses 2038-01-19, as it has " +
				"recorded a later time than the hardware's; a time server corrects it",
			Hint: "if the hardware's clock is right: `loam clock --from-hardware`",
			Code: fault.ClockDoubtful,
		}
	}},
	{"storage-low", running, func(s *Status) {
		s.Storage = []FileSystem{lowState}
	}},
	{"storage-full", running, func(s *Status) {
		s.Storage = []FileSystem{lowState, fullRun}
	}},
	{"limits-used-up", running, func(s *Status) {
		s.Limits = []Limit{
			{
				Name:    "threads",
				Problem: "31130 of 32768 threads are in use",
				Hint: "`ps -eLo cgroup= | sort | uniq -c | sort -n | tail` shows which pods have " +
					"most; limit them by podPidsLimit of the kubelet",
				Code: fault.LimitReached,
			},
			{
				Name:    "watches of inotify",
				Problem: "the kernel gives no more watches of inotify",
				Hint:    "raise the limit, sysctl fs.inotify.max_user_watches",
				Code:    fault.LimitReached,
			},
		}
	}},
	{"disk-failing", running, func(s *Status) {
		s.Disks = []Disk{
			{
				Name: "nvme0n1",
				Used: new(104),
				Problem: "the disk nvme0n1 (Example 970, serial number S1) fails: it no longer " +
					"takes writes",
				Hint: "copy what is only on it, and replace it soon; `smartctl -a /dev/nvme0n1` " +
					"shows all that it says",
				Code: fault.DiskFailing,
			},
			{Name: "sda"},
		}
	}},
	{"disk-worn", running, func(s *Status) {
		s.Disks = []Disk{
			{Name: "mmcblk0", Used: new(10)},
			{
				Name: "sda",
				Used: new(93),
				Problem: "the disk sda (Example 860, serial number S2) is worn: 93 % of the " +
					"writes that it is made for are used",
				Hint: "plan to replace it; `smartctl -a /dev/sda` shows all that it says",
				Code: fault.DiskWorn,
			},
		}
	}},
	{"esp-damaged", running, func(s *Status) {
		s.Upgrade.Damage = []string{"the boot entry of 1.0.0, to which the machine would fall " +
			"back, is damaged; the next upgrade replaces it"}
	}},
	{"table-damaged", running, func(s *Status) {
		s.Upgrade.TableDamage = "the partition table is damaged (backup header sector 8388607: " +
			"input/output error), and cannot be repaired: write backup partition table: array: " +
			"input/output error"
	}},
	{"unfinished", running, func(s *Status) {
		s.Phase = Failed
		s.Error = &Error{Problem: "generation " + three + " is not complete: input/output error"}
	}},
	{"many-units", running, func(s *Status) {
		s.Units[1] = unwell("hello.service", "failed", "failed")
		for _, letter := range "abcdefghijklmnop" {
			s.Units = append(s.Units, well("worker-"+string(letter)+".service"))
		}
	}},
	{"everything-at-once", member, func(s *Status) {
		*s = full()
		s.Phase = Failed
		s.Reset = nil
		s.Error.Problem = strings.Repeat("long ", 100)
		s.Network.Interfaces = append(s.Network.Interfaces, make([]Interface, 30)...)
	}},
}

// TestStates holds the page of each state, on a console and as `loam status`
// shows it, against its golden file. LOAM_GOLDEN writes them.
func TestStates(t *testing.T) {
	for _, state := range states {
		t.Run(state.name, func(t *testing.T) {
			s := state.of()
			state.edit(&s)
			console := s.Table(View{Width: 79, Lines: 24, Now: now})
			checkPage(t, console, 79, 24)
			whole := s.Table(View{Width: 80, Now: now})
			checkPage(t, whole, 80, 1000)

			got := txtar.Format(&txtar.Archive{Files: []txtar.File{
				{Name: "console", Data: []byte(console)},
				{Name: "loam status", Data: []byte(whole)},
			}})
			golden(t, filepath.Join("testdata", state.name+".txtar"), got)
		})
	}
}

// TestStatesOnNarrowScreens draws the page of each state where there is little
// room. A page for fewer than 40 columns is 40 wide, and is wrapped by the terminal.
func TestStatesOnNarrowScreens(t *testing.T) {
	for _, state := range states {
		s := state.of()
		state.edit(&s)
		for _, width := range []int{1, 20, 30, 39, 40, 63, 71, 72} {
			fits := max(width, MinWidth)
			t.Run(fmt.Sprintf("%s/%d", state.name, width), func(t *testing.T) {
				for _, lines := range []int{MinLines, 15, 23} {
					checkPage(t, s.Table(View{Width: width, Lines: lines, Now: now}), fits, lines)
				}
				whole := s.Table(View{Width: width, Now: now})
				checkPage(t, whole, fits, 1000)
				if e := s.Error; e != nil {
					checkSays(t, whole, e.Problem)
					checkSays(t, whole, e.Hint)
				}
			})
		}

		if e := s.Error; e != nil && state.name != "everything-at-once" {
			short := s.Table(View{Width: MinWidth, Lines: 23, Now: now})
			t.Run(state.name+"/hint", func(t *testing.T) { checkSays(t, short, e.Hint) })
		}
	}
}

// checkSays looks for a text on a page, wherever lines end.
func checkSays(t *testing.T, page, text string) {
	t.Helper()
	squeeze := func(text string) string { return strings.Join(strings.Fields(text), "") }
	if !strings.Contains(squeeze(page), squeeze(text)) {
		t.Errorf("no %q in\n%s", text, page)
	}
}

// checkPage looks whether a page fits, and is plain text.
func checkPage(t *testing.T, page string, width, lines int) {
	t.Helper()
	if got := strings.Count(page, "\n"); got > lines {
		t.Errorf("%d lines, want %d or fewer", got, lines)
	}
	for line := range strings.Lines(page) {
		line = strings.TrimSuffix(line, "\n")
		control := func(r rune) bool { return r < ' ' || r > '~' }
		if len(line) > width || strings.ContainsFunc(line, control) {
			t.Errorf("%q", line)
		}
	}
}

func golden(t *testing.T, file string, got []byte) {
	t.Helper()
	if os.Getenv("LOAM_GOLDEN") != "" {
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, got, 0o644); err != nil {
			t.Fatal(err)
		}
	}

	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatalf("%v; hint: make golden", err)
	}
	if !bytes.Equal(want, got) {
		diff := cmp.Diff(string(want), string(got))
		t.Errorf("%s (-want +got); hint: make golden\n%s", file, diff)
	}
}

func TestEveryGoldenFileIsOfAState(t *testing.T) {
	files, err := filepath.Glob("testdata/*.txtar")
	if err != nil || len(files) != len(states) {
		t.Errorf("%d golden files of %d states, %v", len(files), len(states), err)
	}
}
