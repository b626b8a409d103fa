// Package fleetlock serves turns by the FleetLock protocol; agent/fleetlock
// cites it. Who has a slot is in a file, so a server that starts again knows
// it, and is listed, so an operator sees it.
package fleetlock

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"sync"
	"time"

	"github.com/loam-os/loam/agent/durable"
	"github.com/loam-os/loam/agent/fleetlock"
	"github.com/loam-os/loam/agent/printable"
	"github.com/loam-os/loam/hint"
)

// recordName is the file in the directory of the state, lockName the one that keeps
// another server from it: each would give all slots.
const (
	recordName = "turns.json"
	lockName   = "turns.lock"
)

// ListPath lists the slots that are taken. It is not part of the protocol.
const ListPath = "/v1/turns"

// maxRequest is the longest body that is read, in bytes, maxText the longest ID
// and name of a group, and maxGroups is how many groups there may be.
const (
	maxRequest = 4 << 10
	maxText    = 256
	maxGroups  = 1000
)

// kinds of refusals.
const (
	badRequest = "bad_request"
	noSlot     = "failed_lock_semaphore_full"
	failed     = "failed_record"
)

// Holders are the machines of a group that have a slot, and since when.
type Holders map[string]time.Time

// Server has as many slots for each group.
type Server struct {
	slots int
	dir   *durable.Dir
	now   func() time.Time
	out   io.Writer
	held  io.Closer

	mu     sync.Mutex
	groups map[string]Holders
}

// Open returns a server that keeps its record in root until it is closed. It prints who
// takes and gives a slot to out.
func Open(root *os.Root, slots int, now func() time.Time, out io.Writer) (*Server, error) {
	held, err := durable.TryLock(root, lockName)
	if errors.Is(err, durable.ErrLocked) {
		err = hint.With(fmt.Errorf("another server gives the slots: %w", err),
			"stop it, or use another --state and other machines")
	}
	if err != nil {
		return nil, err
	}

	s := &Server{
		slots:  slots,
		dir:    durable.New(root, nil),
		now:    now,
		out:    out,
		held:   held,
		groups: map[string]Holders{},
	}
	if _, err := durable.ReadJSON(root.FS(), recordName, &s.groups); err != nil {
		err = hint.With(fmt.Errorf("read the slots that are taken: %w", err),
			"remove the file only if no machine restarts now")
		return nil, errors.Join(err, held.Close())
	}
	if s.groups == nil { // The record is null.
		s.groups = map[string]Holders{}
	}
	return s, nil
}

// Close lets another server have the record.
func (s *Server) Close() error { return s.held.Close() }

// Register adds the paths of the server to a mux.
func (s *Server) Register(mux *http.ServeMux) {
	mux.HandleFunc("POST "+fleetlock.LockPath, s.handle(s.lock))
	mux.HandleFunc("POST "+fleetlock.UnlockPath, s.handle(s.unlock))
	mux.HandleFunc("GET "+ListPath, s.list)
}

// errFull says that a group has no free slot.
var errFull = errors.New("all slots of the group are taken")

// handle answers a request of the protocol by do.
func (s *Server) handle(do func(c fleetlock.Client) error) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		client, err := clientOf(r)
		if err != nil {
			refuse(w, http.StatusBadRequest, badRequest, err)
			return
		}

		s.mu.Lock()
		defer s.mu.Unlock()
		switch err := do(client); {
		case errors.Is(err, errFull):
			refuse(w, http.StatusConflict, noSlot, err)
		case err != nil:
			refuse(w, http.StatusInternalServerError, failed, err)
		default:
			w.WriteHeader(http.StatusOK)
		}
	}
}

// clientOf reads the machine that makes a request.
func clientOf(r *http.Request) (fleetlock.Client, error) {
	if r.Header.Get(fleetlock.Header) != "true" {
		return fleetlock.Client{}, fmt.Errorf("header %s is not true", fleetlock.Header)
	}

	var body fleetlock.Request
	err := json.NewDecoder(io.LimitReader(r.Body, maxRequest)).Decode(&body)
	c := body.Client
	switch {
	case err != nil:
		return c, fmt.Errorf("the body is not JSON: %w", err)
	case c.ID == "" || len(c.ID) > maxText:
		return c, fmt.Errorf("client_params.id has %d bytes, want 1 to %d", len(c.ID), maxText)
	case len(c.Group) > maxText || !fleetlock.IsGroup(c.Group):
		return c, fmt.Errorf("client_params.group is %.40q, want letters, digits, dots and hyphens",
			c.Group)
	}
	return c, nil
}

// lock takes a slot, unless the machine has one.
func (s *Server) lock(c fleetlock.Client) error {
	holders := s.groups[c.Group]
	if _, ok := holders[c.ID]; ok {
		return nil
	}
	if len(holders) >= s.slots || (holders == nil && len(s.groups) >= maxGroups) {
		return errFull
	}

	if holders == nil {
		holders = Holders{}
		s.groups[c.Group] = holders
	}
	holders[c.ID] = s.now().UTC().Truncate(time.Second)
	if err := s.save(); err != nil {
		s.remove(c)
		return err
	}
	fmt.Fprintf(s.out, "%s of %s takes a turn: %d of %d\n", printable.Line(c.ID, maxText), c.Group,
		len(holders), s.slots)
	return nil
}

// unlock gives the slot of the machine back, if it has one.
func (s *Server) unlock(c fleetlock.Client) error {
	since, ok := s.groups[c.Group][c.ID]
	if !ok {
		return nil
	}

	s.remove(c)
	if err := s.save(); err != nil {
		if s.groups[c.Group] == nil {
			s.groups[c.Group] = Holders{}
		}
		s.groups[c.Group][c.ID] = since
		return err
	}
	fmt.Fprintf(s.out, "%s of %s gives its turn\n", printable.Line(c.ID, maxText), c.Group)
	return nil
}

// remove removes a machine, and its group if that has no other.
func (s *Server) remove(c fleetlock.Client) {
	delete(s.groups[c.Group], c.ID)
	if len(s.groups[c.Group]) == 0 {
		delete(s.groups, c.Group)
	}
}

func (s *Server) save() error { return s.dir.WriteJSON(recordName, s.groups, 0o644) }

// list answers with the slots that are taken. No machine waits for a client that
// is slow to read them.
func (s *Server) list(w http.ResponseWriter, _ *http.Request) {
	s.mu.Lock()
	text, err := json.Marshal(map[string]any{
		"slots":  s.slots,
		"groups": s.groups,
	})
	s.mu.Unlock()
	if err != nil {
		refuse(w, http.StatusInternalServerError, failed, err)
		return
	}

	w.Header().Set("Content-Type", "application/json")
	_, _ = w.Write(append(text, '\n')) // The client may be gone.
}

// refuse answers with a refusal.
func refuse(w http.ResponseWriter, code int, kind string, err error) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	_ = json.NewEncoder(w).Encode(fleetlock.Refusal{Kind: kind, Value: err.Error()})
}
