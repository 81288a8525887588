package elbv2_test

import (
	"context"
	"crypto/tls"
	"errors"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	awsec2 "github.com/aws/aws-sdk-go-v2/service/ec2"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"
	awselbv2 "github.com/aws/aws-sdk-go-v2/service/elasticloadbalancingv2"
	elbv2types "github.com/aws/aws-sdk-go-v2/service/elasticloadbalancingv2/types"

	"github.com/drydock-dev/drydock/internal/awsapi"
	"github.com/drydock-dev/drydock/internal/balancer"
	"github.com/drydock-dev/drydock/internal/catalog/images"
	timing "github.com/drydock-dev/drydock/internal/clock"
	"github.com/drydock-dev/drydock/internal/elbnet"
	"github.com/drydock-dev/drydock/internal/service/autoscaling"
	"github.com/drydock-dev/drydock/internal/service/ec2"
	"github.com/drydock-dev/drydock/internal/service/elbv2"
	"github.com/drydock-dev/drydock/internal/service/wafv2"
	"github.com/drydock-dev/drydock/internal/store"
	"github.com/drydock-dev/drydock/internal/testkit"
)

// A world is load balancing behind an AWS API server, on a real EC2. The test sets the results of
// health checks.
type world struct {
	testing.TB
	*awselbv2.Client
	ec2     *awsec2.Client
	server  *testkit.Server
	svc     *elbv2.Service
	store   *store.Store
	account string
	vpc     string
	subnets []string // default subnets, by zone
	zones   []string

	plane    *balancer.Plane
	backends backends
	pairs    sync.Map // certificates with their keys, by ARN

	mu      sync.Mutex
	finding elbnet.Finding
	probes  []elbnet.Probe
	broken  bool // interfaces can be neither created nor removed
}

func newWorld(t testing.TB) *world {
	t.Helper()
	w := &world{TB: t, finding: elbnet.Answers, backends: backends{at: map[netip.AddrPort]string{}}}
	var network *ec2.Service
	var svc *elbv2.Service
	var scaling *autoscaling.Service
	w.server = testkit.NewServer(t, testkit.Config{Services: func(st *store.Store) []awsapi.Service {
		w.plane = balancer.New(balancer.Config{Store: st, Client: laptop, Patience: 10_000, Log: testkit.Log(t)})
		network = ec2.New(ec2.Config{Store: st, Timing: timing.Fast(), Log: testkit.Log(t)})
		svc = elbv2.New(elbnet.Config{
			Store: st, Timing: timing.Fast(), Log: testkit.Log(t), Traffic: w.plane,
			KeyPair: func(_ context.Context, _, _, arn string) (tls.Certificate, error) {
				if p, ok := w.pairs.Load(arn); ok {
					return p.(tls.Certificate), nil
				}
				return tls.Certificate{}, errors.New("there is no key")
			},
			Network: elbnet.Network{
				EC2: network,
				EnsureInterfaces: func(ctx context.Context, account, region string, want elbnet.Interfaces, alive func(store.Reader) bool) ([]elbnet.Interface, error) {
					w.mu.Lock()
					broken := w.broken
					w.mu.Unlock()
					if broken {
						return nil, errors.New("EC2 is out of order")
					}
					return network.EnsureManagedInterfaces(ctx, account, region, want, alive)
				},
				Probes: func(context.Context, string, string) elbnet.Prober {
					return func(_ context.Context, p elbnet.Probe) elbnet.Finding {
						w.mu.Lock()
						defer w.mu.Unlock()
						w.probes = append(w.probes, p)
						return w.finding
					}
				},
			},
		})
		scaling = autoscaling.New(autoscaling.Config{
			Store: st, EC2: network, Instances: network, Sources: map[string]autoscaling.Sources{"elbv2": svc}, Log: testkit.Log(t),
		})
		w.svc, w.store = svc, st
		return []awsapi.Service{svc.AWS(), network.AWS(), scaling.AWS(), wafv2.New(svc.IsApplication).AWS()}
	}})
	w.account = w.server.Account(t)
	w.Client = awselbv2.NewFromConfig(w.server.AWSConfig(w.account))
	w.ec2 = awsec2.NewFromConfig(w.server.AWSConfig(w.account))
	found := testkit.Must(w.ec2.DescribeSubnets(t.Context(), &awsec2.DescribeSubnetsInput{}))(t).Subnets
	slices.SortFunc(found, func(a, b ec2types.Subnet) int { return strings.Compare(*a.AvailabilityZone, *b.AvailabilityZone) })
	for _, sn := range found {
		w.vpc = *sn.VpcId
		w.subnets, w.zones = append(w.subnets, *sn.SubnetId), append(w.zones, *sn.AvailabilityZone)
	}
	testkit.Run(t, func(ctx context.Context) error { return w.plane.Run(ctx, w.backends.network()) }, network.Run, svc.Run, scaling.Run)
	return w
}

func (w *world) breakEC2(yes bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.broken = yes
}

func (w *world) find(f elbnet.Finding) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.finding = f
}

// network creates an active Network Load Balancer in the first two zones.
func (w *world) network(name string) elbv2types.LoadBalancer {
	w.Helper()
	lb := testkit.Must(w.CreateLoadBalancer(context.Background(), &awselbv2.CreateLoadBalancerInput{
		Name: &name, Type: elbv2types.LoadBalancerTypeEnumNetwork, Subnets: w.subnets[:2],
	}))(w).LoadBalancers[0]
	return w.active(*lb.LoadBalancerArn)
}

// application creates an active Application Load Balancer in the first two zones.
func (w *world) application(name string) elbv2types.LoadBalancer {
	w.Helper()
	lb := testkit.Must(w.CreateLoadBalancer(context.Background(), &awselbv2.CreateLoadBalancerInput{Name: &name, Subnets: w.subnets[:2]}))(w).LoadBalancers[0]
	return w.active(*lb.LoadBalancerArn)
}

func (w *world) active(arn string) elbv2types.LoadBalancer {
	w.Helper()
	var lb elbv2types.LoadBalancer
	testkit.Eventually(w, 10*time.Second, func() error {
		lb = testkit.Must(w.DescribeLoadBalancers(context.Background(), &awselbv2.DescribeLoadBalancersInput{LoadBalancerArns: []string{arn}}))(w).LoadBalancers[0]
		if lb.State.Code != elbv2types.LoadBalancerStateEnumActive {
			return errors.New("the load balancer is " + string(lb.State.Code))
		}
		return nil
	})
	return lb
}

func (w *world) group(name string, protocol elbv2types.ProtocolEnum, port int32, kind elbv2types.TargetTypeEnum) string {
	w.Helper()
	return *testkit.Must(w.CreateTargetGroup(context.Background(), &awselbv2.CreateTargetGroupInput{
		Name: &name, Protocol: protocol, Port: &port, VpcId: &w.vpc, TargetType: kind,
	}))(w).TargetGroups[0].TargetGroupArn
}

func forward(groups ...string) []elbv2types.Action {
	if len(groups) == 1 {
		return []elbv2types.Action{{Type: elbv2types.ActionTypeEnumForward, TargetGroupArn: &groups[0]}}
	}
	c := &elbv2types.ForwardActionConfig{}
	for _, g := range groups {
		c.TargetGroups = append(c.TargetGroups, elbv2types.TargetGroupTuple{TargetGroupArn: &g})
	}
	return []elbv2types.Action{{Type: elbv2types.ActionTypeEnumForward, ForwardConfig: c}}
}

func (w *world) listen(lb string, protocol elbv2types.ProtocolEnum, port int32, groups ...string) string {
	w.Helper()
	return *testkit.Must(w.CreateListener(context.Background(), &awselbv2.CreateListenerInput{LoadBalancerArn: &lb, Protocol: protocol, Port: &port, DefaultActions: forward(groups...)}))(w).Listeners[0].ListenerArn
}

// instance launches an instance in a subnet.
func (w *world) instance(subnet string) string {
	w.Helper()
	img, ok := images.EKS(testkit.Region, images.AL2023, "1.36", "x86_64", "")
	if !ok {
		w.Fatal("no image")
	}
	id := *testkit.Must(w.ec2.RunInstances(context.Background(), &awsec2.RunInstancesInput{
		ImageId: &img.ID, InstanceType: "m5.large", MinCount: aws.Int32(1), MaxCount: aws.Int32(1), SubnetId: &subnet,
	}))(w).Instances[0].InstanceId
	testkit.Eventually(w, 10*time.Second, func() error {
		i := testkit.Must(w.ec2.DescribeInstances(context.Background(), &awsec2.DescribeInstancesInput{InstanceIds: []string{id}}))(w).Reservations[0].Instances[0]
		if i.State.Name != ec2types.InstanceStateNameRunning {
			return errors.New("the instance is " + string(i.State.Name))
		}
		return nil
	})
	return id
}

// interfaces returns the interfaces of load balancers.
func (w *world) interfaces() []ec2types.NetworkInterface {
	w.Helper()
	return testkit.Must(w.ec2.DescribeNetworkInterfaces(context.Background(), &awsec2.DescribeNetworkInterfacesInput{Filters: []ec2types.Filter{{Name: aws.String("description"), Values: []string{"ELB *"}}}}))(w).NetworkInterfaces
}

func (w *world) health(group string) string {
	w.Helper()
	var out []string
	for _, d := range testkit.Must(w.DescribeTargetHealth(context.Background(), &awselbv2.DescribeTargetHealthInput{TargetGroupArn: &group}))(w).TargetHealthDescriptions {
		out = append(out, strings.TrimSpace(string(d.TargetHealth.State)+" "+string(d.TargetHealth.Reason)))
	}
	return strings.Join(out, ", ")
}
