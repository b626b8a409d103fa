package fails

import "testing"

func TestPasses(t *testing.T) {}

func TestFails(t *testing.T) {
	t.Log("only a log")
	t.Errorf("have %d\nwant %d", 1, 2)
	t.Error("more")
}

func TestRows(t *testing.T) {
	t.Run("good", func(t *testing.T) {})
	t.Run("bad", func(t *testing.T) {
		t.Fatal("a bad row")
	})
}
