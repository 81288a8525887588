package cli

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/config"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/credentials/stscreds"
	"github.com/aws/smithy-go/logging"
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
	refresh, discard          bool
	noKubernetes, secrets     bool
	kubeconfig                string
	clusters                  []string
	iam                       string
	output                    string

	// question is the command that asks the twin afterwards, without its place. It is empty for drydock import, which always replaces a twin.
	question string
	// accept is called with the source before it is read. It may be nil.
	accept  func(recording.Source) error
	refused bool // by accept
	// scratch keeps the answers so far. It is nil if the command cannot be resumed.
	scratch *twin.Scratch
}

func newImport(o *globalOptions) *cobra.Command {
	var f importFlags
	cmd := &cobra.Command{
		Use:   "import",
		Short: "Copy an AWS account (read-only) into Drydock, to ask why and what if about the copy",
		Long: `Read the network, the instances, the IAM policies and the EKS clusters of an AWS account
with your own credentials, and load them into Drydock's account of the same number. IDs, names and
addresses stay AWS's own. Then "drydock why … --account NUMBER" answers for the copy.

Nothing is written to AWS: only the operations that --plan prints are called, and every
other one is refused before it is sent. Credentials are used in this process only. What
may not be read is recorded as unknown, and verdicts that depend on it say so. Secrets in
user data are masked unless --unredacted is given.

Changes to a twin are what-if. --refresh reads the source again, shows how the twin
differs from it, and puts the twin back.

--record saves what AWS answered in a folder, and --replay loads such a folder, so that
one person can read the account and another can analyse it. The same command continues an
interrupted recording, and within a quarter of an hour also an interrupted import.`,
		Example: `  drydock import --plan
  drydock import --profile prod --region eu-west-1
  drydock import --profile prod --region eu-west-1 --record ./prod
  drydock import --replay ./prod
  drydock why reach --account 111122223333 --region eu-west-1 --from i-… --to i-…:443`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) (err error) {
			switch {
			case f.output != "text" && f.output != "json":
				return &ExitError{2, fmt.Errorf("--output %q is not text or json", f.output)}
			case f.iam != "" && f.iam != "all" && f.iam != recording.UsedIAM:
				return &ExitError{2, fmt.Errorf("--iam %q is not all or %s", f.iam, recording.UsedIAM)}
			case f.plan:
				return f.printPlan(o)
			case f.record != "" && f.replay != "":
				return &ExitError{2, withHint(errors.New("--record and --replay cannot be used together"), "drydock import --replay "+f.replay)}
			}
			if f.record == "" {
				if _, err := o.client(); err != nil { // before minutes of reading
					return err
				}
			}
			defer func() { err = f.released(err) }()
			r, err := f.source(cmd.Context(), o)
			if err != nil {
				return err
			}
			if f.record != "" {
				o.progress("Recorded %d responses from account %s in %s.", len(r.Answers), r.Source.Account, f.record)
				return nil
			}
			out := imported{Differences: []twin.Difference{}}
			if f.refresh {
				if out.Differences, err = f.differences(cmd.Context(), o, r); err != nil {
					return err
				}
			}
			if out.Twin, err = f.load(cmd.Context(), o, r); err != nil {
				return err
			}
			for _, d := range out.Twin.Differences {
				out.Differences = append(out.Differences, twin.Difference(d))
			}
			out.Twin.Differences = nil
			return f.print(o, &out)
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&f.profile, "profile", "", "the profile of AWS's configuration to read with (default: the environment's credentials)")
	flags.StringVar(&f.region, "region", "", "the region to read (default: the profile's)")
	flags.StringVar(&f.endpoint, "endpoint-url", "", "the source's endpoint, if it is not AWS")
	flags.BoolVar(&f.plan, "plan", false, "only print the calls that would be made, and the IAM policy that allows them")
	flags.StringVar(&f.record, "record", "", "save the responses in this folder instead of loading them")
	flags.StringVar(&f.replay, "replay", "", "load the responses in this folder instead of calling AWS")
	flags.BoolVar(&f.refresh, "refresh", false, "show how the twin and the source differ, then put the twin back")
	flags.BoolVar(&f.replace, "replace", false, "overwrite the account even if it is not a twin")
	flags.StringSliceVar(&f.clusters, "cluster", nil, "read only this cluster; may be repeated (default: all)")
	flags.BoolVar(&f.noKubernetes, "no-kubernetes", false, "do not read the objects in the clusters")
	flags.BoolVar(&f.secrets, "secrets", false, "keep the values of Kubernetes Secrets (default: only their names, types and keys)")
	flags.StringVar(&f.kubeconfig, "kubeconfig", "", "reach the clusters as this file says, such as through a tunnel (default: their endpoints, with a token like that of aws eks get-token)")
	flags.StringVar(&f.iam, "iam", "", "what to keep of IAM: all, or used by clusters and instances (default: used with --cluster, otherwise all)")
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
func (f *importFlags) printPlan(o *globalOptions) error {
	rows := [][]string{{"CALL", "FOR"}}
	for _, op := range twin.Operations() {
		if op.Service == twin.Kubernetes && f.noKubernetes {
			continue
		}
		rows = append(rows, []string{recording.Action(op.Service, op.Name), op.Why})
	}
	if err := o.printTable(rows); err != nil {
		return err
	}
	clusters := ""
	if !f.noKubernetes {
		clusters = "In clusters, the access policy AmazonEKSAdminViewPolicy allows listing everything.\n"
	}
	_, err := fmt.Fprintf(o.streams.Out, "\nNothing else is called. %sThis policy allows it (GetCallerIdentity needs no permission):\n\n%s\n", clusters, twin.Policy())
	return err
}

// read asks the source.
func (f *importFlags) read(ctx context.Context, o *globalOptions) (*recording.Recording, error) {
	options := []func(*config.LoadOptions) error{
		config.WithLogger(logging.Nop{}), // the SDK's warnings are for programmers
		config.WithAssumeRoleCredentialOptions(func(a *stscreds.AssumeRoleOptions) { // for profiles with mfa_serial
			a.TokenProvider = func() (code string, err error) {
				fmt.Fprintf(o.streams.Err, "MFA code of %s: ", aws.ToString(a.SerialNumber))
				_, err = fmt.Fscanln(o.streams.In, &code)
				return code, err
			}
			if a.Duration == 0 { // an hour, which every role allows: the SDK's quarter of one would ask for the code again and again
				a.Duration = time.Hour
			}
		}),
	}
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
	keep := f.iam
	switch {
	case keep == "all":
		keep = ""
	case keep == "" && len(f.clusters) > 0:
		keep = recording.UsedIAM
	}
	// --refresh compares with the source as it is. What is not masked, or shall not stay, is not written to disk.
	if f.record == "" && !f.refresh && !f.secrets && !f.unredacted && !f.discard {
		if f.scratch, err = twin.TakeScratch(filepath.Join(o.dataDir, "twins"), f.command(), time.Now().Add(-twin.Resumable)); err != nil {
			return nil, err
		}
	}
	var mu sync.Mutex // several questions are asked at once
	var last time.Time
	return source.Read(ctx, cfg, source.Options{Dir: f.record, Scratch: f.scratch, Accept: f.accept, Clusters: f.clusters, IAM: keep, NoKubernetes: f.noKubernetes, Kubeconfig: f.kubeconfig, Unredacted: f.unredacted, Secrets: f.secrets, Progress: func(answers int, action string) {
		mu.Lock()
		defer mu.Unlock()
		if action == "" {
			o.progress("%s", f.resumed(answers))
		} else if now := time.Now(); now.Sub(last) > 2*time.Second {
			last = now
			o.progress("%d responses, now %s", answers, action)
		}
	}})
}

// source returns the recording of --replay, or reads the source.
func (f *importFlags) source(ctx context.Context, o *globalOptions) (*recording.Recording, error) {
	if f.replay == "" {
		r, err := f.read(ctx, o)
		if err != nil {
			return nil, withHint(fmt.Errorf("reading the source: %w", err), "aws sts get-caller-identity"+profileFlag(f.profile))
		}
		return r, nil
	}
	r, err := twin.ReadFolder(f.replay)
	if errors.Is(err, fs.ErrNotExist) {
		err = withHint(fmt.Errorf("%s does not hold a recording", f.replay), "drydock import --record "+f.replay)
	}
	if err == nil && f.accept != nil {
		err = f.accept(r.Source)
	}
	return r, err
}

// resumed says that answers of an earlier run are used.
func (f *importFlags) resumed(answers int) string {
	if f.scratch != nil {
		if dir, read, ok := f.scratch.Complete(); ok {
			return fmt.Sprintf("Using what was read at %s; delete %s to read it again.", read.Local().Format("15:04"), dir)
		}
	}
	return fmt.Sprintf("Resuming where reading was interrupted, after %d responses.", answers)
}

// command identifies what the flags ask to read.
func (f *importFlags) command() string {
	asked := sha256.Sum256(fmt.Appendf(nil, "%q", []any{f.profile, f.region, f.endpoint, f.unredacted, f.noKubernetes, f.secrets, f.kubeconfig, f.clusters, f.iam}))
	return hex.EncodeToString(asked[:8])
}

// twin makes the twin, as drydock import does.
func (f *importFlags) twin(ctx context.Context, o *globalOptions) (_ api.Twin, err error) {
	defer func() { err = f.released(err) }()
	r, err := f.source(ctx, o)
	if err != nil {
		return api.Twin{}, err
	}
	return f.load(ctx, o, r)
}

// released gives up the folder with the answers so far. It is kept for the next attempt if err says that there will be one.
func (f *importFlags) released(err error) error {
	if f.scratch == nil {
		return err
	}
	return errors.Join(err, f.scratch.Release(err != nil && !f.refused))
}

// An imported is the answer of drydock import.
type imported struct {
	Twin api.Twin `json:"twin"`
	// Differences are those of --refresh.
	Differences []twin.Difference `json:"differences"`
}

func (f *importFlags) print(o *globalOptions, out *imported) error {
	if f.output == "json" {
		return o.printJSON(out)
	}
	text := ""
	if f.refresh {
		text = fmt.Sprintf("The twin and its source differ in %d places.\n", len(out.Differences))
		for _, d := range out.Differences {
			text += "  " + d.String() + "\n"
		}
	}
	_, err := fmt.Fprint(o.streams.Out, text+out.Twin.Text())
	return err
}

// differences reads the twin by the same questions as the source, and compares.
func (f *importFlags) differences(ctx context.Context, o *globalOptions, r *recording.Recording) ([]twin.Difference, error) {
	daemon, err := o.client()
	if err != nil {
		return nil, err
	}
	account, region := r.Source.Account, r.Source.Region
	twins, err := daemon.Twins(ctx)
	if err != nil {
		return nil, o.orHint(err, "drydock status", "drydock import")
	}
	if !slices.ContainsFunc(twins, func(t api.Twin) bool { return t.Account == account && t.Region == region }) {
		return nil, withHint(fmt.Errorf("there is no twin of account %s in %s", account, region), "drydock import")
	}
	now, err := source.Read(ctx, aws.Config{
		Region: region, BaseEndpoint: &daemon.Daemon.URL, Credentials: credentials.NewStaticCredentialsProvider(account, "test", ""), // the account's root
	}, source.Options{Clusters: r.Source.Clusters, NoKubernetes: true, Unredacted: !r.Source.Redacted, Rate: 1000})
	if err != nil {
		return nil, fmt.Errorf("reading the twin: %w", err)
	}
	return twin.Compare(now, r)
}

// load sends a recording to the daemon.
func (f *importFlags) load(ctx context.Context, o *globalOptions, r *recording.Recording) (api.Twin, error) {
	daemon, err := o.client()
	if err != nil {
		return api.Twin{}, err
	}
	body, w := io.Pipe()
	go func() { _ = w.CloseWithError(twin.Send(r, w)) }() // ends with the request, which closes body
	options := api.ImportOptions{Replace: f.replace, Compare: f.refresh}
	if f.question != "" { // the twin may have been changed while the source was read
		options.Unchanged, options.Absent = true, f.discard
	}
	t, err := daemon.ImportTwin(ctx, body, options)
	_ = body.Close()
	if refused, ok := errors.AsType[*api.Error](err); ok && refused.Status == http.StatusConflict {
		if f.question != "" {
			if why := f.checkReplace(ctx, daemon, r.Source); why != nil {
				return t, why
			}
		}
		return t, withHint(err, "drydock import --replace, or drydock reset --account "+r.Source.Account)
	}
	if err != nil {
		return t, o.orHint(err, "drydock status", "drydock import --plan")
	}
	return t, nil
}
