package eks_test

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sort"
	"strings"
	"sync"

	"github.com/aws/aws-sdk-go-v2/aws"
	awsec2 "github.com/aws/aws-sdk-go-v2/service/ec2"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"
	awselbv2 "github.com/aws/aws-sdk-go-v2/service/elasticloadbalancingv2"
	elbv2types "github.com/aws/aws-sdk-go-v2/service/elasticloadbalancingv2/types"

	"github.com/drydock-dev/drydock/internal/awsapi/awserr"
)

// fakeBalancing is Elastic Load Balancing, and EC2's permissions of security groups.
type fakeBalancing struct {
	*fakeEC2
	mu         sync.Mutex
	n          int
	balancers  map[string]*elbv2types.LoadBalancer
	groups     map[string]*elbv2types.TargetGroup
	listeners  map[string]*elbv2types.Listener
	rules      map[string]*elbv2types.Rule
	ruleOf     map[string]string // the listener of a rule
	tags       map[string]map[string]string
	targets    map[string][]elbv2types.TargetDescription
	more       map[string][]string // certificates of a listener besides the default one
	attributes map[string]string
	changes    int              // calls that have changed something
	denied     map[string]error // by operation
}

func newBalancing(e *fakeEC2) *fakeBalancing {
	return &fakeBalancing{
		fakeEC2: e, balancers: map[string]*elbv2types.LoadBalancer{}, groups: map[string]*elbv2types.TargetGroup{}, listeners: map[string]*elbv2types.Listener{},
		rules: map[string]*elbv2types.Rule{}, ruleOf: map[string]string{}, tags: map[string]map[string]string{}, targets: map[string][]elbv2types.TargetDescription{},
		more: map[string][]string{}, attributes: map[string]string{}, denied: map[string]error{},
	}
}

// deny makes an operation fail, or succeed again.
func (f *fakeBalancing) deny(operation string, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.denied[operation] = err
}

// change calls fn, which changes something, unless the call fails.
func (f *fakeBalancing) change(operation string, fn func() error) error {
	if err := f.faults.strike(); err != nil {
		return err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if err := f.denied[operation]; err != nil {
		return err
	}
	if err := fn(); err != nil {
		return err
	}
	f.changes++
	return f.faults.strike()
}

func (f *fakeBalancing) arn(kind, name string) string {
	f.n++
	return fmt.Sprintf("arn:aws:elasticloadbalancing:us-east-1:000000000000:%s/%s/%016x", kind, name, f.n)
}

func (f *fakeBalancing) tag(arn string, tags []elbv2types.Tag) {
	if f.tags[arn] == nil {
		f.tags[arn] = map[string]string{}
	}
	for _, t := range tags {
		f.tags[arn][*t.Key] = *t.Value
	}
}

// describe describes what exists, but not what tells two of a kind apart: IDs and generated names.
func (f *fakeBalancing) describe() string {
	f.mu.Lock()
	defer f.mu.Unlock()
	var out []string
	group := func(arn *string) string {
		return f.tags[aws.ToString(arn)]["service.eks.amazonaws.com/resource"] + f.tags[aws.ToString(arn)]["ingress.eks.amazonaws.com/resource"]
	}
	own := func(arn string) string {
		var out []string
		for _, k := range slices.Sorted(maps.Keys(f.tags[arn])) {
			if !strings.Contains(k, "eks") {
				out = append(out, k+"="+f.tags[arn][k])
			}
		}
		return strings.Join(out, ",")
	}
	for arn, b := range f.balancers {
		out = append(out, fmt.Sprintf("balancer %s %s %s [%s]", b.Type, b.Scheme, f.tags[arn]["service.eks.amazonaws.com/stack"]+f.tags[arn]["ingress.eks.amazonaws.com/stack"], own(arn)))
		for _, l := range f.listeners {
			if *l.LoadBalancerArn != arn {
				continue
			}
			certificates := slices.Clone(f.more[*l.ListenerArn])
			for _, c := range l.Certificates {
				certificates = append([]string{*c.CertificateArn}, certificates...)
			}
			out = append(out, fmt.Sprintf("listener %s %d %s %v", l.Protocol, *l.Port, group(l.DefaultActions[0].TargetGroupArn), certificates))
			for r, of := range f.ruleOf {
				if of == *l.ListenerArn {
					out = append(out, fmt.Sprintf("rule %s %s", *f.rules[r].Priority, group(f.rules[r].Actions[0].TargetGroupArn)))
				}
			}
		}
	}
	for arn, g := range f.groups {
		var ids []string
		for _, t := range f.targets[arn] {
			ids = append(ids, fmt.Sprintf("%s:%d", *t.Id, *t.Port))
		}
		sort.Strings(ids)
		out = append(out, fmt.Sprintf("group %s %s:%d %s check %s %s %s %v [%s]", group(&arn), g.Protocol, *g.Port, g.TargetType, g.HealthCheckProtocol, aws.ToString(g.HealthCheckPort), aws.ToString(g.HealthCheckPath), ids, own(arn)))
	}
	f.fakeEC2.mu.Lock()
	defer f.fakeEC2.mu.Unlock()
	for _, g := range f.fakeEC2.groups {
		if i := slices.IndexFunc(g.Tags, func(t ec2types.Tag) bool { return strings.HasSuffix(*t.Key, ".eks.amazonaws.com/stack") }); i >= 0 {
			var permissions []string
			for _, p := range g.IpPermissions {
				permissions = append(permissions, fmt.Sprintf("%s:%d from %s", *p.IpProtocol, *p.FromPort, *p.IpRanges[0].CidrIp))
			}
			sort.Strings(permissions)
			line := fmt.Sprintf("security group %s %v", *g.Tags[i].Value, permissions)
			var own []string
			for _, t := range g.Tags {
				if !strings.Contains(*t.Key, "eks") {
					own = append(own, *t.Key+"="+*t.Value)
				}
			}
			if slices.Sort(own); len(own) > 0 {
				line += " " + strings.Join(own, ",")
			}
			out = append(out, line)
		}
	}
	sort.Strings(out)
	return strings.Join(out, "\n")
}

func permissionsOf(p ec2types.IpPermission) (out []ec2types.IpPermission) {
	for _, r := range p.IpRanges {
		out = append(out, ec2types.IpPermission{IpProtocol: p.IpProtocol, FromPort: p.FromPort, ToPort: p.ToPort, IpRanges: []ec2types.IpRange{r}})
	}
	for _, g := range p.UserIdGroupPairs {
		out = append(out, ec2types.IpPermission{IpProtocol: p.IpProtocol, FromPort: p.FromPort, ToPort: p.ToPort, UserIdGroupPairs: []ec2types.UserIdGroupPair{g}})
	}
	return out
}

func permissionID(p ec2types.IpPermission) string {
	return fmt.Sprint(*p.IpProtocol, aws.ToInt32(p.FromPort), len(p.IpRanges) > 0 && p.IpRanges[0].CidrIp != nil, func() string {
		if len(p.IpRanges) > 0 {
			return *p.IpRanges[0].CidrIp
		}
		return aws.ToString(p.UserIdGroupPairs[0].GroupId)
	}())
}

func (f *fakeBalancing) AuthorizeSecurityGroupIngress(_ context.Context, in *awsec2.AuthorizeSecurityGroupIngressInput) (*awsec2.AuthorizeSecurityGroupIngressOutput, error) {
	return &awsec2.AuthorizeSecurityGroupIngressOutput{}, f.change("AuthorizeSecurityGroupIngress", func() error {
		f.fakeEC2.mu.Lock()
		defer f.fakeEC2.mu.Unlock()
		g := f.fakeEC2.groups[*in.GroupId]
		for _, p := range in.IpPermissions {
			for _, one := range permissionsOf(p) {
				if slices.ContainsFunc(g.IpPermissions, func(q ec2types.IpPermission) bool { return permissionID(q) == permissionID(one) }) {
					return awserr.New("InvalidPermission.Duplicate", "the specified rule already exists")
				}
				g.IpPermissions = append(slices.Clone(g.IpPermissions), one)
			}
		}
		f.fakeEC2.groups[*in.GroupId] = g
		return nil
	})
}

func (f *fakeBalancing) RevokeSecurityGroupIngress(_ context.Context, in *awsec2.RevokeSecurityGroupIngressInput) (*awsec2.RevokeSecurityGroupIngressOutput, error) {
	return &awsec2.RevokeSecurityGroupIngressOutput{}, f.change("RevokeSecurityGroupIngress", func() error {
		f.fakeEC2.mu.Lock()
		defer f.fakeEC2.mu.Unlock()
		g := f.fakeEC2.groups[*in.GroupId]
		for _, p := range in.IpPermissions {
			g.IpPermissions = slices.DeleteFunc(slices.Clone(g.IpPermissions), func(q ec2types.IpPermission) bool { return permissionID(q) == permissionID(p) })
		}
		f.fakeEC2.groups[*in.GroupId] = g
		return nil
	})
}

func (f *fakeBalancing) CreateSecurityGroup(ctx context.Context, in *awsec2.CreateSecurityGroupInput) (*awsec2.CreateSecurityGroupOutput, error) {
	var out *awsec2.CreateSecurityGroupOutput
	err := f.change("CreateSecurityGroup", func() (err error) { out, err = f.fakeEC2.CreateSecurityGroup(ctx, in); return err })
	return out, err
}

func (f *fakeBalancing) CreateTags(_ context.Context, in *awsec2.CreateTagsInput) (*awsec2.CreateTagsOutput, error) {
	return &awsec2.CreateTagsOutput{}, f.change("CreateTags", func() error {
		f.retag(in.Resources[0], in.Tags, in.Tags)
		return nil
	})
}

func (f *fakeBalancing) DeleteTags(_ context.Context, in *awsec2.DeleteTagsInput) (*awsec2.DeleteTagsOutput, error) {
	return &awsec2.DeleteTagsOutput{}, f.change("DeleteTags", func() error {
		f.retag(in.Resources[0], in.Tags, nil)
		return nil
	})
}

// retag takes tags from a security group and gives it others.
func (f *fakeBalancing) retag(id string, gone, added []ec2types.Tag) {
	f.fakeEC2.mu.Lock()
	defer f.fakeEC2.mu.Unlock()
	g := f.fakeEC2.groups[id]
	g.Tags = slices.DeleteFunc(slices.Clone(g.Tags), func(t ec2types.Tag) bool {
		return slices.ContainsFunc(gone, func(o ec2types.Tag) bool { return *o.Key == *t.Key })
	})
	g.Tags = append(g.Tags, added...)
	f.fakeEC2.groups[id] = g
}

func (f *fakeBalancing) AddTags(_ context.Context, in *awselbv2.AddTagsInput) (*awselbv2.AddTagsOutput, error) {
	return &awselbv2.AddTagsOutput{}, f.change("AddTags", func() error { f.tag(in.ResourceArns[0], in.Tags); return nil })
}

func (f *fakeBalancing) RemoveTags(_ context.Context, in *awselbv2.RemoveTagsInput) (*awselbv2.RemoveTagsOutput, error) {
	return &awselbv2.RemoveTagsOutput{}, f.change("RemoveTags", func() error {
		for _, k := range in.TagKeys {
			delete(f.tags[in.ResourceArns[0]], k)
		}
		return nil
	})
}

func (f *fakeBalancing) CreateLoadBalancer(_ context.Context, in *awselbv2.CreateLoadBalancerInput) (*awselbv2.CreateLoadBalancerOutput, error) {
	out := &awselbv2.CreateLoadBalancerOutput{}
	return out, f.change("CreateLoadBalancer", func() error {
		for _, b := range f.balancers {
			if *b.LoadBalancerName == *in.Name {
				return awserr.New("DuplicateLoadBalancerName", "A load balancer with the same name exists")
			}
		}
		b := &elbv2types.LoadBalancer{LoadBalancerArn: new(f.arn("loadbalancer", *in.Name)), LoadBalancerName: in.Name, DNSName: new(*in.Name + ".elb.amazonaws.com"), Type: in.Type, Scheme: in.Scheme, VpcId: new("vpc-main"), SecurityGroups: in.SecurityGroups}
		for _, s := range in.Subnets {
			b.AvailabilityZones = append(b.AvailabilityZones, elbv2types.AvailabilityZone{SubnetId: &s})
		}
		f.balancers[*b.LoadBalancerArn] = b
		f.tag(*b.LoadBalancerArn, in.Tags)
		out.LoadBalancers = []elbv2types.LoadBalancer{*b}
		return nil
	})
}

func (f *fakeBalancing) DeleteLoadBalancer(_ context.Context, in *awselbv2.DeleteLoadBalancerInput) (*awselbv2.DeleteLoadBalancerOutput, error) {
	return &awselbv2.DeleteLoadBalancerOutput{}, f.change("DeleteLoadBalancer", func() error {
		delete(f.balancers, *in.LoadBalancerArn)
		for arn, l := range f.listeners {
			if *l.LoadBalancerArn == *in.LoadBalancerArn {
				f.endListener(arn)
			}
		}
		return nil
	})
}

func (f *fakeBalancing) endListener(arn string) {
	delete(f.listeners, arn)
	for r, of := range f.ruleOf {
		if of == arn {
			delete(f.rules, r)
			delete(f.ruleOf, r)
		}
	}
}

func (f *fakeBalancing) CreateTargetGroup(_ context.Context, in *awselbv2.CreateTargetGroupInput) (*awselbv2.CreateTargetGroupOutput, error) {
	out := &awselbv2.CreateTargetGroupOutput{}
	return out, f.change("CreateTargetGroup", func() error {
		for _, g := range f.groups {
			if *g.TargetGroupName == *in.Name {
				return awserr.New("DuplicateTargetGroupName", "A target group with the same name exists")
			}
		}
		g := &elbv2types.TargetGroup{TargetGroupArn: new(f.arn("targetgroup", *in.Name)), TargetGroupName: in.Name, Protocol: in.Protocol, Port: in.Port, TargetType: in.TargetType, VpcId: in.VpcId,
			HealthCheckProtocol: in.HealthCheckProtocol, HealthCheckPath: in.HealthCheckPath, HealthCheckPort: in.HealthCheckPort}
		f.groups[*g.TargetGroupArn] = g
		f.tag(*g.TargetGroupArn, in.Tags)
		out.TargetGroups = []elbv2types.TargetGroup{*g}
		return nil
	})
}

func (f *fakeBalancing) DeleteTargetGroup(_ context.Context, in *awselbv2.DeleteTargetGroupInput) (*awselbv2.DeleteTargetGroupOutput, error) {
	return &awselbv2.DeleteTargetGroupOutput{}, f.change("DeleteTargetGroup", func() error {
		for _, l := range f.listeners {
			if aws.ToString(l.DefaultActions[0].TargetGroupArn) == *in.TargetGroupArn {
				return awserr.New("ResourceInUse", "Target group is currently in use by a listener or a rule")
			}
		}
		delete(f.groups, *in.TargetGroupArn)
		delete(f.targets, *in.TargetGroupArn)
		return nil
	})
}

func (f *fakeBalancing) RegisterTargets(_ context.Context, in *awselbv2.RegisterTargetsInput) (*awselbv2.RegisterTargetsOutput, error) {
	return &awselbv2.RegisterTargetsOutput{}, f.change("RegisterTargets", func() error {
		f.targets[*in.TargetGroupArn] = append(f.targets[*in.TargetGroupArn], in.Targets...)
		return nil
	})
}

func (f *fakeBalancing) DeregisterTargets(_ context.Context, in *awselbv2.DeregisterTargetsInput) (*awselbv2.DeregisterTargetsOutput, error) {
	return &awselbv2.DeregisterTargetsOutput{}, f.change("DeregisterTargets", func() error {
		f.targets[*in.TargetGroupArn] = slices.DeleteFunc(slices.Clone(f.targets[*in.TargetGroupArn]), func(t elbv2types.TargetDescription) bool {
			return slices.ContainsFunc(in.Targets, func(g elbv2types.TargetDescription) bool {
				return *g.Id == *t.Id && aws.ToInt32(g.Port) == aws.ToInt32(t.Port)
			})
		})
		return nil
	})
}

func (f *fakeBalancing) CreateListener(_ context.Context, in *awselbv2.CreateListenerInput) (*awselbv2.CreateListenerOutput, error) {
	out := &awselbv2.CreateListenerOutput{}
	return out, f.change("CreateListener", func() error {
		for _, l := range f.listeners {
			if *l.LoadBalancerArn == *in.LoadBalancerArn && *l.Port == *in.Port {
				return awserr.New("DuplicateListener", "A listener already exists on this port")
			}
		}
		l := &elbv2types.Listener{ListenerArn: new(f.arn("listener", "x")), LoadBalancerArn: in.LoadBalancerArn, Port: in.Port, Protocol: in.Protocol, DefaultActions: in.DefaultActions, Certificates: in.Certificates}
		f.listeners[*l.ListenerArn] = l
		out.Listeners = []elbv2types.Listener{*l}
		return nil
	})
}

func (f *fakeBalancing) ModifyListener(_ context.Context, in *awselbv2.ModifyListenerInput) (*awselbv2.ModifyListenerOutput, error) {
	return &awselbv2.ModifyListenerOutput{}, f.change("ModifyListener", func() error {
		l := f.listeners[*in.ListenerArn]
		l.Protocol, l.DefaultActions, l.Certificates = in.Protocol, in.DefaultActions, in.Certificates
		return nil
	})
}

func (f *fakeBalancing) DeleteListener(_ context.Context, in *awselbv2.DeleteListenerInput) (*awselbv2.DeleteListenerOutput, error) {
	return &awselbv2.DeleteListenerOutput{}, f.change("DeleteListener", func() error { f.endListener(*in.ListenerArn); return nil })
}

func (f *fakeBalancing) AddListenerCertificates(_ context.Context, in *awselbv2.AddListenerCertificatesInput) (*awselbv2.AddListenerCertificatesOutput, error) {
	return &awselbv2.AddListenerCertificatesOutput{}, f.change("AddListenerCertificates", func() error {
		for _, c := range in.Certificates {
			if !slices.Contains(f.more[*in.ListenerArn], *c.CertificateArn) {
				f.more[*in.ListenerArn] = append(f.more[*in.ListenerArn], *c.CertificateArn)
			}
		}
		return nil
	})
}

func (f *fakeBalancing) RemoveListenerCertificates(_ context.Context, in *awselbv2.RemoveListenerCertificatesInput) (*awselbv2.RemoveListenerCertificatesOutput, error) {
	return &awselbv2.RemoveListenerCertificatesOutput{}, f.change("RemoveListenerCertificates", func() error {
		f.more[*in.ListenerArn] = slices.DeleteFunc(slices.Clone(f.more[*in.ListenerArn]), func(c string) bool { return c == *in.Certificates[0].CertificateArn })
		return nil
	})
}

func (f *fakeBalancing) CreateRule(_ context.Context, in *awselbv2.CreateRuleInput) (*awselbv2.CreateRuleOutput, error) {
	return &awselbv2.CreateRuleOutput{}, f.change("CreateRule", func() error {
		for r, of := range f.ruleOf {
			if of == *in.ListenerArn && *f.rules[r].Priority == fmt.Sprint(*in.Priority) {
				return awserr.New("PriorityInUse", "Priority is currently in use")
			}
		}
		arn := f.arn("listener-rule", "x")
		f.rules[arn], f.ruleOf[arn] = &elbv2types.Rule{RuleArn: &arn, Priority: new(fmt.Sprint(*in.Priority)), Conditions: in.Conditions, Actions: in.Actions}, *in.ListenerArn
		return nil
	})
}

func (f *fakeBalancing) DeleteRule(_ context.Context, in *awselbv2.DeleteRuleInput) (*awselbv2.DeleteRuleOutput, error) {
	return &awselbv2.DeleteRuleOutput{}, f.change("DeleteRule", func() error {
		delete(f.rules, *in.RuleArn)
		delete(f.ruleOf, *in.RuleArn)
		return nil
	})
}

func (f *fakeBalancing) ModifyLoadBalancerAttributes(_ context.Context, in *awselbv2.ModifyLoadBalancerAttributesInput) (*awselbv2.ModifyLoadBalancerAttributesOutput, error) {
	return &awselbv2.ModifyLoadBalancerAttributesOutput{}, f.change("ModifyLoadBalancerAttributes", func() error {
		for _, a := range in.Attributes {
			f.attributes[*a.Key] = *a.Value
		}
		return nil
	})
}

func (f *fakeBalancing) SetSubnets(_ context.Context, in *awselbv2.SetSubnetsInput) (*awselbv2.SetSubnetsOutput, error) {
	return &awselbv2.SetSubnetsOutput{}, f.change("SetSubnets", func() error {
		b := f.balancers[*in.LoadBalancerArn]
		b.AvailabilityZones = nil
		for _, s := range in.Subnets {
			b.AvailabilityZones = append(b.AvailabilityZones, elbv2types.AvailabilityZone{SubnetId: &s})
		}
		return nil
	})
}

// look calls fn, which reads, unless the call fails.
func (f *fakeBalancing) look(fn func()) error {
	if err := f.faults.strike(); err != nil {
		return err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	fn()
	return nil
}

func (f *fakeBalancing) DescribeLoadBalancers(context.Context, *awselbv2.DescribeLoadBalancersInput) (*awselbv2.DescribeLoadBalancersOutput, error) {
	out := &awselbv2.DescribeLoadBalancersOutput{}
	return out, f.look(func() {
		for _, b := range f.balancers {
			out.LoadBalancers = append(out.LoadBalancers, *b)
		}
	})
}

func (f *fakeBalancing) DescribeTargetGroups(context.Context, *awselbv2.DescribeTargetGroupsInput) (*awselbv2.DescribeTargetGroupsOutput, error) {
	out := &awselbv2.DescribeTargetGroupsOutput{}
	return out, f.look(func() {
		for _, g := range f.groups {
			out.TargetGroups = append(out.TargetGroups, *g)
		}
	})
}

func (f *fakeBalancing) DescribeTags(_ context.Context, in *awselbv2.DescribeTagsInput) (*awselbv2.DescribeTagsOutput, error) {
	out := &awselbv2.DescribeTagsOutput{}
	return out, f.look(func() {
		for _, arn := range in.ResourceArns {
			d := elbv2types.TagDescription{ResourceArn: &arn}
			for k, v := range f.tags[arn] {
				d.Tags = append(d.Tags, elbv2types.Tag{Key: &k, Value: &v})
			}
			out.TagDescriptions = append(out.TagDescriptions, d)
		}
	})
}

func (f *fakeBalancing) DescribeTargetHealth(_ context.Context, in *awselbv2.DescribeTargetHealthInput) (*awselbv2.DescribeTargetHealthOutput, error) {
	out := &awselbv2.DescribeTargetHealthOutput{}
	return out, f.look(func() {
		for _, t := range f.targets[*in.TargetGroupArn] {
			out.TargetHealthDescriptions = append(out.TargetHealthDescriptions, elbv2types.TargetHealthDescription{Target: &t})
		}
	})
}

func (f *fakeBalancing) DescribeListeners(_ context.Context, in *awselbv2.DescribeListenersInput) (*awselbv2.DescribeListenersOutput, error) {
	out := &awselbv2.DescribeListenersOutput{}
	return out, f.look(func() {
		for _, l := range f.listeners {
			if *l.LoadBalancerArn == *in.LoadBalancerArn {
				out.Listeners = append(out.Listeners, *l)
			}
		}
	})
}

func (f *fakeBalancing) DescribeListenerCertificates(_ context.Context, in *awselbv2.DescribeListenerCertificatesInput) (*awselbv2.DescribeListenerCertificatesOutput, error) {
	out := &awselbv2.DescribeListenerCertificatesOutput{}
	return out, f.look(func() {
		for _, c := range f.listeners[*in.ListenerArn].Certificates {
			out.Certificates = append(out.Certificates, elbv2types.Certificate{CertificateArn: c.CertificateArn, IsDefault: new(true)})
		}
		for _, c := range f.more[*in.ListenerArn] {
			out.Certificates = append(out.Certificates, elbv2types.Certificate{CertificateArn: &c, IsDefault: new(false)})
		}
	})
}

func (f *fakeBalancing) DescribeRules(_ context.Context, in *awselbv2.DescribeRulesInput) (*awselbv2.DescribeRulesOutput, error) {
	out := &awselbv2.DescribeRulesOutput{}
	return out, f.look(func() {
		for r, of := range f.ruleOf {
			if of == *in.ListenerArn {
				out.Rules = append(out.Rules, *f.rules[r])
			}
		}
	})
}
