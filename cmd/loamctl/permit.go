package main

import (
	"cmp"
	"fmt"
	"os"
	"time"

	"github.com/spf13/cobra"

	"github.com/loam-os/loam/agent/hostname"
	"github.com/loam-os/loam/cmd/usage"
	"github.com/loam-os/loam/hint"
	"github.com/loam-os/loam/image/publish"
)

func permitCommand() *cobra.Command {
	var dir, keysDir, version, node, out string
	var expires time.Duration
	var signer signerOptions
	cmd := &cobra.Command{
		Use:   "permit",
		Short: "Permit nodes to go down to an older release",
		Long: `permit signs that nodes may go down to a release of the repository that is older than the one
they run: 'loam upgrade --downgrade permit.json' takes it there. It takes the key targets.pem,
by which releases are signed. A node never goes below its security epoch, and needs no permit
for 'loam rollback --os'.`,
		Example: `  loamctl permit --repository updates --keys keys --version 0.0.9 --node node-7
  loamctl permit --repository updates --keys keys --version 0.0.9 --expires 2h -o permit.json`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if expires <= 0 {
				return usage.Errorf("--expires %v: want more than 0", expires)
			}

			if node != "" && !hostname.Valid(node) {
				return hint.With(usage.Errorf("--node %q: no machine can be called so", node),
					"write the host name as `loam status` on the node shows it: lower case, "+
						"up to %d of a-z 0-9 - .", hostname.Max)
			}

			keys, err := publish.LoadKeys(keysDir, signer.external(cmd.Context()))
			if err != nil {
				return err
			}

			p, text, err := publish.SignPermit(dir, keys, version, node, time.Now().Add(expires))
			if err != nil {
				return err
			}
			if err := os.WriteFile(out, text, 0o644); err != nil {
				return err
			}

			_, err = fmt.Fprintf(cmd.OutOrStdout(), "%s: %s %s on %s until %s\n", out, p.ImageID,
				p.Version, cmp.Or(p.Node, "any node"), p.Expires.Format(time.RFC3339))
			return err
		},
	}

	f := cmd.Flags()
	f.StringVar(&dir, "repository", "", "`DIR` of the repository (required)")
	f.StringVar(&keysDir, "keys", "", "`DIR` with the keys that sign it (required)")
	f.StringVar(&version, "version", "", "`VERSION` of the release (required)")
	f.StringVar(&node, "node", "", "host `NAME` of the only node that it is for (default: all nodes)")
	f.DurationVar(&expires, "expires", 72*time.Hour, "it is good for that `TIME`, such as 2h")
	f.StringVarP(&out, "output", "o", "permit.json", "`FILE` to write")
	signer.flags(f)

	for _, name := range []string{"repository", "keys", "version"} {
		_ = cmd.MarkFlagRequired(name) // they are flags, see above
	}

	return cmd
}
