package eks

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	awseks "github.com/aws/aws-sdk-go-v2/service/eks"
	ekstypes "github.com/aws/aws-sdk-go-v2/service/eks/types"

	"github.com/drydock-dev/drydock/internal/arn"
	"github.com/drydock-dev/drydock/internal/awsapi"
	"github.com/drydock-dev/drydock/internal/awsapi/awserr"
	"github.com/drydock-dev/drydock/internal/catalog/eksversions"
	"github.com/drydock-dev/drydock/internal/ids"
	"github.com/drydock-dev/drydock/internal/store"
)

// CreateCluster records a cluster that the cluster reconciler then makes.
// https://docs.aws.amazon.com/eks/latest/APIReference/API_CreateCluster.html
func (s *Service) CreateCluster(ctx context.Context, in *awseks.CreateClusterInput) (*awseks.CreateClusterOutput, error) {
	call := awsapi.CallFrom(ctx)
	if err := validateName(in.Name, "name", "cluster name", "", 100); err != nil {
		return nil, err
	}
	name := *in.Name
	key := clusterKey(call, name)
	unsigned := *in
	unsigned.ClientRequestToken = nil
	request := fingerprint(unsigned)
	if old, err := clusters.Get(s.store, key); err == nil {
		return repeatedCreate(old, in.ClientRequestToken, request)
	}
	rec, err := s.newCluster(ctx, call, in)
	if err != nil {
		return nil, err
	}
	rec.Request = request
	if in.ClientRequestToken != nil {
		rec.Token = *in.ClientRequestToken
	}
	undo, err := s.grantKey(ctx, rec)
	if err != nil {
		return nil, err
	}
	var out *awseks.CreateClusterOutput
	made := false
	err = s.store.Update(ctx, func(tx *store.Tx) error {
		made = false // a transaction may be repeated
		if old, err := clusters.Get(tx, key); err == nil {
			out, err = repeatedCreate(old, in.ClientRequestToken, request)
			return err
		}
		all, err := clusters.List(tx, store.Scope{Account: call.Account, Region: call.Region})
		if err != nil {
			return err
		}
		quotas, err := s.quotas(key)
		if err != nil {
			return err
		}
		if len(all) >= quotas.Clusters {
			return errClusterLimit(quotas.Clusters)
		}
		out, made = created(*rec), true
		return clusters.Create(tx, key, *rec)
	})
	if err != nil || !made { // the same request, at the same time, has granted for itself
		undo()
	}
	if err != nil {
		return nil, err
	}
	return out, nil
}

// repeatedCreate answers a CreateCluster whose name is taken.
func repeatedCreate(old clusterRecord, token *string, request string) (*awseks.CreateClusterOutput, error) {
	switch {
	case token == nil || old.Token != *token:
		return nil, errClusterExists(old.name())
	case old.Request != request:
		return nil, errTokenReused(old.name())
	}
	return created(old), nil
}

// created is CreateCluster's answer: alone it tells whether the creator is an
// administrator.
func created(rec clusterRecord) *awseks.CreateClusterOutput {
	c := describe(rec)
	access := *c.AccessConfig
	access.BootstrapClusterCreatorAdminPermissions = new(rec.BootstrapAdmin)
	c.AccessConfig = &access
	return &awseks.CreateClusterOutput{Cluster: c}
}

// newCluster checks a request and returns the record it makes.
func (s *Service) newCluster(ctx context.Context, call *awsapi.Call, in *awseks.CreateClusterInput) (*clusterRecord, error) {
	name := *in.Name
	if err := refuseSwitches(in); err != nil {
		return nil, err
	}
	if err := validateTags(name, in.Tags); err != nil {
		return nil, err
	}
	version := eksversions.Default
	if in.Version != nil {
		version = *in.Version
	}
	v, ok := eksversions.Lookup(version)
	if !ok {
		return nil, errUnsupportedVersion(name)
	}
	access := &ekstypes.AccessConfigResponse{AuthenticationMode: ekstypes.AuthenticationModeConfigMap}
	bootstrap := true
	if a := in.AccessConfig; a != nil {
		if a.AuthenticationMode != "" {
			access.AuthenticationMode = a.AuthenticationMode
		}
		if !slices.Contains(access.AuthenticationMode.Values(), access.AuthenticationMode) {
			return nil, invalidParameter(name, "Invalid authentication mode: %s", access.AuthenticationMode)
		}
		if a.BootstrapClusterCreatorAdminPermissions != nil {
			bootstrap = *a.BootstrapClusterCreatorAdminPermissions
		}
	}
	if !bootstrap && access.AuthenticationMode == ekstypes.AuthenticationModeConfigMap {
		return nil, errBootstrapRequired(name)
	}
	upgrade := &ekstypes.UpgradePolicyResponse{SupportType: ekstypes.SupportTypeExtended}
	if in.UpgradePolicy != nil && in.UpgradePolicy.SupportType != "" {
		if !slices.Contains(upgrade.SupportType.Values(), in.UpgradePolicy.SupportType) {
			return nil, invalidParameter(name, "Invalid support type: %s", in.UpgradePolicy.SupportType)
		}
		upgrade.SupportType = in.UpgradePolicy.SupportType
	}
	if err := validateLogging(name, in.Logging); err != nil {
		return nil, err
	}
	if err := s.validateClusterRole(ctx, call, name, in.RoleArn); err != nil {
		return nil, err
	}
	vpc, vpcCIDRs, err := s.validateVPC(ctx, call, name, in.ResourcesVpcConfig)
	if err != nil {
		return nil, err
	}
	cidr, err := serviceCIDR(name, in.KubernetesNetworkConfig, vpcCIDRs)
	if err != nil {
		return nil, err
	}
	encryption, err := s.validateEncryption(ctx, call, name, in.EncryptionConfig)
	if err != nil {
		return nil, err
	}
	now := s.clock.Now().UTC().Truncate(time.Millisecond)
	creatorARN, creatorID := identityOf(call.Principal)
	return &clusterRecord{
		Cluster: ekstypes.Cluster{
			Name:                    &name,
			Arn:                     new(arn.New("eks", call.Region, call.Account, "cluster/"+name)),
			CreatedAt:               &now,
			Version:                 &version,
			PlatformVersion:         &v.PlatformVersion,
			RoleArn:                 in.RoleArn,
			ResourcesVpcConfig:      vpc,
			KubernetesNetworkConfig: &ekstypes.KubernetesNetworkConfigResponse{ServiceIpv4Cidr: &cidr, IpFamily: ekstypes.IpFamilyIpv4, ElasticLoadBalancing: &ekstypes.ElasticLoadBalancing{Enabled: new(false)}},
			Logging:                 noLogging(),
			Status:                  ekstypes.ClusterStatusCreating,
			CertificateAuthority:    &ekstypes.Certificate{},
			AccessConfig:            access,
			UpgradePolicy:           upgrade,
			DeletionProtection:      new(in.DeletionProtection != nil && *in.DeletionProtection),
			Health:                  &ekstypes.ClusterHealth{Issues: []ekstypes.ClusterIssue{}},
			EncryptionConfig:        encryption,
			Tags:                    tagsOrEmpty(in.Tags),
		},
		UID:               ids.UUID(),
		Creator:           identityRef{creatorARN, creatorID},
		BootstrapAdmin:    bootstrap,
		SelfManagedAddons: in.BootstrapSelfManagedAddons == nil || *in.BootstrapSelfManagedAddons,
		Since:             now,
		SecurityGroupName: fmt.Sprintf("eks-cluster-sg-%s-%d", name, 1_000_000_000+hexNumber(ids.Hex(7))),
	}, nil
}

// DescribeCluster returns a cluster as it is now.
func (s *Service) DescribeCluster(ctx context.Context, in *awseks.DescribeClusterInput) (*awseks.DescribeClusterOutput, error) {
	key, rec, err := s.cluster(ctx, in.Name)
	if err != nil {
		return nil, err
	}
	c := describe(rec)
	c.Health = s.clusterHealth(ctx, key, rec)
	return &awseks.DescribeClusterOutput{Cluster: c}, nil
}

// ListClusters returns the names of the clusters in the region.
func (s *Service) ListClusters(ctx context.Context, in *awseks.ListClustersInput) (*awseks.ListClustersOutput, error) {
	call := awsapi.CallFrom(ctx)
	for _, i := range in.Include {
		if i != "all" { // connected clusters, of which there are none
			return nil, invalidParameter("", "Invalid include: %s", i)
		}
	}
	items, err := clusters.List(s.store, store.Scope{Account: call.Account, Region: call.Region})
	if err != nil {
		return nil, err
	}
	items, next, err := page(items, func(i store.Item[clusterRecord]) string { return i.Key.ID }, in.MaxResults, in.NextToken)
	if err != nil {
		return nil, err
	}
	out := &awseks.ListClustersOutput{Clusters: []string{}, NextToken: next}
	for _, i := range items {
		out.Clusters = append(out.Clusters, i.Key.ID)
	}
	return out, nil
}

// DeleteCluster marks a cluster for the reconciler to remove.
func (s *Service) DeleteCluster(ctx context.Context, in *awseks.DeleteClusterInput) (*awseks.DeleteClusterOutput, error) {
	key, _, err := s.cluster(ctx, in.Name)
	if err != nil {
		return nil, err
	}
	var out awseks.DeleteClusterOutput
	err = s.store.Update(ctx, func(tx *store.Tx) error {
		rec, err := clusters.Get(tx, key)
		if err != nil {
			return store.NotFoundAs(err, errNoCluster(key.ID))
		}
		switch rec.Cluster.Status {
		case ekstypes.ClusterStatusActive, ekstypes.ClusterStatusFailed:
		case ekstypes.ClusterStatusUpdating:
			return s.updateInProgress(tx, key, "", "DeleteCluster")
		default:
			return errClusterBusy(key.ID, rec.Cluster.Status)
		}
		if on := rec.Cluster.DeletionProtection; on != nil && *on {
			return errDeletionProtected(key.ID)
		}
		groups, err := nodegroups.List(tx, allBelow(key))
		if err != nil {
			return err
		}
		if len(groups) > 0 {
			return errNodegroupsAttached(key.ID, *groups[0].Value.Nodegroup.NodegroupName)
		}
		profiles, err := fargateProfiles.List(tx, allBelow(key))
		if err != nil {
			return err
		}
		if len(profiles) > 0 {
			return errFargateProfilesAttached(key.ID)
		}
		return clusters.Update(tx, key, func(c *clusterRecord) error {
			c.Cluster.Status = ekstypes.ClusterStatusDeleting
			c.Since = s.clock.Now().UTC()
			out.Cluster = describe(*c)
			return nil
		})
	})
	if err != nil {
		return nil, err
	}
	return &out, nil
}

// cluster returns the named cluster of the caller.
func (s *Service) cluster(ctx context.Context, name *string) (store.Key, clusterRecord, error) {
	if name == nil || *name == "" {
		return store.Key{}, clusterRecord{}, errMissing("name")
	}
	key := clusterKey(awsapi.CallFrom(ctx), *name)
	rec, err := clusters.Get(s.store, key)
	if errors.Is(err, store.ErrNotFound) {
		return key, rec, errNoCluster(*name)
	}
	return key, rec, err
}

// activeCluster is cluster for operations that need an ACTIVE one. UPDATING
// clusters work as before.
func (s *Service) activeCluster(ctx context.Context, name *string) (store.Key, clusterRecord, error) {
	key, rec, err := s.cluster(ctx, name)
	if err != nil {
		return key, rec, err
	}
	return key, rec, usable(rec)
}

func usable(rec clusterRecord) error {
	if st := rec.Cluster.Status; st != ekstypes.ClusterStatusActive && st != ekstypes.ClusterStatusUpdating {
		return errClusterNotActive(rec.name(), st)
	}
	return nil
}

// describe returns the cluster as AWS shows it. The result is the caller's, what
// it points to is not.
func describe(rec clusterRecord) *ekstypes.Cluster {
	c := rec.Cluster
	return &c
}

// identityOf returns the IAM identity behind a principal: a role for its
// sessions. The unique ID is the first part of UserID.
func identityOf(p awsapi.Principal) (identityARN, id string) {
	id, _, _ = strings.Cut(p.UserID, ":")
	if p.Type == awsapi.AssumedRole && p.RoleARN != "" {
		return p.RoleARN, id
	}
	return p.ARN, id
}

// refuseSwitches refuses to turn on what Drydock does not do.
func refuseSwitches(in *awseks.CreateClusterInput) error {
	on := func(b *bool) bool { return b != nil && *b }
	switch {
	case in.ComputeConfig != nil && on(in.ComputeConfig.Enabled):
		return awserr.NotImplemented("EKS Auto Mode (computeConfig.enabled)")
	case in.StorageConfig != nil && in.StorageConfig.BlockStorage != nil && on(in.StorageConfig.BlockStorage.Enabled):
		return awserr.NotImplemented("EKS Auto Mode (storageConfig.blockStorage.enabled)")
	case in.KubernetesNetworkConfig != nil && in.KubernetesNetworkConfig.ElasticLoadBalancing != nil && on(in.KubernetesNetworkConfig.ElasticLoadBalancing.Enabled):
		return awserr.NotImplemented("EKS Auto Mode (kubernetesNetworkConfig.elasticLoadBalancing.enabled)")
	case in.ZonalShiftConfig != nil && on(in.ZonalShiftConfig.Enabled):
		return awserr.NotImplemented("zonal shift (zonalShiftConfig.enabled)")
	case in.KubernetesNetworkConfig != nil && in.KubernetesNetworkConfig.IpFamily == ekstypes.IpFamilyIpv6:
		return awserr.NotImplemented("IPv6 clusters (kubernetesNetworkConfig.ipFamily)")
	}
	return nil
}

// noLogging is how a cluster without any control plane logs looks.
func noLogging() *ekstypes.Logging {
	return &ekstypes.Logging{ClusterLogging: []ekstypes.LogSetup{{Enabled: new(false), Types: ekstypes.LogType("").Values()}}}
}

func tagsOrEmpty(tags map[string]string) map[string]string {
	if tags == nil {
		return map[string]string{}
	}
	return maps.Clone(tags)
}

func hexNumber(h string) int64 {
	var n int64
	_, _ = fmt.Sscanf(h, "%x", &n) // h is ours: always hexadecimal
	return n
}
