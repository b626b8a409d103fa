package serve

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/loam-os/loam/cmd/loamctl/enroll"
	"github.com/loam-os/loam/cmd/loamctl/inventory"
	"github.com/loam-os/loam/cmd/loamctl/kubeconfig"
	"github.com/loam-os/loam/cmd/usage"
	"github.com/loam-os/loam/hint"
	"github.com/loam-os/loam/hint/fault"
	"github.com/loam-os/loam/image/pxe"
)

// machineServer says which machines boot, and gives each its machine.yaml.
type machineServer struct {
	*enroll.Record

	// files is the inventory, nil without --machines.
	files *os.Root

	// everybody gives join tokens to machines without a file of their own, too.
	everybody bool
}

// machineServer opens the inventory and the record.
func (o bootOptions) machineServer(out io.Writer) (*machineServer, error) {
	s := &machineServer{everybody: o.everybody}
	if o.machines != "" {
		root, err := os.OpenRoot(o.machines)
		if err != nil {
			return nil, fmt.Errorf("--machines: %w", notADirectory(err))
		}
		s.files = root
		if err := o.check(root, out); err != nil {
			return nil, errors.Join(err, root.Close())
		}
	}

	if s.Admit(pxe.Request{UUIDs: []string{"none"}}) == nil {
		fmt.Fprintln(out, "boots     every machine that asks the network to boot it")
	}

	source, err := o.source()
	if err != nil {
		return nil, err
	}

	root, err := openState(o.state)
	if err != nil {
		return nil, err
	}

	s.Record, err = enroll.Open(root, source, time.Now)
	return s, err
}

// check refuses an inventory with a mistake, and an inventory that needs tokens
// when the server has none.
func (o bootOptions) check(root *os.Root, out io.Writer) error {
	entries, err := inventory.Check(root)
	if err != nil {
		return fmt.Errorf("--machines %s: %w", o.machines, err)
	}

	for _, e := range entries {
		switch {
		case e.WantsToken() && o.tokens == "" && o.kubeconfig == "":
			return hint.With(
				usage.Errorf(
					"--machines %s: %s has %s, and there are no tokens",
					o.machines, e.Name, inventory.Placeholder,
				),
				"give --tokens or --kubeconfig",
			)
		case e.WantsToken() && !e.Own() && !o.everybody:
			return hint.With(
				usage.Errorf(
					"--machines %s: %s has %s, which is for machines with a file of their own",
					o.machines, e.Name, inventory.Placeholder,
				),
				"--tokens-for-all gives a token to any machine",
			)
		}
	}

	others := "none for others"
	if slices.ContainsFunc(entries, func(e inventory.Entry) bool { return !e.Own() }) {
		others = inventory.Default + " for others"
	}

	entries = slices.DeleteFunc(entries, func(e inventory.Entry) bool { return !e.Own() })
	fmt.Fprintf(out, "machines  %s: %d with a file of their own, %s\n",
		o.machines, len(entries), others)
	return nil
}

// source is where tokens are from, nil for nowhere.
func (o bootOptions) source() (enroll.Source, error) {
	switch {
	case o.tokens != "":
		list := enroll.List(o.tokens)
		_, err := list.Tokens()
		return list, err
	case o.kubeconfig != "" && o.valid < 5*time.Minute:
		return nil, hint.With(
			usage.Errorf("--tokens-valid %s: a machine needs minutes to install itself", o.valid),
			"give it 5m or more",
		)
	case o.kubeconfig != "" && o.group != "" && !enroll.IsGroup(o.group):
		return nil, hint.With(
			usage.Errorf("--tokens-group %q: no API server accepts a token with that group", o.group),
			"write one group of small letters, digits, : and -, such as "+
				"system:bootstrappers:loam:node-agent",
		)
	case o.kubeconfig != "":
		server, err := kubeconfig.Open([]string{o.kubeconfig}, "")
		return enroll.Cluster{Server: server, For: o.valid, Group: o.group}, err
	}
	return nil, nil
}

func (s *machineServer) close() {
	_ = s.Close()
	if s.files != nil {
		_ = s.files.Close()
	}
}

// Admit returns the reason to refuse a machine, nil to boot it.
func (s *machineServer) Admit(r pxe.Request) error {
	if s.files == nil {
		return nil
	}
	return inventory.Admit(s.files, r.MAC, r.UUIDs)
}

// find returns the file of a machine, and the name of the machine in the record,
// "" if the file is for many machines.
func (s *machineServer) find(id pxe.Identity) (e inventory.Entry, name string, err error) {
	if s.files == nil {
		return e, "", fmt.Errorf("%w here", pxe.ErrNone)
	}

	e, err = inventory.Find(s.files, id.MACs, id.Serial, id.UUID)
	if mac := e.MAC(); err == nil && mac != "" && id.LinkMAC != "" && mac != id.LinkMAC {
		return e, "", hint.With(fmt.Errorf("%s %w", e.Name, pxe.ErrAnother),
			"call it %s.yaml, or, if a relay answers for this machine, serve with --relayed",
			id.LinkMAC)
	}
	if err != nil || e.Own() {
		return e, e.Name, err
	}

	if e.WantsToken() && !s.everybody {
		err = fmt.Errorf("%s needs a join token, which only machines with a file of their own get",
			e.Name)
	}

	return e, "", err
}

// Machine returns the machine.yaml of a machine, with its join token.
func (s *machineServer) Machine(
	ctx context.Context, id pxe.Identity,
) (text []byte, from string, err error) {
	e, name, err := s.find(id)
	if err != nil {
		return nil, e.Name, err
	}
	if !e.WantsToken() {
		return e.With(""), e.Name, nil
	}

	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	macs := id.MACs
	if id.LinkMAC != "" {
		macs = []string{id.LinkMAC} // The others may be another machine's, with its token.
	}
	token, err := s.Token(ctx, name, macs)
	if err != nil {
		return nil, e.Name, err
	}

	from = e.Name + ", with join token " + strings.SplitN(token, ".", 2)[0]
	first, err := s.GivenTo(token, id.Address)
	if err != nil {
		return nil, e.Name, err
	}
	if first != id.Address {
		from += "; WARNING: " + first + " has had this token, too. If that is another machine, " +
			"delete the token in the cluster"
	}
	return e.With(token), from, err
}

// Installed records that the machine boots from its disk. Nothing proves that,
// so it is recorded only if the file of the machine has install.
func (s *machineServer) Installed(id pxe.Identity) (undo string, err error) {
	e, name, err := s.find(id)
	if err != nil {
		return "", err
	}
	if !e.Installs {
		return "", fault.With(
			fmt.Errorf("%s has no install: it goes on booting from the network", e.Name),
			fault.DocumentInvalid)
	}
	return s.Record.Installed(name, enroll.Machine{
		MACs:    id.MACs,
		LinkMAC: id.LinkMAC,
		Serial:  id.Serial,
		UUID:    id.UUID,
	})
}
