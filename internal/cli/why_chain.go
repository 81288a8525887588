package cli

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/drydock-dev/drydock/internal/api"
)

// An explanation is a chain of steps. If all succeed, its end is reached.
type explanation interface {
	Text() string
	// Chain returns the steps, and whether the end was reached.
	Chain() (steps []api.Step, done bool)
	Verdict() string
}

// whyChain requests an explanation and shows it. With watch, it shows new steps until the end is reached. Its error
// has exit code 1 if the chain is not complete, and 2 if there is no answer.
func whyChain(ctx context.Context, o *globalOptions, output string, watch bool, ask func(context.Context) (explanation, error)) error {
	if watch {
		return watchChain(ctx, o, ask)
	}
	e, err := ask(ctx)
	if err != nil {
		return &ExitError{2, err}
	}
	if output == "json" {
		err = o.printJSON(e)
	} else {
		_, err = fmt.Fprint(o.streams.Out, e.Text())
	}
	if _, done := e.Chain(); err == nil && !done {
		return &ExitError{Code: 1}
	}
	return err
}

// watchChain prints new steps until the end is reached.
func watchChain(ctx context.Context, o *globalOptions, ask func(context.Context) (explanation, error)) error {
	shown := map[string]bool{}
	tick := time.NewTicker(250 * time.Millisecond)
	defer tick.Stop()
	for {
		e, err := ask(ctx)
		if err != nil {
			return &ExitError{2, err}
		}
		var b strings.Builder
		steps, done := e.Chain()
		for _, s := range steps {
			if key := s.Name + s.State + s.Evidence; s.State != api.StepPending && !shown[key] {
				shown[key] = true
				b.WriteString(s.Text())
			}
		}
		if _, err := fmt.Fprint(o.streams.Out, b.String()); err != nil {
			return err
		}
		if done {
			_, err := fmt.Fprintln(o.streams.Out, "\n"+e.Verdict())
			return err
		}
		select {
		case <-ctx.Done():
			return &ExitError{Code: 1}
		case <-tick.C:
		}
	}
}
