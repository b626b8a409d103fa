package enroll

import (
	"context"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/loam-os/loam/hint"
)

// tokenPattern is what the API server's authenticator takes for a bootstrap
// token.
var tokenPattern = regexp.MustCompile(`^[a-z0-9]{6}\.[a-z0-9]{16}$`)

// List is a file with a token on each line, made in the cluster before. Blank
// lines and lines that begin with # are ignored. List reads the file each time,
// so tokens can be added.
type List string

// Next is the first that was not given.
func (l List) Next(given func(string) bool, _ time.Time) (string, time.Time, error) {
	tokens, err := l.Tokens()
	if err != nil {
		return "", time.Time{}, err
	}

	i := slices.IndexFunc(tokens, func(t string) bool { return !given(t) })
	if i < 0 {
		return "", time.Time{}, hint.With(
			fmt.Errorf("all %d tokens in %s were given", len(tokens), string(l)),
			"add more",
		)
	}

	return tokens[i], time.Time{}, nil
}

// Good reports whether it is still there: a line that is removed takes the
// token back.
func (l List) Good(token string, _, _ time.Time) (bool, error) {
	tokens, err := l.Tokens()
	return slices.Contains(tokens, token), err
}

// Tokens are all in the file.
func (l List) Tokens() ([]string, error) {
	text, err := os.ReadFile(string(l))
	if err != nil {
		return nil, err
	}

	var tokens []string
	for i, line := range strings.Split(string(text), "\n") {
		line = strings.TrimSpace(line)
		switch {
		case line == "" || strings.HasPrefix(line, "#"):
		case !tokenPattern.MatchString(line):
			return nil, hint.With(fmt.Errorf("%s:%d: not a bootstrap token", string(l), i+1),
				"write it as 6 characters, a dot, and 16 characters, all of a-z and 0-9")
		case slices.Contains(tokens, line):
			return nil, hint.With(fmt.Errorf("%s:%d: the token appears twice", string(l), i+1),
				"keep one of them")
		default:
			tokens = append(tokens, line)
		}
	}

	if len(tokens) == 0 {
		return nil, hint.With(fmt.Errorf("%s: has no token", l), "kubeadm token create prints one")
	}

	return tokens, nil
}

// Publish has nothing to do: the cluster knows the tokens.
func (List) Publish(context.Context, string, time.Time) error { return nil }
