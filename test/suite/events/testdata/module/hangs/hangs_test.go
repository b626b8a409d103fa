package hangs

import "testing"

func TestPasses(t *testing.T) {}

func TestHangs(t *testing.T) {
	t.Run("inside", func(t *testing.T) {
		t.Log("waits for a line that never comes")
		select {}
	})
}
