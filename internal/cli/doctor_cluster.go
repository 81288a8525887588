package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/drydock-dev/drydock/internal/api"
	"github.com/drydock-dev/drydock/internal/twin/recording"
)

// A doctorFlags has the flags of drydock doctor.
type doctorFlags struct {
	importFlags
	place   api.Place
	cluster string
	output  string
	timeout time.Duration
}

// diagnose is drydock doctor.
func (f *doctorFlags) diagnose(cmd *cobra.Command, o *globalOptions) (err error) {
	switch f.output {
	case "text", "json", "sarif", "html":
	default:
		return &ExitError{2, fmt.Errorf("--output %q is not text, json, sarif or html", f.output)}
	}
	if err := f.checkDiscard(); err != nil {
		return err
	}
	ctx := cmd.Context()
	daemon, err := o.client()
	if err != nil {
		return &ExitError{2, err}
	}
	if f.reads() {
		if err := f.take(ctx, o, daemon); err != nil {
			return err
		}
	}
	defer func() { err = f.discarded(ctx, daemon, f.place.Account, err) }()
	d, err := f.settled(ctx, o, daemon)
	if err != nil {
		return &ExitError{2, o.orHint(err, "drydock status", "drydock import")}
	}
	switch f.output {
	case "json":
		err = o.printJSON(d)
	case "sarif":
		err = d.SARIF(o.streams.Out)
	case "html":
		err = d.HTML(o.streams.Out)
	default:
		_, err = fmt.Fprint(o.streams.Out, d.Text())
	}
	switch {
	case err != nil:
		return err
	case d.Has(api.HarmError):
		return &ExitError{Code: 1}
	case d.Has(api.HarmUnknown):
		return &ExitError{Code: 3}
	}
	return nil
}

// reads reports whether the flags say to read an account of AWS first.
func (f *importFlags) reads() bool { return f.profile != "" || f.replay != "" || f.endpoint != "" }

// sourceFlags adds the flags of commands that can read an account of AWS first.
func (f *importFlags) sourceFlags(flags *pflag.FlagSet) {
	flags.StringVar(&f.profile, "profile", "", "first read the cluster from AWS with this profile, as drydock import does")
	flags.StringVar(&f.endpoint, "endpoint-url", "", "the source's endpoint, if it is not AWS")
	flags.StringVar(&f.replay, "replay", "", "first load the recording in this folder")
	flags.StringVar(&f.kubeconfig, "kubeconfig", "", "reach the clusters as this file says, such as through a tunnel (default: their endpoints, with a token like that of aws eks get-token)")
	flags.BoolVar(&f.replace, "replace", false, "overwrite the account even if it is not a twin, or a twin of something else or with changes")
	flags.BoolVar(&f.discard, "discard", false, "delete the twin at the end (default: keep it for further questions)")
}

// discarded deletes the twin that was made for a command if --discard says so. err is how the command ended.
func (f *importFlags) discarded(ctx context.Context, daemon *api.Client, account string, err error) error {
	if !f.discard || !f.reads() || account == "" {
		return err
	}
	left := daemon.Reset(context.WithoutCancel(ctx), account)
	if left == nil {
		return err
	}
	code := 2
	if exit, ok := errors.AsType[*ExitError](err); ok {
		if code = exit.Code; exit.Err == nil { // it only says what was found
			err = nil
		}
	}
	return &ExitError{code, withHint(errors.Join(err, fmt.Errorf("deleting the twin: %w", left)), "drydock reset --account "+account)}
}

// checkDiscard refuses --discard without a source: the account would not be a twin that the command has made.
func (f *importFlags) checkDiscard() error {
	if f.discard && !f.reads() {
		return &ExitError{2, withHint(errors.New("--discard deletes a twin that this command makes: add --profile, --endpoint-url or --replay, or delete the twin yourself"), "drydock reset --account NUMBER")}
	}
	return nil
}

// take reads the source, or a recording of it, and loads it as the twin that the other commands ask about.
func (f *doctorFlags) take(ctx context.Context, o *globalOptions, daemon *api.Client) error {
	if f.cluster != "" {
		f.clusters = []string{f.cluster}
	}
	f.question = strings.Join(append([]string{"drydock doctor"}, f.clusters...), " --cluster ")
	place, err := f.takeAt(ctx, o, daemon, f.place.Region)
	f.place = place
	return err
}

// takeAt is take for a region. It returns where the twin is.
func (f *importFlags) takeAt(ctx context.Context, o *globalOptions, daemon *api.Client, region string) (api.Place, error) {
	f.region = region
	f.accept = func(s recording.Source) error {
		err := f.checkReplace(ctx, daemon, s)
		f.refused = err != nil
		return err
	}
	t, err := f.twin(ctx, o)
	if err != nil {
		return api.Place{}, &ExitError{2, err}
	}
	return api.Place{Account: t.Account, Region: t.Region}, nil
}

// checkReplace returns an error if the account of a source is a twin already, and making it again for a question would lose something:
// changes, what was read with other choices, or at the end the twin itself.
func (f *importFlags) checkReplace(ctx context.Context, daemon *api.Client, s recording.Source) error {
	if f.replace {
		return nil
	}
	twins, err := daemon.Twins(ctx)
	if err != nil {
		return err
	}
	i := slices.IndexFunc(twins, func(t api.Twin) bool { return t.Account == s.Account })
	if i < 0 {
		return nil
	}
	t := twins[i]
	what := ""
	with := func(set bool, flag string) string {
		if set {
			return " that was read with " + flag
		}
		return " that was read without " + flag
	}
	switch {
	case t.Region != s.Region:
		what = " of " + t.Region
	case !slices.Equal(t.Clusters, s.Clusters):
		what = " of " + cmp.Or(strings.Join(t.Clusters, ", "), "all clusters")
	case t.Changed:
		what = " in which something was changed"
	case t.IAM != s.IAM:
		what = with(true, "--iam "+cmp.Or(t.IAM, "all"))
	case t.Secrets != s.Secrets:
		what = with(t.Secrets, "--secrets")
	case t.Redacted != s.Redacted:
		what = with(!t.Redacted, "--unredacted")
	case t.NoKubernetes != s.NoKubernetes:
		what = with(t.NoKubernetes, "--no-kubernetes")
	case !f.discard:
		return nil // it would be made as it is
	}
	hint := fmt.Sprintf("%s --account %s --region %s", f.question, s.Account, t.Region)
	if missing := func(c string) bool { return !slices.Contains(t.Clusters, c) }; t.Region != s.Region || len(t.Clusters) > 0 && slices.ContainsFunc(s.Clusters, missing) {
		hint = "drydock status" // the twin does not have what is asked
	}
	return withHint(fmt.Errorf("account %s is already a twin%s, which this command would replace. Without a source, the command diagnoses the twin as it is; --replace replaces it; drydock import --refresh discards its changes", s.Account, what),
		hint)
}

// settled diagnoses the cluster once its nodes have stopped joining, or the timeout has passed.
func (f *doctorFlags) settled(ctx context.Context, o *globalOptions, daemon *api.Client) (api.Diagnosis, error) {
	deadline := time.NewTimer(f.timeout)
	defer deadline.Stop()
	for wait := time.Second; ; wait = min(2*wait, 5*time.Second) {
		d, err := daemon.Diagnose(ctx, f.place, f.cluster, true)
		if err != nil || !d.Settling {
			return d, err
		}
		o.progress("Waiting for cluster %s and its nodes.", d.Cluster)
		select {
		case <-ctx.Done():
			return d, ctx.Err()
		case <-deadline.C:
			return daemon.Diagnose(ctx, f.place, f.cluster, false) // it says so itself
		case <-time.After(wait):
		}
	}
}
