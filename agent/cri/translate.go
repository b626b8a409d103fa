package cri

import (
	"slices"
	"strings"
)

// The plugins that replace the CRI plugin of schema 2 in schema 3.
const (
	criPlugin     = "io.containerd.grpc.v1.cri"
	imagesPlugin  = "io.containerd.cri.v1.images"
	runtimePlugin = "io.containerd.cri.v1.runtime"
)

// moved are the settings of schema 2's CRI plugin that the runtime plugin of
// schema 3 lacks or has under another name (containerd plugins/cri).
var moved = [...]struct{ from, to string }{
	{"sandbox_image", imagesPlugin + "/pinned_images/sandbox"},
	{"registry", imagesPlugin + "/registry"},
	{"image_decryption", imagesPlugin + "/image_decryption"},
	{"max_concurrent_downloads", imagesPlugin + "/max_concurrent_downloads"},
	{"image_pull_progress_timeout", imagesPlugin + "/image_pull_progress_timeout"},
	{"image_pull_with_sync_fs", imagesPlugin + "/image_pull_with_sync_fs"},
	{"stats_collect_period", imagesPlugin + "/stats_collect_period"},
	{"containerd/snapshotter", imagesPlugin + "/snapshotter"},
	{"containerd/disable_snapshot_annotations", imagesPlugin + "/disable_snapshot_annotations"},
	{"containerd/discard_unpacked_layers", imagesPlugin + "/discard_unpacked_layers"},
	{"disable_tcp_service", criPlugin + "/disable_tcp_service"},
	{"stream_server_address", criPlugin + "/stream_server_address"},
	{"stream_server_port", criPlugin + "/stream_server_port"},
	{"stream_idle_timeout", criPlugin + "/stream_idle_timeout"},
	{"enable_tls_streaming", criPlugin + "/enable_tls_streaming"},
	{"x509_key_pair_streaming", criPlugin + "/x509_key_pair_streaming"},
}

// translate returns the path in schema of a path in schema 2, below plugins.
func translate(schema int, path []string) []string {
	if schema < 3 || len(path) == 0 || path[0] != criPlugin {
		return path
	}
	path = path[1:]
	for _, m := range moved {
		from := strings.Split(m.from, "/")
		if hasPrefix(path, from) {
			return slices.Concat(strings.Split(m.to, "/"), path[len(from):])
		}
	}
	return slices.Concat([]string{runtimePlugin}, path)
}

// translateAll is translate for an entire subtree, which may be split over
// several places.
func translateAll(schema int, path []string) [][]string {
	all := [][]string{translate(schema, path)}
	if schema < 3 || len(path) == 0 || path[0] != criPlugin {
		return all
	}
	for _, m := range moved {
		from := strings.Split(m.from, "/")
		if len(from) >= len(path) && hasPrefix(from, path[1:]) {
			all = append(all, strings.Split(m.to, "/"))
		}
	}
	return all
}

func hasPrefix(path, prefix []string) bool {
	return len(path) >= len(prefix) && slices.Equal(path[:len(prefix)], prefix)
}
