package docs

import (
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// loaded is the code of everything that runs on a node or builds one; to read it takes a
// second.
var loaded = sync.OnceValues(func() (*Program, error) {
	return Load("../..", "./hint/...", "./agent/...", "./cmd/...", "./image/...",
		"./firmware/...", "./partitions/...")
})

func TestErrorsPageHasEveryHintOfTheCode(t *testing.T) {
	p, err := loaded()
	if err != nil {
		t.Fatal(err)
	}
	Golden(t, "../..", "docs/reference/errors.md", ErrorsPage(p.Messages()))
}

func TestEveryCodeIsUsed(t *testing.T) {
	p, err := loaded()
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range p.UnusedCodes() {
		t.Errorf("no error has the code fault.%s", name)
	}
}

func TestMessagesOfEveryFormAreFound(t *testing.T) {
	p, err := Load(".", "./testdata/messages")
	if err != nil {
		t.Fatal(err)
	}

	const here = "test/docs/testdata/messages"
	want := []Message{
		{here, "", "disk full", "delete files of …"},
		{here, "", "in a struct", "did you mean …?"},
		{here, "", "in a struct", "write one"},
		{here, "", "in a text", "write it"},
		{here, "", "in no call: …", "look here"},
		{here, "", "it belongs to a", "choose b"},
		{here, "", "…", "of the error itself"},
		{here, "", "…", "try it again, or twice"},
		{here, "", "…: with a constant: …", "try it again"},
		{here, "too-large", "the system takes … MiB", "make it smaller"},
	}
	if diff := cmp.Diff(want, p.Messages()); diff != "" {
		t.Errorf("messages (-want +have)\n%s", diff)
	}
}
