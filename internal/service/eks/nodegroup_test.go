package eks_test

import (
	"encoding/base64"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"
	awseks "github.com/aws/aws-sdk-go-v2/service/eks"
	ekstypes "github.com/aws/aws-sdk-go-v2/service/eks/types"
	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	k8stesting "k8s.io/client-go/testing"

	"github.com/drydock-dev/drydock/internal/awsapi/awserr"
	"github.com/drydock-dev/drydock/internal/catalog/images"
	"github.com/drydock-dev/drydock/internal/node/userdata"
	"github.com/drydock-dev/drydock/internal/testkit"
)

func (w *world) nodegroup(cluster, name string, size int32) *ekstypes.Nodegroup {
	w.Helper()
	if _, err := w.client.CreateNodegroup(w.Context(), w.nodegroupInput(cluster, name, size)); err != nil {
		w.Fatal(err)
	}
	return w.waitNodegroup(cluster, name, ekstypes.NodegroupStatusActive)
}

func (w *world) nodes() []corev1.Node {
	w.Helper()
	list, err := w.kubernetes().CoreV1().Nodes().List(w.Context(), metav1.ListOptions{})
	if err != nil {
		w.Fatal(err)
	}
	return list.Items
}

func (w *world) updateNodegroup(in *awseks.UpdateNodegroupConfigInput) *ekstypes.Update {
	w.Helper()
	in.ClusterName, in.NodegroupName = aws.String("dev"), aws.String("ng")
	out, err := w.client.UpdateNodegroupConfig(w.Context(), in)
	if err != nil {
		w.Fatal(err)
	}
	w.waitNodegroup("dev", "ng", ekstypes.NodegroupStatusActive)
	got, err := w.client.DescribeUpdate(w.Context(), &awseks.DescribeUpdateInput{Name: aws.String("dev"), NodegroupName: aws.String("ng"), UpdateId: out.Update.Id})
	if err != nil {
		w.Fatal(err)
	}
	if got.Update.Status != ekstypes.UpdateStatusSuccessful {
		w.Errorf("update is %s: %v", got.Update.Status, got.Update.Errors)
	}
	return got.Update
}

func TestANodegroupLives(t *testing.T) {
	w := newWorld(t)
	w.cluster("dev", ekstypes.AuthenticationModeApiAndConfigMap)
	g := w.nodegroup("dev", "ng", 3)
	if g.AmiType != ekstypes.AMITypesAl2023X8664Standard || g.InstanceTypes[0] != "t3.medium" || *g.DiskSize != 20 || g.CapacityType != ekstypes.CapacityTypesOnDemand ||
		*g.UpdateConfig.MaxUnavailable != 1 || !strings.HasPrefix(*g.ReleaseVersion, "1.36.") || *g.Version != "1.36" {
		t.Errorf("node group = %+v", g)
	}
	uuid := (*g.NodegroupArn)[strings.LastIndexByte(*g.NodegroupArn, '/')+1:]
	if got := *g.Resources.AutoScalingGroups[0].Name; got != "eks-ng-"+uuid {
		t.Errorf("Auto Scaling group = %s", got)
	}
	perSubnet := map[string]int{}
	for _, i := range w.ec2.running() {
		perSubnet[*i.SubnetId]++
	}
	if len(perSubnet) != 2 || perSubnet["subnet-a"]+perSubnet["subnet-b"] != 3 || perSubnet["subnet-a"] == 3 {
		t.Errorf("instances by subnet = %v", perSubnet)
	}
	entry, err := w.client.DescribeAccessEntry(t.Context(), &awseks.DescribeAccessEntryInput{ClusterName: aws.String("dev"), PrincipalArn: aws.String(w.arn("role/node"))})
	if err != nil || *entry.AccessEntry.Type != "EC2_LINUX" || *entry.AccessEntry.Username != "system:node:{{EC2PrivateDNSName}}" {
		t.Errorf("the node role's entry = %+v, %v", entry, err)
	}

	w.updateNodegroup(&awseks.UpdateNodegroupConfigInput{
		Labels: &ekstypes.UpdateLabelsPayload{AddOrUpdateLabels: map[string]string{"tier": "web"}},
		Taints: &ekstypes.UpdateTaintsPayload{AddOrUpdateTaints: []ekstypes.Taint{{Key: aws.String("only"), Value: aws.String("web"), Effect: ekstypes.TaintEffectNoSchedule}}},
	})
	for _, n := range w.nodes() {
		if n.Labels["tier"] != "web" || len(n.Spec.Taints) != 1 || n.Spec.Taints[0] != (corev1.Taint{Key: "only", Value: "web", Effect: corev1.TaintEffectNoSchedule}) {
			t.Errorf("node %s: labels %v, taints %v", n.Name, n.Labels, n.Spec.Taints)
		}
	}
	up := w.updateNodegroup(&awseks.UpdateNodegroupConfigInput{ScalingConfig: &ekstypes.NodegroupScalingConfig{DesiredSize: aws.Int32(5)}})
	if diff := cmp.Diff("DesiredSize=5", string(up.Params[0].Type)+"="+*up.Params[0].Value); diff != "" {
		t.Error(diff)
	}
	testkit.Eventually(t, 20*time.Second, func() error {
		web := 0
		for _, n := range w.nodes() {
			if n.Labels["tier"] == "web" { // new nodes get them through their user data
				web++
			}
		}
		if web != 5 {
			return fmt.Errorf("%d nodes are labelled, want 5", web)
		}
		return nil
	})
	_, err = w.client.DeleteCluster(t.Context(), &awseks.DeleteClusterInput{Name: aws.String("dev")})
	wantError(t, err, "ResourceInUseException", "Cluster has nodegroups attached")

	w.deleteNodegroup("dev", "ng")
	if left := w.ec2.running(); len(left) > 0 {
		t.Errorf("%d instances are left", len(left))
	}
	if n := w.nodes(); len(n) > 0 {
		t.Errorf("%d nodes are left", len(n))
	}
	_, err = w.client.DescribeAccessEntry(t.Context(), &awseks.DescribeAccessEntryInput{ClusterName: aws.String("dev"), PrincipalArn: aws.String(w.arn("role/node"))})
	if !isCode(err, "ResourceNotFoundException") {
		t.Errorf("the node role's entry is left: %v", err)
	}
	if _, err := w.client.DeleteCluster(t.Context(), &awseks.DeleteClusterInput{Name: aws.String("dev")}); err != nil {
		t.Fatal(err)
	}
	w.waitGone("dev")
	w.nothingLeft()
}

func (w *world) deleteNodegroup(cluster, name string) {
	w.Helper()
	if _, err := w.client.DeleteNodegroup(w.Context(), &awseks.DeleteNodegroupInput{ClusterName: &cluster, NodegroupName: &name}); err != nil {
		w.Fatal(err)
	}
	w.waitNodegroupGone(cluster, name)
}

func TestTheUserDataIsWhatAGuestUnderstands(t *testing.T) {
	w := newWorld(t)
	w.cluster("dev", ekstypes.AuthenticationModeApi)
	plane, _ := w.planes.only()
	for _, amiType := range []ekstypes.AMITypes{ekstypes.AMITypesAl2023X8664Standard, ekstypes.AMITypesBottlerocketX8664} {
		t.Run(string(amiType), func(t *testing.T) {
			in := w.nodegroupInput("dev", strings.ToLower(string(amiType)), 0)
			in.AmiType = amiType
			in.Labels = map[string]string{"tier": "web"}
			in.Taints = []ekstypes.Taint{{Key: aws.String("only"), Value: aws.String("web"), Effect: ekstypes.TaintEffectPreferNoSchedule}}
			if _, err := w.client.CreateNodegroup(t.Context(), in); err != nil {
				t.Fatal(err)
			}
			g := w.waitNodegroup("dev", *in.NodegroupName, ekstypes.NodegroupStatusActive)
			uuid := (*g.NodegroupArn)[strings.LastIndexByte(*g.NodegroupArn, '/')+1:]
			w.ec2.mu.Lock()
			data := w.ec2.templates["eks-"+uuid].LaunchTemplateData
			w.ec2.mu.Unlock()
			raw, err := base64.StdEncoding.DecodeString(*data.UserData)
			if err != nil {
				t.Fatal(err)
			}
			cfg, err := userdata.Parse(map[ekstypes.AMITypes]images.Family{
				ekstypes.AMITypesAl2023X8664Standard: images.AL2023, ekstypes.AMITypesBottlerocketX8664: images.Bottlerocket,
			}[amiType], raw)
			if err != nil {
				t.Fatalf("%v in:\n%s", err, raw)
			}
			if cfg.ClusterName != "dev" || cfg.Endpoint != "https://"+plane.AWSHost || cfg.Labels["tier"] != "web" || cfg.Labels["eks.amazonaws.com/nodegroup"] != *in.NodegroupName {
				t.Errorf("config = %+v from:\n%s", cfg, raw)
			}
			if *data.IamInstanceProfile.Name != "eks-"+uuid || len(data.SecurityGroupIds) != 1 {
				t.Errorf("launch template = %+v", data)
			}
		})
	}
}

func TestScalingDownDrainsFirst(t *testing.T) {
	w := newWorld(t)
	w.cluster("dev", ekstypes.AuthenticationModeApi)
	w.nodegroup("dev", "ng", 2)
	cs := w.kubernetes()
	controller := true
	for _, n := range w.nodes() {
		for _, name := range []string{"protected", "free", "daemon"} {
			p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name + "-" + n.Name, Namespace: "default"}, Spec: corev1.PodSpec{NodeName: n.Name}}
			if name == "daemon" {
				p.OwnerReferences = []metav1.OwnerReference{{Kind: "DaemonSet", Name: "d", Controller: &controller}}
			}
			w.planes.mu.Lock()
			w.planes.protected[p.Name] = name == "protected"
			w.planes.mu.Unlock()
			if _, err := cs.CoreV1().Pods("default").Create(t.Context(), p, metav1.CreateOptions{}); err != nil {
				t.Fatal(err)
			}
		}
	}
	w.updateNodegroup(&awseks.UpdateNodegroupConfigInput{ScalingConfig: &ekstypes.NodegroupScalingConfig{DesiredSize: aws.Int32(1)}})
	// The unprotected pod on one node is evicted; the protected pod keeps its node from
	// terminating.
	testkit.Eventually(t, 10*time.Second, func() error {
		pods, err := cs.CoreV1().Pods("default").List(t.Context(), metav1.ListOptions{})
		if err != nil {
			return err
		}
		if len(pods.Items) != 5 {
			return fmt.Errorf("%d pods, want 5", len(pods.Items))
		}
		return nil
	})
	if n := len(w.ec2.running()); n != 2 {
		t.Fatalf("%d instances run while a pod is protected, want 2", n)
	}
	cordoned := ""
	for _, n := range w.nodes() {
		if n.Spec.Unschedulable {
			cordoned = n.Name
		}
	}
	if cordoned == "" {
		t.Fatal("no node is cordoned")
	}
	w.planes.mu.Lock()
	w.planes.protected["protected-"+cordoned] = false
	w.planes.mu.Unlock()
	testkit.Eventually(t, 10*time.Second, func() error {
		if n := len(w.ec2.running()); n != 1 {
			return fmt.Errorf("%d instances run, want 1", n)
		}
		if nodes := w.nodes(); len(nodes) != 1 || nodes[0].Name == cordoned {
			return fmt.Errorf("nodes = %v", nodes)
		}
		return nil
	})
}

func TestAnInstanceThatEndsIsReplaced(t *testing.T) {
	w := newWorld(t)
	w.cluster("dev", ekstypes.AuthenticationModeApi)
	w.nodegroup("dev", "ng", 1)
	gone := *w.ec2.running()[0].InstanceId
	w.ec2.end(gone)
	if err := w.ec2.tell(t.Context(), w.account, testkit.Region, gone); err != nil {
		t.Fatal(err)
	}
	testkit.Eventually(t, 20*time.Second, func() error {
		nodes := w.nodes()
		if len(nodes) != 1 || strings.HasSuffix(nodes[0].Spec.ProviderID, gone) {
			return fmt.Errorf("nodes = %d", len(nodes))
		}
		return nil
	})
}

func TestNodesThatDoNotJoinFailTheGroup(t *testing.T) {
	w := newWorld(t, func(w *world) { w.timing.NodegroupTimeout = 3 * time.Second }) // the reconciliation in which both are launched
	w.cluster("dev", ekstypes.AuthenticationModeApi)
	w.ec2.mu.Lock()
	w.ec2.launched = nil
	w.ec2.mu.Unlock()
	if _, err := w.client.CreateNodegroup(t.Context(), w.nodegroupInput("dev", "ng", 2)); err != nil {
		t.Fatal(err)
	}
	g := w.waitNodegroup("dev", "ng", ekstypes.NodegroupStatusCreateFailed)
	i := g.Health.Issues[0]
	if i.Code != ekstypes.NodegroupIssueCodeNodeCreationFailure || *i.Message != "Instances failed to join the kubernetes cluster" || len(i.ResourceIds) != 2 {
		t.Errorf("issue = %+v", i)
	}
	w.deleteNodegroup("dev", "ng")
}

func TestLaunchesThatFailAreShown(t *testing.T) {
	w := newWorld(t, func(w *world) { w.timing.NodegroupTimeout = 3 * time.Second }) // the reconciliation in which the launch fails
	w.cluster("dev", ekstypes.AuthenticationModeApi)
	w.ec2.mu.Lock()
	w.ec2.launchErr = awserr.New("InsufficientInstanceCapacity", "We currently do not have sufficient t3.medium capacity.")
	w.ec2.mu.Unlock()
	if _, err := w.client.CreateNodegroup(t.Context(), w.nodegroupInput("dev", "ng", 2)); err != nil {
		t.Fatal(err)
	}
	g := w.waitNodegroup("dev", "ng", ekstypes.NodegroupStatusCreateFailed)
	if i := g.Health.Issues[0]; i.Code != ekstypes.NodegroupIssueCodeAsgInstanceLaunchFailures || *i.Message != "Could not launch On-Demand Instances. InsufficientInstanceCapacity - We currently do not have sufficient t3.medium capacity. Launching EC2 instance failed." {
		t.Errorf("issue = %+v", i)
	}
}

func TestConfigMapModeMapsTheNodeRole(t *testing.T) {
	w := newWorld(t)
	w.cluster("dev", ekstypes.AuthenticationModeConfigMap)
	w.nodegroup("dev", "ng", 1)
	cm, err := w.kubernetes().CoreV1().ConfigMaps("kube-system").Get(t.Context(), "aws-auth", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	want := "- groups:\n  - system:bootstrappers\n  - system:nodes\n  rolearn: " + w.arn("role/node") + "\n  username: system:node:{{EC2PrivateDNSName}}\n"
	if diff := cmp.Diff(want, cm.Data["mapRoles"]); diff != "" {
		t.Errorf("mapRoles (-want +got):\n%s", diff)
	}
	w.deleteNodegroup("dev", "ng")
	cm, err = w.kubernetes().CoreV1().ConfigMaps("kube-system").Get(t.Context(), "aws-auth", metav1.GetOptions{})
	if err != nil || strings.Contains(cm.Data["mapRoles"], "role/node") {
		t.Errorf("aws-auth after deletion = %v, %v", cm, err)
	}
}

func TestCreateNodegroupRefusesWhatAWSRefuses(t *testing.T) {
	w := newWorld(t)
	w.cluster("dev", ekstypes.AuthenticationModeApi)
	w.nodegroup("dev", "taken", 0)
	size := func(lo, hi, want int32) *ekstypes.NodegroupScalingConfig {
		return &ekstypes.NodegroupScalingConfig{MinSize: &lo, MaxSize: &hi, DesiredSize: &want}
	}
	for name, tt := range map[string]struct {
		change        func(*awseks.CreateNodegroupInput)
		code, message string
	}{
		"no cluster": {
			func(in *awseks.CreateNodegroupInput) { in.ClusterName = aws.String("nope") },
			"ResourceNotFoundException", "No cluster found for name: nope.",
		},
		"a name that is taken": {
			func(in *awseks.CreateNodegroupInput) { in.NodegroupName = aws.String("taken") },
			"ResourceInUseException", "NodeGroup already exists with name taken and cluster name dev",
		},
		"a name with a dot": {
			func(in *awseks.CreateNodegroupInput) { in.NodegroupName = aws.String("n.g") },
			"InvalidParameterException", "The nodegroupName parameter contains invalid characters. It should begin with letter or digit and can have any of the following characters: the set of Unicode letters, digits, hyphens and underscores.",
		},
		"min above desired": {
			func(in *awseks.CreateNodegroupInput) { in.ScalingConfig = size(2, 3, 1) },
			"InvalidParameterException", "minSize can't be greater than desiredSize",
		},
		"desired above max": {
			func(in *awseks.CreateNodegroupInput) { in.ScalingConfig = size(1, 2, 3) },
			"InvalidParameterException", "desiredSize can't be greater than maxSize",
		},
		"more than the quota": {
			func(in *awseks.CreateNodegroupInput) { in.ScalingConfig = size(1, 451, 1) },
			"ResourceLimitExceededException", "The maximum number of nodes per node group is 450.",
		},
		"a role that does not exist": {
			func(in *awseks.CreateNodegroupInput) { in.NodeRole = aws.String(w.arn("role/nobody")) },
			"InvalidParameterException", "The role with name nobody cannot be found. (Service: AmazonIdentityManagement; Status Code: 404; Error Code: NoSuchEntity)",
		},
		"a role EC2 may not assume": {
			func(in *awseks.CreateNodegroupInput) { in.NodeRole = aws.String(w.arn("role/cluster")) },
			"InvalidParameterException", "Following required service principals [ec2.amazonaws.com] were not found in the trust relationships of nodeRole " + w.arn("role/cluster"),
		},
		"a subnet of another VPC": {
			func(in *awseks.CreateNodegroupInput) { in.Subnets = []string{"subnet-a", "subnet-other"} },
			"InvalidParameterException", "Subnets specified must belong to the VPC: vpc-main",
		},
		"Amazon Linux 2": {
			func(in *awseks.CreateNodegroupInput) { in.AmiType = ekstypes.AMITypesAl2X8664 },
			"InvalidParameterException", "AMI Type AL2_x86_64 is only supported for kubernetes versions 1.32 or earlier",
		},
		"an instance type that does not exist": {
			func(in *awseks.CreateNodegroupInput) { in.InstanceTypes = []string{"t3.medium", "x9.huge"} },
			"InvalidParameterException", "The following supplied instance types do not exist: [x9.huge]",
		},
		"an instance type of the other architecture": {
			func(in *awseks.CreateNodegroupInput) {
				in.InstanceTypes, in.AmiType = []string{"t4g.medium"}, ekstypes.AMITypesAl2023X8664Standard
			},
			"InvalidParameterException", "[t4g.medium] is not a valid instance type for requested amiType AL2023_x86_64_STANDARD",
		},
		"a reserved label": {
			func(in *awseks.CreateNodegroupInput) { in.Labels = map[string]string{"kubernetes.io/x": "y"} },
			"InvalidParameterException", "Label cannot start with reserved prefixes [kubernetes.io/, k8s.io/, eks.amazonaws.com/]",
		},
		"a label with an invalid key": {
			func(in *awseks.CreateNodegroupInput) { in.Labels = map[string]string{"bad key!": "y"} },
			"InvalidParameterException", "Invalid value: bad key! : field must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyName', or 'my.name', or '123-abc', regex used for validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')",
		},
		"a taint with an invalid key": {
			func(in *awseks.CreateNodegroupInput) {
				in.Taints = []ekstypes.Taint{{Key: aws.String("bad key!"), Effect: ekstypes.TaintEffectNoSchedule}}
			},
			"InvalidParameterException", "invalid taint spec: bad key! , a qualified name must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyName', or 'my.name', or '123-abc', regex used for validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')",
		},
		"a long name": {
			func(in *awseks.CreateNodegroupInput) { in.NodegroupName = aws.String(strings.Repeat("n", 64)) },
			"InvalidParameterException", "nodeGroupName can't be longer than 63 characters!",
		},
		"an empty update configuration": {
			func(in *awseks.CreateNodegroupInput) { in.UpdateConfig = &ekstypes.NodegroupUpdateConfig{} },
			"InvalidParameterException", "UpdateConfig cannot be empty if set in the request.",
		},
		"two limits of what is unavailable": {
			func(in *awseks.CreateNodegroupInput) {
				in.UpdateConfig = &ekstypes.NodegroupUpdateConfig{MaxUnavailable: aws.Int32(1), MaxUnavailablePercentage: aws.Int32(1)}
			},
			"InvalidParameterException", "Either provide max-unavailable or max-unavailable-percentage in the request.",
		},
		"a launch template without a name": {
			func(in *awseks.CreateNodegroupInput) { in.LaunchTemplate = &ekstypes.LaunchTemplateSpecification{} },
			"InvalidParameterException", "Either a launch template ID or a launch template name must be specified in the request.",
		},
		"an effect of Kubernetes": {
			func(in *awseks.CreateNodegroupInput) {
				in.Taints = []ekstypes.Taint{{Key: aws.String("dedicated"), Effect: "NoSchedule"}}
			},
			"InvalidParameterException", "Invalid taint effect: NoSchedule, must be one of these [NO_SCHEDULE, NO_EXECUTE, PREFER_NO_SCHEDULE]",
		},
		"more unavailable than there may be": {
			func(in *awseks.CreateNodegroupInput) {
				in.ScalingConfig = size(1, 2, 1)
				in.UpdateConfig = &ekstypes.NodegroupUpdateConfig{MaxUnavailable: aws.Int32(3)}
			},
			"InvalidParameterException", "max-unavailable must be within the range 1 and max size of the node group",
		},
		"another version": {
			func(in *awseks.CreateNodegroupInput) { in.Version = aws.String("1.32") },
			"InvalidParameterException", "Cluster Kubernetes version 1.36 supports the following Nodegroup Kubernetes versions: [1.36, 1.35, 1.34, 1.33]",
		},
		"Windows": {
			func(in *awseks.CreateNodegroupInput) { in.AmiType = ekstypes.AMITypesWindowsCore2022X8664 },
			"NotImplemented", "Drydock does not implement node groups of AMI type WINDOWS_CORE_2022_x86_64; to see what it implements: drydock supports eks CreateNodegroup",
		},
		"remote access with a key that does not exist": {
			func(in *awseks.CreateNodegroupInput) {
				in.RemoteAccess = &ekstypes.RemoteAccessConfig{Ec2SshKey: aws.String("k")}
			},
			"InvalidParameterException", "The key pair 'k' does not exist (Service: Ec2, Status Code: 400)",
		},
		"remote access without a key": {
			func(in *awseks.CreateNodegroupInput) {
				in.RemoteAccess = &ekstypes.RemoteAccessConfig{SourceSecurityGroups: []string{"sg-1"}}
			},
			"InvalidParameterException", "ec2SshKey in remote-access can't be empty",
		},
		"remote access from a group that does not exist": {
			func(in *awseks.CreateNodegroupInput) {
				in.RemoteAccess = &ekstypes.RemoteAccessConfig{Ec2SshKey: aws.String("key"), SourceSecurityGroups: []string{"sg-1", "sg-gone"}}
			},
			"InvalidParameterException", "The security group 'sg-gone' does not exist (Service: Ec2, Status Code: 400)",
		},
		"two thresholds of node repair": {
			func(in *awseks.CreateNodegroupInput) {
				in.NodeRepairConfig = &ekstypes.NodeRepairConfig{Enabled: aws.Bool(true), MaxUnhealthyNodeThresholdCount: aws.Int32(1), MaxUnhealthyNodeThresholdPercentage: aws.Int32(1)}
			},
			"InvalidParameterException", "Either provide max parallel nodes to repair count or percentage in the request.",
		},
		"an override of node repair without all values": {
			func(in *awseks.CreateNodegroupInput) {
				in.NodeRepairConfig = &ekstypes.NodeRepairConfig{Enabled: aws.Bool(true), NodeRepairConfigOverrides: []ekstypes.NodeRepairConfigOverrides{{RepairAction: ekstypes.RepairActionReboot}}}
			},
			"InvalidParameterException", "Invalid nodeRepairConfig: nodeRepairConfigOverrides must specify nodeMonitoringCondition, nodeUnhealthyReason, minRepairWaitTimeMins and repairAction",
		},
		"an override of node repair with another action": {
			func(in *awseks.CreateNodegroupInput) {
				in.NodeRepairConfig = &ekstypes.NodeRepairConfig{Enabled: aws.Bool(true), NodeRepairConfigOverrides: repairOverride("Pray", 1)}
			},
			"InvalidParameterException", "Invalid nodeRepairConfig: invalid repairAction Pray",
		},
		"a warm pool": {
			func(in *awseks.CreateNodegroupInput) {
				in.WarmPoolConfig = &ekstypes.WarmPoolConfig{Enabled: aws.Bool(true)}
			},
			"NotImplemented", "",
		},
	} {
		t.Run(name, func(t *testing.T) {
			in := w.nodegroupInput("dev", "refused", 1)
			tt.change(in)
			_, err := w.client.CreateNodegroup(t.Context(), in)
			if tt.message == "" {
				if !isCode(err, tt.code) {
					t.Errorf("error = %v, want %s", err, tt.code)
				}
				return
			}
			wantError(t, err, tt.code, tt.message)
		})
	}
	_, err := w.client.UpdateNodegroupConfig(t.Context(), &awseks.UpdateNodegroupConfigInput{
		ClusterName: aws.String("dev"), NodegroupName: aws.String("taken"), ScalingConfig: &ekstypes.NodegroupScalingConfig{MinSize: aws.Int32(2)},
	})
	wantError(t, err, "InvalidParameterException", "Minimum capacity 2 can't be greater than desired size 0")
}

func (w *world) template(name string, d *ec2types.ResponseLaunchTemplateData) {
	w.ec2.mu.Lock()
	defer w.ec2.mu.Unlock()
	w.ec2.templates[name] = ec2types.LaunchTemplateVersion{LaunchTemplateId: aws.String("lt-" + name), LaunchTemplateName: &name, VersionNumber: aws.Int64(7), LaunchTemplateData: d}
}

func TestAUsersLaunchTemplateIsMerged(t *testing.T) {
	w := newWorld(t)
	w.cluster("dev", ekstypes.AuthenticationModeApi)
	own := "MIME-Version: 1.0\nContent-Type: multipart/mixed; boundary=\"mine\"\n\n--mine\nContent-Type: text/x-shellscript\n\n#!/bin/sh\necho hello\n--mine--\n"
	w.template("mine", &ec2types.ResponseLaunchTemplateData{
		UserData: aws.String(base64.StdEncoding.EncodeToString([]byte(own))), SecurityGroupIds: []string{"sg-1"}, KeyName: aws.String("key"), InstanceType: "t3.large",
	})
	in := w.nodegroupInput("dev", "ng", 1)
	in.LaunchTemplate = &ekstypes.LaunchTemplateSpecification{Name: aws.String("mine"), Version: aws.String("7")}
	if _, err := w.client.CreateNodegroup(t.Context(), in); err != nil {
		t.Fatal(err)
	}
	g := w.waitNodegroup("dev", "ng", ekstypes.NodegroupStatusActive)
	if g.DiskSize != nil || len(g.InstanceTypes) != 0 || *g.LaunchTemplate.Id != "lt-mine" || *g.LaunchTemplate.Version != "7" {
		t.Errorf("node group = %+v, template %+v", g, g.LaunchTemplate)
	}
	uuid := (*g.NodegroupArn)[strings.LastIndexByte(*g.NodegroupArn, '/')+1:]
	w.ec2.mu.Lock()
	d := w.ec2.templates["eks-"+uuid].LaunchTemplateData
	w.ec2.mu.Unlock()
	raw, err := base64.StdEncoding.DecodeString(*d.UserData)
	if err != nil {
		t.Fatal(err)
	}
	if cfg, err := userdata.Parse(images.AL2023, raw); err != nil || cfg.ClusterName != "dev" || cfg.MaxPods != 35 || !strings.Contains(string(raw), "echo hello") {
		t.Errorf("user data (%v):\n%s", err, raw)
	}
	if diff := cmp.Diff([]string{"sg-1"}, d.SecurityGroupIds); diff != "" || *d.KeyName != "key" || d.InstanceType != "t3.large" {
		t.Errorf("merged template = %+v", d)
	}
	for _, n := range w.nodes() {
		if n.Labels["eks.amazonaws.com/sourceLaunchTemplateId"] != "lt-mine" {
			t.Errorf("labels = %v", n.Labels)
		}
	}
}

func TestACustomImageKeepsItsUserData(t *testing.T) {
	w := newWorld(t)
	w.cluster("dev", ekstypes.AuthenticationModeApi)
	own := base64.StdEncoding.EncodeToString([]byte("#!/bin/sh\njoin by hand\n"))
	w.template("custom", &ec2types.ResponseLaunchTemplateData{ImageId: aws.String("ami-custom"), UserData: &own})
	in := w.nodegroupInput("dev", "ng", 1)
	in.LaunchTemplate = &ekstypes.LaunchTemplateSpecification{Id: aws.String("lt-custom")}
	in.Labels = map[string]string{"tier": "web"}
	in.Taints = []ekstypes.Taint{{Key: aws.String("only"), Value: aws.String("web"), Effect: ekstypes.TaintEffectNoSchedule}}
	if _, err := w.client.CreateNodegroup(t.Context(), in); err != nil {
		t.Fatal(err)
	}
	if g := w.waitNodegroup("dev", "ng", ekstypes.NodegroupStatusActive); g.AmiType != ekstypes.AMITypesCustom {
		t.Errorf("amiType = %s", g.AmiType)
	}
	// EKS labels and taints nodes that joined without its user data.
	testkit.Eventually(t, 10*time.Second, func() error {
		n := w.nodes()[0]
		if n.Labels["tier"] != "web" || n.Labels["eks.amazonaws.com/nodegroup"] != "ng" || len(n.Spec.Taints) != 1 {
			return fmt.Errorf("labels %v, taints %v", n.Labels, n.Spec.Taints)
		}
		return nil
	})
}

func TestLaunchTemplatesEKSRefuses(t *testing.T) {
	w := newWorld(t)
	w.cluster("dev", ekstypes.AuthenticationModeApi)
	profile := &ec2types.LaunchTemplateIamInstanceProfileSpecification{Name: aws.String("p")}
	for name, tt := range map[string]struct {
		data    ec2types.ResponseLaunchTemplateData
		change  func(*awseks.CreateNodegroupInput)
		message string
	}{
		"an instance profile": {ec2types.ResponseLaunchTemplateData{IamInstanceProfile: profile}, nil,
			"Launch template t should not specify an instance profile. The noderole in your request will be used to construct an instance profile."},
		"a subnet": {ec2types.ResponseLaunchTemplateData{NetworkInterfaces: []ec2types.LaunchTemplateInstanceNetworkInterfaceSpecification{{SubnetId: aws.String("subnet-a")}}}, nil,
			"You must not specify a subnet in your launch template. All subnets must be specified in the API."},
		"two network interfaces": {ec2types.ResponseLaunchTemplateData{NetworkInterfaces: make([]ec2types.LaunchTemplateInstanceNetworkInterfaceSpecification, 2)}, nil,
			"Launch template t can only have a max of one network interface."},
		"spot": {ec2types.ResponseLaunchTemplateData{InstanceMarketOptions: &ec2types.LaunchTemplateInstanceMarketOptions{MarketType: "spot"}}, nil,
			"Launch template t should not specify spot market options."},
		"hibernation": {ec2types.ResponseLaunchTemplateData{HibernationOptions: &ec2types.LaunchTemplateHibernationOptions{Configured: aws.Bool(true)}}, nil,
			"Launch template t should not specify hibernation options."},
		"a shutdown behaviour": {ec2types.ResponseLaunchTemplateData{InstanceInitiatedShutdownBehavior: "terminate"}, nil,
			"Launch template t should not specify a shutdown behavior."},
		"instance types twice": {ec2types.ResponseLaunchTemplateData{InstanceType: "t3.large"}, func(in *awseks.CreateNodegroupInput) { in.InstanceTypes = []string{"t3.medium"} },
			"Cannot specify instance types in launch template and API request"},
		"a disk size": {ec2types.ResponseLaunchTemplateData{}, func(in *awseks.CreateNodegroupInput) { in.DiskSize = aws.Int32(40) }, "Disk size must be specified within the launch template."},
		"an image and an AMI type": {ec2types.ResponseLaunchTemplateData{ImageId: aws.String("ami-1")}, func(in *awseks.CreateNodegroupInput) { in.AmiType = ekstypes.AMITypesAl2023X8664Standard },
			"You cannot specify an AMI Type other than CUSTOM, when specifying an image id in your launch template."},
		"an image and a version": {ec2types.ResponseLaunchTemplateData{ImageId: aws.String("ami-1")}, func(in *awseks.CreateNodegroupInput) { in.Version = aws.String("1.36") },
			"You cannot specify a kubernetes version to use when specifying an image id to use within the launch template."},
		"an image and a release": {ec2types.ResponseLaunchTemplateData{ImageId: aws.String("ami-1")}, func(in *awseks.CreateNodegroupInput) { in.ReleaseVersion = aws.String("1.36.1-20260709") },
			"You cannot specify a release version to use when specifying an image id to use within the launch template."},
		"an ID and a name": {ec2types.ResponseLaunchTemplateData{}, func(in *awseks.CreateNodegroupInput) { in.LaunchTemplate.Id = aws.String("lt-x") },
			"Either provide launch template ID or launch template name in the request."},
		"no such template": {ec2types.ResponseLaunchTemplateData{}, func(in *awseks.CreateNodegroupInput) { in.LaunchTemplate.Name = aws.String("nope") }, "The specified launch template does not exist."},
	} {
		t.Run(name, func(t *testing.T) {
			w.template("t", &tt.data)
			in := w.nodegroupInput("dev", "refused", 1)
			in.LaunchTemplate = &ekstypes.LaunchTemplateSpecification{Name: aws.String("t")}
			if tt.change != nil {
				tt.change(in)
			}
			_, err := w.client.CreateNodegroup(t.Context(), in)
			code := "InvalidParameterException"
			if name == "instance types twice" { // as reported by users of AWS
				code = "InvalidRequestException"
			}
			wantError(t, err, code, tt.message)
		})
	}
}

// held keeps booting instances from joining until it is released.
func (w *world) held() (waiting func(n int) []func()) {
	var mu sync.Mutex
	var joins []func()
	w.ec2.mu.Lock()
	defer w.ec2.mu.Unlock()
	w.ec2.launched = func(i ec2types.Instance, userData string) {
		mu.Lock()
		defer mu.Unlock()
		joins = append(joins, func() { w.boot(i, userData) })
	}
	return func(n int) (out []func()) {
		w.Helper()
		testkit.Eventually(w, 10*time.Second, func() error {
			mu.Lock()
			defer mu.Unlock()
			if len(joins) != n {
				return fmt.Errorf("%d instances booted, want %d", len(joins), n)
			}
			out = joins
			return nil
		})
		return out
	}
}

func TestInstancesAreNotListedForEveryNode(t *testing.T) {
	w := newWorld(t)
	w.cluster("dev", ekstypes.AuthenticationModeApi)
	waiting := w.held()
	const size = 10
	begin := time.Now()
	if _, err := w.client.CreateNodegroup(t.Context(), w.nodegroupInput("dev", "ng", size)); err != nil {
		t.Fatal(err)
	}
	tick := time.NewTicker(30 * time.Millisecond)
	defer tick.Stop()
	for _, join := range waiting(size) {
		<-tick.C
		join()
	}
	w.waitNodegroup("dev", "ng", ekstypes.NodegroupStatusActive)
	w.ec2.mu.Lock()
	defer w.ec2.mu.Unlock()
	if most := 5 + 2*int(time.Since(begin)/time.Second); w.ec2.described > most {
		t.Errorf("%d lists of instances while %d nodes joined, want %d at most", w.ec2.described, size, most)
	}
}

func TestNodesThatJoinDuringAnUpdateGetItsLabels(t *testing.T) {
	w := newWorld(t)
	w.cluster("dev", ekstypes.AuthenticationModeApi)
	w.nodegroup("dev", "ng", 1)
	waiting := w.held()
	w.updateNodegroup(&awseks.UpdateNodegroupConfigInput{ScalingConfig: &ekstypes.NodegroupScalingConfig{DesiredSize: aws.Int32(2)}})
	join := waiting(1)[0]

	up, err := w.client.UpdateNodegroupConfig(t.Context(), &awseks.UpdateNodegroupConfigInput{
		ClusterName: aws.String("dev"), NodegroupName: aws.String("ng"),
		Labels: &ekstypes.UpdateLabelsPayload{AddOrUpdateLabels: map[string]string{"tier": "web"}},
	})
	if err != nil {
		t.Fatal(err)
	}
	testkit.Eventually(t, 10*time.Second, func() error {
		if n := w.nodes()[0]; n.Labels["tier"] != "web" {
			return fmt.Errorf("node %s has labels %v", n.Name, n.Labels)
		}
		return nil
	})
	got, err := w.client.DescribeUpdate(t.Context(), &awseks.DescribeUpdateInput{Name: aws.String("dev"), NodegroupName: aws.String("ng"), UpdateId: up.Update.Id})
	if err != nil || got.Update.Status != ekstypes.UpdateStatusInProgress {
		t.Errorf("update = %+v, %v; want it in progress while an instance is joining", got, err)
	}
	join()
	w.waitNodegroup("dev", "ng", ekstypes.NodegroupStatusActive)
	for _, n := range w.nodes() {
		if n.Labels["tier"] != "web" {
			t.Errorf("node %s has labels %v", n.Name, n.Labels)
		}
	}
}

func TestTheLastGroupOfARoleTakesItsAccessEntryAway(t *testing.T) {
	w := newWorld(t)
	w.cluster("dev", ekstypes.AuthenticationModeApi)
	w.nodegroup("dev", "first", 0)
	w.nodegroup("dev", "second", 0)
	entry := func() error {
		_, err := w.client.DescribeAccessEntry(t.Context(), &awseks.DescribeAccessEntryInput{ClusterName: aws.String("dev"), PrincipalArn: aws.String(w.arn("role/node"))})
		return err
	}
	w.deleteNodegroup("dev", "first")
	if err := entry(); err != nil {
		t.Errorf("the entry went with the first group: %v", err)
	}
	w.deleteNodegroup("dev", "second")
	if err := entry(); !isCode(err, "ResourceNotFoundException") {
		t.Errorf("the entry outlived the last group: %v", err)
	}
}

func TestANodeRoleStaysWithAGroupMadeWhileItsLastOneGoes(t *testing.T) {
	for _, mode := range []ekstypes.AuthenticationMode{ekstypes.AuthenticationModeConfigMap, ekstypes.AuthenticationModeApiAndConfigMap} {
		t.Run(string(mode), func(t *testing.T) {
			w := newWorld(t)
			w.cluster("dev", mode)
			w.nodegroup("dev", "first", 0)
			var once sync.Once
			cs := w.kubernetes()
			// The first group checks aws-auth once it is the last one.
			cs.PrependReactor("get", "configmaps", func(k8stesting.Action) (bool, runtime.Object, error) {
				once.Do(func() {
					if _, err := w.client.CreateNodegroup(t.Context(), w.nodegroupInput("dev", "second", 0)); err != nil {
						t.Error(err)
					}
				})
				return false, nil, nil
			})
			w.deleteNodegroup("dev", "first")
			w.waitNodegroup("dev", "second", ekstypes.NodegroupStatusActive)
			if mode == ekstypes.AuthenticationModeConfigMap {
				cm, err := cs.CoreV1().ConfigMaps("kube-system").Get(t.Context(), "aws-auth", metav1.GetOptions{})
				if err != nil || !strings.Contains(cm.Data["mapRoles"], w.arn("role/node")) {
					t.Errorf("aws-auth = %v, %v", cm, err)
				}
				return
			}
			entry := &awseks.DescribeAccessEntryInput{ClusterName: aws.String("dev"), PrincipalArn: aws.String(w.arn("role/node"))}
			if _, err := w.client.DescribeAccessEntry(t.Context(), entry); err != nil {
				t.Errorf("the entry went with the first group: %v", err)
			}
			w.deleteNodegroup("dev", "second")
			if _, err := w.client.DescribeAccessEntry(t.Context(), entry); !isCode(err, "ResourceNotFoundException") {
				t.Errorf("the entry outlived the last group: %v", err)
			}
		})
	}
}
