package cluster

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	awsec2 "github.com/aws/aws-sdk-go-v2/service/ec2"
	awseks "github.com/aws/aws-sdk-go-v2/service/eks"
	ekstypes "github.com/aws/aws-sdk-go-v2/service/eks/types"

	"github.com/drydock-dev/drydock/internal/catalog/eksversions"
	"github.com/drydock-dev/drydock/internal/fault"
	"github.com/drydock-dev/drydock/internal/service/eks/autonodes"
	"github.com/drydock-dev/drydock/internal/service/eks/base"
	"github.com/drydock-dev/drydock/internal/service/eks/ekserr"
	"github.com/drydock-dev/drydock/internal/service/eks/plane"
	"github.com/drydock-dev/drydock/internal/service/eks/record"
	"github.com/drydock-dev/drydock/internal/store"
)

const (
	// rollbackWindow is how long after an upgrade a cluster can be rolled back.
	// https://docs.aws.amazon.com/eks/latest/userguide/rollback-cluster.html
	rollbackWindow = 7 * 24 * time.Hour
	// kubeletSkew is how many minor versions kubelets and kube-proxies may be older than the API
	// server. They must not be newer.
	// https://kubernetes.io/releases/version-skew-policy/
	kubeletSkew = 3
	// freeAddresses is how many addresses an update needs in the cluster's subnets.
	// https://docs.aws.amazon.com/eks/latest/userguide/network-reqs.html
	freeAddresses = 5
	// upgradeWait is how long one reconciliation waits for the control plane to change its version.
	upgradeWait = 2 * time.Minute
)

// UpdateClusterVersion starts to change the Kubernetes version of a cluster: to the next minor
// version or, within rollbackWindow of an upgrade, back to the previous one. The cluster reconciler
// completes it.
// https://docs.aws.amazon.com/eks/latest/APIReference/API_UpdateClusterVersion.html
func (s *Service) UpdateClusterVersion(ctx context.Context, in *awseks.UpdateClusterVersionInput) (*awseks.UpdateClusterVersionOutput, error) {
	key, rec, err := s.Cluster(ctx, in.Name)
	if err != nil {
		return nil, err
	}
	request := record.Fingerprint(in)
	if done, err := s.RepeatedUpdate(s.Store, key, in.ClientRequestToken, request); done != nil || err != nil {
		return &awseks.UpdateClusterVersionOutput{Update: done}, err
	}
	up, err := s.versionChange(key, rec, in)
	if err != nil {
		return nil, err
	}
	up.Request, up.Token = request, aws.ToString(in.ClientRequestToken)
	if err := s.updatable(s.Store, key, rec, up); err != nil {
		return nil, err
	}
	if err := s.checkReadiness(ctx, key, rec, up, in.Force); err != nil {
		return nil, err
	}
	err = s.Store.Update(ctx, func(tx *store.Tx) error {
		now, err := record.Clusters.Get(tx, key)
		if err != nil {
			return store.NotFoundAs(err, ekserr.NoCluster(key.ID))
		}
		if err := s.updatable(tx, key, now, up); err != nil {
			return err
		}
		rolling := up.Update.Type == ekstypes.UpdateTypeVersionRollback && autonodes.Enabled(&now.Cluster)
		if now.UID != rec.UID || *now.Cluster.Version != *rec.Cluster.Version {
			return ekserr.UpdateInProgress(string(up.Update.Type), key.ID, *up.Update.Id)
		}
		if rolling {
			return s.beginNodeRollback(tx, key, up, in)
		}
		return s.begin(tx, key, up)
	})
	return &awseks.UpdateClusterVersionOutput{Update: &up.Update}, err
}

// updatable returns an error unless a cluster is ACTIVE.
func (s *Service) updatable(r store.Reader, key store.Key, rec record.Cluster, up *record.Update) error {
	switch rec.Cluster.Status {
	case ekstypes.ClusterStatusActive:
		if rec.Rollback != nil {
			return s.UpdateInProgress(r, key, "", string(up.Update.Type))
		}
		return nil
	case ekstypes.ClusterStatusUpdating:
		return s.UpdateInProgress(r, key, "", string(up.Update.Type))
	}
	return ekserr.ClusterNotActive(key.ID, rec.Cluster.Status)
}

// versionChange checks the requested version and returns the update to it.
func (s *Service) versionChange(key store.Key, rec record.Cluster, in *awseks.UpdateClusterVersionInput) (*record.Update, error) {
	from, to := *rec.Cluster.Version, aws.ToString(in.Version)
	if to == "" {
		return nil, ekserr.Missing("version")
	}
	v, ok := eksversions.Lookup(to)
	if !ok {
		return nil, errUnsupportedVersion(key.ID, to)
	}
	kind := ekstypes.UpdateTypeVersionUpdate
	switch eksversions.Number(to) - eksversions.Number(from) {
	case 1:
		if in.RollbackConfig != nil {
			return nil, errRollbackConfig(key.ID, to)
		}
	case -1:
		kind = ekstypes.UpdateTypeVersionRollback
		if err := s.checkRollback(rec, v, in.RollbackConfig); err != nil {
			return nil, err
		}
	default:
		return nil, errVersionStep(key.ID, from, to)
	}
	up := s.NewUpdate(kind, base.UpdateParam(ekstypes.UpdateParamTypeVersion, to), base.UpdateParam(ekstypes.UpdateParamTypePlatformVersion, v.PlatformVersion))
	up.Version = to
	return up, nil
}

// checkRollback applies the prerequisites of a rollback. The timeout in config is for the rollback of Auto Mode nodes.
// https://docs.aws.amazon.com/eks/latest/userguide/rollback-cluster.html
func (s *Service) checkRollback(rec record.Cluster, to eksversions.Version, config *ekstypes.RollbackConfig) error {
	name, now := rec.Name(), s.Clock.Now()
	if config != nil && config.TimeoutMinutes != nil {
		if m := *config.TimeoutMinutes; m < 120 || m > 10080 {
			return errRollbackTimeout(name)
		}
	}
	switch last := rec.Upgraded; {
	case last == nil || last.From != to.Minor:
		return errNotUpgraded(name, *rec.Cluster.Version, to.Minor)
	case last.SupportEnded == ekstypes.SupportTypeExtended:
		return errRollbackUnsupported(name, to.Minor)
	case now.Sub(last.At) > rollbackWindow:
		return errRollbackLate(name, to.Minor)
	case (last.SupportEnded != "" || !now.Before(to.EndOfStandardSupport)) && rec.Cluster.UpgradePolicy.SupportType == ekstypes.SupportTypeStandard:
		return errRollbackSupport(name, to.Minor)
	}
	return nil
}

// checkReadiness refuses an update of a cluster that is not ready for it. force overrides the
// insights, but not node groups that are too old for the new version. Only a rollback can be forced while the control plane
// does not answer.
func (s *Service) checkReadiness(ctx context.Context, key store.Key, rec record.Cluster, up *record.Update, force bool) error {
	ev, err := s.gather(ctx, key, rec)
	if err != nil {
		return err
	}
	category := ekstypes.CategoryUpgradeReadiness
	if up.Update.Type == ekstypes.UpdateTypeVersionRollback {
		category = ekstypes.CategoryRollbackReadiness
	} else if ev.unknown != "" {
		return errNoAnswer(ev.unknown)
	}
	if behind := ev.nodegroupsBehind(up.Version); len(behind) > 0 {
		return errNodegroupsBehind(key.ID, behind, *rec.Cluster.Version)
	}
	if force {
		return nil
	}
	if category == ekstypes.CategoryRollbackReadiness {
		s.gatherRollback(ctx, key, ev)
	}
	for _, i := range ev.insights() {
		if i.Category == category && aws.ToString(i.KubernetesVersion) == up.Version && slices.Contains(failing[category], i.InsightStatus.Status) {
			return errInsights(key.ID, category)
		}
	}
	return nil
}

// failing are the states of insights that refuse a change of the version.
var failing = map[ekstypes.Category][]ekstypes.InsightStatusValue{
	ekstypes.CategoryUpgradeReadiness:  {ekstypes.InsightStatusValueError},
	ekstypes.CategoryRollbackReadiness: {ekstypes.InsightStatusValueError, ekstypes.InsightStatusValueUnknown},
}

// nodegroupsBehind returns the managed node groups whose kubelets are too old for a version.
func (e *evidence) nodegroupsBehind(version string) []string {
	var out []string
	for _, n := range e.nodes {
		group, minor := n.Labels[plane.LabelNodegroup], nodeMinor(n) // 0 if the kubelet has not reported its version
		if group != "" && minor > 0 && eksversions.Number(version)-minor > kubeletSkew && !slices.Contains(out, group) {
			out = append(out, group)
		}
	}
	slices.Sort(out)
	return out
}

// applyVersion replaces the control plane with one of another version. After that, a problem in the
// network no longer fails the update. A control plane that a fault has taken down is upgraded when it is back.
func (s *Service) applyVersion(ctx context.Context, key store.Key, rec record.Cluster, version string) error {
	if s.ControlPlanes.Version(rec.Plane.ID) != version {
		if issue, err := s.networkIssue(s.AsService(ctx, key.Account, key.Region), rec); err != nil {
			return err
		} else if issue != nil {
			return &updateFailure{*issue}
		}
	}
	ctx, cancel := context.WithTimeout(ctx, upgradeWait)
	defer cancel()
	err := s.ControlPlanes.Upgrade(ctx, rec.Plane.ID, version)
	if f := fault.Of(err); f != nil && f.Kind == fault.Upgrade {
		return &updateFailure{ekstypes.ClusterIssue{
			Code: ekstypes.ClusterIssueCodeInternalFailure, ResourceIds: []string{rec.Name()},
			// from memory
			Message: new(fmt.Sprintf("The update to Kubernetes version %s failed health checks. Amazon EKS reverted the infrastructure deployment, and the cluster remains on the prior Kubernetes version.", version)),
		}}
	}
	return err
}

// An updateFailure ends an update.
type updateFailure struct{ issue ekstypes.ClusterIssue }

func (e *updateFailure) Error() string { return *e.issue.Message }

// networkIssue returns the issue in a cluster's network that prevents an update, or nil.
func (s *Service) networkIssue(ctx context.Context, rec record.Cluster) (*ekstypes.ClusterIssue, error) {
	vpc := rec.Cluster.ResourcesVpcConfig
	subnets, err := s.Network.DescribeSubnets(ctx, &awsec2.DescribeSubnetsInput{SubnetIds: vpc.SubnetIds})
	if err == nil && len(vpc.SecurityGroupIds) > 0 {
		_, err = s.Network.DescribeSecurityGroups(ctx, &awsec2.DescribeSecurityGroupsInput{GroupIds: vpc.SecurityGroupIds})
	}
	if err != nil {
		if issue := issueOf(err); issue != nil {
			return issue, nil
		}
		return nil, fmt.Errorf("checking the network of cluster %s: %w", rec.Name(), err)
	}
	free := int32(0)
	for _, sn := range subnets.Subnets {
		free += aws.ToInt32(sn.AvailableIpAddressCount)
	}
	if free >= freeAddresses {
		return nil, nil
	}
	// https://docs.aws.amazon.com/eks/latest/userguide/troubleshooting.html#cluster-health-status
	return &ekstypes.ClusterIssue{
		Code: ekstypes.ClusterIssueCodeInsufficientFreeAddresses, ResourceIds: vpc.SubnetIds,
		Message: new("One or more of the subnets associated with your cluster does not have enough available IP addresses for Amazon EKS to perform cluster management operations. " +
			"Free up addresses in the subnet(s), or associate different subnets to your cluster using the Amazon EKS update-cluster-config API."),
	}, nil
}

// settledVersion reports whether an update changes the version of a control plane that already has
// the new version, which it keeps even if the update fails.
func (s *Service) settledVersion(rec record.Cluster, up record.Update) bool {
	return up.Version != "" && s.ControlPlanes.Version(rec.Plane.ID) == up.Version
}

// commitVersion records the new version of a cluster.
func (s *Service) commitVersion(c *record.Cluster, up record.Update) {
	from := *c.Cluster.Version
	c.Cluster.Version, c.Upgraded = &up.Version, nil
	c.PlatformTo, c.PlatformSince, c.Rollback = "", s.Clock.Now().UTC(), nil
	if v, ok := eksversions.Lookup(up.Version); ok {
		c.Cluster.PlatformVersion = &v.PlatformVersion
	}
	if up.Update.Type == ekstypes.UpdateTypeVersionUpdate {
		c.Upgraded = &record.Upgrade{From: from, At: s.Clock.Now().UTC(), SupportEnded: up.SupportEnded}
	}
}

// CancelUpdate cancels the rollback of a cluster while its Auto Mode nodes are rolled back. Karpenter then replaces the nodes
// that have the older version, as after an upgrade.
// https://docs.aws.amazon.com/eks/latest/APIReference/API_CancelUpdate.html
func (s *Service) CancelUpdate(ctx context.Context, in *awseks.CancelUpdateInput) (*awseks.CancelUpdateOutput, error) {
	key, rec, err := s.Cluster(ctx, in.Name)
	if err != nil {
		return nil, err
	}
	id := aws.ToString(in.UpdateId)
	up, err := record.Updates.Get(s.Store, key.Below(id))
	if err == nil && (up.Nodegroup != "" || up.Addon != "") {
		err = store.ErrNotFound
	}
	if err != nil {
		return nil, store.NotFoundAs(err, ekserr.NotFound("No update found for ID: %s", id))
	}
	var out awseks.CancelUpdateOutput
	err = s.Store.Update(ctx, func(tx *store.Tx) error {
		ended, err := s.endNodeRollback(tx, key, rec.UID, id, func(u *ekstypes.Update) {
			u.Status, u.Cancellation = ekstypes.UpdateStatusCancelled, &ekstypes.Cancellation{Status: ekstypes.CancellationStatusSuccessful}
			out.Update = u
		})
		if err == nil && !ended {
			err = errNotCancellable(key.ID, id)
		}
		return err
	})
	return &out, err
}

// Of the following errors, only those marked [seen] are known to have EKS's texts.

// [seen] hashicorp/terraform-provider-aws, rancher/rancher#43316; also for the current version and
// for older ones
func errVersionStep(cluster, from, to string) error {
	return ekserr.InvalidParameter(cluster, "Unsupported Kubernetes minor version update from %s to %s", from, to)
}

// [seen] hashicorp/terraform-provider-aws#19478
func errNodegroupsBehind(cluster string, groups []string, version string) error {
	return ekserr.InvalidRequest(cluster, "Nodegroups %s must be updated to match cluster version %s before updating cluster version", strings.Join(groups, ", "), version)
}

// [seen] hashicorp/terraform-provider-aws#42031. The words for a rollback are from memory. `drydock why cluster` says which
// insights they are.
func errInsights(cluster string, of ekstypes.Category) error {
	what := "upgrade"
	if of == ekstypes.CategoryRollbackReadiness {
		what = "rollback"
	}
	return ekserr.InvalidState(cluster, "%s readiness issues detected. Call the EKS ListInsights API to view %s blocking issues detected by EKS. Pass the force flag to override %s readiness errors and proceed with %s.",
		strings.ToUpper(what[:1])+what[1:], what, what, what)
}

func errRollbackConfig(cluster, to string) error {
	return ekserr.InvalidParameter(cluster, "rollbackConfig is only valid for a rollback, and version %s is an upgrade", to)
}

func errRollbackTimeout(cluster string) error {
	return ekserr.InvalidParameter(cluster, "rollbackConfig.timeoutMinutes must be between 120 and 10080")
}

func errNotUpgraded(cluster, from, to string) error {
	return ekserr.InvalidRequest(cluster, "Unsupported Kubernetes minor version update from %s to %s: the cluster was not upgraded from version %s, so it cannot be rolled back to it", from, to, to)
}

func errRollbackLate(cluster, to string) error {
	return ekserr.InvalidRequest(cluster, "Cluster %s cannot be rolled back to version %s because it was upgraded more than 7 days ago", cluster, to)
}

func errRollbackUnsupported(cluster, to string) error {
	return ekserr.InvalidRequest(cluster, "Cluster %s cannot be rolled back to version %s because it was upgraded automatically at the end of that version's extended support", cluster, to)
}

func errRollbackSupport(cluster, to string) error {
	return ekserr.InvalidRequest(cluster, "Cluster %s cannot be rolled back to version %s because that version's standard support has ended. Change the cluster's upgrade policy to EXTENDED first", cluster, to)
}

func errNotCancellable(cluster, id string) error {
	return ekserr.InvalidRequest(cluster, "Update %s cannot be cancelled. Only a VersionRollback of a cluster with Auto Mode can be, while its nodes are rolled back", id)
}

// failureOf returns the failure that ended an update, or nil.
func failureOf(err error) *updateFailure {
	f, _ := errors.AsType[*updateFailure](err)
	return f
}
