package eks

import (
	"context"
	"slices"
	"time"

	awseks "github.com/aws/aws-sdk-go-v2/service/eks"
	ekstypes "github.com/aws/aws-sdk-go-v2/service/eks/types"

	"github.com/drydock-dev/drydock/internal/catalog/images"
	"github.com/drydock-dev/drydock/internal/catalog/instancetypes"
	"github.com/drydock-dev/drydock/internal/store"
)

// A rollout replaces the nodes of a group by such of another image or version of the
// user's launch template.
type rollout struct {
	// What the group becomes.
	ImageID                 string
	Version, ReleaseVersion *string
	LaunchTemplate          *ekstypes.LaunchTemplateSpecification
	InstanceTypes           []string
	MachineTypes            []string
	Force                   bool
	// TemplateVersion is the version of the group's own launch template for the new
	// nodes; empty until it is made.
	TemplateVersion string `json:",omitempty"`
	// Size is the group's size before and after.
	Size ekstypes.NodegroupScalingConfig
	// Evicting are the instances whose nodes are drained, and since when.
	Evicting map[string]time.Time `json:",omitempty"`
	// ShortSince is since when new nodes are awaited.
	ShortSince time.Time `json:",omitzero"`
	// Failure, once there is one, turns the rollout back.
	Failure *ekstypes.ErrorDetail `json:",omitempty"`
}

// target is the group's record as it is after the rollout.
func (g *nodegroupRecord) target() *nodegroupRecord {
	r := g.Rollout
	if r == nil {
		return g
	}
	after := *g
	after.ImageID, after.MachineTypes, after.TemplateVersion = r.ImageID, r.MachineTypes, r.TemplateVersion
	after.Nodegroup.Version, after.Nodegroup.ReleaseVersion = r.Version, r.ReleaseVersion
	after.Nodegroup.LaunchTemplate, after.Nodegroup.InstanceTypes = r.LaunchTemplate, r.InstanceTypes
	return &after
}

// UpdateNodegroupVersion starts to replace the nodes of a group; the node group
// reconciler does it.
// https://docs.aws.amazon.com/eks/latest/APIReference/API_UpdateNodegroupVersion.html
func (s *Service) UpdateNodegroupVersion(ctx context.Context, in *awseks.UpdateNodegroupVersionInput) (*awseks.UpdateNodegroupVersionOutput, error) {
	key, rec, err := s.nodegroup(ctx, in.ClusterName, in.NodegroupName)
	if err != nil {
		return nil, err
	}
	owner, name := clusterOf(key), *in.NodegroupName
	untokened := *in
	untokened.ClientRequestToken = nil
	request := fingerprint(untokened)
	if done, err := s.repeatedUpdate(s.store, owner, in.ClientRequestToken, request); done != nil || err != nil {
		return &awseks.UpdateNodegroupVersionOutput{Update: done}, err
	}
	cluster, err := clusters.Get(s.store, owner)
	if err != nil {
		return nil, store.NotFoundAs(err, errNoCluster(owner.ID))
	}
	if err := updatable(owner.ID, name, &rec); err != nil {
		return nil, err
	}
	r, err := s.newRollout(ctx, owner, &cluster, &rec, in)
	if err != nil {
		return nil, err
	}
	up := s.newUpdate(ekstypes.UpdateTypeVersionUpdate)
	up.Nodegroup, up.Request, up.Token = name, request, text(in.ClientRequestToken)
	for _, p := range []struct {
		typ   ekstypes.UpdateParamType
		value *string
	}{
		{ekstypes.UpdateParamTypeVersion, r.Version},
		{ekstypes.UpdateParamTypeReleaseVersion, r.ReleaseVersion},
	} {
		if p.value != nil && rec.Nodegroup.AmiType != ekstypes.AMITypesCustom {
			up.Update.Params = append(up.Update.Params, param(p.typ, *p.value))
		}
	}
	if in.LaunchTemplate != nil {
		up.Update.Params = append(up.Update.Params,
			param(ekstypes.UpdateParamTypeLaunchTemplateName, *r.LaunchTemplate.Name), param(ekstypes.UpdateParamTypeLaunchTemplateVersion, *r.LaunchTemplate.Version))
	}
	err = s.store.Update(ctx, func(tx *store.Tx) error {
		if err := nodegroups.Update(tx, key, func(g *nodegroupRecord) error {
			if err := updatable(owner.ID, name, g); err != nil {
				return err
			}
			r.Size = *g.Nodegroup.ScalingConfig
			g.Rollout, g.Nodegroup.Status, g.Since, g.UpdateID = r, ekstypes.NodegroupStatusUpdating, s.clock.Now().UTC(), *up.Update.Id
			g.Nodegroup.ModifiedAt = new(g.Since.Truncate(time.Millisecond))
			return nil
		}); err != nil {
			return err
		}
		return updates.Create(tx, below(owner, *up.Update.Id), *up)
	})
	if err != nil {
		return nil, err
	}
	return &awseks.UpdateNodegroupVersionOutput{Update: &up.Update}, nil
}

// updatable reports whether a group may be updated: it is ACTIVE, or DEGRADED for
// reasons that an update may mend.
//
// AWS deviation: nodes that are NotReady, which on AWS do not degrade a group, hinder
// no update here either.
func updatable(cluster, name string, g *nodegroupRecord) error {
	switch g.Nodegroup.Status {
	case ekstypes.NodegroupStatusActive:
		return nil
	case ekstypes.NodegroupStatusDegraded:
		if slices.ContainsFunc(g.Nodegroup.Health.Issues, func(i ekstypes.Issue) bool {
			switch i.Code {
			case ekstypes.NodegroupIssueCodeAsgInstanceLaunchFailures, ekstypes.NodegroupIssueCodeInstanceLimitExceeded,
				ekstypes.NodegroupIssueCodeInsufficientFreeAddresses, ekstypes.NodegroupIssueCodeClusterUnreachable,
				ekstypes.NodegroupIssueCodeNodeCreationFailure:
				return false
			}
			return true
		}) {
			return errNodegroupHealth(cluster, name)
		}
		return nil
	}
	return errNodegroupNotActive(cluster, name)
}

// newRollout checks a request and returns what it makes of the group.
func (s *Service) newRollout(ctx context.Context, key store.Key, cluster *clusterRecord, g *nodegroupRecord, in *awseks.UpdateNodegroupVersionInput) (*rollout, error) {
	name := *in.NodegroupName
	r := &rollout{
		ImageID: g.ImageID, Version: g.Nodegroup.Version, ReleaseVersion: g.Nodegroup.ReleaseVersion,
		LaunchTemplate: g.Nodegroup.LaunchTemplate, InstanceTypes: g.Nodegroup.InstanceTypes, MachineTypes: g.MachineTypes, Force: in.Force,
	}
	custom := g.Nodegroup.AmiType == ekstypes.AMITypesCustom
	var tmpl *userTemplate
	if in.LaunchTemplate != nil {
		var err error
		if tmpl, err = s.nextTemplate(ctx, key, g, in.LaunchTemplate, name); err != nil {
			return nil, err
		}
		r.LaunchTemplate = tmpl.spec
		if t := tmpl.data.InstanceType; t != "" {
			r.MachineTypes = []string{string(t)}
		}
	}
	switch {
	case custom && in.LaunchTemplate == nil:
		return nil, errCustomNeedsTemplate(key.ID, name)
	case custom && in.Version != nil:
		return nil, errCustomField(key.ID, name, "kubernetesVersion")
	case custom && in.ReleaseVersion != nil:
		return nil, errCustomField(key.ID, name, "releaseVersion")
	case custom:
		r.ImageID, r.ReleaseVersion = *tmpl.data.ImageId, tmpl.data.ImageId
		return r, nil
	case in.LaunchTemplate != nil && in.Version == nil && in.ReleaseVersion == nil:
		return r, nil // of the same image
	}
	version := text(cluster.Cluster.Version)
	if in.Version != nil && *in.Version != version && *in.Version != text(g.Nodegroup.Version) {
		return nil, errNodegroupVersion(key.ID, name, *in.Version)
	}
	if in.Version != nil {
		version = *in.Version
	}
	kind, ok := amiKinds()[g.Nodegroup.AmiType]
	if !ok {
		return nil, errAMIType(key.ID, name, string(g.Nodegroup.AmiType), version)
	}
	img, ok := images.EKS(key.Region, kind.family, version, kind.arch, kind.variant)
	if !ok {
		return nil, errAMIType(key.ID, name, string(g.Nodegroup.AmiType), version)
	}
	if in.ReleaseVersion != nil && *in.ReleaseVersion != img.ReleaseVersion {
		all := images.All(key.Region)
		i := slices.IndexFunc(all, func(i images.Image) bool {
			return i.Family == kind.family && i.KubernetesVersion == version && i.Architecture == kind.arch && i.Variant == kind.variant && i.ReleaseVersion == *in.ReleaseVersion
		})
		if i < 0 {
			return nil, errReleaseOfVersion(key.ID, name, *in.ReleaseVersion, version)
		}
		img = all[i]
	}
	r.ImageID, r.Version, r.ReleaseVersion = img.ID, &version, &img.ReleaseVersion
	return r, nil
}

// nextTemplate resolves the launch template of an update: another version of the
// template that the group was made with.
func (s *Service) nextTemplate(ctx context.Context, key store.Key, g *nodegroupRecord, spec *ekstypes.LaunchTemplateSpecification, name string) (*userTemplate, error) {
	own := g.Nodegroup.LaunchTemplate
	if own == nil {
		return nil, errTemplateAdded(key.ID, name)
	}
	tmpl, err := s.checkTemplate(ctx, key, name, &awseks.CreateNodegroupInput{LaunchTemplate: spec, InstanceTypes: g.Nodegroup.InstanceTypes})
	switch {
	case err != nil:
		return nil, err
	case *tmpl.spec.Id != *own.Id:
		return nil, errTemplateOther(key.ID, name)
	case (tmpl.data.ImageId != nil) != (g.Nodegroup.AmiType == ekstypes.AMITypesCustom):
		return nil, errTemplateImage(key.ID, name)
	case tmpl.data.InstanceType == "" && len(g.Nodegroup.InstanceTypes) == 0:
		return nil, errTemplateNoType(key.ID, name)
	case tmpl.data.InstanceType != "" && !instancetypes.Valid(string(tmpl.data.InstanceType)):
		return nil, errInstanceTypeUnknown(key.ID, name, string(tmpl.data.InstanceType))
	}
	return tmpl, nil
}
