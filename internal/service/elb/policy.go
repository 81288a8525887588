package elb

import (
	"cmp"
	"context"
	"slices"
	"strconv"

	"github.com/aws/aws-sdk-go-v2/aws"
	awselb "github.com/aws/aws-sdk-go-v2/service/elasticloadbalancing"
	elbtypes "github.com/aws/aws-sdk-go-v2/service/elasticloadbalancing/types"

	"github.com/drydock-dev/drydock/internal/awsapi/awserr"
)

// policyTypes are the types of policies that can be created, with their attributes.
// https://docs.aws.amazon.com/elasticloadbalancing/latest/classic/ssl-config-update.html,
// https://docs.aws.amazon.com/elasticloadbalancing/latest/classic/enable-proxy-protocol.html
var policyTypes = map[string][]string{
	proxyProtocol:                           {"ProxyProtocol"},
	"SSLNegotiationPolicyType":              nil, // any attributes, because there are hundreds of ciphers and protocols
	"PublicKeyPolicyType":                   {"PublicKey"},
	"BackendServerAuthenticationPolicyType": {"PublicKeyPolicyName"},
	appCookie:                               {"CookieName"},
	lbCookie:                                {"CookieExpirationPeriod"},
}

// proxyProtocol is the type of policies for instances that use the proxy protocol.
const proxyProtocol = "ProxyProtocolPolicyType"

// The policy types of sticky sessions, which have their own operations as well.
const (
	appCookie = "AppCookieStickinessPolicyType"
	lbCookie  = "LBCookieStickinessPolicyType"
)

// CreateLoadBalancerPolicy creates a policy. Creating the same policy again is not an error;
// Kubernetes relies on that for the proxy protocol.
func (s *Service) CreateLoadBalancerPolicy(ctx context.Context, in *awselb.CreateLoadBalancerPolicyInput) (*awselb.CreateLoadBalancerPolicyOutput, error) {
	known, ok := policyTypes[text(in.PolicyTypeName)]
	if !ok {
		return nil, errPolicyType(text(in.PolicyTypeName))
	}
	p := elbtypes.PolicyDescription{PolicyName: in.PolicyName, PolicyTypeName: in.PolicyTypeName, PolicyAttributeDescriptions: []elbtypes.PolicyAttributeDescription{}}
	for _, a := range in.PolicyAttributes {
		if known != nil && !slices.Contains(known, text(a.AttributeName)) {
			return nil, errConfiguration("The policy attribute %s is not known to the policy type %s", text(a.AttributeName), *in.PolicyTypeName) // from memory
		}
		p.PolicyAttributeDescriptions = append(p.PolicyAttributeDescriptions, elbtypes.PolicyAttributeDescription(a))
	}
	if text(p.PolicyName) == "" {
		return nil, errValidation("PolicyName must be specified")
	}
	var value *string // of the only attribute that policies of sticky sessions have
	if len(in.PolicyAttributes) > 0 {
		value = in.PolicyAttributes[0].AttributeValue
	}
	switch *in.PolicyTypeName {
	case appCookie:
		_, err := s.CreateAppCookieStickinessPolicy(ctx, &awselb.CreateAppCookieStickinessPolicyInput{LoadBalancerName: in.LoadBalancerName, PolicyName: in.PolicyName, CookieName: value})
		return &awselb.CreateLoadBalancerPolicyOutput{}, err
	case lbCookie:
		cookie := &awselb.CreateLBCookieStickinessPolicyInput{LoadBalancerName: in.LoadBalancerName, PolicyName: in.PolicyName}
		if value != nil {
			period, err := strconv.ParseInt(*value, 10, 64)
			if err != nil {
				return nil, errValidation("The cookie expiration period must be a number of seconds") // from memory
			}
			cookie.CookieExpirationPeriod = &period
		}
		_, err := s.CreateLBCookieStickinessPolicy(ctx, cookie)
		return &awselb.CreateLoadBalancerPolicyOutput{}, err
	}
	_, err := s.change(ctx, in.LoadBalancerName, func(r *loadBalancerRecord) error {
		for _, o := range r.Policies {
			if *o.PolicyName == *p.PolicyName && *o.PolicyTypeName == *p.PolicyTypeName && slices.EqualFunc(o.PolicyAttributeDescriptions, p.PolicyAttributeDescriptions,
				func(a, b elbtypes.PolicyAttributeDescription) bool {
					return text(a.AttributeName) == text(b.AttributeName) && text(a.AttributeValue) == text(b.AttributeValue)
				}) {
				return nil
			}
		}
		if r.policy(*p.PolicyName) {
			return errPolicyName(*p.PolicyName)
		}
		r.Policies = append(r.Policies, p)
		return nil
	})
	return &awselb.CreateLoadBalancerPolicyOutput{}, err
}

// CreateLBCookieStickinessPolicy creates a policy that uses cookies of the load balancer.
func (s *Service) CreateLBCookieStickinessPolicy(ctx context.Context, in *awselb.CreateLBCookieStickinessPolicyInput) (*awselb.CreateLBCookieStickinessPolicyOutput, error) {
	_, err := s.change(ctx, in.LoadBalancerName, func(r *loadBalancerRecord) error {
		if r.policy(text(in.PolicyName)) {
			return errPolicyName(text(in.PolicyName))
		}
		r.LBCookies = append(r.LBCookies, elbtypes.LBCookieStickinessPolicy{PolicyName: in.PolicyName, CookieExpirationPeriod: in.CookieExpirationPeriod})
		return nil
	})
	return &awselb.CreateLBCookieStickinessPolicyOutput{}, err
}

// CreateAppCookieStickinessPolicy creates a policy that uses an application's cookie.
func (s *Service) CreateAppCookieStickinessPolicy(ctx context.Context, in *awselb.CreateAppCookieStickinessPolicyInput) (*awselb.CreateAppCookieStickinessPolicyOutput, error) {
	_, err := s.change(ctx, in.LoadBalancerName, func(r *loadBalancerRecord) error {
		if r.policy(text(in.PolicyName)) {
			return errPolicyName(text(in.PolicyName))
		}
		r.AppCookies = append(r.AppCookies, elbtypes.AppCookieStickinessPolicy{PolicyName: in.PolicyName, CookieName: in.CookieName})
		return nil
	})
	return &awselb.CreateAppCookieStickinessPolicyOutput{}, err
}

// DeleteLoadBalancerPolicy deletes a policy that is not in use.
func (s *Service) DeleteLoadBalancerPolicy(ctx context.Context, in *awselb.DeleteLoadBalancerPolicyInput) (*awselb.DeleteLoadBalancerPolicyOutput, error) {
	name := text(in.PolicyName)
	_, err := s.change(ctx, in.LoadBalancerName, func(r *loadBalancerRecord) error {
		for _, l := range r.Listeners {
			if slices.Contains(l.Policies, name) {
				return errPolicyInUse(name)
			}
		}
		for _, used := range r.Backends {
			if slices.Contains(used, name) {
				return errPolicyInUse(name)
			}
		}
		r.Policies = slices.DeleteFunc(r.Policies, func(p elbtypes.PolicyDescription) bool { return *p.PolicyName == name })
		r.LBCookies = slices.DeleteFunc(r.LBCookies, func(p elbtypes.LBCookieStickinessPolicy) bool { return text(p.PolicyName) == name })
		r.AppCookies = slices.DeleteFunc(r.AppCookies, func(p elbtypes.AppCookieStickinessPolicy) bool { return text(p.PolicyName) == name })
		return nil
	})
	return &awselb.DeleteLoadBalancerPolicyOutput{}, err
}

// DescribeLoadBalancerPolicies lists the policies of a load balancer.
func (s *Service) DescribeLoadBalancerPolicies(ctx context.Context, in *awselb.DescribeLoadBalancerPoliciesInput) (*awselb.DescribeLoadBalancerPoliciesOutput, error) {
	if in.LoadBalancerName == nil {
		return nil, awserr.NotImplemented("the sample policies of Classic Load Balancers")
	}
	r, err := loadBalancer(s.Store, scopeOf(ctx), in.LoadBalancerName)
	if err != nil {
		return nil, err
	}
	all := slices.Clone(r.Policies)
	cookie := func(name *string, kind, key, value string) {
		all = append(all, elbtypes.PolicyDescription{PolicyName: name, PolicyTypeName: aws.String(kind), PolicyAttributeDescriptions: []elbtypes.PolicyAttributeDescription{
			{AttributeName: aws.String(key), AttributeValue: aws.String(value)},
		}})
	}
	for _, p := range r.LBCookies {
		cookie(p.PolicyName, lbCookie, "CookieExpirationPeriod", seconds(p.CookieExpirationPeriod))
	}
	for _, p := range r.AppCookies {
		cookie(p.PolicyName, appCookie, "CookieName", text(p.CookieName))
	}
	slices.SortFunc(all, func(a, b elbtypes.PolicyDescription) int { return cmp.Compare(*a.PolicyName, *b.PolicyName) })
	out := &awselb.DescribeLoadBalancerPoliciesOutput{PolicyDescriptions: []elbtypes.PolicyDescription{}}
	for _, name := range in.PolicyNames {
		if !r.policy(name) {
			return nil, errNoPolicy(name, r.Name)
		}
	}
	for _, p := range all {
		if len(in.PolicyNames) == 0 || slices.Contains(in.PolicyNames, *p.PolicyName) {
			out.PolicyDescriptions = append(out.PolicyDescriptions, p)
		}
	}
	return out, nil
}

// SetLoadBalancerPoliciesOfListener replaces the policies of a listener.
func (s *Service) SetLoadBalancerPoliciesOfListener(ctx context.Context, in *awselb.SetLoadBalancerPoliciesOfListenerInput) (*awselb.SetLoadBalancerPoliciesOfListenerOutput, error) {
	_, err := s.change(ctx, in.LoadBalancerName, func(r *loadBalancerRecord) error {
		l, err := r.listener(in.LoadBalancerPort)
		if err != nil {
			return err
		}
		for _, name := range in.PolicyNames {
			if !r.policy(name) {
				return errNoPolicy(name, r.Name)
			}
			if slices.ContainsFunc(r.Policies, func(p elbtypes.PolicyDescription) bool {
				return *p.PolicyName == name && *p.PolicyTypeName == proxyProtocol
			}) {
				return errPolicyPlace(name)
			}
		}
		l.Policies = in.PolicyNames
		return nil
	})
	return &awselb.SetLoadBalancerPoliciesOfListenerOutput{}, err
}

// SetLoadBalancerPoliciesForBackendServer replaces the policies of an instance port.
func (s *Service) SetLoadBalancerPoliciesForBackendServer(ctx context.Context, in *awselb.SetLoadBalancerPoliciesForBackendServerInput) (*awselb.SetLoadBalancerPoliciesForBackendServerOutput, error) {
	_, err := s.change(ctx, in.LoadBalancerName, func(r *loadBalancerRecord) error {
		port := aws.ToInt32(in.InstancePort)
		if len(in.PolicyNames) == 0 {
			delete(r.Backends, port) // even if its listener is gone
			return nil
		}
		if !slices.ContainsFunc(r.Listeners, func(l listenerRecord) bool { return *l.Listener.InstancePort == port }) {
			return errBackend(port)
		}
		for _, name := range in.PolicyNames {
			if !r.policy(name) {
				return errNoPolicy(name, r.Name)
			}
		}
		if r.Backends == nil {
			r.Backends = map[int32][]string{}
		}
		r.Backends[port] = in.PolicyNames
		return nil
	})
	return &awselb.SetLoadBalancerPoliciesForBackendServerOutput{}, err
}
