package simulated_test

import (
	"context"
	"errors"
	"net"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/drydock-dev/drydock/internal/machine"
	"github.com/drydock-dev/drydock/internal/node"
	"github.com/drydock-dev/drydock/internal/node/simulated"
)

// A call that AWS refuses keeps a node out at the step that needs it, with AWS's symptom and the decision behind it,
// until it is fixed.
func TestRefusalsKeepNodesOut(t *testing.T) {
	refused := &node.Refusal{Err: errors.New("403"), Decision: node.Decision{By: node.ByIAM, Code: "AccessDenied", Component: "something", Text: "no"}}
	for _, tc := range []struct {
		name       string
		action     string // refused
		host       string // not reached, its beginning
		step       string
		text       string // in the evidence
		registered bool
	}{
		{"EC2 does not tell the name", node.ActionDescribeInstances, "", node.StepName, "403", false},
		{"no token of the registry", node.ActionGetToken, "", node.StepImage, "no basic auth credentials", true},
		{"the registry is out of reach", "", "602401143452.dkr.ecr.", node.StepImage, `failed to do request: Head "https://602401143452.dkr.ecr.us-east-1.amazonaws.com/v2/amazon-k8s-cni/manifests/`, true},
		{"the manifest is denied", node.ActionGetImage, "", node.StepImage, "unexpected status from HEAD request to https://602401143452.dkr.ecr.", true},
		{"the layers are denied", node.ActionGetLayer, "", node.StepImage, "httpReadSeeker: failed open: unexpected status code", true},
		{"S3 is out of reach", "", "prod-us-east-1-starport-layer-bucket.s3.", node.StepImage, "httpReadSeeker: failed open: failed to do request: Get", true},
		{"the CNI may not look", node.ActionDescribeInterfaces, "", node.StepNetwork, "ipamd init: failed to retrieve attached ENIs info: 403", true},
		{"the CNI may not tag", node.ActionCreateTags, "", node.StepNetwork, "ipamd init: failed to tag managed ENI eni-0: 403", true},
		{"the CNI may not assign", node.ActionAssignAddresses, "", node.StepNetwork, "failed to allocate one IP addresses on ENI eni-0, err: 403", true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := newBench(t)
				mended := make(chan struct{})
				verdict := func(bad bool) error {
					select {
					case <-mended:
						return nil
					default:
						if bad {
							return refused
						}
						return nil
					}
				}
				rt := simulated.New(node.Config{
					Credentials: func(context.Context, string) (aws.Credentials, error) { return aws.Credentials{}, nil },
					DialEndpoint: func(ctx context.Context, _ machine.Instance, _ string, _ int) (net.Conn, error) {
						return b.api.dial(ctx)
					},
					Call: func(_ context.Context, _ machine.Instance, c node.Call) error {
						return verdict(c.Action == tc.action)
					},
					Connect: func(_ context.Context, _ machine.Instance, host string, _ int) error {
						return verdict(tc.host != "" && strings.HasPrefix(host, tc.host))
					},
					PodNetwork: b.ec2,
				}, simulated.Options{})
				defer rt.Shutdown(context.Background())
				if err := rt.Start(t.Context(), b.instance()); err != nil {
					t.Fatal(err)
				}
				after(time.Minute)
				info, _ := rt.Info("i-0123456789abcdef0")
				i := slices.IndexFunc(info.Steps, func(s node.Step) bool { return !s.OK })
				if i < 0 || info.Steps[i].Name != tc.step || !strings.Contains(info.Steps[i].Evidence, tc.text) || info.Steps[i].Decision == nil {
					t.Errorf("steps %+v, want a failed %s with %q", info.Steps, tc.step, tc.text)
				}
				if info.NextTry.IsZero() {
					t.Error("it does not say when it tries again")
				}
				n := b.api.node(nodeName)
				if (n != nil) != tc.registered {
					t.Fatalf("the node is %+v", n)
				}
				if n != nil {
					if c := n.Status.Conditions[3]; c.Status != corev1.ConditionFalse || !strings.Contains(c.Message, "cni plugin not initialized") {
						t.Errorf("condition %+v", c)
					}
				}
				close(mended)
				after(30 * time.Second)
				info, _ = rt.Info("i-0123456789abcdef0")
				if info.Phase != node.PhaseReady || slices.ContainsFunc(info.Steps, func(s node.Step) bool { return !s.OK }) {
					t.Errorf("info %+v", info)
				}
			})
		})
	}
}

// A kubelet whose version does not suit the control plane gets in, with a warning.
func TestVersionSkewWarns(t *testing.T) {
	for _, tc := range []struct {
		plane string
		warns bool
	}{{"1.36", false}, {"1.35", true}, {"1.39", false}, {"1.40", true}, {"", false}} {
		t.Run("control plane "+tc.plane, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := newBench(t)
				rt := simulated.New(node.Config{
					Credentials: func(context.Context, string) (aws.Credentials, error) { return aws.Credentials{}, nil },
					DialEndpoint: func(ctx context.Context, _ machine.Instance, _ string, _ int) (net.Conn, error) {
						return b.api.dial(ctx)
					},
					ControlPlaneVersion: func(string) string { return tc.plane },
					PodNetwork:          b.ec2,
				}, simulated.Options{})
				defer rt.Shutdown(context.Background())
				if err := rt.Start(t.Context(), b.instance()); err != nil {
					t.Fatal(err)
				}
				after(10 * time.Second)
				info, _ := rt.Info("i-0123456789abcdef0")
				warns := slices.ContainsFunc(info.Steps, func(s node.Step) bool { return s.Name == node.StepVersion && s.Warning })
				if info.Phase != node.PhaseReady || warns != tc.warns {
					t.Errorf("warned: %v, want %v; %+v", warns, tc.warns, info)
				}
			})
		})
	}
}

// A node whose role the cluster no longer accepts is considered dead, and comes back when the role is accepted again.
func TestRoleThatIsNotMappedAnyMore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		b.launch(b.instance())
		b.api.bind(nodeName, pod("web"))
		after(time.Second)
		b.api.refusing(func(string, string) *apierrors.StatusError { return apierrors.NewUnauthorized("Unauthorized") })
		renewed := b.api.lease(nodeName).Spec.RenewTime
		after(time.Minute)
		if got := b.api.lease(nodeName).Spec.RenewTime; !got.Equal(renewed) {
			t.Errorf("the lease was renewed at %v", got)
		}
		if got := b.failedSteps(); len(got) != 1 || !strings.HasPrefix(got[0], "identity: Unauthorized: the cluster does not map the role arn:aws:iam::000000000000:role/node") {
			t.Errorf("failed steps %q", got)
		}
		b.api.giveUp(nodeName)
		b.api.refusing(nil)
		after(time.Minute)
		if c := b.ready(); c.Status != corev1.ConditionTrue {
			t.Errorf("condition %+v", c)
		}
		if got := b.info(); got.Phase != node.PhaseReady || slices.ContainsFunc(got.Steps, func(s node.Step) bool { return !s.OK }) {
			t.Errorf("info %+v", got)
		}
	})
}
