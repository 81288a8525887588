package simulated_test

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"

	"github.com/drydock-dev/drydock/internal/machine"
	"github.com/drydock-dev/drydock/internal/node"
	"github.com/drydock-dev/drydock/internal/node/simulated"
)

// Addresses for pods that really run are always in the same order. Those in use stay when aws-node gets another
// configuration, which releases all others of the other kind.
func TestAddressesInUseStay(t *testing.T) {
	b := newBench(t)
	in := b.instance()
	in.Type.ENIs, in.Type.IPv4PerENI = 3, 5
	ec2 := newFakeEC2(100)
	ctx := context.Background()
	p := simulated.NewIPAM(node.Config{PodNetwork: ec2}, clock.RealClock{}, in, 20, simulated.Cluster{})
	b.cni = "WARM_ENI_TARGET=1"
	p.Configure(b.awsNode())
	if err := p.Start(ctx, nil); err != nil {
		t.Fatal(err)
	}
	all := map[netip.Addr]bool{}
	for _, a := range p.Addresses() {
		all[a.IP] = true
	}
	if err := p.Follow(ctx, all); err != nil {
		t.Fatal(err)
	}
	first := p.Addresses()
	if len(first) < 5 {
		t.Fatalf("addresses %v", first)
	}
	for i := range 10 {
		for j, a := range p.Addresses() {
			if a != first[j] {
				t.Fatalf("address %d is %v in pass %d, and was %v", j, a, i, first[j])
			}
		}
	}
	last := first[len(first)-1]
	if last.Device == 0 || first[0].Device != 0 || last.Interface == first[0].Interface {
		t.Errorf("the first is %v, the last %v: want the primary interface first", first[0], last)
	}
	used := map[netip.Addr]bool{first[1].IP: true}
	b.cni = "ENABLE_PREFIX_DELEGATION=true WARM_PREFIX_TARGET=1"
	p.Configure(b.awsNode())
	if err := p.Start(ctx, used); err != nil {
		t.Fatal(err)
	}
	kept := map[netip.Addr]bool{}
	for _, e := range ec2.enis {
		for _, a := range e.Addresses {
			kept[a] = true
		}
	}
	if !kept[first[1].IP] {
		t.Error("an address in use was released")
	}
	if kept[first[0].IP] {
		t.Error("an address that is not in use is kept beside prefixes")
	}
}

// nodeAPI is a cluster with one node and ENIConfigs. Tokens name the pod that they are bound to, and their audience.
type nodeAPI struct {
	labels  map[string]string
	configs map[string]string // by name
	events  []*corev1.Event
}

func (a *nodeAPI) Call(_ context.Context, verb, path string, body, into runtime.Object) error {
	switch verb + " " + path {
	case "GET /api/v1/nodes/" + nodeName:
		into.(*corev1.Node).Labels = a.labels
	case "POST /api/v1/namespaces/kube-system/serviceaccounts/aws-node/token":
		req := body.(*authenticationv1.TokenRequest).Spec
		into.(*authenticationv1.TokenRequest).Status.Token = strings.Join(append([]string{string(req.BoundObjectRef.UID)}, req.Audiences...), " ")
	case "POST /api/v1/namespaces/kube-system/events":
		a.events = append(a.events, body.(*corev1.Event))
	default:
		return errors.New(http.StatusText(http.StatusNotFound))
	}
	return nil
}

func (a *nodeAPI) GetAs(_ context.Context, token, path string, into any) error {
	name, ok := strings.CutPrefix(path, "/apis/crd.k8s.amazonaws.com/v1alpha1/eniconfigs/")
	if text := a.configs[name]; ok && text != "" && token == "pod-1" {
		return json.Unmarshal([]byte(text), into)
	}
	return errors.New(http.StatusText(http.StatusNotFound))
}

// The daemon of a node whose pods really run calls EC2 as the pod of aws-node that it runs in, and not as the node.
func TestIPAMActsAsItsPod(t *testing.T) {
	const (
		irsa     = "AWS_ROLE_ARN=arn:aws:iam::000000000000:role/cni"
		identity = "AWS_CONTAINER_CREDENTIALS_FULL_URI=http://169.254.170.23/v1/credentials"
	)
	for _, tc := range []struct {
		name, env string
		agent     bool
		want      string // who calls EC2
		token     string
		err       string
	}{
		{name: "as the node", want: "the node"},
		{name: "IAM roles for service accounts", env: irsa, want: "cni", token: "pod-1 sts.amazonaws.com"},
		{name: "EKS Pod Identity", env: identity, agent: true, want: "cni", token: "pod-1 pods.eks.amazonaws.com"},
		{name: "EKS Pod Identity without its agent", env: identity, err: "dial tcp 169.254.170.23:80: connect: connection refused"},
		{name: "a role that is refused", env: irsa + "-of-others", token: "pod-1 sts.amazonaws.com", err: "get identity: get credentials: failed to refresh cached credentials, AccessDenied"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			b := newBench(t)
			b.cni = tc.env
			ec2 := newFakeEC2(100)
			callers := map[string]bool{}
			var asked node.PodIdentity
			cfg := node.Config{
				PodNetwork: ec2,
				Call: func(_ context.Context, _ machine.Instance, c node.Call) error {
					caller := "the node"
					if c.Credentials != nil {
						caller = c.Credentials.AccessKeyID
					}
					callers[caller] = true
					return nil
				},
				PodCredentials: func(_ context.Context, _ machine.Instance, id node.PodIdentity) (aws.Credentials, error) {
					asked = id
					if strings.HasSuffix(id.RoleARN, "-of-others") {
						return aws.Credentials{}, &node.Refusal{Err: errors.New("AccessDenied"), Decision: node.Decision{By: node.ByIAM}}
					}
					return aws.Credentials{AccessKeyID: "cni"}, nil
				},
			}
			p := simulated.NewIPAM(cfg, clock.RealClock{}, b.instance(), 20, simulated.Cluster{
				Name: "dev", Node: nodeName, API: &nodeAPI{}, AgentRuns: func(context.Context) bool { return tc.agent },
			})
			pod := b.awsNode()
			pod.UID = "pod-1"
			if !p.Configure(pod) {
				t.Fatal("the pod is not aws-node")
			}
			err := p.Start(t.Context(), nil)
			if tc.err != "" {
				if err == nil || !strings.Contains(err.Error(), tc.err) {
					t.Errorf("error %v", err)
				}
				if refused := node.DecisionOf(err) != nil; refused != (tc.token != "") {
					t.Errorf("the error names a decision: %v", refused)
				}
				if len(callers) > 0 || len(p.Addresses()) > 0 {
					t.Errorf("callers %v, addresses %v", callers, p.Addresses())
				}
			} else if err != nil || len(callers) != 1 || !callers[tc.want] {
				t.Errorf("callers %v, error %v", callers, err)
			}
			if asked.Token != tc.token || tc.token != "" && (asked.Cluster != "dev" || asked.Namespace != "kube-system" || asked.ServiceAccount != "aws-node") {
				t.Errorf("asked for %+v", asked)
			}

			// Its successor may have another identity.
			b.cni = ""
			clear(callers)
			p.Configure(b.awsNode())
			if err := p.Start(t.Context(), nil); err != nil || len(callers) != 1 || !callers["the node"] {
				t.Errorf("without a role: callers %v, error %v", callers, err)
			}
		})
	}
}

// A missing permission is an event of the pod, once, and the reason why the daemon does not start.
func TestIPAMWithoutPermission(t *testing.T) {
	b := newBench(t)
	api := &nodeAPI{}
	denied := node.ActionAssignAddresses
	p := simulated.NewIPAM(node.Config{PodNetwork: newFakeEC2(100), Call: func(_ context.Context, _ machine.Instance, c node.Call) error {
		if c.Action == denied {
			return &node.Refusal{Err: errors.New("UnauthorizedOperation"), Decision: node.Decision{By: node.ByIAM, Component: c.Action}}
		}
		return nil
	}}, clock.RealClock{}, b.instance(), 20, simulated.Cluster{Name: "dev", Node: nodeName, API: api})
	p.Configure(b.awsNode())
	for range 2 {
		if why := node.DecisionOf(p.Start(t.Context(), nil)); why == nil || why.Component != denied {
			t.Fatalf("the decision is %+v", why)
		}
	}
	if len(api.events) != 1 || api.events[0].InvolvedObject.Name != "aws-node" || !strings.Contains(api.events[0].Message, "failed to call "+denied+" due to missing permissions") {
		t.Errorf("events %+v", api.events)
	}
	denied = ""
	if err := p.Start(t.Context(), nil); err != nil {
		t.Error(err)
	}
}

// With custom networking, pods that really run get addresses of the ENIConfig's subnet only, with its groups.
func TestIPAMWithCustomNetworking(t *testing.T) {
	config := `{"spec":{"subnet":"subnet-pods","securityGroups":["sg-pods"]}}`
	for _, tc := range []struct {
		name, env, have string
		err             string
	}{
		{name: "by a label", env: "ENI_CONFIG_LABEL_DEF=topology.kubernetes.io/zone", have: "us-east-1a"},
		{name: "by default", have: "default"},
		{name: "none", have: "us-east-1a", err: "Failed to attach any ENIs for custom networking: eniconfig: eniconfig is not available: default: Not Found"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			b := newBench(t)
			ec2 := newFakeEC2(100)
			p := simulated.NewIPAM(node.Config{PodNetwork: ec2}, clock.RealClock{}, b.instance(), 20, simulated.Cluster{
				Name: "dev", Node: nodeName, API: &nodeAPI{labels: map[string]string{corev1.LabelTopologyZone: "us-east-1a"}, configs: map[string]string{tc.have: config}},
			})
			// Before custom networking, a pod got an address of the primary interface.
			configure := func(env string) {
				b.cni = env
				pod := b.awsNode()
				pod.UID = types.UID("pod-1")
				p.Configure(pod)
			}
			configure("WARM_ENI_TARGET=0")
			if err := p.Start(t.Context(), nil); err != nil || len(p.Addresses()) == 0 || p.Addresses()[0].Device != 0 {
				t.Fatalf("addresses %v, error %v", p.Addresses(), err)
			}
			old := p.Addresses()[0].IP
			configure("AWS_VPC_K8S_CNI_CUSTOM_NETWORK_CFG=true " + tc.env)
			err := p.Start(t.Context(), map[netip.Addr]bool{old: true})
			if (err == nil) != (tc.err == "") || err != nil && !strings.Contains(err.Error(), tc.err) {
				t.Errorf("error %v", err)
			}
			for _, a := range p.Addresses() {
				if a.Device == 0 || a.IP == old {
					t.Errorf("pods get %v of the primary interface", a)
				}
			}
			if tc.err != "" {
				return
			}
			if s := ec2.spec; len(p.Addresses()) == 0 || s.Subnet != "subnet-pods" || !slices.Equal(s.Groups, []string{"sg-pods"}) {
				t.Errorf("%d addresses of the interface %+v", len(p.Addresses()), s)
			}
			if !slices.Contains(ec2.enis[0].Addresses, old) {
				t.Error("the address in use was released")
			}
		})
	}
}
