package eks

import (
	"context"
	"encoding/json"
	"slices"
	"strconv"

	awseks "github.com/aws/aws-sdk-go-v2/service/eks"
	ekstypes "github.com/aws/aws-sdk-go-v2/service/eks/types"

	"github.com/drydock-dev/drydock/internal/awsapi"
	"github.com/drydock-dev/drydock/internal/store"
)

// UpdateClusterConfig starts one update of a cluster's configuration; the
// cluster reconciler finishes it. Like EKS it takes one kind of change a call.
// https://docs.aws.amazon.com/eks/latest/APIReference/API_UpdateClusterConfig.html
func (s *Service) UpdateClusterConfig(ctx context.Context, in *awseks.UpdateClusterConfigInput) (*awseks.UpdateClusterConfigOutput, error) {
	key, rec, err := s.cluster(ctx, in.Name)
	if err != nil {
		return nil, err
	}
	untokened := *in
	untokened.ClientRequestToken = nil
	request := fingerprint(untokened)
	if done, err := s.repeatedUpdate(s.store, key, in.ClientRequestToken, request); done != nil || err != nil {
		return &awseks.UpdateClusterConfigOutput{Update: done}, err
	}
	kinds := 0
	for _, given := range []bool{in.AccessConfig != nil, in.ResourcesVpcConfig != nil, in.Logging != nil, in.UpgradePolicy != nil, in.DeletionProtection != nil} {
		if given {
			kinds++
		}
	}
	switch {
	case kinds == 0:
		return nil, invalidParameter(key.ID, "No update parameters were specified.")
	case kinds > 1:
		return nil, errOneUpdate(key.ID)
	}
	up, err := s.clusterChange(ctx, rec, in)
	if err != nil {
		return nil, err
	}
	up.Request = request
	if in.ClientRequestToken != nil {
		up.Token = *in.ClientRequestToken
	}
	var out awseks.UpdateClusterConfigOutput
	err = s.store.Update(ctx, func(tx *store.Tx) error {
		now, err := clusters.Get(tx, key)
		switch {
		case err != nil:
			return store.NotFoundAs(err, errNoCluster(key.ID))
		case now.Cluster.Status == ekstypes.ClusterStatusUpdating:
			return s.updateInProgress(tx, key, "", string(up.Update.Type))
		case now.Cluster.Status != ekstypes.ClusterStatusActive:
			return errClusterNotActive(key.ID, now.Cluster.Status)
		case now.UID != rec.UID || in.AccessConfig != nil && now.mode() != rec.mode():
			return errUpdateInProgress(string(up.Update.Type), key.ID, *up.Update.Id)
		}
		if err := clusters.Update(tx, key, func(c *clusterRecord) error {
			c.Cluster.Status = ekstypes.ClusterStatusUpdating
			c.Since = s.clock.Now().UTC()
			return nil
		}); err != nil {
			return err
		}
		out.Update = &up.Update
		return updates.Create(tx, below(key, *up.Update.Id), *up)
	})
	if err != nil {
		return nil, err
	}
	return &out, nil
}

// clusterChange checks the one change in a request and returns its update.
func (s *Service) clusterChange(ctx context.Context, rec clusterRecord, in *awseks.UpdateClusterConfigInput) (*updateRecord, error) {
	switch name := rec.name(); {
	case in.AccessConfig != nil:
		return s.accessChange(rec, in.AccessConfig.AuthenticationMode)
	case in.ResourcesVpcConfig != nil:
		return s.vpcConfigChange(ctx, rec, in.ResourcesVpcConfig)
	case in.UpgradePolicy != nil:
		to := in.UpgradePolicy.SupportType
		if !slices.Contains(to.Values(), to) {
			return nil, invalidParameter(name, "Invalid support type: %s", to)
		}
		if to == rec.Cluster.UpgradePolicy.SupportType {
			return nil, invalidParameter(name, "The cluster's support type is already %s", to)
		}
		up := s.newUpdate(ekstypes.UpdateTypeUpgradePolicyUpdate, param(ekstypes.UpdateParamTypeUpgradePolicy, jsonText(map[string]any{"supportType": to})))
		up.SupportType = to
		return up, nil
	case in.DeletionProtection != nil:
		up := s.newUpdate(ekstypes.UpdateTypeDeletionProtectionUpdate, param(ekstypes.UpdateParamTypeDeletionProtection, strconv.FormatBool(*in.DeletionProtection)))
		up.DeletionProtection = in.DeletionProtection
		return up, nil
	default:
		if err := validateLogging(name, in.Logging); err != nil {
			return nil, err
		}
		return nil, errSameLogging(name) // logs can only be off
	}
}

// accessChange checks a change of the authentication mode: one step at a time,
// never back.
// https://docs.aws.amazon.com/eks/latest/userguide/grant-k8s-access.html#set-cam
func (s *Service) accessChange(rec clusterRecord, to ekstypes.AuthenticationMode) (*updateRecord, error) {
	order := []ekstypes.AuthenticationMode{ekstypes.AuthenticationModeConfigMap, ekstypes.AuthenticationModeApiAndConfigMap, ekstypes.AuthenticationModeApi}
	if i := slices.Index(order, rec.mode()); i+1 >= len(order) || order[i+1] != to {
		return nil, errModeChange(rec.name(), rec.mode(), to)
	}
	up := s.newUpdate(ekstypes.UpdateTypeAccessConfigUpdate, param(ekstypes.UpdateParamTypeAuthenticationMode, strconv.Quote(string(to))))
	up.AuthenticationMode = to
	return up, nil
}

// vpcConfigChange checks a change of endpoint access, or of subnets and
// security groups: EKS takes either in one call.
func (s *Service) vpcConfigChange(ctx context.Context, rec clusterRecord, in *ekstypes.VpcConfigRequest) (*updateRecord, error) {
	name := rec.name()
	old := rec.Cluster.ResourcesVpcConfig
	change := &vpcChange{
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
	if in.EndpointPublicAccess != nil {
		change.Public = *in.EndpointPublicAccess
	}
	if in.EndpointPrivateAccess != nil {
		change.Private = *in.EndpointPrivateAccess
	}
	if err := checkEndpointAccess(name, change.Public, change.Private, in.PublicAccessCidrs); err != nil {
		return nil, err
	}
	switch {
	case len(in.PublicAccessCidrs) > 0:
		change.CIDRs = in.PublicAccessCidrs
	case change.Public && len(change.CIDRs) == 0:
		change.CIDRs = []string{"0.0.0.0/0"}
	case !change.Public:
		change.CIDRs = []string{}
	}
	if change.Public == old.EndpointPublicAccess && change.Private == old.EndpointPrivateAccess && sameSet(change.CIDRs, old.PublicAccessCidrs) {
		return nil, errSameEndpointAccess(name, change.Private, change.Public, change.CIDRs)
	}
	up := s.newUpdate(ekstypes.UpdateTypeEndpointAccessUpdate,
		param(ekstypes.UpdateParamTypeEndpointPublicAccess, strconv.FormatBool(change.Public)),
		param(ekstypes.UpdateParamTypeEndpointPrivateAccess, strconv.FormatBool(change.Private)),
		param(ekstypes.UpdateParamTypePublicAccessCidrs, jsonText(change.CIDRs)))
	up.VPC = change
	return up, nil
}

func (s *Service) networkChange(ctx context.Context, rec clusterRecord, change *vpcChange, in *ekstypes.VpcConfigRequest) (*updateRecord, error) {
	name, vpc := rec.name(), *rec.Cluster.ResourcesVpcConfig.VpcId
	call := awsapi.CallFrom(ctx)
	svc := s.asService(ctx, call.Account, call.Region)
	var params []ekstypes.UpdateParam
	if in.SubnetIds != nil {
		got, zones, err := s.subnets(svc, name, in.SubnetIds)
		switch {
		case err != nil:
			return nil, err
		case got != vpc:
			return nil, errSubnetVPCs(name)
		case len(zones) < 2:
			return nil, errOneZone(name)
		}
		change.Subnets = in.SubnetIds
		params = append(params, param(ekstypes.UpdateParamTypeSubnets, jsonText(in.SubnetIds)))
	}
	if in.SecurityGroupIds != nil {
		if err := s.checkSecurityGroups(svc, name, vpc, in.SecurityGroupIds); err != nil {
			return nil, err
		}
		change.SecurityGroups = in.SecurityGroupIds
		params = append(params, param(ekstypes.UpdateParamTypeSecurityGroups, jsonText(in.SecurityGroupIds)))
	}
	up := s.newUpdate(ekstypes.UpdateTypeVpcConfigUpdate, params...)
	up.VPC = change
	return up, nil
}

func sameSet(a, b []string) bool {
	a, b = slices.Sorted(slices.Values(a)), slices.Sorted(slices.Values(b))
	return slices.Equal(a, b)
}

func param(t ekstypes.UpdateParamType, value string) ekstypes.UpdateParam {
	return ekstypes.UpdateParam{Type: t, Value: &value}
}

func jsonText(v any) string {
	raw, err := json.Marshal(v)
	if err != nil {
		return ""
	}
	return string(raw)
}
