package simulated_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"

	"github.com/drydock-dev/drydock/internal/machine"
	"github.com/drydock-dev/drydock/internal/node"
)

// ready returns the node's Ready condition.
func (b *bench) ready() corev1.NodeCondition { return b.api.node(nodeName).Status.Conditions[3] }

// A node becomes Ready when its pod of aws-node runs, and stays Ready without it.
func TestCNIIsAPod(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		b.api.daemons = func() []*corev1.Pod { return nil }
		b.launch(b.instance())
		host := pod("host")
		host.Spec.HostNetwork = true
		b.api.bind(nodeName, host)
		b.api.bind(nodeName, pod("web"))
		after(time.Minute)
		const notReady = "container runtime network not ready: NetworkReady=false reason:NetworkPluginNotReady message:Network plugin returns error: cni plugin not initialized"
		if c := b.ready(); c.Status != corev1.ConditionFalse || c.Message != notReady {
			t.Errorf("without aws-node: %+v", c)
		}
		if got := b.api.pod("host").Status.Phase; got != corev1.PodRunning {
			t.Errorf("the pod of the host network is %s", got)
		}
		if got := b.said("web"); !slices.Contains(got, "NetworkNotReady: network is not ready: "+notReady) {
			t.Errorf("events %q", got)
		}
		b.api.bind(nodeName, b.awsNode())
		after(time.Second)
		if c := b.ready(); c.Status != corev1.ConditionTrue {
			t.Errorf("with aws-node: %+v", c)
		}
		if got := b.api.pod("web").Status.Phase; got != corev1.PodRunning {
			t.Errorf("the pod that waited is %s", got)
		}

		b.api.deletePod("kube-system/aws-node", 0)
		after(time.Second)
		b.api.bind(nodeName, pod("late"))
		after(time.Minute)
		if c := b.ready(); c.Status != corev1.ConditionTrue {
			t.Errorf("after aws-node: %+v", c)
		}
		if got := b.said("late"); !strings.HasSuffix(got[0], `dial tcp 127.0.0.1:50051: connect: connection refused"`) {
			t.Errorf("events %q", got)
		}
		b.api.bind(nodeName, b.awsNode())
		after(time.Minute)
		if got := b.api.pod("late").Status.Phase; got != corev1.PodRunning {
			t.Errorf("with aws-node again: %s", got)
		}
	})
}

// If aws-node may not call EC2, it reports that, and is not ready until it may.
func TestCNIWithoutPermission(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		b.call = func(c node.Call) error {
			if c.Action == node.ActionAssignAddresses {
				return &node.Refusal{Err: errors.New("UnauthorizedOperation"), Decision: node.Decision{By: node.ByIAM, Component: c.Action}}
			}
			return nil
		}
		b.launch(b.instance())
		after(time.Minute)
		if c := b.ready(); c.Status != corev1.ConditionFalse {
			t.Errorf("condition %+v", c)
		}
		if c := b.api.pod("kube-system/aws-node").Status.ContainerStatuses[0]; c.Ready || c.State.Running == nil {
			t.Errorf("container %+v", c)
		}
		got := b.said("aws-node")
		if !slices.ContainsFunc(got, func(s string) bool {
			return strings.HasPrefix(s, "MissingIAMPermissions: Unauthorized operation: failed to call ec2:AssignPrivateIpAddresses due to missing permissions.")
		}) || !slices.ContainsFunc(got, func(s string) bool { return strings.HasPrefix(s, "Unhealthy: Readiness probe failed") }) {
			t.Errorf("events %q", got)
		}
		b.mu.Lock()
		b.call = nil
		b.mu.Unlock()
		after(30 * time.Second)
		if c := b.ready(); c.Status != corev1.ConditionTrue {
			t.Errorf("condition %+v", c)
		}
		if c := b.api.pod("kube-system/aws-node").Status.ContainerStatuses[0]; !c.Ready {
			t.Errorf("container %+v", c)
		}
	})
}

// aws-node acts with the role of its service account, if that has one.
func TestCNIActsAsItsServiceAccount(t *testing.T) {
	for _, tc := range []struct {
		name, env string
		agent     bool
		want      node.PodIdentity
		signed    string // the caller of EC2
		fails     string
	}{
		{name: "as the node", signed: ""},
		{name: "IAM roles for service accounts", env: "AWS_ROLE_ARN=arn:aws:iam::000000000000:role/cni", signed: "ASIACNI",
			want: node.PodIdentity{Cluster: "dev", Namespace: "kube-system", ServiceAccount: "aws-node", RoleARN: "arn:aws:iam::000000000000:role/cni", Token: podToken + "sts.amazonaws.com"}},
		{name: "EKS Pod Identity", env: "AWS_CONTAINER_CREDENTIALS_FULL_URI=http://169.254.170.23/v1/credentials", agent: true, signed: "ASIACNI",
			want: node.PodIdentity{Cluster: "dev", Namespace: "kube-system", ServiceAccount: "aws-node", Token: podToken + "pods.eks.amazonaws.com"}},
		{name: "EKS Pod Identity without its agent", env: "AWS_CONTAINER_CREDENTIALS_FULL_URI=http://169.254.170.23/v1/credentials", fails: "dial tcp 169.254.170.23:80: connect: connection refused"},
		{name: "a role that is refused", env: "AWS_ROLE_ARN=arn:aws:iam::000000000000:role/other", fails: "AccessDenied",
			want: node.PodIdentity{Cluster: "dev", Namespace: "kube-system", ServiceAccount: "aws-node", RoleARN: "arn:aws:iam::000000000000:role/other", Token: podToken + "sts.amazonaws.com"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := newBench(t)
				b.cni = tc.env
				var asked node.PodIdentity
				b.podCredentials = func(_ context.Context, _ machine.Instance, id node.PodIdentity) (aws.Credentials, error) {
					asked = id
					if strings.HasSuffix(id.RoleARN, "/other") {
						return aws.Credentials{}, &node.Refusal{Err: errors.New("AccessDenied"), Decision: node.Decision{By: node.ByIAM}}
					}
					return aws.Credentials{AccessKeyID: "ASIACNI"}, nil
				}
				signed := ""
				b.call = func(c node.Call) error {
					if c.Action == node.ActionAssignAddresses && c.Credentials != nil {
						signed = c.Credentials.AccessKeyID
					}
					return nil
				}
				if tc.agent {
					agent := pod("eks-pod-identity-agent-x2f9q")
					agent.Namespace, agent.Spec.HostNetwork = "kube-system", true
					b.api.daemons = func() []*corev1.Pod { return []*corev1.Pod{agent, b.awsNode()} }
				}
				b.launch(b.instance())
				after(20 * time.Second)
				if diff := cmp.Diff(tc.want, asked); diff != "" {
					t.Errorf("asked (-want +got):\n%s", diff)
				}
				if signed != tc.signed {
					t.Errorf("signed by %q, want %q", signed, tc.signed)
				}
				if ready := b.ready().Status == corev1.ConditionTrue; ready != (tc.fails == "") {
					t.Errorf("ready: %v", ready)
				}
				if got := strings.Join(b.failedSteps(), "\n"); tc.fails != "" && !strings.Contains(got, tc.fails) {
					t.Errorf("failed steps %s", got)
				}
			})
		})
	}
}

// With custom networking, pods' addresses come from the ENIConfig's subnet, and a node without an ENIConfig is not
// Ready.
func TestCustomNetworking(t *testing.T) {
	const path = "/apis/crd.k8s.amazonaws.com/v1alpha1/eniconfigs/"
	for _, tc := range []struct {
		name, env string
		have      string // ENIConfig
		ready     bool
	}{
		{"by the zone", "ENI_CONFIG_LABEL_DEF=topology.kubernetes.io/zone", "us-east-1a", true},
		{"by default", "", "default", true},
		{"none", "", "us-east-1b", false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := newBench(t)
				b.cni = "AWS_VPC_K8S_CNI_CUSTOM_NETWORK_CFG=true " + tc.env
				b.api.custom = map[string]string{path + tc.have: `{"spec":{"subnet":"subnet-pods","securityGroups":["sg-pods"]}}`}
				b.launch(b.instance())
				b.api.bind(nodeName, pod("web"))
				after(20 * time.Second)
				if ready := b.ready().Status == corev1.ConditionTrue; ready != tc.ready {
					t.Fatalf("ready: %v; failed steps %q", ready, b.failedSteps())
				}
				if !tc.ready {
					if got := b.failedSteps(); len(got) != 1 || !strings.Contains(got[0], "Failed to attach any ENIs for custom networking: eniconfig: eniconfig is not available: default") {
						t.Errorf("failed steps %q", got)
					}
					return
				}
				if s := b.ec2.spec; s.Subnet != "subnet-pods" || !slices.Equal(s.Groups, []string{"sg-pods"}) || s.Addresses != 9 {
					t.Errorf("interface %+v", s)
				}
				if got := b.ec2.shape(); !strings.HasPrefix(got, "0 9") {
					t.Errorf("interfaces %s", got)
				}
				if got := b.api.pod("web").Status.Phase; got != corev1.PodRunning {
					t.Errorf("the pod is %s", got)
				}
			})
		})
	}
}

// After a restart of the daemon, the CNI continues with aws-node's configuration and does not call EC2.
func TestCNIGoesOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		b.cni = "ENABLE_PREFIX_DELEGATION=true WARM_PREFIX_TARGET=1"
		b.launch(b.instance())
		b.api.bind(nodeName, pod("web"))
		after(20 * time.Second)
		shape := b.ec2.shape()
		if err := b.rt.Shutdown(t.Context()); err != nil {
			t.Fatal(err)
		}
		b.start()
		b.call = func(c node.Call) error {
			if strings.HasPrefix(c.Action, "ec2:") && c.Action != node.ActionDescribeInstances {
				t.Errorf("it calls %s", c.Action)
			}
			return nil
		}
		b.launch(b.instance())
		b.api.bind(nodeName, pod("new"))
		after(20 * time.Second)
		old, fresh := b.api.pod("web").Status.PodIP, b.api.pod("new").Status.PodIP
		if !strings.HasPrefix(fresh, "10.0.2.") || fresh == old {
			t.Errorf("addresses %s and %s", old, fresh)
		}
		if got := b.said("new"); slices.ContainsFunc(got, func(s string) bool { return strings.HasPrefix(s, "FailedCreatePodSandBox") }) {
			t.Errorf("events %q", got)
		}
		if got := b.ec2.shape(); got != shape {
			t.Errorf("interfaces %s, before %s", got, shape)
		}
	})
}
