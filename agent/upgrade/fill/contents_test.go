package fill

import (
	"fmt"
	"io/fs"
	"testing"
)

// memory is a records.Store.
type memory map[string][]byte

func (m memory) Read(name string) ([]byte, error) {
	if data, ok := m[name]; ok {
		return data, nil
	}
	return nil, fmt.Errorf("%s: %w", name, fs.ErrNotExist)
}

func (m memory) Write(name string, data []byte) error {
	m[name] = data
	return nil
}

func (m memory) Remove(name string) error {
	delete(m, name)
	return nil
}

func TestContentsAreTakenOnce(t *testing.T) {
	k := memory{}
	one := Contents{RootHash: "1"}
	two := Contents{RootHash: "2"}

	for _, step := range []struct {
		name, replaces string
		running        Contents
		want           string
	}{
		{"nothing is known", "2", one, ""},
		{"of another", "3", one, ""},
		{"of what is replaced", "1", two, "1"},
		{"the same after a cut", "1", two, ""},
		{"of the other slot now", "2", Contents{}, "2"},
		{"what runs could not be read", "2", Contents{}, ""},
	} {
		had, err := Exchange(k, step.replaces, step.running)
		if err != nil || had.RootHash != step.want {
			t.Errorf("%s: %q, %v", step.name, had.RootHash, err)
		}
	}
}
