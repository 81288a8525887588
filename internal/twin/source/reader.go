package source

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"reflect"
	"sync/atomic"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
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
	// Clusters are the names of clusters. Empty means all.
	Clusters []string
	// NoKubernetes leaves out the objects in the clusters.
	NoKubernetes bool
	// Kubeconfig is a file whose contexts say how to reach the API servers of clusters, and as whom. If it is empty, the
	// clusters' endpoints are asked with the token of the credentials, as `aws eks get-token` makes it.
	Kubeconfig string
	// IAM is recording.UsedIAM to keep only what clusters and instances use of IAM, or empty to keep everything.
	IAM string
	// Unredacted keeps user data and the like as they are. The values of Kubernetes Secrets are always left out.
	Unredacted bool
	// Rate is how many calls are made per second. 0 means 10, which is well below the limits of EC2's and IAM's APIs.
	Rate float64
	// Progress is called after each answer with the number of answers so far. It may be nil.
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
		kms: awskms.NewFromConfig(cfg), ecr: awsecr.NewFromConfig(cfg), route53: awsroute53.NewFromConfig(cfg), elb: awselb.NewFromConfig(cfg), elbv2: awselbv2.NewFromConfig(cfg), organizations: awsorg.NewFromConfig(cfg), token: tokens(cfg),
	}
	r.source = recording.Source{
		Format: recording.FormatVersion, Partition: a.Partition, Account: aws.ToString(who.Account), Region: cfg.Region, Caller: aws.ToString(who.Arn),
		Clusters: opt.Clusters, IAM: opt.IAM, Started: time.Now().UTC().Truncate(time.Second), Redacted: !opt.Unredacted,
	}
	if err := r.source.Check(); err != nil {
		return nil, err
	}
	if r.folder, err = twin.OpenFolder(opt.Dir, r.source); err != nil {
		return nil, err
	}
	g, groupCtx := errgroup.WithContext(ctx)
	g.SetLimit(8)
	for _, part := range []func(context.Context) error{r.readNetwork, r.readInstances, r.readLaunchTemplates, r.readOIDC, r.readClusters, r.readScaling, r.readAgents, r.readParameters, r.readClassicBalancers, r.readBalancers, r.readKeys, r.readRepositories, r.readZones, r.readControls} {
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
	question, err := json.Marshal(in)
	if err != nil {
		return nil, err
	}
	if known, ok := r.folder.Answer(op.service, op.name, question); ok {
		return decode[Out](known)
	}
	answer := recording.Answer{Service: op.service, Operation: op.name, Input: question}
	var out []*Out
	for more := true; more; {
		page, err := op.call(ctx, in)
		if gap, ok := gapOf(err, op.service, op.name, subject); ok {
			// A source that answers the first page and refuses the second has told nothing that can be relied on.
			answer.Pages, answer.Gap, out = nil, gap, nil
			break
		}
		if isGone(err) {
			answer.Pages, out = nil, nil
			break
		}
		if err != nil {
			return nil, fmt.Errorf("%s: %w", recording.Action(op.service, op.name), err)
		}
		before, err := json.Marshal(in)
		if err != nil {
			return nil, err
		}
		if op.turn != nil {
			more = op.turn(in, page)
		} else {
			more = !op.onePage && turn(in, page)
		}
		if after, err := json.Marshal(in); err != nil {
			return nil, err
		} else if more && string(after) == string(before) {
			return nil, fmt.Errorf("%s: the source repeats a page token, so its pages would never end", recording.Action(op.service, op.name))
		}
		if op.redact != nil && r.source.Redacted && op.redact(page) {
			answer.Gap = &recording.Gap{Service: op.service, Operation: op.name, Subject: subject, Code: recording.Redacted}
		}
		raw, err := json.Marshal(page)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", recording.Action(op.service, op.name), err)
		}
		if len(answer.Pages) == recording.MaxPages {
			return nil, fmt.Errorf("%s: %w: more than %d pages", recording.Action(op.service, op.name), recording.ErrTooLarge, recording.MaxPages)
		}
		if r.bytes.Add(int64(len(raw))) > recording.MaxBytes {
			return nil, fmt.Errorf("%s: %w: more than %d MiB together", recording.Action(op.service, op.name), recording.ErrTooLarge, recording.MaxBytes>>20)
		}
		answer.Pages, out = append(answer.Pages, raw), append(out, page)
	}
	if op.trim != nil && answer.Gap == nil {
		answer.Gap, answer.Pages = op.trim(out), nil
		for _, page := range out {
			raw, err := json.Marshal(page)
			if err != nil {
				return nil, fmt.Errorf("%s: %w", recording.Action(op.service, op.name), err)
			}
			answer.Pages = append(answer.Pages, raw)
		}
	}
	n := r.answers.Add(1)
	if n > recording.MaxAnswers {
		return nil, fmt.Errorf("%w: more than %d answers", recording.ErrTooLarge, recording.MaxAnswers)
	}
	if err := r.folder.Add(answer); err != nil {
		return nil, fmt.Errorf("writing the recording: %w", err)
	}
	if r.opt.Progress != nil {
		r.opt.Progress(int(n), recording.Action(op.service, op.name))
	}
	return out, nil
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

// gapOf returns the gap that an error leaves: permission is missing, or the source does not have the operation.
func gapOf(err error, service, name, subject string) (*recording.Gap, bool) {
	api, ok := errors.AsType[smithy.APIError](err)
	if !ok {
		return nil, false
	}
	gap := &recording.Gap{Service: service, Operation: name, Subject: subject, Code: api.ErrorCode(), Message: api.ErrorMessage()}
	resp, ok := errors.AsType[*smithyhttp.ResponseError](err)
	return gap, gap.IsDenied() || gap.Code == recording.Unreachable || ok && resp.HTTPStatusCode() == http.StatusNotImplemented
}

// isGone reports whether an error means that the subject was deleted after it was listed.
func isGone(err error) bool {
	api, ok := errors.AsType[smithy.APIError](err)
	if !ok {
		return false
	}
	switch api.ErrorCode() {
	case "NoSuchEntity", "ResourceNotFoundException", "InvalidInstanceID.NotFound", "InvalidVpcID.NotFound", "InvalidPrefixListID.NotFound",
		"NotFoundException", "RepositoryNotFoundException", "RepositoryPolicyNotFoundException", "NoSuchHostedZone",
		"AWSOrganizationsNotInUseException", "PolicyTypeNotEnabledException", "LoadBalancerNotFound", "ListenerNotFound", "TargetGroupNotFound", "RuleNotFound":
		return true
	}
	return false
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
