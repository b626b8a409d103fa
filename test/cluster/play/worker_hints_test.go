package main

import (
	"regexp"
	"slices"
	"strings"
	"testing"
)

// placeholder is a word for something that hints knows, left as it is.
var placeholder = regexp.MustCompile(`\b[A-Z]{3,}[A-Z_]*\b`)

func TestHintsNameWhatIsThere(t *testing.T) {
	for name, path := range map[string]string{
		"with kubectl":    "testdata/bin",
		"without kubectl": "testdata",
	} {
		t.Run(name, func(t *testing.T) {
			t.Setenv("PATH", path)
			var out strings.Builder
			workerHints(&out, "https://127.0.0.1:1")
			for _, word := range placeholder.FindAllString(out.String(), -1) {
				if word != "KUBECONFIG" {
					t.Errorf("%s is not replaced:\n%s", word, out.String())
				}
			}

			for _, want := range []string{
				"hello", kubeconfig, "registry.test/hello:v1",
				strings.Join(publishCommand, " "), consoleFile,
			} {
				if !strings.Contains(out.String(), want) {
					t.Errorf("nothing about %s:\n%s", want, out.String())
				}
			}
		})
	}
}

func TestHintsOfAnOwnClusterNameWhatIsThere(t *testing.T) {
	t.Setenv("PATH", "testdata")
	var out strings.Builder
	ownHints(&out, 12345)
	for _, word := range placeholder.FindAllString(out.String(), -1) {
		if !slices.Contains([]string{"KUBECONFIG", "API", "PWD"}, word) {
			t.Errorf("%s is not replaced:\n%s", word, out.String())
		}
	}
	for _, want := range []string{ownNode, kubeconfig, ownImage, consoleFile, ":12345"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("nothing about %s:\n%s", want, out.String())
		}
	}
}
