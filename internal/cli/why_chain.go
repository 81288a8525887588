package cli

import (
	"context"
	"fmt"
	"strings"
	"time"
)

// The states of a step.
const (
	StepOK      = "ok"
	StepFailed  = "failed"
	StepWarning = "warning"
	StepPending = "pending" // not reached yet
)

// A Step is one on the way of a node or a pod to where it is of use.
type Step struct {
	Name     string    `json:"name"`
	State    string    `json:"state"`
	Evidence string    `json:"evidence,omitempty"`
	Time     time.Time `json:"time,omitzero"`
	Reason   *Reason   `json:"reason,omitempty"`
}

// A Reason is the decision behind a step that failed.
type Reason struct {
	By        string   `json:"by"` // network, IAM, cluster, …
	Code      string   `json:"code,omitempty"`
	Component string   `json:"component,omitempty"`
	Text      string   `json:"text"`
	Fixes     []string `json:"fixes,omitempty"`
}

func firstFailed(steps []Step) *Step {
	for i := range steps {
		if steps[i].State == StepFailed {
			return &steps[i]
		}
	}
	return nil
}

// chainText draws a chain of steps: one screen.
func chainText(title string, steps []Step, notes []string, verdict string) string {
	var b strings.Builder
	b.WriteString(title + "\n\n")
	for i := range steps {
		steps[i].write(&b)
	}
	for _, n := range notes {
		b.WriteString("  ! " + n + "\n")
	}
	b.WriteString("\n" + verdict + "\n")
	return b.String()
}

func (s *Step) write(b *strings.Builder) {
	mark := map[string]string{StepOK: "✔", StepFailed: "✘", StepWarning: "!", StepPending: "·"}[s.State]
	lines := strings.Split(strings.TrimRight(s.Evidence, "\n"), "\n")
	fmt.Fprintf(b, "%s\n", strings.TrimRight(fmt.Sprintf("  %s %-16s  %s", mark, s.Name, lines[0]), " "))
	for _, l := range lines[1:] {
		b.WriteString("      " + l + "\n")
	}
	if s.Reason != nil {
		s.Reason.write(b, "      ")
	}
}

func (r *Reason) write(b *strings.Builder, indent string) {
	head := "because of " + r.By
	if r.Code != "" {
		head += ", " + r.Code
	}
	if r.Component != "" {
		head += ", " + r.Component
	}
	b.WriteString(indent + head + ":\n")
	for line := range strings.Lines(r.Text) {
		b.WriteString(indent + "  " + strings.TrimRight(line, "\n") + "\n")
	}
	for i, f := range r.Fixes {
		label := "fix: "
		if i > 0 {
			label = "or:  "
		}
		b.WriteString(indent + label + f + "\n")
	}
}

// An explanation is a chain of steps that ends where all is well.
type explanation interface {
	Text() string
	// chain returns the steps, and whether the end is reached.
	chain() (steps []Step, done bool)
	verdict() string
}

// whyChain asks for an explanation and shows it, or what is new of it until its end.
// Its error is exit code 1 while the end is not reached, and 2 when there is no answer.
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
	if _, done := e.chain(); err == nil && !done {
		return &ExitError{Code: 1}
	}
	return err
}

// watchChain prints what is new of the steps until the end is reached.
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
		steps, done := e.chain()
		for _, s := range steps {
			if key := s.Name + s.State + s.Evidence; s.State != StepPending && !shown[key] {
				shown[key] = true
				s.write(&b)
			}
		}
		if _, err := fmt.Fprint(o.streams.Out, b.String()); err != nil {
			return err
		}
		if done {
			_, err := fmt.Fprintln(o.streams.Out, "\n"+e.verdict())
			return err
		}
		select {
		case <-ctx.Done():
			return &ExitError{Code: 1}
		case <-tick.C:
		}
	}
}
