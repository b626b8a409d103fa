package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/loam-os/loam/cmd/loamctl/compose"
	"github.com/loam-os/loam/cmd/loamctl/secret"
	"github.com/loam-os/loam/hint"
	"github.com/loam-os/loam/hint/fault"
)

func oscCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "osc",
		Short: "Check and publish configurations of nodes",
		Long: `osc works on OperatingSystemConfigs, away from any node. A configuration is a
file with the document, or a directory with these, each of which may be left out:

  osc.yaml             the document, for all that has no file of its own here
  units/NAME           a unit file, such as units/hello.service
  units/NAME.d/*.conf  drop-ins, also for units of the image
  files/               files as in the node's root directory: files/etc/motd

What is in units and files is added to the document. Files keep their mode, but
only root may write them; binary files become base64. More
about a unit (enable, command, filePaths) is written in osc.yaml, under its name.
Names that begin with README or a dot are left out; any other is an error.`,
		Example: "  loamctl osc validate pools/edge\n" +
			"  loamctl osc publish pools/edge --name edge-1 --pool edge",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}

	cmd.AddCommand(oscValidateCommand(), oscRenderCommand(), oscPublishCommand())
	return cmd
}

// secretOptions are the flags of what becomes a Secret.
type secretOptions struct {
	name, pool string
	serial     bool

	// tags allows images that a tag names.
	tags bool
}

func (o *secretOptions) flags(cmd *cobra.Command) {
	f := cmd.Flags()
	f.StringVar(&o.name, "name", "",
		"`NAME` of the Secret, which machine.yaml gives to the nodes (required)")
	f.StringVar(&o.pool, "pool", "", "`NAME` of the pool that the nodes are in (required)")
	f.BoolVar(&o.serial, "serial", false, "have the nodes apply it one after the other")
	f.BoolVar(&o.tags, "allow-tags", false,
		"take images that a tag names, and no digest: each node gets what the registry says that day")
	for _, name := range []string{"name", "pool"} {
		_ = cmd.MarkFlagRequired(name) // They are flags, see above.
	}
}

// secret is the Secret of the configuration at path, with nothing wrong in it.
func (o secretOptions) secret(path string) (secret.Secret, error) {
	doc, err := compose.Read(path)
	if err != nil {
		return secret.Secret{}, err
	}
	if err := doc.Fits(); err != nil {
		return secret.Secret{}, err
	}
	if err := doc.Check(); err != nil {
		return secret.Secret{}, invalid(path, err)
	}
	if err := doc.Tags(); err != nil && !o.tags {
		return secret.Secret{}, hint.With(
			fault.With(fmt.Errorf("%s names images by tags:\n%v", path, err), fault.DigestMissing),
			"--allow-tags takes them all the same")
	}

	s := secret.Secret{
		Name:   o.name,
		Pool:   o.pool,
		Serial: o.serial,
		Text:   doc.Text,
	}
	if err := s.Check(); err != nil {
		return secret.Secret{}, fault.With(fmt.Errorf("--%w", err), fault.Usage)
	}

	return s, nil
}
