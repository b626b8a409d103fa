package main

import (
	"encoding/xml"
	"errors"
	"io"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestTerminalShowsEveryLineAsItIs(t *testing.T) {
	drawn := terminal("make run", "a  <b> & \"c\"\n\nlast\n")

	var have []string
	decoder := xml.NewDecoder(strings.NewReader(string(drawn)))
	inText := false
	for {
		token, err := decoder.Token()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		switch token := token.(type) {
		case xml.StartElement:
			inText = token.Name.Local == "text"
			if inText {
				have = append(have, "")
			}
		case xml.CharData:
			if inText {
				have[len(have)-1] += string(token)
			}
		case xml.EndElement:
			inText = false
		}
	}
	want := []string{"$ make run", `a  <b> & "c"`, "", "last"}
	if diff := cmp.Diff(want, have); diff != "" {
		t.Errorf("lines (-want +have)\n%s", diff)
	}
}
