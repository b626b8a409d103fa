package fat

import (
	"fmt"
	"slices"
)

const (
	// maxPath bounds the depth of directories, as PATH_MAX.
	maxPath = 4096
	// perCluster bounds the walk through crossed chains: a file system without
	// them visits each cluster once.
	perCluster = 8
)

// survey is what refers to what. It walks the tree once; nothing on the disk
// can make it endless.
type survey struct {
	f      *directories
	steps  int
	paths  []string   // owners; 0 is no owner
	owner  []int32    // of each cluster, in paths
	repair [][]uint32 // chains that are broken in FAT 1 and intact in FAT 2

	// last clusters of chains that go on to a free one: in both FATs if they
	// differ
	cut     []uint32
	keep    map[uint32]bool // of chains that are intact in FAT 1, where FAT 2 differs
	dirs    []*directory
	crossed [][2]string
	broken  []string

	// partial: part of a directory is unreadable, so more entries may refer to
	// clusters; or the FATs cannot be made equal.
	partial bool
}

// survey walks from the root.
func (f *directories) survey() *survey {
	s := &survey{
		f:     f,
		paths: []string{""},
		owner: make([]int32, f.clusters+2),
		keep:  map[uint32]bool{},
	}

	s.directory("", f.root)
	for _, chain := range s.repair {
		// A chain that meets an intact chain of FAT 1 would go on with the
		// other's content.
		if slices.ContainsFunc(chain, func(c uint32) bool {
			return s.keep[c] && f.fat.next(c) != f.second.next(c)
		}) {
			s.lose(s.paths[s.owner[chain[0]]],
				fmt.Errorf("cluster %d: FAT 2 has a chain that crosses one of FAT 1", chain[0]))
		}
	}

	return s
}

func (s *survey) note(path string, err error) {
	if err != nil {
		s.broken = append(s.broken, fmt.Sprintf("/%s: %v", path, err))
	}
}

// directory surveys the directory and its entries.
func (s *survey) directory(path string, first uint32) {
	chain, err := s.chain(path, func(t table) ([]uint32, error) { return s.f.follow(t, first) })
	crossed := s.claim(path, chain)
	if err != nil {
		s.partial = true
		return
	}

	if crossed {
		s.lose(path, fmt.Errorf("another path has clusters of this directory"))
		return
	}

	d, err := s.f.readDirectory(path, chain)
	if err != nil {
		s.lose(path, err)
		return
	}

	s.dirs = append(s.dirs, d)
	for _, e := range d.entries {
		s.entry(join(path, e.Name), e)
	}
}

// lose notes that what the path refers to is not known.
func (s *survey) lose(path string, err error) {
	s.note(path, err)
	s.partial = true
}

func (s *survey) entry(path string, e Entry) {
	switch {
	case s.steps < 0:
	case s.steps > perCluster*len(s.owner):
		s.lose(path, fmt.Errorf("chains have more clusters than there are"))
		s.steps = -1
	case len(path) > maxPath:
		s.lose(path, fmt.Errorf("path is longer than %d bytes", maxPath))
	case e.Dir:
		s.directory(path, e.first)
	default:
		chain, err := s.chain(path, func(t table) ([]uint32, error) {
			return s.f.fileChain(t, e.first, e.Size)
		})
		if n := s.f.need(e.Size); err == nil && len(chain) > n {
			s.note(path, fmt.Errorf("cluster %d: a chain of %d clusters, the file has %d",
				chain[0], len(chain), n))
		}
		s.claim(path, chain)
	}
}

// chain follows FAT 1, or FAT 2 if only that is intact. It records a fault in
// FAT 1, as firmware sees it; the error says that both FATs are broken.
func (s *survey) chain(path string, follow func(table) ([]uint32, error)) ([]uint32, error) {
	chain, err := follow(s.f.fat)
	s.steps += len(chain) + 1
	s.note(path, err)

	if s.f.second == nil {
		s.dangling(chain)
		return chain, err
	}

	if err == nil {
		for _, c := range chain {
			s.keep[c] = true
		}
		return chain, nil
	}

	second, secondErr := follow(s.f.second)
	s.steps += len(second) + 1
	if secondErr != nil {
		s.dangling(chain)
		return chain, err
	}

	s.repair = append(s.repair, second)
	return second, nil
}

// dangling notes a chain that goes on to a free cluster: when that is used
// again, the chain would go on in another file.
func (s *survey) dangling(chain []uint32) {
	if len(chain) == 0 {
		return
	}
	last := chain[len(chain)-1]
	if next := s.f.fat.next(last); s.f.valid(next) && s.f.fat.next(next) == 0 {
		s.cut = append(s.cut, last)
	}
}

// claim makes the path the owner of the chain's clusters that have none, and
// tells whether others have.
func (s *survey) claim(path string, chain []uint32) (crossed bool) {
	s.paths = append(s.paths, path)
	self := int32(len(s.paths) - 1)
	with := map[int32]bool{}
	for _, c := range chain {
		switch of := s.owner[c]; {
		case of == 0:
			s.owner[c] = self
		case of != self && !with[of]:
			with[of] = true
			s.crossed = append(s.crossed, [2]string{s.paths[of], path})
		}
	}

	return len(with) > 0
}

// leaked are the clusters that FAT 1 says are allocated, and nothing refers to
// them.
func (s *survey) leaked() (list []uint32) {
	for c, next := range s.f.fat.used(s.f.last()) {
		if s.owner[c] == 0 && next != bad {
			list = append(list, c)
		}
	}
	return list
}

func join(dir, name string) string {
	if dir == "" {
		return name
	}
	return dir + "/" + name
}
