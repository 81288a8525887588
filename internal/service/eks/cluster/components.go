package cluster

import (
	"cmp"
	"context"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	ekstypes "github.com/aws/aws-sdk-go-v2/service/eks/types"

	"github.com/drydock-dev/drydock/internal/service/eks/base"
	"github.com/drydock-dev/drydock/internal/service/eks/ekserr"
	"github.com/drydock-dev/drydock/internal/service/eks/plane"
	"github.com/drydock-dev/drydock/internal/service/eks/record"
)

// The settings of a control plane's components that users can change. Their ranges and defaults are the same for all versions:
// https://docs.aws.amazon.com/eks/latest/userguide/control-plane-configuration.html
const (
	minEventTTL, maxEventTTL     = 10 * time.Minute, 60 * time.Minute
	minHPAPeriod, maxHPAPeriod   = 10 * time.Second, 15 * time.Second
	minNodePort, maxNodePort     = 10260, 32767
	firstNodePort, lastNodePort  = 30000, 32767
	minWeight, maxWeight         = 1, 100
	terminatedPods               = 12500 // Kubernetes' default
	defaultEventTTL, defaultSync = "60m", "15s"
)

var scoredResources = []string{"cpu", "memory", "nvidia.com/gpu", "aws.amazon.com/neuron", "aws.amazon.com/neuroncore"}

func defaultStrategy() *ekstypes.ScoringStrategy {
	return &ekstypes.ScoringStrategy{Type: ekstypes.ScoringStrategyTypeLeastAllocated, Resources: []ekstypes.ResourceWeight{
		{Name: new("cpu"), Weight: new(int32(1))}, {Name: new("memory"), Weight: new(int32(1))},
	}}
}

func defaultPorts() *ekstypes.ServiceNodePortRange {
	return &ekstypes.ServiceNodePortRange{MinPort: firstNodePort, MaxPort: lastNodePort}
}

// completeComponents fills in the settings that a cluster's description lacks. EKS always shows all of them, [seen] in recorded
// outputs of describe-cluster.
func completeComponents(c *ekstypes.Cluster) {
	api := ekstypes.KubeApiServerConfigResponse{}
	if c.KubeApiServerConfig != nil {
		api = *c.KubeApiServerConfig
	}
	if api.EventTtl == nil {
		api.EventTtl = new(defaultEventTTL)
	}
	if api.ServiceNodePortRange == nil {
		api.ServiceNodePortRange = defaultPorts()
	}
	manager := ekstypes.KubeControllerManagerConfigResponse{}
	if c.KubeControllerManagerConfig != nil {
		manager = *c.KubeControllerManagerConfig
	}
	if h := manager.HorizontalPodAutoscalerControllerConfig; h == nil || h.HorizontalPodAutoscalerSyncPeriod == nil {
		manager.HorizontalPodAutoscalerControllerConfig = &ekstypes.HorizontalPodAutoscalerControllerConfigResponse{HorizontalPodAutoscalerSyncPeriod: new(defaultSync)}
	}
	if manager.PodGcControllerConfig == nil {
		manager.PodGcControllerConfig = &ekstypes.PodGcControllerConfigResponse{TerminatedPodGcThreshold: new(int32(terminatedPods))}
	}
	c.KubeApiServerConfig, c.KubeControllerManagerConfig = &api, &manager
	strategy := defaultStrategy()
	if s := c.KubeSchedulerConfig; s != nil && s.NodeResourcesFit != nil && s.NodeResourcesFit.ScoringStrategy != nil {
		given := s.NodeResourcesFit.ScoringStrategy
		strategy.Type = cmp.Or(given.Type, strategy.Type)
		if len(given.Resources) > 0 {
			strategy.Resources = given.Resources
		}
	}
	c.KubeSchedulerConfig = &ekstypes.KubeSchedulerConfigResponse{NodeResourcesFit: &ekstypes.NodeResourcesFitConfig{ScoringStrategy: strategy}}
}

// A componentsRequest is what a request says about the components.
type componentsRequest struct {
	api       *ekstypes.KubeApiServerConfigRequest
	manager   *ekstypes.KubeControllerManagerConfigRequest
	scheduler *ekstypes.KubeSchedulerConfigRequest
}

func (r componentsRequest) given() bool {
	return r.api != nil || r.manager != nil || r.scheduler != nil
}

// setComponents changes the settings in a cluster's description as a request says. What the request leaves out stays.
func setComponents(c *ekstypes.Cluster, in componentsRequest) error {
	completeComponents(c)
	if in.api != nil {
		c.KubeApiServerConfig.EventTtl = cmp.Or(in.api.EventTtl, c.KubeApiServerConfig.EventTtl)
		c.KubeApiServerConfig.ServiceNodePortRange = cmp.Or(in.api.ServiceNodePortRange, c.KubeApiServerConfig.ServiceNodePortRange)
	}
	var period *string
	if in.manager != nil && in.manager.HorizontalPodAutoscalerControllerConfig != nil {
		period = in.manager.HorizontalPodAutoscalerControllerConfig.HorizontalPodAutoscalerSyncPeriod
	}
	if period != nil {
		c.KubeControllerManagerConfig.HorizontalPodAutoscalerControllerConfig = &ekstypes.HorizontalPodAutoscalerControllerConfigResponse{HorizontalPodAutoscalerSyncPeriod: period}
	}
	if in.scheduler != nil && in.scheduler.NodeResourcesFit != nil && in.scheduler.NodeResourcesFit.ScoringStrategy != nil {
		to, strategy := in.scheduler.NodeResourcesFit.ScoringStrategy, c.KubeSchedulerConfig.NodeResourcesFit.ScoringStrategy
		strategy.Type = cmp.Or(to.Type, strategy.Type)
		if to.Resources != nil {
			strategy.Resources = to.Resources
		}
	}
	if err := checkComponents(*c); err != nil {
		return err
	}
	if period != nil && !provisioned(c.ControlPlaneScalingConfig) {
		return errPeriodNeedsTier(aws.ToString(c.Name))
	}
	return nil
}

// CheckComponents returns an error if EKS would not accept these settings of a cluster. Some of them may be missing.
func CheckComponents(c ekstypes.Cluster) error {
	completeComponents(&c)
	return checkComponents(c)
}

func checkComponents(c ekstypes.Cluster) error {
	cluster := aws.ToString(c.Name)
	ttl := *c.KubeApiServerConfig.EventTtl
	if d, ok := singleUnit(ttl); !ok || d < minEventTTL || d > maxEventTTL {
		return errComponentDuration(cluster, "eventTtl", ttl, "10m", "60m")
	}
	if r := c.KubeApiServerConfig.ServiceNodePortRange; r.MinPort < minNodePort || r.MaxPort > maxNodePort || r.MinPort > r.MaxPort {
		return errNodePorts(cluster, r)
	}
	period := *c.KubeControllerManagerConfig.HorizontalPodAutoscalerControllerConfig.HorizontalPodAutoscalerSyncPeriod
	if d, ok := singleUnit(period); !ok || d < minHPAPeriod || d > maxHPAPeriod {
		return errComponentDuration(cluster, "horizontalPodAutoscalerSyncPeriod", period, "10s", "15s")
	}
	strategy := c.KubeSchedulerConfig.NodeResourcesFit.ScoringStrategy
	if !slices.Contains(strategy.Type.Values(), strategy.Type) {
		return errScoringStrategy(cluster, strategy.Type)
	}
	return checkWeights(cluster, strategy.Resources)
}

func checkWeights(cluster string, resources []ekstypes.ResourceWeight) error {
	seen := map[string]bool{}
	for _, r := range resources {
		name, weight := aws.ToString(r.Name), aws.ToInt32(r.Weight)
		if !slices.Contains(scoredResources, name) || seen[name] {
			return errScoredResource(cluster, name)
		}
		if weight < minWeight || weight > maxWeight {
			return errWeight(cluster, name, weight)
		}
		seen[name] = true
	}
	if len(resources) == 0 {
		return errScoredResource(cluster, "")
	}
	return nil
}

var singleUnitPattern = regexp.MustCompile(`^[0-9]{1,6}[smh]$`)

// singleUnit parses a duration such as 30m or 1h.
func singleUnit(s string) (time.Duration, bool) {
	if !singleUnitPattern.MatchString(s) {
		return 0, false
	}
	d, err := time.ParseDuration(s)
	return d, err == nil
}

// provisioned reports whether a control plane has a tier of its own.
// https://docs.aws.amazon.com/eks/latest/userguide/eks-provisioned-control-plane.html
func provisioned(c *ekstypes.ControlPlaneScalingConfig) bool {
	return c != nil && c.Tier != "" && c.Tier != ekstypes.ProvisionedControlPlaneTierStandard
}

// settingsOf returns the settings of a cluster's control plane. Those that are Kubernetes' defaults are left out.
func settingsOf(c ekstypes.Cluster) (out plane.Settings) {
	completeComponents(&c)
	if ttl := *c.KubeApiServerConfig.EventTtl; ttl != defaultEventTTL {
		out.EventTTL = ttl
	}
	if r := c.KubeApiServerConfig.ServiceNodePortRange; r.MinPort != firstNodePort || r.MaxPort != lastNodePort {
		out.NodePorts = fmt.Sprintf("%d-%d", r.MinPort, r.MaxPort)
	}
	if period := *c.KubeControllerManagerConfig.HorizontalPodAutoscalerControllerConfig.HorizontalPodAutoscalerSyncPeriod; period != defaultSync {
		out.HPASyncPeriod = period
	}
	strategy := c.KubeSchedulerConfig.NodeResourcesFit.ScoringStrategy
	if strategy.Type != ekstypes.ScoringStrategyTypeLeastAllocated || weights(strategy) != weights(defaultStrategy()) {
		out.Scoring, out.Weights = string(strategy.Type), weights(strategy)
	}
	return out
}

// weights returns the weights of a strategy, such as cpu=1,memory=1.
func weights(s *ekstypes.ScoringStrategy) string {
	var out []string
	for _, r := range s.Resources {
		out = append(out, aws.ToString(r.Name)+"="+strconv.Itoa(int(aws.ToInt32(r.Weight))))
	}
	return strings.Join(out, ",")
}

// componentsChange checks a change of the settings.
func (s *Service) componentsChange(rec record.Cluster, in componentsRequest) (*record.Update, error) {
	before, after := rec.Cluster, rec.Cluster
	completeComponents(&before)
	if err := setComponents(&after, in); err != nil {
		return nil, err
	}
	to := componentsOf(after)
	if base.JSON(to) == base.JSON(componentsOf(before)) {
		return nil, errNoChanges(rec.Name())
	}
	up := s.NewUpdate(ekstypes.UpdateTypeControlPlaneComponentConfigUpdate)
	up.Components = to
	if in.api != nil {
		param := map[string]any{}
		if in.api.EventTtl != nil {
			param["eventTtl"] = *in.api.EventTtl
		}
		if r := in.api.ServiceNodePortRange; r != nil {
			param["serviceNodePortRange"] = map[string]int32{"minPort": r.MinPort, "maxPort": r.MaxPort}
		}
		base.Note(up, ekstypes.UpdateParamTypeKubeApiServerConfig, new(base.JSON(param)))
	}
	if in.scheduler != nil {
		strategy := map[string]any{}
		if fit := in.scheduler.NodeResourcesFit; fit != nil && fit.ScoringStrategy != nil {
			if fit.ScoringStrategy.Type != "" {
				strategy["type"] = fit.ScoringStrategy.Type
			}
			for _, r := range fit.ScoringStrategy.Resources {
				list, _ := strategy["resources"].([]any)
				strategy["resources"] = append(list, map[string]any{"name": aws.ToString(r.Name), "weight": aws.ToInt32(r.Weight)})
			}
		}
		base.Note(up, ekstypes.UpdateParamTypeKubeSchedulerConfig, new(base.JSON(map[string]any{"nodeResourcesFit": map[string]any{"scoringStrategy": strategy}})))
	}
	if in.manager != nil {
		hpa := map[string]string{}
		if h := in.manager.HorizontalPodAutoscalerControllerConfig; h != nil && h.HorizontalPodAutoscalerSyncPeriod != nil {
			hpa["horizontalPodAutoscalerSyncPeriod"] = *h.HorizontalPodAutoscalerSyncPeriod
		}
		base.Note(up, ekstypes.UpdateParamTypeKubeControllerManagerConfig, new(base.JSON(map[string]any{"horizontalPodAutoscalerControllerConfig": hpa})))
	}
	return up, nil
}

func componentsOf(c ekstypes.Cluster) *record.Components {
	return &record.Components{APIServer: c.KubeApiServerConfig, ControllerManager: c.KubeControllerManagerConfig, Scheduler: c.KubeSchedulerConfig}
}

// applyComponents changes the settings of a control plane, which is replaced while it serves.
func (s *Service) applyComponents(ctx context.Context, rec record.Cluster, to *record.Components) error {
	ctx, cancel := context.WithTimeout(ctx, upgradeWait)
	defer cancel()
	to.Commit(&rec.Cluster)
	return s.ControlPlanes.Configure(ctx, rec.Plane.ID, settingsOf(rec.Cluster))
}

// versionComponents returns the ranges and defaults of the settings.
func versionComponents() *ekstypes.ControlPlaneConfigInfo {
	ports := &ekstypes.IntegerRangeConstraint{Min: new(int32(minNodePort)), Max: new(int32(maxNodePort))}
	var types []string
	for _, t := range ekstypes.ScoringStrategyType("").Values() {
		types = append(types, string(t))
	}
	return &ekstypes.ControlPlaneConfigInfo{
		KubeApiServerConfig: &ekstypes.KubeApiServerVersionConfig{
			EventTtl:             &ekstypes.DurationParameterConfig{DefaultValue: new(defaultEventTTL), Constraints: &ekstypes.DurationConstraints{Min: new("10m"), Max: new("60m")}},
			ServiceNodePortRange: &ekstypes.PortRangeParameterConfig{DefaultValue: defaultPorts(), Constraints: &ekstypes.PortRangeConstraints{MinPort: ports, MaxPort: ports}},
		},
		KubeControllerManagerConfig: &ekstypes.KubeControllerManagerVersionConfig{HorizontalPodAutoscalerControllerConfig: &ekstypes.HorizontalPodAutoscalerControllerVersionConfig{
			HorizontalPodAutoscalerSyncPeriod: &ekstypes.DurationParameterConfig{DefaultValue: new(defaultSync), Constraints: &ekstypes.DurationConstraints{Min: new("10s"), Max: new("15s")}},
		}},
		KubeSchedulerConfig: &ekstypes.KubeSchedulerVersionConfig{NodeResourcesFit: &ekstypes.NodeResourcesFitVersionConfig{ScoringStrategy: &ekstypes.ScoringStrategyConfig{
			DefaultValue: defaultStrategy(), Constraints: &ekstypes.ScoringStrategyConstraints{
				ScoringStrategy: &ekstypes.AllowedValuesConstraint{AllowedValues: types},
				Resources: &ekstypes.ResourceConstraints{
					Name: &ekstypes.AllowedValuesConstraint{AllowedValues: scoredResources}, Weight: &ekstypes.IntegerRangeConstraint{Min: new(int32(minWeight)), Max: new(int32(maxWeight))},
				},
			},
		}}},
	}
}

// The rules are those of the user guide; the texts are from memory.
func errComponentDuration(cluster, member, value, least, most string) error {
	return ekserr.InvalidParameter(cluster, "Invalid %s: %s. It must be a duration with one unit between %s and %s", member, value, least, most)
}

func errNodePorts(cluster string, r *ekstypes.ServiceNodePortRange) error {
	return ekserr.InvalidParameter(cluster, "Invalid serviceNodePortRange: %d-%d. minPort and maxPort must be between %d and %d, and minPort must not be greater than maxPort", r.MinPort, r.MaxPort, minNodePort, maxNodePort)
}

func errPeriodNeedsTier(cluster string) error {
	return ekserr.InvalidParameter(cluster, "horizontalPodAutoscalerSyncPeriod requires a provisioned control plane scaling tier")
}

func errTierKept(cluster string) error {
	return ekserr.InvalidParameter(cluster, "The control plane scaling tier cannot be changed to standard while horizontalPodAutoscalerSyncPeriod is not %s", defaultSync)
}

func errScoringStrategy(cluster string, t ekstypes.ScoringStrategyType) error {
	return ekserr.InvalidParameter(cluster, "Invalid scoringStrategy type: %s. Valid values are LeastAllocated and MostAllocated", t)
}

func errScoredResource(cluster, name string) error {
	return ekserr.InvalidParameter(cluster, "Invalid or repeated scoringStrategy resource: %s. Valid values are %s", name, strings.Join(scoredResources, ", "))
}

func errWeight(cluster, name string, weight int32) error {
	return ekserr.InvalidParameter(cluster, "Invalid weight of scoringStrategy resource %s: %d. It must be between %d and %d", name, weight, minWeight, maxWeight)
}
