package karpenter

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/awslabs/operatorpkg/status"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"
	"sigs.k8s.io/karpenter/pkg/cloudprovider"
	"sigs.k8s.io/karpenter/pkg/scheduling"
	"sigs.k8s.io/karpenter/pkg/utils/resources"

	"github.com/drydock-dev/drydock/internal/automode"
	"github.com/drydock-dev/drydock/internal/catalog/images"
)

const (
	// exhaustedFor is how long a pool without capacity is not tried again. Karpenter's AWS provider waits as long.
	exhaustedFor = 3 * time.Minute
	// launchOptions is how many pools one launch may use.
	launchOptions = 60
)

// A provider launches and terminates nodes through EKS. It implements cloudprovider.CloudProvider.
type provider struct {
	cfg    Config
	client client.Client

	mu        sync.Mutex
	exhausted map[pool]time.Time // until when
}

var _ cloudprovider.CloudProvider = (*provider)(nil)

func newProvider(cfg Config, c client.Client) *provider {
	return &provider{cfg: cfg, client: c, exhausted: map[pool]time.Time{}}
}

// Name implements cloudprovider.CloudProvider.
func (p *provider) Name() string { return "eks" }

// GetSupportedNodeClasses implements cloudprovider.CloudProvider. Karpenter reads into what it returns.
func (p *provider) GetSupportedNodeClasses() []status.Object {
	return []status.Object{&NodeClass{TypeMeta: metav1.TypeMeta{APIVersion: groupVersion.String(), Kind: "NodeClass"}}}
}

// RepairPolicies implements cloudprovider.CloudProvider.
// https://docs.aws.amazon.com/eks/latest/userguide/node-health.html
func (p *provider) RepairPolicies() []cloudprovider.RepairPolicy {
	out := []cloudprovider.RepairPolicy{
		{ConditionType: corev1.NodeReady, ConditionStatus: corev1.ConditionFalse, TolerationDuration: 30 * time.Minute},
		{ConditionType: corev1.NodeReady, ConditionStatus: corev1.ConditionUnknown, TolerationDuration: 30 * time.Minute},
	}
	for _, t := range []corev1.NodeConditionType{"KernelReady", "NetworkingReady", "StorageReady", "ContainerRuntimeReady"} {
		out = append(out, cloudprovider.RepairPolicy{ConditionType: t, ConditionStatus: corev1.ConditionFalse, TolerationDuration: 30 * time.Minute})
	}
	return append(out, cloudprovider.RepairPolicy{ConditionType: "AcceleratedHardwareReady", ConditionStatus: corev1.ConditionFalse, TolerationDuration: 10 * time.Minute})
}

// GetInstanceTypes implements cloudprovider.CloudProvider.
func (p *provider) GetInstanceTypes(ctx context.Context, np *karpv1.NodePool) ([]*cloudprovider.InstanceType, error) {
	nc, err := p.nodeClass(ctx, np.Spec.Template.Spec.NodeClassRef.Name)
	if err != nil {
		return nil, err
	}
	return p.instanceTypes(nc), nil
}

func (p *provider) instanceTypes(nc *NodeClass) []*cloudprovider.InstanceType {
	var out []*cloudprovider.InstanceType
	for _, k := range kinds() {
		out = append(out, k.instanceType(p.cfg.Setting.Region, nc, p.isExhausted))
	}
	return out
}

func (p *provider) isExhausted(of pool) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	until, ok := p.exhausted[of]
	if ok && time.Now().After(until) {
		delete(p.exhausted, of)
		ok = false
	}
	return ok
}

func (p *provider) exhaust(pools []automode.Option, spot bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, o := range pools {
		p.exhausted[pool{o.Type, o.Zone, spot}] = time.Now().Add(exhaustedFor)
	}
}

func (p *provider) nodeClass(ctx context.Context, name string) (*NodeClass, error) {
	nc := &NodeClass{}
	if err := p.client.Get(ctx, types.NamespacedName{Name: name}, nc); err != nil {
		return nil, err
	}
	if nc.DeletionTimestamp != nil {
		return nil, apierrors.NewNotFound(groupVersion.WithResource("nodeclasses").GroupResource(), name)
	}
	return nc, nil
}

// Create implements cloudprovider.CloudProvider.
func (p *provider) Create(ctx context.Context, claim *karpv1.NodeClaim) (*karpv1.NodeClaim, error) {
	nc, err := p.nodeClass(ctx, claim.Spec.NodeClassRef.Name)
	switch {
	case apierrors.IsNotFound(err):
		return nil, cloudprovider.NewInsufficientCapacityError(fmt.Errorf("resolving node class, %w", err))
	case err != nil:
		return nil, err
	}
	if ready := nc.StatusConditions().Get(status.ConditionReady); !ready.IsTrue() {
		return nil, cloudprovider.NewNodeClassNotReadyError(errors.New(ready.Message))
	}
	launch, err := p.plan(nc, claim)
	if err != nil {
		return nil, err
	}
	answer, err := p.cfg.EKS(ctx, automode.Call{Launch: launch})
	if err != nil {
		return nil, err
	}
	p.exhaust(answer.Exhausted, launch.Spot)
	switch answer.Failed {
	case "":
	case automode.NoCapacity:
		return nil, cloudprovider.NewInsufficientCapacityError(errors.New(answer.Problem.Message))
	default:
		return nil, cloudprovider.NewCreateError(errors.New(answer.Problem.Message), answer.Problem.Reason, answer.Problem.Message)
	}
	out := p.claimOf(*answer.Instance, nc)
	out.Annotations = map[string]string{annotationHash: nc.hash(), annotationHashVersion: hashVersion}
	return out, nil
}

// plan chooses the pools for a node: those that its requirements allow and that fit its pods, the cheapest first. They
// have one architecture, because an image has, and one capacity type.
func (p *provider) plan(nc *NodeClass, claim *karpv1.NodeClaim) (*automode.Launch, error) {
	requirements := scheduling.NewNodeSelectorRequirementsWithMinValues(claim.Spec.Requirements...)
	type choice struct {
		it    *cloudprovider.InstanceType
		zone  string
		spot  bool
		price float64
	}
	var choices []choice
	for _, it := range p.instanceTypes(nc) {
		if requirements.Compatible(it.Requirements, scheduling.AllowUndefinedWellKnownLabels) != nil || !resources.Fits(claim.Spec.Resources.Requests, it.Allocatable()) {
			continue
		}
		for _, o := range it.Offerings.Available().Compatible(requirements) {
			choices = append(choices, choice{it, o.Zone(), o.CapacityType() == karpv1.CapacityTypeSpot, o.Price})
		}
	}
	if len(choices) == 0 {
		return nil, cloudprovider.NewInsufficientCapacityError(errors.New("all requested instance types were unavailable during launch"))
	}
	slices.SortFunc(choices, func(a, b choice) int {
		return cmp.Or(cmp.Compare(a.price, b.price), strings.Compare(a.it.Name, b.it.Name), strings.Compare(a.zone, b.zone))
	})
	spot := slices.ContainsFunc(choices, func(c choice) bool { return c.spot }) // Spot first, as Karpenter does
	choices = slices.DeleteFunc(choices, func(c choice) bool { return c.spot != spot })
	arch := kinds()[choices[0].it.Name].arch
	out := &automode.Launch{
		NodeClass: *nc.asked(), NodePool: claim.Labels[karpv1.NodePoolLabelKey], NodeClaim: claim.Name, Token: string(claim.UID), Arch: arch, Spot: spot, MaxPods: maxPods,
		Resolved: automode.Resolved{Subnets: nc.Status.Subnets, SecurityGroups: nc.Status.SecurityGroups, InstanceProfile: nc.Status.InstanceProfile},
		Labels:   nodeLabels(claim, nc),
	}
	for _, t := range append(append([]corev1.Taint{karpv1.UnregisteredNoExecuteTaint}, claim.Spec.Taints...), claim.Spec.StartupTaints...) {
		out.Taints = append(out.Taints, automode.Taint{Key: t.Key, Value: t.Value, Effect: string(t.Effect)})
	}
	for _, c := range choices {
		i := slices.IndexFunc(nc.Status.Subnets, func(s automode.Subnet) bool { return s.Zone == c.zone })
		if kinds()[c.it.Name].arch == arch && i >= 0 && len(out.Options) < launchOptions {
			out.Options = append(out.Options, automode.Option{Type: c.it.Name, Subnet: nc.Status.Subnets[i].ID, Zone: c.zone})
		}
	}
	return out, nil
}

// nodeLabels are the labels with which a node registers. Karpenter adds those of the NodeClaim.
func nodeLabels(claim *karpv1.NodeClaim, nc *NodeClass) map[string]string {
	return map[string]string{
		labelCompute: "auto", labelNodeClass: nc.Name, karpv1.NodePoolLabelKey: claim.Labels[karpv1.NodePoolLabelKey],
		karpv1.NodeDoNotSyncTaintsLabelKey: "true",
	}
}

// Delete implements cloudprovider.CloudProvider.
func (p *provider) Delete(ctx context.Context, claim *karpv1.NodeClaim) error {
	answer, err := p.cfg.EKS(ctx, automode.Call{Terminate: instanceID(claim.Status.ProviderID)})
	return failure(answer, err)
}

// Get implements cloudprovider.CloudProvider.
func (p *provider) Get(ctx context.Context, providerID string) (*karpv1.NodeClaim, error) {
	answer, err := p.cfg.EKS(ctx, automode.Call{Get: instanceID(providerID)})
	if err := failure(answer, err); err != nil {
		return nil, err
	}
	nc, err := p.nodeClass(ctx, answer.Instance.NodeClass)
	if client.IgnoreNotFound(err) != nil {
		return nil, err
	}
	return p.claimOf(*answer.Instance, nc), nil
}

// List implements cloudprovider.CloudProvider.
func (p *provider) List(ctx context.Context) ([]*karpv1.NodeClaim, error) {
	answer, err := p.cfg.EKS(ctx, automode.Call{List: true})
	if err := failure(answer, err); err != nil {
		return nil, err
	}
	var out []*karpv1.NodeClaim
	for _, i := range answer.Instances {
		nc, err := p.nodeClass(ctx, i.NodeClass)
		if client.IgnoreNotFound(err) != nil {
			return nil, err
		}
		out = append(out, p.claimOf(i, nc))
	}
	return out, nil
}

// stillEnabled returns an error if EKS Auto Mode has been disabled. EKS then removes objects while the controllers are
// stopping, and they must not create them again.
func (p *provider) stillEnabled(ctx context.Context) error {
	answer, err := p.cfg.EKS(ctx, automode.Call{Enabled: true})
	return failure(answer, err)
}

func failure(answer automode.Answer, err error) error {
	switch {
	case err != nil:
		return err
	case answer.Failed == automode.NotFound:
		return cloudprovider.NewNodeClaimNotFoundError(errors.New(answer.Problem.Message))
	case answer.Failed != "":
		return errors.New(answer.Problem.Message)
	}
	return nil
}

// claimOf returns a launched instance as a NodeClaim. nc may be nil.
func (p *provider) claimOf(i automode.Instance, nc *NodeClass) *karpv1.NodeClaim {
	out := &karpv1.NodeClaim{ObjectMeta: metav1.ObjectMeta{
		CreationTimestamp: metav1.NewTime(i.Launched),
		Labels: map[string]string{
			corev1.LabelInstanceTypeStable: i.Type, corev1.LabelTopologyZone: i.Zone, corev1.LabelTopologyRegion: p.cfg.Setting.Region, labelZoneID: i.ZoneID,
			karpv1.CapacityTypeLabelKey: karpv1.CapacityTypeOnDemand, corev1.LabelOSStable: string(corev1.Linux),
			labelCompute: "auto", labelManagedBy: "eks", "topology.ebs.csi.eks.amazonaws.com/zone": i.Zone,
		},
	}}
	if i.Spot {
		out.Labels[karpv1.CapacityTypeLabelKey] = karpv1.CapacityTypeSpot
	}
	if i.NodePool != "" {
		out.Labels[karpv1.NodePoolLabelKey] = i.NodePool
	}
	out.Status.ProviderID, out.Status.ImageID = "aws:///"+i.Zone+"/"+i.ID, i.Image
	if i.State == "shutting-down" || i.State == "terminated" {
		now := metav1.Now()
		out.DeletionTimestamp = &now
	}
	k := kinds()[i.Type]
	if k == nil || nc == nil {
		return out
	}
	out.Labels[corev1.LabelArchStable], out.Labels[labelNodeClass] = k.arch, nc.Name
	for l, v := range k.labels {
		if v != "" {
			out.Labels[group+"/instance-"+l] = v
		}
	}
	it := k.instanceType(p.cfg.Setting.Region, nc, func(pool) bool { return false })
	out.Status.Capacity, out.Status.Allocatable = it.Capacity, it.Allocatable()
	return out
}

// The reasons of drift that EKS Auto Mode has in common with Karpenter's AWS provider.
const (
	driftImage          cloudprovider.DriftReason = "AMIDrift"
	driftNodeClass      cloudprovider.DriftReason = "NodeClassDrift"
	driftSubnet         cloudprovider.DriftReason = "SubnetDrift"
	driftSecurityGroups cloudprovider.DriftReason = "SecurityGroupDrift"
)

// IsDrifted implements cloudprovider.CloudProvider.
func (p *provider) IsDrifted(ctx context.Context, claim *karpv1.NodeClaim) (cloudprovider.DriftReason, error) {
	nc, err := p.nodeClass(ctx, claim.Spec.NodeClassRef.Name)
	if err != nil {
		return "", client.IgnoreNotFound(err)
	}
	if claim.Annotations[annotationHashVersion] == hashVersion && claim.Annotations[annotationHash] != nc.hash() {
		return driftNodeClass, nil
	}
	answer, err := p.cfg.EKS(ctx, automode.Call{Get: instanceID(claim.Status.ProviderID)})
	if err := failure(answer, err); err != nil {
		return "", cloudprovider.IgnoreNodeClaimNotFoundError(err)
	}
	i := answer.Instance
	arch := map[string]string{karpv1.ArchitectureAmd64: "x86_64", karpv1.ArchitectureArm64: "arm64"}[claim.Labels[corev1.LabelArchStable]]
	if img, ok := images.EKS(p.cfg.Setting.Region, images.Bottlerocket, p.cfg.Setting.Version, arch, ""); ok && i.Image != img.ID {
		return driftImage, nil
	}
	if !slices.ContainsFunc(nc.Status.Subnets, func(s automode.Subnet) bool { return s.ID == i.Subnet }) {
		return driftSubnet, nil
	}
	var groups []string
	for _, g := range nc.Status.SecurityGroups {
		groups = append(groups, g.ID)
	}
	slices.Sort(groups)
	if len(groups) > 0 && !slices.Equal(groups, slices.Sorted(slices.Values(i.SecurityGroups))) {
		return driftSecurityGroups, nil
	}
	return "", nil
}

// instanceID returns the instance of a provider ID such as aws:///us-east-1a/i-0123456789abcdef0.
func instanceID(providerID string) string {
	return providerID[strings.LastIndexByte(providerID, '/')+1:]
}
