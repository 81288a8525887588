package source

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"reflect"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/aws/retry"
	awsautoscaling "github.com/aws/aws-sdk-go-v2/service/autoscaling"
	awsec2 "github.com/aws/aws-sdk-go-v2/service/ec2"
	awsecr "github.com/aws/aws-sdk-go-v2/service/ecr"
	awseks "github.com/aws/aws-sdk-go-v2/service/eks"
	awselb "github.com/aws/aws-sdk-go-v2/service/elasticloadbalancing"
	awselbv2 "github.com/aws/aws-sdk-go-v2/service/elasticloadbalancingv2"
	awsiam "github.com/aws/aws-sdk-go-v2/service/iam"
	awskms "github.com/aws/aws-sdk-go-v2/service/kms"
	awsorg "github.com/aws/aws-sdk-go-v2/service/organizations"
	awsroute53 "github.com/aws/aws-sdk-go-v2/service/route53"
	awsservicequotas "github.com/aws/aws-sdk-go-v2/service/servicequotas"
	awsssm "github.com/aws/aws-sdk-go-v2/service/ssm"
	awssts "github.com/aws/aws-sdk-go-v2/service/sts"
	"github.com/aws/smithy-go"
	smithyhttp "github.com/aws/smithy-go/transport/http"
	"golang.org/x/sync/errgroup"
	"golang.org/x/time/rate"

	awsarn "github.com/drydock-dev/drydock/internal/arn"
	"github.com/drydock-dev/drydock/internal/twin"
	"github.com/drydock-dev/drydock/internal/twin/recording"
)

// Options say what to read.
type Options struct {
	// Dir is the folder of the recording. If it is empty, the recording is kept in memory only. An interrupted
	// recording in it is continued.
	Dir string
	// Scratch is used if Dir is empty, to go on where the same command was interrupted. It may be nil.
	Scratch *twin.Scratch
	// Accept is called with the source before anything of it is read. It may be nil. An error ends Read.
	Accept func(recording.Source) error
	// Clusters are the names of clusters. Empty means all.
	Clusters []string
	// NoKubernetes leaves out the objects in the clusters.
	NoKubernetes bool
	// Kubeconfig is a file whose contexts say how to reach the API servers of clusters, and as whom. If it is empty, the
	// clusters' endpoints are asked with the token of the credentials, as `aws eks get-token` makes it.
	Kubeconfig string
	// IAM is recording.UsedIAM to keep only what clusters and instances use of IAM, or empty to keep everything.
	IAM string
	// Unredacted keeps user data and the like as they are.
	Unredacted bool
	// Secrets keeps the values of Kubernetes Secrets.
	Secrets bool
	// Rate is how many calls are made per second. 0 means 10, which is well below the limits of EC2's and IAM's APIs.
	Rate float64
	// Progress is called after each answer with the number of answers so far. It may be nil. If an interrupted recording is
	// continued, the first call is without an action.
	Progress func(answers int, action string)
}

// A reader asks one source.
type reader struct {
	opt    Options
	rate   float64 // calls per second
	source recording.Source
	folder *twin.Folder

	ec2     *awsec2.Client
	iam     *awsiam.Client
	eks     *awseks.Client
	scaling *awsautoscaling.Client
	ssm     *awsssm.Client
	kms     *awskms.Client
	ecr     *awsecr.Client
	route53 *awsroute53.Client
	elb     *awselb.Client
	elbv2   *awselbv2.Client
	quotas  *awsservicequotas.Client

	organizations *awsorg.Client
	// token returns a bearer token for a cluster of the source.
	token func(ctx context.Context, cluster string) (string, error)

	answers, bytes atomic.Int64
}

// Read reads an account. cfg has the region and the user's credentials.
func Read(ctx context.Context, cfg aws.Config, opt Options) (*recording.Recording, error) {
	perSecond := cmp.Or(opt.Rate, defaultRate)
	cfg = readOnly(cfg, rate.NewLimiter(rate.Limit(perSecond), int(2*perSecond)+1))
	who, err := awssts.NewFromConfig(cfg).GetCallerIdentity(ctx, &awssts.GetCallerIdentityInput{})
	if err != nil {
		return nil, fmt.Errorf("asking who you are: %w", err)
	}
	a, err := awsarn.Parse(aws.ToString(who.Arn))
	if err != nil {
		return nil, fmt.Errorf("the source says that you are %q: %w", aws.ToString(who.Arn), err)
	}
	r := &reader{
		opt: opt, rate: perSecond, ec2: awsec2.NewFromConfig(cfg), iam: awsiam.NewFromConfig(cfg), eks: awseks.NewFromConfig(cfg), scaling: awsautoscaling.NewFromConfig(cfg), ssm: awsssm.NewFromConfig(cfg),
		kms: awskms.NewFromConfig(cfg), ecr: awsecr.NewFromConfig(cfg), route53: awsroute53.NewFromConfig(cfg), elb: awselb.NewFromConfig(cfg), elbv2: awselbv2.NewFromConfig(cfg), quotas: awsservicequotas.NewFromConfig(cfg), organizations: awsorg.NewFromConfig(cfg), token: tokens(cfg),
	}
	r.source = recording.Source{
		Format: recording.FormatVersion, Partition: a.Partition, Account: aws.ToString(who.Account), Region: cfg.Region, Caller: aws.ToString(who.Arn),
		Clusters: opt.Clusters, IAM: opt.IAM, Started: time.Now().UTC().Truncate(time.Second), Redacted: !opt.Unredacted, Secrets: opt.Secrets, NoKubernetes: opt.NoKubernetes,
	}
	if err := r.source.Check(); err != nil {
		return nil, err
	}
	if opt.Accept != nil {
		if err := opt.Accept(r.source); err != nil {
			return nil, err
		}
	}
	if opt.Dir == "" && opt.Scratch != nil {
		r.folder, err = opt.Scratch.Open(r.source)
	} else {
		r.folder, err = twin.OpenFolder(opt.Dir, r.source)
	}
	if err != nil {
		return nil, err
	}
	if started, answers := r.folder.Continued(); !started.IsZero() {
		r.source.Started = started
		r.answers.Store(int64(answers))
		if opt.Progress != nil {
			opt.Progress(answers, "")
		}
	}
	g, groupCtx := errgroup.WithContext(ctx)
	g.SetLimit(8)
	for _, part := range []func(context.Context) error{r.readNetwork, r.readInstances, r.readLaunchTemplates, r.readOIDC, r.readClusters, r.readScaling, r.readAgents, r.readParameters, r.readQuotas, r.readClassicBalancers, r.readBalancers, r.readKeys, r.readRepositories, r.readZones, r.readControls} {
		g.Go(func() error { return part(groupCtx) })
	}
	if err := g.Wait(); err != nil {
		return nil, err
	}
	if err := r.readIAM(ctx); err != nil { // it depends on the other parts
		return nil, err
	}
	return r.folder.Finish(r.source)
}

// An operation is one of the SDK's, with how to get from one page to the next.
type operation[In, Out, O any] struct {
	service, name string
	call          func(context.Context, *In, ...func(*O)) (*Out, error)
	// onePage leaves out all pages but the first.
	onePage bool
	// turn puts the token of the next page into the input, and reports whether there is one. Nil means turn.
	turn func(*In, *Out) bool
	// redact masks secrets in an output, and reports whether there were any. It may be nil.
	redact func(*Out) bool
	// trim removes from all pages what is not wanted, and returns the gap that this leaves. It may be nil.
	trim func([]*Out) *recording.Gap
}

// ask asks all pages of a question. subject is what a gap is about. Without permission, or if the subject no longer
// exists, it returns no pages and no error; a missing permission is recorded as a gap.
func ask[In, Out, O any](ctx context.Context, r *reader, op operation[In, Out, O], in *In, subject string) ([]*Out, error) {
	out, _, err := askFor(ctx, r, op, in, subject)
	return out, err
}

// askFor is ask. It also returns the gap that the answer leaves.
func askFor[In, Out, O any](ctx context.Context, r *reader, op operation[In, Out, O], in *In, subject string) ([]*Out, *recording.Gap, error) {
	question, err := json.Marshal(in)
	if err != nil {
		return nil, nil, err
	}
	if known, ok := r.folder.Answer(op.service, op.name, question); ok {
		out, err := decode[Out](known)
		return out, known.Gap, err
	}
	out, answer, err := pages(ctx, r, op, in, subject)
	if err != nil {
		return nil, nil, fmt.Errorf("%s: %w", recording.Action(op.service, op.name), err)
	}
	answer.Input = question
	n := r.answers.Add(1)
	if n > recording.MaxAnswers {
		return nil, nil, fmt.Errorf("%w: more than %d answers", recording.ErrTooLarge, recording.MaxAnswers)
	}
	if err := r.folder.Add(answer); err != nil {
		return nil, nil, fmt.Errorf("writing the recording: %w", err)
	}
	if r.opt.Progress != nil {
		r.opt.Progress(int(n), recording.Action(op.service, op.name))
	}
	return out, answer.Gap, nil
}

// pages asks the source for all pages of a question.
func pages[In, Out, O any](ctx context.Context, r *reader, op operation[In, Out, O], in *In, subject string) ([]*Out, recording.Answer, error) {
	answer := recording.Answer{Service: op.service, Operation: op.name}
	gap := recording.Gap{Service: op.service, Operation: op.name, Subject: subject}
	locate(&gap, in)
	var out []*Out
	for more := true; more; {
		page, err := op.call(ctx, in)
		if refused, ok := gapOf(err, gap); ok {
			// A source that answers the first page and refuses the second has said nothing that can be relied on.
			answer.Pages, answer.Gap = nil, refused
			return nil, answer, nil
		}
		if isGone(err) {
			answer.Pages = nil
			return nil, answer, nil
		}
		if err != nil {
			return nil, answer, err
		}
		before, err := json.Marshal(in)
		if err != nil {
			return nil, answer, err
		}
		if op.turn != nil {
			more = op.turn(in, page)
		} else {
			more = !op.onePage && turn(in, page)
		}
		if after, err := json.Marshal(in); err != nil {
			return nil, answer, err
		} else if more && string(after) == string(before) {
			return nil, answer, errors.New("the source repeats a page token, so its pages would never end")
		}
		if op.redact != nil && r.source.Redacted && op.redact(page) {
			redacted := gap
			redacted.Code, answer.Gap = recording.Redacted, &redacted
		}
		raw, err := json.Marshal(page)
		if err != nil {
			return nil, answer, err
		}
		if len(answer.Pages) == recording.MaxPages {
			return nil, answer, fmt.Errorf("%w: more than %d pages", recording.ErrTooLarge, recording.MaxPages)
		}
		if r.bytes.Add(int64(len(raw))) > recording.MaxBytes {
			return nil, answer, fmt.Errorf("%w: more than %d MiB together", recording.ErrTooLarge, recording.MaxBytes>>20)
		}
		answer.Pages, out = append(answer.Pages, raw), append(out, page)
	}
	if op.trim != nil && answer.Gap == nil {
		answer.Gap, answer.Pages = op.trim(out), nil
		for _, page := range out {
			raw, err := json.Marshal(page)
			if err != nil {
				return nil, answer, err
			}
			answer.Pages = append(answer.Pages, raw)
		}
	}
	return out, answer, nil
}

// locate notes the cluster that a question is about, and the kind of objects.
func locate(g *recording.Gap, in any) {
	switch in := in.(type) {
	case *listInput:
		g.Cluster, g.Resource = in.Cluster, in.GroupResource()
	case *awseks.DescribeClusterInput:
		g.Cluster = aws.ToString(in.Name)
	case *awseks.ListUpdatesInput:
		g.Cluster = aws.ToString(in.Name)
	case *awseks.DescribeUpdateInput:
		g.Cluster = aws.ToString(in.Name)
	default:
		if f := reflect.ValueOf(in).Elem().FieldByName("ClusterName"); f.IsValid() {
			name, _ := f.Interface().(*string)
			g.Cluster = aws.ToString(name)
		}
	}
}

func decode[Out any](a recording.Answer) ([]*Out, error) {
	var out []*Out
	for _, page := range a.Pages {
		v := new(Out)
		if err := json.Unmarshal(page, v); err != nil {
			return nil, fmt.Errorf("%s in the interrupted recording: %w", recording.Action(a.Service, a.Operation), err)
		}
		out = append(out, v)
	}
	return out, nil
}

// gapOf returns the gap that an error leaves: permission is missing, the source does not have the operation, or it does not
// answer about this one resource, such as a cluster that is being created.
func gapOf(err error, gap recording.Gap) (*recording.Gap, bool) {
	api, ok := errors.AsType[smithy.APIError](err)
	if !ok {
		return nil, false
	}
	gap.Code, gap.Message = api.ErrorCode(), api.ErrorMessage()
	if gap.IsDenied() || gap.Code == recording.Unreachable {
		return &gap, true
	}
	resp, ok := errors.AsType[*smithyhttp.ResponseError](err)
	return &gap, ok && (resp.HTTPStatusCode() == http.StatusNotImplemented || gap.Subject != "" && refusedAlone(resp.HTTPStatusCode(), gap.Code) && !isGone(err))
}

// unusable are the codes of errors about the caller's credentials: every other question would fail, too.
var unusable = []string{
	"AuthFailure", "ExpiredToken", "ExpiredTokenException", "IncompleteSignature", "InvalidAccessKeyId", "InvalidClientTokenId", "InvalidSignatureException", "MissingAuthenticationToken",
	"MissingAuthenticationTokenException", "OptInRequired", "RequestExpired", "RequestTimeTooSkewed", "SignatureDoesNotMatch", "UnrecognizedClientException",
}

// refusedAlone reports whether an error with a status and code is about the question, and says nothing about others.
func refusedAlone(status int, code string) bool {
	_, throttled := retry.DefaultThrottleErrorCodes[code]
	return status >= 400 && status < 500 && status != http.StatusTooManyRequests && !throttled && !slices.Contains(unusable, code)
}

// isGone reports whether an error means that the subject was deleted after it was listed.
func isGone(err error) bool {
	api, ok := errors.AsType[smithy.APIError](err)
	if !ok {
		return false
	}
	return strings.HasSuffix(api.ErrorCode(), ".NotFound") || slices.Contains([]string{ // EC2 has one for each kind of resource
		"NoSuchEntity", "ResourceNotFoundException", "NotFoundException", "RepositoryNotFoundException", "RepositoryPolicyNotFoundException", "NoSuchHostedZone",
		"AWSOrganizationsNotInUseException", "PolicyTypeNotEnabledException", "LoadBalancerNotFound", "ListenerNotFound", "TargetGroupNotFound", "RuleNotFound",
	}, api.ErrorCode())
}

// turn puts the token of the next page into an operation's input, and reports whether there is one. The members have the
// same names in all services.
func turn(in, out any) bool {
	to, from := reflect.ValueOf(in).Elem(), reflect.ValueOf(out).Elem()
	if truncated := from.FieldByName("IsTruncated"); truncated.IsValid() && truncated.Kind() == reflect.Bool && !truncated.Bool() {
		return false
	}
	for _, names := range [][2]string{{"NextToken", "NextToken"}, {"Marker", "Marker"}, {"NextMarker", "Marker"}} {
		token, member := from.FieldByName(names[0]), to.FieldByName(names[1])
		if !token.IsValid() || !member.IsValid() || token.Type() != member.Type() {
			continue
		}
		if text, ok := token.Interface().(*string); ok && aws.ToString(text) != "" {
			member.Set(token)
			return true
		}
	}
	return false
}
