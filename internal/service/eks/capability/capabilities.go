// Package capability keeps EKS capabilities (Argo CD, ACK and kro) with AWS's validation, the access entries of their
// roles, their updates and tags. AWS runs their controllers outside the cluster. Drydock does not run them, so a
// capability is DEGRADED and says so.
package capability

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	awseks "github.com/aws/aws-sdk-go-v2/service/eks"
	ekstypes "github.com/aws/aws-sdk-go-v2/service/eks/types"

	"github.com/drydock-dev/drydock/internal/arn"
	"github.com/drydock-dev/drydock/internal/ids"
	"github.com/drydock-dev/drydock/internal/service/eks/access"
	"github.com/drydock-dev/drydock/internal/service/eks/base"
	"github.com/drydock-dev/drydock/internal/service/eks/record"
	"github.com/drydock-dev/drydock/internal/store"
)

// A Service answers the operations on capabilities.
type Service struct {
	*base.Service
	access *access.Service
}

// New returns the part of EKS that keeps capabilities.
func New(b *base.Service, a *access.Service) *Service { return &Service{b, a} }

// trustedService is the principal that assumes the role of a capability.
// https://docs.aws.amazon.com/eks/latest/userguide/capability-role.html
const trustedService = "capabilities.eks.amazonaws.com"

// argoNamespace is the default namespace of Argo CD.
const argoNamespace = "argocd"

// products are the names of what the controllers belong to, for the health of a capability.
var products = map[ekstypes.CapabilityType]string{
	ekstypes.CapabilityTypeAck: "ACK", ekstypes.CapabilityTypeArgocd: "Argo CD", ekstypes.CapabilityTypeKro: "kro",
}

// CreateCapability creates a capability, and the access entry of its role if the role has none.
// https://docs.aws.amazon.com/eks/latest/APIReference/API_CreateCapability.html
func (s *Service) CreateCapability(ctx context.Context, in *awseks.CreateCapabilityInput) (*awseks.CreateCapabilityOutput, error) {
	key, cluster, err := s.ActiveCluster(ctx, in.ClusterName)
	if err != nil {
		return nil, err
	}
	if err := base.CheckName(in.CapabilityName, "capabilityName", "capability name", key.ID, 100); err != nil {
		return nil, err
	}
	if err := base.CheckTags(key.ID, in.Tags); err != nil {
		return nil, err
	}
	if !cluster.UsesAPI() {
		return nil, errAuthentication(key.ID)
	}
	config, err := configuration(key.ID, key.Region, in)
	if err != nil {
		return nil, err
	}
	role, err := s.role(ctx, key, in.RoleArn)
	if err != nil {
		return nil, err
	}
	now := s.Now()
	rec := record.Capability{Token: aws.ToString(in.ClientRequestToken), Request: record.Fingerprint(in), Capability: ekstypes.Capability{
		Arn:            new(arn.New("eks", key.Region, key.Account, strings.Join([]string{"capability", key.ID, strings.ToLower(string(in.Type)), *in.CapabilityName, ids.UUID()}, "/"))),
		CapabilityName: in.CapabilityName, ClusterName: &key.ID, Type: in.Type, RoleArn: &role.ARN, Configuration: config,
		DeletePropagationPolicy: in.DeletePropagationPolicy, CreatedAt: &now, ModifiedAt: &now, Tags: base.TagsOrEmpty(in.Tags),
		Status: ekstypes.CapabilityStatusDegraded, Health: &ekstypes.CapabilityHealth{Issues: []ekstypes.CapabilityIssue{notRunning(in.Type)}},
	}}
	made, err := base.Add(ctx, s.Service, record.Capabilities, key, key.Below(*in.CapabilityName), rec,
		func(r *record.Capability) (token, request string) { return r.Token, r.Request },
		func(*record.Capability) error { return errExists(key.ID, *in.CapabilityName) },
		func(tx *store.Tx, _ *record.Capability) error {
			if slices.ContainsFunc(record.Capabilities.All(tx, key.AllBelow()), func(i store.Item[record.Capability]) bool { return i.Value.Capability.Type == in.Type }) {
				return errTypeExists(key.ID, in.Type)
			}
			return s.access.AdmitCapability(tx, key, role, policies(in.Type, config))
		})
	if err != nil {
		return nil, err
	}
	out := made.Capability
	out.Status, out.Health = ekstypes.CapabilityStatusCreating, &ekstypes.CapabilityHealth{Issues: []ekstypes.CapabilityIssue{}}
	return &awseks.CreateCapabilityOutput{Capability: &out}, nil
}

// notRunning is the issue of each capability.
//
// AWS deviation: EKS runs the controllers, and has no such issue.
func notRunning(t ekstypes.CapabilityType) ekstypes.CapabilityIssue {
	return ekstypes.CapabilityIssue{Code: ekstypes.CapabilityIssueCodeClusterUnreachable, Message: new(fmt.Sprintf(
		"Drydock does not run the controllers of capabilities: nothing installs or reconciles the resources of %s. Install its Helm chart in the cluster instead.", products[t]))}
}

// configuration checks what a request configures, and returns it with its defaults.
func configuration(cluster, region string, in *awseks.CreateCapabilityInput) (*ekstypes.CapabilityConfigurationResponse, error) {
	var argo *ekstypes.ArgoCdConfigRequest
	if in.Configuration != nil {
		argo = in.Configuration.ArgoCd
	}
	switch {
	case argo == nil && in.Type == ekstypes.CapabilityTypeArgocd:
		return nil, errNoConfiguration(cluster)
	case argo == nil:
		return nil, nil
	case in.Type != ekstypes.CapabilityTypeArgocd:
		return nil, errConfiguration(cluster, in.Type)
	}
	if instance, err := arn.Parse(aws.ToString(argo.AwsIdc.IdcInstanceArn)); err != nil || instance.Service != "sso" || !strings.HasPrefix(instance.Resource, "instance/") {
		return nil, errInstance(cluster, aws.ToString(argo.AwsIdc.IdcInstanceArn))
	}
	out := &ekstypes.ArgoCdConfigResponse{
		AwsIdc:           &ekstypes.ArgoCdAwsIdcConfigResponse{IdcInstanceArn: argo.AwsIdc.IdcInstanceArn, IdcRegion: new(cmp.Or(aws.ToString(argo.AwsIdc.IdcRegion), region))},
		Namespace:        new(cmp.Or(aws.ToString(argo.Namespace), argoNamespace)),
		RbacRoleMappings: argo.RbacRoleMappings,
	}
	if argo.NetworkAccess != nil {
		out.NetworkAccess = &ekstypes.ArgoCdNetworkAccessConfigResponse{VpceIds: argo.NetworkAccess.VpceIds}
	}
	return &ekstypes.CapabilityConfigurationResponse{ArgoCd: out}, nil
}

// policies are the access policies of a capability's role.
// https://docs.aws.amazon.com/eks/latest/userguide/capabilities-security.html
func policies(t ekstypes.CapabilityType, config *ekstypes.CapabilityConfigurationResponse) map[string]ekstypes.AccessScope {
	everywhere := ekstypes.AccessScope{Type: ekstypes.AccessScopeTypeCluster, Namespaces: []string{}}
	switch t {
	case ekstypes.CapabilityTypeArgocd:
		return map[string]ekstypes.AccessScope{
			"AmazonEKSArgoCDClusterPolicy": everywhere,
			"AmazonEKSArgoCDPolicy":        {Type: ekstypes.AccessScopeTypeNamespace, Namespaces: []string{*config.ArgoCd.Namespace}},
		}
	case ekstypes.CapabilityTypeKro:
		return map[string]ekstypes.AccessScope{"AmazonEKSKROPolicy": everywhere}
	}
	return map[string]ekstypes.AccessScope{"AmazonEKSACKPolicy": everywhere}
}

// role checks the role of a capability.
func (s *Service) role(ctx context.Context, cluster store.Key, role *string) (record.Identity, error) {
	id, err := s.Role(ctx, cluster.Account, "roleArn", role, func(role string) error { return errRoleARN(cluster.ID, role) })
	switch {
	case errors.Is(err, base.ErrNoIdentity):
		err = errNoRole(cluster.ID, *role)
	case err == nil && (!slices.Contains(id.TrustedServices, trustedService) || id.TaggableBy != nil && !id.TaggableBy(trustedService)):
		err = errTrust(cluster.ID)
	}
	return record.Identity{ARN: id.ARN, ID: id.ID}, err
}

// DescribeCapability returns a capability.
func (s *Service) DescribeCapability(ctx context.Context, in *awseks.DescribeCapabilityInput) (*awseks.DescribeCapabilityOutput, error) {
	_, rec, err := base.Find(ctx, s.Service, record.Capabilities, in.ClusterName, in.CapabilityName, "capabilityName", NotFound)
	if err != nil {
		return nil, err
	}
	return &awseks.DescribeCapabilityOutput{Capability: &rec.Capability}, nil
}

// ListCapabilities returns the capabilities of a cluster.
func (s *Service) ListCapabilities(ctx context.Context, in *awseks.ListCapabilitiesInput) (*awseks.ListCapabilitiesOutput, error) {
	key, _, err := s.Cluster(ctx, in.ClusterName)
	if err != nil {
		return nil, err
	}
	all, next, err := base.PageBelow(s.Service, record.Capabilities, key, func(*record.Capability) bool { return true }, func(i store.Item[record.Capability]) ekstypes.CapabilitySummary {
		c := i.Value.Capability
		return ekstypes.CapabilitySummary{Arn: c.Arn, CapabilityName: c.CapabilityName, CreatedAt: c.CreatedAt, ModifiedAt: c.ModifiedAt, Status: c.Status, Type: c.Type}
	}, in.MaxResults, in.NextToken)
	return &awseks.ListCapabilitiesOutput{Capabilities: all, NextToken: next}, err
}

// UpdateCapability changes a capability's role or configuration. The update is complete when it is recorded, because
// no controller has to follow it.
// https://docs.aws.amazon.com/eks/latest/APIReference/API_UpdateCapability.html
func (s *Service) UpdateCapability(ctx context.Context, in *awseks.UpdateCapabilityInput) (*awseks.UpdateCapabilityOutput, error) {
	id, rec, err := base.Find(ctx, s.Service, record.Capabilities, in.ClusterName, in.CapabilityName, "capabilityName", NotFound)
	if err != nil {
		return nil, err
	}
	key, request := id.Owner(), record.Fingerprint(in)
	if done, err := s.RepeatedUpdate(s.Store, key, in.ClientRequestToken, request); done != nil || err != nil {
		return &awseks.UpdateCapabilityOutput{Update: done}, err
	}
	up := s.NewUpdate(ekstypes.UpdateTypeCapabilityUpdate)
	up.Capability, up.Request, up.Token = *in.CapabilityName, request, aws.ToString(in.ClientRequestToken)
	var role record.Identity
	if in.RoleArn != nil {
		if role, err = s.role(ctx, key, in.RoleArn); err != nil {
			return nil, err
		}
		base.Note(up, ekstypes.UpdateParamTypeRoleArn, in.RoleArn)
	}
	var argo *ekstypes.UpdateArgoCdConfig
	if in.Configuration != nil {
		argo = in.Configuration.ArgoCd
	}
	switch {
	case argo != nil && rec.Capability.Type != ekstypes.CapabilityTypeArgocd:
		return nil, errConfiguration(key.ID, rec.Capability.Type)
	case argo == nil && in.RoleArn == nil && in.DeletePropagationPolicy == "":
		return nil, errNoChange(key.ID)
	case argo != nil:
		noteArgo(up, argo)
	}
	err = s.Store.Update(ctx, func(tx *store.Tx) error {
		err := record.Capabilities.Update(tx, id, func(r *record.Capability) error {
			c := &r.Capability
			c.ModifiedAt = up.Update.CreatedAt
			if in.RoleArn != nil {
				c.RoleArn = &role.ARN
			}
			if in.DeletePropagationPolicy != "" {
				c.DeletePropagationPolicy = in.DeletePropagationPolicy
			}
			if argo != nil {
				changeArgo(c.Configuration.ArgoCd, argo)
			}
			return nil
		})
		if err != nil {
			return store.NotFoundAs(err, NotFound(key.ID, *in.CapabilityName))
		}
		if in.RoleArn != nil {
			if err := s.access.AdmitCapability(tx, key, role, policies(rec.Capability.Type, rec.Capability.Configuration)); err != nil {
				return err
			}
		}
		done := *up
		done.Update.Status = ekstypes.UpdateStatusSuccessful
		return record.Updates.Create(tx, key.Below(*up.Update.Id), done)
	})
	return &awseks.UpdateCapabilityOutput{Update: &up.Update}, err
}

func noteArgo(up *record.Update, to *ekstypes.UpdateArgoCdConfig) {
	if m := to.RbacRoleMappings; m != nil {
		if len(m.AddOrUpdateRoleMappings) > 0 {
			base.Note(up, ekstypes.UpdateParamTypeRoleMappingsToAddOrUpdate, new(base.JSON(m.AddOrUpdateRoleMappings)))
		}
		if len(m.RemoveRoleMappings) > 0 {
			base.Note(up, ekstypes.UpdateParamTypeRoleMappingsToRemove, new(base.JSON(m.RemoveRoleMappings)))
		}
	}
	if to.NetworkAccess != nil {
		base.Note(up, ekstypes.UpdateParamTypeNetworkAccess, new(base.JSON(to.NetworkAccess)))
	}
}

// changeArgo applies a change: a mapping replaces that of its role, and removing one removes its identities.
func changeArgo(c *ekstypes.ArgoCdConfigResponse, to *ekstypes.UpdateArgoCdConfig) {
	if m := to.RbacRoleMappings; m != nil {
		for _, add := range m.AddOrUpdateRoleMappings {
			i := slices.IndexFunc(c.RbacRoleMappings, func(old ekstypes.ArgoCdRoleMapping) bool { return old.Role == add.Role })
			if i < 0 {
				c.RbacRoleMappings = append(c.RbacRoleMappings, add)
			} else {
				c.RbacRoleMappings[i] = add
			}
		}
		for _, remove := range m.RemoveRoleMappings {
			for i := range c.RbacRoleMappings {
				if old := &c.RbacRoleMappings[i]; old.Role == remove.Role {
					old.Identities = slices.DeleteFunc(old.Identities, func(id ekstypes.SsoIdentity) bool {
						return slices.ContainsFunc(remove.Identities, func(gone ekstypes.SsoIdentity) bool {
							return aws.ToString(gone.Id) == aws.ToString(id.Id) && gone.Type == id.Type
						})
					})
				}
			}
		}
		c.RbacRoleMappings = slices.DeleteFunc(c.RbacRoleMappings, func(m ekstypes.ArgoCdRoleMapping) bool { return len(m.Identities) == 0 })
	}
	if to.NetworkAccess != nil {
		c.NetworkAccess = &ekstypes.ArgoCdNetworkAccessConfigResponse{VpceIds: to.NetworkAccess.VpceIds}
	}
}

// DeleteCapability deletes a capability. Its resources in the cluster and the access entry of its role stay.
func (s *Service) DeleteCapability(ctx context.Context, in *awseks.DeleteCapabilityInput) (*awseks.DeleteCapabilityOutput, error) {
	id, rec, err := base.Find(ctx, s.Service, record.Capabilities, in.ClusterName, in.CapabilityName, "capabilityName", NotFound)
	if err != nil {
		return nil, err
	}
	key := id.Owner()
	if err := s.Store.Update(ctx, func(tx *store.Tx) error {
		now, err := record.Capabilities.Get(tx, id)
		switch {
		case err != nil:
			return store.NotFoundAs(err, NotFound(key.ID, *in.CapabilityName))
		case *now.Capability.Arn != *rec.Capability.Arn:
			return NotFound(key.ID, *in.CapabilityName)
		}
		record.Capabilities.Delete(tx, id)
		for _, up := range record.Updates.All(tx, key.AllBelow()) {
			if up.Value.Capability == *in.CapabilityName {
				record.Updates.Delete(tx, up.Key)
			}
		}
		return nil
	}); err != nil {
		return nil, err
	}
	rec.Capability.Status = ekstypes.CapabilityStatusDeleting
	return &awseks.DeleteCapabilityOutput{Capability: &rec.Capability}, nil
}
