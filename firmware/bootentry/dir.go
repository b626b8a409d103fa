package bootentry

// Dir is the directory of boot entries on an EFI system partition. Each name in
// it takes Slots directory slots of FAT.
const (
	Dir   = "EFI/Linux"
	Slots = 4
)

// DirSize is the least size of Dir in bytes: firmware need not make it larger
// for years of renames.
const DirSize = 64 << 10

// Fillers returns the names of two empty files after . and .. in Dir. They make
// each entry after them start at a multiple of its slots, so that it lies in
// one sector.
func Fillers() []string { return []string{"FILLER0", "FILLER1"} }
