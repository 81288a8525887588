package cloudformation

import (
	"fmt"
	"slices"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	awseks "github.com/aws/aws-sdk-go-v2/service/eks"
	ekstypes "github.com/aws/aws-sdk-go-v2/service/eks/types"

	"github.com/drydock-dev/drydock/internal/service/cloudformation/template"
)

// retagEKS applies an update's tag changes to the EKS resource with the ARN.
func (r *request) retagEKS(arn *string) error {
	set, gone := r.tagChanges()
	if len(gone) > 0 {
		if _, err := call[awseks.UntagResourceOutput](r, &awseks.UntagResourceInput{ResourceArn: arn, TagKeys: gone}); err != nil {
			return err
		}
	}
	if len(set) == 0 {
		return nil
	}
	tags := map[string]string{}
	for _, t := range set {
		tags[t.Key] = t.Value
	}
	_, err := call[awseks.TagResourceOutput](r, &awseks.TagResourceInput{ResourceArn: arn, Tags: tags})
	return err
}

// done waits until an EKS update has ended.
func (r *request) done(cluster *string, u *ekstypes.Update, nodegroup, addon *string) error {
	return r.wait(func() (bool, error) {
		out, err := call[awseks.DescribeUpdateOutput](r, &awseks.DescribeUpdateInput{Name: cluster, UpdateId: u.Id, NodegroupName: nodegroup, AddonName: addon})
		if err != nil {
			return false, err
		}
		switch out.Update.Status {
		case ekstypes.UpdateStatusSuccessful:
			return true, nil
		case ekstypes.UpdateStatusFailed, ekstypes.UpdateStatusCancelled:
			var issues []string
			for _, e := range out.Update.Errors {
				issues = append(issues, fmt.Sprintf("ErrorDetail(ErrorCode=%s, ErrorMessage=%s, ResourceIds=[%s])", e.ErrorCode, aws.ToString(e.ErrorMessage), strings.Join(e.ResourceIds, ", ")))
			}
			return false, failedIn(issues)
		}
		return false, nil
	})
}

// updateCluster makes one update at a time, because EKS does not permit more.
func updateCluster(r *request) error {
	c, err := r.cluster(r.id)
	if err != nil {
		return err
	}
	if err := r.retagEKS(c.Arn); err != nil {
		return err
	}
	var updates []*awseks.UpdateClusterConfigInput
	add := func(change func(*awseks.UpdateClusterConfigInput) error) error {
		in := &awseks.UpdateClusterConfigInput{Name: &r.id}
		updates = append(updates, in)
		return change(in)
	}
	for _, p := range []string{"AccessConfig", "UpgradePolicy", "DeletionProtection", "ComputeConfig", "KubernetesNetworkConfig", "StorageConfig", "RemoteNetworkConfig", "ZonalShiftConfig", "ControlPlaneScalingConfig"} {
		if !r.changed(p) || !r.props.Has(p) {
			continue
		}
		err := add(func(in *awseks.UpdateClusterConfigInput) error {
			if p != "AccessConfig" {
				return r.onlyChanged(in, p)
			}
			in.AccessConfig = &ekstypes.UpdateAccessConfigRequest{}
			return r.fillIn(in.AccessConfig, p, "BootstrapClusterCreatorAdminPermissions")
		})
		if err != nil {
			return err
		}
	}
	if r.changed("Logging") {
		err := add(func(in *awseks.UpdateClusterConfigInput) (err error) {
			in.Logging, err = r.loggingChange()
			return err
		})
		if err != nil {
			return err
		}
	}
	// Endpoint access and subnets need separate updates.
	network, _ := r.props.Get("ResourcesVpcConfig").(*template.Map)
	before, _ := r.was.props.Get("ResourcesVpcConfig").(*template.Map)
	for _, part := range [][]string{{"EndpointPublicAccess", "EndpointPrivateAccess", "PublicAccessCidrs"}, {"SubnetIds", "SecurityGroupIds"}} {
		m := &template.Map{}
		for _, k := range part {
			if network.Has(k) && !same(network.Get(k), before.Get(k)) {
				m.Set(k, network.Get(k))
			}
		}
		if len(m.Keys()) == 0 {
			continue
		}
		err := add(func(in *awseks.UpdateClusterConfigInput) error {
			in.ResourcesVpcConfig = &ekstypes.VpcConfigRequest{}
			return r.fillWith(in.ResourcesVpcConfig, m, nil, "ResourcesVpcConfig.")
		})
		if err != nil {
			return err
		}
	}
	for i, in := range updates {
		in.ClientRequestToken = aws.String(fmt.Sprintf("%s-%d", *r.updateToken(), i))
		out, err := call[awseks.UpdateClusterConfigOutput](r, in)
		if same := "already at the desired configuration"; err != nil && strings.Contains(err.Error(), same) {
			continue // an earlier attempt changed it
		}
		if err != nil {
			return err
		}
		if err := r.done(&r.id, out.Update, nil, nil); err != nil {
			return err
		}
	}
	if !r.changed("Version") || aws.ToString(c.Version) == r.text("Version") {
		return nil
	}
	out, err := call[awseks.UpdateClusterVersionOutput](r, &awseks.UpdateClusterVersionInput{Name: &r.id, Version: aws.String(r.text("Version")), Force: r.text("Force") == "true", ClientRequestToken: r.updateToken()})
	if err != nil {
		return err
	}
	return r.done(&r.id, out.Update, nil, nil)
}

// loggingChange returns the log types to enable, and those to disable because only the state
// before the update has them: EKS does not change types that a request leaves out.
func (r *request) loggingChange() (*ekstypes.Logging, error) {
	now, err := r.logging()
	if err != nil {
		return nil, err
	}
	before, err := r.was.logging()
	if err != nil {
		return nil, err
	}
	out := &ekstypes.Logging{}
	if now != nil {
		out = now
	}
	off := ekstypes.LogSetup{Enabled: aws.Bool(false)}
	if before != nil {
		for _, t := range before.ClusterLogging[0].Types {
			if now == nil || !slices.Contains(now.ClusterLogging[0].Types, t) {
				off.Types = append(off.Types, t)
			}
		}
	}
	if len(off.Types) > 0 {
		out.ClusterLogging = append(out.ClusterLogging, off)
	}
	return out, nil
}

// updateNodegroup changes the settings of a node group, then the version of its nodes.
func updateNodegroup(r *request) error {
	cluster, name := r.parts("/")
	n, err := r.nodegroup(cluster, name)
	if err != nil {
		return err
	}
	if err := r.retagEKS(n.NodegroupArn); err != nil {
		return err
	}
	if r.changed("ScalingConfig", "Labels", "Taints", "UpdateConfig", "NodeRepairConfig", "WarmPoolConfig") {
		in := &awseks.UpdateNodegroupConfigInput{ClusterName: cluster, NodegroupName: name, ClientRequestToken: r.updateToken()}
		if err := r.onlyChanged(in, "ScalingConfig", "UpdateConfig", "NodeRepairConfig", "WarmPoolConfig"); err != nil {
			return err
		}
		var now, before struct {
			Labels map[string]string
			Taints []ekstypes.Taint
		}
		for _, s := range []struct {
			r    *request
			into any
		}{{r, &now}, {r.was, &before}} {
			m := &template.Map{}
			for _, p := range []string{"Labels", "Taints"} {
				if s.r.props.Has(p) {
					m.Set(p, s.r.props.Get(p))
				}
			}
			if err := r.fillWith(s.into, m, nil, ""); err != nil {
				return err
			}
		}
		labels := &ekstypes.UpdateLabelsPayload{}
		for k, v := range now.Labels {
			if old, ok := before.Labels[k]; !ok || old != v {
				if labels.AddOrUpdateLabels == nil {
					labels.AddOrUpdateLabels = map[string]string{}
				}
				labels.AddOrUpdateLabels[k] = v
			}
		}
		for k := range before.Labels {
			if _, ok := now.Labels[k]; !ok {
				labels.RemoveLabels = append(labels.RemoveLabels, k)
			}
		}
		if slices.Sort(labels.RemoveLabels); len(labels.AddOrUpdateLabels)+len(labels.RemoveLabels) > 0 {
			in.Labels = labels
		}
		taints := &ekstypes.UpdateTaintsPayload{}
		key := func(t ekstypes.Taint) string { return aws.ToString(t.Key) + "=" + string(t.Effect) }
		for _, t := range now.Taints {
			if !slices.ContainsFunc(before.Taints, func(b ekstypes.Taint) bool {
				return key(b) == key(t) && aws.ToString(b.Value) == aws.ToString(t.Value)
			}) {
				taints.AddOrUpdateTaints = append(taints.AddOrUpdateTaints, t)
			}
		}
		for _, b := range before.Taints {
			if !slices.ContainsFunc(now.Taints, func(t ekstypes.Taint) bool { return key(t) == key(b) }) {
				taints.RemoveTaints = append(taints.RemoveTaints, b)
			}
		}
		if len(taints.AddOrUpdateTaints)+len(taints.RemoveTaints) > 0 {
			in.Taints = taints
		}
		out, err := call[awseks.UpdateNodegroupConfigOutput](r, in)
		if err != nil {
			return err
		}
		if err := r.done(cluster, out.Update, name, nil); err != nil {
			return err
		}
	}
	if !r.changed("Version", "ReleaseVersion", "LaunchTemplate") {
		return nil
	}
	in := &awseks.UpdateNodegroupVersionInput{ClusterName: cluster, NodegroupName: name, Force: r.text("ForceUpdateEnabled") == "true", ClientRequestToken: r.updateToken()}
	if err := r.onlyChanged(in, "Version", "ReleaseVersion", "LaunchTemplate"); err != nil {
		return err
	}
	out, err := call[awseks.UpdateNodegroupVersionOutput](r, in)
	if err != nil {
		return err
	}
	return r.done(cluster, out.Update, name, nil)
}

func updateAddon(r *request) error {
	cluster, name := r.parts("|")
	a, err := r.addon(cluster, name)
	if err != nil {
		return err
	}
	if err := r.retagEKS(a.AddonArn); err != nil || !r.changed("AddonVersion", "ConfigurationValues", "PodIdentityAssociations", "ServiceAccountRoleArn") {
		return err
	}
	in := &awseks.UpdateAddonInput{ClientRequestToken: r.updateToken()}
	if err := r.fill(in, "Tags PreserveOnDelete NamespaceConfig"); err != nil {
		return err
	}
	out, err := call[awseks.UpdateAddonOutput](r, in)
	if err != nil {
		return err
	}
	return r.done(cluster, out.Update, nil, name)
}

func updateAccessEntry(r *request) error {
	principal, cluster := r.parts("|")
	e, err := r.entry(cluster, principal)
	if err != nil {
		return err
	}
	if err := r.retagEKS(e.AccessEntryArn); err != nil {
		return err
	}
	if r.changed("KubernetesGroups", "Username") {
		in := &awseks.UpdateAccessEntryInput{ClientRequestToken: r.updateToken()}
		if err := r.fill(in, "Tags AccessPolicies Type"); err != nil {
			return err
		}
		if in.KubernetesGroups == nil {
			in.KubernetesGroups = []string{}
		}
		if _, err := call[awseks.UpdateAccessEntryOutput](r, in); err != nil {
			return err
		}
	}
	keep := r.members("AccessPolicies", "PolicyArn")
	for _, policy := range r.was.members("AccessPolicies", "PolicyArn") {
		if slices.Contains(keep, policy) {
			continue
		}
		if _, err := call[awseks.DisassociateAccessPolicyOutput](r, &awseks.DisassociateAccessPolicyInput{ClusterName: cluster, PrincipalArn: principal, PolicyArn: &policy}); unlessGone(err) != nil {
			return err
		}
	}
	return nil
}

func updateAssociation(r *request) error {
	if err := r.retagEKS(&r.id); err != nil || !r.changed("RoleArn", "TargetRoleArn", "DisableSessionTags", "Policy") {
		return err
	}
	cluster, id := r.association()
	in := &awseks.UpdatePodIdentityAssociationInput{ClusterName: cluster, AssociationId: id, ClientRequestToken: r.updateToken()}
	if err := r.onlyChanged(in, "RoleArn", "TargetRoleArn", "DisableSessionTags", "Policy"); err != nil {
		return err
	}
	_, err := call[awseks.UpdatePodIdentityAssociationOutput](r, in)
	return err
}

// members returns one member of every element of a list property, as strings.
func (r *request) members(property, member string) (out []string) {
	list, _ := r.props.Get(property).([]any)
	for _, e := range list {
		if m, ok := e.(*template.Map); ok {
			text, _ := template.Text(m.Get(member))
			out = append(out, text)
		}
	}
	return out
}
