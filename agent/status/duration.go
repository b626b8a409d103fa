package status

import (
	"encoding/json"
	"fmt"
	"time"
)

// Duration is a [time.Duration] whose JSON is text, such as "1m30s". Records of
// earlier versions have nanoseconds.
type Duration time.Duration

// String returns text such as "1m30s".
func (d Duration) String() string { return time.Duration(d).String() }

// MarshalJSON implements [json.Marshaler].
func (d Duration) MarshalJSON() ([]byte, error) { return json.Marshal(d.String()) }

// UnmarshalJSON implements [json.Unmarshaler].
func (d *Duration) UnmarshalJSON(value []byte) error {
	var number int64
	if json.Unmarshal(value, &number) == nil {
		*d = Duration(number)
		return nil
	}

	var words string
	if err := json.Unmarshal(value, &words); err != nil {
		return fmt.Errorf("duration %s: want text such as \"1m30s\"", value)
	}
	parsed, err := time.ParseDuration(words)
	*d = Duration(parsed)
	return err
}
