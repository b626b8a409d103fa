package cluster

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"
)

const (
	auditPolicyFile = "audit.yaml"
	auditLogFile    = "audit.log"

	// auditPolicy records who has asked for what, and not the bodies.
	auditPolicy = `apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived, ResponseStarted]
rules: [{level: Metadata}]
`
)

// Request is a request to the API server that was answered, as its audit log has it.
type Request struct {
	User, Verb, Resource, Name string

	// Code is the HTTP status of the answer.
	Code int

	// Begun is when it was received, Took how long until all of the answer was sent.
	Begun time.Time
	Took  time.Duration
}

// auditEvent is an event of the group audit.k8s.io, as far as a Request needs it.
type auditEvent struct {
	Verb           string
	User           struct{ Username string }
	ObjectRef      struct{ Resource, Name string }
	ResponseStatus struct{ Code int }
	Begun          time.Time `json:"requestReceivedTimestamp"`
	Ended          time.Time `json:"stageTimestamp"`
}

// Requests returns all requests so far, if Options.Audit is set.
func (c *Cluster) Requests() ([]Request, error) {
	file, err := os.Open(filepath.Join(c.dir, auditLogFile))
	if err != nil {
		return nil, err
	}
	defer file.Close()

	var all []Request
	decoder := json.NewDecoder(bufio.NewReader(file))
	for {
		var e auditEvent
		if err := decoder.Decode(&e); errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
			return all, nil // The last line may not be written whole yet.
		} else if err != nil {
			return nil, fmt.Errorf("%s: %w", auditLogFile, err)
		}
		all = append(all, Request{
			User:     e.User.Username,
			Verb:     e.Verb,
			Resource: e.ObjectRef.Resource,
			Name:     e.ObjectRef.Name,
			Code:     e.ResponseStatus.Code,
			Begun:    e.Begun,
			Took:     e.Ended.Sub(e.Begun),
		})
	}
}
