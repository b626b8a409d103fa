package volume

// signature describes how to recognise a table, file system, volume manager or
// RAID.
type signature struct {
	// name is the name in blkid(8), if it has one.
	name, version string

	// magic is at one of the places.
	magic string
	at    []place

	// check inspects more than the magic where that is weak; nil where the
	// magic is enough.
	check func(probe) bool

	// detail overrides name and version from other fields; nil if none.
	detail func(probe) (name, version string)
}

// place is where on a device a magic can be.
type place struct {
	// offset is from the start; or, if align is not 0, from the end of the
	// device, which is first rounded down to a multiple of align.
	offset, align int64
}

// in returns the offset on a device of that size; negative if it has no such
// place.
func (p place) in(size int64) int64 {
	if p.align == 0 {
		return p.offset
	}
	return size - size%p.align + p.offset
}

// from returns places from the start.
func from(offsets ...int64) []place {
	var out []place
	for _, o := range offsets {
		out = append(out, place{offset: o})
	}
	return out
}

// sectorsBack returns places that many sectors before the end, for sectors of
// 512 and of 4096 bytes, and plus bytes into the sector.
func sectorsBack(plus int64, sectors ...int64) []place {
	var out []place
	for _, n := range sectors {
		out = append(out, place{plus - n*512, 512}, place{plus - n*4096, 4096})
	}
	return out
}

// steps returns n places from the start, step bytes apart, and plus bytes into
// each.
func steps(first, step int64, n int, plus int64) []place {
	var out []place
	for i := range int64(n) {
		out = append(out, place{offset: first + i*step + plus})
	}
	return out
}

// shifted returns the same places, plus bytes further.
func shifted(places []place, plus int64) []place {
	var out []place
	for _, p := range places {
		out = append(out, place{p.offset + plus, p.align})
	}
	return out
}

const (
	kib = int64(1) << 10
	mib = int64(1) << 20
	gib = int64(1) << 30
)

// lostStart is where the first partition of most tables begins. Its content
// outlives the table. So signatures are searched as if the device began there,
// too.
const lostStart = mib
