package eks_test

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	awseks "github.com/aws/aws-sdk-go-v2/service/eks"
	ekstypes "github.com/aws/aws-sdk-go-v2/service/eks/types"
	"github.com/google/go-cmp/cmp"

	"github.com/drydock-dev/drydock/internal/service/eks"
	"github.com/drydock-dev/drydock/internal/service/eks/load"
	"github.com/drydock-dev/drydock/internal/store"
	"github.com/drydock-dev/drydock/internal/testkit"
	"github.com/drydock-dev/drydock/internal/twin/recording"
)

func eventTTL(ttl string) *ekstypes.KubeApiServerConfigRequest {
	return &ekstypes.KubeApiServerConfigRequest{EventTtl: &ttl}
}

func nodePorts(from, to int32) *ekstypes.KubeApiServerConfigRequest {
	return &ekstypes.KubeApiServerConfigRequest{ServiceNodePortRange: &ekstypes.ServiceNodePortRange{MinPort: from, MaxPort: to}}
}

func syncPeriod(period string) *ekstypes.KubeControllerManagerConfigRequest {
	return &ekstypes.KubeControllerManagerConfigRequest{HorizontalPodAutoscalerControllerConfig: &ekstypes.HorizontalPodAutoscalerControllerConfigRequest{HorizontalPodAutoscalerSyncPeriod: &period}}
}

func scoring(t ekstypes.ScoringStrategyType, resources ...ekstypes.ResourceWeight) *ekstypes.KubeSchedulerConfigRequest {
	return &ekstypes.KubeSchedulerConfigRequest{NodeResourcesFit: &ekstypes.NodeResourcesFitConfig{ScoringStrategy: &ekstypes.ScoringStrategy{Type: t, Resources: resources}}}
}

func weight(name string, n int32) ekstypes.ResourceWeight {
	return ekstypes.ResourceWeight{Name: &name, Weight: &n}
}

// settings returns the settings of the only control plane.
func (w *world) settings() eks.PlaneSettings {
	pl, _ := w.planes.only()
	w.planes.mu.Lock()
	defer w.planes.mu.Unlock()
	return w.planes.settings[pl.ID]
}

// A cluster shows all settings of its control plane. Updates change those that they name, also after a crash.
func TestControlPlaneSettings(t *testing.T) {
	w := newWorld(t)
	in := w.createInput("dev")
	in.KubeApiServerConfig = eventTTL("10m")
	testkit.Must(w.client.CreateCluster(t.Context(), in))(t)
	c := w.waitCluster("dev", ekstypes.ClusterStatusActive)
	shown := func(c *ekstypes.Cluster) string {
		return asJSON([]any{c.KubeApiServerConfig, c.KubeControllerManagerConfig, c.KubeSchedulerConfig})
	}
	want := asJSON([]any{
		ekstypes.KubeApiServerConfigResponse{EventTtl: aws.String("10m"), ServiceNodePortRange: &ekstypes.ServiceNodePortRange{MinPort: 30000, MaxPort: 32767}},
		ekstypes.KubeControllerManagerConfigResponse{
			HorizontalPodAutoscalerControllerConfig: &ekstypes.HorizontalPodAutoscalerControllerConfigResponse{HorizontalPodAutoscalerSyncPeriod: aws.String("15s")},
			PodGcControllerConfig:                   &ekstypes.PodGcControllerConfigResponse{TerminatedPodGcThreshold: aws.Int32(12500)},
		},
		ekstypes.KubeSchedulerConfigResponse{NodeResourcesFit: &ekstypes.NodeResourcesFitConfig{ScoringStrategy: &ekstypes.ScoringStrategy{
			Type: ekstypes.ScoringStrategyTypeLeastAllocated, Resources: []ekstypes.ResourceWeight{weight("cpu", 1), weight("memory", 1)},
		}}},
	})
	if diff := cmp.Diff(want, shown(c)); diff != "" {
		t.Errorf("settings of the new cluster (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(eks.PlaneSettings{EventTTL: "10m"}, w.settings()); diff != "" {
		t.Errorf("settings of the new control plane (-want +got):\n%s", diff)
	}

	up, err := w.update(&awseks.UpdateClusterConfigInput{KubeApiServerConfig: nodePorts(10260, 11000), KubeSchedulerConfig: scoring(ekstypes.ScoringStrategyTypeMostAllocated, weight("nvidia.com/gpu", 100), weight("cpu", 1))})
	if err != nil {
		t.Fatal(err)
	}
	params := map[ekstypes.UpdateParamType]string{}
	for _, p := range up.Params {
		params[p.Type] = *p.Value
	}
	if diff := cmp.Diff(map[ekstypes.UpdateParamType]string{
		ekstypes.UpdateParamTypeKubeApiServerConfig: `{"serviceNodePortRange":{"maxPort":11000,"minPort":10260}}`,
		ekstypes.UpdateParamTypeKubeSchedulerConfig: `{"nodeResourcesFit":{"scoringStrategy":{"resources":[{"name":"nvidia.com/gpu","weight":100},{"name":"cpu","weight":1}],"type":"MostAllocated"}}}`,
	}, params); diff != "" || up.Type != ekstypes.UpdateTypeControlPlaneComponentConfigUpdate {
		t.Errorf("update %s (-want +got):\n%s", up.Type, diff)
	}
	w.faults.mu.Lock()
	w.faults.rand, w.faults.left, w.faults.rate = rand.New(rand.NewPCG(3, 7)), 4, 0.6
	w.faults.mu.Unlock()
	w.restart()
	c = w.waitCluster("dev", ekstypes.ClusterStatusActive)
	w.faults.calm()
	if got := testkit.Must(w.client.DescribeUpdate(t.Context(), &awseks.DescribeUpdateInput{Name: aws.String("dev"), UpdateId: up.Id}))(t).Update; got.Status != ekstypes.UpdateStatusSuccessful {
		t.Errorf("update %s", asJSON(got))
	}
	if r := c.KubeApiServerConfig; *r.EventTtl != "10m" || *r.ServiceNodePortRange != (ekstypes.ServiceNodePortRange{MinPort: 10260, MaxPort: 11000}) {
		t.Errorf("settings %s", shown(c))
	}
	if diff := cmp.Diff(eks.PlaneSettings{EventTTL: "10m", NodePorts: "10260-11000", Scoring: "MostAllocated", Weights: "nvidia.com/gpu=100,cpu=1"}, w.settings()); diff != "" {
		t.Errorf("settings of the control plane (-want +got):\n%s", diff)
	}

	// One setting needs a tier, and the tier is kept as long as it is set.
	tier := func(to ekstypes.ProvisionedControlPlaneTier) *awseks.UpdateClusterConfigInput {
		return &awseks.UpdateClusterConfigInput{ControlPlaneScalingConfig: &ekstypes.ControlPlaneScalingConfig{Tier: to}}
	}
	_, err = w.update(&awseks.UpdateClusterConfigInput{KubeControllerManagerConfig: syncPeriod("10s")})
	wantError(t, err, "InvalidParameterException", "horizontalPodAutoscalerSyncPeriod requires a provisioned control plane scaling tier")
	w.mustUpdate(tier("tier-xl"))
	w.mustUpdate(&awseks.UpdateClusterConfigInput{KubeControllerManagerConfig: syncPeriod("10s")})
	if got := w.settings().HPASyncPeriod; got != "10s" {
		t.Errorf("sync period %q", got)
	}
	_, err = w.update(tier("standard"))
	wantError(t, err, "InvalidParameterException", "The control plane scaling tier cannot be changed to standard while horizontalPodAutoscalerSyncPeriod is not 15s")
	w.mustUpdate(&awseks.UpdateClusterConfigInput{KubeControllerManagerConfig: syncPeriod("15s")})
	w.mustUpdate(tier("standard"))

	// The defaults are set like all other values.
	w.mustUpdate(&awseks.UpdateClusterConfigInput{
		KubeApiServerConfig: &ekstypes.KubeApiServerConfigRequest{EventTtl: aws.String("60m"), ServiceNodePortRange: &ekstypes.ServiceNodePortRange{MinPort: 30000, MaxPort: 32767}},
		KubeSchedulerConfig: scoring(ekstypes.ScoringStrategyTypeLeastAllocated, weight("cpu", 1), weight("memory", 1)),
	})
	if got := w.settings(); got != (eks.PlaneSettings{}) {
		t.Errorf("settings of the control plane: %+v", got)
	}
}

func TestControlPlaneSettingsThatEKSRefuses(t *testing.T) {
	w := newWorld(t)
	w.cluster("dev", ekstypes.AuthenticationModeApi)
	for name, tt := range map[string]struct {
		in   awseks.UpdateClusterConfigInput
		want string
	}{
		"too short":         {awseks.UpdateClusterConfigInput{KubeApiServerConfig: eventTTL("9m")}, "Invalid eventTtl: 9m. It must be a duration with one unit between 10m and 60m"},
		"too long":          {awseks.UpdateClusterConfigInput{KubeApiServerConfig: eventTTL("2h")}, "Invalid eventTtl: 2h. It must be a duration with one unit between 10m and 60m"},
		"two units":         {awseks.UpdateClusterConfigInput{KubeApiServerConfig: eventTTL("10m30s")}, "Invalid eventTtl: 10m30s. It must be a duration with one unit between 10m and 60m"},
		"a low port":        {awseks.UpdateClusterConfigInput{KubeApiServerConfig: nodePorts(10259, 32767)}, "Invalid serviceNodePortRange: 10259-32767. minPort and maxPort must be between 10260 and 32767, and minPort must not be greater than maxPort"},
		"ports in reverse":  {awseks.UpdateClusterConfigInput{KubeApiServerConfig: nodePorts(32000, 31000)}, "Invalid serviceNodePortRange: 32000-31000. minPort and maxPort must be between 10260 and 32767, and minPort must not be greater than maxPort"},
		"another strategy":  {awseks.UpdateClusterConfigInput{KubeSchedulerConfig: scoring("RequestedToCapacityRatio")}, "Invalid scoringStrategy type: RequestedToCapacityRatio. Valid values are LeastAllocated and MostAllocated"},
		"another resource":  {awseks.UpdateClusterConfigInput{KubeSchedulerConfig: scoring("", weight("disk", 1))}, "Invalid or repeated scoringStrategy resource: disk. Valid values are cpu, memory, nvidia.com/gpu, aws.amazon.com/neuron, aws.amazon.com/neuroncore"},
		"a heavy resource":  {awseks.UpdateClusterConfigInput{KubeSchedulerConfig: scoring("", weight("cpu", 101))}, "Invalid weight of scoringStrategy resource cpu: 101. It must be between 1 and 100"},
		"nothing new":       {awseks.UpdateClusterConfigInput{KubeApiServerConfig: eventTTL("60m")}, "No changes detected"},
		"two kinds at once": {awseks.UpdateClusterConfigInput{KubeApiServerConfig: eventTTL("10m"), DeletionProtection: aws.Bool(true)}, "Only one type of update can be allowed."},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := w.update(&tt.in)
			wantError(t, err, "InvalidParameterException", tt.want)
		})
	}
	in := w.createInput("new")
	in.KubeApiServerConfig = eventTTL("1m")
	_, err := w.client.CreateCluster(t.Context(), in)
	wantError(t, err, "InvalidParameterException", "Invalid eventTtl: 1m. It must be a duration with one unit between 10m and 60m")

	versions := testkit.Must(w.client.DescribeClusterVersions(t.Context(), &awseks.DescribeClusterVersionsInput{}))(t).ClusterVersions
	for _, v := range versions {
		if ttl := v.ControlPlaneComponentConfig.KubeApiServerConfig.EventTtl; *ttl.DefaultValue != "60m" || *ttl.Constraints.Min != "10m" {
			t.Errorf("%s: %s", *v.ClusterVersion, asJSON(v.ControlPlaneComponentConfig))
		}
	}
	if len(versions) != 4 {
		t.Errorf("%d versions", len(versions))
	}
}

// A copy has the settings of its source, unless they are not those that EKS would set.
func TestTwinsControlPlaneSettings(t *testing.T) {
	source := newWorld(t)
	source.cluster("dev", ekstypes.AuthenticationModeApi)
	in := &awseks.DescribeClusterInput{Name: aws.String("dev")}
	for name, tt := range map[string]struct {
		change func(c *ekstypes.Cluster)
		want   eks.PlaneSettings
		gap    string // part of the only gap, if there is one
	}{
		"all": {func(c *ekstypes.Cluster) {
			c.KubeApiServerConfig = &ekstypes.KubeApiServerConfigResponse{EventTtl: aws.String("30m"), ServiceNodePortRange: &ekstypes.ServiceNodePortRange{MinPort: 20000, MaxPort: 20100}}
			c.KubeControllerManagerConfig.HorizontalPodAutoscalerControllerConfig.HorizontalPodAutoscalerSyncPeriod = aws.String("10s") // without a tier
			c.KubeSchedulerConfig.NodeResourcesFit = scoring(ekstypes.ScoringStrategyTypeMostAllocated, weight("cpu", 2)).NodeResourcesFit
		}, eks.PlaneSettings{EventTTL: "30m", NodePorts: "20000-20100", HPASyncPeriod: "10s", Scoring: "MostAllocated", Weights: "cpu=2"}, ""},
		"none": {func(c *ekstypes.Cluster) {
			c.KubeApiServerConfig, c.KubeControllerManagerConfig, c.KubeSchedulerConfig = nil, nil, nil
		}, eks.PlaneSettings{}, ""},
		"no resources": {func(c *ekstypes.Cluster) {
			c.KubeSchedulerConfig.NodeResourcesFit = scoring(ekstypes.ScoringStrategyTypeMostAllocated).NodeResourcesFit
		}, eks.PlaneSettings{Scoring: "MostAllocated", Weights: "cpu=1,memory=1"}, ""},
		"no strategy": {func(c *ekstypes.Cluster) {
			c.KubeSchedulerConfig.NodeResourcesFit = scoring("", weight("memory", 3)).NodeResourcesFit
		}, eks.PlaneSettings{Scoring: "LeastAllocated", Weights: "memory=3"}, ""},
		"a hostile resource": {func(c *ekstypes.Cluster) {
			c.KubeSchedulerConfig.NodeResourcesFit = scoring(ekstypes.ScoringStrategyTypeMostAllocated, weight("cpu=1}]}\nextenders:\n- urlPrefix: http://192.0.2.1", 1)).NodeResourcesFit
		}, eks.PlaneSettings{}, `scoringStrategy resource: cpu=1}]}\nextenders:\n- urlPrefix`},
		"a newer strategy": {func(c *ekstypes.Cluster) {
			c.KubeSchedulerConfig.NodeResourcesFit = scoring("RequestedToCapacityRatio").NodeResourcesFit
		}, eks.PlaneSettings{}, "Invalid scoringStrategy type: RequestedToCapacityRatio"},
		"no duration": {func(c *ekstypes.Cluster) { c.KubeApiServerConfig.EventTtl = aws.String("x") }, eks.PlaneSettings{}, "Invalid eventTtl: x"},
		"no ports": {func(c *ekstypes.Cluster) {
			c.KubeApiServerConfig.ServiceNodePortRange = &ekstypes.ServiceNodePortRange{}
		}, eks.PlaneSettings{}, "Invalid serviceNodePortRange: 0-0"},
	} {
		t.Run(name, func(t *testing.T) {
			r := &recording.Recording{Source: recording.Source{Account: source.account, Region: testkit.Region, Started: time.Now()}}
			out := testkit.Must(source.client.DescribeCluster(t.Context(), in))(t)
			tt.change(out.Cluster)
			recordAnswer(t, r, "eks", "DescribeCluster", in, out)
			recordAnswer(t, r, recording.Kubernetes, "List", recording.KubernetesList{Cluster: "dev", Version: "v1", Resource: "configmaps"}, map[string]any{"Kind": "ConfigMapList"})
			writes, gaps, err := load.Records(r)
			if err != nil {
				t.Fatal(err)
			}
			if tt.gap == "" && len(gaps) > 0 || tt.gap != "" && (len(gaps) != 1 || !strings.Contains(gaps[0].String(), tt.gap) || gaps[0].Code != recording.NotModelled) {
				t.Errorf("gaps %+v", gaps)
			}
			twins := &fakeTwins{}
			w := newWorld(t, func(w *world) { w.twins = twins })
			twins.store = w.server.Store
			w.account = source.account
			w.client = awseks.NewFromConfig(w.server.AWSConfig(w.account))
			if err := w.server.Store.Update(t.Context(), func(tx *store.Tx) error {
				for _, write := range writes {
					if err := write.Put(tx); err != nil {
						return err
					}
				}
				return nil
			}); err != nil {
				t.Fatal(err)
			}
			w.eventually(func() error {
				if c := testkit.Must(w.client.DescribeCluster(t.Context(), in))(t).Cluster; c.Status != ekstypes.ClusterStatusActive {
					return fmt.Errorf("it is %s", c.Status)
				}
				return nil
			})
			if diff := cmp.Diff(tt.want, w.settings()); diff != "" {
				t.Errorf("settings of the control plane (-want +got):\n%s", diff)
			}
		})
	}
}
