package cluster

// Identity is where a node keeps who it is to its cluster: directories whose
// whole content is that, and files besides, absolute. Tokens are where Config
// says.
func Identity() (directories, files []string) {
	return []string{Directory, "/" + kubeletDir}, []string{"/" + recordName}
}
