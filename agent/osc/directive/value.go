package directive

import (
	"math"
	"slices"
	"strings"
	"sync"

	"github.com/loam-os/loam/agent/unitfile"
)

// kind is a kind of values.
type kind struct {
	// names are the directives that take it. A name that sections use for
	// different things has its section before it.
	names string
	ok    check
	// want says what the directives take.
	want string
	// empty is set if an empty value resets the directive.
	empty bool
}

// kinds are the values that can be judged away from the node. What is missing
// takes anything (Description=), or depends on the node's kernel or libraries
// (SystemCallFilter=).
var kinds = []kind{
	{
		names: `StopWhenUnneeded RefuseManualStart RefuseManualStop AllowIsolate DefaultDependencies
			SurviveFinalKillSignal OnFailureIsolate IgnoreOnIsolate PermissionsStartOnly
			RootDirectoryStartOnly RemainAfterExit GuessMainPID NonBlocking RootEphemeral
			CPUSchedulingResetOnFork RemoveIPC TTYReset TTYVHangup TTYVTDisallocate SyslogLevelPrefix
			NoNewPrivileges MemoryDenyWriteExecute RestrictRealtime RestrictSUIDSGID LockPersonality
			PrivateDevices ProtectKernelTunables ProtectKernelModules ProtectKernelLogs ProtectClock
			PrivateNetwork PrivateIPC PrivatePIDs IgnoreSIGPIPE ProtectHostname CPUAccounting
			MemoryAccounting MemoryZSwapWriteback IOAccounting BlockIOAccounting TasksAccounting
			IPAccounting CoredumpReceive SendSIGKILL SendSIGHUP Accept FlushPending Writable KeepAlive
			NoDelay FreeBind Transparent Broadcast PassCredentials PassFileDescriptorsToExec PassSecurity
			PassPacketInfo ReusePort RemoveOnStop SELinuxContextFromNet SloppyOptions
			LazyUnmount ForceUnmount ReadWriteOnly OnClockChange OnTimezoneChange Persistent WakeSystem
			RemainAfterElapse FixedRandomDelay DeferReactivation MakeDirectory DynamicUser`,
		ok: isBoolean, want: "yes or no",
	},
	{
		names: "SetLoginEnvironment PrivateMounts MountAPIVFS BindLogSockets MemoryKSM",
		ok:    isBoolean, want: "yes or no", empty: true,
	},
	{
		names: `JobTimeoutSec JobRunningTimeoutSec StartLimitIntervalSec StartLimitInterval RestartSec
			RestartMaxDelaySec TimeoutSec TimeoutStartSec TimeoutStopSec RuntimeMaxSec
			RuntimeRandomizedExtraSec WatchdogSec LogRateLimitIntervalSec TimeoutCleanSec
			MemoryPressureThresholdSec KeepAliveTimeSec KeepAliveIntervalSec DeferAcceptSec
			TriggerLimitIntervalSec PollLimitIntervalSec TimeoutIdleSec AccuracySec RandomizedDelaySec`,
		ok: isSpan, want: "a time, such as 30s or 5min",
	},
	{
		names: `TimeoutAbortSec CPUQuotaPeriodSec OnActiveSec OnBootSec OnStartupSec OnUnitActiveSec
			OnUnitInactiveSec`,
		ok: isSpan, want: "a time, such as 30s or 5min", empty: true,
	},
	{
		names: "ManagedOOMMemoryPressureDurationSec",
		ok:    func(value string) bool { return isFiniteSpan(value) && seconds(value) >= 1 },
		want:  "a time of at least 1s", empty: true,
	},
	{
		names: "TimerSlackNSec",
		ok:    either(isSpan, nanospan.MatchString), want: "a time, such as 50us",
	},
	{names: "OnCalendar", ok: isCalendar, want: "a calendar event, such as daily or *-*-* 04:00:00",
		empty: true},
	{
		names: `StartLimitBurst RestartSteps FileDescriptorStoreMax LogRateLimitBurst Backlog
			MaxConnections MaxConnectionsPerSource KeepAliveProbes TriggerLimitBurst PollLimitBurst`,
		ok: isNumber, want: "a number",
	},
	{names: "TTYRows TTYColumns", ok: isNumber, want: "a number", empty: true},
	{
		names: "Socket.Priority IPTTL Mark",
		ok:    signed(math.MinInt32, math.MaxInt32), want: "a number",
	},
	{
		names: "MessageQueueMaxMessages MessageQueueMessageSize",
		ok:    signed(math.MinInt64, math.MaxInt64), want: "a number",
	},
	{
		names: `UMask RuntimeDirectoryMode StateDirectoryMode CacheDirectoryMode LogsDirectoryMode
			ConfigurationDirectoryMode SocketMode DirectoryMode`,
		ok: octal.MatchString, want: "an octal number, such as 0755",
	},
	{names: "ReceiveBuffer SendBuffer PipeSize", ok: isSize, want: "a size, such as 512K"},
	{
		names: `MemoryMin DefaultMemoryMin DefaultMemoryLow MemoryLow StartupMemoryLow MemorySwapMax
			StartupMemorySwapMax MemoryZSwapMax StartupMemoryZSwapMax`,
		ok:   either(isSize, isShare, one("infinity")),
		want: "a size, such as 512M, a share, such as 10%, or infinity", empty: true,
	},
	{
		names: "DefaultStartupMemoryLow MemoryHigh StartupMemoryHigh MemoryMax StartupMemoryMax",
		ok:    either(isPositiveSize, isPositiveShare, one("infinity")),
		want:  "a size, such as 512M, a share, such as 10%, or infinity", empty: true,
	},
	{
		names: "TasksMax",
		ok:    either(unsigned(1, math.MaxUint64-1), isShare, one("infinity")),
		want:  "a number, a share, such as 10%, or infinity", empty: true,
	},
	{
		names: `LimitFSIZE LimitDATA LimitSTACK LimitCORE LimitRSS LimitAS LimitMEMLOCK
			LimitMSGQUEUE`,
		ok: limit(either(isSize, one("infinity")), bytes), want: "a size, such as 512M, or infinity",
	},
	{
		names: "LimitNOFILE LimitNPROC LimitLOCKS LimitSIGPENDING LimitRTPRIO",
		ok:    limit(either(unsigned(0, math.MaxUint64), one("infinity")), bytes), want: "a number or infinity",
	},
	{names: "LimitCPU LimitRTTIME", ok: limit(isSpan, seconds), want: "a time, such as 30s, or infinity"},
	{
		names: "CPUWeight StartupCPUWeight",
		ok:    either(unsigned(1, 10000), one("idle")), want: "a number from 1 to 10000", empty: true,
	},
	{
		names: "IOWeight StartupIOWeight",
		ok:    unsigned(1, 10000), want: "a number from 1 to 10000", empty: true,
	},
	{
		names: "BlockIOWeight StartupBlockIOWeight",
		ok:    unsigned(10, 1000), want: "a number from 10 to 1000", empty: true,
	},
	{
		names: "CPUQuota",
		ok:    func(value string) bool { return quota.MatchString(value) && strings.Trim(value, "0.%‰‱") != "" },
		want:  "a share of one processor, such as 150%", empty: true,
	},
	{
		names: "ManagedOOMMemoryPressureLimit",
		ok:    isShare, want: "a share, such as 60%", empty: true,
	},
	{names: "Nice", ok: signed(-20, 19), want: "a number from -20 to 19", empty: true},
	{
		names: "OOMScoreAdjust",
		ok:    signed(-1000, 1000), want: "a number from -1000 to 1000", empty: true,
	},
	{
		names: "IOSchedulingPriority",
		ok:    unsigned(0, 7), want: "a number from 0 to 7", empty: true,
	},
	{
		names: "Swap.Priority",
		ok:    signed(-1, 32767), want: "a number from -1 to 32767", empty: true,
	},
	{names: "CPUSchedulingPriority", ok: unsigned(0, 99), want: "a number from 1 to 99"},
	{
		names: "IOSchedulingClass",
		ok:    either(unsigned(0, 8), one("none realtime best-effort idle")),
		want:  "one of none, realtime, best-effort and idle", empty: true,
	},
	{
		names: "CPUSchedulingPolicy",
		ok:    either(isNumber, one("other batch idle fifo rr ext")),
		want:  "one of other, batch, idle, fifo and rr", empty: true,
	},
	{
		names: "CPUAffinity AllowedCPUs StartupAllowedCPUs AllowedMemoryNodes " +
			"StartupAllowedMemoryNodes",
		ok: isSet, want: "numbers and ranges, such as 0-3 8", empty: true,
	},
	{
		names: "SyslogLevel LogLevelMax",
		ok:    either(unsigned(0, 7), one("emerg alert crit err warning notice info debug")),
		want:  "one of emerg, alert, crit, err, warning, notice, info and debug",
	},
	{
		names: `ReloadSignal KillSignal RestartKillSignal FinalKillSignal WatchdogSignal`,
		ok:    isSignal, want: "the name of a signal, such as SIGTERM",
	},
	{
		names: "RestartPreventExitStatus RestartForceExitStatus SuccessExitStatus",
		ok:    each(either(unsigned(0, 255), statuses, isSignalName)),
		want:  "exit statuses from 0 to 255, and signals", empty: true,
	},
	{
		names: "FailureActionExitStatus SuccessActionExitStatus",
		ok:    unsigned(0, 255), want: "a number from 0 to 255", empty: true,
	},
	{
		names: `SourcePath USBFunctionDescriptors USBFunctionStrings TTYPath NetworkNamespacePath
			IPCNamespacePath Mount.Where Automount.Where RootDirectory RootImage RootVerity`,
		ok: isPath, want: "an absolute path without ..", empty: true,
	},
	{
		names: `ListenSpecial PathExists PathExistsGlob PathChanged PathModified DirectoryNotEmpty`,
		ok:    isPath, want: "an absolute path without ..", empty: true,
	},
	{
		names: "ListenFIFO ListenMessageQueue ListenUSBFunction",
		ok:    isFilePath, want: "an absolute path without ..", empty: true,
	},
	{
		names: `ExtensionDirectories ReadWriteDirectories ReadOnlyDirectories InaccessibleDirectories
			ReadWritePaths ReadOnlyPaths InaccessiblePaths ExecPaths NoExecPaths`,
		ok: each(after("-+", isPath)), want: "absolute paths without ..", empty: true,
	},
	{
		names: "RequiresMountsFor WantsMountsFor Symlinks",
		ok:    each(isPath), want: "absolute paths without ..", empty: true,
	},
	{
		names: "BindPaths BindReadOnlyPaths",
		ok:    each(isBind), want: "PATH or PATH:PATH, each absolute", empty: true,
	},
	{
		names: `ConditionPathExists ConditionPathExistsGlob ConditionPathIsDirectory
			ConditionPathIsSymbolicLink ConditionPathIsMountPoint ConditionPathIsReadWrite
			ConditionPathIsEncrypted ConditionDirectoryNotEmpty ConditionFileNotEmpty
			ConditionFileIsExecutable ConditionNeedsUpdate AssertPathExists AssertPathExistsGlob
			AssertPathIsDirectory AssertPathIsSymbolicLink AssertPathIsMountPoint
			AssertPathIsReadWrite AssertPathIsEncrypted AssertDirectoryNotEmpty AssertFileNotEmpty
			AssertFileIsExecutable AssertNeedsUpdate`,
		ok: after("|!", isPath), want: "an absolute path, with or without ! before it", empty: true,
	},
	{
		names: "WorkingDirectory",
		ok:    after("-", either(isPath, one("~"))), want: "an absolute path or ~", empty: true,
	},
	{
		names: "EnvironmentFile",
		ok:    after("-", isPath), want: "an absolute path, with or without - before it", empty: true,
	},
	{
		names: "RuntimeDirectory StateDirectory CacheDirectory LogsDirectory",
		ok:    eachEscaped(isDirectory), want: "relative paths without ..", empty: true,
	},
	{names: "User SocketUser Group SocketGroup", ok: isUser, want: "a name or a number", empty: true},
	{names: "SupplementaryGroups", ok: areUsers, want: "names or numbers", empty: true},
	{
		names: "Environment",
		ok:    eachEscaped(isAssignment), want: "NAME=VALUE, in quotes if it has spaces", empty: true,
	},
	{names: "PassEnvironment", ok: each(isVariable), want: "names of variables", empty: true},
	{
		names: "UnsetEnvironment",
		ok:    eachEscaped(either(isVariable, isAssignment)), want: "names of variables", empty: true,
	},
	{
		names: "Documentation",
		ok:    each(documentation.MatchString), want: "URLs of http, https, file, info or man", empty: true,
	},
	{
		names: "Service.Type",
		ok:    one("simple exec forking oneshot dbus notify notify-reload idle"),
		want:  "one of simple, exec, forking, oneshot, dbus, notify, notify-reload and idle",
	},
	{names: "ExitType", ok: one("main cgroup"), want: "main or cgroup"},
	{
		names: "Restart",
		ok:    one("no on-success on-failure on-abnormal on-watchdog on-abort always"),
		want:  "one of no, on-success, on-failure, on-abnormal, on-watchdog, on-abort and always",
	},
	{names: "RestartMode", ok: one("normal direct debug"), want: "normal, direct or debug"},
	{names: "NotifyAccess", ok: one("none main exec all"), want: "one of none, main, exec and all"},
	{names: "OOMPolicy", ok: one("continue stop kill"), want: "continue, stop or kill"},
	{
		names: "KillMode",
		ok:    one("control-group process mixed none"), empty: true,
		want: "one of control-group, mixed, process and none",
	},
	{names: "CollectMode", ok: one("inactive inactive-or-failed"),
		want: "inactive or inactive-or-failed"},
	{
		names: "JobTimeoutAction StartLimitAction FailureAction SuccessAction",
		ok: one("none reboot reboot-force reboot-immediate poweroff poweroff-force " +
			"poweroff-immediate exit exit-force soft-reboot soft-reboot-force kexec kexec-force " +
			"halt halt-force halt-immediate"),
		want: "an action, such as none, reboot or poweroff",
	},
	{
		names: "OnSuccessJobMode OnFailureJobMode",
		ok: one("fail lenient replace replace-irreversibly isolate flush ignore-dependencies " +
			"ignore-requirements triggering restart-dependencies"),
		want: "a mode of jobs, such as replace or fail",
	},
	{
		names: "TimeoutStartFailureMode TimeoutStopFailureMode",
		ok:    one("terminate abort kill"), want: "terminate, abort or kill",
	},
	{
		names: "FileDescriptorStorePreserve RuntimeDirectoryPreserve",
		ok:    either(isBoolean, one("restart")), want: "yes, no or restart",
	},
	{
		names: "StandardInput",
		ok:    either(one("null tty tty-force tty-fail socket data"), isInput),
		want:  "null, tty, tty-force, tty-fail, data, socket, file:PATH or fd:NAME",
	},
	{
		names: "StandardOutput StandardError",
		ok: either(one("inherit null tty journal journal+console kmsg kmsg+console socket "+
			"syslog syslog+console"), isOutput),
		want: "one of inherit, null, tty, journal, kmsg, journal+console, kmsg+console, socket, " +
			"file:PATH, append:PATH, truncate:PATH and fd:NAME",
	},
	{names: "KeyringMode", ok: one("inherit private shared"), want: "inherit, private or shared"},
	{
		names: "ProtectProc",
		ok:    one("default noaccess invisible ptraceable"),
		want:  "one of noaccess, invisible, ptraceable and default",
	},
	{names: "ProcSubset", ok: one("all pid"), want: "all or pid"},
	{names: "PrivateTmp", ok: either(isBoolean, one("disconnected")), want: "yes, no or disconnected"},
	{
		names: "PrivateUsers",
		ok:    either(isBoolean, one("self identity")), want: "yes, no, self or identity",
	},
	{
		names: "ProtectControlGroups",
		ok:    either(isBoolean, one("private strict")), want: "yes, no, private or strict",
	},
	{names: "ProtectSystem", ok: either(isBoolean, one("full strict")), want: "yes, no, full or strict"},
	{
		names: "ProtectHome",
		ok:    either(isBoolean, one("read-only tmpfs")), want: "yes, no, read-only or tmpfs",
	},
	{
		names: "MountFlags",
		ok:    one("shared slave private"), want: "shared, slave or private", empty: true,
	},
	{names: "UtmpMode", ok: one("init login user"), want: "init, login or user"},
	{
		names: "RestrictNamespaces",
		ok:    either(isBoolean, isNamespaces), want: "yes, no or kinds of namespaces", empty: true,
	},
	{names: "Slice", ok: ofType(".slice"), want: "the name of a slice, such as system.slice"},
	{names: "Timer.Unit Path.Unit", ok: unitfile.IsName, want: "the name of a unit, such as example.service"},
	{names: "Socket.Service", ok: func(value string) bool { return isNotTemplate(value) && ofType(".service")(value) }, want: "the name of a service"},
	{
		names: "DeviceAllow",
		ok:    devices.MatchString, want: "/dev/NAME, char-NAME or block-NAME, and r, w and m",
		empty: true,
	},
	{names: "DevicePolicy", ok: one("auto closed strict"), want: "auto, closed or strict"},
	{
		names: "Delegate",
		ok:    either(isBoolean, each(isController)), want: "yes, no or controllers", empty: true,
	},
	{names: "DisableControllers", ok: each(isController), want: "controllers", empty: true},
	{
		names: "IPAddressAllow IPAddressDeny",
		ok:    each(either(one("any localhost link-local multicast"), isPrefix)),
		want:  "addresses, such as 10.0.0.0/8, any or localhost", empty: true,
	},
	{names: "ManagedOOMSwap ManagedOOMMemoryPressure", ok: one("auto kill"), want: "auto or kill",
		empty: true},
	{names: "ManagedOOMPreference", ok: one("none avoid omit"), want: "none, avoid or omit"},
	{
		names: "MemoryPressureWatch",
		ok:    either(isBoolean, one("auto skip")), want: "yes, no, auto or skip",
	},
	{
		names: "ListenStream ListenDatagram",
		ok:    isListen, want: "an absolute path, a port, or an address and a port", empty: true,
	},
	{
		names: "BindIPv6Only",
		ok:    either(isBoolean, one("default both ipv6-only")), want: "default, both or ipv6-only",
	},
	{
		names: "SyslogFacility",
		ok: either(unsigned(0, 127), one(`kern user mail daemon auth syslog lpr news uucp cron authpriv
			ftp local0 local1 local2 local3 local4 local5 local6 local7`)),
		want: "a facility, such as daemon or local0",
	},
	{
		names: "SystemCallArchitectures",
		ok:    each(isArchitecture), want: "native, or names such as x86-64", empty: true,
	},
	{
		names: "RestrictAddressFamilies",
		ok:    either(one("none"), isFamilies), want: "none, or families such as AF_INET AF_UNIX",
		empty: true,
	},
	{
		names: "LimitNICE",
		ok:    limit(either(signed(-20, 19), unsigned(0, 40)), bytes), want: "a number from 1 to 40",
	},
	{
		names: "IOReadBandwidthMax IOWriteBandwidthMax IOReadIOPSMax IOWriteIOPSMax",
		ok:    deviceAnd(either(isPositiveSize, one("infinity"))), want: "a path and a size, such as /dev/sda 10M",
		empty: true,
	},
	{
		names: "IODeviceWeight",
		ok:    deviceAnd(unsigned(1, 10000)), want: "a path and a number, such as /dev/sda 100", empty: true,
	},
	{
		names: "IPTOS",
		ok:    either(unsigned(0, 255), one("low-delay throughput reliability low-cost")),
		want:  "a number, low-delay, throughput, reliability or low-cost", empty: true,
	},
	{
		names: "ListenSequentialPacket",
		ok:    isUnixAddress, want: "an absolute path, or a name after @", empty: true,
	},
	{names: "BusName", ok: busName.MatchString, want: "a name of D-Bus, such as org.example.Name"},
	{
		names: "NUMAPolicy",
		ok:    one("default preferred bind interleave local preferred-many weighted-interleave"), empty: true,
		want: "one of default, preferred, bind, interleave and local",
	},
	{
		names: "TemporaryFileSystem",
		ok:    each(isTemporary), want: "absolute paths, with or without options after a colon", empty: true,
	},
	{names: "SocketProtocol", ok: one("udplite sctp mptcp"), want: "udplite, sctp or mptcp"},
	{
		names: "Timestamping",
		ok:    either(isBoolean, one("off us ns µs usec nsec μs")), want: "off, us or ns",
	},
	{
		names: "SocketBindAllow SocketBindDeny",
		ok:    isBindRule, want: "any, a port, or FAMILY:PROTOCOL:PORTS", empty: true,
	},
	{names: "Sockets", ok: each(ofType(".socket")), want: "names of sockets", empty: true},
	{names: "ConfigurationDirectory", ok: eachEscaped(isPlainDirectory),
		want: "relative paths without ..", empty: true},
	{
		names: `CPUShares StartupCPUShares MemoryLimit
			BlockIODeviceWeight BlockIOReadBandwidth BlockIOWriteBandwidth`,
		ok: nil, want: "",
	},
}

// byName has the kind of each directive.
var byName = sync.OnceValue(func() map[string]kind {
	all := map[string]kind{}
	for _, kind := range kinds {
		for name := range strings.FieldsSeq(kind.names) {
			all[name] = kind
		}
	}
	return all
})

// Fault returns why systemd ignores the directive with that value, or refuses
// the unit for it, and what it takes instead. problem is "" if it takes it.
func Fault(section, name, value string) (problem, hint string) {
	if strings.HasPrefix(name, "Exec") && name != "ExecPaths" && name != "ExecSearchPath" {
		if problem := execFault(value); problem != "" {
			return problem, "begin it with an absolute path, and close each quote"
		}
		return "", ""
	}

	if strings.HasPrefix(name, "Delegate") &&
		slices.Contains([]string{"Slice", "Socket", "Mount", "Swap"}, section) {
		return "has an effect in [Service] only", "leave it out"
	}

	kind, ok := byName()[section+"."+name]
	if !ok {
		kind, ok = byName()[name]
	}

	switch {
	case !ok || HasSpecifier(value):
		return "", ""
	case kind.ok == nil:
		return "is no longer supported by systemd", "leave it out"
	case value == "" && kind.empty, value != "" && kind.ok(value):
		return "", ""
	case value == "":
		return "is empty", "write " + kind.want
	}
	return "is not a value that systemd takes", "write " + kind.want
}
