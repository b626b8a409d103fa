package osc

// AbsentReaders returns the programs that unread says the image has not.
func AbsentReaders() []string {
	var readers []string
	for _, place := range unread {
		readers = append(readers, place.reader)
	}
	return readers
}
