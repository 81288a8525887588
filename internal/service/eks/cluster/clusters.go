// Package cluster creates clusters: their security group and network interfaces, their control
// plane, its encryption, and the objects in every new cluster. Resources that are added later (node
// groups, add-ons, profiles, entries) have their own packages; deleting the cluster deletes them.
//
//	CREATING → ACTIVE ⇄ UPDATING → DELETING → gone
//	   └────→ FAILED ──────────────↗
package cluster

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"

	"github.com/aws/aws-sdk-go-v2/aws"
	awseks "github.com/aws/aws-sdk-go-v2/service/eks"
	ekstypes "github.com/aws/aws-sdk-go-v2/service/eks/types"

	"github.com/drydock-dev/drydock/internal/arn"
	"github.com/drydock-dev/drydock/internal/awsapi"
	"github.com/drydock-dev/drydock/internal/catalog/eksversions"
	"github.com/drydock-dev/drydock/internal/ids"
	"github.com/drydock-dev/drydock/internal/service/eks/access"
	"github.com/drydock-dev/drydock/internal/service/eks/addon"
	"github.com/drydock-dev/drydock/internal/service/eks/autobalancing"
	"github.com/drydock-dev/drydock/internal/service/eks/autonodes"
	"github.com/drydock-dev/drydock/internal/service/eks/autostorage"
	"github.com/drydock-dev/drydock/internal/service/eks/base"
	"github.com/drydock-dev/drydock/internal/service/eks/ekserr"
	"github.com/drydock-dev/drydock/internal/service/eks/nodegroup"
	"github.com/drydock-dev/drydock/internal/service/eks/policyendpoints"
	"github.com/drydock-dev/drydock/internal/service/eks/record"
	"github.com/drydock-dev/drydock/internal/service/eks/servingcerts"
	"github.com/drydock-dev/drydock/internal/store"
)

// A Service answers the operations on clusters and reconciles them.
type Service struct {
	*base.Service
	access *access.Service
	addons *addon.Service
	groups *nodegroup.Service
	auto   *autonodes.Service
	// balancers creates the load balancers of EKS Auto Mode.
	balancers *autobalancing.Service
	// storage provides the volumes of EKS Auto Mode.
	storage  *autostorage.Service
	certs    *servingcerts.Service
	policies *policyendpoints.Service

	rehearsing sync.Mutex // a rehearsal boots a control plane: one at a time
	troubles   troubles   // of clusters by key, and of logs by control plane
}

// New returns the part of EKS that manages clusters.
func New(b *base.Service, a *access.Service, addons *addon.Service, groups *nodegroup.Service, auto *autonodes.Service) *Service {
	return &Service{
		Service: b, access: a, addons: addons, groups: groups, auto: auto,
		balancers: autobalancing.New(b), storage: autostorage.New(b), certs: servingcerts.New(b), policies: policyendpoints.New(b),
	}
}

// CreateCluster records a cluster. The cluster reconciler creates it.
// https://docs.aws.amazon.com/eks/latest/APIReference/API_CreateCluster.html
func (s *Service) CreateCluster(ctx context.Context, in *awseks.CreateClusterInput) (*awseks.CreateClusterOutput, error) {
	call := awsapi.CallFrom(ctx)
	if err := base.CheckName(in.Name, "name", "cluster name", "", 100); err != nil {
		return nil, err
	}
	name := *in.Name
	key := record.ClusterKey(call, name)
	request := record.Fingerprint(in)
	if old, err := record.Clusters.Get(s.Store, key); err == nil {
		return repeatedCreate(old, in.ClientRequestToken, request)
	}
	rec, err := s.newRecord(ctx, call, in)
	if err != nil {
		return nil, err
	}
	rec.Request, rec.Token = request, aws.ToString(in.ClientRequestToken)
	undo, err := s.grantKey(ctx, rec)
	if err != nil {
		return nil, err
	}
	if err := s.EnsureRole(ctx, name, base.ServiceRole); err != nil {
		undo()
		return nil, err
	}
	var out *awseks.CreateClusterOutput
	made := false
	err = s.Store.Update(ctx, func(tx *store.Tx) error {
		made = false // a transaction may be repeated
		if old, err := record.Clusters.Get(tx, key); err == nil {
			out, err = repeatedCreate(old, in.ClientRequestToken, request)
			return err
		}
		if _, taken := record.Connected(tx, key); taken {
			return ekserr.ClusterExists(name)
		}
		all := record.Clusters.All(tx, store.Scope{Account: call.Account, Region: call.Region})
		quotas, err := s.QuotasFor(key)
		if err != nil {
			return err
		}
		if len(all) >= quotas.Clusters {
			return errLimit()
		}
		out, made = created(*rec), true
		return record.Clusters.Create(tx, key, *rec)
	})
	if err != nil || !made { // a concurrent copy of the same request has made its own grant
		undo()
	}
	return out, err
}

// repeatedCreate answers a CreateCluster whose name is taken.
func repeatedCreate(old record.Cluster, token *string, request string) (*awseks.CreateClusterOutput, error) {
	if err := base.Repeats(old.Name(), token, request, old.Token, old.Request, ekserr.ClusterExists(old.Name())); err != nil {
		return nil, err
	}
	return created(old), nil
}

// created returns CreateCluster's output, the only one that says whether the creator is an
// administrator.
func created(rec record.Cluster) *awseks.CreateClusterOutput {
	access := *rec.Cluster.AccessConfig
	access.BootstrapClusterCreatorAdminPermissions = new(rec.BootstrapAdmin)
	rec.Cluster.AccessConfig = &access
	return &awseks.CreateClusterOutput{Cluster: &rec.Cluster}
}

// newRecord checks a request and returns the record to store.
func (s *Service) newRecord(ctx context.Context, call *awsapi.Call, in *awseks.CreateClusterInput) (*record.Cluster, error) {
	name := *in.Name
	switches := autoMode{in.ComputeConfig, in.StorageConfig, in.KubernetesNetworkConfig}
	auto, err := s.requestedAutoMode(ctx, call, name, switches)
	if err != nil {
		return nil, err
	}
	if auto.On() && (in.BootstrapSelfManagedAddons == nil || *in.BootstrapSelfManagedAddons) {
		return nil, errAutoModeAddons(name)
	}
	if err := base.CheckTags(name, in.Tags); err != nil {
		return nil, err
	}
	version := eksversions.Default
	if in.Version != nil {
		version = *in.Version
	}
	v, ok := eksversions.Lookup(version)
	if !ok {
		return nil, errUnsupportedVersion(name, version)
	}
	config := &ekstypes.AccessConfigResponse{AuthenticationMode: ekstypes.AuthenticationModeConfigMap}
	bootstrap := true
	if a := in.AccessConfig; a != nil {
		if a.AuthenticationMode != "" {
			config.AuthenticationMode = a.AuthenticationMode
		}
		if !slices.Contains(config.AuthenticationMode.Values(), config.AuthenticationMode) {
			return nil, ekserr.InvalidParameter(name, "Invalid authentication mode: %s", config.AuthenticationMode)
		}
		if a.BootstrapClusterCreatorAdminPermissions != nil {
			bootstrap = *a.BootstrapClusterCreatorAdminPermissions
		}
	}
	if auto.On() && config.AuthenticationMode == ekstypes.AuthenticationModeConfigMap {
		return nil, errAutoModeAuthentication(name)
	}
	if !bootstrap && config.AuthenticationMode == ekstypes.AuthenticationModeConfigMap {
		return nil, errBootstrapRequired(name)
	}
	upgrade := &ekstypes.UpgradePolicyResponse{SupportType: ekstypes.SupportTypeExtended}
	if in.UpgradePolicy != nil && in.UpgradePolicy.SupportType != "" {
		if !slices.Contains(upgrade.SupportType.Values(), in.UpgradePolicy.SupportType) {
			return nil, ekserr.InvalidParameter(name, "Invalid support type: %s", in.UpgradePolicy.SupportType)
		}
		upgrade.SupportType = in.UpgradePolicy.SupportType
	}
	if err := s.checkSupport(name, version, upgrade.SupportType); err != nil {
		return nil, err
	}
	logs, err := changedLogs(name, nil, in.Logging)
	if err != nil {
		return nil, err
	}
	if err := s.checkRole(ctx, call, name, in.RoleArn); err != nil {
		return nil, err
	}
	family, err := ipFamily(call.Region, name, in)
	if err != nil {
		return nil, err
	}
	vpc, vpcCIDRs, err := s.checkVPC(ctx, call, name, family, in.ResourcesVpcConfig)
	if err != nil {
		return nil, err
	}
	network, err := networkConfig(name, family, in.KubernetesNetworkConfig, vpcCIDRs)
	if err != nil {
		return nil, err
	}
	remote, err := remoteNetworks(name, in.RemoteNetworkConfig, config.AuthenticationMode, vpcCIDRs, aws.ToString(network.ServiceIpv4Cidr))
	if err != nil {
		return nil, err
	}
	encryption, err := s.checkEncryption(ctx, call, name, in.EncryptionConfig)
	if err != nil {
		return nil, err
	}
	if err := checkTier(name, in.ControlPlaneScalingConfig); err != nil {
		return nil, err
	}
	var zonalShift *ekstypes.ZonalShiftConfigResponse
	if in.ZonalShiftConfig != nil {
		zonalShift = &ekstypes.ZonalShiftConfigResponse{Enabled: new(aws.ToBool(in.ZonalShiftConfig.Enabled))}
	}
	now := s.Now()
	creatorARN, creatorID := access.IdentityOf(call.Principal)
	rec := &record.Cluster{
		Cluster: ekstypes.Cluster{
			Name:                      &name,
			Arn:                       new(arn.New("eks", call.Region, call.Account, "cluster/"+name)),
			CreatedAt:                 &now,
			Version:                   &version,
			PlatformVersion:           &v.PlatformVersion,
			RoleArn:                   in.RoleArn,
			ResourcesVpcConfig:        vpc,
			KubernetesNetworkConfig:   network,
			Logging:                   loggingOf(logs),
			Status:                    ekstypes.ClusterStatusCreating,
			CertificateAuthority:      &ekstypes.Certificate{},
			AccessConfig:              config,
			UpgradePolicy:             upgrade,
			DeletionProtection:        new(in.DeletionProtection != nil && *in.DeletionProtection),
			Health:                    &ekstypes.ClusterHealth{Issues: []ekstypes.ClusterIssue{}},
			EncryptionConfig:          encryption,
			RemoteNetworkConfig:       remote,
			ZonalShiftConfig:          zonalShift,
			ControlPlaneScalingConfig: in.ControlPlaneScalingConfig,
			Tags:                      base.TagsOrEmpty(in.Tags),
		},
		UID:               ids.UUID(),
		Creator:           record.Identity{ARN: creatorARN, ID: creatorID},
		BootstrapAdmin:    bootstrap,
		SelfManagedAddons: in.BootstrapSelfManagedAddons == nil || *in.BootstrapSelfManagedAddons,
		Since:             now,
		SecurityGroupName: fmt.Sprintf("eks-cluster-sg-%s-%d", name, 1_000_000_000+hexNumber(ids.Hex(7))),
	}
	auto.Commit(rec)
	return rec, setComponents(&rec.Cluster, componentsRequest{in.KubeApiServerConfig, in.KubeControllerManagerConfig, in.KubeSchedulerConfig})
}

// DescribeCluster returns a cluster. The activation code of a connected one is returned only when it is registered, as
// Systems Manager returns those of its activations.
func (s *Service) DescribeCluster(ctx context.Context, in *awseks.DescribeClusterInput) (*awseks.DescribeClusterOutput, error) {
	if c, ok := record.Connected(s.Store, record.ClusterKey(awsapi.CallFrom(ctx), aws.ToString(in.Name))); ok {
		config := *c.Cluster.ConnectorConfig
		config.ActivationCode = nil
		c.Cluster.ConnectorConfig = &config
		return &awseks.DescribeClusterOutput{Cluster: &c.Cluster}, nil
	}
	key, rec, err := s.Cluster(ctx, in.Name)
	if err != nil {
		return nil, err
	}
	rec.Cluster.Health = s.health(ctx, key, rec)
	completeComponents(&rec.Cluster)
	return &awseks.DescribeClusterOutput{Cluster: &rec.Cluster}, nil
}

// ListClusters returns the names of the clusters in the region. Connected clusters are among them if the request includes
// all, until their activation expires: https://docs.aws.amazon.com/eks/latest/APIReference/API_RegisterCluster.html
func (s *Service) ListClusters(ctx context.Context, in *awseks.ListClustersInput) (*awseks.ListClustersOutput, error) {
	call := awsapi.CallFrom(ctx)
	for _, i := range in.Include {
		if i != "all" {
			return nil, ekserr.InvalidParameter("", "Invalid include: %s", i)
		}
	}
	here := store.Scope{Account: call.Account, Region: call.Region}
	names := []string{}
	for _, i := range record.Clusters.All(s.Store, here) {
		names = append(names, i.Key.ID)
	}
	if len(in.Include) > 0 {
		for _, i := range record.ConnectedClusters.All(s.Store, here) {
			if s.Clock.Now().Before(*i.Value.Cluster.ConnectorConfig.ActivationExpiry) {
				names = append(names, i.Key.ID)
			}
		}
		slices.Sort(names)
	}
	names, next, err := base.Page(names, func(name string) string { return name }, in.MaxResults, in.NextToken)
	return &awseks.ListClustersOutput{Clusters: names, NextToken: next}, err
}

// DeleteCluster marks a cluster for the reconciler to remove.
func (s *Service) DeleteCluster(ctx context.Context, in *awseks.DeleteClusterInput) (*awseks.DeleteClusterOutput, error) {
	key, _, err := s.Cluster(ctx, in.Name)
	if err != nil {
		return nil, err
	}
	var out awseks.DeleteClusterOutput
	err = s.Store.Update(ctx, func(tx *store.Tx) error {
		rec, err := record.Clusters.Get(tx, key)
		if err != nil {
			return store.NotFoundAs(err, ekserr.NoCluster(key.ID))
		}
		switch rec.Cluster.Status {
		case ekstypes.ClusterStatusActive, ekstypes.ClusterStatusFailed:
		case ekstypes.ClusterStatusUpdating:
			return s.UpdateInProgress(tx, key, "", "DeleteCluster")
		default:
			return errBusy(key.ID, rec.Cluster.Status)
		}
		if on := rec.Cluster.DeletionProtection; on != nil && *on {
			return errDeletionProtected(key.ID)
		}
		groups := record.Nodegroups.All(tx, key.AllBelow())
		if len(groups) > 0 {
			return errNodegroupsAttached(key.ID, *groups[0].Value.Nodegroup.NodegroupName)
		}
		profiles := record.FargateProfiles.All(tx, key.AllBelow())
		if len(profiles) > 0 {
			return errFargateProfilesAttached(key.ID)
		}
		if len(record.Capabilities.All(tx, key.AllBelow())) > 0 {
			return errCapabilitiesAttached(key.ID)
		}
		return record.Clusters.Update(tx, key, func(c *record.Cluster) error {
			c.Cluster.Status = ekstypes.ClusterStatusDeleting
			c.Since = s.Clock.Now().UTC()
			out.Cluster = &c.Cluster
			return nil
		})
	})
	return &out, err
}

// checkSupport refuses standard support for a version that is in extended support.
// https://docs.aws.amazon.com/eks/latest/userguide/disable-extended-support.html
func (s *Service) checkSupport(cluster, version string, to ekstypes.SupportType) error {
	if v, ok := eksversions.Lookup(version); ok && to == ekstypes.SupportTypeStandard && !s.Clock.Now().Before(v.EndOfStandardSupport) {
		return errExtendedSupport(cluster, version)
	}
	return nil
}

func hexNumber(h string) int64 {
	var n int64
	_, _ = fmt.Sscanf(h, "%x", &n) // h is our own, so it is always hexadecimal
	return n
}

// A Status is what `drydock status` shows about a cluster.
type Status struct {
	Account, Region, Name string
	Version               string
	Status                string
	Endpoint              string // empty until ACTIVE
	PlaneID               string // empty until claimed
	Owner                 string // the owner that its control plane was claimed for
}

const unreadable = "UNREADABLE"

// Unreadable reports whether the cluster's record cannot be read. Only its name is known then.
func (s Status) Unreadable() bool { return s.Status == unreadable }

// Clusters returns the clusters of all accounts and regions.
func (s *Service) Clusters(_ context.Context) ([]Status, error) {
	all := record.Clusters.All(s.Store, store.Scope{})
	out := make([]Status, 0, len(all))
	for _, i := range all {
		c := i.Value.Cluster
		out = append(out, Status{
			Account: i.Key.Account, Region: i.Key.Region, Name: i.Key.ID, Version: aws.ToString(c.Version),
			Status: string(c.Status), Endpoint: aws.ToString(c.Endpoint), PlaneID: i.Value.Plane.ID, Owner: i.Value.Owner(),
		})
	}
	for _, k := range record.Clusters.Unreadable(s.Store, store.Scope{}) {
		out = append(out, Status{Account: k.Account, Region: k.Region, Name: k.ID, Status: unreadable})
	}
	return out, nil
}

// An APIEndpoint is where a cluster's API server is in AWS's network.
type APIEndpoint struct {
	Host string // such as 0123….gr7.us-east-1.eks.amazonaws.com
	ARN  string
	// If Private, Host resolves to the control plane's network interfaces, Interfaces, inside
	// VPCID. If Public, it resolves to a public address elsewhere, which accepts clients from
	// PublicCIDRs.
	VPCID           string
	Interfaces      []string
	Public, Private bool
	PublicCIDRs     []string
}

// APIEndpoints returns the endpoints of the clusters in an account and region.
func (s *Service) APIEndpoints(_ context.Context, account, region string) ([]APIEndpoint, error) {
	return APIEndpoints(s.Store, account, region), nil
}

// APIEndpoints returns the endpoints of the clusters in an account and region.
func APIEndpoints(r store.Reader, account, region string) []APIEndpoint {
	all := record.Clusters.All(r, store.Scope{Account: account, Region: region})
	var out []APIEndpoint
	for _, i := range all {
		c := i.Value.Cluster
		if i.Value.Plane.AWSHost == "" || c.ResourcesVpcConfig == nil {
			continue
		}
		v := c.ResourcesVpcConfig
		out = append(out, APIEndpoint{
			Host: i.Value.Plane.AWSHost, ARN: aws.ToString(c.Arn), VPCID: aws.ToString(v.VpcId),
			Interfaces: slices.Sorted(maps.Values(i.Value.Interfaces)),
			Public:     v.EndpointPublicAccess, Private: v.EndpointPrivateAccess, PublicCIDRs: v.PublicAccessCidrs,
		})
	}
	return out
}

// DescribeClusterVersions lists the available Kubernetes versions, latest first.
// https://docs.aws.amazon.com/eks/latest/APIReference/API_DescribeClusterVersions.html
func (s *Service) DescribeClusterVersions(_ context.Context, in *awseks.DescribeClusterVersionsInput) (*awseks.DescribeClusterVersionsOutput, error) {
	if t := aws.ToString(in.ClusterType); t != "" && t != "eks" && t != "eks-local" {
		return nil, ekserr.InvalidParameter("", "Invalid clusterType: %s", t)
	}
	out := &awseks.DescribeClusterVersionsOutput{ClusterVersions: []ekstypes.ClusterVersionInformation{}}
	now := s.Clock.Now()
	all := eksversions.All()
	for _, v := range in.ClusterVersions {
		if _, ok := eksversions.Lookup(v); !ok {
			return nil, errUnsupportedVersion("", v)
		}
	}
	slices.Reverse(all)
	for _, v := range all {
		info := ekstypes.ClusterVersionInformation{
			ClusterVersion:           &v.Minor,
			ClusterType:              new("eks"),
			DefaultPlatformVersion:   &v.PlatformVersion,
			DefaultVersion:           v.Minor == eksversions.Default,
			KubernetesPatchVersion:   &v.Patch,
			ReleaseDate:              &v.Released,
			EndOfStandardSupportDate: &v.EndOfStandardSupport,
			EndOfExtendedSupportDate: &v.EndOfExtendedSupport,
			Status:                   ekstypes.ClusterVersionStatusStandardSupport,
			VersionStatus:            ekstypes.VersionStatusStandardSupport,

			ControlPlaneComponentConfig: versionComponents(),
		}
		if !now.Before(v.EndOfStandardSupport) {
			info.Status, info.VersionStatus = ekstypes.ClusterVersionStatusExtendedSupport, ekstypes.VersionStatusExtendedSupport
		}
		switch {
		case len(in.ClusterVersions) > 0 && !slices.Contains(in.ClusterVersions, v.Minor),
			in.DefaultOnly != nil && *in.DefaultOnly && !info.DefaultVersion,
			//lint:ignore SA1019 clients of today still send it
			in.Status != "" && in.Status != info.Status,
			in.VersionStatus != "" && in.VersionStatus != info.VersionStatus,
			aws.ToString(in.ClusterType) == "eks-local":
			continue
		}
		out.ClusterVersions = append(out.ClusterVersions, info)
	}
	// Page by distance from the newest version, because the newest come first.
	order := func(i ekstypes.ClusterVersionInformation) string {
		return string(rune('a' + eksversions.Number(eksversions.Default) - eksversions.Number(*i.ClusterVersion)))
	}
	var err error
	out.ClusterVersions, out.NextToken, err = base.Page(out.ClusterVersions, order, in.MaxResults, in.NextToken)
	return out, err
}
