// Package eks answers the Amazon EKS API: clusters, managed node groups, access
// entries and access policies, tags and updates. It also decides who gets into a
// cluster (Authenticate, Authorize) as EKS does: by access entries, the aws-auth
// ConfigMap and access policies.
//
// It starts no control plane and boots no instance: it says which it wants
// through the small interfaces of Config, which internal/app connects to the
// control-plane package and to the EC2 and IAM services. No other service imports it.
//
// Handlers only write records; reconcilers (lifecycle_*.go) bring the world to
// what the records say, and may be killed and repeated at any point:
//
//	cluster    CREATING → ACTIVE ⇄ UPDATING → DELETING → gone
//	              └────→ FAILED ──────────────↗
//	nodegroup  CREATING → ACTIVE ⇄ UPDATING → DELETING → gone
//	              └────→ CREATE_FAILED ───────↗    └────→ DELETE_FAILED
package eks

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"

	awsautoscaling "github.com/aws/aws-sdk-go-v2/service/autoscaling"
	awsec2 "github.com/aws/aws-sdk-go-v2/service/ec2"
	awsiam "github.com/aws/aws-sdk-go-v2/service/iam"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	k8sclock "k8s.io/utils/clock"

	"github.com/drydock-dev/drydock/internal/awsapi"
	"github.com/drydock-dev/drydock/internal/clock"
	"github.com/drydock-dev/drydock/internal/store"
)

// A PlaneRequest says which control plane a cluster needs.
type PlaneRequest struct {
	// Owner is unique to one life of one cluster: its ARN and a UUID. Claiming
	// twice for one owner gives the same control plane.
	Owner           string
	Account, Region string
	Name            string // the cluster's, which clients send as x-k8s-aws-id
	Version         string // 1.36
	ServiceCIDR     string
	IPFamily        string // ipv4
}

// A Plane is a control plane that belongs to a cluster.
type Plane struct {
	ID string
	// Endpoint is cluster.endpoint: https://127.0.0.1:PORT.
	Endpoint string
	// AWSHost is the endpoint's name on AWS, without scheme:
	// 0123….gr7.us-east-1.eks.amazonaws.com. Nodes are told this one.
	AWSHost string
	CAPEM   []byte
	// Issuer is the OIDC issuer of the cluster's service accounts.
	Issuer string
	// PlatformVersion is eks.N; empty takes the version catalog's.
	PlatformVersion string
}

// ControlPlanes runs control planes.
type ControlPlanes interface {
	// Claim gives owner a control plane, booting or booted. It is idempotent
	// per owner, also across restarts.
	Claim(ctx context.Context, req PlaneRequest) (Plane, error)
	// WaitReady returns when the plane's API server answers.
	WaitReady(ctx context.Context, id string) error
	// Release ends a plane and removes everything it kept. Releasing an unknown
	// plane does nothing.
	Release(ctx context.Context, id string) error
	// SetAccess says from where the endpoint may be reached: by the public's
	// clients within cidrs, from inside the VPC.
	SetAccess(ctx context.Context, id string, public bool, cidrs []string, private bool) error
	// RESTConfig returns a client configuration with all rights on the plane.
	RESTConfig(id string) (*rest.Config, error)
	// Encrypt has a plane's data encrypted with a key of AWS KMS, for good, and
	// returns when all are. It may be repeated.
	Encrypt(ctx context.Context, id, keyARN string) error
	// EncryptionKey is the key that a plane has taken and keeps, whether or not its
	// data are encrypted yet; "": none.
	EncryptionKey(id string) string
	// FargateWebhook returns the webhook configuration by which the API server of a
	// cluster asks MutateFargatePod.
	FargateWebhook() *admissionregistrationv1.MutatingWebhookConfiguration
}

// An Identity is an IAM user or role, or an account's root.
type Identity struct {
	ARN string // path included
	// ID is the unique ID: AIDA…, AROA…; the account number for root.
	ID string
	// TrustedServices are the service principals that a role's trust policy
	// allows sts:AssumeRole.
	TrustedServices []string
	// Trusts reports whether the trust policy allows a service that acts for one
	// resource, which it may ask for as aws:SourceArn. nil: TrustedServices says so
	// for all resources.
	Trusts func(service, sourceARN string) bool
}

// ErrNoIdentity is what Config.Identity returns for an ARN without an identity.
var ErrNoIdentity = errors.New("no such IAM identity")

// InstanceProfiles are the IAM operations a node group needs: EKS makes an
// instance profile for the node role.
type InstanceProfiles interface {
	CreateInstanceProfile(context.Context, *awsiam.CreateInstanceProfileInput) (*awsiam.CreateInstanceProfileOutput, error)
	AddRoleToInstanceProfile(context.Context, *awsiam.AddRoleToInstanceProfileInput) (*awsiam.AddRoleToInstanceProfileOutput, error)
	RemoveRoleFromInstanceProfile(context.Context, *awsiam.RemoveRoleFromInstanceProfileInput) (*awsiam.RemoveRoleFromInstanceProfileOutput, error)
	GetInstanceProfile(context.Context, *awsiam.GetInstanceProfileInput) (*awsiam.GetInstanceProfileOutput, error)
	DeleteInstanceProfile(context.Context, *awsiam.DeleteInstanceProfileInput) (*awsiam.DeleteInstanceProfileOutput, error)
}

// Network are the EC2 operations a cluster needs. They are called with an
// awsapi.Call of the cluster's account and region whose principal is the AWS
// service eks.amazonaws.com: what it creates is requester-managed.
type Network interface {
	DescribeVpcs(context.Context, *awsec2.DescribeVpcsInput) (*awsec2.DescribeVpcsOutput, error)
	DescribeSubnets(context.Context, *awsec2.DescribeSubnetsInput) (*awsec2.DescribeSubnetsOutput, error)
	DescribeRouteTables(context.Context, *awsec2.DescribeRouteTablesInput) (*awsec2.DescribeRouteTablesOutput, error)
	DescribeSecurityGroups(context.Context, *awsec2.DescribeSecurityGroupsInput) (*awsec2.DescribeSecurityGroupsOutput, error)
	CreateSecurityGroup(context.Context, *awsec2.CreateSecurityGroupInput) (*awsec2.CreateSecurityGroupOutput, error)
	AuthorizeSecurityGroupIngress(context.Context, *awsec2.AuthorizeSecurityGroupIngressInput) (*awsec2.AuthorizeSecurityGroupIngressOutput, error)
	DeleteSecurityGroup(context.Context, *awsec2.DeleteSecurityGroupInput) (*awsec2.DeleteSecurityGroupOutput, error)
	DescribeNetworkInterfaces(context.Context, *awsec2.DescribeNetworkInterfacesInput) (*awsec2.DescribeNetworkInterfacesOutput, error)
	CreateNetworkInterface(context.Context, *awsec2.CreateNetworkInterfaceInput) (*awsec2.CreateNetworkInterfaceOutput, error)
	DeleteNetworkInterface(context.Context, *awsec2.DeleteNetworkInterfaceInput) (*awsec2.DeleteNetworkInterfaceOutput, error)
}

// Instances are the EC2 operations a node group needs, called like Network's.
type Instances interface {
	DescribeInstances(context.Context, *awsec2.DescribeInstancesInput) (*awsec2.DescribeInstancesOutput, error)
	DescribeKeyPairs(context.Context, *awsec2.DescribeKeyPairsInput) (*awsec2.DescribeKeyPairsOutput, error)
	CreateLaunchTemplateVersion(context.Context, *awsec2.CreateLaunchTemplateVersionInput) (*awsec2.CreateLaunchTemplateVersionOutput, error)
	CreateLaunchTemplate(context.Context, *awsec2.CreateLaunchTemplateInput) (*awsec2.CreateLaunchTemplateOutput, error)
	DescribeLaunchTemplateVersions(context.Context, *awsec2.DescribeLaunchTemplateVersionsInput) (*awsec2.DescribeLaunchTemplateVersionsOutput, error)
	DeleteLaunchTemplate(context.Context, *awsec2.DeleteLaunchTemplateInput) (*awsec2.DeleteLaunchTemplateOutput, error)
}

// AutoScaling is what a node group needs of Auto Scaling, called like Network.
type AutoScaling interface {
	CreateAutoScalingGroup(context.Context, *awsautoscaling.CreateAutoScalingGroupInput) (*awsautoscaling.CreateAutoScalingGroupOutput, error)
	UpdateAutoScalingGroup(context.Context, *awsautoscaling.UpdateAutoScalingGroupInput) (*awsautoscaling.UpdateAutoScalingGroupOutput, error)
	DeleteAutoScalingGroup(context.Context, *awsautoscaling.DeleteAutoScalingGroupInput) (*awsautoscaling.DeleteAutoScalingGroupOutput, error)
	DescribeAutoScalingGroups(context.Context, *awsautoscaling.DescribeAutoScalingGroupsInput) (*awsautoscaling.DescribeAutoScalingGroupsOutput, error)
	DescribeScalingActivities(context.Context, *awsautoscaling.DescribeScalingActivitiesInput) (*awsautoscaling.DescribeScalingActivitiesOutput, error)
	TerminateInstanceInAutoScalingGroup(context.Context, *awsautoscaling.TerminateInstanceInAutoScalingGroupInput) (*awsautoscaling.TerminateInstanceInAutoScalingGroupOutput, error)
	// CompleteLifecycleActions ends the wait of instances for a hook; those that do
	// not wait are left alone.
	CompleteLifecycleActions(ctx context.Context, group, hook, result string, instanceIDs []string) error
	// WatchMembers watches the instances of Auto Scaling groups; MemberGroup tells
	// whose a key is.
	WatchMembers(store.Scope) *store.Watcher
	MemberGroup(store.Key) string
}

// Quotas limit what an account may have in a region. Zero fields take AWS's
// defaults.
// https://docs.aws.amazon.com/eks/latest/userguide/service-quotas.html
type Quotas struct {
	Clusters             int // 100
	NodegroupsPerCluster int // 30
	NodesPerNodegroup    int // 450

	FargateProfilesPerCluster int // 10
}

// Config connects the service. Everything without a stated default is required.
type Config struct {
	Store         *store.Store
	ControlPlanes ControlPlanes
	// Identity returns the IAM identity with an ARN, or ErrNoIdentity.
	Identity         func(ctx context.Context, arn string) (Identity, error)
	InstanceProfiles InstanceProfiles
	// RoleDenies returns those of some actions that a role may not do whatever the
	// resource and the conditions, and all of them if there is no such role; nil: every
	// role may.
	RoleDenies  func(ctx context.Context, roleARN string, actions []string) ([]string, error)
	Network     Network
	Instances   Instances
	AutoScaling AutoScaling
	// Keys are those that clusters can be encrypted with; nil: encryption is refused.
	Keys Keys
	// VerifyPresigned verifies a presigned request (method, URL, headers) and says
	// who signed it. It need not judge the age: tokens live 15 minutes from
	// X-Amz-Date, whatever X-Amz-Expires says.
	VerifyPresigned func(ctx context.Context, r *http.Request) (awsapi.Principal, error)
	// OwnHost reports whether a host (port included, as signed) is one of
	// Drydock's own; tokens may be signed for it besides the STS hosts of AWS.
	OwnHost func(host string) bool

	// EnsureFargateRole makes Fargate's service-linked role in an account unless it is
	// there, as the first profile does; nil: nothing.
	// https://docs.aws.amazon.com/eks/latest/userguide/using-service-linked-roles-eks-fargate.html
	EnsureFargateRole func(ctx context.Context, account string) error
	// FargateMachines is how many machines a Fargate profile still has; nil: none. A
	// profile is deleted when it has none.
	FargateMachines func(account, region, cluster, profile string) (int, error)

	// EndpointURL is where SDKs in pods reach Drydock; empty tells them nothing.
	EndpointURL string
	// NewClient makes a Kubernetes client; nil means kubernetes.NewForConfig.
	NewClient func(*rest.Config) (kubernetes.Interface, error)
	// NewObjects makes a client for objects of any kind; nil means a dynamic one.
	NewObjects func(*rest.Config) (Objects, error)
	Quotas     Quotas
	// QuotasOf returns what the account was granted in the region; nil means
	// Quotas for all. Zero fields take Quotas's.
	QuotasOf func(account, region string) (Quotas, error)
	Timing   clock.Timing
	Clock    k8sclock.WithTicker // nil: the real one
	Log      *slog.Logger        // nil: slog.Default
}

// quotas returns what holds for the account of a key.
func (s *Service) quotas(k store.Key) (Quotas, error) {
	q := s.cfg.Quotas
	if s.cfg.QuotasOf == nil {
		return q, nil
	}
	own, err := s.cfg.QuotasOf(k.Account, k.Region)
	if err != nil {
		return q, err
	}
	if own.Clusters != 0 {
		q.Clusters = own.Clusters
	}
	if own.NodegroupsPerCluster != 0 {
		q.NodegroupsPerCluster = own.NodegroupsPerCluster
	}
	if own.NodesPerNodegroup != 0 {
		q.NodesPerNodegroup = own.NodesPerNodegroup
	}
	if own.FargateProfilesPerCluster != 0 {
		q.FargateProfilesPerCluster = own.FargateProfilesPerCluster
	}
	return q, nil
}

func (c *Config) complete() error {
	for name, missing := range map[string]bool{
		"Store": c.Store == nil, "ControlPlanes": c.ControlPlanes == nil, "Identity": c.Identity == nil,
		"InstanceProfiles": c.InstanceProfiles == nil, "Network": c.Network == nil, "Instances": c.Instances == nil,
		"AutoScaling":     c.AutoScaling == nil,
		"VerifyPresigned": c.VerifyPresigned == nil, "OwnHost": c.OwnHost == nil,
	} {
		if missing {
			return fmt.Errorf("eks: Config.%s is required", name)
		}
	}
	if c.NewClient == nil {
		c.NewClient = func(rc *rest.Config) (kubernetes.Interface, error) { return kubernetes.NewForConfig(rc) }
	}
	if c.NewObjects == nil {
		c.NewObjects = newObjects
	}
	if c.Quotas.Clusters == 0 {
		c.Quotas.Clusters = 100
	}
	if c.Quotas.NodegroupsPerCluster == 0 {
		c.Quotas.NodegroupsPerCluster = 30
	}
	if c.Quotas.NodesPerNodegroup == 0 {
		c.Quotas.NodesPerNodegroup = 450
	}
	if c.Quotas.FargateProfilesPerCluster == 0 {
		c.Quotas.FargateProfilesPerCluster = 10
	}
	if c.Clock == nil {
		c.Clock = k8sclock.RealClock{}
	}
	if c.Log == nil {
		c.Log = slog.Default()
	}
	return nil
}

// A Service answers the EKS API. Its methods named after operations are called
// by the front door; Run reconciles.
type Service struct {
	cfg   Config
	store *store.Store
	clock k8sclock.WithTicker
	log   *slog.Logger

	sessions *sessions
	names    nodeNames
}

// New returns the service. Nothing happens before Run.
func New(cfg Config) (*Service, error) {
	if err := cfg.complete(); err != nil {
		return nil, err
	}
	return &Service{cfg: cfg, store: cfg.Store, clock: cfg.Clock, log: cfg.Log, sessions: newSessions(cfg)}, nil
}
