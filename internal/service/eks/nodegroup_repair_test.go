package eks_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"
	awseks "github.com/aws/aws-sdk-go-v2/service/eks"
	ekstypes "github.com/aws/aws-sdk-go-v2/service/eks/types"
	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/drydock-dev/drydock/internal/testkit"
)

// sicken makes some nodes NotReady and returns their instances.
func (w *world) sicken(n int) map[string]bool {
	w.Helper()
	out := map[string]bool{}
	for _, node := range w.nodes()[:n] {
		node.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionUnknown}}
		if _, err := w.kubernetes().CoreV1().Nodes().UpdateStatus(w.Context(), &node, metav1.UpdateOptions{}); err != nil {
			w.Fatal(err)
		}
		out[node.Spec.ProviderID[len("aws:///us-east-1a/"):]] = true
	}
	return out
}

func TestNodeAutoRepairReplacesNodes(t *testing.T) {
	for name, tt := range map[string]struct {
		config *ekstypes.NodeRepairConfig
		nodes  int32
		sick   int
		repair bool
	}{
		"off":              {&ekstypes.NodeRepairConfig{Enabled: aws.Bool(false)}, 2, 1, false},
		"not configured":   {nil, 2, 1, false},
		"on":               {&ekstypes.NodeRepairConfig{Enabled: aws.Bool(true)}, 2, 1, true},
		"a few of many":    {&ekstypes.NodeRepairConfig{Enabled: aws.Bool(true)}, 6, 1, true},
		"too many":         {&ekstypes.NodeRepairConfig{Enabled: aws.Bool(true)}, 6, 2, false},
		"within the count": {&ekstypes.NodeRepairConfig{Enabled: aws.Bool(true), MaxUnhealthyNodeThresholdCount: aws.Int32(2), MaxParallelNodesRepairedCount: aws.Int32(1)}, 6, 2, true},
		"beyond the share": {&ekstypes.NodeRepairConfig{Enabled: aws.Bool(true), MaxUnhealthyNodeThresholdPercentage: aws.Int32(40)}, 2, 1, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, withClock)
			w.cluster("dev", ekstypes.AuthenticationModeApi)
			in := w.nodegroupInput("dev", "ng", tt.nodes)
			in.NodeRepairConfig = tt.config
			if _, err := w.client.CreateNodegroup(t.Context(), in); err != nil {
				t.Fatal(err)
			}
			w.waitNodegroup("dev", "ng", ekstypes.NodegroupStatusActive)
			sick := w.sicken(tt.sick)
			w.waitNodegroup("dev", "ng", ekstypes.NodegroupStatusDegraded)
			begin := w.fake.Now()
			w.eventually(func() error {
				left := 0
				for _, i := range w.ec2.running() {
					if sick[*i.InstanceId] {
						left++
					}
				}
				switch {
				case !tt.repair && left == tt.sick && w.fake.Since(begin) > 3*w.timing.NodeRepair:
					return nil
				case !tt.repair && left < tt.sick:
					t.Fatal("it was repaired")
				case tt.repair && left == 0 && len(w.ec2.running()) == int(tt.nodes):
					return nil
				}
				return fmt.Errorf("%d of %d are left", left, tt.sick)
			})
			if tt.repair {
				w.waitNodegroup("dev", "ng", ekstypes.NodegroupStatusActive)
			}
		})
	}
}

func repairOverride(action ekstypes.RepairAction, minutes int32) []ekstypes.NodeRepairConfigOverrides {
	return []ekstypes.NodeRepairConfigOverrides{{
		NodeMonitoringCondition: aws.String("KernelReady"), NodeUnhealthyReason: aws.String("ForkFailedOutOfPIDs"),
		MinRepairWaitTimeMins: &minutes, RepairAction: action,
	}}
}

// The conditions that the node monitoring agent sets lead to repairs, which overrides change. What a Timing calls
// NodeRepair are 30 minutes of AWS.
func TestNodeAutoRepairOfConditions(t *testing.T) {
	const reason = "ForkFailedOutOfPIDs"
	for name, tt := range map[string]struct {
		condition corev1.NodeCondition
		overrides []ekstypes.NodeRepairConfigOverrides
		minutes   int // from the condition to the repair, or 0
		reboot    bool
	}{
		"by default":            {condition: corev1.NodeCondition{Type: "KernelReady", Status: "False", Reason: reason}, minutes: 30},
		"of hardware":           {condition: corev1.NodeCondition{Type: "AcceleratedHardwareReady", Status: "False", Reason: "NvidiaXID79Error"}, minutes: 10},
		"not known":             {condition: corev1.NodeCondition{Type: "KernelReady", Status: "Unknown", Reason: reason}},
		"of pressure":           {condition: corev1.NodeCondition{Type: corev1.NodeDiskPressure, Status: "False"}},
		"no action":             {condition: corev1.NodeCondition{Type: "KernelReady", Status: "False", Reason: reason}, overrides: repairOverride(ekstypes.RepairActionNoAction, 1)},
		"later":                 {condition: corev1.NodeCondition{Type: "KernelReady", Status: "False", Reason: reason}, overrides: repairOverride(ekstypes.RepairActionReplace, 60), minutes: 60},
		"another reason":        {condition: corev1.NodeCondition{Type: "KernelReady", Status: "False", Reason: "SoftLockup"}, overrides: repairOverride(ekstypes.RepairActionNoAction, 1), minutes: 30},
		"reboot, and once more": {condition: corev1.NodeCondition{Type: "KernelReady", Status: "False", Reason: reason}, overrides: repairOverride(ekstypes.RepairActionReboot, 20), minutes: 20, reboot: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, withClock)
			w.cluster("dev", ekstypes.AuthenticationModeApi)
			in := w.nodegroupInput("dev", "ng", 2)
			in.NodeRepairConfig = &ekstypes.NodeRepairConfig{Enabled: aws.Bool(true), NodeRepairConfigOverrides: tt.overrides}
			if _, err := w.client.CreateNodegroup(t.Context(), in); err != nil {
				t.Fatal(err)
			}
			w.waitNodegroup("dev", "ng", ekstypes.NodegroupStatusActive)
			node := w.nodes()[0]
			id := node.Spec.ProviderID[len("aws:///us-east-1a/"):]
			begin := w.fake.Now().Truncate(time.Second) // as Kubernetes stores it
			tt.condition.LastTransitionTime = metav1.NewTime(begin)
			node.Status.Conditions = append(node.Status.Conditions, tt.condition)
			if _, err := w.kubernetes().CoreV1().Nodes().UpdateStatus(w.Context(), &node, metav1.UpdateOptions{}); err != nil {
				t.Fatal(err)
			}
			minutes := func(n int) time.Duration { return time.Duration(n) * w.timing.NodeRepair / 30 }
			reboots := func(n int, after time.Duration) {
				t.Helper()
				w.eventually(func() error {
					w.ec2.mu.Lock()
					defer w.ec2.mu.Unlock()
					switch got := len(w.ec2.reboots); {
					case got < n:
						return fmt.Errorf("%d reboots", got)
					case w.ec2.reboots[0] != id || w.fake.Since(begin) < after:
						t.Fatalf("rebooted %v after %v", w.ec2.reboots, w.fake.Since(begin))
					}
					return nil
				})
			}
			replaced := func() bool {
				for _, i := range w.ec2.running() {
					if *i.InstanceId == id {
						return false
					}
				}
				return true
			}
			if tt.reboot {
				reboots(1, minutes(tt.minutes))
				w.restart()
				reboots(2, 2*minutes(tt.minutes))
				if replaced() {
					t.Error("it was replaced")
				}
				return
			}
			w.eventually(func() error {
				switch gone := replaced(); {
				case gone && (tt.minutes == 0 || w.fake.Since(begin) < minutes(tt.minutes)):
					t.Fatalf("repaired after %v", w.fake.Since(begin))
				case gone, tt.minutes == 0 && w.fake.Since(begin) > minutes(90):
					return nil
				}
				return errors.New("not repaired")
			})
			if tt.minutes > 0 {
				w.settled(2)
			}
		})
	}
}

func TestNodeAutoRepairIsSwitchedOn(t *testing.T) {
	t.Parallel()
	w := newWorld(t, withClock)
	w.cluster("dev", ekstypes.AuthenticationModeApi)
	w.nodegroup("dev", "ng", 1)
	sick := w.sicken(1)
	w.waitNodegroup("dev", "ng", ekstypes.NodegroupStatusDegraded)
	w.updateNodegroup(&awseks.UpdateNodegroupConfigInput{NodeRepairConfig: &ekstypes.NodeRepairConfig{Enabled: aws.Bool(true)}})
	w.eventually(func() error {
		if r := w.ec2.running(); len(r) != 1 || sick[*r[0].InstanceId] {
			return fmt.Errorf("%d run", len(r))
		}
		return nil
	})
}

// An instance that a user terminates is replaced. Its replacement joins by itself, even if the
// daemon is killed in between.
func TestTheSuccessorOfAnInstanceJoins(t *testing.T) {
	t.Parallel()
	w := newWorld(t, withClock)
	w.cluster("dev", ekstypes.AuthenticationModeApi)
	w.nodegroup("dev", "ng", 2)
	gone := *w.ec2.running()[0].InstanceId
	w.stop()
	w.ec2.end(gone)
	if err := w.ec2.tell(t.Context(), w.account, testkit.Region, gone); err != nil {
		t.Fatal(err)
	}
	waiting := w.held()
	w.restart()
	w.waitNodegroup("dev", "ng", ekstypes.NodegroupStatusActive)
	join := waiting(1)
	w.restart()
	join[0]()
	w.settled(2)
	w.eventually(func() error {
		for _, i := range w.scalingGroups()[0].Instances {
			if *i.InstanceId == gone || i.LifecycleState != "InService" {
				return fmt.Errorf("%s is %s", *i.InstanceId, i.LifecycleState)
			}
		}
		return nil
	})
}

func TestRemoteAccess(t *testing.T) {
	for name, tt := range map[string]struct {
		sources []string
		want    ec2types.IpPermission
	}{
		"from anywhere": {nil, ec2types.IpPermission{IpRanges: []ec2types.IpRange{{CidrIp: aws.String("0.0.0.0/0")}}}},
		"from groups":   {[]string{"sg-1", "sg-2"}, ec2types.IpPermission{UserIdGroupPairs: []ec2types.UserIdGroupPair{{GroupId: aws.String("sg-1")}, {GroupId: aws.String("sg-2")}}}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, withClock)
			w.cluster("dev", ekstypes.AuthenticationModeApi)
			in := w.nodegroupInput("dev", "ng", 1)
			in.RemoteAccess = &ekstypes.RemoteAccessConfig{Ec2SshKey: aws.String("key"), SourceSecurityGroups: tt.sources}
			if _, err := w.client.CreateNodegroup(t.Context(), in); err != nil {
				t.Fatal(err)
			}
			g := w.waitNodegroup("dev", "ng", ekstypes.NodegroupStatusActive)
			id := *g.Resources.RemoteAccessSecurityGroup
			w.ec2.mu.Lock()
			group, template := w.ec2.groups[id], w.ec2.templates["eks-"+(*g.NodegroupArn)[len(*g.NodegroupArn)-36:]].LaunchTemplateData
			w.ec2.mu.Unlock()
			tt.want.IpProtocol, tt.want.FromPort, tt.want.ToPort = aws.String("tcp"), aws.Int32(22), aws.Int32(22)
			if diff := cmp.Diff(asJSON([]ec2types.IpPermission{tt.want}), asJSON(group.IpPermissions)); diff != "" {
				t.Error(diff)
			}
			if len(template.SecurityGroupIds) != 2 || template.SecurityGroupIds[0] != id || *template.KeyName != "key" {
				t.Errorf("template %+v", template)
			}

			// A security group that something else uses is kept.
			w.ec2.mu.Lock()
			w.ec2.interfaces["eni-mine"] = ec2types.NetworkInterface{NetworkInterfaceId: aws.String("eni-mine"), Groups: []ec2types.GroupIdentifier{{GroupId: &id}}, Description: new(string), VpcId: new(string)}
			w.ec2.mu.Unlock()
			remove := &awseks.DeleteNodegroupInput{ClusterName: aws.String("dev"), NodegroupName: aws.String("ng")}
			if _, err := w.client.DeleteNodegroup(t.Context(), remove); err != nil {
				t.Fatal(err)
			}
			g = w.waitNodegroup("dev", "ng", ekstypes.NodegroupStatusDeleteFailed)
			want := []ekstypes.Issue{{Code: "Ec2SecurityGroupDeletionFailure", Message: aws.String("DependencyViolation - resource has a dependent object"), ResourceIds: []string{id}}}
			if diff := cmp.Diff(asJSON(want), asJSON(g.Health.Issues)); diff != "" {
				t.Error(diff)
			}
			w.ec2.mu.Lock()
			delete(w.ec2.interfaces, "eni-mine")
			w.ec2.mu.Unlock()
			w.deleteNodegroup("dev", "ng")
			w.ec2.mu.Lock()
			defer w.ec2.mu.Unlock()
			if _, left := w.ec2.groups[id]; left {
				t.Error("the security group is left")
			}
		})
	}
}

// The security group of a node group is deleted with it, even if its ID was never recorded.
func TestRemoteAccessThatWasNeverAllowedIsRemoved(t *testing.T) {
	t.Parallel()
	w := newWorld(t, withClock)
	w.cluster("dev", ekstypes.AuthenticationModeApi)
	w.ec2.mu.Lock()
	w.ec2.ingressErr = errors.New("no answer")
	w.ec2.mu.Unlock()
	in := w.nodegroupInput("dev", "ng", 1)
	in.RemoteAccess = &ekstypes.RemoteAccessConfig{Ec2SshKey: aws.String("key")}
	if _, err := w.client.CreateNodegroup(t.Context(), in); err != nil {
		t.Fatal(err)
	}
	groups := func() (n int) {
		w.ec2.mu.Lock()
		defer w.ec2.mu.Unlock()
		for _, g := range w.ec2.groups {
			if strings.HasPrefix(*g.GroupName, "eks-remoteAccess-") {
				n++
			}
		}
		return n
	}
	w.eventually(func() error {
		if groups() == 0 {
			return errors.New("no security group was made")
		}
		return nil
	})
	w.deleteNodegroup("dev", "ng")
	if n := groups(); n != 0 {
		t.Errorf("%d security groups are left", n)
	}
}
