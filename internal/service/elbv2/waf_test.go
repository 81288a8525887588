package elbv2_test

import (
	"errors"
	"testing"

	awselbv2 "github.com/aws/aws-sdk-go-v2/service/elasticloadbalancingv2"
	awswaf "github.com/aws/aws-sdk-go-v2/service/wafv2"
	waftypes "github.com/aws/aws-sdk-go-v2/service/wafv2/types"

	"github.com/drydock-dev/drydock/internal/testkit"
)

// TestWAFKnowsApplicationLoadBalancers: AWS WAF answers for them as long as they exist, and for no others.
func TestWAFKnowsApplicationLoadBalancers(t *testing.T) {
	w := newWorld(t)
	waf := awswaf.NewFromConfig(w.server.AWSConfig(w.account))
	unknown := func(arn string) bool {
		_, err := waf.GetWebACLForResource(t.Context(), &awswaf.GetWebACLForResourceInput{ResourceArn: &arn})
		_, none := errors.AsType[*waftypes.WAFNonexistentItemException](err)
		if err != nil && !none {
			t.Error(err)
		}
		return none
	}
	app, net := *w.application("app").LoadBalancerArn, *w.network("net").LoadBalancerArn
	if unknown(app) || !unknown(net) || !unknown(app+"0") {
		t.Errorf("unknown: app %v, net %v, another ID %v", unknown(app), unknown(net), unknown(app+"0"))
	}
	testkit.Must(w.DeleteLoadBalancer(t.Context(), &awselbv2.DeleteLoadBalancerInput{LoadBalancerArn: &app}))(t)
	if !unknown(app) {
		t.Error("a deleted load balancer is known")
	}
}
