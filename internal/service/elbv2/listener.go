package elbv2

import (
	"context"
	"slices"
	"strconv"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	awselbv2 "github.com/aws/aws-sdk-go-v2/service/elasticloadbalancingv2"
	elbv2types "github.com/aws/aws-sdk-go-v2/service/elasticloadbalancingv2/types"

	"github.com/drydock-dev/drydock/internal/arn"
	"github.com/drydock-dev/drydock/internal/awsapi/paging"
	"github.com/drydock-dev/drydock/internal/awsapi/regional"
	"github.com/drydock-dev/drydock/internal/ids"
	"github.com/drydock-dev/drydock/internal/store"
)

// maxListeners is the quota of listeners per load balancer.
// https://docs.aws.amazon.com/elasticloadbalancing/latest/application/load-balancer-limits.html
const maxListeners = 50

// Protocols of listeners, in the order in which messages list them.
var (
	applicationProtocols = []string{"HTTP", "HTTPS"}
	networkProtocols     = []string{"UDP", "TCP", "TCP_UDP", "TLS"}
)

// CreateListener creates a listener. Repeating the request returns the existing one.
func (s *Service) CreateListener(ctx context.Context, in *awselbv2.CreateListenerInput) (*awselbv2.CreateListenerOutput, error) {
	sc := scopeOf(ctx)
	made, err := newTags(in.Tags)
	if err != nil {
		return nil, err
	}
	var out listenerRecord
	err = s.Store.Update(ctx, func(tx *store.Tx) error {
		lb, err := loadBalancer(tx, sc, in.LoadBalancerArn)
		if err != nil {
			return err
		}
		id := lb.id() + "/" + ids.Hex(idDigits)
		r := listenerRecord{DefaultRule: ids.Hex(idDigits), Tags: made, Listener: elbv2types.Listener{
			ListenerArn:     aws.String(arn.New("elasticloadbalancing", sc.Region, sc.Account, "listener/"+id)),
			LoadBalancerArn: in.LoadBalancerArn, Port: in.Port, Protocol: in.Protocol, DefaultActions: in.DefaultActions,
			Certificates: in.Certificates, SslPolicy: in.SslPolicy, AlpnPolicy: in.AlpnPolicy, MutualAuthentication: in.MutualAuthentication,
		}}
		if err := s.checkListener(tx, sc, &lb, &r.Listener); err != nil {
			return err
		}
		all := listeners.All(tx, sc.Below(lb.id()))
		for _, o := range all {
			if !shadows(&o.Value.Listener, &r.Listener) {
				continue
			}
			if o.Value.Listener.Protocol == r.Listener.Protocol && slices.Equal(forwardedTo(o.Value.Listener.DefaultActions), forwardedTo(r.Listener.DefaultActions)) {
				out = o.Value
				return nil
			}
			return errDuplicateListener(lb.arn())
		}
		if len(all) >= maxListeners {
			return errTooManyListeners(lb.arn())
		}
		out = r
		return listeners.Create(tx, sc.Key(id), r)
	})
	if err != nil {
		return nil, err
	}
	return &awselbv2.CreateListenerOutput{Listeners: []elbv2types.Listener{out.Listener}}, nil
}

// shadows reports whether two listeners conflict: they are on the same port, unless one is for UDP
// and the other for a protocol based on TCP.
func shadows(a, b *elbv2types.Listener) bool {
	over := func(p elbv2types.ProtocolEnum) (tcp, udp bool) {
		return p != elbv2types.ProtocolEnumUdp, p == elbv2types.ProtocolEnumUdp || p == elbv2types.ProtocolEnumTcpUdp
	}
	at, au := over(a.Protocol)
	bt, bu := over(b.Protocol)
	return *a.Port == *b.Port && (at && bt || au && bu)
}

// checkListener validates a listener and fills in defaults.
func (s *Service) checkListener(r store.Reader, sc scope, lb *loadBalancerRecord, l *elbv2types.Listener) error {
	switch {
	case l.Port == nil:
		return errValidation("A listener port must be specified")
	case l.Protocol == "":
		return errValidation("A listener protocol must be specified")
	}
	protocols := applicationProtocols
	if lb.network() {
		protocols = networkProtocols
	}
	if !slices.Contains(protocols, string(l.Protocol)) {
		return errListenerProtocol(l.Protocol, protocols...)
	}
	if err := s.checkSecure(sc, l); err != nil {
		return err
	}
	var err error
	l.DefaultActions, err = s.checkActions(r, sc, lb, l.Protocol, l.DefaultActions)
	return err
}

// checkSecure checks the members that only TLS listeners have.
func (s *Service) checkSecure(sc scope, l *elbv2types.Listener) error {
	secure := l.Protocol == elbv2types.ProtocolEnumHttps || l.Protocol == elbv2types.ProtocolEnumTls
	if !secure {
		switch {
		case len(l.Certificates) > 0:
			return errNoCertificates(l.Protocol)
		case l.SslPolicy != nil:
			return errValidation("An SSL policy cannot be specified for %s listeners", l.Protocol)
		case len(l.AlpnPolicy) > 0:
			return errValidation("An ALPN policy cannot be specified for %s listeners", l.Protocol) // from memory, worded like the error for SSL policies
		}
		return nil
	}
	if len(l.Certificates) != 1 {
		return errCertificateCount(l.Protocol)
	}
	if err := s.checkCertificate(sc, text(l.Certificates[0].CertificateArn)); err != nil {
		return err
	}
	policy := or(l.SslPolicy, defaultSSLPolicy)
	if !slices.Contains(strings.Fields(sslPolicies), policy) {
		return errSSLPolicy(policy)
	}
	l.SslPolicy = &policy
	if len(l.AlpnPolicy) > 0 {
		if l.Protocol != elbv2types.ProtocolEnumTls || len(l.AlpnPolicy) > 1 || !slices.Contains([]string{"HTTP1Only", "HTTP2Only", "HTTP2Optional", "HTTP2Preferred", "None"}, l.AlpnPolicy[0]) {
			return &elbv2types.ALPNPolicyNotSupportedException{Message: aws.String("The specified ALPN policy is not supported.")}
		}
	}
	if l.Protocol == elbv2types.ProtocolEnumHttps && l.MutualAuthentication == nil {
		l.MutualAuthentication = &elbv2types.MutualAuthenticationAttributes{Mode: aws.String("off")} // as every HTTPS listener is described
	}
	if m := l.MutualAuthentication; m != nil && text(m.Mode) != "off" && text(m.Mode) != "passthrough" {
		return errConfiguration("A trust store must be specified for mutual authentication mode '%s'", text(m.Mode)) // from memory
	}
	return nil
}

func (s *Service) checkCertificate(sc scope, a string) error {
	p, err := arn.Parse(a)
	if err != nil || p.Service != "acm" && p.Service != "iam" {
		return errValidation("Certificate ARN '%s' is not valid", a)
	}
	return s.CheckCertificate(sc, p, errCertificate(a))
}

// UsersOfCertificate returns the ARNs of the load balancers in a region, or in all regions if it is empty, whose
// listeners use a certificate.
func UsersOfCertificate(st store.Reader, account, region, certificate string) []string {
	var out []string
	for _, item := range listeners.All(st, regional.At(account, region).All()) {
		r := &item.Value
		used := slices.Contains(r.Certificates, certificate)
		for _, c := range r.Listener.Certificates {
			used = used || text(c.CertificateArn) == certificate
		}
		if lb := text(r.Listener.LoadBalancerArn); used && !slices.Contains(out, lb) {
			out = append(out, lb)
		}
	}
	return out
}

const defaultSSLPolicy = "ELBSecurityPolicy-2016-08"

// listener returns the listener with an ARN.
func listener(r store.Reader, sc scope, a *string) (listenerRecord, error) {
	v, _, err := listenerKind.get(r, sc, a)
	return v, err
}

// ModifyListener changes a listener. Whatever the request leaves out keeps its value. When the
// protocol changes, members of other protocols are removed.
// https://docs.aws.amazon.com/elasticloadbalancing/latest/APIReference/API_ModifyListener.html
func (s *Service) ModifyListener(ctx context.Context, in *awselbv2.ModifyListenerInput) (*awselbv2.ModifyListenerOutput, error) {
	sc := scopeOf(ctx)
	r, err := listenerKind.change(ctx, s, in.ListenerArn, func(tx *store.Tx, r *listenerRecord) error {
		lb, err := loadBalancer(tx, sc, r.Listener.LoadBalancerArn)
		if err != nil {
			return err
		}
		l := &r.Listener
		if in.Protocol != "" && in.Protocol != l.Protocol {
			l.Protocol = in.Protocol
			if in.Protocol != elbv2types.ProtocolEnumHttps && in.Protocol != elbv2types.ProtocolEnumTls {
				l.Certificates, l.SslPolicy, l.AlpnPolicy, l.MutualAuthentication = nil, nil, nil, nil
			}
		}
		if in.Port != nil {
			l.Port = in.Port
		}
		if len(in.Certificates) > 0 {
			l.Certificates = in.Certificates
		}
		if in.SslPolicy != nil {
			l.SslPolicy = in.SslPolicy
		}
		if in.AlpnPolicy != nil {
			l.AlpnPolicy = in.AlpnPolicy
		}
		if in.MutualAuthentication != nil {
			l.MutualAuthentication = in.MutualAuthentication
		}
		if len(in.DefaultActions) > 0 {
			l.DefaultActions = in.DefaultActions
		}
		if err := s.checkListener(tx, sc, &lb, l); err != nil {
			return err
		}
		for _, o := range listeners.All(tx, sc.Below(lb.id())) {
			if o.Value.arn() != r.arn() && shadows(&o.Value.Listener, l) {
				return errDuplicateListener(lb.arn())
			}
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return &awselbv2.ModifyListenerOutput{Listeners: []elbv2types.Listener{r.Listener}}, nil
}

// DescribeListeners lists the listeners of a load balancer, or listeners by their ARNs.
func (s *Service) DescribeListeners(ctx context.Context, in *awselbv2.DescribeListenersInput) (*awselbv2.DescribeListenersOutput, error) {
	sc := scopeOf(ctx)
	var found []listenerRecord
	switch {
	case in.LoadBalancerArn != nil && len(in.ListenerArns) == 0:
		lb, err := loadBalancer(s.Store, sc, in.LoadBalancerArn)
		if err != nil {
			return nil, err
		}
		for _, l := range listeners.All(s.Store, sc.Below(lb.id())) {
			found = append(found, l.Value)
		}
	case in.LoadBalancerArn == nil && len(in.ListenerArns) > 0:
		for _, a := range in.ListenerArns {
			l, err := listener(s.Store, sc, &a)
			if _, no := err.(*elbv2types.ListenerNotFoundException); no { //nolint:errorlint // just made
				return nil, errNoListeners()
			}
			if err != nil {
				return nil, err
			}
			found = append(found, l)
		}
	default:
		return nil, errListenersOrBalancer()
	}
	slices.SortFunc(found, func(a, b listenerRecord) int { return strings.Compare(a.arn(), b.arn()) })
	found, next, err := paging.Cut(pages, found, func(r listenerRecord) string { return r.arn() }, in.PageSize, in.Marker)
	if err != nil {
		return nil, err
	}
	out := &awselbv2.DescribeListenersOutput{Listeners: []elbv2types.Listener{}, NextMarker: next}
	for _, r := range found {
		out.Listeners = append(out.Listeners, r.Listener)
	}
	return out, nil
}

// DeleteListener deletes a listener and its rules.
func (s *Service) DeleteListener(ctx context.Context, in *awselbv2.DeleteListenerInput) (*awselbv2.DeleteListenerOutput, error) {
	sc := scopeOf(ctx)
	err := s.Store.Update(ctx, func(tx *store.Tx) error {
		if _, err := listener(tx, sc, in.ListenerArn); err != nil {
			return err
		}
		id := idOf("listener", *in.ListenerArn)
		for _, r := range rules.All(tx, sc.Below(id)) { // at most maxRules, which fit into a transaction
			rules.Delete(tx, r.Key)
		}
		listeners.Delete(tx, sc.Key(id))
		return nil
	})
	return &awselbv2.DeleteListenerOutput{}, err
}

// maxCertificates is the quota of certificates per listener, without the default one.
const maxCertificates = 25

// AddListenerCertificates adds certificates that clients select by server name.
func (s *Service) AddListenerCertificates(ctx context.Context, in *awselbv2.AddListenerCertificatesInput) (*awselbv2.AddListenerCertificatesOutput, error) {
	sc := scopeOf(ctx)
	r, err := listenerKind.change(ctx, s, in.ListenerArn, func(_ *store.Tx, r *listenerRecord) error {
		if len(r.Listener.Certificates) == 0 {
			return errNoCertificates(r.Listener.Protocol)
		}
		for _, c := range in.Certificates {
			a := text(c.CertificateArn)
			if err := s.checkCertificate(sc, a); err != nil {
				return err
			}
			if !slices.Contains(r.Certificates, a) {
				r.Certificates = append(r.Certificates, a)
			}
		}
		if len(r.Certificates) > maxCertificates {
			return errTooManyCertificates()
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	out := &awselbv2.AddListenerCertificatesOutput{}
	for _, c := range in.Certificates {
		out.Certificates = append(out.Certificates, elbv2types.Certificate{CertificateArn: c.CertificateArn, IsDefault: aws.Bool(text(c.CertificateArn) == text(r.Listener.Certificates[0].CertificateArn))})
	}
	return out, nil
}

// RemoveListenerCertificates removes certificates. The default one cannot be removed.
func (s *Service) RemoveListenerCertificates(ctx context.Context, in *awselbv2.RemoveListenerCertificatesInput) (*awselbv2.RemoveListenerCertificatesOutput, error) {
	_, err := listenerKind.change(ctx, s, in.ListenerArn, func(_ *store.Tx, r *listenerRecord) error {
		for _, c := range in.Certificates {
			if len(r.Listener.Certificates) > 0 && text(c.CertificateArn) == text(r.Listener.Certificates[0].CertificateArn) {
				return &elbv2types.OperationNotPermittedException{Message: aws.String("Default certificate cannot be removed")} // from memory
			}
			r.Certificates = slices.DeleteFunc(r.Certificates, func(a string) bool { return a == text(c.CertificateArn) })
		}
		return nil
	})
	return &awselbv2.RemoveListenerCertificatesOutput{}, err
}

// DescribeListenerCertificates lists all certificates of a listener.
func (s *Service) DescribeListenerCertificates(ctx context.Context, in *awselbv2.DescribeListenerCertificatesInput) (*awselbv2.DescribeListenerCertificatesOutput, error) {
	r, err := listener(s.Store, scopeOf(ctx), in.ListenerArn)
	if err != nil {
		return nil, err
	}
	all := []elbv2types.Certificate{}
	for _, c := range r.Listener.Certificates {
		all = append(all, elbv2types.Certificate{CertificateArn: c.CertificateArn, IsDefault: aws.Bool(true)})
	}
	for _, a := range r.Certificates {
		all = append(all, elbv2types.Certificate{CertificateArn: &a, IsDefault: aws.Bool(false)})
	}
	slices.SortFunc(all, func(a, b elbv2types.Certificate) int { return strings.Compare(*a.CertificateArn, *b.CertificateArn) })
	all, next, err := paging.Cut(pages, all, func(c elbv2types.Certificate) string { return *c.CertificateArn }, in.PageSize, in.Marker)
	return &awselbv2.DescribeListenerCertificatesOutput{Certificates: all, NextMarker: next}, err
}

// priorityText formats a rule's priority.
func priorityText(n int32) *string { return aws.String(strconv.Itoa(int(n))) }
