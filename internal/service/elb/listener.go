package elb

import (
	"cmp"
	"context"
	"slices"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	awselb "github.com/aws/aws-sdk-go-v2/service/elasticloadbalancing"
	elbtypes "github.com/aws/aws-sdk-go-v2/service/elasticloadbalancing/types"

	"github.com/drydock-dev/drydock/internal/arn"
	"github.com/drydock-dev/drydock/internal/awsapi/regional"
	"github.com/drydock-dev/drydock/internal/store"
)

// layer returns the layer of a protocol: 7 for HTTP, 4 for TCP, or 0 if it is neither.
func layer(protocol string) int {
	switch strings.ToUpper(protocol) {
	case "HTTP", "HTTPS":
		return 7
	case "TCP", "SSL":
		return 4
	}
	return 0
}

// checkListener validates the listener at an index in a request and fills in defaults.
func (s *Service) checkListener(sc scope, index int, l *elbtypes.Listener) error {
	l.Protocol = aws.String(strings.ToUpper(text(l.Protocol)))
	if l.InstanceProtocol == nil || *l.InstanceProtocol == "" {
		back := "TCP"
		if layer(*l.Protocol) == 7 {
			back = "HTTP"
		}
		l.InstanceProtocol = &back
	}
	l.InstanceProtocol = aws.String(strings.ToUpper(*l.InstanceProtocol))
	switch {
	case layer(*l.Protocol) == 0:
		return errProtocol(*l.Protocol)
	case layer(*l.InstanceProtocol) == 0:
		return errProtocol(*l.InstanceProtocol)
	case layer(*l.Protocol) != layer(*l.InstanceProtocol):
		return errProtocols(*l.Protocol, *l.InstanceProtocol)
	case l.LoadBalancerPort < 1 || l.LoadBalancerPort > 65535:
		return errPort(l.LoadBalancerPort)
	}
	if secure(*l.Protocol) {
		return s.checkCertificate(sc, text(l.SSLCertificateId))
	}
	return nil
}

func (s *Service) checkCertificate(sc scope, id string) error {
	a, err := arn.Parse(id)
	if err != nil {
		return errCertificate(id)
	}
	return s.CheckCertificate(sc, a, errCertificate(id))
}

// UsersOfCertificate returns the ARNs of the load balancers in a region, or in all regions if it is empty, whose
// listeners use a certificate.
func UsersOfCertificate(st store.Reader, account, region, certificate string) []string {
	var out []string
	for _, item := range loadBalancers.All(st, regional.At(account, region).All()) {
		uses := func(l listenerRecord) bool { return text(l.Listener.SSLCertificateId) == certificate }
		if slices.ContainsFunc(item.Value.Listeners, uses) {
			out = append(out, arn.New("elasticloadbalancing", item.Key.Region, account, "loadbalancer/"+item.Value.Name))
		}
	}
	return out
}

func sameListener(a, b *elbtypes.Listener) bool {
	return a.LoadBalancerPort == b.LoadBalancerPort && *a.InstancePort == *b.InstancePort && *a.Protocol == *b.Protocol &&
		*a.InstanceProtocol == *b.InstanceProtocol && text(a.SSLCertificateId) == text(b.SSLCertificateId)
}

// addListeners adds listeners. Identical existing ones are kept.
func (s *Service) addListeners(r *loadBalancerRecord, sc scope, in []elbtypes.Listener) error {
	for n, l := range in {
		if err := s.checkListener(sc, n, &l); err != nil {
			return err
		}
		i := slices.IndexFunc(r.Listeners, func(o listenerRecord) bool { return o.Listener.LoadBalancerPort == l.LoadBalancerPort })
		if i >= 0 {
			if !sameListener(&r.Listeners[i].Listener, &l) {
				return errDuplicateListener(r.Name, l.LoadBalancerPort)
			}
			continue
		}
		r.Listeners = append(r.Listeners, listenerRecord{Listener: l})
	}
	slices.SortFunc(r.Listeners, func(a, b listenerRecord) int {
		return cmp.Compare(a.Listener.LoadBalancerPort, b.Listener.LoadBalancerPort)
	})
	return nil
}

// CreateLoadBalancerListeners adds listeners.
func (s *Service) CreateLoadBalancerListeners(ctx context.Context, in *awselb.CreateLoadBalancerListenersInput) (*awselb.CreateLoadBalancerListenersOutput, error) {
	if len(in.Listeners) == 0 {
		return nil, errNoListeners()
	}
	_, err := s.change(ctx, in.LoadBalancerName, func(r *loadBalancerRecord) error { return s.addListeners(r, scopeOf(ctx), in.Listeners) })
	return &awselb.CreateLoadBalancerListenersOutput{}, err
}

// DeleteLoadBalancerListeners removes the listeners on ports. It is not an error if there are none.
func (s *Service) DeleteLoadBalancerListeners(ctx context.Context, in *awselb.DeleteLoadBalancerListenersInput) (*awselb.DeleteLoadBalancerListenersOutput, error) {
	_, err := s.change(ctx, in.LoadBalancerName, func(r *loadBalancerRecord) error {
		r.Listeners = slices.DeleteFunc(r.Listeners, func(l listenerRecord) bool { return slices.Contains(in.LoadBalancerPorts, l.Listener.LoadBalancerPort) })
		return nil
	})
	return &awselb.DeleteLoadBalancerListenersOutput{}, err
}

// listener returns the listener on a port.
func (r *loadBalancerRecord) listener(port int32) (*listenerRecord, error) {
	for i := range r.Listeners {
		if r.Listeners[i].Listener.LoadBalancerPort == port {
			return &r.Listeners[i], nil
		}
	}
	return nil, errNoListener(r.Name, port)
}

// SetLoadBalancerListenerSSLCertificate replaces a listener's certificate.
func (s *Service) SetLoadBalancerListenerSSLCertificate(ctx context.Context, in *awselb.SetLoadBalancerListenerSSLCertificateInput) (*awselb.SetLoadBalancerListenerSSLCertificateOutput, error) {
	_, err := s.change(ctx, in.LoadBalancerName, func(r *loadBalancerRecord) error {
		l, err := r.listener(in.LoadBalancerPort)
		if err != nil {
			return err
		}
		if !secure(*l.Listener.Protocol) {
			return errProtocol(*l.Listener.Protocol)
		}
		l.Listener.SSLCertificateId = in.SSLCertificateId
		return s.checkCertificate(scopeOf(ctx), text(in.SSLCertificateId))
	})
	return &awselb.SetLoadBalancerListenerSSLCertificateOutput{}, err
}
