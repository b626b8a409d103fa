package panics

import "testing"

func TestPasses(t *testing.T) {}

func TestPanics(t *testing.T) {
	var none map[string]int
	none["a"] = 1
}

func TestAfter(t *testing.T) {}
