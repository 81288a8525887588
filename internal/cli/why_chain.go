package cli

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/drydock-dev/drydock/internal/api"
)

// An explanation is a chain of steps. If all succeed, its end is reached.
type explanation interface {
	Text() string
	// Chain returns the steps, and whether the end was reached.
	Chain() (steps []api.Step, done bool)
	Verdict() string
}

// A chainCommand holds the flags that all commands have that explain something as a chain of steps.
type chainCommand struct {
	whyNodeFlags
	fix   applyFlags
	watch bool
}

// add adds the flags to cmd. watched is the help text of --watch.
func (c *chainCommand) add(cmd *cobra.Command, watched string) {
	c.whyNodeFlags.add(cmd)
	c.fix.add(cmd)
	cmd.Flags().BoolVarP(&c.watch, "watch", "w", false, watched)
}

// run asks the daemon and prints its answer. With --apply it also runs the fix, and with --watch it prints new steps
// until the chain is complete. If the request fails, the error suggests the command list, which lists valid names.
// The exit code of the error is 1 if the chain is not complete, and 2 if the request failed.
func (c *chainCommand) run(ctx context.Context, o *globalOptions, list string, question func(context.Context, *api.Client) (explanation, error)) error {
	daemon, err := o.client()
	if err != nil {
		return &ExitError{2, err}
	}
	ask := func(ctx context.Context) (explanation, error) {
		e, err := question(ctx, daemon)
		return e, o.orHint(err, "drydock status", list)
	}
	o.noteAccount(c.account)
	c.fix.account, c.fix.region = c.account, c.region
	if c.fix.apply {
		return c.fix.mendChain(ctx, o, ask)
	}
	if c.watch {
		return watchChain(ctx, o, ask)
	}
	e, err := ask(ctx)
	if err != nil {
		return &ExitError{2, err}
	}
	if c.output == "json" {
		err = o.printJSON(e)
	} else {
		_, err = fmt.Fprint(o.streams.Out, e.Text())
	}
	if u, ok := e.(interface{ IsUnknown() bool }); ok && err == nil && u.IsUnknown() {
		return &ExitError{Code: 3}
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
