package fat

// release frees the chain that an entry, which is durably gone, referred to. It
// must not be in doubt: what it leaves is left to Reclaim.
func (f *directories) release(first uint32) error {
	return f.change(f.unowned(first), func(int) uint32 { return 0 })
}

// unowned returns the chain that begins with a cluster, and nothing if it is in
// doubt, or if anything else refers to a part of it.
func (f *directories) unowned(first uint32) []uint32 {
	chain, err := f.follow(f.fat, first)
	if err != nil || f.second != nil {
		return nil
	}

	s := f.survey()
	if s.partial {
		return nil
	}

	for _, c := range chain {
		if s.owner[c] != 0 {
			return nil
		}
	}
	return chain
}

// erase overwrites a chain with zeros that an entry, which is durably gone,
// referred to.
func (f *directories) erase(first uint32) error {
	chain := f.unowned(first)
	size := int64(len(chain)) * f.clusterSize
	if _, err := f.writeContent(zeros{}, size, chain); err != nil {
		return err
	}
	return f.disk.sync()
}

// zeros is an endless reader.
type zeros struct{}

func (zeros) Read(p []byte) (int, error) {
	clear(p)
	return len(p), nil
}
