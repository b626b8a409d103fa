package passes

import "testing"

func TestAdds(t *testing.T) {
	t.Run("small", func(t *testing.T) {})
	t.Run("large", func(t *testing.T) {})
}

func TestNeedsAJudge(t *testing.T) {
	t.Skip("no judge")
}
