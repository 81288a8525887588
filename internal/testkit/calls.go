package testkit

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"

	"github.com/aws/smithy-go"
	"golang.org/x/sync/errgroup"
)

// Must returns the value of a call that must not fail: Must(client.Call(…))(t).
func Must[T any](v T, err error) func(testing.TB) T {
	return func(t testing.TB) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
}

// WantError fails the test unless err has AWS's code and message. An empty message matches any message, and one that
// ends in … any message that starts with it.
func WantError(t testing.TB, err error, code, message string) {
	t.Helper()
	wantError(t, err, code, message, func(got string) bool {
		begin, cut := strings.CutSuffix(message, "…")
		return message == "" || got == message || cut && strings.HasPrefix(got, begin)
	})
}

// WantErrorWith fails the test unless err has AWS's code and a message that contains part.
func WantErrorWith(t testing.TB, err error, code, part string) {
	t.Helper()
	wantError(t, err, code, part, func(got string) bool { return strings.Contains(got, part) })
}

func wantError(t testing.TB, err error, code, message string, good func(message string) bool) {
	t.Helper()
	if got, ok := errors.AsType[smithy.APIError](err); !ok {
		t.Errorf("got %v, want %s: %s", err, code, message)
	} else if got.ErrorCode() != code || !good(got.ErrorMessage()) {
		t.Errorf("got  %s: %s\nwant %s: %s", got.ErrorCode(), got.ErrorMessage(), code, message)
	}
}

// Run runs services until stop is called or the test ends, and fails the test if one of
// them fails.
func Run(t testing.TB, services ...func(context.Context) error) (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	var g errgroup.Group
	for _, run := range services {
		g.Go(func() error { return run(ctx) })
	}
	stop = sync.OnceFunc(func() {
		cancel()
		if err := g.Wait(); err != nil {
			t.Errorf("Run: %v", err)
		}
	})
	t.Cleanup(stop)
	return stop
}
