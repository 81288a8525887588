package cli

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/drydock-dev/drydock/internal/advice"
	"github.com/drydock-dev/drydock/internal/api"
)

// applyFlags are the flags with which `drydock why` runs the first fix that it prints.
type applyFlags struct {
	apply, yes bool
	timeout    time.Duration
	account    string // that the fix is for; empty: the caller's
	region     string // that the fix is for; empty: the caller's
}

func (f *applyFlags) add(cmd *cobra.Command) {
	cmd.Flags().BoolVar(&f.apply, "apply", false, "run the first fix that is printed, and wait until it has helped")
	cmd.Flags().BoolVar(&f.yes, "yes", false, "with --apply: run it without asking")
	cmd.Flags().DurationVar(&f.timeout, "timeout", 2*time.Minute, "with --apply: how long to wait")
}

// An outcome is the state after a fix.
type outcome struct {
	done bool
	says string // what still fails, if not done
}

// mend shows the first fix, asks, runs its commands as the caller and waits until look reports that it has helped.
// Otherwise it returns an error with exit code 1.
func (f *applyFlags) mend(ctx context.Context, o *globalOptions, fixes []advice.Fix, look func(context.Context) (outcome, error)) error {
	if len(fixes) == 0 {
		return &ExitError{1, fmt.Errorf("there is no fix to apply")}
	}
	fix := fixes[0]
	if fix.Sketch != "" {
		return &ExitError{1, fmt.Errorf("the first fix is a sketch, which only you can complete: %s", fix.Sketch)}
	}
	fmt.Fprintf(o.streams.Err, "\nThis will run:\n")
	for _, c := range fix.Commands {
		fmt.Fprintf(o.streams.Err, "  %s\n", c)
	}
	if !f.yes {
		if !o.agrees("Run it?") {
			return &ExitError{1, fmt.Errorf("nothing was run")}
		}
	}
	if err := o.runFix(ctx, &fix, api.Place{Account: f.account, Region: f.region}); err != nil {
		return &ExitError{1, fmt.Errorf("the fix failed: %w", err)}
	}
	if fix.Replaces {
		o.progress("The instance is replaced by the one above: drydock why node INSTANCE-ID --watch follows it.")
		return nil
	}
	return f.await(ctx, o, look)
}

// await polls until the fix has helped.
func (f *applyFlags) await(ctx context.Context, o *globalOptions, look func(context.Context) (outcome, error)) error {
	tick := time.NewTicker(250 * time.Millisecond)
	defer tick.Stop()
	end := time.NewTimer(f.timeout)
	defer end.Stop()
	for {
		now, err := look(ctx)
		switch {
		case err != nil:
			return &ExitError{2, err}
		case now.done:
			o.progress("It has helped.")
			return nil
		}
		select {
		case <-ctx.Done():
			return &ExitError{1, ctx.Err()}
		case <-end.C:
			return &ExitError{1, fmt.Errorf("not within %v: %s", f.timeout, now.says)}
		case <-tick.C:
		}
	}
}

// runFix runs the commands in one shell. Its AWS clients call the daemon: with the caller's
// own credentials if they are set for it, else as the root of the default account, or of
// the account that was asked about. Its ssh reaches instances of Drydock and nothing else: those of a twin have AWS's addresses.
func (o *globalOptions) runFix(ctx context.Context, fix *advice.Fix, place api.Place) error {
	info, err := o.readInfo()
	if err != nil {
		return err
	}
	bin, err := o.writeSSH(info, place, "")
	if err != nil {
		return err
	}
	c := exec.CommandContext(ctx, "sh", "-e", "-c", fix.Shell())
	c.Stdout, c.Stderr, c.Env = o.streams.Out, o.streams.Err, withAccount(fixEnvironment(os.Environ(), info), place.Account)
	c.Env = append(c.Env, "PATH="+bin+string(os.PathListSeparator)+os.Getenv("PATH"))
	return c.Run()
}

func fixEnvironment(env []string, info api.DaemonInfo) []string {
	if slices.Contains(env, "AWS_ENDPOINT_URL="+info.URL) {
		return env
	}
	out := slices.DeleteFunc(slices.Clone(env), func(kv string) bool {
		name, _, _ := strings.Cut(kv, "=")
		return slices.Contains(unset, name) || strings.HasPrefix(name, "AWS_ENDPOINT_URL")
	})
	for _, v := range environment(info) {
		out = append(out, v[0]+"="+v[1])
	}
	if account := defaultAccount(); account != "" { // the daemon's default user is another account's
		return withCredentials(out, rootOf(account))
	}
	return out
}

// mendChain fixes the first step of a chain that fails and has a fix.
func (f *applyFlags) mendChain(ctx context.Context, o *globalOptions, ask func(context.Context) (explanation, error)) error {
	e, err := ask(ctx)
	if err != nil {
		return &ExitError{2, err}
	}
	if _, err := fmt.Fprint(o.streams.Out, e.Text()); err != nil {
		return err
	}
	steps, done := e.Chain()
	if done {
		return nil
	}
	i := slices.IndexFunc(steps, func(s api.Step) bool { return s.State == api.StepFailed })
	if i < 0 || steps[i].Reason == nil {
		return &ExitError{1, fmt.Errorf("there is no fix to apply")}
	}
	name := steps[i].Name
	return f.mend(ctx, o, steps[i].Reason.Fixes, func(ctx context.Context) (outcome, error) {
		e, err := ask(ctx)
		if err != nil {
			return outcome{}, err
		}
		steps, done := e.Chain()
		now := outcome{done: done, says: e.Verdict()}
		for _, s := range steps {
			if s.Name == name {
				now.done = done || s.State == api.StepOK || s.State == api.StepWarning
				now.says = name + ": " + strings.TrimSpace(s.Evidence)
			}
		}
		return now, nil
	})
}
