package machine

import (
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/rsa"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"

	"github.com/loam-os/loam/agent/document"
	"github.com/loam-os/loam/agent/fleetlock"
	"github.com/loam-os/loam/agent/hostname"
	"github.com/loam-os/loam/agent/kernel"
	"github.com/loam-os/loam/agent/plane"
	"github.com/loam-os/loam/agent/proxy"
	"github.com/loam-os/loam/agent/trust"
	"github.com/loam-os/loam/agent/volume"
	"github.com/loam-os/loam/agent/window"
	"github.com/loam-os/loam/hint"
)

var (
	// What udev appends to the path of a disk for a partition of it.
	partition = regexp.MustCompile(`-part[0-9]+$`)
	terminal  = regexp.MustCompile(`^(console|tty[A-Za-z]*[0-9]{1,3}|hvc[0-9]{1,3})$`)
	// The format of a bootstrap token, as the API server's authenticator
	// accepts it.
	bootstrapToken = regexp.MustCompile(`^[a-z0-9]{6}\.[a-z0-9]{16}$`)
	credential     = regexp.MustCompile(`^loam\.[A-Za-z0-9_.-]+$`)
	// The value of a Kubernetes label that is not empty.
	labelValue = regexp.MustCompile(`^[A-Za-z0-9]([A-Za-z0-9._-]{0,61}[A-Za-z0-9])?$`)
)

// checkHostname wants the name as the node has it.
func checkHostname(report *document.Report, given string) {
	if given == "" {
		return
	}

	hint := "write at most 63 lower-case letters, digits, dashes and dots"
	name, err := hostname.Parse(given)
	switch {
	case err != nil:
		report.Add("hostname", document.Quote(given)+" is not a host name: "+err.Error(), hint)
	case name != given:
		report.Add("hostname", document.Quote(given)+" is not a host name", hint+", such as "+name)
	}
}

func check(report *document.Report, m Machine) {
	checkHostname(report, m.Hostname)

	switch m.HostnameFrom {
	case "":
	case FromDHCP, FromSerial:
		if m.Hostname != "" {
			report.Add("hostnameFrom", "is set as well as hostname", "keep one of them")
		}
	default:
		report.Add("hostnameFrom", document.Quote(m.HostnameFrom)+" is not known here",
			"write dhcp or serial, or a hostname instead")
	}

	checkTrust(report, m.Trust)
	checkNetwork(report, m.Network)
	checkProxy(report, m.Proxy)
	checkSource(report, m.Source)
	checkOwnCluster(report, m)
	checkFiles(report, m)

	if directory := m.Contents.Directory; directory != nil {
		checkPath(report, "contents.directory.path", directory.Path, "directory",
			"/var/lib/contents")
	}

	checkImages(report, m.Images)
	checkUpgrade(report, m.Upgrade)
	checkVolume(report, "dataVolume.", m.DataVolume)
	checkVolume(report, "cluster.etcdVolume.", m.Cluster.EtcdVolume)
	checkInstall(report, m.Install)

	checkState(report, m.State)
	checkSerials(report, m)
	checkKernel(report, m.Kernel)

	for i, name := range m.DebugShell {
		at := fmt.Sprintf("debugShell[%d]", i)
		switch {
		case !terminal.MatchString(name):
			report.Add(at, document.Quote(name)+" is not a terminal",
				"write a name such as tty2, ttyS1 or hvc0, without /dev/")
		case slices.Contains(m.DebugShell[:i], name):
			report.Add(at, document.Quote(name)+" given twice", "keep one of them")
		}
	}
}

// checkEmpty reports groups that are in the document and say nothing: whoever
// wrote one meant something by it. wrong has what could not be decoded, which may
// be all that is in a group.
func checkEmpty(report *document.Report, m Machine, wrong document.Errors) {
	check := func(field string, empty bool, hint string) {
		inside := func(e document.Error) bool { return strings.HasPrefix(e.Path, field+".") }
		if empty && report.Given(field) && !slices.ContainsFunc(wrong, inside) {
			report.Add(field, "is empty", hint)
		}
	}

	check("trust", len(m.Trust.Keys) == 0,
		"write keys, or leave it out: no signature is needed then")
	check("network", m.Network.IsZero(),
		"write interfaces, or leave it out: the node then does DHCP on every wired interface")
	check("proxy", m.Proxy.URL == "" && len(m.Proxy.NoProxy) == 0,
		"write url, or leave it out: the node then needs no proxy")
	check("source", m.Source == Source{},
		"write one of file, esp, credential, cluster and nodeAgent, or leave it out: the node "+
			"then keeps the configuration it has")
	check("cluster", m.Cluster == OwnCluster{},
		"write init: {}, which makes the machine a cluster, or leave it out")
	check("contents", m.Contents == Contents{}, "write directory, or leave it out")
	check("images", m.Images.Tags == "" && len(m.Images.Keys) == 0,
		"write tags or keys, or leave it out")
	check("upgrade", reflect.ValueOf(m.Upgrade).IsZero(),
		"write repository and root, or leave it out")
	check("kernel", m.Kernel.IsZero(),
		"write modules, userNamespaces or ioUring, or leave it out: all stays closed then")
	check("dataVolume", m.DataVolume == Volume{},
		"write what identifies the disk, such as serial, or leave it out")
	check("cluster.etcdVolume", m.Cluster.EtcdVolume == Volume{},
		"write what identifies the disk, such as serial, or leave it out")
}

// moduleName is the name of a module of the kernel.
var moduleName = regexp.MustCompile(`^[a-z0-9][a-z0-9_-]{0,54}$`)

func checkKernel(report *document.Report, open kernel.Opening) {
	var modules []string
	for i, name := range open.Modules {
		at := fmt.Sprintf("kernel.modules[%d]", i)
		module := kernel.Module(name)
		switch {
		case !moduleName.MatchString(name):
			report.Add(at, document.Quote(name)+" is not a module of the kernel",
				"write a name such as sctp or btrfs")
		case slices.Contains(modules, module):
			report.Add(at, document.Quote(name)+" given twice", "keep one of them")
		}
		modules = append(modules, module)
	}
}

// checkProxy never quotes the URL, which may have a password.
func checkProxy(report *document.Report, p Proxy) {
	const form = "write http://HOST:PORT, with USER:PASSWORD@ before the host if it needs them; " +
		"other signs than letters and digits in them as % and two hexadecimal digits"
	switch {
	case p.URL != "":
		if err := proxy.CheckURL(p.URL); err != nil {
			report.Add("proxy.url", "the URL "+err.Error(), form)
		}
	case len(p.NoProxy) > 0:
		report.Add("proxy.url", "is missing", form)
	}

	for i, entry := range p.NoProxy {
		if !proxy.IsDirect(entry) {
			report.Add(fmt.Sprintf("proxy.noProxy[%d]", i),
				document.Quote(entry)+" is no name, domain, address or network",
				"write it as site.example, 192.0.2.1 or 10.0.0.0/8")
		}
	}
}

func checkTrust(report *document.Report, t Trust) {
	if len(t.Keys) > trust.MaxKeys {
		report.Add("trust.keys", fmt.Sprintf("has %d keys", len(t.Keys)),
			fmt.Sprintf("write at most %d", trust.MaxKeys))
	}

	for i, text := range t.Keys {
		at := fmt.Sprintf("trust.keys[%d]", i)
		if _, err := trust.ParseKey(text); err != nil {
			report.Add(at, err.Error(), hint.Of(err))
		}
		if slices.Contains(t.Keys[:i], text) {
			report.Add(at, "given twice", "keep one of them")
		}
	}
}

func checkImages(report *document.Report, i Images) {
	if i.Tags != "" && i.Tags != TagsAllow && i.Tags != TagsRefuse {
		report.Add("images.tags", document.Quote(i.Tags)+" is not known here",
			"write allow or refuse")
	}

	for n, text := range i.Keys {
		if !isPublicKey(text) {
			report.Add(fmt.Sprintf("images.keys[%d]", n), "is not a public key",
				"write the text of cosign.pub, from -----BEGIN PUBLIC KEY----- on")
		}
	}
}

// isPublicKey reports whether text is one public key as PEM, of a kind that
// signs images.
func isPublicKey(text string) bool {
	block, rest := pem.Decode([]byte(text))
	if block == nil || block.Type != "PUBLIC KEY" || strings.TrimSpace(string(rest)) != "" {
		return false
	}

	key, err := x509.ParsePKIXPublicKey(block.Bytes)
	if err != nil {
		return false
	}
	switch key.(type) {
	case *ecdsa.PublicKey, *rsa.PublicKey, ed25519.PublicKey:
		return true
	}
	return false
}

// checkSerials reports a disk that is claimed twice: each takes the whole disk.
func checkSerials(report *document.Report, m Machine) {
	claimed := map[string]string{}
	claim := func(at, serial string) {
		if before := claimed[serial]; before != "" && serial != "" {
			report.Add(at, document.Quote(serial)+" is also "+before,
				"claim another disk: system, state, data and etcd have a disk each")
			return
		}
		claimed[serial] = at
	}

	if m.Install != nil {
		claim("install.disk.serial", m.Install.Disk.Serial)
	}
	if m.State != nil {
		claim("state.disk.serial", m.State.Disk.Serial)
	}
	claim("dataVolume.serial", m.DataVolume.Serial)
	claim("cluster.etcdVolume.serial", m.Cluster.EtcdVolume.Serial)
}

func checkSource(report *document.Report, source Source) {
	kinds := 0
	if source.File != nil {
		kinds++
		checkPath(report, "source.file.path", source.File.Path, "file", "/loam/config.yaml")
	}

	if source.ESP != nil {
		kinds++
		checkPath(report, "source.esp.path", source.ESP.Path, "file", "/loam/config.yaml")
	}

	if source.Credential != nil {
		kinds++
		if name := source.Credential.Name; !credential.MatchString(name) || len(name) > 255 {
			report.Add("source.credential.name",
				document.Quote(name)+" is not the name of a credential for Loam",
				"write a name that begins with loam. such as loam.config")
		}
	}

	if source.Cluster != nil {
		kinds++
		checkCluster(report, *source.Cluster)
	}

	if source.NodeAgent != nil {
		kinds++
		if directory := source.NodeAgent.Directory; directory != "" {
			checkPath(report, "source.nodeAgent.directory", directory, "directory",
				NodeAgentDirectory)
		}
	}

	if kinds > 1 {
		report.Add("source", "has more than one kind",
			"keep one of file, esp, credential, cluster and nodeAgent")
	}
}

func checkOwnCluster(report *document.Report, m Machine) {
	if m.Source != (Source{}) && m.Cluster.EtcdVolume != (Volume{}) {
		report.Add("cluster.etcdVolume", "is set as well as source",
			"keep one of them: only a machine that is a cluster runs etcd")
	}
	if m.Cluster.Init == nil {
		return
	}
	plane.CheckInit(report, "cluster.init", *m.Cluster.Init)

	if m.Source != (Source{}) {
		report.Add("cluster.init", "is set as well as source",
			"keep one of them: a machine that is a cluster has its configuration from there")
	}
}

// checkCertificates returns what is wrong with a text that has certificates as PEM, ""
// if nothing is: who trusts them leaves out one that cannot be read without a word.
func checkCertificates(text string) string {
	read := 0
	for rest := []byte(text); ; {
		var block *pem.Block
		block, rest = pem.Decode(rest)
		if block == nil {
			break
		}
		if _, err := x509.ParseCertificate(block.Bytes); block.Type != "CERTIFICATE" || err != nil {
			break
		}
		read++
	}

	switch {
	case read == 0:
		return "has no certificate"
	case strings.Count(text, "-----BEGIN ") > read:
		return fmt.Sprintf("has a certificate that cannot be read, after %d that can", read)
	}
	return ""
}

func checkCluster(report *document.Report, c Cluster) {
	add := func(field, problem, hint string) { report.Add("source.cluster."+field, problem, hint) }
	u, err := url.Parse(c.Server)
	switch {
	case err != nil || u.Scheme != "https" || !hostname.InURL(u) || u.RawQuery != "" || u.Fragment != "":
		add("server", document.Quote(c.Server)+" is not the URL of an API server",
			"write one such as https://api.example.com:6443")
	case u.User != nil:
		add("server", document.Quote(c.Server)+" has a user, as whom no node logs in",
			"leave it out: the node joins with bootstrapToken, and then has a certificate")
	}

	if problem := checkCertificates(c.CA); problem != "" {
		add("ca", problem, "write the certificate authority of the API server as PEM, "+
			"from -----BEGIN CERTIFICATE----- on")
	}

	if !isName(c.Secret) {
		add("secret", document.Quote(c.Secret)+" is not the name of a Secret",
			"write the name of the Secret in kube-system that has osc.yaml")
	}

	if c.BootstrapToken != "" && !bootstrapToken.MatchString(c.BootstrapToken) {
		add("bootstrapToken", "is not a bootstrap token",
			"write it as 6 characters, a dot, and 16 characters, all of a-z and 0-9")
	}

	if c.Machine != "" && !isName(c.Machine) {
		add("machine", document.Quote(c.Machine)+" is not a name",
			"write lower-case letters, digits, dashes and dots")
	}

	checkLabel(report, "source.cluster.zone", c.Zone)
	checkLabel(report, "source.cluster.kubernetesVersion", c.KubernetesVersion)

	for i, t := range c.Tokens {
		at := fmt.Sprintf("source.cluster.tokens[%d].", i)
		if !isName(t.Secret) {
			report.Add(at+"secret", document.Quote(t.Secret)+" is not the name of a Secret",
				"write the name of a Secret in kube-system")
		}
		checkPath(report, at+"path", t.Path, "file", "/var/lib/example/token")
		if slices.ContainsFunc(c.Tokens[:i], func(other Token) bool {
			return other.Path == t.Path
		}) {
			report.Add(at+"path", document.Quote(t.Path)+" given twice",
				"give each token a file of its own")
		}
	}
}

func checkLabel(report *document.Report, at, value string) {
	if value != "" && !labelValue.MatchString(value) {
		report.Add(at, document.Quote(value)+" is not the value of a label",
			"write up to 63 letters, digits, dots, dashes and underscores, "+
				"with a letter or digit at both ends")
	}
}

// isName reports whether name is a valid name of an object (RFC 1123
// subdomain).
func isName(name string) bool { return len(name) <= 253 && hostname.IsName(name) }

// checkPath reports a path that is not absolute; example is a valid one.
func checkPath(report *document.Report, at, path, what, example string) {
	control := strings.ContainsFunc(path, func(r rune) bool { return r < ' ' || r == 0x7f })
	switch {
	case path == "":
		report.Add(at, "empty", "write an absolute path, such as "+example)
	case !strings.HasPrefix(path, "/") || path == "/" || filepath.Clean(path) != path || control:
		report.Add(at, document.Quote(path)+" is not the absolute path of a "+what,
			"begin it with / and leave out . and .. and a / at the end")
	}
}

// maxHold is the length of the longest reason to hold the system, in bytes: the Node
// and each page of the status have it.
const maxHold = 200

// minTrial is the shortest trial: a kubelet takes that long to start.
const minTrial = time.Minute

func checkUpgrade(report *document.Report, u Upgrade) {
	if u.Version != "" && u.Repository == "" {
		report.Add("upgrade.repository", "is empty",
			"write where version "+document.Quote(u.Version)+" is published")
	}

	if u.Repository != "" && u.Root == "" {
		report.Add("upgrade.root", "is empty",
			"write the root.json of the repository: its keys decide what the node runs")
	}

	if u.Repository != "" && !IsRepository(u.Repository) {
		report.Add("upgrade.repository", document.Quote(u.Repository)+" is not a repository",
			"write an absolute directory, http://HOST/DIR, https://HOST/DIR or oci://HOST/NAME:TAG")
	}

	checkRoot(report, u.Root)
	checkVersion(report, u.Version)

	for i, ref := range u.Mirrors {
		if !IsRepository(ref) {
			report.Add(fmt.Sprintf("upgrade.mirrors[%d]", i),
				document.Quote(ref)+" is neither a directory nor a URL",
				"write one such as http://192.0.2.7:2752")
		}
	}

	switch {
	case u.Share == "":
	case !isListenAddress(u.Share):
		report.Add("upgrade.share", document.Quote(u.Share)+" is not an address with a port",
			"write one such as 192.0.2.1:2752")
	case isOwnAddress(u.Share):
		report.Add("upgrade.share", document.Quote(u.Share)+" has a port at which the agent serves "+
			"metrics and health on 127.0.0.1", "write another port, or an address of the network")
	}

	if _, err := window.Parse(u.Window); err != nil {
		report.Add("upgrade.window", err.Error(),
			`write one such as "22:00-04:00" or "Sat,Sun 00:00-24:00", in UTC`)
	}

	if len(u.Hold) > maxHold || strings.ContainsFunc(u.Hold, unicode.IsControl) {
		report.Add("upgrade.hold", fmt.Sprintf("has a control character, or more than %d bytes", maxHold),
			"say in a line why the machine keeps its system")
	}

	checkTurns(report, u.Turns)

	for _, d := range []struct {
		field, value string
		least        time.Duration
	}{{"pace", u.Pace, 0}, {"trial", u.Trial, minTrial}} {
		if d.value != "" {
			report.Duration("upgrade."+d.field, d.value, d.least)
		}
	}
}

func checkTurns(report *document.Report, t Turns) {
	server, err := url.Parse(t.FleetLock)
	isHTTP := err == nil && (server.Scheme == "http" || server.Scheme == "https") &&
		hostname.InURL(server)
	if t.FleetLock != "" && !isHTTP {
		report.Add("upgrade.turns.fleetlock", document.Quote(t.FleetLock)+" is not a URL of a server",
			"write one such as http://192.0.2.1:8080")
	}
	if t.Group != "" && t.FleetLock == "" {
		report.Add("upgrade.turns.group", "has no server", "write upgrade.turns.fleetlock, its URL")
	}
	if t.Group != "" && !fleetlock.IsGroup(t.Group) {
		report.Add("upgrade.turns.group", document.Quote(t.Group)+" is not a name of a group",
			"write letters, digits, dots and hyphens, such as line-3")
	}
}

// IsRepository reports whether ref has one of the forms that the node opens: an
// absolute directory, or a URL of http, https, oci or file.
func IsRepository(ref string) bool {
	if strings.HasPrefix(ref, "/") {
		return true
	}

	u, err := url.Parse(ref)
	if err != nil {
		return false
	}

	switch u.Scheme {
	case "file":
		return u.Host == "" && strings.HasPrefix(u.Path, "/")
	case "http", "https":
		return hostname.InURL(u) && u.RawQuery == "" && u.Fragment == ""
	case "oci", "oci+http":
		name, tag, tagged := strings.Cut(strings.TrimPrefix(u.Path, "/"), ":")
		return hostname.InURL(u) && name != "" && (!tagged || tag != "") &&
			!strings.ContainsAny(name+tag, "@:% ") &&
			// Nothing reads a user (image/repository).
			u.User == nil && u.RawQuery == "" && u.Fragment == ""
	}
	return false
}

// checkRoot reports text that is not the root metadata of a TUF repository. What
// is in it, the node checks when it opens the repository.
func checkRoot(report *document.Report, text string) {
	if text == "" {
		return
	}

	var root struct {
		Signed struct {
			Type string `json:"_type"`
		} `json:"signed"`
	}

	const hint = "write the text of metadata/1.root.json of the repository"
	switch err := json.Unmarshal([]byte(text), &root); {
	case err != nil && !json.Valid([]byte(text)):
		report.Add("upgrade.root", "is not JSON", hint)
	case err != nil || root.Signed.Type == "":
		report.Add("upgrade.root", "is not the root metadata of a repository", hint)
	case root.Signed.Type != "root":
		report.Add("upgrade.root", "is the "+document.Quote(root.Signed.Type)+
			" metadata of a repository, not the root", hint)
	}
}

// releaseVersion is a version that a release can have: it is part of a boot
// entry's name.
var releaseVersion = regexp.MustCompile(`^[A-Za-z0-9.-]+$`)

// IsVersion reports whether text is the version of a release: one version, not a
// pattern.
func IsVersion(text string) bool {
	wildcard := func(part string) bool { return part == "x" || part == "X" || part == "" }
	return releaseVersion.MatchString(text) &&
		!slices.ContainsFunc(strings.Split(text, "."), wildcard)
}

func checkVersion(report *document.Report, version string) {
	if version == "" {
		return
	}

	if !IsVersion(version) || version == "latest" {
		report.Add("upgrade.version", document.Quote(version)+" is not the version of a release",
			"write one version such as 0.2.0, or newest: there are no patterns")
	}
}

// isListenAddress reports whether the text is an IP address, or nothing for all
// of the node, with a port.
func isListenAddress(text string) bool {
	host, port, err := net.SplitHostPort(text)
	if err != nil {
		return false
	}
	if _, err := netip.ParseAddr(host); host != "" && err != nil {
		return false
	}

	number, err := strconv.ParseUint(port, 10, 16)
	return err == nil && number > 0
}

// ownPorts are those at which the agent listens on 127.0.0.1 (agent/metrics, which
// is too large for the initramfs).
var ownPorts = []uint16{2751, 2752}

// isOwnAddress reports whether who listens at the address keeps the agent's own
// servers from theirs.
func isOwnAddress(text string) bool {
	at, err := netip.ParseAddrPort(text)
	if err != nil {
		at, err = netip.ParseAddrPort("0.0.0.0" + text)
	}
	ours := netip.AddrFrom4([4]byte{127, 0, 0, 1})
	return err == nil && slices.Contains(ownPorts, at.Port()) &&
		(at.Addr().IsUnspecified() || at.Addr().Unmap() == ours)
}

func checkVolume(report *document.Report, at string, v Volume) {
	checkDisk(report, at, v.DiskClaim)
	if fs := v.FileSystem; fs != "" && fs != "ext4" && fs != "xfs" {
		report.Add(at+"fileSystem", document.Quote(fs)+" is not known here",
			"write ext4 or xfs")
	}
}

func checkInstall(report *document.Report, in *Install) {
	if in == nil {
		return
	}
	checkClaim(report, "install.disk", in.Disk)
	if in.Wipe != "" && in.Wipe != in.Disk.Serial {
		report.Add("install.wipe", document.Quote(in.Wipe)+" is not install.disk.serial",
			"write the serial number of the disk twice: all that is on it is lost")
	}
}

func checkState(report *document.Report, s *State) {
	if s == nil {
		return
	}
	checkEncrypt(report, *s)
	if s.OnDamage != "" && s.OnDamage != OnDamageReset {
		report.Add("state.onDamage", document.Quote(s.OnDamage)+" is not known here",
			"write reset, or leave it out: a damaged state partition then stays as it is")
	}

	others := s.OnDamage != "" || s.Encrypt != ""
	if !others || report.Given("state.disk") {
		checkClaim(report, "state.disk", s.Disk)
	}
}

func checkEncrypt(report *document.Report, s State) {
	switch s.Encrypt {
	case "":
	case EncryptTPM, EncryptKey:
		if s.Disk != (DiskClaim{}) {
			report.Add("state.encrypt", "is set as well as state.disk",
				"keep one of them: the state of a node that runs from memory is not encrypted")
		}
	default:
		report.Add("state.encrypt", document.Quote(s.Encrypt)+" is not known here",
			"write tpm, or key for a machine without a TPM 2.0")
	}
}

// checkClaim reports a claim that claims no disk.
func checkClaim(report *document.Report, at string, d DiskClaim) {
	if d == (DiskClaim{}) {
		report.Add(at, "is empty",
			"write what identifies the disk, such as serial")
	}
	checkDisk(report, at+".", d)
}

func checkDisk(report *document.Report, at string, d DiskClaim) {
	sizes := map[string]int64{}
	for _, f := range []struct{ field, text string }{
		{"minSize", d.MinSize},
		{"maxSize", d.MaxSize},
	} {
		if f.text == "" {
			continue
		}
		n, err := volume.ParseSize(f.text)
		if err != nil {
			report.Add(at+f.field, err.Error(),
				"write one such as 100Gi (of 1024), 100G (of 1000), or a number of bytes in quotes")
		}
		sizes[f.field] = n
	}

	if least, most := sizes["minSize"], sizes["maxSize"]; least > 0 && most > 0 && least > most {
		report.Add(at+"maxSize", document.Quote(d.MaxSize)+" is less than minSize",
			"write the same or more")
	}

	switch {
	case partition.MatchString(d.Path):
		report.Add(at+"path", document.Quote(d.Path)+" is the path of a partition",
			"write that of the disk: "+partition.ReplaceAllString(d.Path, ""))
	case strings.Contains(d.Path, "/"):
		report.Add(at+"path", document.Quote(d.Path)+" is not a name in /dev/disk/by-path",
			"write one such as pci-0000:03:00.0-nvme-1: names such as /dev/sda change from "+
				"boot to boot")
	}

	for _, f := range []struct{ field, text string }{{"serial", d.Serial}, {"model", d.Model}} {
		if strings.TrimSpace(f.text) != f.text {
			report.Add(at+f.field, document.Quote(f.text)+" has spaces around it",
				"leave them out: spaces around the disk's own value are ignored")
		}
	}
}
