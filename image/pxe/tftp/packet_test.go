package tftp

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestParseRequest(t *testing.T) {
	for _, test := range []struct {
		name, packet string
		want         request
		wantErr      string
	}{
		{
			name:   "no options",
			packet: "\x00\x01a.efi\x00octet\x00",
			want:   request{name: "a.efi", octet: true},
		},
		{
			name:   "a mode in capitals",
			packet: "\x00\x01a\x00OCTET\x00",
			want:   request{name: "a", octet: true},
		},
		{name: "text", packet: "\x00\x01a\x00netascii\x00", want: request{name: "a"}},
		{
			name:   "EDK2",
			packet: "\x00\x01a\x00octet\x00tsize\x000\x00blksize\x001468\x00windowsize\x004\x00",
			want: request{
				name:    "a",
				octet:   true,
				options: []option{{"tsize", "0"}, {"blksize", "1468"}, {"windowsize", "4"}},
			},
		},
		{
			name:   "an option in capitals",
			packet: "\x00\x01a\x00octet\x00BlkSize\x00512\x00",
			want:   request{name: "a", octet: true, options: []option{{"blksize", "512"}}},
		},
		{
			name:   "zeros at the end",
			packet: "\x00\x01a\x00octet\x00\x00\x00\x00",
			want:   request{name: "a", octet: true},
		},
		{
			name:   "half an option",
			packet: "\x00\x01a\x00octet\x00tsize\x00",
			want:   request{name: "a", octet: true},
		},
		{name: "a mode without an end", packet: "\x00\x01a\x00octet", wantErr: "shorter"},
		{name: "no name", packet: "\x00\x01\x00octet\x00", wantErr: "shorter"},
		{name: "a request to write", packet: "\x00\x02a\x00octet\x00", wantErr: "to write"},
		{name: "data", packet: "\x00\x03\x00\x01a", wantErr: "operation 3"},
		{name: "nothing", packet: "", wantErr: "operation 0"},
	} {
		got, err := parseRequest([]byte(test.packet))
		if test.wantErr != "" {
			if err == nil || !strings.Contains(err.Error(), test.wantErr) {
				t.Errorf("%s: error %v, want %q", test.name, err, test.wantErr)
			}
			continue
		}
		diff := cmp.Diff(test.want, got, cmp.AllowUnexported(request{}, option{}))
		if err != nil || diff != "" {
			t.Errorf("%s: %v (-want +got):\n%s", test.name, err, diff)
		}
	}
}

func FuzzParseRequest(f *testing.F) {
	f.Add([]byte("\x00\x01a\x00octet\x00tsize\x000\x00blksize\x001468\x00"))
	f.Fuzz(func(t *testing.T, p []byte) {
		r, err := parseRequest(p)
		if err != nil {
			return
		}
		terms, agreed := negotiate(r.options, 1000)
		if terms.block < 8 || terms.block > maxBlock || terms.window < 1 ||
			terms.window > maxWindow || len(agreed) > 4 {
			t.Errorf("%+v, %v", terms, agreed)
		}
	})
}

func TestNegotiate(t *testing.T) {
	for _, test := range []struct {
		name   string
		asked  []option
		want   terms
		agreed []option
	}{
		{name: "nothing", want: terms{block: 512, window: 1}},
		{
			name: "all",
			asked: []option{
				{"tsize", "0"},
				{"blksize", "1432"},
				{"timeout", "3"},
				{"windowsize", "4"},
			},
			want: terms{block: 1432, window: 4, timeout: 3 * time.Second},
			agreed: []option{
				{"tsize", "70000"},
				{"blksize", "1432"},
				{"timeout", "3"},
				{"windowsize", "4"},
			},
		},
		{
			name:   "more than fits a frame",
			asked:  []option{{"blksize", "65464"}, {"windowsize", "64"}},
			want:   terms{block: 1468, window: 16},
			agreed: []option{{"blksize", "1468"}, {"windowsize", "16"}},
		},
		{
			name: "out of range",
			asked: []option{
				{"blksize", "7"},
				{"windowsize", "0"},
				{"timeout", "256"},
				{"tsize", "5"},
			},
			want: terms{block: 512, window: 1},
		},
		{
			name:  "a timeout that holds a place for long",
			asked: []option{{"timeout", "11"}},
			want:  terms{block: 512, window: 1},
		},
		{
			name:  "no numbers, and not known",
			asked: []option{{"blksize", "x"}, {"multicast", ""}},
			want:  terms{block: 512, window: 1},
		},
		{
			name:   "twice",
			asked:  []option{{"blksize", "1000"}, {"blksize", "900"}},
			want:   terms{block: 1000, window: 1},
			agreed: []option{{"blksize", "1000"}},
		},
	} {
		got, agreed := negotiate(test.asked, 70000)
		if got != test.want || !cmp.Equal(agreed, test.agreed, cmp.AllowUnexported(option{})) {
			t.Errorf("%s: %+v, %v", test.name, got, agreed)
		}
	}
}

// TestWindow acknowledges as clients do.
func TestWindow(t *testing.T) {
	type step struct {
		ack      uint16
		news     bool
		from, to int64 // of what is sent next
	}

	for _, test := range []struct {
		name   string
		window window
		steps  []step
	}{
		{
			name:   "block by block",
			window: window{terms: terms{block: 512, window: 1}, size: 1000},
			steps:  []step{{1, true, 2, 2}, {1, false, 3, 2}, {2, true, 3, 2}},
		},
		{
			name:   "a file of whole blocks ends with an empty one",
			window: window{terms: terms{block: 500, window: 1}, size: 1000},
			steps:  []step{{1, true, 2, 2}, {2, true, 3, 3}, {3, true, 4, 3}},
		},
		{
			name:   "windows",
			window: window{terms: terms{block: 100, window: 4}, size: 1000},
			steps:  []step{{4, true, 5, 8}, {8, true, 9, 11}, {11, true, 12, 11}},
		},
		{
			name:   "a gap in a window",
			window: window{terms: terms{block: 100, window: 4}, size: 1000},
			steps:  []step{{2, true, 3, 6}, {2, false, 7, 6}, {4, true, 7, 8}, {8, true, 9, 11}},
		},
		{
			name:   "an ACK of what was not sent, and one from the past",
			window: window{terms: terms{block: 100, window: 2}, size: 1000},
			steps:  []step{{3, false, 3, 2}, {2, true, 3, 4}, {1, false, 5, 4}},
		},
		{
			name: "numbers begin again at 0",
			window: window{
				terms: terms{block: 8, window: 2},
				size:  8 * 70000,
				acked: 65534,
				sent:  65534,
			},
			steps: []step{{65535, true, 65536, 65537}, {1, true, 65538, 65539}},
		},
	} {
		w := test.window
		w.next()
		for i, s := range test.steps {
			news := w.ack(s.ack)
			from, to := w.next()
			if news != s.news || from != s.from || to != s.to {
				t.Errorf("%s, step %d: news %t, %d to %d", test.name, i, news, from, to)
			}
		}
	}
}

func TestErrorsAreRead(t *testing.T) {
	got := parseError(formatError(codeNotFound, "no such file"))
	if got != `code 1, "no such file"` {
		t.Error(got)
	}
	if _, err := parseAck([]byte{0, 4, 0}); !errors.Is(err, errShort) {
		t.Error(err)
	}
}
