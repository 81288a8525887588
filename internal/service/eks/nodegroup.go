package eks

import (
	"context"
	"slices"
	"strings"
	"time"

	awseks "github.com/aws/aws-sdk-go-v2/service/eks"
	ekstypes "github.com/aws/aws-sdk-go-v2/service/eks/types"

	"github.com/drydock-dev/drydock/internal/arn"
	"github.com/drydock-dev/drydock/internal/ids"
	"github.com/drydock-dev/drydock/internal/store"
)

// CreateNodegroup records a managed node group that the node group reconciler
// then makes.
// https://docs.aws.amazon.com/eks/latest/APIReference/API_CreateNodegroup.html
func (s *Service) CreateNodegroup(ctx context.Context, in *awseks.CreateNodegroupInput) (*awseks.CreateNodegroupOutput, error) {
	key, cluster, err := s.cluster(ctx, in.ClusterName)
	if err != nil {
		return nil, err
	}
	if err := validateName(in.NodegroupName, "nodegroupName", "nodegroupName", key.ID, 63); err != nil {
		return nil, err
	}
	untokened := *in
	untokened.ClientRequestToken = nil
	request := fingerprint(untokened)
	id := below(key, *in.NodegroupName)
	if old, err := nodegroups.Get(s.store, id); err == nil {
		return repeatedNodegroup(key.ID, old, in.ClientRequestToken, request)
	}
	if err := usable(cluster); err != nil {
		return nil, err
	}
	rec, err := s.newNodegroup(ctx, key, cluster, in)
	if err != nil {
		return nil, err
	}
	rec.Token, rec.Request = text(in.ClientRequestToken), request
	var out *awseks.CreateNodegroupOutput
	err = s.store.Update(ctx, func(tx *store.Tx) error {
		if old, err := nodegroups.Get(tx, id); err == nil {
			out, err = repeatedNodegroup(key.ID, old, in.ClientRequestToken, request)
			return err
		}
		now, err := clusters.Get(tx, key)
		if err != nil {
			return store.NotFoundAs(err, errNoCluster(key.ID))
		}
		if now.UID != cluster.UID {
			return errNoCluster(key.ID)
		}
		if err := usable(now); err != nil {
			return err
		}
		all, err := nodegroups.List(tx, allBelow(key))
		if err != nil {
			return err
		}
		quotas, err := s.quotas(key)
		if err != nil {
			return err
		}
		if len(all) >= quotas.NodegroupsPerCluster {
			return errNodegroupLimit(key.ID, quotas.NodegroupsPerCluster)
		}
		if now.usesAPI() {
			if rec.AccessEntryMade, err = s.admit(tx, key, rec.Role, typeEC2Linux); err != nil {
				return err
			}
		}
		out = &awseks.CreateNodegroupOutput{Nodegroup: &rec.Nodegroup}
		return nodegroups.Create(tx, id, *rec)
	})
	if err != nil {
		return nil, err
	}
	return out, nil
}

func repeatedNodegroup(cluster string, old nodegroupRecord, token *string, request string) (*awseks.CreateNodegroupOutput, error) {
	switch {
	case token == nil || old.Token != *token:
		return nil, errNodegroupExists(cluster, *old.Nodegroup.NodegroupName)
	case old.Request != request:
		return nil, errTokenReused(cluster)
	}
	return &awseks.CreateNodegroupOutput{Nodegroup: &old.Nodegroup}, nil
}

// newNodegroup checks a request and returns the record it makes.
func (s *Service) newNodegroup(ctx context.Context, key store.Key, cluster clusterRecord, in *awseks.CreateNodegroupInput) (*nodegroupRecord, error) {
	name := *in.NodegroupName
	if err := validateTags(key.ID, in.Tags); err != nil {
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
	if err := s.checkNodegroupSubnets(ctx, key, cluster, name, in.Subnets); err != nil {
		return nil, err
	}
	if in.Version != nil && *in.Version != *cluster.Cluster.Version {
		return nil, errNodegroupVersion(key.ID, name, *in.Version)
	}
	capacity := in.CapacityType
	if capacity == "" {
		capacity = ekstypes.CapacityTypesOnDemand
	}
	if capacity != ekstypes.CapacityTypesOnDemand && capacity != ekstypes.CapacityTypesSpot {
		return nil, invalidNodegroup(key.ID, name, "Invalid capacityType: %s", capacity)
	}
	tmpl, err := s.checkTemplate(ctx, key, name, in)
	if err != nil {
		return nil, err
	}
	remote, err := s.checkRemoteAccess(ctx, key, name, in.RemoteAccess)
	if err != nil {
		return nil, err
	}
	machine, err := chooseMachine(key, *cluster.Cluster.Version, name, in, tmpl)
	if err != nil {
		return nil, err
	}
	now := s.clock.Now().UTC().Truncate(time.Millisecond)
	uuid := ids.UUID()
	rec := &nodegroupRecord{
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
			Version:       cluster.Cluster.Version,
			CreatedAt:     &now,
			ModifiedAt:    &now,
			Status:        ekstypes.NodegroupStatusCreating,
			CapacityType:  capacity,
			ScalingConfig: scaling,
			InstanceTypes: machine.instanceTypes,
			Subnets:       in.Subnets,
			AmiType:       machine.amiType,
			NodeRole:      in.NodeRole,
			Labels:        tagsOrEmpty(in.Labels),
			Taints:        in.Taints,
			DiskSize:      machine.diskSize,
			Health:        &ekstypes.NodegroupHealth{Issues: []ekstypes.Issue{}},
			UpdateConfig:  updating,
			RemoteAccess:  remote,
			Tags:          tagsOrEmpty(in.Tags),
		},
	}
	rec.Nodegroup.ReleaseVersion, rec.Nodegroup.NodeRepairConfig = nonEmpty(machine.releaseVersion), in.NodeRepairConfig
	rec.Nodegroup.Resources = &ekstypes.NodegroupResources{AutoScalingGroups: []ekstypes.AutoScalingGroup{{Name: new(rec.resourceName())}}}
	if tmpl != nil {
		rec.Nodegroup.LaunchTemplate = tmpl.spec
		if machine.amiType == ekstypes.AMITypesCustom { // then EKS knows no version
			rec.Nodegroup.Version, rec.Nodegroup.ReleaseVersion = cluster.Cluster.Version, &machine.imageID
		}
	}
	return rec, nil
}

// DescribeNodegroup returns a node group as it is now.
func (s *Service) DescribeNodegroup(ctx context.Context, in *awseks.DescribeNodegroupInput) (*awseks.DescribeNodegroupOutput, error) {
	_, rec, err := s.nodegroup(ctx, in.ClusterName, in.NodegroupName)
	if err != nil {
		return nil, err
	}
	return &awseks.DescribeNodegroupOutput{Nodegroup: &rec.Nodegroup}, nil
}

// ListNodegroups returns the names of a cluster's node groups.
func (s *Service) ListNodegroups(ctx context.Context, in *awseks.ListNodegroupsInput) (*awseks.ListNodegroupsOutput, error) {
	key, _, err := s.cluster(ctx, in.ClusterName)
	if err != nil {
		return nil, err
	}
	items, err := nodegroups.List(s.store, allBelow(key))
	if err != nil {
		return nil, err
	}
	items, next, err := page(items, func(i store.Item[nodegroupRecord]) string { return i.Key.ID }, in.MaxResults, in.NextToken)
	if err != nil {
		return nil, err
	}
	out := &awseks.ListNodegroupsOutput{Nodegroups: []string{}, NextToken: next}
	for _, i := range items {
		out.Nodegroups = append(out.Nodegroups, *i.Value.Nodegroup.NodegroupName)
	}
	return out, nil
}

// DeleteNodegroup marks a node group for the reconciler to drain and remove.
func (s *Service) DeleteNodegroup(ctx context.Context, in *awseks.DeleteNodegroupInput) (*awseks.DeleteNodegroupOutput, error) {
	key, _, err := s.nodegroup(ctx, in.ClusterName, in.NodegroupName)
	if err != nil {
		return nil, err
	}
	var out awseks.DeleteNodegroupOutput
	err = s.store.Update(ctx, func(tx *store.Tx) error {
		return nodegroups.Update(tx, key, func(g *nodegroupRecord) error {
			if g.Nodegroup.Status == ekstypes.NodegroupStatusDeleting {
				return errNodegroupBusy(*in.ClusterName, *in.NodegroupName, g.Nodegroup.Status)
			}
			if g.Nodegroup.Status == ekstypes.NodegroupStatusUpdating {
				return s.updateInProgress(tx, clusterOf(key), *in.NodegroupName, "DeleteNodegroup")
			}
			g.Nodegroup.Status = ekstypes.NodegroupStatusDeleting
			g.Nodegroup.Health = &ekstypes.NodegroupHealth{Issues: []ekstypes.Issue{}}
			g.Since = s.clock.Now().UTC()
			g.Nodegroup.ModifiedAt = new(g.Since.Truncate(time.Millisecond))
			out.Nodegroup = &g.Nodegroup
			return nil
		})
	})
	if err != nil {
		return nil, err
	}
	return &out, nil
}

// nodegroup returns a node group of the caller.
func (s *Service) nodegroup(ctx context.Context, cluster, name *string) (store.Key, nodegroupRecord, error) {
	key, _, err := s.cluster(ctx, cluster)
	if err != nil {
		return key, nodegroupRecord{}, err
	}
	if text(name) == "" {
		return key, nodegroupRecord{}, errMissing("nodegroupName")
	}
	id := below(key, *name)
	rec, err := nodegroups.Get(s.store, id)
	if err != nil {
		return id, rec, store.NotFoundAs(err, errNoNodegroup(key.ID, *name))
	}
	return id, rec, nil
}

// UpdateNodegroupConfig starts an update of a node group's size, labels or
// taints; the node group reconciler finishes it.
// https://docs.aws.amazon.com/eks/latest/APIReference/API_UpdateNodegroupConfig.html
func (s *Service) UpdateNodegroupConfig(ctx context.Context, in *awseks.UpdateNodegroupConfigInput) (*awseks.UpdateNodegroupConfigOutput, error) {
	key, _, err := s.nodegroup(ctx, in.ClusterName, in.NodegroupName)
	if err != nil {
		return nil, err
	}
	cluster, name := clusterOf(key), *in.NodegroupName
	untokened := *in
	untokened.ClientRequestToken = nil
	request := fingerprint(untokened)
	if done, err := s.repeatedUpdate(s.store, cluster, in.ClientRequestToken, request); done != nil || err != nil {
		return &awseks.UpdateNodegroupConfigOutput{Update: done}, err
	}
	if in.ScalingConfig == nil && in.Labels == nil && in.Taints == nil && in.UpdateConfig == nil && in.NodeRepairConfig == nil {
		return nil, invalidNodegroup(cluster.ID, name, "No update parameters were specified.")
	}
	up := s.newUpdate(ekstypes.UpdateTypeConfigUpdate)
	up.Nodegroup, up.Request, up.Token = name, request, text(in.ClientRequestToken)
	err = s.store.Update(ctx, func(tx *store.Tx) error {
		up.Update.Params = nil
		err := nodegroups.Update(tx, key, func(g *nodegroupRecord) error {
			if err := updatable(cluster.ID, name, g); err != nil {
				return err
			}
			if err := s.changeNodegroup(cluster, g, up, in); err != nil {
				return err
			}
			g.Nodegroup.Status, g.Since, g.UpdateID = ekstypes.NodegroupStatusUpdating, s.clock.Now().UTC(), *up.Update.Id
			g.Nodegroup.ModifiedAt = new(g.Since.Truncate(time.Millisecond))
			return nil
		})
		if err != nil {
			return err
		}
		return updates.Create(tx, below(cluster, *up.Update.Id), *up)
	})
	if err != nil {
		return nil, err
	}
	return &awseks.UpdateNodegroupConfigOutput{Update: &up.Update}, nil
}

// changeNodegroup applies a request to the record and notes the parameters.
func (s *Service) changeNodegroup(owner store.Key, g *nodegroupRecord, up *updateRecord, in *awseks.UpdateNodegroupConfigInput) error {
	cluster, name := *in.ClusterName, *in.NodegroupName
	note := func(t ekstypes.UpdateParamType, v string) { up.Update.Params = append(up.Update.Params, param(t, v)) }
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
				note(f.typ, jsonText(**f.from))
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
			note(ekstypes.UpdateParamTypeMaxUnavailable, jsonText(*c.MaxUnavailable))
		} else {
			note(ekstypes.UpdateParamTypeMaxUnavailablePercentage, jsonText(*c.MaxUnavailablePercentage))
		}
	}
	if c := in.NodeRepairConfig; c != nil {
		if err := checkNodeRepair(cluster, name, c); err != nil {
			return err
		}
		g.Nodegroup.NodeRepairConfig = c
		note(ekstypes.UpdateParamTypeNodeRepairConfig, jsonText(c))
	}
	if l := in.Labels; l != nil {
		if err := checkLabels(cluster, name, l.AddOrUpdateLabels); err != nil {
			return err
		}
		labels := tagsOrEmpty(g.Nodegroup.Labels)
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
			note(ekstypes.UpdateParamTypeLabelsToAdd, jsonText(l.AddOrUpdateLabels))
		}
		if len(l.RemoveLabels) > 0 {
			note(ekstypes.UpdateParamTypeLabelsToRemove, jsonText(l.RemoveLabels))
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
			note(ekstypes.UpdateParamTypeTaintsToAdd, jsonText(t.AddOrUpdateTaints))
		}
		if len(t.RemoveTaints) > 0 {
			note(ekstypes.UpdateParamTypeTaintsToRemove, jsonText(t.RemoveTaints))
		}
	}
	return nil
}

// sameTaint reports whether two taints differ at most in value: key and effect
// identify a taint.
func sameTaint(a, b ekstypes.Taint) bool {
	return text(a.Key) == text(b.Key) && a.Effect == b.Effect
}

// taintEffect is Kubernetes's spelling: NO_SCHEDULE is NoSchedule.
func taintEffect(e ekstypes.TaintEffect) string {
	var b strings.Builder
	for _, part := range strings.Split(string(e), "_") {
		if part != "" {
			b.WriteString(part[:1] + strings.ToLower(part[1:]))
		}
	}
	return b.String()
}
