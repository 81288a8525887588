package elbv2_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	awselbv2 "github.com/aws/aws-sdk-go-v2/service/elasticloadbalancingv2"
	elbv2types "github.com/aws/aws-sdk-go-v2/service/elasticloadbalancingv2/types"

	"github.com/drydock-dev/drydock/internal/elbnet"
	"github.com/drydock-dev/drydock/internal/service/elbv2"
	"github.com/drydock-dev/drydock/internal/testkit"
)

// The facts about load balancers that the network uses: where they are, and what they do with
// connections.
func TestServe(t *testing.T) {
	w := newWorld(t)
	ctx := t.Context()
	nlb, alb := w.network("nlb"), w.application("alb")
	group := w.group("g", elbv2types.ProtocolEnumTcp, 80, "")
	i := w.instance(w.subnets[0])
	testkit.Must(w.RegisterTargets(ctx, &awselbv2.RegisterTargetsInput{TargetGroupArn: &group, Targets: []elbv2types.TargetDescription{{Id: &i, Port: aws.Int32(30080)}}}))(t)
	w.listen(*nlb.LoadBalancerArn, elbv2types.ProtocolEnumTcp, 80, group)
	testkit.Must(w.CreateListener(ctx, &awselbv2.CreateListenerInput{
		LoadBalancerArn: alb.LoadBalancerArn, Protocol: elbv2types.ProtocolEnumHttp, Port: aws.Int32(8080),
		DefaultActions: []elbv2types.Action{{Type: elbv2types.ActionTypeEnumFixedResponse, FixedResponseConfig: &elbv2types.FixedResponseActionConfig{StatusCode: aws.String("404")}}},
	}))(t)

	found := elbv2.Endpoints(w.store, w.account, testkit.Region)
	if len(found) != 2 {
		t.Fatalf("%+v", found)
	}
	for n, want := range []elbv2types.LoadBalancer{alb, nlb} {
		if got := found[n]; got.Name != *want.LoadBalancerArn || got.DNSName != *want.DNSName || got.Internal || len(got.Interfaces) != 2 {
			t.Errorf("%+v, want %s", got, *want.LoadBalancerArn)
		}
	}

	serve := func(lb elbv2types.LoadBalancer, port uint16) elbv2.Way {
		t.Helper()
		return testkit.Must(w.svc.Serve(ctx, w.account, testkit.Region, *lb.LoadBalancerArn, port))(t)
	}
	if got := serve(nlb, 81); got.Listener != "" || len(got.Targets) > 0 {
		t.Errorf("no listener: %+v", got)
	}
	got := serve(nlb, 80)
	if got.Listener != "listener TCP:80, target group g" || got.Group != group || got.Application || len(got.Targets) != 1 {
		t.Fatalf("%+v", got)
	}
	to := got.Targets[0]
	if to.ID != i || to.Probe.Instance != i || to.Probe.Interface == "" || to.Port != 30080 || to.Probe.Port != 30080 || !to.Healthy || !to.KeepsAddress {
		t.Errorf("%+v", to)
	}
	testkit.Must(w.ModifyTargetGroupAttributes(ctx, &awselbv2.ModifyTargetGroupAttributesInput{TargetGroupArn: &group, Attributes: []elbv2types.TargetGroupAttribute{
		{Key: aws.String("preserve_client_ip.enabled"), Value: aws.String("false")},
	}}))(t)
	w.find(elbnet.TimedOut)
	if to := serve(nlb, 80).Targets[0]; to.Healthy || to.Why != "Request timed out (Target.Timeout)" || to.KeepsAddress {
		t.Errorf("%+v", to)
	}
	if got := serve(alb, 8080); got.Answer != "which answers 404" || !got.Application || !strings.HasPrefix(got.Listener, "listener HTTP:8080") {
		t.Errorf("%+v", got)
	}
	if _, err := w.svc.Serve(ctx, w.account, testkit.Region, *nlb.LoadBalancerArn+"0", 80); err == nil {
		t.Error(fmt.Errorf("no such load balancer: %w", err))
	}
}
