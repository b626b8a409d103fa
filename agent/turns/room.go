package turns

// maxAnnotations is how many bytes the names and values of the annotations of an
// object may have (k8s.io/apimachinery/pkg/api/validation, TotalAnnotationSizeLimitB).
const maxAnnotations = 256 << 10

const (
	// ledgerReserve is what a ledger keeps free for what is written without a turn:
	// failures, halts, what people write, and annotations of others.
	ledgerReserve = 16 << 10

	// largestHolder is more than a turn takes with the longest names.
	largestHolder = 1280
)

// MaxHolders returns how many nodes of a pool may have a turn at once: as many as
// a ledger can hold if the names of nodes have up to 32 characters. If they have
// more, fewer take their turn, see [HasRoom].
func MaxHolders() int {
	const name = "node-of-a-pool-with-a-long-name1"
	h := Holder{
		ID:      "ABCDEFGHIJKLMNOPQRSTUVWXYZ",
		Machine: name,
		Node:    name,
		UID:     "00000000-0000-0000-0000-000000000000",
		Target:  name + name,
		Version: "10.100.1000",
		Class:   Kubelet,
		Zone:    "region-of-clouds-1a",
	}
	h.Since = h.Since.AddDate(2000, 0, 0).Add(123456789)
	return (maxAnnotations - ledgerReserve) / (len(holderPrefix+name) + len(h.String()))
}

// HasRoom reports whether another turn fits into l.
func HasRoom(l Ledger) bool {
	size := 0
	for key, text := range l.Annotations(nil) {
		size += len(key) + len(text)
	}
	return size+largestHolder <= maxAnnotations-ledgerReserve
}
