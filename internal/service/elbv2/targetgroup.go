package elbv2

import (
	"cmp"
	"context"
	"slices"
	"strconv"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	awselbv2 "github.com/aws/aws-sdk-go-v2/service/elasticloadbalancingv2"
	elbv2types "github.com/aws/aws-sdk-go-v2/service/elasticloadbalancingv2/types"

	"github.com/drydock-dev/drydock/internal/arn"
	"github.com/drydock-dev/drydock/internal/awsapi/awserr"
	"github.com/drydock-dev/drydock/internal/awsapi/paging"
	"github.com/drydock-dev/drydock/internal/ids"
	"github.com/drydock-dev/drydock/internal/store"
)

// maxTargetGroups is the quota of target groups.
// https://docs.aws.amazon.com/elasticloadbalancing/latest/application/load-balancer-limits.html
const maxTargetGroups = 3000

// CreateTargetGroup creates a target group. Repeating the request returns the existing one.
func (s *Service) CreateTargetGroup(ctx context.Context, in *awselbv2.CreateTargetGroupInput) (*awselbv2.CreateTargetGroupOutput, error) {
	sc := scopeOf(ctx)
	name := text(in.Name)
	if err := checkName(name, "target group"); err != nil {
		return nil, err
	}
	r := targetGroupRecord{Group: elbv2types.TargetGroup{
		TargetGroupName: &name, TargetType: cmp.Or(in.TargetType, elbv2types.TargetTypeEnumInstance), Protocol: in.Protocol, Port: in.Port,
		VpcId: in.VpcId, ProtocolVersion: in.ProtocolVersion, IpAddressType: cmp.Or(in.IpAddressType, elbv2types.TargetGroupIpAddressTypeEnumIpv4),
	}}
	if err := checkTargetGroup(&r.Group); err != nil {
		return nil, err
	}
	if err := setHealthCheck(&r.Group, awselbv2.ModifyTargetGroupInput{
		HealthCheckEnabled: in.HealthCheckEnabled, HealthCheckIntervalSeconds: in.HealthCheckIntervalSeconds, HealthCheckPath: in.HealthCheckPath,
		HealthCheckPort: in.HealthCheckPort, HealthCheckProtocol: in.HealthCheckProtocol, HealthCheckTimeoutSeconds: in.HealthCheckTimeoutSeconds,
		HealthyThresholdCount: in.HealthyThresholdCount, Matcher: in.Matcher, UnhealthyThresholdCount: in.UnhealthyThresholdCount,
	}); err != nil {
		return nil, err
	}
	var err error
	if r.Tags, err = newTags(in.Tags); err != nil {
		return nil, err
	}
	if _, ok, err := s.Network.VPC(s.AsService(ctx, sc), *in.VpcId); err != nil {
		return nil, err
	} else if !ok {
		return nil, errNoVPC(*in.VpcId)
	}
	r.Group.TargetGroupArn = aws.String(arn.New("elasticloadbalancing", sc.Region, sc.Account, "targetgroup/"+name+"/"+ids.Hex(idDigits)))
	err = s.Store.Update(ctx, func(tx *store.Tx) error {
		old, err := targetGroups.Get(tx, sc.Key(name))
		if err == nil {
			if !sameGroup(old.Group, r.Group) {
				return errDuplicateTargetGroup(name)
			}
			r = old
			return nil
		}
		if !store.IsNotFound(err) {
			return err
		}
		all := targetGroups.All(tx, sc.All())
		if len(all) >= maxTargetGroups {
			return errTooManyTargetGroups()
		}
		if err := targetSets.Put(tx, sc.Key(name), targetSetRecord{}); err != nil {
			return err
		}
		return targetGroups.Create(tx, sc.Key(name), r)
	})
	if err != nil {
		return nil, err
	}
	users := users(s.Store, sc)
	return &awselbv2.CreateTargetGroupOutput{TargetGroups: []elbv2types.TargetGroup{r.sdk(users)}}, nil
}

// checkTargetGroup checks the settings that cannot be changed later.
func checkTargetGroup(g *elbv2types.TargetGroup) error {
	switch {
	case g.TargetType == elbv2types.TargetTypeEnumLambda:
		return awserr.NotImplemented("target groups of Lambda functions")
	case g.Protocol == "":
		return errMissing("protocol")
	case g.Port == nil:
		return errMissing("port")
	case text(g.VpcId) == "":
		return errMissing("VPC ID")
	case g.IpAddressType == elbv2types.TargetGroupIpAddressTypeEnumIpv6:
		return awserr.NotImplemented("target groups of IPv6 addresses")
	}
	switch g.Protocol {
	case elbv2types.ProtocolEnumHttp, elbv2types.ProtocolEnumHttps:
		g.ProtocolVersion = new(cmp.Or(text(g.ProtocolVersion), "HTTP1"))
	case elbv2types.ProtocolEnumTcp, elbv2types.ProtocolEnumTls, elbv2types.ProtocolEnumUdp, elbv2types.ProtocolEnumTcpUdp:
		if text(g.ProtocolVersion) != "" {
			return errValidation("Protocol version cannot be specified for target groups with protocol '%s'", g.Protocol) // from memory
		}
		g.ProtocolVersion = nil
	case elbv2types.ProtocolEnumGeneve, elbv2types.ProtocolEnumQuic, elbv2types.ProtocolEnumTcpQuic:
		return awserr.NotImplemented("target groups of the protocol " + string(g.Protocol))
	}
	if g.TargetType == elbv2types.TargetTypeEnumAlb && g.Protocol != elbv2types.ProtocolEnumTcp {
		return errValidation("Protocol '%s' is not supported for target groups with target type 'alb'", g.Protocol) // from memory
	}
	return nil
}

// setHealthCheck applies a request's health check settings. Whatever the request leaves out keeps
// its value or gets the default:
// https://docs.aws.amazon.com/elasticloadbalancing/latest/APIReference/API_CreateTargetGroup.html
func setHealthCheck(g *elbv2types.TargetGroup, in awselbv2.ModifyTargetGroupInput) error {
	fresh := g.HealthCheckProtocol == ""
	application := isApplication(g)
	overHTTP := application || g.TargetType == elbv2types.TargetTypeEnumAlb
	if fresh {
		g.HealthCheckProtocol = elbv2types.ProtocolEnumTcp
		if overHTTP {
			g.HealthCheckProtocol = elbv2types.ProtocolEnumHttp
		}
	}
	if in.HealthCheckProtocol != "" {
		g.HealthCheckProtocol = in.HealthCheckProtocol
	}
	checksHTTP := g.HealthCheckProtocol == elbv2types.ProtocolEnumHttp || g.HealthCheckProtocol == elbv2types.ProtocolEnumHttps
	switch {
	case !checksHTTP && g.HealthCheckProtocol != elbv2types.ProtocolEnumTcp:
		return errHealthCheckProtocol(g.HealthCheckProtocol)
	case !checksHTTP && overHTTP:
		return errValidation("Health check protocol '%s' is not supported for target groups with protocol '%s'", g.HealthCheckProtocol, g.Protocol) // from memory
	case !checksHTTP && in.HealthCheckPath != nil:
		return errConfiguration("You cannot specify a health check path for target groups with health check protocol 'TCP'") // from memory
	case !checksHTTP && in.Matcher != nil:
		return errConfiguration("Custom health check matchers are not supported for health checks for target groups with the %s protocol", g.Protocol)
	}
	timeout := int32(10)
	if checksHTTP {
		timeout = 6
	}
	healthy := int32(5)
	if application {
		timeout = 5
	}
	g.HealthCheckEnabled = aws.Bool(or(in.HealthCheckEnabled, or(g.HealthCheckEnabled, true)))
	g.HealthCheckPort = aws.String(or(in.HealthCheckPort, or(g.HealthCheckPort, "traffic-port")))
	g.HealthCheckIntervalSeconds = aws.Int32(or(in.HealthCheckIntervalSeconds, or(g.HealthCheckIntervalSeconds, 30)))
	g.HealthCheckTimeoutSeconds = aws.Int32(or(in.HealthCheckTimeoutSeconds, or(g.HealthCheckTimeoutSeconds, min(timeout, *g.HealthCheckIntervalSeconds))))
	g.HealthyThresholdCount = aws.Int32(or(in.HealthyThresholdCount, or(g.HealthyThresholdCount, healthy)))
	g.UnhealthyThresholdCount = aws.Int32(or(in.UnhealthyThresholdCount, or(g.UnhealthyThresholdCount, 2)))
	if checksHTTP {
		path, matcher := "/", elbv2types.Matcher{HttpCode: aws.String("200")}
		switch {
		case !application:
			matcher.HttpCode = aws.String("200-399")
		case text(g.ProtocolVersion) == "GRPC":
			path, matcher = "/AWS.ALB/healthcheck", elbv2types.Matcher{GrpcCode: aws.String("12")}
		}
		g.HealthCheckPath = aws.String(or(in.HealthCheckPath, or(g.HealthCheckPath, path)))
		if in.Matcher != nil {
			g.Matcher = in.Matcher
		} else if g.Matcher == nil {
			g.Matcher = &matcher
		}
	} else {
		g.HealthCheckPath, g.Matcher = nil, nil
	}
	return checkHealthCheck(g)
}

// isApplication reports whether a group is for Application Load Balancers.
func isApplication(g *elbv2types.TargetGroup) bool {
	return g.Protocol == elbv2types.ProtocolEnumHttp || g.Protocol == elbv2types.ProtocolEnumHttps
}

func checkHealthCheck(g *elbv2types.TargetGroup) error {
	switch timeout, interval := *g.HealthCheckTimeoutSeconds, *g.HealthCheckIntervalSeconds; {
	case isApplication(g) && timeout >= interval:
		return errHealthTimeout()
	case timeout > interval:
		return errValidation("Health check timeout '%d' must be smaller than or equal to the interval '%d'", timeout, interval)
	}
	if p := *g.HealthCheckPort; p != "traffic-port" && !isPort(p) {
		return errValidation("Health check port '%s' must be either 'traffic-port' or a port number between 1 and 65535", p) // from memory
	}
	if p := text(g.HealthCheckPath); g.HealthCheckPath != nil && (!strings.HasPrefix(p, "/") || len(p) > 1024) {
		return errValidation("Health check path '%s' must begin with a '/' character, and can be no longer than 1024 characters", p) // from memory
	}
	if g.Matcher == nil {
		return nil
	}
	highest := 599
	if isApplication(g) {
		highest = 499
	}
	if codes := text(g.Matcher.HttpCode); codes != "" && !within(codes, 200, highest) {
		return errMatcher("HTTP", codes, 200, highest)
	}
	if codes := text(g.Matcher.GrpcCode); codes != "" && !within(codes, 0, 99) {
		return errMatcher("GRPC", codes, 0, 99)
	}
	return nil
}

// within reports whether codes, such as "200", "200,202" and "200-299", are all from lowest to highest.
func within(codes string, lowest, highest int) bool {
	for list := range strings.SplitSeq(codes, ",") {
		from, to, isRange := strings.Cut(list, "-")
		if !isRange {
			to = from
		}
		low, err := strconv.Atoi(from)
		high, err2 := strconv.Atoi(to)
		if err != nil || err2 != nil || low < lowest || high > highest || low > high {
			return false
		}
	}
	return true
}

func sameGroup(a, b elbv2types.TargetGroup) bool {
	return a.Protocol == b.Protocol && *a.Port == *b.Port && *a.VpcId == *b.VpcId && a.TargetType == b.TargetType &&
		text(a.ProtocolVersion) == text(b.ProtocolVersion) && a.HealthCheckProtocol == b.HealthCheckProtocol && *a.HealthCheckPort == *b.HealthCheckPort &&
		text(a.HealthCheckPath) == text(b.HealthCheckPath) && *a.HealthCheckIntervalSeconds == *b.HealthCheckIntervalSeconds &&
		*a.HealthCheckTimeoutSeconds == *b.HealthCheckTimeoutSeconds && *a.HealthyThresholdCount == *b.HealthyThresholdCount &&
		*a.UnhealthyThresholdCount == *b.UnhealthyThresholdCount
}

// sdk returns the group's description. users are the load balancers that use each group.
func (r *targetGroupRecord) sdk(users map[string][]string) elbv2types.TargetGroup {
	g := r.Group
	g.LoadBalancerArns = deref(users[r.arn()])
	return g
}

// targetGroup returns the target group with an ARN.
func targetGroup(r store.Reader, sc scope, a *string) (targetGroupRecord, error) {
	v, _, err := targetGroupKind.get(r, sc, a)
	return v, err
}

// ModifyTargetGroup changes the health check of a target group.
func (s *Service) ModifyTargetGroup(ctx context.Context, in *awselbv2.ModifyTargetGroupInput) (*awselbv2.ModifyTargetGroupOutput, error) {
	r, err := targetGroupKind.change(ctx, s, in.TargetGroupArn, func(_ *store.Tx, r *targetGroupRecord) error { return setHealthCheck(&r.Group, *in) })
	if err != nil {
		return nil, err
	}
	return &awselbv2.ModifyTargetGroupOutput{TargetGroups: []elbv2types.TargetGroup{r.sdk(users(s.Store, scopeOf(ctx)))}}, nil
}

// DescribeTargetGroups lists target groups.
func (s *Service) DescribeTargetGroups(ctx context.Context, in *awselbv2.DescribeTargetGroupsInput) (*awselbv2.DescribeTargetGroupsOutput, error) {
	sc := scopeOf(ctx)
	given := 0
	for _, yes := range []bool{in.LoadBalancerArn != nil, len(in.Names) > 0, len(in.TargetGroupArns) > 0} {
		if yes {
			given++
		}
	}
	if given > 1 {
		return nil, errValidation("Target group names, target group ARNs, and a load balancer ARN cannot be specified at the same time") // [seen] moto
	}
	users := users(s.Store, sc)
	var found []targetGroupRecord
	switch {
	case len(in.Names) > 0:
		for _, n := range in.Names {
			g, err := targetGroups.Get(s.Store, sc.Key(cmp.Or(n, "-")))
			if store.IsNotFound(err) {
				return nil, errNoTargetGroups()
			}
			if err != nil {
				return nil, err
			}
			found = append(found, g)
		}
	case len(in.TargetGroupArns) > 0:
		for _, a := range in.TargetGroupArns {
			g, err := targetGroup(s.Store, sc, &a)
			if _, no := err.(*elbv2types.TargetGroupNotFoundException); no { //nolint:errorlint // just made
				return nil, errNoTargetGroups()
			}
			if err != nil {
				return nil, err
			}
			found = append(found, g)
		}
	default:
		if in.LoadBalancerArn != nil {
			if _, err := loadBalancer(s.Store, sc, in.LoadBalancerArn); err != nil {
				return nil, err
			}
		}
		for _, i := range targetGroups.All(s.Store, sc.All()) {
			if in.LoadBalancerArn == nil || slices.Contains(users[i.Value.arn()], *in.LoadBalancerArn) {
				found = append(found, i.Value)
			}
		}
	}
	slices.SortFunc(found, func(a, b targetGroupRecord) int { return strings.Compare(a.name(), b.name()) })
	found, next, err := paging.Cut(pages, found, func(r targetGroupRecord) string { return r.name() }, in.PageSize, in.Marker)
	if err != nil {
		return nil, err
	}
	out := &awselbv2.DescribeTargetGroupsOutput{TargetGroups: []elbv2types.TargetGroup{}, NextMarker: next}
	for _, r := range found {
		out.TargetGroups = append(out.TargetGroups, r.sdk(users))
	}
	return out, nil
}

// DeleteTargetGroup deletes a target group that nothing forwards to. It is not an error if there is
// none.
// https://docs.aws.amazon.com/elasticloadbalancing/latest/APIReference/API_DeleteTargetGroup.html
func (s *Service) DeleteTargetGroup(ctx context.Context, in *awselbv2.DeleteTargetGroupInput) (*awselbv2.DeleteTargetGroupOutput, error) {
	sc := scopeOf(ctx)
	err := s.Store.Update(ctx, func(tx *store.Tx) error {
		g, err := targetGroup(tx, sc, in.TargetGroupArn)
		if _, no := err.(*elbv2types.TargetGroupNotFoundException); no { //nolint:errorlint // just made
			return nil
		}
		if err != nil {
			return err
		}
		users := users(tx, sc)
		if len(users[g.arn()]) > 0 {
			return errTargetGroupInUse(g.arn())
		}
		targetGroups.Delete(tx, sc.Key(g.name()))
		targetSets.Delete(tx, sc.Key(g.name()))
		return nil
	})
	return &awselbv2.DeleteTargetGroupOutput{}, err
}

// users returns the load balancers that forward to target groups, by target group ARN.
func users(r store.Reader, sc scope) map[string][]string {
	out := map[string][]string{}
	add := func(lb string, actions []elbv2types.Action) {
		for _, g := range forwardedTo(actions) {
			if !slices.Contains(out[g], lb) {
				out[g] = append(out[g], lb)
			}
		}
	}
	all := listeners.All(r, sc.All())
	balancers := map[string]string{} // by listener
	for _, l := range all {
		balancers[l.Key.ID] = *l.Value.Listener.LoadBalancerArn
		add(*l.Value.Listener.LoadBalancerArn, l.Value.Listener.DefaultActions)
	}
	for _, i := range rules.All(r, sc.All()) {
		if lb := balancers[i.Key.ID[:strings.LastIndexByte(i.Key.ID, '/')]]; lb != "" {
			add(lb, i.Value.Rule.Actions)
		}
	}
	return out
}

// forwardedTo returns the target groups that actions forward to.
func forwardedTo(actions []elbv2types.Action) []string {
	var out []string
	for _, a := range actions {
		if g := text(a.TargetGroupArn); g != "" {
			out = append(out, g)
		}
		if a.ForwardConfig != nil {
			for _, g := range a.ForwardConfig.TargetGroups {
				if id := text(g.TargetGroupArn); id != "" && !slices.Contains(out, id) {
					out = append(out, id)
				}
			}
		}
	}
	return out
}
