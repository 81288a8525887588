package elbv2

import (
	"cmp"
	"context"
	"slices"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	awselbv2 "github.com/aws/aws-sdk-go-v2/service/elasticloadbalancingv2"
	elbv2types "github.com/aws/aws-sdk-go-v2/service/elasticloadbalancingv2/types"

	"github.com/drydock-dev/drydock/internal/arn"
	"github.com/drydock-dev/drydock/internal/awsapi/awserr"
	"github.com/drydock-dev/drydock/internal/awsapi/paging"
	"github.com/drydock-dev/drydock/internal/awsapi/regional"
	"github.com/drydock-dev/drydock/internal/catalog/elbzones"
	"github.com/drydock-dev/drydock/internal/elbnet"
	"github.com/drydock-dev/drydock/internal/ids"
	"github.com/drydock-dev/drydock/internal/store"
)

// maxLoadBalancers is the quota for each type of load balancer.
// https://docs.aws.amazon.com/elasticloadbalancing/latest/application/load-balancer-limits.html
const maxLoadBalancers = 50

// idDigits is the length of the hexadecimal IDs in ARNs.
const idDigits = 16

// CreateLoadBalancer creates a load balancer. Repeating the request returns the existing one.
func (s *Service) CreateLoadBalancer(ctx context.Context, in *awselbv2.CreateLoadBalancerInput) (*awselbv2.CreateLoadBalancerOutput, error) {
	sc := scopeOf(ctx)
	name := text(in.Name)
	if err := checkName(name, "load balancer"); err != nil {
		return nil, err
	}
	r := loadBalancerRecord{LB: elbv2types.LoadBalancer{
		LoadBalancerName: &name, Type: cmp.Or(in.Type, elbv2types.LoadBalancerTypeEnumApplication),
		Scheme:        cmp.Or(in.Scheme, elbv2types.LoadBalancerSchemeEnumInternetFacing),
		IpAddressType: cmp.Or(in.IpAddressType, elbv2types.IpAddressTypeIpv4), CreatedTime: aws.Time(s.Now()),
		State: &elbv2types.LoadBalancerState{Code: elbv2types.LoadBalancerStateEnumProvisioning},
	}}
	if err := checkKinds(&r.LB); err != nil {
		return nil, err
	}
	var err error
	if r.Tags, err = newTags(in.Tags); err != nil {
		return nil, err
	}
	wanted, err := wantedSubnets(in.Subnets, in.SubnetMappings)
	if err != nil {
		return nil, err
	}
	if err := s.place(ctx, sc, &r, wanted); err != nil {
		return nil, err
	}
	if r.LB.SecurityGroups, err = s.securityGroups(ctx, sc, &r, in.SecurityGroups); err != nil {
		return nil, err
	}
	kind := "app"
	if r.network() {
		kind = "net"
	}
	id := ids.Hex(idDigits)
	r.LB.LoadBalancerArn = aws.String(arn.New("elasticloadbalancing", sc.Region, sc.Account, "loadbalancer/"+kind+"/"+name+"/"+id))
	r.LB.DNSName, r.LB.CanonicalHostedZoneId = aws.String(dnsName(sc.Region, &r, id)), aws.String(elbzones.ID(sc.Region, r.network()))
	if err := s.EnsureRole(ctx); err != nil {
		return nil, err
	}
	err = s.Store.Update(ctx, func(tx *store.Tx) error {
		old, err := loadBalancers.Get(tx, sc.Key(name))
		if err == nil {
			if !sameSettings(&old, &r) {
				return errDuplicateLoadBalancer(name)
			}
			r = old
			return nil
		}
		if !store.IsNotFound(err) {
			return err
		}
		all := loadBalancers.All(tx, sc.All())
		same := 0
		for _, o := range all {
			if o.Value.LB.Type == r.LB.Type {
				same++
			}
		}
		if same >= maxLoadBalancers {
			return errTooManyLoadBalancers()
		}
		return loadBalancers.Create(tx, sc.Key(name), r)
	})
	if err != nil {
		return nil, err
	}
	return &awselbv2.CreateLoadBalancerOutput{LoadBalancers: []elbv2types.LoadBalancer{r.sdk()}}, nil
}

// checkName checks the name of a load balancer or target group.
func checkName(name, what string) error {
	switch {
	case name == "":
		return errValidation("A %s name must be specified", what)
	case len(name) > 32:
		return errName("The %s name '%s' cannot be longer than '32' characters", what, name)
	case strings.HasPrefix(name, "-") || strings.HasSuffix(name, "-"):
		return errName("The %s name '%s' cannot begin or end with '-'", what, name)
	case what == "load balancer" && strings.HasPrefix(name, "internal-"):
		return errName("The %s name '%s' cannot begin with 'internal-'", what, name)
	}
	for _, c := range name {
		if (c < 'a' || c > 'z') && (c < 'A' || c > 'Z') && (c < '0' || c > '9') && c != '-' {
			return errName("The %s name '%s' can only contain characters that are alphanumeric characters and hyphens(-)", what, name)
		}
	}
	return nil
}

func checkKinds(lb *elbv2types.LoadBalancer) error {
	if lb.Type == elbv2types.LoadBalancerTypeEnumGateway {
		return awserr.NotImplemented("Gateway Load Balancers")
	}
	return checkAddressType(lb.IpAddressType)
}

func checkAddressType(t elbv2types.IpAddressType) error {
	if t != elbv2types.IpAddressTypeIpv4 {
		return awserr.NotImplemented("the IP address type " + string(t) + " of load balancers")
	}
	return nil
}

// sameSettings reports whether a request repeats the one that created old.
func sameSettings(old, r *loadBalancerRecord) bool {
	sorted := func(s []string) []string { return slices.Sorted(slices.Values(s)) }
	return old.LB.Type == r.LB.Type && old.LB.Scheme == r.LB.Scheme && old.LB.IpAddressType == r.LB.IpAddressType &&
		slices.Equal(sorted(old.subnets()), sorted(r.subnets())) && slices.Equal(sorted(old.LB.SecurityGroups), sorted(r.LB.SecurityGroups))
}

// dnsName returns the DNS name of a load balancer, in AWS's format:
// https://docs.aws.amazon.com/elasticloadbalancing/latest/network/network-load-balancers.html
func dnsName(region string, r *loadBalancerRecord, id string) string {
	if r.network() {
		return r.name() + "-" + id + ".elb." + region + ".amazonaws.com"
	}
	return elbnet.DNSName(region, r.name(), id, r.LB.Scheme == elbv2types.LoadBalancerSchemeEnumInternal)
}

// sdk returns the load balancer's description.
func (r *loadBalancerRecord) sdk() elbv2types.LoadBalancer {
	lb := r.LB
	lb.AvailabilityZones = slices.Clone(lb.AvailabilityZones)
	for i, z := range lb.AvailabilityZones {
		if z.LoadBalancerAddresses == nil {
			lb.AvailabilityZones[i].LoadBalancerAddresses = []elbv2types.LoadBalancerAddress{}
		}
	}
	if r.application() {
		lb.SecurityGroups = deref(lb.SecurityGroups)
	}
	return lb
}

// loadBalancer returns the load balancer with an ARN.
func loadBalancer(r store.Reader, sc scope, a *string) (loadBalancerRecord, error) {
	v, _, err := loadBalancerKind.get(r, sc, a)
	return v, err
}

// IsApplication reports whether an ARN is that of an Application Load Balancer, for AWS WAF.
func (s *Service) IsApplication(account, region, arn string) bool {
	lb, err := loadBalancer(s.Store, regional.At(account, region), &arn)
	return err == nil && lb.application()
}

// DescribeLoadBalancers lists load balancers.
func (s *Service) DescribeLoadBalancers(ctx context.Context, in *awselbv2.DescribeLoadBalancersInput) (*awselbv2.DescribeLoadBalancersOutput, error) {
	sc := scopeOf(ctx)
	var found []loadBalancerRecord
	var missing []string
	switch {
	case len(in.LoadBalancerArns) > 0 && len(in.Names) > 0:
		return nil, errValidation("Load balancer names and load balancer ARNs cannot be specified at the same time")
	case len(in.LoadBalancerArns) > 0:
		for _, a := range in.LoadBalancerArns {
			lb, err := loadBalancer(s.Store, sc, &a)
			if _, no := err.(*elbv2types.LoadBalancerNotFoundException); no { //nolint:errorlint // just made
				missing = append(missing, a)
				continue
			}
			if err != nil {
				return nil, err
			}
			found = append(found, lb)
		}
	case len(in.Names) > 0:
		for _, n := range in.Names {
			lb, err := loadBalancers.Get(s.Store, sc.Key(cmp.Or(n, "-")))
			if store.IsNotFound(err) {
				missing = append(missing, n)
				continue
			}
			if err != nil {
				return nil, err
			}
			found = append(found, lb)
		}
	default:
		for _, i := range loadBalancers.All(s.Store, sc.All()) {
			found = append(found, i.Value)
		}
	}
	if len(missing) > 0 {
		return nil, errNoLoadBalancers(missing...)
	}
	slices.SortFunc(found, func(a, b loadBalancerRecord) int { return strings.Compare(a.name(), b.name()) })
	found = slices.CompactFunc(found, func(a, b loadBalancerRecord) bool { return a.arn() == b.arn() })
	found, next, err := paging.Cut(pages, found, func(r loadBalancerRecord) string { return r.name() }, in.PageSize, in.Marker)
	if err != nil {
		return nil, err
	}
	out := &awselbv2.DescribeLoadBalancersOutput{LoadBalancers: []elbv2types.LoadBalancer{}, NextMarker: next}
	for _, r := range found {
		out.LoadBalancers = append(out.LoadBalancers, r.sdk())
	}
	return out, nil
}

// settledLoadBalancers reports whether no load balancer is provisioning. Until then, responses to
// waiters are delayed.
func settledLoadBalancers(out *awselbv2.DescribeLoadBalancersOutput) bool {
	return !slices.ContainsFunc(out.LoadBalancers, func(lb elbv2types.LoadBalancer) bool {
		return lb.State.Code == elbv2types.LoadBalancerStateEnumProvisioning
	})
}

// DeleteLoadBalancer deletes a load balancer and its listeners. It is not an error if there is
// none.
// https://docs.aws.amazon.com/elasticloadbalancing/latest/APIReference/API_DeleteLoadBalancer.html
func (s *Service) DeleteLoadBalancer(ctx context.Context, in *awselbv2.DeleteLoadBalancerInput) (*awselbv2.DeleteLoadBalancerOutput, error) {
	sc := scopeOf(ctx)
	var deleted store.Key
	err := s.Store.Update(ctx, func(tx *store.Tx) error {
		lb, err := loadBalancer(tx, sc, in.LoadBalancerArn)
		if _, no := err.(*elbv2types.LoadBalancerNotFoundException); no { //nolint:errorlint // just made
			return nil
		}
		if err != nil {
			return err
		}
		if lb.Attributes[deletionProtection] == "true" {
			return errDeletionProtected(lb.arn())
		}
		owned := listeners.All(tx, sc.Below(lb.id()))
		// There may be 50 listeners and 100 rules, too many for one transaction. Rules whose
		// listener is deleted no longer belong to a load balancer, and the reconciler removes them.
		for _, l := range owned {
			listeners.Delete(tx, l.Key)
		}
		loadBalancers.Delete(tx, sc.Key(lb.name()))
		deleted = sc.Key(lb.id())
		return deletions.Put(tx, deleted, deletionRecord{s.Now()})
	})
	if err == nil && deleted.ID != "" {
		s.CleanUp(ctx, deleted, s.reconcileDeleted)
	}
	return &awselbv2.DeleteLoadBalancerOutput{}, err
}
