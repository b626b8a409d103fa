package cluster

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"
	"slices"
	"strings"

	"go.uber.org/zap"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/loam-os/loam/agent/config"
	"github.com/loam-os/loam/agent/document"
	"github.com/loam-os/loam/agent/nodeagent"
	"github.com/loam-os/loam/agent/osc"
)

// A configuration of Gardener's carries the one of its own node agent as a
// file, [Directory]/config-<version>.yaml. Loam takes from it what changes with
// the configuration: which tokens are synced, and the version of Kubernetes.

// isNodeAgentFile reports whether a configuration has the one of Gardener's
// node agent at that path.
func isNodeAgentFile(name string) bool {
	matches, _ := path.Match(Directory+"/config-*.yaml", name)
	return matches
}

// readNodeAgentFiles decodes the configurations of Gardener's node agent in
// desired.
func readNodeAgentFiles(
	desired config.Desired,
) (all []nodeagent.Configuration, warnings document.Errors, err error) {
	for _, f := range desired.Files {
		if !isNodeAgentFile(f.Path) {
			continue
		}

		text, err := readContent(f)
		if err != nil {
			return nil, nil, fmt.Errorf("read the node agent's configuration %s: %w", f.Path, err)
		}

		read, more, err := nodeagent.Decode(f.Path, text)
		if err != nil {
			return nil, nil, err
		}
		if err := checkTokenPaths(f.Path, read); err != nil {
			return nil, nil, err
		}

		all = append(all, read)
		warnings = append(warnings, more...)
	}

	return all, warnings, nil
}

// maxConfiguration is the largest configuration of a node agent that is read,
// in bytes: it may come from an image, and goes into memory.
const maxConfiguration = 1 << 20

func readContent(f config.File) ([]byte, error) {
	if f.Content.Size > maxConfiguration {
		return nil, fmt.Errorf("%d bytes: want at most %d", f.Content.Size, maxConfiguration)
	}
	opened, err := f.Content.Open()
	if err != nil {
		return nil, err
	}
	text, err := io.ReadAll(opened)
	return text, errors.Join(err, opened.Close())
}

// checkTokenPaths refuses to sync tokens to places where a document can have no
// file either, and over what else writes: units, how the node reaches its
// cluster.
func checkTokenPaths(file string, c nodeagent.Configuration) error {
	var report document.Report
	for i, t := range c.Controllers.Token.SyncConfigs {
		at := fmt.Sprintf("controllers.token.syncConfigs[%d].path", i)
		osc.CheckPath(&report, at, t.Path)
		if isTaken(t.Path) {
			report.Add(at, document.Quote(t.Path)+" is where something else writes",
				"choose a path of the token's own")
		}
	}

	err := report.Err()
	if errs, ok := err.(document.Errors); ok {
		for i := range errs {
			errs[i].File = file
		}
	}

	return err
}

// isTaken reports whether something else than the sync of tokens writes a path.
func isTaken(name string) bool {
	own := []string{kubeconfigName, keyName, tokenName, secretName}
	return isNodeAgentFile(name) || slices.Contains(own, strings.TrimPrefix(name, "/")) ||
		strings.HasPrefix(name, "/etc/systemd/system/")
}

// tokensIn are the token syncs that a configuration carries.
func tokensIn(desired config.Desired) ([]Token, error) {
	all, _, err := readNodeAgentFiles(desired)
	var tokens []Token
	for _, read := range all {
		tokens = append(tokens, tokensOf(read)...)
	}
	return tokens, err
}

// DataVolumeSize is the bootstrap.kubeletDataVolumeSize of a configuration of
// Gardener's node agent in desired, in bytes; 0 for none.
func DataVolumeSize(desired config.Desired) (int64, error) {
	all, _, err := readNodeAgentFiles(desired)
	for _, read := range all {
		if size := read.Bootstrap.KubeletDataVolumeSize; size > 0 {
			return size, nil
		}
	}
	return 0, err
}

// Settle checks the configuration of Gardener's node agent that desired
// carries, returning what of it is only mentioned, and takes out the files at
// whose paths tokens are synced, by that or by more: two writers of one file
// would undo each other for ever. What is there stays when the configuration
// gives it up.
func Settle(desired *config.Desired, more []Token) (warnings document.Errors, err error) {
	all, warnings, err := readNodeAgentFiles(*desired)
	if err != nil {
		return nil, err
	}

	tokens := slices.Clone(more)
	for _, read := range all {
		tokens = append(tokens, tokensOf(read)...)
	}
	if len(tokens) == 0 {
		return warnings, nil
	}

	for _, t := range tokens {
		desired.Synced = append(desired.Synced, path.Clean(t.Path))
	}

	slices.Sort(desired.Synced)
	desired.Synced = slices.Compact(desired.Synced)
	desired.Files = slices.DeleteFunc(slices.Clone(desired.Files), func(f config.File) bool {
		synced := slices.Contains(desired.Synced, f.Path)
		if synced {
			desired.LeftOut = append(desired.LeftOut,
				config.LeftOut{Name: f.Path, Why: "a token is synced there"})
		}
		return synced
	})

	slices.SortFunc(desired.LeftOut, func(a, b config.LeftOut) int {
		return strings.Compare(a.Name, b.Name)
	})

	return warnings, nil
}

// carried is what the configuration that the node runs carries.
type carried struct {
	// generation is the one that it was read of, once isRead.
	generation string
	isRead     bool
	// failed is why it could not be read, "" if it could: that is logged once.
	failed string
	tokens []Token
	// kubernetesVersion is a label's value, "" for none.
	kubernetesVersion string
}

// readCarried reads what the configuration carries that the node runs, when
// that is another. After an error, the next step tries again: what the
// generation before has carried counts until then.
func (s *session) readCarried() {
	c := &s.carried
	if c.isRead && c.generation == s.status.Generation {
		return
	}

	read, err := readCarried(s.Root.FS())
	if err != nil {
		if err.Error() != c.failed {
			s.Log.Error("read what the configuration says of the node agent", zap.Error(err))
		}
		c.failed = err.Error()
		return
	}

	c.isRead = true
	c.generation = s.status.Generation
	c.failed = ""
	c.tokens = tokensOf(read)

	c.kubernetesVersion = read.Controllers.OperatingSystemConfig.KubernetesVersion
	if wrong := validation.IsValidLabelValue(c.kubernetesVersion); len(wrong) > 0 {
		s.Log.Error("the Kubernetes version is no value of a label",
			zap.String("version", c.kubernetesVersion))
		c.kubernetesVersion = ""
	}
}

// labelled is Config with the version of Kubernetes that the configuration
// carries, if it carries one.
func (s *session) labelled() Config {
	c := s.Config
	c.KubernetesVersion = cmp.Or(s.carried.kubernetesVersion, c.KubernetesVersion)
	return c
}

// CarriedTokens are the token syncs that the newest configuration on the node
// carries. root is the node's root directory.
func CarriedTokens(root fs.FS) ([]Token, error) {
	read, err := readCarried(root)
	return tokensOf(read), err
}

// readCarried decodes the newest configuration of Gardener's node agent on the
// node; the zero value if there is none.
func readCarried(root fs.FS) (nodeagent.Configuration, error) {
	name, err := newest(root, Directory[1:])
	if errors.Is(err, fs.ErrNotExist) {
		return nodeagent.Configuration{}, nil
	}
	if err != nil {
		return nodeagent.Configuration{}, err
	}
	read, _, err := readConfiguration(root, name)
	return read, err
}
