package local

import (
	"errors"
	"strings"
	"testing"

	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/loam-os/loam/agent/plane"
	"github.com/loam-os/loam/agent/plane/api"
)

// agreeOnce makes the records agree, and returns what the node has then.
func (n *fixture) agreeOnce(t *testing.T) (plane.Record, error) {
	t.Helper()
	server, err := n.API()
	if err != nil {
		t.Fatal(err)
	}
	_, _, err = n.cluster.agreement.agree(t.Context(), server)
	own, _, readErr := n.Store.Record()
	if readErr != nil {
		t.Fatal(readErr)
	}
	return own, err
}

// TestAVersionThatNeverRan can be taken back, also to an earlier minor version.
func TestAVersionThatNeverRan(t *testing.T) {
	n, fake, _ := withAPI(t, "1.36.3")
	fake.edit("1.36.3", "1.37.99")
	own, err := n.agreeOnce(t)
	if err != nil || own.Kubernetes != "1.37.99" {
		t.Fatalf("the node has %s, %v", own.Kubernetes, err)
	}

	fake.edit("1.37.99", "1.36.3")
	own, err = n.agreeOnce(t)
	if err != nil || own.Kubernetes != "1.36.3" {
		t.Errorf("the node has %s, %v", own.Kubernetes, err)
	}
}

// TestAVersionThatRuns cannot be taken back.
func TestAVersionThatRuns(t *testing.T) {
	n, fake, _ := withAPI(t, "1.37.2")
	fake.edit("1.37.2", "1.36.3")
	own, err := n.agreeOnce(t)
	if err == nil || own.Kubernetes != "1.37.2" {
		t.Errorf("the node has %s, %v", own.Kubernetes, err)
	}
}

// TestAFieldThatIsNotKnown is of a later release, or misspelt.
func TestAFieldThatIsNotKnown(t *testing.T) {
	n, fake, logs := withAPI(t, "1.37.2")
	fake.edit(`"addOns"`, `"addons": [], "addOns"`)
	for range 2 {
		if _, err := n.agreeOnce(t); err != nil {
			t.Fatal(err)
		}
	}

	lines := logs.FilterLevelExact(zap.WarnLevel).All()
	if len(lines) != 1 || !strings.Contains(lines[0].ContextMap()["problem"].(string), "addons") {
		t.Errorf("the log has %v", lines)
	}
}

// TestBothHaveChanged: the ConfigMap counts, and the log says what was dropped.
func TestBothHaveChanged(t *testing.T) {
	n, fake, logs := withAPI(t, "1.37.2")
	own, err := n.agreeOnce(t)
	if err != nil {
		t.Fatal(err)
	}
	own.CertificateNames = []string{"api.plant.example"}
	err = n.Store.WriteRecord(own)
	if err != nil {
		t.Fatal(err)
	}

	fake.edit(`"none"`, `"metadata"`)
	own, err = n.agreeOnce(t)
	if err != nil || own.Audit.Policy != plane.AuditMetadata {
		t.Fatalf("the node has %s, %v", own.Text(), err)
	}
	wantDropped(t, logs, "api.plant")
}

// TestAnotherWriterFollowsAtOnce: the version from which the node watches is the
// one that it has written, and not what is there a moment later.
func TestAnotherWriterFollowsAtOnce(t *testing.T) {
	n, fake, _ := withAPI(t, "1.37.2")
	own, _, err := n.Store.Record()
	if err != nil {
		t.Fatal(err)
	}
	own.Audit.Policy = plane.AuditMetadata
	err = n.Store.WriteRecord(own)
	if err != nil {
		t.Fatal(err)
	}
	server, err := n.API()
	if err != nil {
		t.Fatal(err)
	}

	// Each read after a write finds the version of somebody else.
	fake.busy = true
	_, version, err := n.cluster.agreement.agree(t.Context(), server)
	if err != nil || version != "2" {
		t.Errorf("version %s, %v, want 2", version, err)
	}
}

// TestTheRecordChangesWhileItIsCompared: `loam cluster set` is not lost unseen, and the
// change of the ConfigMap counts at the next look.
func TestTheRecordChangesWhileItIsCompared(t *testing.T) {
	n, fake, logs := withAPI(t, "1.37.2")
	set, _, err := n.Store.Record()
	if err != nil {
		t.Fatal(err)
	}
	set.CertificateNames = []string{"api.plant.example"}

	fake.edit(`"none"`, `"metadata"`)
	fake.during = func() {
		err := n.Store.WriteRecord(set)
		if err != nil {
			t.Error(err)
		}
		fake.during = nil
	}
	own, err := n.agreeOnce(t)
	if !errors.Is(err, plane.ErrChanged) || string(own.Text()) != string(set.Text()) {
		t.Errorf("the node has %s, %v", own.Text(), err)
	}

	own, err = n.agreeOnce(t)
	if err != nil || own.Audit.Policy != plane.AuditMetadata {
		t.Errorf("the node has %s, %v", own.Text(), err)
	}
	wantDropped(t, logs, "api.plant")
}

// TestTheConfigMapChangesWhileItIsWritten: the change counts, and the log says what was
// dropped.
func TestTheConfigMapChangesWhileItIsWritten(t *testing.T) {
	n, fake, logs := withAPI(t, "1.37.2")
	fake.conflicts = func() { fake.edit(`"none"`, `"metadata"`) }
	set, _, err := n.Store.Record()
	if err != nil {
		t.Fatal(err)
	}
	set.CertificateNames = []string{"api.plant.example"}
	err = n.Store.WriteRecord(set)
	if err != nil {
		t.Fatal(err)
	}

	own, err := n.agreeOnce(t)
	if !api.IsConflict(err) || string(own.Text()) != string(set.Text()) {
		t.Errorf("the node has %s, %v", own.Text(), err)
	}
	own, err = n.agreeOnce(t)
	if err != nil || own.Audit.Policy != plane.AuditMetadata {
		t.Errorf("the node has %s, %v", own.Text(), err)
	}
	wantDropped(t, logs, "api.plant")
}

// wantDropped fails unless the log has one warning, about a dropped record with that text.
func wantDropped(t *testing.T, logs *observer.ObservedLogs, part string) {
	t.Helper()
	lines := logs.FilterLevelExact(zap.WarnLevel).All()
	if len(lines) == 1 {
		dropped, _ := lines[0].ContextMap()["dropped"].(string)
		if strings.Contains(dropped, part) {
			return
		}
	}
	t.Errorf("the log has %v", lines)
}
