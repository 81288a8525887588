package base

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"time"

	awsautoscaling "github.com/aws/aws-sdk-go-v2/service/autoscaling"
	awslogs "github.com/aws/aws-sdk-go-v2/service/cloudwatchlogs"
	awsec2 "github.com/aws/aws-sdk-go-v2/service/ec2"
	awselbv2 "github.com/aws/aws-sdk-go-v2/service/elasticloadbalancingv2"
	awsiam "github.com/aws/aws-sdk-go-v2/service/iam"
	awskms "github.com/aws/aws-sdk-go-v2/service/kms"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	k8sclock "k8s.io/utils/clock"

	"github.com/drydock-dev/drydock/internal/awsapi"
	"github.com/drydock-dev/drydock/internal/clock"
	"github.com/drydock-dev/drydock/internal/service/eks/plane"
	"github.com/drydock-dev/drydock/internal/store"
	"github.com/drydock-dev/drydock/internal/twin/recording"
)

// An Identity is an IAM user or role, or an account's root.
type Identity struct {
	ARN string // includes the path
	// ID is the unique ID: AIDA…, AROA…; the account number for root.
	ID string
	// TrustedServices are the service principals that a role's trust policy
	// allows sts:AssumeRole.
	TrustedServices []string
	// Trusts reports whether the trust policy allows a service that acts for the resource with an
	// ARN, which the policy may check as aws:SourceArn. If it is nil, TrustedServices holds for all
	// resources.
	Trusts func(service, sourceARN string) bool
	// TaggableBy reports whether the trust policy allows a service sts:TagSession. If it is nil, it allows that to
	// TrustedServices.
	TaggableBy func(service string) bool
}

// ErrNoIdentity is returned by Config.Identity for an ARN without an identity.
var ErrNoIdentity = errors.New("no such IAM identity")

// InstanceProfiles are the IAM operations with which EKS creates an instance profile for the node
// role.
type InstanceProfiles interface {
	CreateInstanceProfile(context.Context, *awsiam.CreateInstanceProfileInput) (*awsiam.CreateInstanceProfileOutput, error)
	AddRoleToInstanceProfile(context.Context, *awsiam.AddRoleToInstanceProfileInput) (*awsiam.AddRoleToInstanceProfileOutput, error)
	RemoveRoleFromInstanceProfile(context.Context, *awsiam.RemoveRoleFromInstanceProfileInput) (*awsiam.RemoveRoleFromInstanceProfileOutput, error)
	GetInstanceProfile(context.Context, *awsiam.GetInstanceProfileInput) (*awsiam.GetInstanceProfileOutput, error)
	DeleteInstanceProfile(context.Context, *awsiam.DeleteInstanceProfileInput) (*awsiam.DeleteInstanceProfileOutput, error)
}

// Network are the EC2 operations that a cluster needs. Their context has an awsapi.Call in the
// cluster's account and region by the AWS service eks.amazonaws.com, so that what they create is
// requester-managed.
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

// Instances are the EC2 operations that a node group needs, called like Network's.
type Instances interface {
	DescribeInstances(context.Context, *awsec2.DescribeInstancesInput) (*awsec2.DescribeInstancesOutput, error)
	RebootInstances(context.Context, *awsec2.RebootInstancesInput) (*awsec2.RebootInstancesOutput, error)
	DescribeKeyPairs(context.Context, *awsec2.DescribeKeyPairsInput) (*awsec2.DescribeKeyPairsOutput, error)
	CreateLaunchTemplateVersion(context.Context, *awsec2.CreateLaunchTemplateVersionInput) (*awsec2.CreateLaunchTemplateVersionOutput, error)
	CreateLaunchTemplate(context.Context, *awsec2.CreateLaunchTemplateInput) (*awsec2.CreateLaunchTemplateOutput, error)
	DescribeLaunchTemplateVersions(context.Context, *awsec2.DescribeLaunchTemplateVersionsInput) (*awsec2.DescribeLaunchTemplateVersionsOutput, error)
	DeleteLaunchTemplate(context.Context, *awsec2.DeleteLaunchTemplateInput) (*awsec2.DeleteLaunchTemplateOutput, error)
}

// AutoNodes are the operations with which the nodes of EKS Auto Mode are launched and terminated. The context says who
// calls them.
type AutoNodes interface {
	CreateLaunchTemplate(context.Context, *awsec2.CreateLaunchTemplateInput) (*awsec2.CreateLaunchTemplateOutput, error)
	CreateFleet(context.Context, *awsec2.CreateFleetInput) (*awsec2.CreateFleetOutput, error)
	TerminateInstances(context.Context, *awsec2.TerminateInstancesInput) (*awsec2.TerminateInstancesOutput, error)
	AddRoleToInstanceProfile(context.Context, *awsiam.AddRoleToInstanceProfileInput) (*awsiam.AddRoleToInstanceProfileOutput, error)
	// AsClusterRole returns a context in which EKS calls as a cluster's role, in a session with tags. The error is that
	// of STS if the role cannot be assumed.
	AsClusterRole(ctx context.Context, clusterARN, roleARN, region string, tags map[string]string) (context.Context, error)
}

// LoadBalancers are the operations with which the load balancers of EKS Auto Mode are made. The context says who calls
// them.
type LoadBalancers interface {
	AuthorizeSecurityGroupIngress(context.Context, *awsec2.AuthorizeSecurityGroupIngressInput) (*awsec2.AuthorizeSecurityGroupIngressOutput, error)
	CreateSecurityGroup(context.Context, *awsec2.CreateSecurityGroupInput) (*awsec2.CreateSecurityGroupOutput, error)
	CreateTags(context.Context, *awsec2.CreateTagsInput) (*awsec2.CreateTagsOutput, error)
	DeleteTags(context.Context, *awsec2.DeleteTagsInput) (*awsec2.DeleteTagsOutput, error)
	RevokeSecurityGroupIngress(context.Context, *awsec2.RevokeSecurityGroupIngressInput) (*awsec2.RevokeSecurityGroupIngressOutput, error)

	AddListenerCertificates(context.Context, *awselbv2.AddListenerCertificatesInput) (*awselbv2.AddListenerCertificatesOutput, error)
	AddTags(context.Context, *awselbv2.AddTagsInput) (*awselbv2.AddTagsOutput, error)
	CreateListener(context.Context, *awselbv2.CreateListenerInput) (*awselbv2.CreateListenerOutput, error)
	CreateLoadBalancer(context.Context, *awselbv2.CreateLoadBalancerInput) (*awselbv2.CreateLoadBalancerOutput, error)
	CreateRule(context.Context, *awselbv2.CreateRuleInput) (*awselbv2.CreateRuleOutput, error)
	CreateTargetGroup(context.Context, *awselbv2.CreateTargetGroupInput) (*awselbv2.CreateTargetGroupOutput, error)
	DeleteListener(context.Context, *awselbv2.DeleteListenerInput) (*awselbv2.DeleteListenerOutput, error)
	DeleteLoadBalancer(context.Context, *awselbv2.DeleteLoadBalancerInput) (*awselbv2.DeleteLoadBalancerOutput, error)
	DeleteRule(context.Context, *awselbv2.DeleteRuleInput) (*awselbv2.DeleteRuleOutput, error)
	DeleteTargetGroup(context.Context, *awselbv2.DeleteTargetGroupInput) (*awselbv2.DeleteTargetGroupOutput, error)
	DeregisterTargets(context.Context, *awselbv2.DeregisterTargetsInput) (*awselbv2.DeregisterTargetsOutput, error)
	DescribeListenerCertificates(context.Context, *awselbv2.DescribeListenerCertificatesInput) (*awselbv2.DescribeListenerCertificatesOutput, error)
	DescribeListeners(context.Context, *awselbv2.DescribeListenersInput) (*awselbv2.DescribeListenersOutput, error)
	DescribeLoadBalancers(context.Context, *awselbv2.DescribeLoadBalancersInput) (*awselbv2.DescribeLoadBalancersOutput, error)
	DescribeRules(context.Context, *awselbv2.DescribeRulesInput) (*awselbv2.DescribeRulesOutput, error)
	DescribeTags(context.Context, *awselbv2.DescribeTagsInput) (*awselbv2.DescribeTagsOutput, error)
	DescribeTargetGroups(context.Context, *awselbv2.DescribeTargetGroupsInput) (*awselbv2.DescribeTargetGroupsOutput, error)
	DescribeTargetHealth(context.Context, *awselbv2.DescribeTargetHealthInput) (*awselbv2.DescribeTargetHealthOutput, error)
	ModifyListener(context.Context, *awselbv2.ModifyListenerInput) (*awselbv2.ModifyListenerOutput, error)
	ModifyLoadBalancerAttributes(context.Context, *awselbv2.ModifyLoadBalancerAttributesInput) (*awselbv2.ModifyLoadBalancerAttributesOutput, error)
	RegisterTargets(context.Context, *awselbv2.RegisterTargetsInput) (*awselbv2.RegisterTargetsOutput, error)
	RemoveListenerCertificates(context.Context, *awselbv2.RemoveListenerCertificatesInput) (*awselbv2.RemoveListenerCertificatesOutput, error)
	RemoveTags(context.Context, *awselbv2.RemoveTagsInput) (*awselbv2.RemoveTagsOutput, error)
	SetSubnets(context.Context, *awselbv2.SetSubnetsInput) (*awselbv2.SetSubnetsOutput, error)
}

// Volumes are the operations with which the volumes of EKS Auto Mode are made. The context says who calls them.
type Volumes interface {
	AttachVolume(context.Context, *awsec2.AttachVolumeInput) (*awsec2.AttachVolumeOutput, error)
	CreateSnapshot(context.Context, *awsec2.CreateSnapshotInput) (*awsec2.CreateSnapshotOutput, error)
	CreateVolume(context.Context, *awsec2.CreateVolumeInput) (*awsec2.CreateVolumeOutput, error)
	DeleteSnapshot(context.Context, *awsec2.DeleteSnapshotInput) (*awsec2.DeleteSnapshotOutput, error)
	DeleteVolume(context.Context, *awsec2.DeleteVolumeInput) (*awsec2.DeleteVolumeOutput, error)
	DescribeSnapshots(context.Context, *awsec2.DescribeSnapshotsInput) (*awsec2.DescribeSnapshotsOutput, error)
	DescribeVolumes(context.Context, *awsec2.DescribeVolumesInput) (*awsec2.DescribeVolumesOutput, error)
	DescribeVolumesModifications(context.Context, *awsec2.DescribeVolumesModificationsInput) (*awsec2.DescribeVolumesModificationsOutput, error)
	DetachVolume(context.Context, *awsec2.DetachVolumeInput) (*awsec2.DetachVolumeOutput, error)
	ModifyVolume(context.Context, *awsec2.ModifyVolumeInput) (*awsec2.ModifyVolumeOutput, error)
}

// AutoScaling are the Auto Scaling operations that a node group needs, called like Network's.
type AutoScaling interface {
	CreateAutoScalingGroup(context.Context, *awsautoscaling.CreateAutoScalingGroupInput) (*awsautoscaling.CreateAutoScalingGroupOutput, error)
	UpdateAutoScalingGroup(context.Context, *awsautoscaling.UpdateAutoScalingGroupInput) (*awsautoscaling.UpdateAutoScalingGroupOutput, error)
	DeleteAutoScalingGroup(context.Context, *awsautoscaling.DeleteAutoScalingGroupInput) (*awsautoscaling.DeleteAutoScalingGroupOutput, error)
	SuspendProcesses(context.Context, *awsautoscaling.SuspendProcessesInput) (*awsautoscaling.SuspendProcessesOutput, error)
	ResumeProcesses(context.Context, *awsautoscaling.ResumeProcessesInput) (*awsautoscaling.ResumeProcessesOutput, error)
	DescribeAutoScalingGroups(context.Context, *awsautoscaling.DescribeAutoScalingGroupsInput) (*awsautoscaling.DescribeAutoScalingGroupsOutput, error)
	DescribeScalingActivities(context.Context, *awsautoscaling.DescribeScalingActivitiesInput) (*awsautoscaling.DescribeScalingActivitiesOutput, error)
	TerminateInstanceInAutoScalingGroup(context.Context, *awsautoscaling.TerminateInstanceInAutoScalingGroupInput) (*awsautoscaling.TerminateInstanceInAutoScalingGroupOutput, error)
	// CompleteLifecycleActions ends the wait of instances at a lifecycle hook. It ignores instances
	// that are not waiting.
	CompleteLifecycleActions(ctx context.Context, group, hook, result string, instanceIDs []string) error
	// WatchMembers watches the instances of Auto Scaling groups. MemberGroup returns the group that
	// a key belongs to.
	WatchMembers(store.Scope) *store.Watcher
	MemberGroup(store.Key) string
}

// ZonalShifts knows which clusters are shifted away from an Availability Zone.
type ZonalShifts interface {
	// Zone returns the ID of the zone that a resource, created at a time, is shifted away from, and until when; or "".
	Zone(arn string, created time.Time) (id string, until time.Time)
	// Watch watches shifts. ResourceOf returns the ARN of the resource of one that changed, or "".
	Watch(store.Scope) *store.Watcher
	ResourceOf(store.Key) string
}

// Config has the service's settings and dependencies. All fields without a stated default are
// required.
type Config struct {
	Store         *store.Store
	ControlPlanes plane.ControlPlanes
	// Identity returns the IAM identity with an ARN, or ErrNoIdentity.
	Identity         func(ctx context.Context, arn string) (Identity, error)
	InstanceProfiles InstanceProfiles
	// RoleDenies returns those of the given actions that a role may not perform on any resource, or
	// all of them if the role does not exist. If RoleDenies is nil, every role may do everything.
	RoleDenies  func(ctx context.Context, roleARN string, actions []string) ([]string, error)
	Network     Network
	Instances   Instances
	AutoScaling AutoScaling
	// AutoNodes launches the nodes of EKS Auto Mode. If it is nil, EKS Auto Mode cannot be enabled.
	AutoNodes AutoNodes
	// LoadBalancers is used to create the load balancers of EKS Auto Mode. If it is nil, none are created.
	LoadBalancers LoadBalancers
	// Volumes is used to make the volumes of EKS Auto Mode. If it is nil, none are made.
	Volumes Volumes
	// ZonalShifts may be nil: then there are none.
	ZonalShifts ZonalShifts
	// Keys are the KMS keys for encrypting clusters. If Keys is nil, encryption is refused.
	Keys Keys
	// Logs is where the logs of control planes go.
	Logs Logs
	// VerifyPresigned verifies a presigned request (method, URL, headers) and returns its signer.
	// It does not have to check the age: tokens are valid for 15 minutes from X-Amz-Date, whatever
	// X-Amz-Expires says.
	VerifyPresigned func(ctx context.Context, r *http.Request) (awsapi.Principal, error)
	// OwnHost reports whether a host, including the port if signed, is Drydock's own. Tokens may be
	// signed for it as well as for AWS's STS hosts.
	OwnHost func(host string) bool

	// EnsureServiceRole makes a service-linked role in the caller's account, for the
	// caller, unless it exists: the first cluster, node group and Fargate profile do. nil
	// makes none.
	EnsureServiceRole func(ctx context.Context, role awsapi.ServiceRole) error
	// FargateMachines returns how many machines a Fargate profile still has. A profile is deleted
	// only when it has none. If the function is nil, there are none.
	FargateMachines func(account, region, cluster, profile string) int

	// Twins are the copies of AWS accounts. If it is nil, no account is a copy.
	Twins Twins

	// EndpointURL is where SDKs in pods reach Drydock. If it is empty, pods are not configured with
	// an endpoint.
	EndpointURL string
	// NewClient creates a Kubernetes client; nil means kubernetes.NewForConfig.
	NewClient func(*rest.Config) (kubernetes.Interface, error)
	// NewObjects creates a client for objects of any kind; nil means a dynamic one.
	NewObjects func(*rest.Config) (plane.Objects, error)
	// Quotas are the quotas of accounts that have requested no increase. Zero fields mean AWS's defaults.
	Quotas Quotas
	Timing clock.Timing
	Clock  k8sclock.WithTicker // nil means the real clock
	Log    *slog.Logger        // nil means slog.Default
}

// Twins are accounts that are copies of AWS accounts.
type Twins interface {
	// Held reports whether an account is a twin in which nothing has been changed yet, so that its resources stay as they
	// were read.
	Held(account string) bool
	// Objects calls fn for each list of Kubernetes objects that was read from a cluster.
	Objects(ctx context.Context, account, cluster string, fn func(recording.KubernetesList, *TwinObjects) error) error
	// Lost adds what could not be copied, unless the account is read again in the meantime: then still returns false.
	Lost(ctx context.Context, account string, still func(store.Reader) bool, gaps []recording.Gap) error
}

// TwinObjects are objects of one kind.
type TwinObjects struct {
	Kind  string // such as PodList
	Items []map[string]any
}

// Hold returns a function that reports whether the resource of a key belongs to a twin that is held.
func (s *Service) Hold() func(store.Key) bool {
	if s.Twins == nil {
		return nil
	}
	return func(k store.Key) bool { return s.Twins.Held(k.Account) }
}

func (c *Config) complete() error {
	for name, missing := range map[string]bool{
		"Store": c.Store == nil, "ControlPlanes": c.ControlPlanes == nil, "Identity": c.Identity == nil,
		"InstanceProfiles": c.InstanceProfiles == nil, "Network": c.Network == nil, "Instances": c.Instances == nil,
		"AutoScaling": c.AutoScaling == nil, "Logs": c.Logs == nil,
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
		c.NewObjects = plane.NewObjects
	}
	if c.Clock == nil {
		c.Clock = k8sclock.RealClock{}
	}
	c.Log = cmp.Or(c.Log, slog.Default())
	return nil
}

// Logs are the operations of CloudWatch Logs that EKS calls, as its service-linked role.
type Logs interface {
	CreateLogGroup(context.Context, *awslogs.CreateLogGroupInput) (*awslogs.CreateLogGroupOutput, error)
	CreateLogStream(context.Context, *awslogs.CreateLogStreamInput) (*awslogs.CreateLogStreamOutput, error)
	PutLogEvents(context.Context, *awslogs.PutLogEventsInput) (*awslogs.PutLogEventsOutput, error)
}

// Keys are the AWS KMS operations that EKS needs. Users call DescribeKey and CreateGrant and need
// permission for them. EKS's own calls, made as its service principal, need none.
// https://docs.aws.amazon.com/eks/latest/userguide/enable-kms.html
type Keys interface {
	DescribeKey(context.Context, *awskms.DescribeKeyInput) (*awskms.DescribeKeyOutput, error)
	CreateGrant(context.Context, *awskms.CreateGrantInput) (*awskms.CreateGrantOutput, error)
	RevokeGrant(context.Context, *awskms.RevokeGrantInput) (*awskms.RevokeGrantOutput, error)
	// Try uses a key as a cluster's role, as its control plane does. It returns the error of KMS,
	// or ErrNoIdentity if the role cannot be assumed.
	Try(ctx context.Context, clusterARN, roleARN, keyARN string) error
}
