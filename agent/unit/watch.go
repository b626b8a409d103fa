package unit

import (
	"context"
	"encoding/hex"
	"path"
	"slices"
	"strings"

	"github.com/godbus/dbus/v5"
)

// Changes sends the name of each unit whose state changes, until ctx ends or
// the connection is lost; then the channel is closed. A unit that changes again
// before its name is received is sent once.
func (s *Systemd) Changes(ctx context.Context) (<-chan string, error) {
	l := listener{changed: make(chan string), ended: make(chan struct{})}
	s.signals.listen(l)
	names := make(chan string)
	go func() {
		defer close(names)
		defer close(l.ended)
		forward(ctx, s.signals.lost, l.changed, names)
	}()
	return names, nil
}

// listener receives the name of each unit that changes until it has ended.
type listener struct {
	changed chan string
	ended   chan struct{}
}

func (s *signals) listen(l listener) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.listeners = append(s.listeners, l)
}

// notify sends name to each listener, which receives it at once, and drops the
// listeners that have ended.
func (s *signals) notify(name string) {
	s.mu.Lock()
	listeners := slices.Clone(s.listeners)
	s.mu.Unlock()
	for _, l := range listeners {
		select {
		case l.changed <- name:
		case <-l.ended:
			s.mu.Lock()
			s.listeners = slices.DeleteFunc(s.listeners, func(other listener) bool {
				return other == l
			})
			s.mu.Unlock()
		}
	}
}

// forward passes on the names of units that change, however slow the receiver
// is. It returns when ctx ends or the connection is lost.
func forward(
	ctx context.Context, lost <-chan struct{}, changed <-chan string, names chan<- string,
) {
	var waiting []string
	for {
		var next string
		var out chan<- string // nil, which never sends, while nothing waits
		if len(waiting) > 0 {
			next = waiting[0]
			out = names
		}

		select {
		case <-ctx.Done():
			return
		case <-lost:
			return
		case name := <-changed:
			waiting = include(waiting, name)
		case out <- next:
			waiting = waiting[1:]
		}
	}
}

func include(names []string, name string) []string {
	if slices.Contains(names, name) {
		return names
	}
	return append(names, name)
}

// unitName returns the unit of an object path: its last part, in which _XX is
// the byte with that hex value (sd_bus_path_decode(3)).
func unitName(object dbus.ObjectPath) string {
	var name strings.Builder
	for escaped := path.Base(string(object)); escaped != ""; {
		if escaped[0] == '_' && len(escaped) >= 3 {
			if raw, err := hex.DecodeString(escaped[1:3]); err == nil {
				name.Write(raw)
				escaped = escaped[3:]
				continue
			}
		}
		name.WriteByte(escaped[0])
		escaped = escaped[1:]
	}
	return name.String()
}
