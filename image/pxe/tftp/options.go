package tftp

import (
	"strconv"
	"time"
)

// Limits on what a client may ask for.
const (
	defaultBlock = 512
	// maxBlock fills an Ethernet frame: 1500 bytes less the headers of IP, UDP
	// and DATA. A block that is sent in fragments is lost with any one of them.
	maxBlock  = 1500 - 20 - 8 - 4
	maxWindow = 16
	// maxTimeout is in seconds: who is gone has its place for as many of them
	// as there are tries.
	maxTimeout = 10
)

// terms are what a transfer is by.
type terms struct {
	block  int
	window int
	// timeout is the client's own choice, 0 if unset.
	timeout time.Duration
}

// negotiate returns the terms, and the options to say so by; a transfer without
// any begins with DATA. Options that are not known, or out of range, are left
// out, as RFC 2347 says.
func negotiate(asked []option, size int64) (terms, []option) {
	t := terms{block: defaultBlock, window: 1}
	var agreed []option
	agree := func(name string, value int64) {
		agreed = append(agreed, option{name, strconv.FormatInt(value, 10)})
	}

	seen := map[string]bool{}
	for _, o := range asked {
		n, err := strconv.ParseInt(o.value, 10, 64)
		if err != nil || seen[o.name] {
			continue
		}

		seen[o.name] = true
		switch {
		case o.name == "blksize" && n >= 8 && n <= 65464: // RFC 2348
			t.block = int(min(n, maxBlock))
			agree(o.name, int64(t.block))
		case o.name == "windowsize" && n >= 1 && n <= 65535: // RFC 7440
			t.window = int(min(n, maxWindow))
			agree(o.name, int64(t.window))
		case o.name == "timeout" && n >= 1 && n <= maxTimeout: // RFC 2349: the value or nothing
			t.timeout = time.Duration(n) * time.Second
			agree(o.name, n)
		case o.name == "tsize" && n == 0: // RFC 2349
			agree(o.name, size)
		}
	}

	return t, agreed
}
