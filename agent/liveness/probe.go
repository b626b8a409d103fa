package liveness

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
)

// KubeletAddress is where the kubelet serves its health (KubeletConfiguration,
// healthzBindAddress and healthzPort). ContainerdSocket is where containerd
// listens.
const (
	KubeletAddress   = "127.0.0.1:10248"
	ContainerdSocket = "/run/containerd/containerd.sock"
)

// maxAnswer is the longest response in bytes; a valid one has less than a
// hundred.
const maxAnswer = 64 << 10

// Kubelet checks that the kubelet at address, HOST:PORT, reports that it is
// healthy.
func Kubelet(address string) func(ctx context.Context) error {
	return func(ctx context.Context) error {
		if err := askKubelet(ctx, address); err != nil {
			return fmt.Errorf("kubelet at %s: %w", address, err)
		}
		return nil
	}
}

func askKubelet(ctx context.Context, address string) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet,
		"http://"+address+"/healthz", nil)
	if err != nil {
		return err
	}

	var plain http.Protocols
	plain.SetHTTP1(true)

	answer, err := exchange("tcp", address, plain, request)
	if err != nil {
		return err
	}
	if answer.StatusCode != http.StatusOK {
		return fmt.Errorf("answers %s: %.200q", answer.Status, bytes.TrimSpace(answer.body))
	}

	return nil
}

// Containerd checks that the containerd behind socket answers a request for its
// version.
func Containerd(socket string) func(ctx context.Context) error {
	return func(ctx context.Context) error {
		if err := askContainerd(ctx, socket); err != nil {
			return fmt.Errorf("containerd at %s: %w", socket, err)
		}
		return nil
	}
}

// version is a gRPC call over HTTP/2 with an empty message: one byte for "not
// compressed", four for the length (PROTOCOL-HTTP2.md of gRPC).
const version = "http://containerd/containerd.services.version.v1.Version/Version"

func askContainerd(ctx context.Context, socket string) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, version,
		bytes.NewReader(make([]byte, 5)))
	if err != nil {
		return err
	}

	request.Header.Set("Content-Type", "application/grpc")
	request.Header.Set("Te", "trailers")
	var clear http.Protocols
	clear.SetUnencryptedHTTP2(true)

	answer, err := exchange("unix", socket, clear, request)
	if err != nil {
		return err
	}

	// A response without a message has its status among the headers.
	code := answer.Trailer.Get("Grpc-Status")
	message := answer.Trailer.Get("Grpc-Message")
	if code == "" {
		code = answer.Header.Get("Grpc-Status")
		message = answer.Header.Get("Grpc-Message")
	}

	switch {
	case answer.StatusCode != http.StatusOK || code == "":
		return fmt.Errorf("answers HTTP %s, not gRPC", answer.Status)
	case code != "0":
		return fmt.Errorf("answers gRPC status %s: %.200q", code, message)
	}

	return nil
}

// answer is a response with its complete body, which is closed.
type answer struct {
	*http.Response
	body []byte
}

// exchange makes one request over its own connection, which is always closed
// afterwards. It follows no redirect.
func exchange(
	network, address string, protocols http.Protocols, request *http.Request,
) (answer, error) {
	conn, err := new(net.Dialer).DialContext(request.Context(), network, address)
	if err != nil {
		return answer{}, err
	}
	defer conn.Close()

	transport := &http.Transport{
		Protocols:              &protocols,
		MaxResponseHeaderBytes: maxAnswer,
		DialContext: func(context.Context, string, string) (net.Conn, error) {
			return conn, nil
		},
	}
	defer transport.CloseIdleConnections()

	response, err := transport.RoundTrip(request)
	if err != nil {
		return answer{}, err
	}
	defer response.Body.Close()

	body, err := io.ReadAll(io.LimitReader(response.Body, maxAnswer+1))
	switch {
	case err != nil:
		return answer{}, fmt.Errorf("read the answer: %w", err)
	case len(body) > maxAnswer:
		return answer{}, fmt.Errorf("answers more than %d bytes", maxAnswer)
	}

	return answer{Response: response, body: body}, nil
}
