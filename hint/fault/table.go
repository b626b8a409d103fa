package fault

// Codes of command lines.
const (
	Usage Code = "usage"
)

// Codes of refusals about what a command was given.
const (
	DocumentInvalid    Code = "document-invalid"
	MachineNotTrusted  Code = "machine-not-trusted"
	CannotBeApplied    Code = "cannot-be-applied"
	ContentMissing     Code = "content-missing"
	DigestMissing      Code = "digest-missing"
	ImageNotSigned     Code = "image-not-signed"
	ConfirmationNeeded Code = "confirmation-needed"
	NotABuild          Code = "not-a-build"
	BuildDamaged       Code = "build-damaged"
	Vulnerable         Code = "vulnerable"
	BelowFloor         Code = "below-floor"
	NotAnImage         Code = "not-an-image"
	NotARepository     Code = "not-a-repository"
	KeyUnfit           Code = "key-unfit"
	KubeconfigUnfit    Code = "kubeconfig-unfit"
	ToolMissing        Code = "tool-missing"
	NotPermitted       Code = "not-permitted"
	FileMissing        Code = "file-missing"
	FileExists         Code = "file-exists"
	WrongFileType      Code = "wrong-file-type"
	AddressNotFree     Code = "address-not-free"
	NoSuchTurn         Code = "no-such-turn"
	NoSuchNode         Code = "no-such-node"
	NothingToRetry     Code = "nothing-to-retry"
)

// Codes of refusals about generations.
const (
	Busy             Code = "change-under-way"
	Held             Code = "held"
	NotHeld          Code = "not-held"
	AlreadyCurrent   Code = "already-current"
	NoSource         Code = "no-source"
	InReset          Code = "in-reset"
	NoSuchGeneration Code = "no-such-generation"
	NothingBefore    Code = "nothing-to-go-back-to"
	NothingOnTrial   Code = "nothing-on-trial"
	NoSuchUnit       Code = "no-such-unit"
	NothingLogged    Code = "nothing-logged"
	NoSuchBoot       Code = "no-such-boot"
	NotThisNode      Code = "not-on-this-node"
	NotANode         Code = "not-a-node"
	NotAStatus       Code = "not-a-status"
	NoJournal        Code = "no-journal"
	ClockUnfit       Code = "clock-unfit"
)

// Codes of refusals about disks.
const (
	InUse                Code = "in-use"
	DiskNotFit           Code = "disk-unfit"
	DiskNotEmpty         Code = "disk-not-empty"
	NoDisk               Code = "no-disk"
	WipeNotAuthenticated Code = "wipe-not-authenticated"
	StateNotEncrypted    Code = "state-not-encrypted"
	DiskTooSlow          Code = "disk-too-slow"
)

// Codes of refusals of upgrades.
const (
	NoRepository       Code = "no-repository"
	NoTrustedKeys      Code = "no-trusted-keys"
	NoSuchRelease      Code = "no-such-release"
	ReleaseNotYet      Code = "release-not-yet"
	RepositoryExpired  Code = "repository-expired"
	RepositoryOld      Code = "repository-old"
	RepositoryUnsigned Code = "repository-not-signed"
	RepositoryDamaged  Code = "repository-damaged"
	AlreadyRunning     Code = "already-running"
	WrongArchitecture  Code = "wrong-architecture"
	WrongImage         Code = "wrong-image"
	NameTooLong        Code = "name-too-long"
	LabelTooLong       Code = "label-too-long"
	SlotTooSmall       Code = "slot-too-small"
	ESPFull            Code = "esp-full"
	StateFull          Code = "state-full"
	DirectoryFull      Code = "boot-directory-full"
	OtherDisk          Code = "esp-of-another-disk"
	FailedBefore       Code = "failed-before"
	OldEpoch           Code = "old-security-epoch"
	UpgradeUnderWay    Code = "upgrade-under-way"
	UpgradeOnTrial     Code = "upgrade-on-trial"
	NothingToCancel    Code = "nothing-to-cancel"
	Unproven           Code = "running-system-unproven"
	NoBootEntry        Code = "no-boot-entry"
	Downgrade          Code = "downgrade"
	NoSuchPermit       Code = "no-such-permit"
	TooSoon            Code = "too-soon"
	UpgradeHeld        Code = "upgrade-held"
	NoOtherSystem      Code = "no-other-system"
	NoSuchDrill        Code = "no-such-drill"
	NewerInOtherSlot   Code = "newer-system-in-other-slot"
	UKINotSigned       Code = "uki-not-signed"
	PCRNotSigned       Code = "pcr-not-signed"
	NotInDB            Code = "certificate-not-in-db"
	ForbiddenByDBX     Code = "forbidden-by-dbx"
	BatteryLow         Code = "battery-low"
)

// Codes of what an API server does not accept.
const (
	TokenMissing       Code = "token-missing"
	TokenRefused       Code = "token-refused"
	CertificateRefused Code = "certificate-refused"
	ApprovalDenied     Code = "approval-denied"
)

// Codes of what does not answer.
const (
	AgentNotRunning       Code = "agent-not-running"
	AgentRestarting       Code = "agent-restarting"
	RepositoryUnreachable Code = "repository-unreachable"
	RegistryUnreachable   Code = "registry-unreachable"
	RegistryRefuses       Code = "registry-refuses"
	ProxyRefuses          Code = "proxy-refuses"
	RuntimeUnreachable    Code = "runtime-unreachable"
	SystemdUnreachable    Code = "systemd-unreachable"
	NameNotFound          Code = "name-not-found"
	ServerUnreachable     Code = "server-unreachable"
	ClusterRefuses        Code = "cluster-refuses"
	NoRoute               Code = "no-route"
	TLSFailed             Code = "tls-failed"
	ApprovalPending       Code = "approval-pending"
	CertificateNotTrusted Code = "certificate-not-trusted"
	CertificateExpired    Code = "certificate-expired"
	TimedOut              Code = "timed-out"
)

// Codes of failures.
const (
	AgentEnded       Code = "agent-ended"
	TakenBack        Code = "taken-back"
	UnitFailed       Code = "unit-failed"
	NotAsItShould    Code = "not-as-it-should-be"
	OtherSlotDamaged Code = "other-slot-damaged"
	UpgradeReplaced  Code = "upgrade-replaced"
	UpgradeCanceled  Code = "upgrade-canceled"
	DiskFull         Code = "disk-full"
	DiskNearlyFull   Code = "disk-nearly-full"
	DiskError        Code = "disk-error"
	DiskFailing      Code = "disk-failing"
	DiskWorn         Code = "disk-worn"
	LimitReached     Code = "limit-reached"
	ReadOnly         Code = "read-only"
	ClockDoubtful    Code = "clock-doubtful"
	StateDamaged     Code = "state-damaged"
	StateLocked      Code = "state-locked"
	Failed           Code = "failed"
	Interrupted      Code = "interrupted"
)

// Fault describes a code.
type Fault struct {
	Code  Code
	Class Class
	// Meaning is a sentence.
	Meaning string
	// Hint is what an operator can do in general, "" if the error itself says it
	// every time.
	Hint string
}

// Table returns every code, by class.
func Table() []Fault {
	return []Fault{
		{Usage, ClassUsage, "The command line is not one that the command knows.", ""},

		{
			DocumentInvalid, ClassRefused, "A document has mistakes; each is named with its line.",
			"correct the lines that are named",
		},
		{
			MachineNotTrusted, ClassRefused,
			"A machine.yaml is not signed by a key that the node trusts, or is older than " +
				"the one that the node has accepted.",
			"loamctl machine sign FILE --key KEY",
		},
		{
			CannotBeApplied, ClassRefused,
			"A configuration is valid, and cannot be made on this node.",
			"change what is named, or take an image that has it",
		},
		{
			ContentMissing, ClassRefused,
			"A configuration refers to content that is not there.",
			"bring the content, then `loam apply`",
		},
		{
			DigestMissing, ClassRefused,
			"A configuration names an image by a tag, and this node takes only digests.",
			"name the image by its digest, or write images: {tags: allow} in machine.yaml",
		},
		{
			ImageNotSigned, ClassRefused,
			"No key that machine.yaml names has signed an image.",
			"cosign sign --key KEY IMAGE",
		},
		{
			ConfirmationNeeded, ClassRefused,
			"A command that takes something away was not confirmed. Nothing was done.",
			"answer its question at a terminal",
		},
		{
			NotABuild, ClassRefused, "A directory is not one that loamctl build has made.",
			"`loamctl build --out DIR` makes one",
		},
		{
			BuildDamaged, ClassRefused, "A file of a build is not as its manifest says.",
			"copy or build it again",
		},
		{
			Vulnerable, ClassRefused,
			"The software of a build has known vulnerabilities that have a fix.",
			"update the packages, or the module, that has it, and build again",
		},
		{
			BelowFloor, ClassRefused,
			"The software of an image is older than image/floor/floors.list allows.",
			"build again with the version that the error names, or a later one",
		},
		{
			NotAnImage, ClassRefused, "A file is not a disk image of Loam.",
			"take a disk image of a build, such as disk.raw",
		},
		{
			NotARepository, ClassRefused,
			"A directory, or what a server sends, is not a repository of releases.",
			"`loamctl bundle --init` makes one; name the directory that has metadata/ in it",
		},
		{
			KeyUnfit, ClassRefused,
			"A key or a certificate is missing, or does not fit to the other.",
			"name the file, or the directory, of the right key",
		},
		{
			KubeconfigUnfit, ClassRefused,
			"A kubeconfig does not say how to reach a cluster.",
			"`kubectl --kubeconfig FILE config view` shows what it says",
		},
		{
			ToolMissing, ClassRefused, "A program that the command needs is not on this machine.",
			"install the package that has it",
		},
		{
			NotPermitted, ClassRefused, "This user may not do it.", "run the command as root",
		},
		{
			FileMissing, ClassRefused, "A file or directory is not there.",
			"compare the name with what is there",
		},
		{
			FileExists, ClassRefused, "A file is there already, and is not overwritten.",
			"choose another name, or move it away",
		},
		{
			WrongFileType, ClassRefused,
			"There is a directory where the command wants a file, or a file where it wants a directory.",
			"compare the name with what is there",
		},
		{
			AddressNotFree, ClassRefused, "A server cannot listen on its address.",
			"choose another address with --listen; `ss -ltnp` shows what listens",
		},
		{
			NoSuchTurn, ClassRefused, "A machine has no turn in its pool.",
			"`loamctl rollout status POOL` names the machines that have one",
		},
		{
			NoSuchNode, ClassRefused, "The cluster has no Node of that name.",
			"`kubectl get nodes` names them",
		},
		{
			NothingToRetry, ClassRefused,
			"Nothing has failed on the Node that its pool changes to.",
			"`loamctl rollout status POOL` names the nodes on which a change has failed",
		},

		{
			Busy, ClassRefused, "Another change is under way.",
			"wait until `loam status` shows that it has ended",
		},
		{
			Held, ClassRefused,
			"The generation, or the configuration of the source, is held because it made the node " +
				"worse, or because an operator went back from it.",
			"`loam history` says why; `loam rollback --held N` takes it nevertheless",
		},
		{
			NotHeld, ClassRefused, "The generation is not held.", "`loam rollback N`, without --held",
		},
		{
			AlreadyCurrent, ClassRefused, "The generation is the current one.",
			"`loam history` lists the others",
		},
		{
			NoSource, ClassRefused, "The node has no source of configuration.",
			"`loam apply FILE`, or a source in machine.yaml",
		},
		{
			InReset, ClassRefused, "The node is being reset, or has been.",
			"`loam apply` ends it",
		},
		{
			NoSuchGeneration, ClassRefused, "The node has no generation of this number or name.",
			"`loam history` lists them",
		},
		{
			NothingBefore, ClassRefused, "There is no earlier generation to go back to.",
			"`loam history` lists what there is",
		},
		{
			NothingOnTrial, ClassRefused, "No change is on trial.",
			"`loam apply --try 5m FILE` begins one",
		},
		{
			NoSuchUnit, ClassRefused, "The node has no unit of that name.",
			"`systemctl list-units` lists them",
		},
		{
			NothingLogged, ClassRefused, "The unit has logged nothing in that boot.",
			"`systemctl status UNIT` shows whether it has run",
		},
		{
			NoSuchBoot, ClassRefused, "The journal has nothing of that boot.",
			"`journalctl --list-boots` lists those that it has",
		},
		{
			NotThisNode, ClassRefused,
			"This node cannot do it: it runs from memory, or has no agent that could.",
			"`loam status` shows what the node runs from",
		},
		{
			NotANode, ClassRefused, "A directory is not the root directory of a Loam node.",
			"run the command on a node, or name the root directory of one with --root",
		},
		{
			NotAStatus, ClassRefused, "A file is not the status of a node.",
			"`loam status -o json` prints one",
		},
		{
			NoJournal, ClassRefused, "There is no journal of systemd to read.",
			"run the command on the node, or name its root directory with --root",
		},

		{
			InUse, ClassRefused, "A disk or a file is in use.",
			"`lsblk` shows what uses it",
		},
		{
			DiskNotFit, ClassRefused,
			"A disk is too small, read-only, or has other sectors than the image.",
			"take another disk, or build an image for this one",
		},
		{
			DiskNotEmpty, ClassRefused, "A disk has content that would be lost.",
			"`loam disks` shows what is on it",
		},
		{
			NoDisk, ClassRefused, "No disk of the machine is claimed, free and empty.",
			"`loam disks` shows each disk, and the line of machine.yaml that would take it",
		},
		{
			WipeNotAuthenticated, ClassRefused,
			"A machine.yaml that nothing vouches for asks to overwrite a disk.",
			"use a USB installer, or sign it, and build with --machine-trust",
		},
		{
			StateNotEncrypted, ClassRefused,
			"machine.yaml wants the state of the node to be encrypted, and it could not be. The " +
				"node is not configured.",
			"switch the TPM 2.0 on, or give the key to the machine, and restart it",
		},
		{
			DiskTooSlow, ClassRefused,
			"The disk of the state takes too long to sync for etcd. No cluster was made.",
			"take a faster disk, or set cluster.allowSlowDisk: true in machine.yaml",
		},

		{
			NoRepository, ClassRefused, "The node does not know where releases are published.",
			"`loam upgrade --from URL`, or upgrade.repository in machine.yaml",
		},
		{
			NoTrustedKeys, ClassRefused, "The node has no keys to verify releases with.",
			"put the root.json of the repository into machine.yaml, upgrade.root",
		},
		{
			NoSuchRelease, ClassRefused,
			"The repository has no such version for this image and architecture.",
			"`loamctl bundle` publishes one",
		},
		{
			ReleaseNotYet, ClassRefused,
			"The release reaches this machine with a later wave, which the message names.",
			"wait; `loam upgrade --now` does not",
		},
		{
			RepositoryExpired, ClassRefused,
			"The signatures of the repository have expired, or the clock is wrong.",
			"`loamctl bundle --refresh` signs it again; `timedatectl` shows the clock",
		},
		{
			RepositoryOld, ClassRefused,
			"The repository is older than what this node has seen of it.",
			"copy the repository again; an attacker may replay an old one",
		},
		{
			RepositoryUnsigned, ClassRefused,
			"The repository is not signed by the keys that this node trusts.",
			"compare upgrade.root in machine.yaml with the repository's root.json",
		},
		{
			RepositoryDamaged, ClassRefused,
			"A file of the repository is not the file that its signed metadata names.",
			"`loamctl publish` of an intact copy repairs it",
		},
		{AlreadyRunning, ClassRefused, "The node runs this version.", ""},
		{
			WrongArchitecture, ClassRefused,
			"The release, or the version of Kubernetes, is for another architecture.", "",
		},
		{WrongImage, ClassRefused, "The release is of another image.", ""},
		{NameTooLong, ClassRefused, "The name of the boot entry would be too long.", ""},
		{LabelTooLong, ClassRefused, "The label of the partition would be too long.", ""},
		{SlotTooSmall, ClassRefused, "The release is larger than a slot of this disk.", ""},
		{
			ClockUnfit, ClassRefused,
			"The clock cannot be set to the hardware's: there is none, it cannot be right, or a time " +
				"server has set the clock.",
			"",
		},
		{ESPFull, ClassRefused, "The EFI system partition has no room for another UKI.", ""},
		{StateFull, ClassRefused, "The state partition has no room for what is to be fetched.", ""},
		{DirectoryFull, ClassRefused, "The directory of boot entries is full.", ""},
		{OtherDisk, ClassRefused, "The boot loader came from another disk.", ""},
		{FailedBefore, ClassRefused, "This release has failed on this node.", ""},
		{OldEpoch, ClassRefused, "The release has a lower security epoch than the node allows.", ""},
		{UpgradeUnderWay, ClassRefused, "Another upgrade is under way.", ""},
		{UpgradeOnTrial, ClassRefused, "The new system is on trial, and runs already.", ""},
		{NothingToCancel, ClassRefused, "No upgrade is under way.", ""},
		{Unproven, ClassRefused, "The running system is on trial itself.", ""},
		{NoBootEntry, ClassRefused, "The running system has no boot entry of its own.", ""},
		{Downgrade, ClassRefused, "The release is older than the running one.", ""},
		{NoSuchPermit, ClassRefused, "The permit is not valid for this release and node.", ""},
		{TooSoon, ClassRefused, "The last upgrade began a short time ago.", ""},
		{UpgradeHeld, ClassRefused, "machine.yaml keeps the node from another system.", ""},
		{NoOtherSystem, ClassRefused, "The other slot holds no system to go back to.", ""},
		{NoSuchDrill, ClassRefused, "A drill fails by check or by panic.", ""},
		{NewerInOtherSlot, ClassRefused, "The other slot holds a newer system.", ""},
		{UKINotSigned, ClassRefused, "Secure Boot is on, and the UKI has no signature.", ""},
		{PCRNotSigned, ClassRefused, "The TPM would not open the encrypted state for it.", ""},
		{NotInDB, ClassRefused, "No certificate in the firmware's db leads to the signer.", ""},
		{ForbiddenByDBX, ClassRefused, "The firmware's dbx lists the UKI or its signer.", ""},
		{BatteryLow, ClassRefused, "The machine runs on a battery that is nearly empty.", ""},

		{
			TokenMissing, ClassRefused,
			"A node has no certificate of its cluster, and no bootstrap token to get one.",
			"`kubeadm token create` makes a token; give it to the node in machine.yaml",
		},
		{
			TokenRefused, ClassRefused,
			"The API server does not know the bootstrap token, or it has expired.",
			"`kubeadm token create` makes a new one; give it to the node in machine.yaml",
		},
		{
			CertificateRefused, ClassRefused,
			"The API server does not accept the certificate of a node.",
			"give the node a bootstrap token, with which it gets a new certificate",
		},
		{
			ApprovalDenied, ClassRefused,
			"The cluster has denied the request of a node for a certificate.",
			"`kubectl describe csr` says who has denied it, and why",
		},

		{
			AgentNotRunning, ClassUnreachable, "No agent answers on this machine.",
			"systemctl status loam-agent",
		},
		{
			AgentRestarting, ClassUnreachable, "The agent restarts before it does the request.",
			"repeat the command",
		},
		{
			RepositoryUnreachable, ClassUnreachable, "The repository of releases does not answer.",
			"check the URL and the server; the next try goes on where this one stopped",
		},
		{
			RegistryUnreachable, ClassUnreachable, "A registry of images does not answer.",
			"check its name and the network; the agent retries by itself",
		},
		{
			RegistryRefuses, ClassRefused, "A registry gives an image only to those with a login.",
			"let it be pulled without, or through a mirror",
		},
		{
			ProxyRefuses, ClassRefused,
			"A proxy does not let this machine connect to a server, or wants a password.",
			"see proxy in machine.yaml, or HTTPS_PROXY and NO_PROXY beside loamctl",
		},
		{
			ClusterRefuses, ClassRefused, "An API server does not let this user do it.",
			"`kubectl auth can-i --list` shows what the user may do; take another kubeconfig",
		},
		{
			RuntimeUnreachable, ClassUnreachable, "containerd does not answer.",
			"systemctl status containerd",
		},
		{
			SystemdUnreachable, ClassUnreachable, "systemd does not answer.",
			"this runs on a node, under systemd: `systemctl status loam-agent` shows the agent",
		},
		{
			NameNotFound, ClassUnreachable, "The name of a server has no address.",
			"check the spelling; `resolvectl query NAME` shows what the name servers say",
		},
		{
			ServerUnreachable, ClassUnreachable,
			"A server cannot be connected to, or ends the connection.",
			"check that it runs, its port, and the firewalls on the way",
		},
		{
			NoRoute, ClassUnreachable,
			"No route leads to the address of a server, or this machine has no address itself.",
			"`networkctl` shows cables and addresses; see network in machine.yaml, and DHCP",
		},
		{
			TLSFailed, ClassUnreachable,
			"What answers does not speak TLS, or no version that both sides know.",
			"check the port, and whether something on the way answers in the server's place",
		},
		{
			ApprovalPending, ClassUnreachable,
			"The request of a node for a certificate is not approved yet.",
			"`kubectl get csr` shows the request, `kubectl certificate approve NAME` approves it",
		},
		{
			CertificateNotTrusted, ClassUnreachable,
			"The certificate of a server is for another name, or of an unknown authority.",
			"name the server as its certificate does, or add its authority to the trusted ones",
		},
		{
			CertificateExpired, ClassUnreachable,
			"A certificate is not valid now.",
			"the clock of this machine may be wrong: `timedatectl`",
		},
		{
			TimedOut, ClassUnreachable, "There was no answer in time.",
			"repeat the command when what it waits for is there",
		},

		{
			AgentEnded, ClassFailed,
			"The node agent has ended without being told to; systemd starts it again.",
			"`loam logs` shows its last lines; units and pods run on without it",
		},
		{
			TakenBack, ClassFailed,
			"The change made the node worse. The node runs what it ran before.",
			"`loam history` says why",
		},
		{
			UnitFailed, ClassFailed, "A unit is not in the state that it should be in.",
			"`loam logs UNIT` on the node",
		},
		{
			NotAsItShould, ClassFailed, "Something differs from what it should be.",
			"",
		},
		{OtherSlotDamaged, ClassFailed, "The system in the other slot does not verify.", ""},
		{
			UpgradeReplaced, ClassFailed, "Another upgrade was requested since.",
			"`loam status` shows the one that counts",
		},
		{
			UpgradeCanceled, ClassFailed, "The upgrade was canceled with `loam upgrade --cancel`.",
			"`loam upgrade` begins it again",
		},
		{
			DiskFull, ClassFailed, "A file system has no room.",
			"`df -h` and `df -i` show which one",
		},
		{DiskNearlyFull, ClassFailed, "A file system has little room left.", ""},
		{
			LimitReached, ClassFailed,
			"A limit of the kernel is used up: of threads, of open files, or of inotify.",
			"`loam status` names the limit; end what uses it up, or raise it",
		},
		{
			ClockDoubtful, ClassFailed,
			"The clock of the node and the hardware's are days apart, and no time server has answered.",
			"",
		},
		{
			DiskError, ClassFailed, "A disk cannot be read or written.",
			"`dmesg` says more; the disk may be failing",
		},
		{DiskFailing, ClassFailed, "A disk says that it fails.", ""},
		{DiskWorn, ClassFailed, "A disk has used most of the writes that it is made for.", ""},
		{
			ReadOnly, ClassFailed, "A file system is read-only.",
			"if it should not be, `dmesg` says why; the disk may be failing",
		},
		{
			StateDamaged, ClassFailed,
			"The state partition is damaged, and the state of the node is in memory.",
			"`loam status` says what e2fsck has found",
		},
		{
			StateLocked, ClassFailed,
			"No key opens the encrypted state of the node, so its state is in memory. Nothing on " +
				"the partition is changed.",
			"give the recovery key to the machine, and restart it",
		},
		{Failed, ClassFailed, "What the error says, and nothing that has a code.", ""},

		{
			Interrupted, ClassInterrupted, "The command was ended by Ctrl-C or SIGTERM.",
			"",
		},
	}
}
