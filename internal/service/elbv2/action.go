package elbv2

import (
	"slices"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	elbv2types "github.com/aws/aws-sdk-go-v2/service/elasticloadbalancingv2/types"

	"github.com/drydock-dev/drydock/internal/store"
)

// maxForwarded is the maximum number of target groups in one action.
const maxForwarded = 5

// checkActions validates the actions of a listener or rule and returns them as they are described:
// with an order, which may have gaps, and with both forms of forwarding.
func (s *Service) checkActions(r store.Reader, sc scope, lb *loadBalancerRecord, protocol elbv2types.ProtocolEnum, in []elbv2types.Action) ([]elbv2types.Action, error) {
	if len(in) == 0 {
		return nil, errMissing("default action")
	}
	out := slices.Clone(in)
	slices.SortStableFunc(out, func(a, b elbv2types.Action) int { return int(aws.ToInt32(a.Order)) - int(aws.ToInt32(b.Order)) })
	for i := range out {
		a := &out[i]
		last := i == len(out)-1
		switch a.Type {
		case elbv2types.ActionTypeEnumForward, elbv2types.ActionTypeEnumRedirect, elbv2types.ActionTypeEnumFixedResponse:
			if !last {
				return nil, errActions("The last action must be one of forward, redirect or fixed-response, and there can be only one of these")
			}
		case elbv2types.ActionTypeEnumAuthenticateCognito, elbv2types.ActionTypeEnumAuthenticateOidc, elbv2types.ActionTypeEnumJwtValidation:
			if protocol != elbv2types.ProtocolEnumHttps {
				return nil, errActions("Actions of type '%s' are supported only on HTTPS listeners", a.Type)
			}
			if last {
				return nil, errActions("An action of type 'forward', 'redirect' or 'fixed-response' must be specified last")
			}
		}
		if lb.network() && a.Type != elbv2types.ActionTypeEnumForward {
			return nil, errActions("Actions of type '%s' are not supported on Network Load Balancers", a.Type)
		}
		if err := s.checkAction(r, sc, lb, protocol, a); err != nil {
			return nil, err
		}
		if lb.application() && a.Order == nil {
			a.Order = aws.Int32(int32(i + 1)) //nolint:gosec // a few
		}
		if i > 0 && a.Order != nil && aws.ToInt32(out[i-1].Order) == *a.Order {
			return nil, errActionOrder(*a.Order)
		}
	}
	return out, nil
}

func (s *Service) checkAction(r store.Reader, sc scope, lb *loadBalancerRecord, protocol elbv2types.ProtocolEnum, a *elbv2types.Action) error {
	switch a.Type {
	case elbv2types.ActionTypeEnumForward:
		return s.checkForward(r, sc, lb, protocol, a)
	case elbv2types.ActionTypeEnumFixedResponse:
		if a.FixedResponseConfig == nil || text(a.FixedResponseConfig.StatusCode) == "" {
			return errActions("A fixed-response config must be specified with a status code")
		}
	case elbv2types.ActionTypeEnumRedirect:
		c := a.RedirectConfig
		if c == nil || c.StatusCode == "" {
			return errActions("A redirect config must be specified with a status code")
		}
		c2 := *c
		c2.Host, c2.Path, c2.Port = aws.String(or(c.Host, "#{host}")), aws.String(or(c.Path, "/#{path}")), aws.String(or(c.Port, "#{port}"))
		c2.Protocol, c2.Query = aws.String(or(c.Protocol, "#{protocol}")), aws.String(or(c.Query, "#{query}"))
		if *c2.Host == "#{host}" && *c2.Path == "/#{path}" && *c2.Port == "#{port}" && *c2.Protocol == "#{protocol}" && *c2.Query == "#{query}" {
			return errActions("The redirect configuration is not valid because it creates a loop.")
		}
		a.RedirectConfig = &c2
	}
	return nil
}

// checkForward checks the target groups of an action.
func (s *Service) checkForward(r store.Reader, sc scope, lb *loadBalancerRecord, protocol elbv2types.ProtocolEnum, a *elbv2types.Action) error {
	groups := forwardedTo([]elbv2types.Action{*a})
	switch {
	case len(groups) == 0:
		return errActions("A target group ARN must be specified")
	case len(groups) > maxForwarded || lb.network() && len(groups) > 1 && protocol == elbv2types.ProtocolEnumUdp:
		return &elbv2types.TooManyTargetGroupsException{Message: aws.String("The maximum number of target groups of an action has been reached")} // from memory
	}
	used := users(r, sc)
	for _, id := range groups {
		g, err := targetGroup(r, sc, &id)
		if _, no := err.(*elbv2types.TargetGroupNotFoundException); no { //nolint:errorlint // just made
			return errActionGroup(id)
		}
		if err != nil {
			return err
		}
		if !compatible(protocol, g.Group.Protocol) {
			return errIncompatible(id)
		}
		if *g.Group.VpcId != *lb.LB.VpcId {
			return errGroupOfOther(id, lb.arn())
		}
		if slices.ContainsFunc(used[id], func(other string) bool { return other != lb.arn() }) {
			return errAssociated(id)
		}
	}
	c := elbv2types.ForwardActionConfig{TargetGroupStickinessConfig: &elbv2types.TargetGroupStickinessConfig{Enabled: aws.Bool(false)}}
	if a.ForwardConfig != nil {
		if a.ForwardConfig.TargetGroupStickinessConfig != nil {
			c.TargetGroupStickinessConfig = a.ForwardConfig.TargetGroupStickinessConfig
		}
		c.TargetGroups = slices.Clone(a.ForwardConfig.TargetGroups)
	}
	if len(c.TargetGroups) == 0 {
		c.TargetGroups = []elbv2types.TargetGroupTuple{{TargetGroupArn: &groups[0]}}
	}
	for i := range c.TargetGroups {
		if c.TargetGroups[i].Weight == nil {
			c.TargetGroups[i].Weight = aws.Int32(1)
		}
	}
	a.ForwardConfig, a.TargetGroupArn = &c, nil
	if len(groups) == 1 {
		a.TargetGroupArn = &groups[0]
	}
	return nil
}

// compatible reports whether a listener's protocol can be used with a target group's.
// https://docs.aws.amazon.com/elasticloadbalancing/latest/network/load-balancer-listeners.html
func compatible(listener, group elbv2types.ProtocolEnum) bool {
	switch listener {
	case elbv2types.ProtocolEnumHttp, elbv2types.ProtocolEnumHttps:
		return group == elbv2types.ProtocolEnumHttp || group == elbv2types.ProtocolEnumHttps
	case elbv2types.ProtocolEnumTcp:
		return group == elbv2types.ProtocolEnumTcp || group == elbv2types.ProtocolEnumTcpUdp
	case elbv2types.ProtocolEnumTls:
		return group == elbv2types.ProtocolEnumTcp || group == elbv2types.ProtocolEnumTls
	case elbv2types.ProtocolEnumUdp:
		return group == elbv2types.ProtocolEnumUdp || group == elbv2types.ProtocolEnumTcpUdp
	default:
		return group == listener
	}
}

// conditionFields are the fields that a rule's conditions can test.
var conditionFields = []string{"path-pattern", "host-header", "http-header", "http-request-method", "query-string", "source-ip"}

// checkConditions validates the conditions of a rule and returns them as they are described.
// https://docs.aws.amazon.com/elasticloadbalancing/latest/APIReference/API_RuleCondition.html
func checkConditions(in []elbv2types.RuleCondition) ([]elbv2types.RuleCondition, error) {
	out := slices.Clone(in)
	for i := range out {
		c := &out[i]
		field := text(c.Field)
		var values []string
		switch field {
		case "host-header":
			if c.HostHeaderConfig == nil && len(c.Values) > 0 {
				c.HostHeaderConfig = &elbv2types.HostHeaderConditionConfig{Values: c.Values}
			}
			if c.HostHeaderConfig != nil {
				values = append(slices.Clone(c.HostHeaderConfig.Values), c.HostHeaderConfig.RegexValues...)
				c.Values = c.HostHeaderConfig.Values
			}
		case "path-pattern":
			if c.PathPatternConfig == nil && len(c.Values) > 0 {
				c.PathPatternConfig = &elbv2types.PathPatternConditionConfig{Values: c.Values}
			}
			if c.PathPatternConfig != nil {
				values = append(slices.Clone(c.PathPatternConfig.Values), c.PathPatternConfig.RegexValues...)
				c.Values = c.PathPatternConfig.Values
			}
		case "http-header":
			if c.HttpHeaderConfig == nil {
				return nil, errValidation("A 'HttpHeaderConfig' must be specified with 'http-header'")
			}
			values = append(slices.Clone(c.HttpHeaderConfig.Values), c.HttpHeaderConfig.RegexValues...)
		case "http-request-method":
			if c.HttpRequestMethodConfig == nil {
				return nil, errValidation("A 'HttpRequestMethodConfig' must be specified with 'http-request-method'")
			}
			values = c.HttpRequestMethodConfig.Values
		case "query-string":
			if c.QueryStringConfig == nil {
				return nil, errValidation("A 'QueryStringConfig' must be specified with 'query-string'")
			}
			for _, v := range c.QueryStringConfig.Values {
				values = append(values, text(v.Value))
			}
		case "source-ip":
			if c.SourceIpConfig == nil {
				return nil, errValidation("A 'SourceIpConfig' must be specified with 'source-ip'")
			}
			values = c.SourceIpConfig.Values
		default:
			return nil, errValidation("Condition field '%s' must be one of '[%s]'", field, strings.Join(conditionFields, ","))
		}
		if len(c.Values) > 0 && field != "host-header" && field != "path-pattern" {
			return nil, errValidation("The 'Values' field is not compatible with '%s'", field)
		}
		if len(values) == 0 {
			return nil, errValidation("A condition value must be specified")
		}
		for _, v := range values {
			if len(v) > 128 {
				return nil, errValidation("The '%s' value is too long; the limit is '128'", field)
			}
		}
	}
	return out, nil
}
