package eks_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	awsautoscaling "github.com/aws/aws-sdk-go-v2/service/autoscaling"
	autoscalingtypes "github.com/aws/aws-sdk-go-v2/service/autoscaling/types"
	awseks "github.com/aws/aws-sdk-go-v2/service/eks"
	ekstypes "github.com/aws/aws-sdk-go-v2/service/eks/types"
	"github.com/google/go-cmp/cmp"

	"github.com/drydock-dev/drydock/internal/testkit"
)

func (w *world) scalingGroups() []autoscalingtypes.AutoScalingGroup {
	w.Helper()
	out, err := w.asg.DescribeAutoScalingGroups(w.Context(), &awsautoscaling.DescribeAutoScalingGroupsInput{})
	if err != nil {
		w.Fatal(err)
	}
	return out.AutoScalingGroups
}

func TestANodegroupHasAnAutoScalingGroup(t *testing.T) {
	w := newWorld(t)
	w.cluster("dev", ekstypes.AuthenticationModeApi)
	in := w.nodegroupInput("dev", "ng", 2)
	in.CapacityType, in.InstanceTypes = ekstypes.CapacityTypesSpot, []string{"m5.large", "m4.large"}
	if _, err := w.client.CreateNodegroup(t.Context(), in); err != nil {
		t.Fatal(err)
	}
	ng := w.waitNodegroup("dev", "ng", ekstypes.NodegroupStatusActive)
	g := w.scalingGroups()[0]
	if *g.AutoScalingGroupName != *ng.Resources.AutoScalingGroups[0].Name || *g.VPCZoneIdentifier != "subnet-a,subnet-b" || *g.MaxSize != 10 {
		t.Errorf("group %+v", g)
	}
	tags := map[string]string{}
	for _, tag := range g.Tags {
		tags[*tag.Key] = fmt.Sprint(*tag.Value, " ", *tag.PropagateAtLaunch)
	}
	if diff := cmp.Diff(map[string]string{
		"eks:cluster-name": "dev true", "eks:nodegroup-name": "ng true", "k8s.io/cluster-autoscaler/dev": "owned true",
		"k8s.io/cluster-autoscaler/enabled": "true true", "kubernetes.io/cluster/dev": "owned true",
	}, tags); diff != "" {
		t.Error(diff)
	}
	p := g.MixedInstancesPolicy
	if *p.InstancesDistribution.OnDemandPercentageAboveBaseCapacity != 0 || len(p.LaunchTemplate.Overrides) != 2 ||
		*p.LaunchTemplate.Overrides[0].InstanceType != "m5.large" || !strings.HasPrefix(*p.LaunchTemplate.LaunchTemplateSpecification.LaunchTemplateName, "eks-") {
		t.Errorf("policy %+v", p)
	}
	hooks, err := w.asg.DescribeLifecycleHooks(t.Context(), &awsautoscaling.DescribeLifecycleHooksInput{AutoScalingGroupName: g.AutoScalingGroupName})
	if err != nil || len(hooks.LifecycleHooks) != 2 || *hooks.LifecycleHooks[0].LifecycleHookName != "Launch-LC-Hook" || *hooks.LifecycleHooks[1].LifecycleHookName != "Terminate-LC-Hook" {
		t.Errorf("hooks %+v, %v", hooks, err)
	}

	// The cluster autoscaler changes the Auto Scaling group, and the node group follows.
	if _, err := w.asg.SetDesiredCapacity(t.Context(), &awsautoscaling.SetDesiredCapacityInput{AutoScalingGroupName: g.AutoScalingGroupName, DesiredCapacity: aws.Int32(4)}); err != nil {
		t.Fatal(err)
	}
	follows := func(n int32) {
		t.Helper()
		testkit.Eventually(t, 20*time.Second, func() error {
			out, err := w.client.DescribeNodegroup(t.Context(), &awseks.DescribeNodegroupInput{ClusterName: aws.String("dev"), NodegroupName: aws.String("ng")})
			if err != nil {
				return err
			}
			if got := *out.Nodegroup.ScalingConfig.DesiredSize; got != n || out.Nodegroup.Status != ekstypes.NodegroupStatusActive {
				return fmt.Errorf("desired size %d, %s", got, out.Nodegroup.Status)
			}
			if nodes := len(w.nodes()); nodes != int(n) {
				return fmt.Errorf("%d nodes, want %d", nodes, n)
			}
			return nil
		})
	}
	follows(4)
	// It terminates the instance that it has drained, and decrements the desired capacity.
	victim := *w.scalingGroups()[0].Instances[0].InstanceId
	if _, err := w.asg.TerminateInstanceInAutoScalingGroup(t.Context(), &awsautoscaling.TerminateInstanceInAutoScalingGroupInput{InstanceId: &victim, ShouldDecrementDesiredCapacity: aws.Bool(true)}); err != nil {
		t.Fatal(err)
	}
	follows(3)
	testkit.Eventually(t, 20*time.Second, func() error { // the node is deleted before its instance is gone
		for _, i := range w.ec2.running() {
			if *i.InstanceId == victim {
				return fmt.Errorf("%s runs", victim)
			}
		}
		return nil
	})
	w.deleteNodegroup("dev", "ng")
	if left := w.scalingGroups(); len(left) != 0 {
		t.Errorf("%d groups are left", len(left))
	}
}

// New labels make a new launch template version, from which the group then launches.
func TestLabelsMakeALaunchTemplateVersion(t *testing.T) {
	w := newWorld(t)
	w.cluster("dev", ekstypes.AuthenticationModeApi)
	w.nodegroup("dev", "ng", 1)
	w.updateNodegroup(&awseks.UpdateNodegroupConfigInput{Labels: &ekstypes.UpdateLabelsPayload{AddOrUpdateLabels: map[string]string{"tier": "web"}}})
	if v := *w.scalingGroups()[0].MixedInstancesPolicy.LaunchTemplate.LaunchTemplateSpecification.Version; v != "2" {
		t.Errorf("version %s, want 2", v)
	}
}

func TestAnAutoScalingGroupThatIsGoneDegradesTheNodegroup(t *testing.T) {
	w := newWorld(t)
	w.cluster("dev", ekstypes.AuthenticationModeApi)
	ng := w.nodegroup("dev", "ng", 0)
	if _, err := w.asg.DeleteAutoScalingGroup(t.Context(), &awsautoscaling.DeleteAutoScalingGroupInput{AutoScalingGroupName: ng.Resources.AutoScalingGroups[0].Name, ForceDelete: aws.Bool(true)}); err != nil {
		t.Fatal(err)
	}
	ng = w.waitNodegroup("dev", "ng", ekstypes.NodegroupStatusDegraded)
	if ng.Health.Issues[0].Code != ekstypes.NodegroupIssueCodeAutoScalingGroupNotFound {
		t.Errorf("%+v", ng.Health.Issues[0])
	}
	w.deleteNodegroup("dev", "ng")
}

// The reconciler used to panic every time on a group without its Auto Scaling group.
func TestAnAutoScalingGroupThatIsGoneFailsTheNewNodegroup(t *testing.T) {
	w := newWorld(t)
	w.cluster("dev", ekstypes.AuthenticationModeApi)
	waiting := w.held()
	made, err := w.client.CreateNodegroup(t.Context(), w.nodegroupInput("dev", "ng", 1))
	if err != nil {
		t.Fatal(err)
	}
	waiting(1)
	if _, err := w.asg.DeleteAutoScalingGroup(t.Context(), &awsautoscaling.DeleteAutoScalingGroupInput{AutoScalingGroupName: made.Nodegroup.Resources.AutoScalingGroups[0].Name, ForceDelete: aws.Bool(true)}); err != nil {
		t.Fatal(err)
	}
	ng := w.waitNodegroup("dev", "ng", ekstypes.NodegroupStatusCreateFailed)
	if ng.Health.Issues[0].Code != ekstypes.NodegroupIssueCodeAutoScalingGroupNotFound {
		t.Errorf("%+v", ng.Health.Issues[0])
	}
	w.deleteNodegroup("dev", "ng")
}
