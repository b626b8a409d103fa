package nobuild

import "testing"

func TestNever(t *testing.T) {
	undefined()
}
