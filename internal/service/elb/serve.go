package elb

import (
	"context"
	"fmt"

	"github.com/aws/aws-sdk-go-v2/aws"

	"github.com/drydock-dev/drydock/internal/awsapi/regional"
	"github.com/drydock-dev/drydock/internal/elbnet"
	"github.com/drydock-dev/drydock/internal/store"
)

// Endpoints returns the endpoints of the load balancers in an account and region.
func Endpoints(r store.Reader, account, region string) []elbnet.Endpoint {
	all := loadBalancers.All(r, regional.At(account, region).All())
	out := make([]elbnet.Endpoint, 0, len(all))
	for i := range all {
		lb := &all[i].Value
		e := elbnet.Endpoint{Name: lb.Name, DNSName: lb.DNSName, Internal: lb.Internal}
		for _, z := range lb.Zones {
			if id := lb.Interfaces[z]; id != "" {
				e.Interfaces = append(e.Interfaces, id)
			}
		}
		out = append(out, e)
	}
	return out
}

// A Way describes what a load balancer does with connections to one of its ports.
type Way struct {
	// Listener describes the listener that accepts them, or is empty if there is none.
	Listener string
	Targets  []WayTarget
}

// A WayTarget is an instance and its health.
type WayTarget struct {
	Instance  string
	Interface string // the load balancer's interface in the instance's zone, or empty
	Port      uint16
	CheckPort uint16
	Healthy   bool
	Why       string // why it is not healthy
}

// Serve returns what a load balancer does with connections to a port.
func (s *Service) Serve(ctx context.Context, account, region, name string, port uint16) (Way, error) {
	sc := regional.At(account, region)
	r, err := loadBalancer(s.Store, sc, &name)
	if err != nil {
		return Way{}, err
	}
	t, err := parseTarget(text(r.HealthCheck.Target))
	if err != nil {
		return Way{}, err
	}
	var w Way
	ask := s.Network.Prober(ctx, sc.Account, sc.Region)
	for _, l := range r.Listeners {
		if l.Listener.LoadBalancerPort != int32(port) {
			continue
		}
		to := uint16(aws.ToInt32(l.Listener.InstancePort)) //nolint:gosec // a port
		w.Listener = fmt.Sprintf("listener %s:%d, to instance port %d", text(l.Listener.Protocol), port, to)
		for _, id := range r.Instances {
			h, err := s.health(ctx, sc, &r, id, ask)
			if err != nil {
				return Way{}, err
			}
			i, _, err := s.Network.Instance(s.AsService(ctx, sc), id)
			if err != nil {
				return Way{}, err
			}
			wt := WayTarget{Instance: id, Port: to, CheckPort: t.port, Healthy: *h.State == inService, Why: *h.Description}
			if i.Placement != nil {
				wt.Interface = r.Interfaces[text(i.Placement.AvailabilityZone)]
			}
			w.Targets = append(w.Targets, wt)
		}
	}
	return w, nil
}

// Places returns the accounts and regions that have load balancers.
func Places(r store.Reader) [][2]string { return elbnet.Places(r, loadBalancers) }
