package directive

import (
	"math"
	"net/netip"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/loam-os/loam/agent/unitfile"
)

// A check reports whether systemd takes a value that is not empty.
type check func(value string) bool

// either returns a check for what one of the checks takes.
func either(checks ...check) check {
	return func(value string) bool {
		return slices.ContainsFunc(checks, func(c check) bool { return c(value) })
	}
}

// each returns a check for a list of quoted words that c takes.
func each(c check) check { return eachOf(unitfile.Quoted, c) }

// eachEscaped returns a check for a list of escaped words that c takes.
func eachEscaped(c check) check { return eachOf(unitfile.Escaped, c) }

func eachOf(how unitfile.Quoting, c check) check {
	return func(value string) bool {
		words, ok := unitfile.Words(value, how)
		return ok && !slices.ContainsFunc(words, func(word string) bool {
			return !c(word) && !HasSpecifier(word)
		})
	}
}

// one returns a check for one of the names, which are separated by spaces.
func one(names string) check {
	all := strings.Fields(names)
	return func(value string) bool { return slices.Contains(all, value) }
}

func isBoolean(value string) bool {
	return slices.Contains([]string{
		"1", "yes", "y", "true", "t", "on", "0", "no", "n", "false", "f", "off",
	}, strings.ToLower(value))
}

// unsigned returns a check for a number of C from low to high.
func unsigned(low, high uint64) check {
	return func(value string) bool {
		number, err := strconv.ParseUint(strings.TrimPrefix(value, "+"), 0, 64)
		return err == nil && !strings.Contains(value, "_") && number >= low && number <= high
	}
}

// signed returns a check for a number of C from low to high.
func signed(low, high int64) check {
	return func(value string) bool {
		number, err := strconv.ParseInt(value, 0, 64)
		return err == nil && !strings.Contains(value, "_") && number >= low && number <= high
	}
}

var isNumber = unsigned(0, math.MaxUint32)

var octal = regexp.MustCompile(`^0*[0-7]{1,4}$`)

// units of spans of time (systemd.time(7)).
const units = `seconds?|sec|s|minutes?|min|months?|M|msec|ms|m|hours?|hr|h|days?|d|weeks?|w|` +
	`years?|y|usec|us|µs|μs`

var (
	span     = regexp.MustCompile(`^(\+?\d{1,18}(\.\d*)?\s*((` + units + `)\s*|\s|$))+$`)
	nanospan = regexp.MustCompile(`^(\+?\d{1,18}(\.\d*)?\s*((` + units + `|nsec|ns)\s*|\s|$))+$`)
	spanPart = regexp.MustCompile(`(\d+)(\.\d*)?\s*(` + units + `)?`)
	size     = regexp.MustCompile(`^\+?(\d{1,18})(\.\d+)?\s*([EPTGMKB]?)$`)
	shares   = regexp.MustCompile(`^(\d+)(\.\d{1,2})?%$|^(\d+)(\.\d)?‰$|^(\d+)‱$`)
)

func isFiniteSpan(value string) bool { return span.MatchString(value) }

func isSpan(value string) bool { return value == "infinity" || isFiniteSpan(value) }

func isSize(value string) bool { return size.MatchString(value) && bytes(value) < math.MaxUint64 }

func isPositiveSize(value string) bool {
	return isSize(value) && strings.Trim(value, "+0.BKMGTPE ") != ""
}

// isShare reports whether value is a share of a whole, such as 10%.
func isShare(value string) bool {
	parts := shares.FindStringSubmatch(value)
	if parts == nil {
		return false
	}
	for i, most := range map[int]float64{1: 100, 3: 1000, 5: 10000} {
		text := parts[i]
		if i < 5 {
			text += parts[i+1]
		}
		if number, err := strconv.ParseFloat(text, 64); err == nil && number <= most {
			return true
		}
	}
	return false
}

// seconds returns the length of a span.
func seconds(value string) float64 {
	sum := 0.0
	for _, part := range spanPart.FindAllStringSubmatch(value, -1) {
		number, err := strconv.ParseFloat(part[1]+part[2], 64)
		if err != nil {
			return math.Inf(1)
		}
		sum += number * secondsOf(part[3])
	}
	return sum
}

func secondsOf(unit string) float64 {
	const day = 24 * 3600
	switch {
	case strings.HasPrefix(unit, "us"), strings.HasSuffix(unit, "µs"), strings.HasSuffix(unit, "μs"):
		return 1e-6
	case strings.HasPrefix(unit, "ms"):
		return 1e-3
	case strings.HasPrefix(unit, "mo"), unit == "M":
		return 30.44 * day
	case strings.HasPrefix(unit, "m"):
		return 60
	case strings.HasPrefix(unit, "h"):
		return 3600
	case strings.HasPrefix(unit, "d"):
		return day
	case strings.HasPrefix(unit, "w"):
		return 7 * day
	case strings.HasPrefix(unit, "y"):
		return 365.25 * day
	}
	return 1
}

// bytes returns the number of bytes of a size, or the number of a number of C.
func bytes(value string) float64 {
	if number, err := strconv.ParseUint(value, 0, 64); err == nil {
		return float64(number)
	}
	parts := size.FindStringSubmatch(value)
	if parts == nil {
		return math.Inf(1) // It is infinity.
	}
	number, err := strconv.ParseFloat(parts[1]+parts[2], 64)
	if err != nil {
		return math.Inf(1)
	}
	return number * math.Pow(1024, float64(max(0, strings.Index("BKMGTPE", parts[3]))))
}

// limit returns a check for VALUE or SOFT:HARD, where the soft limit is at most
// the hard one.
func limit(c check, measure func(value string) float64) check {
	return func(value string) bool {
		soft, hard, both := strings.Cut(value, ":")
		if !both {
			return c(value)
		}
		return c(soft) && c(hard) && (hard == "infinity" || soft != "infinity") &&
			(hard == "infinity" || measure(soft) <= measure(hard))
	}
}

// isPath reports whether value is an absolute path without "..".
func isPath(value string) bool {
	return path.IsAbs(value) && !strings.Contains(value+"/", "/../") && utf8.ValidString(value) &&
		len(value) < 4096
}

// isFilePath is isPath without the file systems of the kernel.
func isFilePath(value string) bool {
	for _, dir := range []string{"/dev/", "/proc/", "/sys/"} {
		if strings.HasPrefix(value+"/", dir) {
			return false
		}
	}
	return isPath(value)
}

// isPositiveShare is isShare without zero.
func isPositiveShare(value string) bool {
	return isShare(value) && strings.Trim(value, "0.%‰‱") != ""
}

// after returns a check for what c takes after any of the prefixes, each at most
// once and in this order.
func after(prefixes string, c check) check {
	return func(value string) bool {
		for _, prefix := range prefixes {
			value = strings.TrimPrefix(value, string(prefix))
		}
		return c(value)
	}
}

// signals are those of Linux, and the ends of the real-time ones.
var signals = strings.Fields(`HUP INT QUIT ILL TRAP ABRT BUS FPE KILL USR1 SEGV USR2 PIPE ALRM TERM
	STKFLT CHLD CONT STOP TSTP TTIN TTOU URG XCPU XFSZ VTALRM PROF WINCH IO PWR SYS RTMIN RTMAX`)

var realtime = regexp.MustCompile(`^RTMIN\+([12]?[0-9]|30)$|^RTMAX-([12]?[0-9]|30)$`)

func isSignal(value string) bool {
	name := strings.TrimPrefix(value, "SIG")
	return slices.Contains(signals, name) || realtime.MatchString(name) || unsigned(1, 64)(value)
}

// isSignalName is isSignal without numbers, which are exit statuses.
func isSignalName(value string) bool { return !decimal.MatchString(value) && isSignal(value) }

// statuses are the names of exit statuses (systemd.exec(5), "Process Exit
// Codes").
var statuses = one(`SUCCESS FAILURE CHDIR NICE FDS EXEC MEMORY LIMITS OOM_ADJUST SIGNAL_MASK STDIN
	STDOUT CHROOT IOPRIO TIMERSLACK SECUREBITS SETSCHEDULER CPUAFFINITY GROUP USER CAPABILITIES
	CGROUP SETSID CONFIRM STDERR PAM NETWORK NAMESPACE NO_NEW_PRIVILEGES SECCOMP SELINUX_CONTEXT
	PERSONALITY APPARMOR_PROFILE ADDRESS_FAMILIES RUNTIME_DIRECTORY CHOWN SMACK_PROCESS_LABEL KEYRING
	STATE_DIRECTORY CACHE_DIRECTORY LOGS_DIRECTORY CONFIGURATION_DIRECTORY NUMA_POLICY CREDENTIALS
	BPF KSM EXCEPTION INVALIDARGUMENT NOTIMPLEMENTED NOPERMISSION NOTINSTALLED NOTCONFIGURED
	NOTRUNNING USAGE DATAERR NOINPUT NOUSER NOHOST UNAVAILABLE SOFTWARE OSERR OSFILE CANTCREAT IOERR
	TEMPFAIL PROTOCOL NOPERM CONFIG`)

var (
	variable = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)
	decimal  = regexp.MustCompile(`^[0-9]+$`)
)

func isVariable(word string) bool { return variable.MatchString(word) }

func isAssignment(word string) bool {
	name, _, ok := strings.Cut(word, "=")
	return ok && isVariable(name)
}

// isUser reports whether value is a name or a number of a user or group, in the
// relaxed sense of systemd (systemd.exec(5), "User=").
func isUser(value string) bool {
	if decimal.MatchString(value) {
		number, err := strconv.ParseUint(value, 10, 32)
		return err == nil && number != math.MaxUint32 && number != math.MaxUint16 &&
			(value == "0" || value[0] != '0')
	}

	allDigits := decimal.MatchString(strings.TrimPrefix(value, "-"))
	control := strings.ContainsFunc(value, func(r rune) bool { return r < ' ' || r == 0x7f })
	return value != "-" && !allDigits && !control && !strings.ContainsAny(value, ":/") && value != "." &&
		value != ".." && value == strings.TrimSpace(value) && utf8.ValidString(value)
}

// isNotTemplate reports whether the name of a unit is not that of a template.
func isNotTemplate(value string) bool { return !strings.Contains(value, "@.") }

// ofType returns a check for the name of a unit of a type.
func ofType(suffix string) check {
	return func(value string) bool { return unitfile.IsName(value) && strings.HasSuffix(value, suffix) }
}

// isPrefix reports whether word is an IP address, with or without the length of
// a prefix.
func isPrefix(word string) bool {
	if address, err := netip.ParseAddr(word); err == nil {
		return address.Zone() == ""
	}
	_, err := netip.ParsePrefix(word)
	return err == nil
}

// isListen reports whether value is what ListenStream= takes.
func isListen(value string) bool {
	switch {
	case strings.HasPrefix(value, "/"), strings.HasPrefix(value, "@"):
		return len(value) > 1 && len(value) < 108
	case strings.HasPrefix(value, "vsock:"):
		return true
	}
	host, _, _ := strings.Cut(value, "%") // A scope, [fe80::1]:80%eth0.
	_, err := netip.ParseAddrPort(host)
	return (err == nil && !strings.HasSuffix(host, ":0")) || unsigned(1, math.MaxUint16)(value)
}

// isSet reports whether value is a set of processors or memory nodes.
func isSet(value string) bool {
	word := func(text string) bool {
		low, high, isRange := strings.Cut(text, "-")
		number := unsigned(0, 8191)
		if !isRange {
			return number(low)
		}
		first, err1 := strconv.ParseUint(low, 0, 32)
		last, err2 := strconv.ParseUint(high, 0, 32)
		return err1 == nil && err2 == nil && number(high) && first <= last
	}
	return each(word)(strings.ReplaceAll(value, ",", " "))
}

// isOutput reports whether value names a file or a descriptor for output.
func isOutput(value string) bool {
	kind, rest, _ := strings.Cut(value, ":")
	switch kind {
	case "file", "append", "truncate":
		return isPath(rest)
	case "fd":
		return rest != "" && !strings.Contains(rest, ":")
	}
	return false
}

// isInput reports whether value names a file or a descriptor for input.
func isInput(value string) bool {
	return isOutput(value) && !strings.HasPrefix(value, "append:") &&
		!strings.HasPrefix(value, "truncate:")
}

var (
	quota         = regexp.MustCompile(`^\d{1,9}(\.\d{1,2})?%$|^\d{1,9}(\.\d)?‰$|^\d{1,9}‱$`)
	documentation = regexp.MustCompile(`^(https?://|file:/|info:.|man:.)`)
)

var devices = regexp.MustCompile(`^(/dev/\S+|/run/systemd/inaccessible/\S+|(char|block)-\S*)(\s+[rwm]+)?$`)

// isNamespaces reports whether value is a list of kinds of namespaces.
func isNamespaces(value string) bool {
	return each(one("cgroup ipc net mnt pid user uts time"))(strings.TrimPrefix(value, "~"))
}

var isController = one(
	"cpu cpuacct cpuset io blkio memory devices pids bpf-firewall bpf-devices bpf-foreign " +
		"bpf-socket-bind bpf-restrict-network-interfaces",
)

// isBind reports whether word is PATH[:PATH[:OPTIONS]].
func isBind(word string) bool {
	parts := strings.Split(strings.TrimPrefix(word, "-"), ":")
	if len(parts) > 2 && !each(one("rbind norbind"))(strings.Join(parts[2:], " ")) {
		return false
	}
	return !slices.ContainsFunc(parts[:min(2, len(parts))], func(part string) bool {
		return !isPath(part)
	})
}

// isDirectory reports whether word is a directory below that of the kind, as
// in StateDirectory=, with or without a second name for it and a flag.
func isDirectory(word string) bool {
	parts := strings.Split(word, ":")
	relative := func(part string) bool {
		first, _, _ := strings.Cut(part, "/")
		return part != "" && part != "." && !path.IsAbs(part) && !strings.Contains("/"+part+"/", "/../") &&
			first != "private"
	}
	return len(parts) <= 3 && relative(parts[0]) &&
		(len(parts) < 2 || parts[1] == "" || relative(parts[1])) &&
		(len(parts) < 3 || parts[2] == "" || parts[2] == "ro")
}

// areUsers reports whether value is a list of users, which has no quotes.
func areUsers(value string) bool {
	return !slices.ContainsFunc(strings.Fields(value), func(word string) bool {
		return !isUser(word)
	})
}

var isArchitecture = one(`native x86 x86-64 x32 arm arm64 loongarch64 mips mips64 mips64-n32 mips-le mips64-le
	mips64-le-n32 parisc parisc64 ppc ppc64 ppc64-le riscv64 s390 s390x`)

var families = one(`AF_UNSPEC AF_UNIX AF_LOCAL AF_INET AF_AX25 AF_IPX AF_APPLETALK AF_NETROM AF_BRIDGE
	AF_ATMPVC AF_X25 AF_INET6 AF_ROSE AF_DECnet AF_NETBEUI AF_SECURITY AF_KEY AF_NETLINK AF_ROUTE AF_PACKET
	AF_ASH AF_ECONET AF_ATMSVC AF_RDS AF_SNA AF_IRDA AF_PPPOX AF_WANPIPE AF_LLC AF_IB AF_MPLS AF_CAN AF_TIPC
	AF_BLUETOOTH AF_IUCV AF_RXRPC AF_ISDN AF_PHONET AF_IEEE802154 AF_CAIF AF_ALG AF_NFC AF_VSOCK AF_KCM
	AF_QIPCRTR AF_SMC AF_XDP AF_MCTP`)

func isFamilies(value string) bool { return each(families)(strings.TrimPrefix(value, "~")) }

// deviceAnd returns a check for a device and a value.
func deviceAnd(c check) check {
	return func(value string) bool {
		parts, ok := unitfile.Words(value, unitfile.Quoted)
		return ok && len(parts) == 2 && c(parts[1])
	}
}

// isUnixAddress reports whether value is the address of a socket of Unix.
func isUnixAddress(value string) bool {
	return len(value) > 1 && len(value) < 108 && (value[0] == '/' || value[0] == '@')
}

var busName = regexp.MustCompile(`^[A-Za-z_-][A-Za-z0-9_-]*(\.[A-Za-z_-][A-Za-z0-9_-]*)+$`)

// isTemporary reports whether word is PATH or PATH:OPTIONS.
func isTemporary(word string) bool {
	file, _, _ := strings.Cut(word, ":")
	return isPath(file)
}

// isBindRule reports whether value is what SocketBindAllow= takes.
func isBindRule(value string) bool {
	parts := strings.Split(value, ":")
	last := parts[len(parts)-1]
	low, high, isRange := strings.Cut(last, "-")
	port := unsigned(0, math.MaxUint16)
	first, err1 := strconv.ParseUint(low, 0, 16)
	final, err2 := strconv.ParseUint(high, 0, 16)
	rises := err1 == nil && err2 == nil && first <= final
	isPorts := last == "any" || (port(low) && (!isRange || rises))
	switch len(parts) {
	case 1:
		return isPorts || one("ipv4 ipv6 tcp udp")(value)
	case 2:
		return one("ipv4 ipv6 tcp udp")(parts[0]) && (isPorts || one("tcp udp")(last))
	case 3:
		return one("ipv4 ipv6")(parts[0]) && one("tcp udp")(parts[1]) && isPorts
	}
	return false
}

// isPlainDirectory is isDirectory without a second name.
func isPlainDirectory(word string) bool { return !strings.Contains(word, ":") && isDirectory(word) }
