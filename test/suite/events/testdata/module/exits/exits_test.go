package exits

import (
	"fmt"
	"os"
	"testing"
)

func TestMain(m *testing.M) {
	m.Run()
	fmt.Fprintln(os.Stderr, "the fixture did not stop")
	os.Exit(3)
}

func TestPasses(t *testing.T) {}
