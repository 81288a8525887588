package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/config"
	"github.com/spf13/cobra"

	"github.com/drydock-dev/drydock/internal/api"
	"github.com/drydock-dev/drydock/internal/twin"
	"github.com/drydock-dev/drydock/internal/twin/recording"
	"github.com/drydock-dev/drydock/internal/twin/source"
)

// importFlags are the flags of drydock import.
type importFlags struct {
	profile, region, endpoint string
	record, replay            string
	plan, replace, unredacted bool
	noKubernetes              bool
	clusters                  []string
	output                    string
}

func newImport(o *globalOptions) *cobra.Command {
	var f importFlags
	cmd := &cobra.Command{
		Use:   "import",
		Short: "Copy an AWS account (read-only) into Drydock, to ask why and what if there",
		Long: `Read the network, the instances, the IAM policies and the EKS clusters of an AWS account
with your own credentials, and load them into Drydock's account of the same number. IDs, names and
addresses stay AWS's own. Then "drydock why … --account NUMBER" answers for the copy.

Nothing is written to AWS: only the operations that --plan prints are called, and every
other one is refused before it is sent. Credentials are used in this process only. What
may not be read is recorded as unknown, and verdicts that depend on it say so. Secrets in
user data are masked unless --unredacted is given.

--record saves what AWS answered in a folder, and --replay loads such a folder, so that
one person can read the account and another can analyse it. An interrupted recording is
continued by the same command.`,
		Example: `  drydock import --plan
  drydock import --profile prod --region eu-west-1
  drydock import --profile prod --region eu-west-1 --record ./prod
  drydock import --replay ./prod
  drydock why reach --account 111122223333 --region eu-west-1 --from i-… --to i-…:443`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			switch {
			case f.output != "text" && f.output != "json":
				return &ExitError{2, fmt.Errorf("--output %q is not text or json", f.output)}
			case f.plan:
				return o.printPlan()
			case f.record != "" && f.replay != "":
				return &ExitError{2, withHint(errors.New("--record and --replay exclude each other"), "drydock import --replay "+f.replay)}
			case f.replay != "":
				r, err := twin.ReadFolder(f.replay)
				if errors.Is(err, fs.ErrNotExist) {
					err = withHint(fmt.Errorf("%s does not hold a recording", f.replay), "drydock import --record "+f.replay)
				}
				if err != nil {
					return err
				}
				return f.load(cmd.Context(), o, r)
			}
			r, err := f.read(cmd.Context(), o)
			if err != nil {
				return withHint(fmt.Errorf("reading the source: %w", err), "aws sts get-caller-identity"+profileFlag(f.profile))
			}
			if f.record != "" {
				o.progress("Recorded %d answers of account %s in %s.", len(r.Answers), r.Source.Account, f.record)
				return nil
			}
			return f.load(cmd.Context(), o, r)
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&f.profile, "profile", "", "the profile of AWS's configuration to read with (default: the environment's credentials)")
	flags.StringVar(&f.region, "region", "", "the region to read (default: the profile's)")
	flags.StringVar(&f.endpoint, "endpoint-url", "", "the source's endpoint, if it is not AWS")
	flags.BoolVar(&f.plan, "plan", false, "only print what would be called, and the IAM policy that allows it")
	flags.StringVar(&f.record, "record", "", "save the answers in this folder instead of loading them")
	flags.StringVar(&f.replay, "replay", "", "load the answers in this folder instead of asking AWS")
	flags.BoolVar(&f.replace, "replace", false, "overwrite the account even if it is not a twin")
	flags.StringSliceVar(&f.clusters, "cluster", nil, "read only this cluster; may be repeated (default: all)")
	flags.BoolVar(&f.noKubernetes, "no-kubernetes", false, "do not read the objects in the clusters")
	flags.BoolVar(&f.unredacted, "unredacted", false, "keep secrets in user data")
	outputFlag(cmd, &f.output)
	return cmd
}

func profileFlag(profile string) string {
	if profile == "" {
		return ""
	}
	return " --profile " + profile
}

// printPlan prints the operations with their reasons, and the policy.
func (o *globalOptions) printPlan() error {
	rows := [][]string{{"CALL", "FOR"}}
	for _, op := range twin.Operations() {
		rows = append(rows, []string{recording.Action(op.Service, op.Name), op.Why})
	}
	if err := o.printTable(rows); err != nil {
		return err
	}
	_, err := fmt.Fprintf(o.streams.Out, "\nNothing else is called. This policy allows it (GetCallerIdentity needs no permission):\n\n%s\n", twin.Policy())
	return err
}

// read asks the source.
func (f *importFlags) read(ctx context.Context, o *globalOptions) (*recording.Recording, error) {
	var options []func(*config.LoadOptions) error
	if f.profile != "" {
		options = append(options, config.WithSharedConfigProfile(f.profile))
	}
	if f.region != "" {
		options = append(options, config.WithRegion(f.region))
	}
	cfg, err := config.LoadDefaultConfig(ctx, options...)
	if err != nil {
		return nil, err
	}
	if cfg.Region == "" {
		return nil, errors.New("--region is missing")
	}
	if f.endpoint != "" {
		cfg.BaseEndpoint = aws.String(f.endpoint)
	}
	var last time.Time
	return source.Read(ctx, cfg, source.Options{Dir: f.record, Clusters: f.clusters, NoKubernetes: f.noKubernetes, Unredacted: f.unredacted, Progress: func(answers int, action string) {
		if now := time.Now(); now.Sub(last) > 2*time.Second {
			last = now
			o.progress("%d answers, now %s", answers, action)
		}
	}})
}

// load sends a recording to the daemon.
func (f *importFlags) load(ctx context.Context, o *globalOptions, r *recording.Recording) error {
	daemon, err := o.client()
	if err != nil {
		return err
	}
	body, w := io.Pipe()
	go func() { _ = w.CloseWithError(twin.Send(r, w)) }() // ends with the request, which closes body
	t, err := daemon.ImportTwin(ctx, body, f.replace)
	_ = body.Close()
	if refused, ok := errors.AsType[*api.Error](err); ok && refused.Status == http.StatusConflict {
		return withHint(err, "drydock import --replace, or drydock reset --account "+r.Source.Account)
	}
	if err != nil {
		return o.orHint(err, "drydock status", "drydock import --plan")
	}
	if f.output == "json" {
		return o.printJSON(t)
	}
	_, err = fmt.Fprint(o.streams.Out, t.Text())
	return err
}
