package osc

// AbsentReaders returns the programs that unread says the image has not.
func AbsentReaders() []string {
	var readers []string
	for _, place := range unread {
		readers = append(readers, place.reader)
	}
	return readers
}

// Links returns the links of the image that are known.
func Links() map[string]string {
	all := map[string]string{}
	for _, one := range links {
		all[one.link] = one.target
	}
	return all
}
