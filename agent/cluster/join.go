package cluster

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/loam-os/loam/hint"
	"go.uber.org/zap"
)

// Gardener's approver refuses a bootstrap token while the machine has a Node,
// so the hints must say so.
const (
	tokenHint = "write a new token to /" + tokenName + ", or give the node a machine.yaml with one"
	nodeHint  = "where Gardener approves certificates, delete the Node object first: " +
		"it takes no bootstrap token of a machine that has one"
)

var errNoToken = hint.With(errors.New("no valid certificate and no bootstrap token"),
	"%s; %s", tokenHint, nodeHint)

// joinHint adds a hint to an error from requesting a certificate with a
// bootstrap token.
func joinHint(err error) error {
	switch {
	case errors.Is(err, ErrDenied):
		return hint.With(err, "%s", nodeHint)
	case apierrors.IsUnauthorized(err):
		return hint.With(err, "the bootstrap token is unknown or has expired: %s; %s",
			tokenHint, nodeHint)
	}
	return err
}

// joiner gets the node its certificates. Its state is in the files of the
// credential store; each call opens them, as two may run at a time.
type joiner struct{ env Env }

// identify returns the node's credentials. If they are missing, expired or
// refused, it requests new ones with the bootstrap token. During an update in
// place, the kubelet may join with its certificate and is not given the token.
func (j joiner) identify(
	ctx context.Context, config Config, refused, updating bool,
) (Credentials, error) {
	store := newCredentialStore(j.env.Root)
	who, ok := store.credentials()

	token, err := store.token()
	if err == nil && token == "" {
		token = j.env.Token
	}

	if token != "" && !updating {
		err = store.writeKubeletBootstrap(config, token)
	}

	if err != nil {
		j.env.Log.Error("join", zap.Error(err)) // A node with a certificate can go on.
	}

	expired := ok && !j.env.Now().Before(who.NotAfter)
	switch {
	case ok && !expired && (!refused || token == ""):
		return who, nil
	case token == "" && expired:
		err := fmt.Errorf("the certificate expired at %s, and there is no bootstrap token",
			who.NotAfter.UTC().Format(time.DateTime))
		return who, hint.With(err, "%s; %s; %s", clockHint(j.env.Now()), tokenHint, nodeHint)
	case token == "":
		return who, errNoToken
	}

	who, err = j.join(ctx, config, Credentials{}, token)
	return who, joinHint(err)
}

// join requests a certificate, as the holder of credentials or with the token,
// and saves it.
func (j joiner) join(
	ctx context.Context, config Config, as Credentials, token string,
) (Credentials, error) {
	store := newCredentialStore(j.env.Root)
	key, err := store.key()
	if err != nil {
		return Credentials{}, err
	}

	a, err := newAPI(config.rest(as, token))
	if err != nil {
		return Credentials{}, err
	}
	defer a.close()

	j.env.Log.Info("requesting a certificate", zap.String("name", config.commonName()))
	who, err := a.request(ctx, config.commonName(), key)
	if errors.Is(err, ErrDenied) || errors.Is(err, errUnreadable) {
		err = errors.Join(err, store.dropKey())
	}

	if err != nil {
		return Credentials{}, err
	}

	return who, store.saveCredentials(config, who)
}

// token returns the bootstrap token in the node's file, "" if absent.
func (j joiner) token() (string, error) { return newCredentialStore(j.env.Root).token() }

// pauseFor waits for d and reports whether it ended early because the node's
// bootstrap token is no longer token.
func (j joiner) pauseFor(ctx context.Context, d time.Duration, token string) bool {
	end := time.NewTimer(d)
	defer end.Stop()
	tick := time.NewTicker(retryStep)
	defer tick.Stop()

	for {
		select {
		case <-ctx.Done():
			return false
		case <-end.C:
			return false
		case <-tick.C:
			if now, err := j.token(); err == nil && now != token {
				return true
			}
		}
	}
}

// Joined reports whether the node has a certificate of its cluster that is
// valid at now.
func Joined(root *os.Root, now time.Time) bool {
	who, ok := newCredentialStore(root).credentials()
	return ok && now.Before(who.NotAfter)
}

// Identity returns where a node keeps its identity in the cluster: directories
// with nothing else in them, and files. All paths are absolute. Config names
// the files of tokens.
func Identity() (directories, files []string) {
	return []string{Directory, "/" + kubeletDir}, []string{"/" + recordName}
}
