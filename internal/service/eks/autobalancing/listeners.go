package autobalancing

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	awselbv2 "github.com/aws/aws-sdk-go-v2/service/elasticloadbalancingv2"
	elbv2types "github.com/aws/aws-sdk-go-v2/service/elasticloadbalancingv2/types"
)

// forward is the action of a group's ARN, or that of no group.
func forward(arn string) elbv2types.Action {
	if arn == "" {
		return elbv2types.Action{Type: elbv2types.ActionTypeEnumFixedResponse, FixedResponseConfig: &elbv2types.FixedResponseActionConfig{
			StatusCode: new("404"), ContentType: new("text/plain"),
		}}
	}
	return elbv2types.Action{Type: elbv2types.ActionTypeEnumForward, TargetGroupArn: &arn}
}

// signature describes actions and conditions, to compare what is with what is wanted.
func signature(actions []elbv2types.Action, conditions []elbv2types.RuleCondition) string {
	var out []string
	for _, a := range actions {
		out = append(out, string(a.Type)+aws.ToString(a.TargetGroupArn))
	}
	for _, c := range conditions {
		switch {
		case c.HostHeaderConfig != nil:
			out = append(out, "host "+strings.Join(c.HostHeaderConfig.Values, ","))
		case c.PathPatternConfig != nil:
			out = append(out, "path "+strings.Join(c.PathPatternConfig.Values, ","))
		}
	}
	slices.Sort(out)
	return strings.Join(out, ";")
}

func (d *deployer) listeners(st *stack, balancer string, arns map[string]string) error {
	var now []elbv2types.Listener
	for marker := (*string)(nil); ; {
		page, err := d.s.LoadBalancers.DescribeListeners(d.svc, &awselbv2.DescribeListenersInput{LoadBalancerArn: &balancer, Marker: marker})
		if err != nil {
			return err
		}
		now = append(now, page.Listeners...)
		if marker = page.NextMarker; marker == nil {
			break
		}
	}
	for _, have := range now {
		if !slices.ContainsFunc(st.listeners, func(l listener) bool { return l.serves(have) }) {
			if _, err := d.s.LoadBalancers.DeleteListener(d.svc, &awselbv2.DeleteListenerInput{ListenerArn: have.ListenerArn}); err != nil {
				return err
			}
		}
	}
	for _, l := range st.listeners {
		action := []elbv2types.Action{forward(arns[l.group])}
		var certificates []elbv2types.Certificate
		if len(l.certificates) > 0 {
			certificates = []elbv2types.Certificate{{CertificateArn: &l.certificates[0]}}
		}
		var arn string
		i := slices.IndexFunc(now, l.serves)
		switch {
		case i < 0:
			out, err := d.s.LoadBalancers.CreateListener(d.as, &awselbv2.CreateListenerInput{
				LoadBalancerArn: &balancer, Port: &l.port, Protocol: l.protocol, DefaultActions: action, Certificates: certificates,
				Tags: elbTags(d.tags(st, strconv.Itoa(int(l.port)))),
			})
			if err != nil {
				return err
			}
			arn = *out.Listeners[0].ListenerArn
		default:
			have := now[i]
			arn = *have.ListenerArn
			same := have.Protocol == l.protocol && signature(have.DefaultActions, nil) == signature(action, nil) && len(have.Certificates) == len(certificates) &&
				(len(certificates) == 0 || aws.ToString(have.Certificates[0].CertificateArn) == l.certificates[0])
			if !same {
				if _, err := d.s.LoadBalancers.ModifyListener(d.as, &awselbv2.ModifyListenerInput{ListenerArn: &arn, Port: &l.port, Protocol: l.protocol, DefaultActions: action, Certificates: certificates}); err != nil {
					return err
				}
			}
		}
		if err := d.certificates(arn, l); err != nil {
			return err
		}
		if err := d.rules(st, arn, l, arns); err != nil {
			return err
		}
	}
	return nil
}

// certificates adds the certificates that a listener lacks besides its default one, and removes those that are no longer wanted.
func (d *deployer) certificates(listener string, l listener) error {
	if len(l.certificates) == 0 {
		return nil
	}
	var now []string
	for marker := (*string)(nil); ; {
		page, err := d.s.LoadBalancers.DescribeListenerCertificates(d.svc, &awselbv2.DescribeListenerCertificatesInput{ListenerArn: &listener, Marker: marker})
		if err != nil {
			return err
		}
		for _, c := range page.Certificates {
			if !aws.ToBool(c.IsDefault) {
				now = append(now, aws.ToString(c.CertificateArn))
			}
		}
		if marker = page.NextMarker; marker == nil {
			break
		}
	}
	want := l.certificates[1:]
	for _, c := range want {
		if !slices.Contains(now, c) {
			if _, err := d.s.LoadBalancers.AddListenerCertificates(d.as, &awselbv2.AddListenerCertificatesInput{ListenerArn: &listener, Certificates: []elbv2types.Certificate{{CertificateArn: &c}}}); err != nil {
				return err
			}
		}
	}
	for _, c := range now {
		if !slices.Contains(want, c) {
			if _, err := d.s.LoadBalancers.RemoveListenerCertificates(d.as, &awselbv2.RemoveListenerCertificatesInput{ListenerArn: &listener, Certificates: []elbv2types.Certificate{{CertificateArn: &c}}}); err != nil {
				return err
			}
		}
	}
	return nil
}

// rules replaces the rules of a listener if they are not those that are wanted.
func (d *deployer) rules(st *stack, listener string, l listener, arns map[string]string) error {
	if st.typ != elbv2types.LoadBalancerTypeEnumApplication {
		return nil
	}
	page, err := d.s.LoadBalancers.DescribeRules(d.svc, &awselbv2.DescribeRulesInput{ListenerArn: &listener})
	if err != nil {
		return err
	}
	now := slices.DeleteFunc(page.Rules, func(r elbv2types.Rule) bool { return aws.ToBool(r.IsDefault) })
	slices.SortFunc(now, func(a, b elbv2types.Rule) int { return priority(a) - priority(b) })
	want := make([][]elbv2types.RuleCondition, len(l.rules))
	same := len(now) == len(l.rules)
	for i, r := range l.rules {
		if len(r.hosts) > 0 {
			want[i] = append(want[i], elbv2types.RuleCondition{Field: new("host-header"), HostHeaderConfig: &elbv2types.HostHeaderConditionConfig{Values: r.hosts}})
		}
		if len(r.paths) > 0 {
			want[i] = append(want[i], elbv2types.RuleCondition{Field: new("path-pattern"), PathPatternConfig: &elbv2types.PathPatternConditionConfig{Values: r.paths}})
		}
		same = same && signature(now[i].Actions, now[i].Conditions) == signature([]elbv2types.Action{forward(arns[r.group])}, want[i])
	}
	if same {
		return nil
	}
	for _, r := range now {
		if _, err := d.s.LoadBalancers.DeleteRule(d.svc, &awselbv2.DeleteRuleInput{RuleArn: r.RuleArn}); err != nil {
			return err
		}
	}
	for i, r := range l.rules {
		if _, err := d.s.LoadBalancers.CreateRule(d.as, &awselbv2.CreateRuleInput{
			ListenerArn: &listener, Priority: new(int32(i + 1)), Conditions: want[i], Actions: []elbv2types.Action{forward(arns[r.group])},
			Tags: elbTags(d.tags(st, fmt.Sprintf("%d:%d", l.port, i+1))),
		}); err != nil {
			return err
		}
	}
	return nil
}

func priority(r elbv2types.Rule) int {
	n, _ := strconv.Atoi(aws.ToString(r.Priority)) // "default" is left out before
	return n
}

// serves reports whether an existing listener in AWS has the port of l.
func (l listener) serves(have elbv2types.Listener) bool {
	return aws.ToInt32(have.Port) == l.port && transport(have.Protocol) == transport(l.protocol)
}

func transport(p elbv2types.ProtocolEnum) string {
	if p == elbv2types.ProtocolEnumUdp {
		return "udp"
	}
	return "tcp"
}
