package status

import (
	"encoding/json"
	"fmt"
	"time"
)

// duration is a [time.Duration] whose JSON is text, such as "1m30s". Records of
// earlier versions have nanoseconds.
type duration time.Duration

// MarshalJSON implements [json.Marshaler].
func (d duration) MarshalJSON() ([]byte, error) { return json.Marshal(time.Duration(d).String()) }

// UnmarshalJSON implements [json.Unmarshaler].
func (d *duration) UnmarshalJSON(value []byte) error {
	var number int64
	if json.Unmarshal(value, &number) == nil {
		*d = duration(number)
		return nil
	}

	var words string
	if err := json.Unmarshal(value, &words); err != nil {
		return fmt.Errorf("duration %s: want text such as \"1m30s\"", value)
	}
	parsed, err := time.ParseDuration(words)
	*d = duration(parsed)
	return err
}

// MarshalJSON implements [json.Marshaler].
func (s Status) MarshalJSON() ([]byte, error) {
	type plain Status
	return json.Marshal(struct {
		plain
		Uptime    duration `json:"uptime"`
		AppliedAt duration `json:"appliedAt,omitzero"`
	}{plain(s), duration(s.Uptime), duration(s.AppliedAt)})
}

// UnmarshalJSON implements [json.Unmarshaler].
func (s *Status) UnmarshalJSON(value []byte) error {
	type plain Status
	fields := struct {
		*plain
		Uptime    *duration `json:"uptime"`
		AppliedAt *duration `json:"appliedAt"`
	}{(*plain)(s), (*duration)(&s.Uptime), (*duration)(&s.AppliedAt)}
	return json.Unmarshal(value, &fields)
}

// MarshalJSON implements [json.Marshaler].
func (a Awaited) MarshalJSON() ([]byte, error) {
	type plain Awaited
	return json.Marshal(struct {
		plain
		Deadline duration `json:"deadline,omitzero"`
	}{plain(a), duration(a.Deadline)})
}

// UnmarshalJSON implements [json.Unmarshaler].
func (a *Awaited) UnmarshalJSON(value []byte) error {
	type plain Awaited
	fields := struct {
		*plain
		Deadline *duration `json:"deadline"`
	}{(*plain)(a), (*duration)(&a.Deadline)}
	return json.Unmarshal(value, &fields)
}

// MarshalJSON implements [json.Marshaler].
func (d Drill) MarshalJSON() ([]byte, error) {
	type plain Drill
	return json.Marshal(struct {
		plain
		Took duration `json:"took,omitzero"`
	}{plain(d), duration(d.Took)})
}

// UnmarshalJSON implements [json.Unmarshaler].
func (d *Drill) UnmarshalJSON(value []byte) error {
	type plain Drill
	fields := struct {
		*plain
		Took *duration `json:"took"`
	}{(*plain)(d), (*duration)(&d.Took)}
	return json.Unmarshal(value, &fields)
}

// MarshalJSON implements [json.Marshaler].
func (d Drift) MarshalJSON() ([]byte, error) {
	type plain Drift
	return json.Marshal(struct {
		plain
		At duration `json:"at,omitzero"`
	}{plain(d), duration(d.At)})
}

// UnmarshalJSON implements [json.Unmarshaler].
func (d *Drift) UnmarshalJSON(value []byte) error {
	type plain Drift
	fields := struct {
		*plain
		At *duration `json:"at"`
	}{(*plain)(d), (*duration)(&d.At)}
	return json.Unmarshal(value, &fields)
}

// MarshalJSON implements [json.Marshaler].
func (u Unit) MarshalJSON() ([]byte, error) {
	type plain Unit
	return json.Marshal(struct {
		plain
		Since duration `json:"since,omitzero"`
	}{plain(u), duration(u.Since)})
}

// UnmarshalJSON implements [json.Unmarshaler].
func (u *Unit) UnmarshalJSON(value []byte) error {
	type plain Unit
	fields := struct {
		*plain
		Since *duration `json:"since"`
	}{(*plain)(u), (*duration)(&u.Since)}
	return json.Unmarshal(value, &fields)
}

// MarshalJSON implements [json.Marshaler].
func (u Upgrade) MarshalJSON() ([]byte, error) {
	type plain Upgrade
	return json.Marshal(struct {
		plain
		Deadline duration `json:"deadline,omitzero"`
	}{plain(u), duration(u.Deadline)})
}

// UnmarshalJSON implements [json.Unmarshaler].
func (u *Upgrade) UnmarshalJSON(value []byte) error {
	type plain Upgrade
	fields := struct {
		*plain
		Deadline *duration `json:"deadline"`
	}{(*plain)(u), (*duration)(&u.Deadline)}
	return json.Unmarshal(value, &fields)
}
