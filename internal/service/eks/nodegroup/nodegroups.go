// Package nodegroup manages node groups. Each has a launch template with the user data of its
// nodes, and an Auto Scaling group that launches and terminates the instances. The package drains
// nodes before they terminate, replaces them during updates, and reports what is wrong with a
// group. It neither launches instances nor runs nodes: instances join the cluster through their
// user data (internal/node).
//
//	CREATING → ACTIVE ⇄ UPDATING → DELETING → gone
//	   └────→ CREATE_FAILED ───────↗    └────→ DELETE_FAILED
package nodegroup

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	awseks "github.com/aws/aws-sdk-go-v2/service/eks"
	ekstypes "github.com/aws/aws-sdk-go-v2/service/eks/types"

	"github.com/drydock-dev/drydock/internal/arn"
	"github.com/drydock-dev/drydock/internal/awsapi"
	"github.com/drydock-dev/drydock/internal/ids"
	"github.com/drydock-dev/drydock/internal/service/eks/access"
	"github.com/drydock-dev/drydock/internal/service/eks/base"
	"github.com/drydock-dev/drydock/internal/service/eks/record"
	"github.com/drydock-dev/drydock/internal/store"
)

// A Service answers the operations on managed node groups and reconciles them.
type Service struct {
	*base.Service
	access *access.Service
}

// New returns the part of EKS that manages node groups.
func New(b *base.Service, a *access.Service) *Service { return &Service{b, a} }

// asService returns a context in which EC2, Auto Scaling and IAM are called for a
// node group or its cluster, under the service-linked role of node groups.
// https://docs.aws.amazon.com/eks/latest/userguide/service-name-info-in-cloudtrail.html
func (s *Service) asService(ctx context.Context, at store.Key) context.Context {
	return awsapi.AsService(ctx, at.Account, at.Region, base.NodegroupRole, s.Clock.Now())
}

// CreateNodegroup records a managed node group. The node group reconciler creates it.
// https://docs.aws.amazon.com/eks/latest/APIReference/API_CreateNodegroup.html
func (s *Service) CreateNodegroup(ctx context.Context, in *awseks.CreateNodegroupInput) (*awseks.CreateNodegroupOutput, error) {
	key, cluster, err := s.Cluster(ctx, in.ClusterName)
	if err != nil {
		return nil, err
	}
	if n := aws.ToString(in.NodegroupName); len(n) > 63 {
		return nil, errLongName(key.ID, n)
	}
	if err := base.CheckName(in.NodegroupName, "nodegroupName", "nodegroupName", key.ID, 63); err != nil {
		return nil, err
	}
	rec, err := base.Create(ctx, s.Service, record.Nodegroups, base.NodegroupRole, key, &cluster, *in.NodegroupName, in.ClientRequestToken, record.Fingerprint(in),
		func(g *record.Nodegroup) (token, request *string) { return &g.Token, &g.Request }, errExists(key.ID, *in.NodegroupName),
		func() (*record.Nodegroup, error) { return s.newRecord(ctx, key, cluster, in) },
		func(tx *store.Tx, now *record.Cluster, g *record.Nodegroup) error {
			quotas, err := s.QuotasFor(key)
			switch {
			case err != nil:
				return err
			case len(record.Nodegroups.All(tx, key.AllBelow())) >= quotas.NodegroupsPerCluster:
				return errLimit(key.ID, quotas.NodegroupsPerCluster)
			case now.UsesAPI():
				g.AccessEntryMade, err = s.access.Admit(tx, key, g.Role, access.TypeEC2Linux)
			}
			return err
		})
	if err != nil {
		return nil, err
	}
	return &awseks.CreateNodegroupOutput{Nodegroup: &rec.Nodegroup}, nil
}

// newRecord checks a request and returns the record to store.
func (s *Service) newRecord(ctx context.Context, key store.Key, cluster record.Cluster, in *awseks.CreateNodegroupInput) (*record.Nodegroup, error) {
	name := *in.NodegroupName
	if err := base.CheckTags(key.ID, in.Tags); err != nil {
		return nil, err
	}
	if err := checkLabels(key.ID, name, in.Labels); err != nil {
		return nil, err
	}
	if err := checkTaints(key.ID, name, in.Taints); err != nil {
		return nil, err
	}
	if err := checkNodeRepair(key.ID, name, in.NodeRepairConfig); err != nil {
		return nil, err
	}
	scaling, err := s.checkScaling(key, name, in.ScalingConfig)
	if err != nil {
		return nil, err
	}
	updating, err := checkUpdateConfig(key.ID, name, in.UpdateConfig, *scaling.MaxSize)
	if err != nil {
		return nil, err
	}
	role, err := s.checkNodeRole(ctx, key, name, in.NodeRole)
	if err != nil {
		return nil, err
	}
	if err := s.checkSubnets(ctx, key, cluster, name, in.Subnets); err != nil {
		return nil, err
	}
	version := cmp.Or(aws.ToString(in.Version), *cluster.Cluster.Version)
	if supported := supportedVersions(*cluster.Cluster.Version); !slices.Contains(supported, version) {
		return nil, errVersionSkew(key.ID, name, *cluster.Cluster.Version, supported)
	}
	capacity := cmp.Or(in.CapacityType, ekstypes.CapacityTypesOnDemand)
	if capacity != ekstypes.CapacityTypesOnDemand && capacity != ekstypes.CapacityTypesSpot {
		return nil, invalid(key.ID, name, "Invalid capacityType: %s", capacity)
	}
	tmpl, err := s.checkTemplate(ctx, key, name, in)
	if err != nil {
		return nil, err
	}
	remote, err := s.checkRemoteAccess(ctx, key, name, in.RemoteAccess)
	if err != nil {
		return nil, err
	}
	machine, err := chooseMachine(key, version, name, in, tmpl)
	if err != nil {
		return nil, err
	}
	now := s.Now()
	uuid := ids.UUID()
	rec := &record.Nodegroup{
		UUID:            uuid,
		Since:           now,
		Role:            role,
		ImageID:         machine.imageID,
		MachineTypes:    machine.launched,
		InstanceProfile: "eks-" + uuid,
		Nodegroup: ekstypes.Nodegroup{
			NodegroupName: &name,
			NodegroupArn:  new(arn.New("eks", key.Region, key.Account, "nodegroup/"+key.ID+"/"+name+"/"+uuid)),
			ClusterName:   &key.ID,
			Version:       &version,
			CreatedAt:     &now,
			ModifiedAt:    &now,
			Status:        ekstypes.NodegroupStatusCreating,
			CapacityType:  capacity,
			ScalingConfig: scaling,
			InstanceTypes: machine.instanceTypes,
			Subnets:       in.Subnets,
			AmiType:       machine.amiType,
			NodeRole:      in.NodeRole,
			Labels:        base.TagsOrEmpty(in.Labels),
			Taints:        in.Taints,
			DiskSize:      machine.diskSize,
			Health:        &ekstypes.NodegroupHealth{Issues: []ekstypes.Issue{}},
			UpdateConfig:  updating,
			RemoteAccess:  remote,
			Tags:          base.TagsOrEmpty(in.Tags),
		},
	}
	rec.Nodegroup.ReleaseVersion, rec.Nodegroup.NodeRepairConfig = record.Optional(machine.releaseVersion), in.NodeRepairConfig
	rec.Nodegroup.Resources = &ekstypes.NodegroupResources{AutoScalingGroups: []ekstypes.AutoScalingGroup{{Name: new(rec.ResourceName())}}}
	if tmpl != nil {
		rec.Nodegroup.LaunchTemplate = tmpl.spec
		if machine.amiType == ekstypes.AMITypesCustom { // EKS does not know the version in that case
			rec.Nodegroup.Version, rec.Nodegroup.ReleaseVersion = cluster.Cluster.Version, &machine.imageID
		}
	}
	return rec, nil
}

// DescribeNodegroup returns a node group.
func (s *Service) DescribeNodegroup(ctx context.Context, in *awseks.DescribeNodegroupInput) (*awseks.DescribeNodegroupOutput, error) {
	_, rec, err := s.find(ctx, in.ClusterName, in.NodegroupName)
	return &awseks.DescribeNodegroupOutput{Nodegroup: &rec.Nodegroup}, err
}

// ListNodegroups returns the names of a cluster's node groups.
func (s *Service) ListNodegroups(ctx context.Context, in *awseks.ListNodegroupsInput) (*awseks.ListNodegroupsOutput, error) {
	names, next, err := base.ListNames(ctx, s.Service, record.Nodegroups, in.ClusterName, in.MaxResults, in.NextToken)
	return &awseks.ListNodegroupsOutput{Nodegroups: names, NextToken: next}, err
}

// DeleteNodegroup marks a node group for the reconciler to drain and remove.
func (s *Service) DeleteNodegroup(ctx context.Context, in *awseks.DeleteNodegroupInput) (*awseks.DeleteNodegroupOutput, error) {
	key, _, err := s.find(ctx, in.ClusterName, in.NodegroupName)
	if err != nil {
		return nil, err
	}
	var out awseks.DeleteNodegroupOutput
	err = s.Store.Update(ctx, func(tx *store.Tx) error {
		return record.Nodegroups.Update(tx, key, func(g *record.Nodegroup) error {
			if g.Nodegroup.Status == ekstypes.NodegroupStatusDeleting {
				return errBusy(*in.ClusterName, *in.NodegroupName, g.Nodegroup.Status)
			}
			if g.Nodegroup.Status == ekstypes.NodegroupStatusUpdating {
				return s.UpdateInProgress(tx, key.Owner(), *in.NodegroupName, "DeleteNodegroup")
			}
			g.Nodegroup.Status = ekstypes.NodegroupStatusDeleting
			g.Nodegroup.Health = &ekstypes.NodegroupHealth{Issues: []ekstypes.Issue{}}
			g.Since = s.Clock.Now().UTC()
			g.Nodegroup.ModifiedAt = new(g.Since.Truncate(time.Millisecond))
			out.Nodegroup = &g.Nodegroup
			return nil
		})
	})
	return &out, err
}

// find returns one of the caller's node groups.
func (s *Service) find(ctx context.Context, cluster, name *string) (store.Key, record.Nodegroup, error) {
	return base.Find(ctx, s.Service, record.Nodegroups, cluster, name, "nodegroupName", NotFound)
}

// UpdateNodegroupConfig starts an update of a node group's size, labels or taints. The node group
// reconciler completes it.
// https://docs.aws.amazon.com/eks/latest/APIReference/API_UpdateNodegroupConfig.html
func (s *Service) UpdateNodegroupConfig(ctx context.Context, in *awseks.UpdateNodegroupConfigInput) (*awseks.UpdateNodegroupConfigOutput, error) {
	key, _, err := s.find(ctx, in.ClusterName, in.NodegroupName)
	if err != nil {
		return nil, err
	}
	cluster, name := key.Owner(), *in.NodegroupName
	request := record.Fingerprint(in)
	if done, err := s.RepeatedUpdate(s.Store, cluster, in.ClientRequestToken, request); done != nil || err != nil {
		return &awseks.UpdateNodegroupConfigOutput{Update: done}, err
	}
	if in.ScalingConfig == nil && in.Labels == nil && in.Taints == nil && in.UpdateConfig == nil && in.NodeRepairConfig == nil {
		return nil, invalid(cluster.ID, name, "No update parameters were specified.")
	}
	up := s.NewUpdate(ekstypes.UpdateTypeConfigUpdate)
	up.Nodegroup, up.Request, up.Token = name, request, aws.ToString(in.ClientRequestToken)
	err = s.begin(ctx, key, up, func(g *record.Nodegroup) error {
		up.Update.Params = nil
		return s.change(cluster, g, up, in)
	})
	return &awseks.UpdateNodegroupConfigOutput{Update: &up.Update}, err
}

// begin records an update; change prepares the group for it.
func (s *Service) begin(ctx context.Context, key store.Key, up *record.Update, change func(*record.Nodegroup) error) error {
	cluster := key.Owner()
	return s.Store.Update(ctx, func(tx *store.Tx) error {
		err := record.Nodegroups.Update(tx, key, func(g *record.Nodegroup) error {
			if err := updatable(cluster.ID, up.Nodegroup, g); err != nil {
				return err
			}
			if err := change(g); err != nil {
				return err
			}
			g.Nodegroup.Status, g.Since, g.UpdateID = ekstypes.NodegroupStatusUpdating, s.Clock.Now().UTC(), *up.Update.Id
			g.Nodegroup.ModifiedAt = new(g.Since.Truncate(time.Millisecond))
			return nil
		})
		if err != nil {
			return err
		}
		return record.Updates.Create(tx, cluster.Below(*up.Update.Id), *up)
	})
}

// change applies a request to the record and collects the update's parameters.
func (s *Service) change(owner store.Key, g *record.Nodegroup, up *record.Update, in *awseks.UpdateNodegroupConfigInput) error {
	cluster, name := *in.ClusterName, *in.NodegroupName
	note := func(t ekstypes.UpdateParamType, v string) {
		up.Update.Params = append(up.Update.Params, base.UpdateParam(t, v))
	}
	if in.ScalingConfig != nil {
		merged := *g.Nodegroup.ScalingConfig
		for _, f := range []struct {
			to, from *(*int32)
			typ      ekstypes.UpdateParamType
		}{
			{&merged.MinSize, &in.ScalingConfig.MinSize, ekstypes.UpdateParamTypeMinSize},
			{&merged.MaxSize, &in.ScalingConfig.MaxSize, ekstypes.UpdateParamTypeMaxSize},
			{&merged.DesiredSize, &in.ScalingConfig.DesiredSize, ekstypes.UpdateParamTypeDesiredSize},
		} {
			if *f.from != nil {
				*f.to = *f.from
				note(f.typ, base.JSON(**f.from))
			}
		}
		if err := s.checkBounds(owner, name, &merged); err != nil {
			return err
		}
		switch {
		case *merged.MinSize > *merged.DesiredSize:
			return errUpdateMinAboveDesired(cluster, name, *merged.MinSize, *merged.DesiredSize)
		case *merged.DesiredSize > *merged.MaxSize:
			return errUpdateDesiredAboveMax(cluster, name, *merged.DesiredSize, *merged.MaxSize)
		}
		g.Nodegroup.ScalingConfig = &merged
	}
	if in.UpdateConfig != nil {
		c, err := checkUpdateConfig(cluster, name, in.UpdateConfig, *g.Nodegroup.ScalingConfig.MaxSize)
		if err != nil {
			return err
		}
		g.Nodegroup.UpdateConfig = c
		if c.UpdateStrategy != "" {
			note(ekstypes.UpdateParamTypeUpdateStrategy, string(c.UpdateStrategy))
		}
		if c.MaxUnavailable != nil {
			note(ekstypes.UpdateParamTypeMaxUnavailable, base.JSON(*c.MaxUnavailable))
		} else {
			note(ekstypes.UpdateParamTypeMaxUnavailablePercentage, base.JSON(*c.MaxUnavailablePercentage))
		}
	}
	if c := in.NodeRepairConfig; c != nil {
		if err := checkNodeRepair(cluster, name, c); err != nil {
			return err
		}
		g.Nodegroup.NodeRepairConfig = c
		note(ekstypes.UpdateParamTypeNodeRepairConfig, base.JSON(c))
	}
	if l := in.Labels; l != nil {
		if err := checkLabels(cluster, name, l.AddOrUpdateLabels); err != nil {
			return err
		}
		labels := base.TagsOrEmpty(g.Nodegroup.Labels)
		for k, v := range l.AddOrUpdateLabels {
			labels[k] = v
		}
		for _, k := range l.RemoveLabels {
			if _, both := l.AddOrUpdateLabels[k]; both {
				return errLabel(cluster, name, k+" is both added and removed")
			}
			delete(labels, k)
			g.RemovedLabels = append(g.RemovedLabels, k)
		}
		g.Nodegroup.Labels, g.TemplateStale = labels, true
		if len(l.AddOrUpdateLabels) > 0 {
			note(ekstypes.UpdateParamTypeLabelsToAdd, base.JSON(l.AddOrUpdateLabels))
		}
		if len(l.RemoveLabels) > 0 {
			note(ekstypes.UpdateParamTypeLabelsToRemove, base.JSON(l.RemoveLabels))
		}
	}
	if t := in.Taints; t != nil {
		if err := checkTaints(cluster, name, slices.Concat(t.AddOrUpdateTaints, t.RemoveTaints)); err != nil {
			return err
		}
		taints := slices.Clone(g.Nodegroup.Taints)
		for _, gone := range append(slices.Clone(t.RemoveTaints), t.AddOrUpdateTaints...) {
			taints = slices.DeleteFunc(taints, func(x ekstypes.Taint) bool { return sameTaint(x, gone) })
		}
		g.Nodegroup.Taints = append(taints, t.AddOrUpdateTaints...)
		g.RemovedTaints, g.TemplateStale = append(g.RemovedTaints, t.RemoveTaints...), true
		if len(t.AddOrUpdateTaints) > 0 {
			note(ekstypes.UpdateParamTypeTaintsToAdd, base.JSON(t.AddOrUpdateTaints))
		}
		if len(t.RemoveTaints) > 0 {
			note(ekstypes.UpdateParamTypeTaintsToRemove, base.JSON(t.RemoveTaints))
		}
	}
	return nil
}

// sameTaint reports whether two taints are the same except for their values: key and effect
// identify a taint.
func sameTaint(a, b ekstypes.Taint) bool {
	return aws.ToString(a.Key) == aws.ToString(b.Key) && a.Effect == b.Effect
}

// taintEffect returns Kubernetes's spelling: NoSchedule for NO_SCHEDULE.
func taintEffect(e ekstypes.TaintEffect) string {
	var b strings.Builder
	for _, part := range strings.Split(string(e), "_") {
		if part != "" {
			b.WriteString(part[:1] + strings.ToLower(part[1:]))
		}
	}
	return b.String()
}
