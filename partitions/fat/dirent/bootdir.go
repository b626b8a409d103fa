package dirent

// BootDirSize is the least size in bytes of \EFI\Linux: so many that no rename
// of the firmware's has to make it larger for years.
const BootDirSize = 64 << 10

// BootFillers are two empty files after its . and .., so that each entry of
// four slots after them is in one sector.
func BootFillers() [2]string { return [2]string{"FILLER0", "FILLER1"} }
