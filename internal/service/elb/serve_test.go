package elb_test

import (
	"errors"
	"testing"
	"time"

	awselb "github.com/aws/aws-sdk-go-v2/service/elasticloadbalancing"
	elbtypes "github.com/aws/aws-sdk-go-v2/service/elasticloadbalancing/types"

	"github.com/drydock-dev/drydock/internal/elbnet"
	"github.com/drydock-dev/drydock/internal/service/elb"
	"github.com/drydock-dev/drydock/internal/testkit"
)

// The facts about classic load balancers that the network uses.
func TestServe(t *testing.T) {
	w := newWorld(t)
	ctx := t.Context()
	name := "web"
	testkit.Must(w.CreateLoadBalancer(ctx, &awselb.CreateLoadBalancerInput{LoadBalancerName: &name, Subnets: w.subnets[:1], Listeners: []elbtypes.Listener{tcp(80, 30080)}}))(t)
	i := w.instance(w.subnets[0])
	testkit.Must(w.RegisterInstancesWithLoadBalancer(ctx, &awselb.RegisterInstancesWithLoadBalancerInput{LoadBalancerName: &name, Instances: []elbtypes.Instance{{InstanceId: &i}}}))(t)
	var at elbnet.Endpoint
	testkit.Eventually(t, 10*time.Second, func() error {
		found := elb.Endpoints(w.store, w.account, testkit.Region)
		if len(found) != 1 || len(found[0].Interfaces) != 1 {
			return errors.New("no interface")
		}
		at = found[0]
		return nil
	})
	if at.Name != name || at.DNSName != *w.describe(name).DNSName || at.Internal {
		t.Errorf("%+v", at)
	}
	if got := testkit.Must(w.svc.Serve(ctx, w.account, testkit.Region, name, 81))(t); got.Listener != "" || len(got.Targets) > 0 {
		t.Errorf("no listener: %+v", got)
	}
	got := testkit.Must(w.svc.Serve(ctx, w.account, testkit.Region, name, 80))(t)
	want := elb.WayTarget{Instance: i, Interface: at.Interfaces[0], Port: 30080, CheckPort: 30080, Healthy: true, Why: "N/A"}
	if got.Listener != "listener TCP:80, to instance port 30080" || len(got.Targets) != 1 || got.Targets[0] != want {
		t.Errorf("%+v", got)
	}
	w.find(elbnet.Refused)
	if to := testkit.Must(w.svc.Serve(ctx, w.account, testkit.Region, name, 80))(t).Targets[0]; to.Healthy || to.Why != "Instance has failed at least the UnhealthyThreshold number of health checks consecutively." {
		t.Errorf("%+v", to)
	}
}
