package status

import (
	"bytes"
	"encoding/json"
	"os"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/loam-os/loam/agent/durable"
	"github.com/loam-os/loam/agent/printable"
)

// full returns a status with a value in every field.
func full() Status {
	var s Status
	fill(reflect.ValueOf(&s).Elem())
	return s
}

func fill(v reflect.Value) {
	switch {
	case v.Type() == reflect.TypeFor[time.Time]():
		v.Set(reflect.ValueOf(time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)))
	case v.Type() == reflect.TypeFor[Duration]():
		v.SetInt(int64(90500 * time.Millisecond))
	case v.Kind() == reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		fill(v.Elem())
	case v.Kind() == reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 1, 1))
		fill(v.Index(0))
	case v.Kind() == reflect.Struct:
		for i := range v.NumField() {
			fill(v.Field(i))
		}
	case v.Kind() == reflect.String:
		v.SetString("x")
	case v.Kind() == reflect.Bool:
		v.SetBool(true)
	case v.CanInt():
		v.SetInt(7)
	}
}

func TestJSONKeepsEveryField(t *testing.T) {
	want := full()
	text, err := json.Marshal(want)
	if err != nil {
		t.Fatal(err)
	}
	got, err := Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("after JSON (-want +got):\n%s", diff)
	}
}

// TestEveryTextIsFitForATerminal has a status of which each text commands a
// terminal and has a name of 64 KiB: the file has none of it, and neither has what
// is read of a file that something else has written.
func TestEveryTextIsFitForATerminal(t *testing.T) {
	s := full()
	replace(reflect.ValueOf(&s).Elem(), "a\x1b[2J\u009b2Jb\x9b "+strings.Repeat("n", 64<<10))
	dir := t.TempDir()
	root, err := os.OpenRoot(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer root.Close()

	if err := Write(durable.New(root, nil), s); err != nil {
		t.Fatal(err)
	}
	text, err := root.ReadFile(Path[1:])
	if err != nil {
		t.Fatal(err)
	}
	raw, err := json.Marshal(s)
	if err != nil {
		t.Fatal(err)
	}
	parsed, err := Parse(raw)
	if err != nil {
		t.Fatal(err)
	}
	again, err := json.Marshal(parsed)
	if err != nil {
		t.Fatal(err)
	}

	for what, text := range map[string][]byte{"the file": text, "what is read": again} {
		if !printable.IsText(text) || bytes.Contains(text, []byte(`\u00`)) {
			t.Errorf("%s commands a terminal", what)
		}
		if len(text) > 1<<20 {
			t.Errorf("%s has %d bytes", what, len(text))
		}
	}
}

// replace replaces each text in v.
func replace(v reflect.Value, text string) {
	switch v.Kind() {
	case reflect.Pointer:
		replace(v.Elem(), text)
	case reflect.Slice:
		replace(v.Index(0), text)
	case reflect.Struct:
		for i := range v.NumField() {
			if v.Field(i).CanSet() {
				replace(v.Field(i), text)
			}
		}
	case reflect.String:
		v.SetString(text)
	}
}

func TestDurationsAreTextInJSON(t *testing.T) {
	text, err := json.Marshal(full())
	if err != nil {
		t.Fatal(err)
	}
	if strings.Contains(string(text), "90500000000") {
		t.Errorf("nanoseconds in %s", text)
	}

	empty, err := json.Marshal(Status{Units: []Unit{{}}})
	if err != nil {
		t.Fatal(err)
	}
	for _, absent := range []string{"since", "appliedAt", "drift"} {
		if strings.Contains(string(empty), absent) {
			t.Errorf("%s without a value in %s", absent, empty)
		}
	}
}

func TestDurationsOfEarlierVersionsAreRead(t *testing.T) {
	s, err := Parse([]byte(`{"uptime": 1500000000, "units": [{"since": 2000000000}]}`))
	uptime, since := Duration(1500*time.Millisecond), Duration(2*time.Second)
	if err != nil || s.Uptime != uptime || s.Units[0].Since != since {
		t.Errorf("%+v, %v", s, err)
	}
	if _, err := Parse([]byte(`{"uptime": "soon"}`)); err == nil {
		t.Error("a word is taken for a duration")
	}
}
