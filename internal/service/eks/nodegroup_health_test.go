package eks_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	awsautoscaling "github.com/aws/aws-sdk-go-v2/service/autoscaling"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"
	awseks "github.com/aws/aws-sdk-go-v2/service/eks"
	ekstypes "github.com/aws/aws-sdk-go-v2/service/eks/types"
	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	k8stesting "k8s.io/client-go/testing"

	"github.com/drydock-dev/drydock/internal/awsapi/awserr"
	"github.com/drydock-dev/drydock/internal/clock"
)

// ready makes every node Ready or NotReady.
func (w *world) ready(status corev1.ConditionStatus) {
	w.Helper()
	for _, n := range w.nodes() {
		n.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: status}}
		if _, err := w.kubernetes().CoreV1().Nodes().UpdateStatus(w.Context(), &n, metav1.UpdateOptions{}); err != nil {
			w.Fatal(err)
		}
	}
}

// awsAuth replaces the mapRoles of aws-auth.
func (w *world) awsAuth(mapRoles string) {
	w.Helper()
	maps := w.kubernetes().CoreV1().ConfigMaps("kube-system")
	cm, err := maps.Get(w.Context(), "aws-auth", metav1.GetOptions{})
	if err == nil {
		cm = cm.DeepCopy()
		cm.Data["mapRoles"] = mapRoles
		_, err = maps.Update(w.Context(), cm, metav1.UpdateOptions{})
	}
	if err != nil {
		w.Fatal(err)
	}
}

// Problems of an ACTIVE group make it DEGRADED, with AWS's code. Once they are fixed, it is ACTIVE
// again.
func TestWhatDegradesANodegroup(t *testing.T) {
	uuidOf := func(g *ekstypes.Nodegroup) string {
		return (*g.NodegroupArn)[strings.LastIndexByte(*g.NodegroupArn, '/')+1:]
	}
	for name, tt := range map[string]struct {
		mode    ekstypes.AuthenticationMode
		harm    func(w *world, g *ekstypes.Nodegroup) (mend func())
		code    ekstypes.NodegroupIssueCode
		message string
		// about returns the resource ID in the issue, given the group's UUID and its first
		// instance.
		about func(w *world, g *ekstypes.Nodegroup) string
	}{
		"the node role is gone": {
			harm: func(w *world, _ *ekstypes.Nodegroup) func() {
				w.iam.remove(w.arn("role/node"))
				return func() { w.iam.add(w.arn("role/node"), "AROANODE", "ec2.amazonaws.com") }
			},
			code:    "IamNodeRoleNotFound",
			message: "We couldn't find the IAM role for your managed node group. You may be able to recreate an IAM role with the same settings to recover.",
			about:   func(w *world, _ *ekstypes.Nodegroup) string { return w.arn("role/node") },
		},
		"the instance profile is gone": {
			harm: func(w *world, g *ekstypes.Nodegroup) func() {
				w.iam.mu.Lock()
				defer w.iam.mu.Unlock()
				delete(w.iam.profiles, "eks-"+uuidOf(g))
				return func() {
					w.iam.mu.Lock()
					defer w.iam.mu.Unlock()
					w.iam.profiles["eks-"+uuidOf(g)] = "node"
				}
			},
			code:    "IamInstanceProfileNotFound",
			message: "We couldn't find the IAM instance profile for your managed node group. You may be able to recreate an instance profile with the same settings to recover.",
			about:   func(_ *world, g *ekstypes.Nodegroup) string { return "eks-" + uuidOf(g) },
		},
		"the launch template is gone": {
			harm: func(w *world, g *ekstypes.Nodegroup) func() {
				w.ec2.mu.Lock()
				defer w.ec2.mu.Unlock()
				name := "eks-" + uuidOf(g)
				kept := w.ec2.templates[name]
				delete(w.ec2.templates, name)
				return func() {
					w.ec2.mu.Lock()
					defer w.ec2.mu.Unlock()
					w.ec2.templates[name] = kept
				}
			},
			code:    "Ec2LaunchTemplateNotFound",
			message: "We couldn't find the Amazon EC2 launch template for your managed node group. You may be able to recreate a launch template with the same settings to recover.",
		},
		"the cluster's security group is gone": {
			harm: func(w *world, _ *ekstypes.Nodegroup) func() {
				id := *w.waitCluster("dev", ekstypes.ClusterStatusActive).ResourcesVpcConfig.ClusterSecurityGroupId
				w.ec2.mu.Lock()
				defer w.ec2.mu.Unlock()
				kept := w.ec2.groups[id]
				delete(w.ec2.groups, id)
				return func() {
					w.ec2.mu.Lock()
					defer w.ec2.mu.Unlock()
					w.ec2.groups[id] = kept
				}
			},
			code: "Ec2SecurityGroupNotFound", message: "We couldn't find the cluster security group for the cluster. You must recreate your cluster.",
		},
		"the control plane does not answer": {
			harm: func(w *world, _ *ekstypes.Nodegroup) func() {
				var answers atomic.Bool
				w.kubernetes().PrependReactor("list", "nodes", func(k8stesting.Action) (bool, runtime.Object, error) {
					return !answers.Load(), nil, errors.New("connection refused")
				})
				w.restart()
				return func() { answers.Store(true) }
			},
			code: "ClusterUnreachable",
			message: "Amazon EKS or one or more of your managed nodes is unable to to communicate with your Kubernetes cluster API server. " +
				"This can happen if there are network disruptions or if API servers are timing out processing requests.",
			about: func(*world, *ekstypes.Nodegroup) string { return "dev" },
		},
		"a subnet is gone": {
			harm: func(w *world, _ *ekstypes.Nodegroup) func() {
				w.ec2.fail(&w.ec2.subnetErr, awserr.New("InvalidSubnetID.NotFound", "The subnet ID 'subnet-b' does not exist"))
				return func() { w.ec2.fail(&w.ec2.subnetErr, nil) }
			},
			code: "Ec2SubnetNotFound", message: "The subnet ID 'subnet-b' does not exist",
			about: func(*world, *ekstypes.Nodegroup) string { return "subnet-b" },
		},
		"somebody launches from another version of the template": {
			harm: func(w *world, g *ekstypes.Nodegroup) func() {
				return w.editScalingGroup(g, func(in *awsautoscaling.UpdateAutoScalingGroupInput) {
					in.MixedInstancesPolicy.LaunchTemplate.LaunchTemplateSpecification.Version = aws.String("$Latest")
				})
			},
			code:    "Ec2LaunchTemplateVersionMismatch",
			message: "The Amazon EC2 Launch Template : LT has a new version associated with your Autoscaling group, which is not managed by Amazon EKS. Expected Launch Template version: 1",
			about:   func(_ *world, g *ekstypes.Nodegroup) string { return *g.Resources.AutoScalingGroups[0].Name },
		},
		"somebody moved the Auto Scaling group": {
			harm: func(w *world, g *ekstypes.Nodegroup) func() {
				return w.editScalingGroup(g, func(in *awsautoscaling.UpdateAutoScalingGroupInput) {
					in.VPCZoneIdentifier = aws.String("subnet-a,subnet-c")
				})
			},
			code:    "AutoScalingGroupInvalidConfiguration",
			message: "The Auto Scaling group associated with the managed node group was modified outside of Amazon EKS: its subnets are not those of the node group.",
			about:   func(_ *world, g *ekstypes.Nodegroup) string { return *g.Resources.AutoScalingGroups[0].Name },
		},
		"the role is not mapped": {
			mode: ekstypes.AuthenticationModeConfigMap,
			harm: func(w *world, _ *ekstypes.Nodegroup) func() {
				w.awsAuth("[]")
				return func() { w.awsAuth(nodeMapping(w.arn("role/node"))) }
			},
			code:    "AccessDenied",
			message: "Your worker nodes do not have access to the cluster. Verify if the node instance role is present and correctly configured in the aws-auth ConfigMap.",
			about:   func(w *world, _ *ekstypes.Nodegroup) string { return w.arn("role/node") },
		},
		"aws-auth is not YAML": {
			mode: ekstypes.AuthenticationModeConfigMap,
			harm: func(w *world, _ *ekstypes.Nodegroup) func() {
				w.awsAuth("- rolearn: [")
				return func() { w.awsAuth(nodeMapping(w.arn("role/node"))) }
			},
			code: "AccessDenied", message: "The aws-auth ConfigMap in your cluster is invalid.",
			about: func(*world, *ekstypes.Nodegroup) string { return "dev" },
		},
		"the access entry is gone": {
			harm: func(w *world, _ *ekstypes.Nodegroup) func() {
				if _, err := w.client.DeleteAccessEntry(w.Context(), &awseks.DeleteAccessEntryInput{ClusterName: aws.String("dev"), PrincipalArn: aws.String(w.arn("role/node"))}); err != nil {
					w.Fatal(err)
				}
				return func() {
					if _, err := w.client.CreateAccessEntry(w.Context(), &awseks.CreateAccessEntryInput{ClusterName: aws.String("dev"), PrincipalArn: aws.String(w.arn("role/node")), Type: aws.String("EC2_LINUX")}); err != nil {
						w.Fatal(err)
					}
				}
			},
			code:    "AccessDenied",
			message: "Your worker nodes do not have access to the cluster. Verify if the node instance role has an access entry of type EC2_LINUX.",
			about:   func(w *world, _ *ekstypes.Nodegroup) string { return w.arn("role/node") },
		},
		"a node is NotReady": {
			harm: func(w *world, _ *ekstypes.Nodegroup) func() {
				w.ready(corev1.ConditionUnknown)
				return func() { w.ready(corev1.ConditionTrue) }
			},
			code: "NodeCreationFailure", message: "Unhealthy nodes in the kubernetes cluster",
			about: func(w *world, _ *ekstypes.Nodegroup) string { return *w.ec2.running()[0].InstanceId },
		},
		"a node is gone": {
			harm: func(w *world, _ *ekstypes.Nodegroup) func() {
				n := w.nodes()[0]
				if err := w.kubernetes().CoreV1().Nodes().Delete(w.Context(), n.Name, metav1.DeleteOptions{}); err != nil {
					w.Fatal(err)
				}
				return func() { w.boot(w.ec2.running()[0], "") }
			},
			code: "NodeCreationFailure", message: "Unhealthy nodes in the kubernetes cluster",
			about: func(w *world, _ *ekstypes.Nodegroup) string { return *w.ec2.running()[0].InstanceId },
		},
		"no more instances": {
			harm: func(w *world, g *ekstypes.Nodegroup) func() {
				w.ec2.fail(&w.ec2.launchErr, awserr.New("VcpuLimitExceeded", "You have requested more vCPU capacity than your current vCPU limit of 2 allows."))
				size := w.resize(g, 2)
				return func() { w.ec2.fail(&w.ec2.launchErr, nil); size() }
			},
			code:    "InstanceLimitExceeded",
			message: "Could not launch On-Demand Instances. VcpuLimitExceeded - You have requested more vCPU capacity than your current vCPU limit of 2 allows. Launching EC2 instance failed.",
			about:   func(_ *world, g *ekstypes.Nodegroup) string { return *g.Resources.AutoScalingGroups[0].Name },
		},
		"the subnets are full": {
			harm: func(w *world, g *ekstypes.Nodegroup) func() {
				w.ec2.fail(&w.ec2.launchErr, awserr.New("InsufficientFreeAddressesInSubnet", "The specified subnet does not have enough free addresses to satisfy the request."))
				size := w.resize(g, 2)
				return func() { w.ec2.fail(&w.ec2.launchErr, nil); size() }
			},
			code:    "InsufficientFreeAddresses",
			message: "Could not launch On-Demand Instances. InsufficientFreeAddressesInSubnet - The specified subnet does not have enough free addresses to satisfy the request. Launching EC2 instance failed.",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, withClock)
			if tt.mode == "" {
				tt.mode = ekstypes.AuthenticationModeApi
			}
			w.cluster("dev", tt.mode)
			g := w.nodegroup("dev", "ng", 1)
			mend := tt.harm(w, g)
			bad := w.waitNodegroup("dev", "ng", ekstypes.NodegroupStatusDegraded)
			i := bad.Health.Issues[0]
			if got := anonymous(*i.Message); len(bad.Health.Issues) != 1 || i.Code != tt.code || got != tt.message {
				t.Errorf("issues = %s", asJSON(bad.Health.Issues))
			}
			if tt.about != nil {
				if diff := cmp.Diff([]string{tt.about(w, g)}, i.ResourceIds); diff != "" {
					t.Error(diff)
				}
			}
			mend()
			if g := w.waitNodegroup("dev", "ng", ekstypes.NodegroupStatusActive); len(g.Health.Issues) != 0 {
				t.Errorf("issues = %s", asJSON(g.Health.Issues))
			}
		})
	}
}

// Problems that keep a new group's nodes from joining make it CREATE_FAILED for good.
func TestWhatFailsANewNodegroup(t *testing.T) {
	for name, tt := range map[string]struct {
		harm    func(w *world)
		mend    func(w *world)
		code    ekstypes.NodegroupIssueCode
		message string
		number  int // number of resources in the issue
	}{
		"nothing joins": {
			harm: func(w *world) { w.ec2.onLaunch(nil) },
			mend: func(w *world) {
				for _, i := range w.ec2.running() {
					w.boot(i, "")
				}
			},
			code: "NodeCreationFailure", message: "Instances failed to join the kubernetes cluster", number: 2,
		},
		"nodes stay NotReady": {
			harm: func(w *world) {
				w.ec2.onLaunch(func(i ec2types.Instance, data string) { w.boot(i, data); w.ready(corev1.ConditionFalse) })
			},
			mend: func(w *world) { w.ready(corev1.ConditionTrue) },
			code: "NodeCreationFailure", message: "Unhealthy nodes in the kubernetes cluster", number: 2,
		},
		"subnets that give no public address": {
			harm: func(w *world) {
				w.ec2.mu.Lock()
				defer w.ec2.mu.Unlock()
				w.ec2.tables = []ec2types.RouteTable{{
					Associations: []ec2types.RouteTableAssociation{{SubnetId: aws.String("subnet-b")}},
					Routes:       []ec2types.Route{{DestinationCidrBlock: aws.String("0.0.0.0/0"), GatewayId: aws.String("igw-1")}},
				}, {Associations: []ec2types.RouteTableAssociation{{Main: aws.Bool(true)}}}}
			},
			mend: func(w *world) { w.ec2.mu.Lock(); w.ec2.tables = nil; w.ec2.mu.Unlock() },
			code: "Ec2SubnetInvalidConfiguration", number: 1,
			message: "One or more Amazon EC2 Subnets of [subnet-b] for node group ng does not automatically assign public IP addresses to instances launched into it. If you want your instances to be assigned a public IP address, then you need to enable auto-assign public IP address for the subnet. See IP addressing in VPC guide: https://docs.aws.amazon.com/vpc/latest/userguide/vpc-ip-addressing.html#subnet-public-ip",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, withClock)
			w.cluster("dev", ekstypes.AuthenticationModeApi)
			tt.harm(w)
			if _, err := w.client.CreateNodegroup(t.Context(), w.nodegroupInput("dev", "ng", 2)); err != nil {
				t.Fatal(err)
			}
			g := w.waitNodegroup("dev", "ng", ekstypes.NodegroupStatusCreateFailed)
			if i := g.Health.Issues[0]; len(g.Health.Issues) != 1 || i.Code != tt.code || *i.Message != tt.message || len(i.ResourceIds) != tt.number {
				t.Errorf("issues = %s", asJSON(g.Health.Issues))
			}
			tt.mend(w)
			for range 20 {
				w.fake.Step(time.Second)
			}
			w.waitNodegroup("dev", "ng", ekstypes.NodegroupStatusCreateFailed)
			_, err := w.client.UpdateNodegroupConfig(t.Context(), &awseks.UpdateNodegroupConfigInput{
				ClusterName: aws.String("dev"), NodegroupName: aws.String("ng"), ScalingConfig: &ekstypes.NodegroupScalingConfig{DesiredSize: aws.Int32(1)},
			})
			wantError(t, err, "ResourceInUseException", "Nodegroup cannot be updated as it is currently not in Active State")
			w.deleteNodegroup("dev", "ng")
		})
	}
}

// While the control plane of a new group does not answer, as after a crash, EKS does not know whether nodes have joined. It
// decides when the control plane answers, also if the time to join has run out by then.
func TestANewNodegroupWhoseControlPlaneIsGone(t *testing.T) {
	for name, tt := range map[string]struct {
		joined, answers bool
		status          ekstypes.NodegroupStatus
		code            ekstypes.NodegroupIssueCode
	}{
		"nothing joined":   {answers: true, status: ekstypes.NodegroupStatusCreateFailed, code: ekstypes.NodegroupIssueCodeNodeCreationFailure},
		"nodes had joined": {joined: true, answers: true, status: ekstypes.NodegroupStatusActive},
		"for good":         {status: ekstypes.NodegroupStatusCreateFailed, code: ekstypes.NodegroupIssueCodeClusterUnreachable},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, withClock, func(w *world) { w.timing.NodegroupTimeout = 2 * time.Hour })
			w.cluster("dev", ekstypes.AuthenticationModeApi)
			w.ec2.onLaunch(nil)
			if _, err := w.client.CreateNodegroup(t.Context(), w.nodegroupInput("dev", "ng", 2)); err != nil {
				t.Fatal(err)
			}
			w.eventually(func() error {
				if n := len(w.ec2.running()); n != 2 {
					return fmt.Errorf("%d instances", n)
				}
				return nil
			})
			var answers atomic.Bool
			w.kubernetes().PrependReactor("list", "nodes", func(k8stesting.Action) (bool, runtime.Object, error) {
				return !answers.Load(), nil, errors.New("connection refused")
			})
			w.restart()
			if tt.joined {
				for _, i := range w.ec2.running() {
					w.boot(i, "")
				}
			}
			w.pace = time.Minute
			if began := w.fake.Now(); tt.answers {
				w.eventually(func() error {
					if w.fake.Since(began) < 3*time.Hour {
						return errors.New("the time to join has not run out")
					}
					return nil
				})
				w.pace = time.Second
				answers.Store(true)
			}
			g := w.waitNodegroup("dev", "ng", tt.status)
			if tt.code == "" {
				return
			}
			if len(g.Health.Issues) != 1 || g.Health.Issues[0].Code != tt.code {
				t.Errorf("issues = %s", asJSON(g.Health.Issues))
			}
		})
	}
}

// With --timing aws, creating a cluster and a node group takes as long as on AWS. The test does not
// measure how much longer: the clock advances whenever the test checks.
func TestAWSTiming(t *testing.T) {
	t.Parallel()
	w := newWorld(t, withClock, func(w *world) { w.timing, w.pace = clock.AWS(), 20*time.Second })
	begin := w.fake.Now()
	w.cluster("dev", ekstypes.AuthenticationModeApi)
	if took := w.fake.Since(begin); took < 9*time.Minute {
		t.Errorf("the cluster took %s", took)
	}
	begin = w.fake.Now()
	w.nodegroup("dev", "ng", 1)
	if took := w.fake.Since(begin); took < 90*time.Second {
		t.Errorf("the node group took %s", took)
	}
	w.ec2.onLaunch(nil)
	begin = w.fake.Now()
	in := w.nodegroupInput("dev", "out", 1)
	if _, err := w.client.CreateNodegroup(t.Context(), in); err != nil {
		t.Fatal(err)
	}
	w.waitNodegroup("dev", "out", ekstypes.NodegroupStatusCreateFailed)
	if took := w.fake.Since(begin); took < 24*time.Minute {
		t.Errorf("giving up took %s", took)
	}
}

// editScalingGroup changes the Auto Scaling group without EKS.
func (w *world) editScalingGroup(g *ekstypes.Nodegroup, change func(*awsautoscaling.UpdateAutoScalingGroupInput)) (undo func()) {
	w.Helper()
	now := w.scalingGroups()[0]
	in := func() *awsautoscaling.UpdateAutoScalingGroupInput {
		in := &awsautoscaling.UpdateAutoScalingGroupInput{AutoScalingGroupName: g.Resources.AutoScalingGroups[0].Name, VPCZoneIdentifier: now.VPCZoneIdentifier}
		raw, err := json.Marshal(now.MixedInstancesPolicy)
		if err == nil {
			err = json.Unmarshal(raw, &in.MixedInstancesPolicy)
		}
		if err != nil {
			w.Fatal(err)
		}
		in.MixedInstancesPolicy.LaunchTemplate.LaunchTemplateSpecification.LaunchTemplateName = nil
		return in
	}
	changed := in()
	change(changed)
	if _, err := w.asg.UpdateAutoScalingGroup(w.Context(), changed); err != nil {
		w.Fatal(err)
	}
	return func() {
		if _, err := w.asg.UpdateAutoScalingGroup(w.Context(), in()); err != nil {
			w.Fatal(err)
		}
	}
}

// resize sets the size of the Auto Scaling group. undo sets it back to 1.
func (w *world) resize(g *ekstypes.Nodegroup, n int32) (undo func()) {
	w.Helper()
	set := func(n int32) {
		if _, err := w.asg.SetDesiredCapacity(w.Context(), &awsautoscaling.SetDesiredCapacityInput{AutoScalingGroupName: g.Resources.AutoScalingGroups[0].Name, DesiredCapacity: &n}); err != nil {
			w.Fatal(err)
		}
	}
	set(n)
	return func() { set(1) }
}

func nodeMapping(role string) string {
	return "- rolearn: " + role + "\n  username: system:node:{{EC2PrivateDNSName}}\n  groups: [system:bootstrappers, system:nodes]\n"
}

// anonymous replaces the IDs of launch templates.
func anonymous(text string) string {
	for f := range strings.FieldsSeq(text) {
		if strings.HasPrefix(f, "lt-") {
			text = strings.ReplaceAll(text, f, "LT")
		}
	}
	return text
}

func asJSON(v any) string {
	raw, err := json.MarshalIndent(v, "", "  ")
	return fmt.Sprint(string(raw), errors.Join(err))
}
