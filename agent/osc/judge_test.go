package osc_test

import (
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/loam-os/loam/agent/config"
	"github.com/loam-os/loam/agent/osc"
	"github.com/loam-os/loam/test/judge"
)

// systemd-analyze finds nothing wrong with the units of the example.
func TestExampleUnitsVerify(t *testing.T) {
	analyze := judge.Systemd(t, "systemd-analyze")
	text, err := os.ReadFile("../../examples/hello.yaml")
	if err != nil {
		t.Fatal(err)
	}

	decoded, err := osc.Decode("hello.yaml", text)
	if err != nil {
		t.Fatal(err)
	}

	desired, err := osc.Merge(decoded, osc.Env{Hostname: "hello"})
	if err != nil {
		t.Fatal(err)
	}

	root := t.TempDir()
	for _, file := range desired.Files {
		place(t, root, file.Path, read(t, file.Content), file.Mode)
	}

	place(t, root, "/usr/bin/cat", "", 0o755)
	args := []string{
		"verify", "--root=" + root, "--man=no", "--generators=no", "--recursive-errors=no",
	}

	for _, unit := range desired.Units {
		if unit.Content != nil {
			place(t, root, "/etc/systemd/system/"+unit.Name, *unit.Content, 0o644)
			args = append(args, unit.Name)
		}
		for _, dropIn := range unit.DropIns {
			place(t, root, "/etc/systemd/system/"+unit.Name+".d/"+dropIn.Name,
				dropIn.Content, 0o644)
		}
	}

	out, err := exec.Command(analyze, args...).CombinedOutput()
	if err != nil || len(out) > 0 {
		t.Errorf("systemd-analyze verify: %v\n%s", err, out)
	}
}

// TestSystemdAgrees holds what is found in unit files against systemd-analyze:
// both find something, or neither does.
func TestSystemdAgrees(t *testing.T) {
	analyze := judge.Systemd(t, "systemd-analyze")
	const right = "[Service]\nExecStart=/usr/bin/true\n"
	for _, test := range []struct{ name, content, dropIn string }{
		{name: "a.service", content: right},
		{name: "a.service", content: right + "Restrat=always\n"},
		{name: "a.service", content: right + "X-Mine=1\n[X-Mine]\nAny=1\n"},
		{name: "a.service", content: right + "After=network.target\n"},
		{name: "a.service", content: right + "LimitNOFILE=1024\nMemoryMax=1G\n"},
		{name: "a.service", content: right + "[Socket]\nListenStream=1\n"},
		{name: "a.service", content: right + "[Servcie]\nType=exec\n"},
		{name: "a.service", content: right + "nothing\n"},
		{name: "a.service", content: right + "Environment=A=1 \\\n # why\n  Restrat=2\n"},
		{name: "a.service", content: right, dropIn: "[Service]\nMemroyMax=1G\n"},
		{name: "a.service", content: right, dropIn: "[Service]\nMemoryMax=1G\n"},
		{name: "a.service", content: right, dropIn: right},
		{name: "a.service", content: right, dropIn: "[Service]\nExecStart=\n" + right},
		{name: "a.service", content: "[Unit]\nDescription=a\n"},
		{name: "a.service", content: "[Unit]\nDescription=a\n", dropIn: right},
		{name: "a.service", content: "[Unit]\nSuccessAction=poweroff\n"},
		{name: "a.service", content: "[Service]\nExecStop=/usr/bin/true\n"},
		{name: "a.service", content: "[Service]\nType=oneshot\nExecStop=/usr/bin/true\n"},
		{
			name:    "a.service",
			content: "[Service]\nType=oneshot\nRemainAfterExit=yes\nExecStop=/usr/bin/true\n",
		},
		{name: "a.service", content: right + "Type=oneshot\nExecStart=/usr/bin/true\n"},
		{name: "a.service", content: right + "Type=oneshot\nRestart=always\n"},
		{name: "a.service", content: right + "Type=oneshot\nRestart=on-failure\n"},
		{name: "a.service", content: right + "Type=dbus\n"},
		{name: "a.service", content: "[Service]\nType=exec\n[Unit]\nSuccessAction=poweroff\n"},
		{name: "a.service", content: right + "DynamicUser=yes\nWorkingDirectory=~\n"},
		{name: "a.service", content: right + "DynamicUser=yes\nWorkingDirectory=-~\n"},
		{name: "a.service", content: right + "WorkingDirectory=~\n"},
		{name: "x.mount", content: "[Mount]\nWhat=/a/../b\nWhere=/x\n"},
		{name: "x.mount", content: "[Mount]\nWhat=/a/./b\nWhere=/x\n"},
		{name: "x.mount", content: "[Mount]\nWhat=a/../b\nWhere=/x\n"},
		{name: "x.mount", content: "[Mount]\nWhat=/a\nWhere=/x\nDelegate=\n"},
		{name: "x.slice", content: "[Slice]\nDelegateSubgroup=a\n"},
		{name: "x.swap", content: "[Swap]\nWhat=x\n"},
		{name: "x.swap", content: "[Swap]\nWhat=/x\nPriority=40000\n"},
		{name: "x.swap", content: "[Swap]\nWhat=/x\nPriority=-2\n"},
		{name: "x.swap", content: "[Swap]\nWhat=/x\nPriority=-1\n"},
		{name: "x.swap", content: "[Swap]\nWhat=/x\nPriority=\n"},
		{name: "a.timer", content: "[Timer]\nOnBootSec=1h\nUnit=basic.target\n"},
		{name: "a.timer", content: "[Timer]\nOnBotSec=1h\nOnBootSec=1h\nUnit=basic.target\n"},
		{name: "a.target", content: "[Unit]\nDescription=a\n[Install]\nWantedBy=basic.target\n"},
		{name: "a.target", content: "[Unit]\nDescripton=a\n"},
		{name: "a.slice", content: "[Slice]\nMemoryMax=1G\n"},
		{name: "a.slice", content: "[Slice]\nExecStart=/usr/bin/true\n"},
	} {
		root := t.TempDir()
		place(t, root, "/usr/bin/true", "", 0o755)
		place(t, root, "/usr/lib/systemd/system/basic.target", "[Unit]\n", 0o644)
		place(t, root, "/etc/systemd/system/"+test.name, test.content, 0o644)
		unit := osc.Unit{Name: test.name, Content: &test.content}
		if test.dropIn != "" {
			place(t, root, "/etc/systemd/system/"+test.name+".d/a.conf", test.dropIn, 0o644)
			unit.DropIns = []osc.DropIn{{Name: "a.conf", Content: test.dropIn}}
		}

		out, _ := exec.Command(analyze, "verify", "--root="+root, "--man=no", "--generators=no",
			"--recursive-errors=no", test.name).CombinedOutput()
		doc := osc.OperatingSystemConfig{APIVersion: osc.APIVersion, Kind: osc.Kind}
		doc.Spec.Units = []osc.Unit{unit}
		ours := osc.Validate(doc, osc.Env{})
		if (ours != nil) != (len(out) > 0) {
			t.Errorf("%s\n%s%s\nhere: %v\nsystemd-analyze: %s",
				test.name, test.content, test.dropIn, ours, out)
		}
	}
}

// lines are what generated units of each type are made of.
var lines = map[string][]string{
	"service": {
		"[Service]", "ExecStart=/usr/bin/true", "ExecStart=/usr/bin/true", "ExecStart=", "ExecStart=./run.sh",
		`ExecStart=/usr/bin/true "a`, "ExecStop=/usr/bin/true", "Type=oneshot", "Type=onshot", "Type=dbus",
		"BusName=a.NAME", "Restart=always", "Restart=on-failure", "RemainAfterExit=yes", "ExitType=cgroup",
		"PAMName=login", "KillMode=process", "KillMode=mixed", "User=a:b", "RootDirectory=/a",
		"RootImage=/b", "USBFunctionDescriptors=/a", "USBFunctionStrings=/a", "RuntimeMaxSec=5x",
		"Environment=A=1 \\\n  B=2", "Environment=A=1 \\\r\n  B=2\r", "Environment=A=\\\\", "# a \\",
		"X-Mine=1", "[Unit]", "SuccessAction=poweroff", "Description=a", "[Service]", "Nice=5 \\",
		"DynamicUser=yes", "User=root", "WorkingDirectory=~", "StandardInput=socket", "StandardOutput=fd:x",
		"Delegate=yes", "Restart=on-success", "RestartMode=direct", "Type=idle", "Type=notify",
		"Type=forking", "PIDFile=/run/a", "GuessMainPID=no", "WatchdogSec=5", "ExecReload=/usr/bin/true",
		"ExecStartPre=/usr/bin/true", "RestartForceExitStatus=0", "RestartSteps=3", "RestartMaxDelaySec=5",
		"RestartSec=10", "RuntimeMaxSec=5", "Slice=a.slice", "PrivateIPC=yes", "IPCNamespacePath=/a",
		"NetworkNamespacePath=/a", "PrivateNetwork=yes", "Type=notify-reload", "ReloadSignal=SIGHUP",
		"SendSIGKILL=no", "Type=exec", "ExitType=main", "RootImage=", "TimeoutStartSec=infinity",
		"StateDirectory=a", "RootDirectoryStartOnly=yes", "Sockets=a.socket", "NotifyAccess=all",
		"FileDescriptorStoreMax=5", "OpenFile=/a", "SuccessExitStatus=1 SIGKILL", "NonBlocking=yes",
		"LoadCredential=a:/a", "SetCredential=a:b", "PrivateUsers=yes", "ProtectSystem=strict",
		"BindPaths=/a", "TemporaryFileSystem=/a", "MountImages=/a:/b", "ExtensionImages=/a",
		"LogNamespace=a", "TTYPath=/dev/tty9", "StandardInput=tty", "UtmpIdentifier=a",
		"CPUSchedulingPolicy=fifo", "OOMPolicy=kill", "DelegateSubgroup=a", "TimeoutAbortSec=5",
		"PrivateTmp=disconnected", "TimeoutSec=0", "StartLimitBurst=5", "KillMode=control-group",
	},
	"socket": {
		"[Socket]", "Service=z.service", "ListenStream=/run/a", "ListenStream=80", "ListenDatagram=/run/b",
		"ListenFIFO=/run/c", "Accept=yes", "Accept=no", "Symlinks=/run/d", "MaxConnections=0",
		"PAMName=login", "KillMode=process", "ListenStream=", "ListenStream=a", "ListenNetlink=kobject-uevent 1",
		"DynamicUser=yes", "WorkingDirectory=~", "FileDescriptorName=a", "ListenSpecial=/dev/null",
		"ListenMessageQueue=/a", "Writable=yes", "BindToDevice=lo", "SocketUser=root", "MaxConnections=5",
		"SocketMode=0600", "SocketMode=0999", "FlushPending=yes", "TriggerLimitBurst=0", "ListenStream=[::]:80",
		"ListenSequentialPacket=@a", "ListenDatagram=vsock::5", "ListenStream=70000", "TimeoutSec=5",
	},
	"timer": {
		"[Timer]", "Unit=z.service", "OnCalendar=daily", "OnCalendar=foo", "OnBootSec=1h", "OnBootSec=",
		"OnClockChange=yes", "OnClockChange=no", "Persistent=yes", "[Unit]", "[Timer]", "AccuracySec=1s",
		"RandomizedDelaySec=5", "WakeSystem=yes", "FixedRandomDelay=yes", "OnTimezoneChange=yes",
		"RemainAfterElapse=no", "OnUnitActiveSec=5m", "Unit=a", "OnActiveSec=-5", "OnStartupSec=1 hour",
		"OnCalendar=", "OnCalendar=Mon..Fri *-*-* 10:00", "Unit=u.timer",
	},
	"path": {
		"[Path]", "Unit=z.service", "PathExists=/a", "PathExists=a", "PathChanged=/b", "PathChanged=",
		"MakeDirectory=yes", "MakeDirectory=maybe", "DirectoryNotEmpty=/c", "PathModified=/a/../b",
		"PathExistsGlob=/a*", "TriggerLimitBurst=5", "TriggerLimitIntervalSec=x", "Unit=", "Unit=u.path",
	},
	"mount": {
		"[Mount]", "What=tmpfs", "What=", "Where=/NAME", "Where=/NAME/", "Where=/other", "Where=NAME",
		"Type=tmpfs", "Options=ro", "PAMName=login", "KillMode=process", "LazyUnmount=yes", "Where=/proc",
		"DynamicUser=yes", "WorkingDirectory=~", "ForceUnmount=yes", "ReadWriteOnly=yes", "TimeoutSec=5",
		"SloppyOptions=maybe", "DirectoryMode=0755", "What=/a/./b", "What=//a", "Where=/NAME/../b",
		"Options=", "Type=", "Where=", "[Unit]", "[Mount]",
	},
	"automount": {
		"[Automount]", "Where=/NAME", "Where=/other", "Where=/", "TimeoutIdleSec=5s", "TimeoutIdleSec=5x",
		"DirectoryMode=0755", "DirectoryMode=9", "ExtraOptions=a", "Where=/NAME/", "Where=", "Where=NAME",
		"[Unit]", "[Automount]",
	},
	"swap": {
		"[Swap]", "What=/NAME", "What=/other", "What=", "Priority=5", "Options=discard", "PAMName=login",
		"KillMode=process", "What=UUID=abc", "TimeoutSec=5", "Priority=x", "Priority=-1", "DynamicUser=yes",
		"WorkingDirectory=~", "What=NAME", "What=/NAME/", "Options=",
	},
	"slice": {
		"[Slice]", "MemoryMax=1G", "MemoryMax=1Q", "Slice=-.slice", "Slice=b.slice", "[Unit]", "After=a",
		"TasksMax=5", "TasksMax=0", "TasksMax=5%", "CPUQuota=0%", "CPUWeight=idle", "Delegate=yes",
		"ManagedOOMSwap=kill", "AllowedCPUs=0-1", "IOWeight=0", "IPAddressDeny=any", "DefaultDependencies=no",
	},
	"target": {
		"[Unit]", "AllowIsolate=yes", "AllowIsolate=5", "ConditionPathExists=/a", "[Install]",
		"WantedBy=b.target", "JobTimeoutSec=5", "JobTimeoutAction=reboot", "OnFailure=z.service",
		"RefuseManualStart=yes", "StopWhenUnneeded=yes", "Upholds=z.service", "Requires=u.target",
		"ConditionArchitecture=amd65", "ConditionKernelVersion=>=6", "AssertPathExists=a", "Also=z.service",
		"Alias=NAME2.target", "UpheldBy=b.target", "StartLimitAction=reboot-force", "OnFailureJobMode=x",
		"RequiresMountsFor=/a /b", "RequiresMountsFor=a", "JoinsNamespaceOf=z.service", "Wants=%i.service",
	},
}

// seedVariable makes the generated units others: a number.
const seedVariable = "LOAM_UNIT_SEED"

func unitSeed(t *testing.T) uint64 {
	t.Helper()
	text := os.Getenv(seedVariable)
	if text == "" {
		return 12
	}
	seed, err := strconv.ParseUint(text, 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	return seed
}

// TestSystemdAgreesOnGeneratedUnits makes units of random lines, with and
// without a drop-in, and compares what is found in each with systemd-analyze: 5,040
// of all types.
func TestSystemdAgreesOnGeneratedUnits(t *testing.T) {
	analyze := judge.Systemd(t, "systemd-analyze")
	random := rand.New(rand.NewPCG(unitSeed(t), 257))
	root := t.TempDir()
	place(t, root, "/usr/bin/true", "", 0o755)
	place(t, root, "/usr/lib/systemd/system/basic.target", "[Unit]\n", 0o644)
	place(t, root, "/etc/systemd/system/z.service", "[Service]\nExecStart=/usr/bin/true\n", 0o644)

	units := map[string]osc.Unit{}
	args := []string{
		"verify", "--root=" + root, "--man=no", "--generators=no", "--recursive-errors=no",
	}
	for _, suffix := range slices.Sorted(maps.Keys(lines)) {
		pool := lines[suffix]
		some := func(stem string) string {
			text := []string{"", "\ufeff"}[random.IntN(2)] + pool[0] + []string{"\n", "\r\n"}[random.IntN(2)]
			for range random.IntN(6) {
				text += pool[1+random.IntN(len(pool)-1)] + []string{"\n", "\n", "\r\n"}[random.IntN(3)]
			}
			return strings.ReplaceAll(text, "NAME", stem)
		}
		for i := range judge.Pick(120, 560) {
			stem := fmt.Sprintf("u%s%d", suffix, i)
			name := stem + "." + suffix
			text := some(stem)
			unit := osc.Unit{Name: name, Content: &text}
			place(t, root, "/etc/systemd/system/"+name, text, 0o644)
			if random.IntN(3) == 0 {
				dropIn := osc.DropIn{Name: "a.conf", Content: some(stem)}
				unit.DropIns = []osc.DropIn{dropIn}
				place(t, root, "/etc/systemd/system/"+name+".d/a.conf", dropIn.Content, 0o644)
			}
			units[name] = unit
			args = append(args, name)
		}
	}

	out, _ := exec.Command(analyze, args...).CombinedOutput()
	found := map[string]string{}
	for line := range strings.Lines(string(out)) {
		// A name in the line, or in the directory of its drop-in.
		if name := aUnit.FindString(line); name != "" && !agreed.MatchString(line) {
			found[name] += line
		}
	}

	for _, name := range slices.Sorted(maps.Keys(units)) {
		unit := units[name]
		doc := osc.OperatingSystemConfig{APIVersion: osc.APIVersion, Kind: osc.Kind}
		doc.Spec.Units = []osc.Unit{unit}
		ours := osc.Validate(doc, osc.Env{})
		if (ours != nil) != (found[name] != "") {
			t.Errorf("%s\n%q\n%q\nhere: %v\nsystemd-analyze: %s",
				name, *unit.Content, unit.DropIns, ours, found[name])
		}
	}
	t.Logf("%d units, systemd finds something in %d", len(units), len(found))
}

var (
	aUnit  = regexp.MustCompile(`\bu[a-z]+\d+\.[a-z]+`)
	agreed = regexp.MustCompile(`KillMode=none|obsolete|socket cannot be started`)
)

func read(t *testing.T, content config.Content) string {
	t.Helper()
	r, err := content.Open()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()

	text, err := io.ReadAll(r)
	if err != nil {
		t.Fatal(err)
	}

	return string(text)
}

func place(t *testing.T, root, path, text string, mode os.FileMode) {
	t.Helper()
	path = filepath.Join(root, path)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), mode); err != nil {
		t.Fatal(err)
	}
}
