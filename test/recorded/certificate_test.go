package recorded

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

func TestACertificateThatExpiredIsReplacedByTheToken(t *testing.T) {
	t.Parallel()
	w := joinedFixture(t, osc("one"))
	w.stop()
	w.ahead.Store(int64(60 * 24 * time.Hour))
	w.startAgain()

	w.await("the status", func() error {
		s, err := w.status()
		if err == nil &&
			(s.Cluster == nil || !strings.Contains(s.Cluster.Problem, "no bootstrap token")) {
			err = fmt.Errorf("%+v", s.Cluster)
		}
		return err
	})

	// An operator brings a new token: nothing must be restarted.
	const token = credentialsDir + "/bootstrap-token"
	w.write(token, w.BootstrapToken(t))
	w.approve()
	w.ahead.Store(0)
	w.becomes(osc("two"))

	w.await("the end of the token", func() error {
		_, err := os.Stat(filepath.Join(w.node.Dir, token))
		if err == nil {
			err = errors.New("it is still there")
		}
		if errors.Is(err, fs.ErrNotExist) {
			err = nil
		}
		return err
	})
}

func TestACertificateIsRenewedInTime(t *testing.T) {
	t.Parallel()
	w := joinedFixture(t, osc("one"))
	w.stop()
	w.ahead.Store(int64(27 * 24 * time.Hour))
	renewed := w.renews()
	w.startAgain()
	renewed()
	w.ahead.Store(0) // The new one is of the real time.
	w.becomes(osc("two"))
}

// renews looks at the node's certificate; what it returns waits for another.
func (w *fixture) renews() (renewed func()) {
	w.Helper()
	name := filepath.Join(w.node.Dir, credentialsDir, "kubeconfig")
	before, err := os.ReadFile(name)
	if err != nil {
		w.Fatal(err)
	}

	return func() {
		w.Helper()
		w.approve()
		w.await("a new certificate", func() error {
			after, err := os.ReadFile(name)
			if err == nil && string(after) == string(before) {
				err = errors.New("the same as before")
			}
			return err
		})
	}
}
