package cluster

import (
	"cmp"
	"context"
	"slices"
	"strconv"

	"github.com/aws/aws-sdk-go-v2/aws"
	awseks "github.com/aws/aws-sdk-go-v2/service/eks"
	ekstypes "github.com/aws/aws-sdk-go-v2/service/eks/types"

	"github.com/drydock-dev/drydock/internal/awsapi"
	"github.com/drydock-dev/drydock/internal/service/eks/base"
	"github.com/drydock-dev/drydock/internal/service/eks/ekserr"
	"github.com/drydock-dev/drydock/internal/service/eks/record"
	"github.com/drydock-dev/drydock/internal/store"
)

// UpdateClusterConfig starts an update of a cluster's configuration. The cluster reconciler
// completes it. Like EKS, it accepts one kind of change per call.
// https://docs.aws.amazon.com/eks/latest/APIReference/API_UpdateClusterConfig.html
func (s *Service) UpdateClusterConfig(ctx context.Context, in *awseks.UpdateClusterConfigInput) (*awseks.UpdateClusterConfigOutput, error) {
	key, rec, err := s.Cluster(ctx, in.Name)
	if err != nil {
		return nil, err
	}
	request := record.Fingerprint(in)
	if done, err := s.RepeatedUpdate(s.Store, key, in.ClientRequestToken, request); done != nil || err != nil {
		return &awseks.UpdateClusterConfigOutput{Update: done}, err
	}
	kinds := 0
	for _, given := range []bool{in.AccessConfig != nil, in.ResourcesVpcConfig != nil, in.Logging != nil, in.UpgradePolicy != nil, in.DeletionProtection != nil, in.ZonalShiftConfig != nil, in.ControlPlaneScalingConfig != nil, in.RemoteNetworkConfig != nil,
		in.ComputeConfig != nil || in.StorageConfig != nil || in.KubernetesNetworkConfig != nil, requestedComponents(in).given()} {
		if given {
			kinds++
		}
	}
	switch {
	case kinds == 0:
		return nil, ekserr.InvalidParameter(key.ID, "No update parameters were specified.")
	case kinds > 1:
		return nil, errOneUpdate(key.ID)
	}
	up, err := s.requestedChange(ctx, rec, in)
	if err != nil {
		return nil, err
	}
	up.Request, up.Token = request, aws.ToString(in.ClientRequestToken)
	err = s.Store.Update(ctx, func(tx *store.Tx) error {
		now, err := record.Clusters.Get(tx, key)
		switch {
		case err != nil:
			return store.NotFoundAs(err, ekserr.NoCluster(key.ID))
		case now.Cluster.Status == ekstypes.ClusterStatusUpdating:
			return s.UpdateInProgress(tx, key, "", string(up.Update.Type))
		case now.Cluster.Status != ekstypes.ClusterStatusActive:
			return ekserr.ClusterNotActive(key.ID, now.Cluster.Status)
		case now.UID != rec.UID || in.AccessConfig != nil && now.Mode() != rec.Mode():
			return ekserr.UpdateInProgress(string(up.Update.Type), key.ID, *up.Update.Id)
		}
		return s.begin(tx, key, up)
	})
	return &awseks.UpdateClusterConfigOutput{Update: &up.Update}, err
}

func requestedComponents(in *awseks.UpdateClusterConfigInput) componentsRequest {
	return componentsRequest{in.KubeApiServerConfig, in.KubeControllerManagerConfig, in.KubeSchedulerConfig}
}

// begin records an update and makes its cluster UPDATING.
func (s *Service) begin(tx *store.Tx, key store.Key, up *record.Update) error {
	err := record.Clusters.Update(tx, key, func(c *record.Cluster) error {
		if c.Rollback != nil {
			return s.UpdateInProgress(tx, key, "", string(up.Update.Type))
		}
		c.Cluster.Status, c.Since = ekstypes.ClusterStatusUpdating, s.Clock.Now().UTC()
		return nil
	})
	if err != nil {
		return err
	}
	return record.Updates.Create(tx, key.Below(*up.Update.Id), *up)
}

// requestedChange checks that a request has exactly one change and returns its update.
func (s *Service) requestedChange(ctx context.Context, rec record.Cluster, in *awseks.UpdateClusterConfigInput) (*record.Update, error) {
	switch name := rec.Name(); {
	case in.AccessConfig != nil:
		return s.accessChange(rec, in.AccessConfig.AuthenticationMode)
	case in.ResourcesVpcConfig != nil:
		return s.vpcConfigChange(ctx, rec, in.ResourcesVpcConfig)
	case in.UpgradePolicy != nil:
		to := in.UpgradePolicy.SupportType
		if !slices.Contains(to.Values(), to) {
			return nil, ekserr.InvalidParameter(name, "Invalid support type: %s", to)
		}
		if to == rec.Cluster.UpgradePolicy.SupportType {
			return nil, ekserr.InvalidParameter(name, "The cluster's support type is already %s", to)
		}
		if err := s.checkSupport(name, *rec.Cluster.Version, to); err != nil {
			return nil, err
		}
		up := s.NewUpdate(ekstypes.UpdateTypeUpgradePolicyUpdate, base.UpdateParam(ekstypes.UpdateParamTypeUpgradePolicy, base.JSON(map[string]any{"supportType": to})))
		up.SupportType = to
		return up, nil
	case in.RemoteNetworkConfig != nil:
		call := awsapi.CallFrom(ctx)
		vpc, err := s.vpcCIDRs(s.AsService(ctx, call.Account, call.Region), *rec.Cluster.ResourcesVpcConfig.VpcId)
		if err != nil {
			return nil, err
		}
		return s.remoteNetworkChange(rec, vpc, in.RemoteNetworkConfig)
	case in.ComputeConfig != nil || in.StorageConfig != nil || in.KubernetesNetworkConfig != nil:
		return s.autoModeChange(ctx, rec, in)
	case requestedComponents(in).given():
		return s.componentsChange(rec, requestedComponents(in))
	case in.DeletionProtection != nil:
		up := s.NewUpdate(ekstypes.UpdateTypeDeletionProtectionUpdate, base.UpdateParam(ekstypes.UpdateParamTypeDeletionProtection, strconv.FormatBool(*in.DeletionProtection)))
		up.DeletionProtection = in.DeletionProtection
		return up, nil
	case in.ZonalShiftConfig != nil:
		on := aws.ToBool(in.ZonalShiftConfig.Enabled)
		up := s.NewUpdate(ekstypes.UpdateTypeZonalShiftConfigUpdate, base.UpdateParam(ekstypes.UpdateParamTypeZonalShiftConfig, base.JSON(map[string]any{"enabled": on})))
		up.ZonalShift = &on
		return up, nil
	case in.ControlPlaneScalingConfig != nil:
		if err := checkTier(name, in.ControlPlaneScalingConfig); err != nil {
			return nil, err
		}
		to := cmp.Or(in.ControlPlaneScalingConfig.Tier, ekstypes.ProvisionedControlPlaneTierStandard)
		if to == ekstypes.ProvisionedControlPlaneTierStandard && settingsOf(rec.Cluster).HPASyncPeriod != "" {
			return nil, errTierKept(name)
		}
		from := ekstypes.ProvisionedControlPlaneTierStandard
		if c := rec.Cluster.ControlPlaneScalingConfig; c != nil {
			from = cmp.Or(c.Tier, from)
		}
		up := s.NewUpdate(ekstypes.UpdateTypeControlPlaneScalingConfigUpdate,
			base.UpdateParam(ekstypes.UpdateParamTypePreviousTier, string(from)), base.UpdateParam(ekstypes.UpdateParamTypeUpdatedTier, string(to)))
		up.Tier = to
		return up, nil
	default:
		return s.loggingChange(rec, in.Logging)
	}
}

// checkTier checks the scaling tier of a control plane, which is optional.
// https://docs.aws.amazon.com/eks/latest/APIReference/API_ControlPlaneScalingConfig.html
func checkTier(cluster string, in *ekstypes.ControlPlaneScalingConfig) error {
	if in != nil && in.Tier != "" && !slices.Contains(in.Tier.Values(), in.Tier) {
		return ekserr.InvalidParameter(cluster, "Invalid control plane scaling tier: %s", in.Tier)
	}
	return nil
}

// accessChange checks a change of the authentication mode, which can advance by one step and never
// goes back.
// https://docs.aws.amazon.com/eks/latest/userguide/grant-k8s-access.html#set-cam
func (s *Service) accessChange(rec record.Cluster, to ekstypes.AuthenticationMode) (*record.Update, error) {
	order := []ekstypes.AuthenticationMode{ekstypes.AuthenticationModeConfigMap, ekstypes.AuthenticationModeApiAndConfigMap, ekstypes.AuthenticationModeApi}
	if i := slices.Index(order, rec.Mode()); i+1 >= len(order) || order[i+1] != to {
		return nil, errModeChange(rec.Name(), rec.Mode(), to)
	}
	up := s.NewUpdate(ekstypes.UpdateTypeAccessConfigUpdate, base.UpdateParam(ekstypes.UpdateParamTypeAuthenticationMode, strconv.Quote(string(to))))
	up.AuthenticationMode = to
	return up, nil
}

// vpcConfigChange checks a change of either endpoint access or subnets and security groups. EKS
// accepts only one of the two per call.
func (s *Service) vpcConfigChange(ctx context.Context, rec record.Cluster, in *ekstypes.VpcConfigRequest) (*record.Update, error) {
	if _, err := egressMode("UpdateClusterConfig", in); err != nil {
		return nil, err
	}
	name := rec.Name()
	old := rec.Cluster.ResourcesVpcConfig
	change := &record.VPCChange{
		Public: old.EndpointPublicAccess, Private: old.EndpointPrivateAccess, CIDRs: old.PublicAccessCidrs,
		Subnets: old.SubnetIds, SecurityGroups: old.SecurityGroupIds,
	}
	endpoint := in.EndpointPublicAccess != nil || in.EndpointPrivateAccess != nil || in.PublicAccessCidrs != nil
	network := in.SubnetIds != nil || in.SecurityGroupIds != nil
	switch {
	case endpoint && network:
		return nil, errOneUpdate(name)
	case network:
		return s.networkChange(ctx, rec, change, in)
	}
	family := rec.Cluster.KubernetesNetworkConfig.IpFamily
	if in.EndpointPublicAccess != nil {
		change.Public = *in.EndpointPublicAccess
	}
	if in.EndpointPrivateAccess != nil {
		change.Private = *in.EndpointPrivateAccess
	}
	if err := checkEndpointAccess(name, family, change.Public, change.Private, in.PublicAccessCidrs); err != nil {
		return nil, err
	}
	switch {
	case len(in.PublicAccessCidrs) > 0:
		change.CIDRs = in.PublicAccessCidrs
	case change.Public && len(change.CIDRs) == 0:
		change.CIDRs = everyone(family)
	case !change.Public:
		change.CIDRs = []string{}
	}
	if change.Public == old.EndpointPublicAccess && change.Private == old.EndpointPrivateAccess && sameSet(change.CIDRs, old.PublicAccessCidrs) {
		return nil, errSameEndpointAccess(name, change.Private, change.Public, change.CIDRs)
	}
	up := s.NewUpdate(ekstypes.UpdateTypeEndpointAccessUpdate,
		base.UpdateParam(ekstypes.UpdateParamTypeEndpointPublicAccess, strconv.FormatBool(change.Public)),
		base.UpdateParam(ekstypes.UpdateParamTypeEndpointPrivateAccess, strconv.FormatBool(change.Private)),
		base.UpdateParam(ekstypes.UpdateParamTypePublicAccessCidrs, base.JSON(change.CIDRs)))
	up.VPC = change
	return up, nil
}

func (s *Service) networkChange(ctx context.Context, rec record.Cluster, change *record.VPCChange, in *ekstypes.VpcConfigRequest) (*record.Update, error) {
	name, vpc := rec.Name(), *rec.Cluster.ResourcesVpcConfig.VpcId
	call := awsapi.CallFrom(ctx)
	svc := s.AsService(ctx, call.Account, call.Region)
	var params []ekstypes.UpdateParam
	if in.SubnetIds != nil {
		got, zones, err := s.subnets(svc, name, rec.Cluster.KubernetesNetworkConfig.IpFamily, in.SubnetIds)
		switch {
		case err != nil:
			return nil, err
		case got != vpc:
			return nil, errSubnetVPCs(name)
		case len(zones) < 2:
			return nil, errOneZone(name)
		}
		change.Subnets = in.SubnetIds
		params = append(params, base.UpdateParam(ekstypes.UpdateParamTypeSubnets, base.JSON(in.SubnetIds)))
	}
	if in.SecurityGroupIds != nil {
		if err := s.checkSecurityGroups(svc, name, vpc, in.SecurityGroupIds); err != nil {
			return nil, err
		}
		change.SecurityGroups = in.SecurityGroupIds
		params = append(params, base.UpdateParam(ekstypes.UpdateParamTypeSecurityGroups, base.JSON(in.SecurityGroupIds)))
	}
	up := s.NewUpdate(ekstypes.UpdateTypeVpcConfigUpdate, params...)
	up.VPC = change
	return up, nil
}

func sameSet(a, b []string) bool {
	a, b = slices.Sorted(slices.Values(a)), slices.Sorted(slices.Values(b))
	return slices.Equal(a, b)
}
