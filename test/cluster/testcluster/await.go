package testcluster

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"time"
)

// Await asks the API server for the object at path until right is nil.
func (f *Fixture) Await(
	ctx context.Context, path string, right func(object map[string]any) error,
) error {
	tick := time.NewTicker(200 * time.Millisecond)
	defer tick.Stop()

	for {
		err := f.look(path, right)
		if err == nil {
			return nil
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return fmt.Errorf("%s: %w: %w", path, ctx.Err(), err)
		}
	}
}

func (f *Fixture) look(path string, right func(map[string]any) error) error {
	text, err := f.Do(http.MethodGet, path, "")
	if err != nil {
		return err
	}

	var object map[string]any
	if err := json.Unmarshal(text, &object); err != nil {
		return err
	}

	return right(object)
}

// Condition wants one of the conditions of an object's status to be that.
func Condition(kind, value string) func(map[string]any) error {
	return func(object map[string]any) error {
		status, _ := object["status"].(map[string]any)
		conditions, _ := status["conditions"].([]any)
		for _, c := range conditions {
			if c := c.(map[string]any); c["type"] == kind {
				if c["status"] == value {
					return nil
				}
				return fmt.Errorf("%s is %v: %v", kind, c["status"], c["message"])
			}
		}
		return fmt.Errorf("no condition %s", kind)
	}
}
