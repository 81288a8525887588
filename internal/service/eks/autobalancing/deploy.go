package autobalancing

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	awsec2 "github.com/aws/aws-sdk-go-v2/service/ec2"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"
	awselbv2 "github.com/aws/aws-sdk-go-v2/service/elasticloadbalancingv2"
	elbv2types "github.com/aws/aws-sdk-go-v2/service/elasticloadbalancingv2/types"

	"github.com/drydock-dev/drydock/internal/automode"
	"github.com/drydock-dev/drydock/internal/awsapi/awserr"
	"github.com/drydock-dev/drydock/internal/service/eks/base"
	"github.com/drydock-dev/drydock/internal/service/eks/record"
	"github.com/drydock-dev/drydock/internal/store"
)

// A stack is a load balancer that a cluster wants, with everything that belongs to it.
type stack struct {
	id         string // of its object or group: NAMESPACE/NAME, with the prefix of its kind
	kind       string // service or ingress: what its tags begin with
	name       string // of the load balancer
	typ        elbv2types.LoadBalancerTypeEnum
	scheme     elbv2types.LoadBalancerSchemeEnum
	subnets    []string
	ranges     []string // CIDR blocks that may connect
	attributes map[string]string
	tags       map[string]string // users'
	listeners  []listener
	groups     map[string]*group // by name
}

// A listener is a port of a stack. An empty group answers what no rule matches with 404.
type listener struct {
	port         int32
	protocol     elbv2types.ProtocolEnum
	certificates []string
	group        string
	rules        []rule
}

// A rule of a listener, in the order of evaluation.
type rule struct {
	hosts, paths []string
	group        string
}

// A group is a target group of a stack.
type group struct {
	resource string // of its tag
	protocol elbv2types.ProtocolEnum
	port     int32
	typ      elbv2types.TargetTypeEnum
	check    check
	targets  []target
}

// A check is the health check of a target group. Zero fields are AWS's defaults.
type check struct{ protocol, path, port string }

type target struct {
	id   string
	port int32
}

// Owned is what a stack has in AWS.
type owned struct {
	id       string
	balancer *elbv2types.LoadBalancer
	others   []elbv2types.LoadBalancer // that the stack no longer wants
	groups   []elbv2types.TargetGroup
	security []ec2types.SecurityGroup
	tags     map[string]map[string]string // by the ARN
}

// A deployer changes what a cluster has in AWS.
type deployer struct {
	s   *Service
	key store.Key
	rec *record.Cluster
	// as is the cluster role's session, if asErr is nil, and svc the service-linked role's.
	as    context.Context //nolint:containedctx // two callers in one pass
	asErr error
	svc   context.Context //nolint:containedctx // two callers in one pass
}

// Tags of what belongs to a stack. The managed policy names them.
const (
	stackTag    = ".eks.amazonaws.com/stack"
	resourceTag = ".eks.amazonaws.com/resource"

	securityGroupResource = "ManagedLBSecurityGroup"
)

func (d *deployer) tags(st *stack, resource string) map[string]string {
	out := maps.Clone(st.tags)
	if out == nil {
		out = map[string]string{}
	}
	out[automode.TagCluster], out[st.kind+stackTag], out[st.kind+resourceTag] = d.key.ID, strings.TrimPrefix(st.id, st.kind+"/"), resource
	return out
}

func elbTags(tags map[string]string) (out []elbv2types.Tag) {
	for _, k := range slices.Sorted(maps.Keys(tags)) {
		out = append(out, elbv2types.Tag{Key: &k, Value: new(tags[k])})
	}
	return out
}

// look returns what carries the cluster's tag, by stack.
func (d *deployer) look() (map[string]*owned, error) {
	out := map[string]*owned{}
	of := func(tags map[string]string) *owned {
		if tags[automode.TagCluster] != d.key.ID {
			return nil
		}
		for _, kind := range []string{kindService, kindIngress} {
			if id := tags[kind+stackTag]; id != "" {
				id = kind + "/" + id
				if out[id] == nil {
					out[id] = &owned{id: id, tags: map[string]map[string]string{}}
				}
				return out[id]
			}
		}
		return nil
	}
	balancers, groups := map[string]elbv2types.LoadBalancer{}, map[string]elbv2types.TargetGroup{}
	var marker *string
	for {
		page, err := d.s.LoadBalancers.DescribeLoadBalancers(d.svc, &awselbv2.DescribeLoadBalancersInput{Marker: marker})
		if err != nil {
			return nil, err
		}
		for _, b := range page.LoadBalancers {
			if aws.ToString(b.VpcId) == aws.ToString(d.rec.Cluster.ResourcesVpcConfig.VpcId) {
				balancers[*b.LoadBalancerArn] = b
			}
		}
		if marker = page.NextMarker; marker == nil {
			break
		}
	}
	for {
		page, err := d.s.LoadBalancers.DescribeTargetGroups(d.svc, &awselbv2.DescribeTargetGroupsInput{Marker: marker})
		if err != nil {
			return nil, err
		}
		for _, g := range page.TargetGroups {
			if aws.ToString(g.VpcId) == aws.ToString(d.rec.Cluster.ResourcesVpcConfig.VpcId) {
				groups[*g.TargetGroupArn] = g
			}
		}
		if marker = page.NextMarker; marker == nil {
			break
		}
	}
	arns := slices.Sorted(maps.Keys(balancers))
	arns = append(arns, slices.Sorted(maps.Keys(groups))...)
	for chunk := range slices.Chunk(arns, 20) { // as many as DescribeTags takes
		page, err := d.s.LoadBalancers.DescribeTags(d.svc, &awselbv2.DescribeTagsInput{ResourceArns: chunk})
		if err != nil {
			return nil, err
		}
		for _, r := range page.TagDescriptions {
			tags := map[string]string{}
			for _, t := range r.Tags {
				tags[*t.Key] = aws.ToString(t.Value)
			}
			o := of(tags)
			if o == nil {
				continue
			}
			o.tags[*r.ResourceArn] = tags
			if b, ok := balancers[*r.ResourceArn]; ok {
				o.others = append(o.others, b)
			} else {
				o.groups = append(o.groups, groups[*r.ResourceArn])
			}
		}
	}
	security, err := d.s.Network.DescribeSecurityGroups(d.svc, &awsec2.DescribeSecurityGroupsInput{Filters: []ec2types.Filter{
		base.EC2Filter("tag:"+automode.TagCluster, d.key.ID), base.EC2Filter("vpc-id", aws.ToString(d.rec.Cluster.ResourcesVpcConfig.VpcId)),
	}})
	if err != nil {
		return nil, err
	}
	for _, g := range security.SecurityGroups {
		tags := map[string]string{}
		for _, t := range g.Tags {
			tags[*t.Key] = aws.ToString(t.Value)
		}
		if o := of(tags); o != nil {
			o.security = append(o.security, g)
		}
	}
	return out, nil
}

// deploy makes AWS have what a stack wants, and returns the DNS name of its load balancer. If only tags could not be changed, it
// returns the name and an error.
func (d *deployer) deploy(st *stack, have *owned) (string, error) {
	if d.asErr != nil {
		return "", d.asErr
	}
	if have == nil {
		have = &owned{id: st.id}
	}
	have.balancer = nil
	have.others = slices.DeleteFunc(have.others, func(b elbv2types.LoadBalancer) bool {
		if *b.LoadBalancerName == st.name && have.balancer == nil {
			have.balancer = &b
			return true
		}
		return false
	})
	var late []error // of tags, which hold up nothing else
	sg, err := d.securityGroup(st, have)
	if err != nil {
		return "", err
	}
	if len(have.security) > 0 {
		late = append(late, d.retagGroup(&have.security[0], d.tags(st, securityGroupResource)))
	}
	// A load balancer of another scheme goes first: a target group belongs to one only.
	for _, b := range have.others {
		if _, err := d.s.LoadBalancers.DeleteLoadBalancer(d.svc, &awselbv2.DeleteLoadBalancerInput{LoadBalancerArn: b.LoadBalancerArn}); err != nil {
			return "", err
		}
	}
	if have.balancer == nil {
		out, err := d.s.LoadBalancers.CreateLoadBalancer(d.as, &awselbv2.CreateLoadBalancerInput{
			Name: &st.name, Type: st.typ, Scheme: st.scheme, IpAddressType: elbv2types.IpAddressTypeIpv4, Subnets: st.subnets, SecurityGroups: []string{sg},
			Tags: elbTags(d.tags(st, "LoadBalancer")),
		})
		if err != nil {
			return "", err
		}
		have.balancer = &out.LoadBalancers[0]
	} else {
		if err := d.moveBalancer(st, have.balancer); err != nil {
			return "", err
		}
		late = append(late, d.retag(*have.balancer.LoadBalancerArn, have.tags[*have.balancer.LoadBalancerArn], d.tags(st, "LoadBalancer")))
	}
	if len(st.attributes) > 0 {
		in := &awselbv2.ModifyLoadBalancerAttributesInput{LoadBalancerArn: have.balancer.LoadBalancerArn}
		for _, k := range slices.Sorted(maps.Keys(st.attributes)) {
			in.Attributes = append(in.Attributes, elbv2types.LoadBalancerAttribute{Key: &k, Value: new(st.attributes[k])})
		}
		if _, err := d.s.LoadBalancers.ModifyLoadBalancerAttributes(d.as, in); err != nil {
			return "", err
		}
	}
	arns := map[string]string{}
	for _, name := range slices.Sorted(maps.Keys(st.groups)) {
		if arns[name], err = d.targetGroup(st, name, st.groups[name], have); err != nil {
			return "", err
		}
		if now := have.tags[arns[name]]; now != nil {
			late = append(late, d.retag(arns[name], now, d.tags(st, st.groups[name].resource)))
		}
	}
	if err := d.listeners(st, *have.balancer.LoadBalancerArn, arns); err != nil {
		return "", err
	}
	// Target groups that are no longer wanted go last, when nothing refers to them.
	for _, g := range have.groups {
		if st.groups[*g.TargetGroupName] == nil {
			if _, err := d.s.LoadBalancers.DeleteTargetGroup(d.svc, &awselbv2.DeleteTargetGroupInput{TargetGroupArn: g.TargetGroupArn}); err != nil {
				return "", err
			}
		}
	}
	return aws.ToString(have.balancer.DNSName), errors.Join(late...)
}

func (d *deployer) moveBalancer(st *stack, b *elbv2types.LoadBalancer) error {
	var now []string
	for _, z := range b.AvailabilityZones {
		now = append(now, aws.ToString(z.SubnetId))
	}
	if slices.Equal(slices.Sorted(slices.Values(now)), slices.Sorted(slices.Values(st.subnets))) {
		return nil
	}
	_, err := d.s.LoadBalancers.SetSubnets(d.as, &awselbv2.SetSubnetsInput{LoadBalancerArn: b.LoadBalancerArn, Subnets: st.subnets})
	return err
}

// retag gives a load balancer or a target group the tags that are wanted. As the AWS Load Balancer Controller does, it takes
// others away. The managed policy allows neither: users who change tags must let the cluster role do so.
// https://docs.aws.amazon.com/eks/latest/userguide/auto-learn-iam.html#tag-prop
func (d *deployer) retag(arn string, now, want map[string]string) error {
	add, gone := changedTags(now, want)
	if len(add) > 0 {
		if _, err := d.s.LoadBalancers.AddTags(d.as, &awselbv2.AddTagsInput{ResourceArns: []string{arn}, Tags: elbTags(add)}); err != nil {
			return err
		}
	}
	if len(gone) > 0 {
		if _, err := d.s.LoadBalancers.RemoveTags(d.as, &awselbv2.RemoveTagsInput{ResourceArns: []string{arn}, TagKeys: gone}); err != nil {
			return err
		}
	}
	return nil
}

// changedTags returns the tags that are missing, and the keys of those that are not wanted.
func changedTags(now, want map[string]string) (add map[string]string, gone []string) {
	add = map[string]string{}
	for k, v := range want {
		if has, ok := now[k]; !ok || has != v {
			add[k] = v
		}
	}
	for _, k := range slices.Sorted(maps.Keys(now)) {
		if _, ok := want[k]; !ok && !strings.HasPrefix(k, "aws:") {
			gone = append(gone, k)
		}
	}
	return add, gone
}

// retagGroup is retag for a security group.
func (d *deployer) retagGroup(sg *ec2types.SecurityGroup, want map[string]string) error {
	now := map[string]string{}
	for _, t := range sg.Tags {
		now[*t.Key] = aws.ToString(t.Value)
	}
	add, gone := changedTags(now, want)
	if len(add) > 0 {
		if _, err := d.s.LoadBalancers.CreateTags(d.as, &awsec2.CreateTagsInput{Resources: []string{*sg.GroupId}, Tags: base.EC2Tags("", add)[0].Tags}); err != nil {
			return err
		}
	}
	if len(gone) > 0 {
		in := &awsec2.DeleteTagsInput{Resources: []string{*sg.GroupId}}
		for _, k := range gone {
			in.Tags = append(in.Tags, ec2types.Tag{Key: &k})
		}
		if _, err := d.s.LoadBalancers.DeleteTags(d.as, in); err != nil {
			return err
		}
	}
	return nil
}

// targetGroup returns the ARN of a target group with the wanted targets. What a group cannot change is in its name.
func (d *deployer) targetGroup(st *stack, name string, g *group, have *owned) (string, error) {
	var arn string
	if i := slices.IndexFunc(have.groups, func(h elbv2types.TargetGroup) bool { return *h.TargetGroupName == name }); i >= 0 {
		arn = *have.groups[i].TargetGroupArn
	} else {
		in := &awselbv2.CreateTargetGroupInput{
			Name: &name, Protocol: g.protocol, Port: &g.port, TargetType: g.typ, VpcId: d.rec.Cluster.ResourcesVpcConfig.VpcId,
			HealthCheckProtocol: elbv2types.ProtocolEnum(strings.ToUpper(g.check.protocol)), HealthCheckPath: record.Optional(g.check.path), HealthCheckPort: record.Optional(g.check.port),
			Tags: elbTags(d.tags(st, g.resource)),
		}
		out, err := d.s.LoadBalancers.CreateTargetGroup(d.as, in)
		if err != nil {
			return "", err
		}
		arn = *out.TargetGroups[0].TargetGroupArn
	}
	health, err := d.s.LoadBalancers.DescribeTargetHealth(d.svc, &awselbv2.DescribeTargetHealthInput{TargetGroupArn: &arn})
	if err != nil {
		return "", err
	}
	var gone []elbv2types.TargetDescription
	has := map[target]bool{}
	for _, h := range health.TargetHealthDescriptions {
		if h.TargetHealth != nil && h.TargetHealth.State == elbv2types.TargetHealthStateEnumDraining {
			continue
		}
		t := target{*h.Target.Id, aws.ToInt32(h.Target.Port)}
		has[t] = true
		if !slices.Contains(g.targets, t) {
			gone = append(gone, *h.Target)
		}
	}
	var add []elbv2types.TargetDescription
	for _, t := range g.targets {
		if !has[t] {
			add = append(add, elbv2types.TargetDescription{Id: &t.id, Port: &t.port})
		}
	}
	if len(add) > 0 {
		if _, err := d.s.LoadBalancers.RegisterTargets(d.as, &awselbv2.RegisterTargetsInput{TargetGroupArn: &arn, Targets: add}); err != nil {
			return "", err
		}
	}
	if len(gone) > 0 {
		if _, err := d.s.LoadBalancers.DeregisterTargets(d.svc, &awselbv2.DeregisterTargetsInput{TargetGroupArn: &arn, Targets: gone}); err != nil {
			return "", err
		}
	}
	return arn, nil
}

// remove deletes what a stack has.
func (d *deployer) remove(have *owned) error {
	for _, b := range have.others {
		if _, err := d.s.LoadBalancers.DeleteLoadBalancer(d.svc, &awselbv2.DeleteLoadBalancerInput{LoadBalancerArn: b.LoadBalancerArn}); err != nil {
			return err
		}
	}
	for _, g := range have.groups {
		if _, err := d.s.LoadBalancers.DeleteTargetGroup(d.svc, &awselbv2.DeleteTargetGroupInput{TargetGroupArn: g.TargetGroupArn}); err != nil {
			return err
		}
	}
	for _, g := range have.security {
		id, now, err := d.nodePermissions(*g.GroupId)
		if err == nil && len(now) > 0 {
			as := d.as
			if d.asErr != nil { // the cluster role may be gone; EKS's own may do this, too
				as = d.svc
			}
			_, err = d.s.LoadBalancers.RevokeSecurityGroupIngress(as, &awsec2.RevokeSecurityGroupIngressInput{GroupId: &id, IpPermissions: now})
			if awserr.CodeOf(err) == "InvalidPermission.NotFound" {
				err = nil
			}
		}
		if err != nil {
			return err
		}
		if _, err := d.s.Network.DeleteSecurityGroup(d.svc, &awsec2.DeleteSecurityGroupInput{GroupId: g.GroupId}); err != nil {
			return err
		}
	}
	return nil
}
