// Package eks answers the Amazon EKS API. It combines the parts in its sub-packages into one
// service, declares the operations, and runs the reconcilers.
//
// Each package imports only packages in the rows below it:
//
//	eks                                      one service, its operations, Run
//	cluster  resource  pod                   clusters; tags and updates; pods explained
//	addon  nodegroup  fargate  capability    resources in a cluster
//	autonodes  autobalancing                 the nodes and load balancers of EKS Auto Mode
//	servingcerts  policyendpoints            the serving certificates of kubelets; network policies
//	access  podidentity                      who may enter a cluster; the roles of pods
//	connector  subscription                  clusters from elsewhere; EKS Anywhere
//	base                                     configuration, look-ups, requests
//	plane  load  ekserr  jsonpatch           control planes, copies of clusters, errors, patches
//	record                                   stored records
//
// Handlers only write records. Reconcilers (reconcile.go of each part) bring the actual state in
// line with the records; they can be interrupted and repeated at any point.
//
// The service neither starts control planes nor boots instances itself. It requests both through
// the small interfaces in Config, which internal/app connects to the control-plane package and to
// the EC2 and IAM services. No other service imports this package.
package eks

import (
	"context"
	"errors"
	"time"

	ekstypes "github.com/aws/aws-sdk-go-v2/service/eks/types"
	"golang.org/x/sync/errgroup"
	authnv1 "k8s.io/api/authentication/v1"

	"github.com/drydock-dev/drydock/internal/reconcile"
	"github.com/drydock-dev/drydock/internal/service/eks/access"
	"github.com/drydock-dev/drydock/internal/service/eks/addon"
	"github.com/drydock-dev/drydock/internal/service/eks/autonodes"
	"github.com/drydock-dev/drydock/internal/service/eks/base"
	"github.com/drydock-dev/drydock/internal/service/eks/capability"
	"github.com/drydock-dev/drydock/internal/service/eks/cluster"
	"github.com/drydock-dev/drydock/internal/service/eks/connector"
	"github.com/drydock-dev/drydock/internal/service/eks/fargate"
	"github.com/drydock-dev/drydock/internal/service/eks/nodegroup"
	"github.com/drydock-dev/drydock/internal/service/eks/plane"
	"github.com/drydock-dev/drydock/internal/service/eks/pod"
	"github.com/drydock-dev/drydock/internal/service/eks/podidentity"
	"github.com/drydock-dev/drydock/internal/service/eks/policyendpoints"
	"github.com/drydock-dev/drydock/internal/service/eks/record"
	"github.com/drydock-dev/drydock/internal/service/eks/resource"
	"github.com/drydock-dev/drydock/internal/service/eks/subscription"
	"github.com/drydock-dev/drydock/internal/store"
	"github.com/drydock-dev/drydock/internal/twin/recording"
)

// A Service answers the EKS API. Its parts provide its methods; the AWS API server calls those
// named after operations.
type Service struct {
	sessions *plane.Sessions

	*principals
	*identities
	*addons
	*nodegroups
	*profiles
	*clusters
	*pods
	*resources
	*connected
	*subscriptions
	*autoNodes
	*capabilities
}

type (
	principals = access.Service
	identities = podidentity.Service
	addons     = addon.Service
	nodegroups = nodegroup.Service
	profiles   = fargate.Service
	clusters   = cluster.Service
	pods       = pod.Service
	resources  = resource.Service

	connected     = connector.Service
	subscriptions = subscription.Service
	autoNodes     = autonodes.Service
	capabilities  = capability.Service
)

// New returns the service. It does nothing in the background before Run.
func New(cfg Config) (*Service, error) {
	b, err := base.New(cfg)
	if err != nil {
		return nil, err
	}
	s := &Service{sessions: b.Sessions, principals: access.New(b), identities: podidentity.New(b), resources: resource.New(b),
		connected: connector.New(b), subscriptions: subscription.New(b), autoNodes: autonodes.New(b)}
	s.addons = addon.New(b, s.identities)
	s.nodegroups = nodegroup.New(b, s.principals)
	s.profiles = fargate.New(b, s.principals)
	s.clusters = cluster.New(b, s.principals, s.addons, s.nodegroups, s.autoNodes)
	s.pods = pod.New(b, s.identities)
	s.capabilities = capability.New(b, s.principals)
	return s, nil
}

// The parts of Config. Each is documented where it is declared.
type (
	Config        = base.Config
	Quotas        = base.Quotas
	Keys          = base.Keys
	AutoNodes     = base.AutoNodes
	LoadBalancers = base.LoadBalancers
	Volumes       = base.Volumes
	Twins         = base.Twins
	TwinObjects   = base.TwinObjects
	ZonalShifts   = base.ZonalShifts
	Shiftable     = nodegroup.Shiftable
	Machines      = base.Machines
	Identity      = base.Identity
	ControlPlanes = plane.ControlPlanes
	PlaneRequest  = plane.Request
	PlaneSettings = plane.Settings
	Plane         = record.Plane
	Objects       = plane.Objects
	Watchable     = plane.Watchable
	APIUse        = plane.APIUse
	Authority     = plane.Authority
	Rehearsal     = cluster.Rehearsal
	Finding       = cluster.Finding
	RehearsedStep = cluster.Step
	LogLine       = plane.LogLine
	ApplyOptions  = plane.ApplyOptions

	NetworkPolicyDrop = policyendpoints.Drop
)

// AuthenticatorLines returns what the authenticator's log gets for a result of Service.Authenticate.
func AuthenticatorLines(now time.Time, client string, user authnv1.UserInfo, err error) []string {
	return access.AuthenticatorLines(now, client, user, err)
}

// APIEndpoints returns the API server endpoints of the clusters in an account and region.
func APIEndpoints(r store.Reader, account, region string) []APIEndpoint {
	return cluster.APIEndpoints(r, account, region)
}

// Why a Fargate profile launches nothing: the causes of a FargateBlock.
const (
	FargateBlockedSelectors = fargate.BlockedSelectors
	FargateBlockedTrust     = fargate.BlockedTrust
)

// CopyAt returns the copied cluster of a twin at a host. Copying reports whether clusters of an account are still being
// copied.
func CopyAt(r store.Reader, account, host string) (record.Cluster, bool) {
	return cluster.CopyAt(r, account, host)
}
func Copying(r store.Reader, account string) bool { return cluster.Copying(r, account) }

// Result types of the service's methods.
type (
	APIEndpoint            = cluster.APIEndpoint
	ClusterStatus          = cluster.Status
	KnownPrincipals        = access.KnownPrincipals
	Refusal                = access.Refusal
	FargateBlock           = fargate.Block
	FargateChoice          = fargate.Choice
	FargateCluster         = fargate.Cluster
	FargateProfileLaunch   = fargate.Launch
	PodIdentity            = podidentity.Association
	ServiceAccountIdentity = podidentity.ServiceAccountIdentity
	PodSubject             = podidentity.Subject
	PodTokenExpiredError   = podidentity.TokenExpiredError
	PodFacts               = pod.Facts
	NodePods               = pod.NodePods
	MissingObject          = pod.MissingObject
	UnboundClaim           = pod.UnboundClaim
	PodProgram             = pod.Program
	PodToken               = pod.Token
	PodNotRunningError     = pod.NotRunningError
	NoContainerError       = pod.NoContainerError
)

// Reasons for rejecting a token.
const (
	CauseSignature  = access.CauseSignature
	CauseStaleEntry = access.CauseStaleEntry

	CauseNotMapped    = access.CauseNotMapped
	CauseNotNodeEntry = access.CauseNotNodeEntry
	CauseNotNode      = access.CauseNotNode
)

// Errors that callers distinguish.
var (
	ErrNoIdentity      = base.ErrNoIdentity
	ErrUnauthenticated = access.ErrUnauthenticated
	ErrPodTokenInvalid = podidentity.ErrTokenInvalid
	ErrNoPodIdentity   = podidentity.ErrNoAssociation
	ErrNoPod           = pod.ErrNotFound
	ErrLatestVersion   = cluster.ErrLatestVersion
)

// Comparable returns the objects of a resource of a twin's cluster, and those in a list of its source, by their names; see
// cluster.Service.Comparable. It returns none if the cluster is not in the twin, or is still being copied.
func (s *Service) Comparable(ctx context.Context, account, region string, q recording.KubernetesList, source *TwinObjects, mask func(kind string, o map[string]any)) (ours, theirs map[string]map[string]any, err error) {
	key := store.Key{Account: account, Region: region, ID: q.Cluster}
	rec, err := record.Clusters.Get(s.clusters.Store, key)
	if err != nil || rec.Source == nil || rec.Cluster.Status == ekstypes.ClusterStatusCreating {
		return nil, nil, store.IgnoreNotFound(err)
	}
	return s.clusters.Comparable(ctx, key, rec.Plane.ID, q, source, mask)
}

// Compared reports whether Comparable compares objects of a resource.
func Compared(q recording.KubernetesList) bool { return cluster.Compared(q) }

// Run reconciles clusters and their resources until ctx ends. Programs run in no pod.
func (s *Service) Run(ctx context.Context) error { return s.RunOn(ctx, nil) }

// RunOn is Run with machines on which programs of pods may run.
func (s *Service) RunOn(ctx context.Context, machines Machines) error {
	s.clusters.Machines = machines // of all parts, which share their base
	// The reconcilers use the sessions, so those end last.
	sessions, endSessions := context.WithCancel(context.WithoutCancel(ctx))
	defer endSessions()
	ready := make(chan struct{})
	var outer errgroup.Group
	outer.Go(func() error { s.sessions.Run(sessions, ready); return nil })
	<-ready
	err := reconcile.Run(ctx, s.clusters.Reconciler(), s.nodegroups.Reconciler(), s.nodegroups.ShiftReconciler(), s.profiles.Reconciler(), s.addons.Reconciler())
	endSessions()
	return errors.Join(err, outer.Wait())
}
