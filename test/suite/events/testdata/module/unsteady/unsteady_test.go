package unsteady

import (
	"os"
	"testing"
)

// TestFirstTime fails unless the file of UNSTEADY_MARKER exists, and makes it.
func TestFirstTime(t *testing.T) {
	marker := os.Getenv("UNSTEADY_MARKER")
	t.Run("row", func(t *testing.T) {
		_, err := os.Stat(marker)
		if err != nil {
			os.WriteFile(marker, nil, 0o600)
			t.Fatal("context deadline exceeded")
		}
	})
}

func TestPasses(t *testing.T) {}
