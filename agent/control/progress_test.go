package control_test

import (
	"context"
	"net"
	"path/filepath"
	"slices"
	"testing"

	"github.com/loam-os/loam/agent/control"
)

// reader reports as it reads, once its client has heard of what it read before.
type reader struct {
	fakeNode
	heard <-chan int64
}

func (r reader) Verify(
	_ context.Context, request control.VerifyRequest,
) (control.VerifyReport, error) {
	request.Progress(25, 100)
	<-r.heard
	request.Progress(40, 100)
	request.Progress(60, 100)
	request.Progress(100, 100)
	return control.VerifyReport{Checked: 1, Bytes: 100}, nil
}

// TestProgressIsSentBeforeTheAnswer has a client hear how far the agent is, the last
// report among it, and then the answer.
func TestProgressIsSentBeforeTheAnswer(t *testing.T) {
	socket := filepath.Join(t.TempDir(), "agent.sock")
	heard := make(chan int64, 1)
	serveNode(t, socket, reader{heard: heard})

	var got []int64
	report, err := control.Client{Socket: socket}.Verify(t.Context(), control.VerifyRequest{
		Progress: func(done, all int64) {
			got = append(got, done, all)
			if len(got) == 2 {
				heard <- done
			}
		},
	})
	if err != nil || report.Bytes != 100 {
		t.Errorf("%+v, %v", report, err)
	}
	if len(got) < 4 || !slices.Equal(got[:2], []int64{25, 100}) ||
		!slices.Equal(got[len(got)-2:], []int64{100, 100}) {
		t.Errorf("%d", got)
	}
}

// TestAClientThatKnowsNoProgressGetsTheAnswer has no use for it.
func TestAClientThatKnowsNoProgressGetsTheAnswer(t *testing.T) {
	socket := filepath.Join(t.TempDir(), "agent.sock")
	heard := make(chan int64)
	close(heard)
	serveNode(t, socket, reader{heard: heard})

	report, err := control.Client{Socket: socket}.Verify(t.Context(), control.VerifyRequest{})
	if err != nil || report.Bytes != 100 {
		t.Errorf("%+v, %v", report, err)
	}

	conn, err := net.Dial("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	status, body := post(t, conn, "/verify", "{}")
	if status != 200 || body != `{"checked":1,"bytes":100}` {
		t.Errorf("%d %s", status, body)
	}
}

// TestAClientThatIsGoneStopsNoVerification has one that leaves in the middle.
func TestAClientThatIsGoneStopsNoVerification(t *testing.T) {
	socket := filepath.Join(t.TempDir(), "agent.sock")
	heard := make(chan int64, 1)
	ended := make(chan struct{})
	serveNode(t, socket, ending{reader{heard: heard}, ended})

	ctx, cancel := context.WithCancel(t.Context())
	_, err := control.Client{Socket: socket}.Verify(ctx, control.VerifyRequest{
		Progress: func(int64, int64) { cancel() },
	})
	if err == nil {
		t.Error("no error of a client that left")
	}
	heard <- 0
	<-ended
}

// ending says when its verification has ended.
type ending struct {
	reader
	ended chan<- struct{}
}

func (e ending) Verify(
	ctx context.Context, request control.VerifyRequest,
) (control.VerifyReport, error) {
	defer close(e.ended)
	return e.reader.Verify(ctx, request)
}

// serveNode serves a node on a socket until the test ends.
func serveNode(t *testing.T, socket string, node control.Agent) {
	t.Helper()
	listener, err := control.Listen(socket)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	served := make(chan error)
	go func() { served <- control.Serve(ctx, listener, node) }()
	t.Cleanup(func() {
		cancel()
		if err := <-served; err != nil {
			t.Error(err)
		}
	})
}
