package verify

import (
	"bytes"
	"testing"
)

func TestContentIsComparedInPieces(t *testing.T) {
	const piece = 4 << 20
	long := bytes.Repeat([]byte("loam\n"), 2*piece/5)
	changed := bytes.Clone(long)
	changed[len(changed)-1]++

	for name, tc := range map[string]struct {
		a, b []byte
		same bool
	}{
		"nothing":                         {nil, nil, true},
		"a file of several pieces":        {long, long, true},
		"a file that ends with a piece":   {long[:piece], long[:piece], true},
		"its last byte differs":           {long, changed, false},
		"the other goes on":               {long[:100], long, false},
		"the other goes on after a piece": {long[:piece], long, false},
	} {
		t.Run(name, func(t *testing.T) {
			for _, pair := range [][2][]byte{{tc.a, tc.b}, {tc.b, tc.a}} {
				same, err := sameContent(bytes.NewReader(pair[0]), bytes.NewReader(pair[1]))
				if err != nil || same != tc.same {
					t.Errorf("%v, %v", same, err)
				}
			}
		})
	}
}
