package nodegroup

import (
	"context"
	"slices"

	"github.com/aws/aws-sdk-go-v2/aws"
	awseks "github.com/aws/aws-sdk-go-v2/service/eks"
	ekstypes "github.com/aws/aws-sdk-go-v2/service/eks/types"

	"github.com/drydock-dev/drydock/internal/catalog/images"
	"github.com/drydock-dev/drydock/internal/catalog/instancetypes"
	"github.com/drydock-dev/drydock/internal/service/eks/base"
	"github.com/drydock-dev/drydock/internal/service/eks/ekserr"
	"github.com/drydock-dev/drydock/internal/service/eks/record"
	"github.com/drydock-dev/drydock/internal/store"
)

// UpdateNodegroupVersion starts to replace the nodes of a group. The node group reconciler does the
// work.
// https://docs.aws.amazon.com/eks/latest/APIReference/API_UpdateNodegroupVersion.html
func (s *Service) UpdateNodegroupVersion(ctx context.Context, in *awseks.UpdateNodegroupVersionInput) (*awseks.UpdateNodegroupVersionOutput, error) {
	key, rec, err := s.find(ctx, in.ClusterName, in.NodegroupName)
	if err != nil {
		return nil, err
	}
	owner, name := key.Owner(), *in.NodegroupName
	request := record.Fingerprint(in)
	if done, err := s.RepeatedUpdate(s.Store, owner, in.ClientRequestToken, request); done != nil || err != nil {
		return &awseks.UpdateNodegroupVersionOutput{Update: done}, err
	}
	cluster, err := record.Clusters.Get(s.Store, owner)
	if err != nil {
		return nil, store.NotFoundAs(err, ekserr.NoCluster(owner.ID))
	}
	if err := updatable(owner.ID, name, &rec); err != nil {
		return nil, err
	}
	r, err := s.newRollout(ctx, owner, &cluster, &rec, in)
	if err != nil {
		return nil, err
	}
	up := s.NewUpdate(ekstypes.UpdateTypeVersionUpdate)
	up.Nodegroup, up.Request, up.Token = name, request, aws.ToString(in.ClientRequestToken)
	if rec.Nodegroup.AmiType != ekstypes.AMITypesCustom {
		base.Note(up, ekstypes.UpdateParamTypeVersion, r.Version)
		base.Note(up, ekstypes.UpdateParamTypeReleaseVersion, r.ReleaseVersion)
	}
	if in.LaunchTemplate != nil {
		base.Note(up, ekstypes.UpdateParamTypeLaunchTemplateName, r.LaunchTemplate.Name)
		base.Note(up, ekstypes.UpdateParamTypeLaunchTemplateVersion, r.LaunchTemplate.Version)
	}
	err = s.begin(ctx, key, up, func(g *record.Nodegroup) error {
		g.Rollout, r.Size = r, *g.Nodegroup.ScalingConfig
		return nil
	})
	return &awseks.UpdateNodegroupVersionOutput{Update: &up.Update}, err
}

// updatable reports whether a group may be updated: it is ACTIVE, or DEGRADED for reasons that an
// update may fix.
//
// AWS deviation: on AWS, NotReady nodes do not degrade a group. Here they do, but they do not
// prevent an update either.
func updatable(cluster, name string, g *record.Nodegroup) error {
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
			return errHealth(cluster, name)
		}
		return nil
	}
	return errNotActive(cluster, name)
}

// newRollout checks a request and returns the resulting rollout.
func (s *Service) newRollout(ctx context.Context, key store.Key, cluster *record.Cluster, g *record.Nodegroup, in *awseks.UpdateNodegroupVersionInput) (*record.Rollout, error) {
	name := *in.NodegroupName
	r := &record.Rollout{
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
		return r, nil // with the same image
	}
	version := aws.ToString(cluster.Cluster.Version)
	if in.Version != nil && *in.Version != version && *in.Version != aws.ToString(g.Nodegroup.Version) {
		return nil, errVersion(key.ID, name, *in.Version)
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
		older, ok := kind.release(key.Region, version, *in.ReleaseVersion)
		if !ok {
			return nil, errReleaseOfVersion(key.ID, name, *in.ReleaseVersion, version)
		}
		img = older
	}
	r.ImageID, r.Version, r.ReleaseVersion = img.ID, &version, &img.ReleaseVersion
	return r, nil
}

// nextTemplate resolves the launch template of an update, which must be a version of the template
// that the group was created with.
func (s *Service) nextTemplate(ctx context.Context, key store.Key, g *record.Nodegroup, spec *ekstypes.LaunchTemplateSpecification, name string) (*userTemplate, error) {
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
