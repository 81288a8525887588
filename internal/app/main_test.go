package app

import (
	"context"
	"errors"
	"os"
	"testing"
	"time"

	"github.com/drydock-dev/drydock/internal/childproc"
	"github.com/drydock-dev/drydock/internal/cli"
	"github.com/drydock-dev/drydock/internal/machine/guest/sandbox"
)

// TestMain lets the test binary act as the child process that runs the scripts of machines.
func TestMain(m *testing.M) {
	if code, ok := (childproc.Modes{sandbox.Mode: sandbox.Main}).Dispatch(context.Background(), os.Args); ok {
		os.Exit(code)
	}
	os.Exit(m.Run())
}

// A daemon that hangs during shutdown is still ended.
func TestEndInTime(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	if err := endInTime(ctx, time.Hour, func() error { return context.DeadlineExceeded }); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("a daemon that ends by itself: %v", err)
	}
	hang := make(chan struct{})
	defer close(hang)
	done := make(chan error, 1)
	go func() {
		done <- endInTime(ctx, time.Millisecond, func() error { <-hang; return nil })
	}()
	select {
	case err := <-done:
		t.Errorf("it was not told to end: %v", err)
	default:
	}
	cancel()
	select {
	case err := <-done:
		var exit *cli.ExitError
		if !errors.As(err, &exit) || exit.Code != 1 || exit.Err != nil {
			t.Errorf("a daemon that hangs: %v", err)
		}
	case <-time.After(time.Minute):
		t.Error("a daemon that hangs does not end")
	}
	if err := endInTime(ctx, time.Hour, func() error { return nil }); err != nil {
		t.Errorf("a daemon that ends when it is told to: %v", err)
	}
}
