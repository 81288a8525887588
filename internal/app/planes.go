package app

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"strings"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	"k8s.io/client-go/rest"

	"github.com/drydock-dev/drydock/internal/controlplane"
	"github.com/drydock-dev/drydock/internal/service/eks"
)

// planes lets the EKS service run control planes.
type planes struct{ m *controlplane.Manager }

var _ eks.ControlPlanes = planes{}

func (p planes) Claim(ctx context.Context, req eks.PlaneRequest) (eks.Plane, error) {
	pl, err := p.m.Claim(ctx, req.Owner, controlplane.Key{
		Account:     req.Account,
		Name:        req.Name,
		Region:      req.Region,
		Version:     req.Version,
		ServiceCIDR: req.ServiceCIDR,
		IPFamily:    req.IPFamily,
	})
	if err != nil {
		return eks.Plane{}, err
	}
	return eks.Plane{ID: pl.ID, Endpoint: pl.Endpoint, AWSHost: pl.AWSHost, CAPEM: pl.CAPEM, Issuer: pl.Issuer}, nil
}

func (p planes) Authority(id string) []byte {
	pl, err := p.m.Get(id)
	if err != nil {
		return nil
	}
	return pl.CAPEM
}

func (p planes) WaitReady(ctx context.Context, id string) error { return p.m.WaitReady(ctx, id) }

func (p planes) Release(ctx context.Context, id string) error { return p.m.Release(ctx, id) }

func (p planes) SetAccess(ctx context.Context, id string, public bool, cidrs []string, private bool) error {
	a := controlplane.Access{Public: public, Private: private}
	for _, c := range cidrs {
		prefix, err := netip.ParsePrefix(c)
		if err != nil {
			return fmt.Errorf("public access CIDR: %w", err)
		}
		a.PublicCIDRs = append(a.PublicCIDRs, prefix)
	}
	return p.m.SetAccess(ctx, id, a)
}

// Dial connects with a control plane as if from its own network.
func (p planes) Dial(ctx context.Context, id string) (net.Conn, error) { return p.m.Dial(ctx, id) }

func (p planes) RESTConfig(id string) (*rest.Config, error) { return p.m.RESTConfig(id) }

func (p planes) Encrypt(ctx context.Context, id, keyARN string) error {
	return p.m.Encrypt(ctx, id, keyARN)
}

func (p planes) EncryptionKey(id string) string { return p.m.EncryptionKey(id) }

func (p planes) FargateWebhook() *admissionregistrationv1.MutatingWebhookConfiguration {
	return p.m.FargateWebhook()
}

// ByHost finds the plane behind an endpoint's AWS name. Its first label is the
// plane's ID in lower case or as it is.
func (p planes) ByHost(host string) (controlplane.Plane, bool) {
	for _, pl := range p.m.Planes() {
		if strings.EqualFold(pl.AWSHost, host) {
			return pl, true
		}
	}
	return controlplane.Plane{}, false
}

// Planes are all of them.
func (p planes) Planes() []controlplane.Plane { return p.m.Planes() }

// AWSHost is AWS's name of a plane's endpoint.
func (p planes) AWSHost(planeID string) string {
	for _, pl := range p.m.Planes() {
		if pl.ID == planeID {
			return pl.AWSHost
		}
	}
	return ""
}

// ByEndpoint finds a plane by where users of this machine reach it, which is also
// what DescribeCluster tells, and so what people write into user data.
func (p planes) ByEndpoint(endpoint string) (controlplane.Plane, bool) {
	for _, pl := range p.m.Planes() {
		if pl.Endpoint == endpoint {
			return pl, true
		}
	}
	return controlplane.Plane{}, false
}
