// Package autoscaling answers the Amazon EC2 Auto Scaling API: groups, launch configurations,
// lifecycle hooks, scaling policies (as records), instance refreshes, tags and scaling activities.
//
// Handlers store the desired state in a group's record. A reconciler (lifecycle_*.go) launches,
// monitors, replaces and terminates the group's instances with ordinary EC2 calls. It stores each
// launch with a client token before it calls EC2, so that a crash neither loses nor duplicates
// instances.
//
//	launch plan ─► Pending ─► [Pending:Wait ─►] InService ⇄ Standby
//	                 └──────────────┴──────────────┴─► [Terminating:Wait ─►] Terminating ─► gone
//
// The package does not start machines or know about clusters. Only the composition root imports
// it.
package autoscaling

import (
	"cmp"
	"context"
	"log/slog"
	"net/url"
	"time"

	awsec2 "github.com/aws/aws-sdk-go-v2/service/ec2"
	"k8s.io/utils/clock"

	"github.com/drydock-dev/drydock/internal/awsapi"
	"github.com/drydock-dev/drydock/internal/awsapi/regional"
	timing "github.com/drydock-dev/drydock/internal/clock"
	"github.com/drydock-dev/drydock/internal/store"
)

// EC2 are the EC2 operations that a group needs. Their context has an awsapi.Call in the group's
// account and region by the principal autoscaling.amazonaws.com.
type EC2 interface {
	RunInstances(context.Context, *awsec2.RunInstancesInput) (*awsec2.RunInstancesOutput, error)
	TerminateInstances(context.Context, *awsec2.TerminateInstancesInput) (*awsec2.TerminateInstancesOutput, error)
	StartInstances(context.Context, *awsec2.StartInstancesInput) (*awsec2.StartInstancesOutput, error)
	StopInstances(context.Context, *awsec2.StopInstancesInput) (*awsec2.StopInstancesOutput, error)
	DescribeImages(context.Context, *awsec2.DescribeImagesInput) (*awsec2.DescribeImagesOutput, error)
	DescribeInstances(context.Context, *awsec2.DescribeInstancesInput) (*awsec2.DescribeInstancesOutput, error)
	DescribeSubnets(context.Context, *awsec2.DescribeSubnetsInput) (*awsec2.DescribeSubnetsOutput, error)
	DescribeLaunchTemplateVersions(context.Context, *awsec2.DescribeLaunchTemplateVersionsInput) (*awsec2.DescribeLaunchTemplateVersionsOutput, error)
	CreateTags(context.Context, *awsec2.CreateTagsInput) (*awsec2.CreateTagsOutput, error)
	DeleteTags(context.Context, *awsec2.DeleteTagsInput) (*awsec2.DeleteTagsOutput, error)
	GetInstanceTypesFromInstanceRequirements(context.Context, *awsec2.GetInstanceTypesFromInstanceRequirementsInput) (*awsec2.GetInstanceTypesFromInstanceRequirementsOutput, error)
}

// Instances looks up and watches the states of instances.
type Instances interface {
	// InstanceState returns a state such as running or terminated, or false if EC2 no longer knows
	// the instance.
	InstanceState(account, region, id string) (string, bool)
	// WatchInstances watches instances. The IDs of the keys are instance IDs.
	WatchInstances(store.Scope) *store.Watcher
}

// Config is what the service needs.
type Config struct {
	Store     *store.Store
	EC2       EC2
	Instances Instances
	// Sources are load balancers by type of traffic source: elb, elbv2. Traffic sources of other
	// types are stored but have no effect.
	Sources map[string]Sources
	// EnsureServiceRole makes a service-linked role in the caller's account, for the
	// caller, unless it exists. nil makes none.
	EnsureServiceRole func(ctx context.Context, role awsapi.ServiceRole) error
	// Held reports whether the groups of an account are left as they are: those of a twin. nil means that none are.
	Held func(account string) bool
	// HeldUntil returns when Held has become false for an account, or zero if it was always false. Nil means that.
	HeldUntil func(account string) time.Time
	Timing    timing.Timing
	Clock     clock.WithTicker // nil means the real clock
	Log       *slog.Logger     // nil means slog.Default
}

// Service is the Auto Scaling service.
type Service struct {
	cfg   Config
	store *store.Store
	clock clock.WithTicker
	log   *slog.Logger
}

// New returns the service. Call Run to reconcile groups.
func New(cfg Config) *Service {
	return &Service{cfg: cfg, store: cfg.Store, clock: cmp.Or[clock.WithTicker](cfg.Clock, clock.RealClock{}), log: cmp.Or(cfg.Log, slog.Default())}
}

func (s *Service) now() time.Time { return timing.Stamp(s.clock) }

// asService returns a context for calls by Auto Scaling itself.
func (s *Service) asService(ctx context.Context, account, region string) context.Context {
	return awsapi.AsService(ctx, account, region, serviceRole, s.clock.Now())
}

// serviceRole is Auto Scaling's service-linked role.
var serviceRole = awsapi.ServiceRole{Service: "autoscaling.amazonaws.com", Name: "AWSServiceRoleForAutoScaling", Session: "AutoScaling"}

// scope is an account and region.
type scope struct{ regional.Scope }

func scopeOf(ctx context.Context) scope { return scope{regional.Of(ctx)} }

// group returns the key of a group or launch configuration. Names can contain nearly any character,
// so they are escaped, because resources of a group have keys "GROUP/…".
func (sc scope) group(name string) store.Key { return sc.Key(url.QueryEscape(name)) }
