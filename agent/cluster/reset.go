package cluster

// Identity returns where a node keeps its identity in the cluster: directories
// with nothing else in them, and files. All paths are absolute. Config names
// the files of tokens.
func Identity() (directories, files []string) {
	return []string{Directory, "/" + kubeletDir}, []string{"/" + recordName}
}
