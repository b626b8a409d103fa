package status

import (
	"encoding/json"
	"fmt"
	"time"
)

// text is a duration in JSON, such as "1m30s". Records of earlier versions have
// nanoseconds.
type text time.Duration

// MarshalJSON implements [json.Marshaler].
func (t text) MarshalJSON() ([]byte, error) { return json.Marshal(time.Duration(t).String()) }

// UnmarshalJSON implements [json.Unmarshaler].
func (t *text) UnmarshalJSON(value []byte) error {
	var number int64
	if json.Unmarshal(value, &number) == nil {
		*t = text(number)
		return nil
	}

	var words string
	if err := json.Unmarshal(value, &words); err != nil {
		return fmt.Errorf("duration %s: want text such as \"1m30s\"", value)
	}
	d, err := time.ParseDuration(words)
	*t = text(d)
	return err
}

// MarshalJSON implements [json.Marshaler].
func (s Status) MarshalJSON() ([]byte, error) {
	type plain Status
	return json.Marshal(struct {
		plain
		Uptime    text `json:"uptime"`
		AppliedAt text `json:"appliedAt,omitzero"`
	}{plain(s), text(s.Uptime), text(s.AppliedAt)})
}

// UnmarshalJSON implements [json.Unmarshaler].
func (s *Status) UnmarshalJSON(value []byte) error {
	type plain Status
	fields := struct {
		*plain
		Uptime    *text `json:"uptime"`
		AppliedAt *text `json:"appliedAt"`
	}{(*plain)(s), (*text)(&s.Uptime), (*text)(&s.AppliedAt)}
	return json.Unmarshal(value, &fields)
}

// MarshalJSON implements [json.Marshaler].
func (a Awaited) MarshalJSON() ([]byte, error) {
	type plain Awaited
	return json.Marshal(struct {
		plain
		Deadline text `json:"deadline,omitzero"`
	}{plain(a), text(a.Deadline)})
}

// UnmarshalJSON implements [json.Unmarshaler].
func (a *Awaited) UnmarshalJSON(value []byte) error {
	type plain Awaited
	fields := struct {
		*plain
		Deadline *text `json:"deadline"`
	}{(*plain)(a), (*text)(&a.Deadline)}
	return json.Unmarshal(value, &fields)
}

// MarshalJSON implements [json.Marshaler].
func (d Drill) MarshalJSON() ([]byte, error) {
	type plain Drill
	return json.Marshal(struct {
		plain
		Took text `json:"took,omitzero"`
	}{plain(d), text(d.Took)})
}

// UnmarshalJSON implements [json.Unmarshaler].
func (d *Drill) UnmarshalJSON(value []byte) error {
	type plain Drill
	fields := struct {
		*plain
		Took *text `json:"took"`
	}{(*plain)(d), (*text)(&d.Took)}
	return json.Unmarshal(value, &fields)
}

// MarshalJSON implements [json.Marshaler].
func (d Drift) MarshalJSON() ([]byte, error) {
	type plain Drift
	return json.Marshal(struct {
		plain
		At text `json:"at,omitzero"`
	}{plain(d), text(d.At)})
}

// UnmarshalJSON implements [json.Unmarshaler].
func (d *Drift) UnmarshalJSON(value []byte) error {
	type plain Drift
	fields := struct {
		*plain
		At *text `json:"at"`
	}{(*plain)(d), (*text)(&d.At)}
	return json.Unmarshal(value, &fields)
}

// MarshalJSON implements [json.Marshaler].
func (u Unit) MarshalJSON() ([]byte, error) {
	type plain Unit
	return json.Marshal(struct {
		plain
		Since text `json:"since,omitzero"`
	}{plain(u), text(u.Since)})
}

// UnmarshalJSON implements [json.Unmarshaler].
func (u *Unit) UnmarshalJSON(value []byte) error {
	type plain Unit
	fields := struct {
		*plain
		Since *text `json:"since"`
	}{(*plain)(u), (*text)(&u.Since)}
	return json.Unmarshal(value, &fields)
}

// MarshalJSON implements [json.Marshaler].
func (u Upgrade) MarshalJSON() ([]byte, error) {
	type plain Upgrade
	return json.Marshal(struct {
		plain
		Deadline text `json:"deadline,omitzero"`
	}{plain(u), text(u.Deadline)})
}

// UnmarshalJSON implements [json.Unmarshaler].
func (u *Upgrade) UnmarshalJSON(value []byte) error {
	type plain Upgrade
	fields := struct {
		*plain
		Deadline *text `json:"deadline"`
	}{(*plain)(u), (*text)(&u.Deadline)}
	return json.Unmarshal(value, &fields)
}
