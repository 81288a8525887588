package elbv2_test

import (
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	awselbv2 "github.com/aws/aws-sdk-go-v2/service/elasticloadbalancingv2"
	elbv2types "github.com/aws/aws-sdk-go-v2/service/elasticloadbalancingv2/types"
	"github.com/google/go-cmp/cmp"

	"github.com/drydock-dev/drydock/internal/authz"
	"github.com/drydock-dev/drydock/internal/awsapi"
	"github.com/drydock-dev/drydock/internal/elbnet"
	"github.com/drydock-dev/drydock/internal/service/elbv2"
	"github.com/drydock-dev/drydock/internal/store"
)

// The permissions that requests need, as the AWS Load Balancer Controller's policy expects:
// https://github.com/kubernetes-sigs/aws-load-balancer-controller/blob/main/docs/install/iam_policy.json
func TestAuthorization(t *testing.T) {
	st, err := store.Open(t.Context(), store.Config{Ephemeral: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = st.Close() })
	a := authz.New(authz.Config{Services: []awsapi.Service{new(elbv2.Service).AWS()}, Resolvers: map[string]authz.Resolver{"elasticloadbalancing": elbv2.New(elbnet.Config{Store: st}).Authz()}})
	const prefix = "arn:aws:elasticloadbalancing:us-east-1:111122223333:"
	tags := []elbv2types.Tag{{Key: aws.String("elbv2.k8s.aws/cluster"), Value: aws.String("dev")}}
	for _, tt := range []struct {
		operation string
		in        any
		want      []string
	}{
		{"CreateLoadBalancer", &awselbv2.CreateLoadBalancerInput{Name: aws.String("web"), Type: elbv2types.LoadBalancerTypeEnumNetwork, Tags: tags}, []string{
			"elasticloadbalancing:CreateLoadBalancer " + prefix + "loadbalancer/net/web/*", "elasticloadbalancing:AddTags " + prefix + "loadbalancer/net/web/*",
		}},
		{"CreateLoadBalancer", &awselbv2.CreateLoadBalancerInput{Name: aws.String("web")}, []string{"elasticloadbalancing:CreateLoadBalancer " + prefix + "loadbalancer/app/web/*"}},
		{"CreateTargetGroup", &awselbv2.CreateTargetGroupInput{Name: aws.String("g"), Tags: tags}, []string{
			"elasticloadbalancing:CreateTargetGroup " + prefix + "targetgroup/g/*", "elasticloadbalancing:AddTags " + prefix + "targetgroup/g/*",
		}},
		{"CreateListener", &awselbv2.CreateListenerInput{LoadBalancerArn: aws.String(prefix + "loadbalancer/net/web/1"), Tags: tags}, []string{
			"elasticloadbalancing:CreateListener " + prefix + "loadbalancer/net/web/1", "elasticloadbalancing:AddTags " + prefix + "listener/net/web/1/*",
		}},
		{"CreateRule", &awselbv2.CreateRuleInput{ListenerArn: aws.String(prefix + "listener/app/web/1/2"), Tags: tags}, []string{
			"elasticloadbalancing:CreateRule " + prefix + "listener/app/web/1/2", "elasticloadbalancing:AddTags " + prefix + "listener-rule/app/web/1/2/*",
		}},
		{"RegisterTargets", &awselbv2.RegisterTargetsInput{TargetGroupArn: aws.String(prefix + "targetgroup/g/1")}, []string{"elasticloadbalancing:RegisterTargets " + prefix + "targetgroup/g/1"}},
		{"AddTags", &awselbv2.AddTagsInput{ResourceArns: []string{prefix + "loadbalancer/app/web/1", prefix + "targetgroup/g/1"}, Tags: tags}, []string{
			"elasticloadbalancing:AddTags " + prefix + "loadbalancer/app/web/1", "elasticloadbalancing:AddTags " + prefix + "targetgroup/g/1",
		}},
		{"DescribeLoadBalancers", &awselbv2.DescribeLoadBalancersInput{}, []string{"elasticloadbalancing:DescribeLoadBalancers *"}},
	} {
		call := &awsapi.Call{Service: "elasticloadbalancingv2", Operation: tt.operation, Account: "111122223333", Region: "us-east-1"}
		var got []string
		for _, c := range a.Checks(t.Context(), call, tt.in) {
			got = append(got, c.Action+" "+c.Resource)
		}
		if diff := cmp.Diff(tt.want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", tt.operation, diff)
		}
	}
}
