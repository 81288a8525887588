package cluster

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	awseks "github.com/aws/aws-sdk-go-v2/service/eks"
	ekstypes "github.com/aws/aws-sdk-go-v2/service/eks/types"

	"github.com/drydock-dev/drydock/internal/awsapi"
	"github.com/drydock-dev/drydock/internal/awsapi/awserr"
	"github.com/drydock-dev/drydock/internal/service/eks/autonodes"
	"github.com/drydock-dev/drydock/internal/service/eks/base"
	"github.com/drydock-dev/drydock/internal/service/eks/ekserr"
	"github.com/drydock-dev/drydock/internal/service/eks/record"
	"github.com/drydock-dev/drydock/internal/store"
)

// autoMode are the switches of EKS Auto Mode in a request. A nil switch is missing.
type autoMode struct {
	compute      *ekstypes.ComputeConfigRequest
	storage      *ekstypes.StorageConfigRequest
	loadBalancer *ekstypes.KubernetesNetworkConfigRequest
}

// requestedAutoMode validates the switches of EKS Auto Mode as EKS does, and returns what they ask for. It returns nil
// if there are none.
// https://docs.aws.amazon.com/eks/latest/userguide/auto-enable-existing.html
func (s *Service) requestedAutoMode(ctx context.Context, call *awsapi.Call, cluster string, a autoMode) (*record.AutoMode, error) {
	var on []bool
	if a.compute != nil {
		on = append(on, aws.ToBool(a.compute.Enabled))
		if aws.ToString(a.compute.NodeRoleArn) != "" && len(a.compute.NodePools) == 0 {
			return nil, errNodePoolsRequired(cluster)
		}
	}
	if a.loadBalancer != nil && a.loadBalancer.ElasticLoadBalancing != nil {
		on = append(on, aws.ToBool(a.loadBalancer.ElasticLoadBalancing.Enabled))
	}
	if a.storage != nil && a.storage.BlockStorage != nil {
		on = append(on, aws.ToBool(a.storage.BlockStorage.Enabled))
	}
	enabled := slices.Contains(on, true)
	switch {
	case enabled && (len(on) < 3 || slices.Contains(on, false)):
		return nil, errAutoModePartly(cluster)
	case len(on) == 0:
		return nil, nil
	case !enabled && a.compute != nil && len(a.compute.NodePools) > 0:
		return nil, errNodePoolsWithoutAutoMode(cluster)
	case !enabled:
		return &record.AutoMode{}, nil
	case s.AutoNodes == nil:
		return nil, awserr.NotImplemented("EKS Auto Mode (computeConfig.enabled)")
	}
	for _, p := range a.compute.NodePools {
		if p != "general-purpose" && p != "system" {
			return nil, errNodePool(cluster, p)
		}
	}
	out := &record.AutoMode{Enabled: true, NodePools: slices.Compact(slices.Sorted(slices.Values(a.compute.NodePools)))}
	if len(out.NodePools) == 0 {
		return out, nil
	}
	if aws.ToString(a.compute.NodeRoleArn) == "" {
		return nil, errNodeRoleRequired(cluster)
	}
	id, err := s.Role(ctx, call.Account, "nodeRoleArn", a.compute.NodeRoleArn, func(role string) error { return errRoleARN(cluster, role) })
	if errors.Is(err, base.ErrNoIdentity) || err == nil && !slices.Contains(id.TrustedServices, "ec2.amazonaws.com") {
		return nil, errNodeRole(cluster, *a.compute.NodeRoleArn)
	}
	out.NodeRole = record.Identity{ARN: id.ARN, ID: id.ID}
	return out, err
}

// autoModeChange checks a change of the switches of EKS Auto Mode.
func (s *Service) autoModeChange(ctx context.Context, rec record.Cluster, in *awseks.UpdateClusterConfigInput) (*record.Update, error) {
	if n := in.KubernetesNetworkConfig; n != nil && (n.ServiceIpv4Cidr != nil || n.IpFamily != "") {
		return nil, errNetworkConfigFixed(rec.Name())
	}
	to, err := s.requestedAutoMode(ctx, awsapi.CallFrom(ctx), rec.Name(), autoMode{in.ComputeConfig, in.StorageConfig, in.KubernetesNetworkConfig})
	switch {
	case err != nil:
		return nil, err
	case to == nil:
		to = &record.AutoMode{}
	case to.Enabled && !rec.UsesAPI():
		return nil, errAutoModeAuthentication(rec.Name())
	}
	up := s.NewUpdate(ekstypes.UpdateTypeAutoModeUpdate)
	up.AutoMode = to
	if in.ComputeConfig != nil {
		param := map[string]any{"enabled": to.Enabled}
		if to.Enabled {
			param["nodePools"], param["nodeRoleArn"] = append([]string{}, to.NodePools...), to.NodeRole.ARN
		}
		base.Note(up, ekstypes.UpdateParamTypeComputeConfig, new(base.JSON(param)))
	}
	enabled := map[string]bool{"enabled": to.Enabled}
	if in.KubernetesNetworkConfig != nil {
		base.Note(up, ekstypes.UpdateParamTypeKubernetesNetworkConfig, new(base.JSON(map[string]any{"elasticLoadBalancing": enabled})))
	}
	if in.StorageConfig != nil {
		base.Note(up, ekstypes.UpdateParamTypeStorageConfig, new(base.JSON(map[string]any{"blockStorage": enabled})))
	}
	return up, nil
}

// applyAutoMode starts or ends EKS Auto Mode on a cluster. When it ends, its nodes end at once.
// https://docs.aws.amazon.com/eks/latest/userguide/auto-disable.html
func (s *Service) applyAutoMode(ctx context.Context, key store.Key, rec record.Cluster, to *record.AutoMode) error {
	if to.Enabled {
		return nil // the controllers start when the record says so, see followAutoMode
	}
	if !autonodes.Enabled(&rec.Cluster) {
		return nil
	}
	s.ControlPlanes.SetAutoMode(rec.Plane.ID, nil)
	return s.endAutoNodes(ctx, key, rec)
}

// autoNodesWait is how long one reconciliation waits for the nodes of EKS Auto Mode to end.
const autoNodesWait = 30 * time.Second

// endAutoNodes terminates the nodes of EKS Auto Mode and removes their objects, whose finalizers nothing serves any more.
func (s *Service) endAutoNodes(ctx context.Context, key store.Key, rec record.Cluster) error {
	if err := s.terminateAutoNodes(ctx, key); err != nil {
		return err
	}
	ses, err := s.Sessions.Open(key, rec.Plane.ID)
	if err != nil {
		return err
	}
	if err := s.auto.RemoveObjects(ctx, ses); err != nil {
		return err
	}
	if err := s.balancers.Disable(ctx, key, &rec, ses); err != nil {
		return err
	}
	if err := s.storage.Disable(ctx, key, ses); err != nil {
		return err
	}
	return s.auto.CleanUp(ctx, key, &rec)
}

// terminateAutoNodes terminates the nodes of EKS Auto Mode and returns when all are gone.
func (s *Service) terminateAutoNodes(ctx context.Context, key store.Key) error {
	for end := s.Clock.Now().Add(autoNodesWait); ; {
		left, err := s.auto.TerminateAll(ctx, key)
		switch {
		case err != nil:
			return fmt.Errorf("terminating the nodes of EKS Auto Mode: %w", err)
		case left == 0:
			return nil
		case s.Clock.Now().After(end):
			return fmt.Errorf("%d nodes of EKS Auto Mode are still terminating", left)
		}
		select {
		case <-s.Clock.After(50 * time.Millisecond):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// followAutoMode tells a cluster's control plane the setting of EKS Auto Mode, which it does not keep, and starts to follow its load
// balancers and volumes.
func (s *Service) followAutoMode(key store.Key, rec record.Cluster) {
	s.ControlPlanes.SetAutoMode(rec.Plane.ID, autonodes.Setting(key.Region, &rec))
	if autonodes.Enabled(&rec.Cluster) {
		s.balancers.Follow(key, rec.Plane.ID)
		s.storage.Follow(key, rec.Plane.ID)
	}
}

// admitAutoNodes lets nodes with the role of the built-in node pools in.
// https://docs.aws.amazon.com/eks/latest/userguide/create-node-class.html#auto-node-access-entry
func (s *Service) admitAutoNodes(tx *store.Tx, key store.Key, to *record.AutoMode) error {
	if !to.Enabled || to.NodeRole.ARN == "" {
		return nil
	}
	return s.access.AdmitAutoNodes(tx, key, to.NodeRole)
}

// [seen] kubernetes-sigs/cluster-api-provider-aws#5278
func errAutoModePartly(cluster string) error {
	return ekserr.InvalidParameter(cluster, "For EKS Auto Mode, please ensure that all required configs, including computeConfig, kubernetesNetworkConfig, and blockStorage are all either fully enabled or fully disabled.")
}

// [seen] in Terraform's output
func errNodePoolsRequired(cluster string) error {
	return ekserr.InvalidParameter(cluster, "When Compute Config nodeRoleArn is not null or empty, nodePool value(s) must be provided.")
}

// [seen] hashicorp/terraform-provider-aws#40483
func errAutoModeAddons(cluster string) error {
	return ekserr.InvalidParameter(cluster, "When EKS Auto Mode is enabled, bootstrapSelfManagedAddons must be set to false.")
}

// [seen] badmintoncryer/cdk-preflight, rules/eks/pf-eks-cluster-automode-requires-api-auth
func errAutoModeAuthentication(cluster string) error {
	return ekserr.InvalidParameter(cluster, "When EKS Auto Mode is enabled, you must use an EKS access config authentication mode of API_AND_CONFIG_MAP or API")
}

// [seen] badmintoncryer/cdk-preflight, rules/eks/pf-eks-cluster-automode-nodepools-need-noderole
func errNodeRoleRequired(cluster string) error {
	return ekserr.InvalidParameter(cluster, "When Compute Config nodeRoleArn is null or empty, nodePool list cannot be populated.")
}

// from memory
func errNodePoolsWithoutAutoMode(cluster string) error {
	return ekserr.InvalidParameter(cluster, "When Compute Config is disabled, nodePools must be empty.")
}

// from memory
func errNodePool(cluster, pool string) error {
	return ekserr.InvalidParameter(cluster, "Invalid node pool: %s. Valid values are %s.", pool, strings.Join([]string{"general-purpose", "system"}, ", "))
}

// from memory
func errNodeRole(cluster, role string) error {
	return ekserr.InvalidParameter(cluster, "The role %s does not exist or does not allow ec2.amazonaws.com to assume it.", role)
}

// from memory
func errNetworkConfigFixed(cluster string) error {
	return ekserr.InvalidParameter(cluster, "The serviceIpv4Cidr and the ipFamily of a cluster cannot be updated.")
}
