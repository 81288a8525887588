package elb

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	awselb "github.com/aws/aws-sdk-go-v2/service/elasticloadbalancing"
	elbtypes "github.com/aws/aws-sdk-go-v2/service/elasticloadbalancing/types"

	"github.com/drydock-dev/drydock/internal/awsapi/paging"
	"github.com/drydock-dev/drydock/internal/catalog/elbzones"
	"github.com/drydock-dev/drydock/internal/elbnet"
	"github.com/drydock-dev/drydock/internal/ids"
	"github.com/drydock-dev/drydock/internal/store"
)

// maxLoadBalancers is the quota of load balancers.
// https://docs.aws.amazon.com/elasticloadbalancing/latest/classic/elb-limits.html
const maxLoadBalancers = 20

// CreateLoadBalancer creates a load balancer. Repeating the request returns the existing one.
func (s *Service) CreateLoadBalancer(ctx context.Context, in *awselb.CreateLoadBalancerInput) (*awselb.CreateLoadBalancerOutput, error) {
	sc := scopeOf(ctx)
	r := loadBalancerRecord{
		UID: ids.Hex(16), Name: text(in.LoadBalancerName), Created: s.Now(),
		HealthCheck: elbtypes.HealthCheck{HealthyThreshold: aws.Int32(10), UnhealthyThreshold: aws.Int32(2), Interval: aws.Int32(30), Timeout: aws.Int32(5)},
		Attributes:  defaultAttributes(),
	}
	if r.Name == "" {
		return nil, errNoName()
	}
	if err := checkName(r.Name); err != nil {
		return nil, err
	}
	switch s := text(in.Scheme); s {
	case "", "internet-facing":
	case "internal":
		r.Internal = true
	default:
		return nil, errScheme(s)
	}
	if len(in.Listeners) == 0 {
		return nil, errNoListeners()
	}
	if err := s.addListeners(&r, scopeOf(ctx), in.Listeners); err != nil {
		return nil, err
	}
	r.HealthCheck.Target = aws.String(fmt.Sprintf("TCP:%d", *in.Listeners[0].InstancePort))
	var err error
	if r.Tags, err = newTags(in.Tags); err != nil {
		return nil, err
	}
	if err := s.place(ctx, sc, &r, in.Subnets, in.AvailabilityZones); err != nil {
		return nil, err
	}
	if r.Groups, err = s.securityGroups(ctx, sc, &r, in.SecurityGroups); err != nil {
		return nil, err
	}
	r.DNSName = elbnet.DNSName(sc.Region, r.Name, r.UID, r.Internal)
	if err := s.EnsureRole(ctx); err != nil {
		return nil, err
	}
	err = s.Store.Update(ctx, func(tx *store.Tx) error {
		old, err := loadBalancers.Get(tx, sc.Key(r.Name))
		if err == nil {
			if !same(&old, &r) {
				return errDuplicate(r.Name, "parameters")
			}
			if !maps.Equal(old.Tags, r.Tags) {
				return errDuplicate(r.Name, "tags")
			}
			r = old
			return nil
		}
		if !store.IsNotFound(err) {
			return err
		}
		all := loadBalancers.All(tx, sc.All())
		if len(all) >= maxLoadBalancers {
			return errTooMany(sc.Account)
		}
		return loadBalancers.Create(tx, sc.Key(r.Name), r)
	})
	return &awselb.CreateLoadBalancerOutput{DNSName: aws.String(r.DNSName)}, err
}

// checkName checks the name of a load balancer.
func checkName(name string) error {
	for _, c := range name {
		if (c < 'a' || c > 'z') && (c < 'A' || c > 'Z') && (c < '0' || c > '9') && c != '-' {
			return errNameCharacters()
		}
	}
	switch {
	case len(name) > 32:
		return errNameLength()
	case strings.HasPrefix(name, "-") || strings.HasSuffix(name, "-"):
		return errNameHyphen()
	}
	return nil
}

// same reports whether a request repeats the one that created old.
func same(old, r *loadBalancerRecord) bool {
	return old.Internal == r.Internal && slices.Equal(old.Subnets, r.Subnets) && slices.Equal(old.Groups, r.Groups) &&
		slices.EqualFunc(old.Listeners, r.Listeners, func(a, b listenerRecord) bool { return sameListener(&a.Listener, &b.Listener) })
}

// describe returns the load balancer's description.
func (r *loadBalancerRecord) describe(sc scope, group string) elbtypes.LoadBalancerDescription {
	out := elbtypes.LoadBalancerDescription{
		LoadBalancerName: aws.String(r.Name), DNSName: aws.String(r.DNSName), CanonicalHostedZoneNameID: aws.String(elbzones.ID(sc.Region, false)),
		Scheme: aws.String(r.scheme()), VPCId: aws.String(r.VPC), Subnets: r.Subnets, AvailabilityZones: r.Zones, SecurityGroups: r.Groups,
		CreatedTime: aws.Time(r.Created), HealthCheck: &r.HealthCheck, Instances: []elbtypes.Instance{}, ListenerDescriptions: []elbtypes.ListenerDescription{},
		BackendServerDescriptions: []elbtypes.BackendServerDescription{},
		Policies: &elbtypes.Policies{
			AppCookieStickinessPolicies: append([]elbtypes.AppCookieStickinessPolicy{}, r.AppCookies...),
			LBCookieStickinessPolicies:  append([]elbtypes.LBCookieStickinessPolicy{}, r.LBCookies...), OtherPolicies: []string{},
		},
	}
	if !r.Internal {
		out.CanonicalHostedZoneName = aws.String(r.DNSName)
	}
	if group != "" {
		out.SourceSecurityGroup = &elbtypes.SourceSecurityGroup{GroupName: &group, OwnerAlias: aws.String(sc.Account)}
	}
	for _, id := range r.Instances {
		out.Instances = append(out.Instances, elbtypes.Instance{InstanceId: aws.String(id)})
	}
	for _, l := range r.Listeners {
		out.ListenerDescriptions = append(out.ListenerDescriptions, elbtypes.ListenerDescription{Listener: &l.Listener, PolicyNames: append([]string{}, l.Policies...)})
	}
	for _, p := range r.Policies {
		out.Policies.OtherPolicies = append(out.Policies.OtherPolicies, *p.PolicyName)
	}
	for port, names := range r.Backends {
		out.BackendServerDescriptions = append(out.BackendServerDescriptions, elbtypes.BackendServerDescription{InstancePort: aws.Int32(port), PolicyNames: names})
	}
	slices.SortFunc(out.BackendServerDescriptions, func(a, b elbtypes.BackendServerDescription) int { return cmp.Compare(*a.InstancePort, *b.InstancePort) })
	return out
}

// loadBalancer returns the load balancer with a name.
func loadBalancer(r store.Reader, sc scope, name *string) (loadBalancerRecord, error) {
	if err := checkName(text(name)); err != nil {
		return loadBalancerRecord{}, err
	}
	lb, err := loadBalancers.Get(r, sc.Key(cmp.Or(text(name), "-")))
	if store.IsNotFound(err) {
		return lb, errNone(text(name))
	}
	return lb, err
}

// change changes the load balancer with a name.
func (s *Service) change(ctx context.Context, name *string, fn func(*loadBalancerRecord) error) (loadBalancerRecord, error) {
	sc := scopeOf(ctx)
	var out loadBalancerRecord
	err := s.Store.Update(ctx, func(tx *store.Tx) error {
		if _, err := loadBalancer(tx, sc, name); err != nil {
			return err
		}
		return loadBalancers.Update(tx, sc.Key(*name), func(r *loadBalancerRecord) error {
			err := fn(r)
			out = *r
			return err
		})
	})
	return out, err
}

var pages = paging.Rules{Usual: 400, BadToken: func(string) error { return errMarker() }}

// DescribeLoadBalancers lists load balancers.
func (s *Service) DescribeLoadBalancers(ctx context.Context, in *awselb.DescribeLoadBalancersInput) (*awselb.DescribeLoadBalancersOutput, error) {
	sc := scopeOf(ctx)
	var found []loadBalancerRecord
	if len(in.LoadBalancerNames) > 0 {
		for _, n := range slices.Compact(slices.Sorted(slices.Values(in.LoadBalancerNames))) {
			lb, err := loadBalancer(s.Store, sc, &n)
			if err != nil {
				return nil, err
			}
			found = append(found, lb)
		}
	} else {
		for _, i := range loadBalancers.All(s.Store, sc.All()) {
			found = append(found, i.Value)
		}
	}
	found, next, err := paging.Cut(pages, found, func(r loadBalancerRecord) string { return r.Name }, in.PageSize, in.Marker)
	if err != nil {
		return nil, err
	}
	out := &awselb.DescribeLoadBalancersOutput{LoadBalancerDescriptions: []elbtypes.LoadBalancerDescription{}, NextMarker: next}
	for _, r := range found {
		out.LoadBalancerDescriptions = append(out.LoadBalancerDescriptions, r.describe(sc, s.groupName(ctx, sc, &r)))
	}
	return out, nil
}

// DeleteLoadBalancer deletes a load balancer. It is not an error if there is none.
// https://docs.aws.amazon.com/elasticloadbalancing/2012-06-01/APIReference/API_DeleteLoadBalancer.html
func (s *Service) DeleteLoadBalancer(ctx context.Context, in *awselb.DeleteLoadBalancerInput) (*awselb.DeleteLoadBalancerOutput, error) {
	sc := scopeOf(ctx)
	if err := checkName(text(in.LoadBalancerName)); err != nil {
		return nil, err
	}
	var deleted store.Key
	err := s.Store.Update(ctx, func(tx *store.Tx) error {
		lb, err := loadBalancers.Get(tx, sc.Key(cmp.Or(text(in.LoadBalancerName), "-")))
		if err != nil {
			return store.IgnoreNotFound(err)
		}
		loadBalancers.Delete(tx, sc.Key(lb.Name))
		deleted = sc.Key(lb.UID)
		return deletions.Put(tx, deleted, deletionRecord{s.Now()})
	})
	if err == nil && deleted.ID != "" {
		s.CleanUp(ctx, deleted, s.reconcileDeleted)
	}
	return &awselb.DeleteLoadBalancerOutput{}, err
}
