package show

import (
	"time"

	"github.com/loam-os/loam/agent/status"
)

// Clock are the times of a node.
type Clock struct {
	// Now is the time of the node.
	Now time.Time `json:"now"`
	// Synchronized says that a time server has set it in this boot.
	Synchronized bool `json:"synchronized"`
	// Hardware is the time of the hardware's clock; absent if there is none.
	Hardware time.Time `json:"hardware,omitzero"`
	// Recorded is the last time that the node has recorded; absent if there is none.
	Recorded time.Time `json:"recorded,omitzero"`
	// Doubt is why the clock may be wrong; absent if nothing says so.
	Doubt *status.WrongClock `json:"doubt,omitempty"`
}
