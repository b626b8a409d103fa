package credentials

import (
	"context"
	"errors"
	"fmt"
	"os"
	"regexp"
	"strings"
	"time"

	"go.uber.org/zap"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/loam-os/loam/agent/cluster/reach"
	"github.com/loam-os/loam/agent/durable"
	"github.com/loam-os/loam/hint"
	"github.com/loam-os/loam/hint/fault"
)

// Gardener's approver refuses a bootstrap token while the machine has a Node,
// so the hints must say so.
const (
	tokenHint = "write a new token to /" + tokenName + ", or give the node a machine.yaml with one"
	nodeHint  = "where Gardener approves certificates, delete the Node object first: " +
		"it takes no bootstrap token of a machine that has one"
)

var errNoToken = hint.With(
	fault.With(errors.New("no valid certificate and no bootstrap token"), fault.TokenMissing),
	"%s; %s", tokenHint, nodeHint)

var errToken = errors.New("the bootstrap token is unknown or has expired")

// joinHint adds a hint to an error from requesting a certificate with a
// bootstrap token.
func joinHint(err error) error {
	switch {
	case errors.Is(err, ErrDenied):
		return hint.With(err, "%s", nodeHint)
	case apierrors.IsUnauthorized(err):
		return hint.With(fault.With(fmt.Errorf("%w: %w", errToken, err), fault.TokenRefused),
			"%s; %s", tokenHint, nodeHint)
	}
	return err
}

// Joiner gets the node its certificates. Its state is in the files of the
// [Store]; each call opens them, as two may run at a time.
type Joiner struct {
	// Root is the node's root directory.
	Root *os.Root

	// Spare makes room for the certificate on a full disk; nil for none.
	Spare *durable.Spare

	// BootstrapToken is the token to use if the node's file has none.
	BootstrapToken string

	// Waits is called with an error each second while a request is not approved,
	// once it has waited for a while; nil for nobody.
	Waits func(error)

	Now func() time.Time
	Log *zap.Logger
}

// tokenPoll is how often the file of the bootstrap token is read.
const tokenPoll = time.Second

// Identify returns the node's credentials for t. If they are missing, expired
// or refused, it requests new ones with the bootstrap token. During an update
// in place, the kubelet may join with its certificate and is not given the
// token.
func (j Joiner) Identify(
	ctx context.Context, t Target, refused, updating bool,
) (Credentials, error) {
	store := Open(j.Root)
	who, ok := store.Load()

	token, err := store.Token()
	if err == nil && token == "" {
		token = j.BootstrapToken
	}

	if token != "" && !updating {
		err = store.WriteKubeletBootstrap(t, token)
	}

	if err != nil {
		j.Log.Error("join", zap.Error(err)) // A node with a certificate can go on.
	}

	expired := ok && !j.Now().Before(who.NotAfter)
	switch {
	case ok && !expired && (!refused || token == ""):
		return who, nil
	case token == "" && expired:
		err := fmt.Errorf("the certificate expired at %s, and there is no bootstrap token",
			who.NotAfter.UTC().Format(time.DateTime))
		return who, reach.Untried(hint.With(fault.With(err, fault.CertificateExpired),
			"%s; %s; %s", reach.ClockHint(j.Now()), tokenHint, nodeHint))
	case token == "":
		return who, reach.Untried(errNoToken)
	}

	who, err = j.Join(ctx, t, Credentials{}, token)
	return who, joinHint(err)
}

// Join requests a certificate, as the holder of credentials or with the token,
// and saves it.
func (j Joiner) Join(
	ctx context.Context, t Target, as Credentials, token string,
) (Credentials, error) {
	store := Of(durable.New(j.Root, nil).WithSpare(j.Spare))
	key, err := store.key()
	if err != nil {
		return Credentials{}, reach.Untried(err)
	}

	c, err := newClient(t.REST(as, token))
	if err != nil {
		return Credentials{}, reach.Untried(err)
	}
	defer c.close()
	c.waits = j.Waits

	j.Log.Info("requesting a certificate", zap.String("name", t.CommonName))
	who, err := c.request(ctx, t.CommonName, key)
	if errors.Is(err, ErrDenied) || errors.Is(err, ErrUnreadable) {
		err = errors.Join(err, store.dropKey())
	}

	if err != nil {
		return Credentials{}, err
	}

	return who, store.Save(t, who)
}

// Token returns the bootstrap token in the node's file, "" if absent.
func (j Joiner) Token() (string, error) { return Open(j.Root).Token() }

// tokenID is the public half of a bootstrap token.
var tokenID = regexp.MustCompile(`^[a-z0-9]{6}$`)

// Called names a bootstrap token by its public half; "" for none. Of a token of
// another form, nothing says which half is public.
func Called(token string) string {
	id, _, whole := strings.Cut(token, ".")
	switch {
	case token == "":
		return ""
	case !whole || !tokenID.MatchString(id):
		return "a bootstrap token"
	}
	return "bootstrap token " + id
}

// PauseFor waits for d and reports whether it ended early because the node's
// bootstrap token is no longer token.
func (j Joiner) PauseFor(ctx context.Context, d time.Duration, token string) bool {
	end := time.NewTimer(d)
	defer end.Stop()
	tick := time.NewTicker(tokenPoll)
	defer tick.Stop()

	for {
		select {
		case <-ctx.Done():
			return false
		case <-end.C:
			return false
		case <-tick.C:
			if now, err := j.Token(); err == nil && now != token {
				return true
			}
		}
	}
}

// Joined reports whether the node has a certificate of its cluster that is
// valid at now.
func Joined(root *os.Root, now time.Time) bool {
	who, ok := Open(root).Load()
	return ok && now.Before(who.NotAfter)
}
