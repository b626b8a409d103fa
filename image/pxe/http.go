package pxe

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/loam-os/loam/hint"
	"github.com/loam-os/loam/hint/fault"
)

// maxMACs is more than the network devices of any machine.
const maxMACs = 64

// ClientHeader is sent by machines that ask about themselves, with the value true
// (agent/netboot). No web page can have a browser send it to another site: the
// browser would ask first, and this server does not answer that.
const ClientHeader = "Loam-Machine"

// Identity is what a machine says that it is. Nothing proves it.
type Identity struct {
	// MACs are in lower case, with colons, in the machine's order.
	MACs         []string
	Serial, UUID string
	Arch         string

	// Address is where the machine asks from, which is not what it says. LinkMAC is
	// the MAC of that address, "" if it is unknown: then its MACs prove nothing.
	Address string
	LinkMAC string
}

// ErrNone lets a machine start without a machine.yaml. It is not
// fs.ErrNotExist, which a missing list of tokens also returns.
var ErrNone = errors.New("no machine.yaml")

// ErrAnother is the refusal of what is for another machine on this server's link.
var ErrAnother = errors.New("is for a MAC that this machine does not have here")

// Machines is what this server knows of machines.
type Machines interface {
	// Machine is the machine.yaml for a machine, and, for the log, its origin;
	// ErrNone if absent. The machine gets the text of this error, and of one with
	// the code DocumentInvalid; of all others the code alone.
	Machine(ctx context.Context, id Identity) (text []byte, from string, err error)

	// Installed has the machine boot from its own disk from now on. It returns
	// the command that the operator undoes this with.
	Installed(id Identity) (undo string, err error)

	// IsInstalled reports whether the machine with a MAC does. uuids is what its
	// firmware says of its UUID, nil for nothing.
	IsInstalled(mac string, uuids []string) bool
}

// Said records a request, its client (a MAC, or an address), and its result.
type Said func(who, asked, got string)

// Handler answers what machines ask over HTTP. What is about one machine is for
// requests with the [ClientHeader].
func (o Offers) Handler(machines Machines, said Said) http.Handler {
	mux := http.NewServeMux()
	for name, f := range o.Files() {
		mux.HandleFunc("GET /"+name, func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Type", contentType(name))
			out := &sending{ResponseWriter: w, control: http.NewResponseController(w)}
			began := time.Now()
			http.ServeContent(out, r, "", time.Time{}, io.NewSectionReader(f, 0, f.Size))

			if r.Method == http.MethodGet {
				said(host(r), "loads "+path.Base(name)+" by HTTP",
					Amount(out.bytes, time.Since(began), out.err))
			}
		})
	}

	mux.HandleFunc("GET "+ScriptPath, func(w http.ResponseWriter, r *http.Request) {
		o.answerIPXE(w, r, machines, said)
	})

	mux.HandleFunc("GET /v1/machine", func(w http.ResponseWriter, r *http.Request) {
		o.answer(w, r, said, "asks for its machine.yaml", func(id Identity) (string, string, error) {
			text, from, err := machines.Machine(r.Context(), id)
			return string(text), from, err
		})
	})

	mux.HandleFunc("POST /v1/installed", func(w http.ResponseWriter, r *http.Request) {
		o.answer(w, r, said, "is installed", func(id Identity) (string, string, error) {
			undo, err := machines.Installed(id)
			return "", "boots from its disk from now on; from the network again: " + undo, err
		})
	})

	return mux
}

// host is the address that asks.
func host(r *http.Request) string {
	address, _, err := net.SplitHostPort(r.RemoteAddr)
	if err != nil {
		return r.RemoteAddr
	}
	return address
}

// answerIPXE gives iPXE its script. It prints what iPXE says of itself only if
// the value is known, as it goes to a terminal.
func (o Offers) answerIPXE(w http.ResponseWriter, r *http.Request, machines Machines, said Said) {
	arch := r.FormValue("arch")
	who := host(r)
	installed := false
	if mac, err := net.ParseMAC(r.FormValue("mac")); err == nil {
		who = mac.String()
		var uuids []string
		if id, err := uuid.Parse(r.FormValue("uuid")); err == nil {
			uuids = orders(id)
		}
		installed = machines.IsInstalled(mac.String(), uuids)
	}

	switch _, known := buildarch[arch]; {
	case installed:
		said(who, "iPXE asks what to do", "start from its disk, as it is installed")
	case known:
		said(who, "iPXE asks what to do", "boot for "+arch)
	}

	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	fmt.Fprint(w, o.Script(arch, installed))
}

// answer sends the machine the answer of ask, and records it.
func (o Offers) answer(
	w http.ResponseWriter,
	r *http.Request,
	said Said,
	asked string,
	ask func(Identity) (text, got string, err error),
) {
	if r.Header.Get(ClientHeader) != "true" {
		http.Error(w, "header "+ClientHeader+" is not true; hint: only machines ask for this; "+
			"an image from before this server has to be built again", http.StatusForbidden)
		return
	}

	id, err := identify(r.URL.Query())
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}

	id.Address = host(r)
	id.LinkMAC = o.linkMAC(id.Address)
	if id.LinkMAC != "" && !slices.Contains(id.MACs, id.LinkMAC) {
		said(id.LinkMAC, asked+" as "+id.MACs[0]+", at "+id.Address,
			"nothing, as that is not its MAC")
		http.Error(w, "this server knows the address "+id.Address+" by the MAC "+id.LinkMAC+
			"; hint: if a relay answers for this machine: loamctl serve --relayed",
			http.StatusForbidden)
		return
	}

	text, got, err := ask(id)
	if err != nil {
		got = "error: " + hint.Line(err)
	}

	// The MAC is what the client claims, the address is where it is.
	said(id.MACs[0], asked+id.named()+", at "+id.Address, got)
	code := fault.Of(err)
	switch {
	case errors.Is(err, ErrNone):
		http.Error(w, hint.Line(err), http.StatusNotFound)
	case errors.Is(err, ErrAnother):
		http.Error(w, hint.Line(err), http.StatusForbidden)
	case code == fault.DocumentInvalid:
		http.Error(w, hint.Line(err), http.StatusServiceUnavailable)
	case err != nil:
		// The rest is about this server, and for its operator.
		http.Error(w, fmt.Sprintf("%s; hint: the log of the server has more", code),
			http.StatusServiceUnavailable)
	default:
		w.Header().Set("Content-Type", "text/plain; charset=utf-8")
		// A node takes nothing of unknown size.
		w.Header().Set("Content-Length", strconv.Itoa(len(text)))
		fmt.Fprint(w, text)
	}
}

// linkMAC returns the MAC of an address on this server's link, "" if it is unknown.
func (o Offers) linkMAC(address string) string {
	from, err := netip.ParseAddr(address)
	if err != nil || o.Neighbour == nil {
		return ""
	}
	return o.Neighbour(from)
}

// named is the serial number, for messages.
func (id Identity) named() string {
	if id.Serial == "" {
		return ""
	}
	return fmt.Sprintf(", serial %q", id.Serial)
}

// identify reads who a machine says that it is.
func identify(q url.Values) (Identity, error) {
	id := Identity{
		Serial: strings.TrimSpace(q.Get("serial")),
		UUID:   strings.ToLower(q.Get("uuid")),
		Arch:   q.Get("arch"),
	}

	for _, text := range q["mac"] {
		mac, err := net.ParseMAC(text)
		if err != nil || len(mac) != 6 {
			return id, fmt.Errorf("mac %.40q: not a MAC address", text)
		}
		if !slices.Contains(id.MACs, mac.String()) {
			id.MACs = append(id.MACs, mac.String())
		}
	}

	switch {
	case len(id.MACs) == 0:
		return id, errors.New("mac is missing")
	case len(id.MACs) > maxMACs || len(id.Serial) > 200 || len(id.UUID) > 40:
		return id, errors.New("more than a machine has")
	}

	return id, nil
}

// contentType: firmware asks it, before the end of the name, whether this is a
// program (EDK2, HttpBootCheckImageType).
func contentType(name string) string {
	if path.Ext(name) == ".efi" {
		return "application/efi"
	}
	return "application/octet-stream"
}
