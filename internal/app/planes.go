package app

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"net"
	"net/netip"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	ekstypes "github.com/aws/aws-sdk-go-v2/service/eks/types"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	authzv1 "k8s.io/api/authorization/v1"
	"k8s.io/client-go/rest"

	"github.com/drydock-dev/drydock/internal/automode"
	"github.com/drydock-dev/drydock/internal/controlplane"
	"github.com/drydock-dev/drydock/internal/service/eks"
	"github.com/drydock-dev/drydock/internal/store"
	"github.com/drydock-dev/drydock/internal/twin/account"
)

// planes lets the EKS service run control planes.
type planes struct {
	m     *controlplane.Manager
	store *store.Store
}

var _ eks.ControlPlanes = planes{}

func (p planes) Claim(ctx context.Context, req eks.PlaneRequest) (eks.Plane, error) {
	key := controlplane.Key{
		Account:     req.Account,
		Name:        req.Name,
		Region:      req.Region,
		Version:     req.Version,
		ServiceCIDR: req.ServiceCIDR,
		IPFamily:    req.IPFamily,
		Settings:    controlplane.Settings(req.Settings),
	}
	var pl controlplane.Plane
	var err error
	if req.ID == "" {
		pl, err = p.m.Claim(ctx, req.Owner, key)
	} else {
		pl, err = p.m.Adopt(ctx, req.Owner, key, req.ID, req.AWSHost)
	}
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

func (p planes) Authorities(id string) []eks.Authority {
	var out []eks.Authority
	for _, a := range p.m.Authorities(id) {
		out = append(out, eks.Authority(a))
	}
	return out
}

func (p planes) AddAuthority(ctx context.Context, id, authority string) error {
	return p.m.AddAuthority(ctx, id, authority)
}

func (p planes) ActivateAuthority(ctx context.Context, id, authority string) error {
	return p.m.ActivateAuthority(ctx, id, authority)
}

func (p planes) RemoveAuthority(ctx context.Context, id, authority string) error {
	return p.m.RemoveAuthority(ctx, id, authority)
}

func (p planes) WaitReady(ctx context.Context, id string) error { return p.m.WaitReady(ctx, id) }

func (p planes) Upgrade(ctx context.Context, id, version string) error {
	return p.m.Upgrade(ctx, id, version)
}

func (p planes) Configure(ctx context.Context, id string, to eks.PlaneSettings) error {
	return p.m.Configure(ctx, id, controlplane.Settings(to))
}

func (p planes) Replace(ctx context.Context, id string) error { return p.m.Replace(ctx, id) }

func (p planes) Version(id string) string {
	pl, err := p.m.Get(id)
	if err != nil {
		return ""
	}
	return pl.Key.Version
}

func (p planes) Release(ctx context.Context, id string) error { return p.m.Release(ctx, id) }

func (p planes) ReleaseOf(ctx context.Context, id, owner string) error {
	return p.m.ReleaseOf(ctx, id, owner)
}

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

func (p planes) SetLogging(ctx context.Context, id string, components []string) error {
	return p.m.SetLogging(ctx, id, components)
}

func (p planes) DeprecatedUse(id string) ([]eks.APIUse, error) {
	uses, err := p.m.DeprecatedUse(id)
	var out []eks.APIUse
	for _, u := range uses {
		out = append(out, eks.APIUse{API: u.API, Removed: u.Removed, UserAgent: u.UserAgent, Requests: u.Requests, Last: u.Last})
	}
	return out, err
}

func (p planes) SetAutoMode(id string, to *automode.Setting) { p.m.SetAutoMode(id, to) }

func (p planes) Unconverted(id string) []string { return p.m.Unconverted(id) }

func (p planes) StubbedCalls(id string) map[string]int { return p.m.StubbedCalls(id) }

func (p planes) AdoptedIdentityProvider(ctx context.Context, id string) (bool, error) {
	return p.m.AdoptedIdentityProvider(ctx, id)
}

func (p planes) Copy(ctx context.Context, id string) (string, error) {
	pl, err := p.m.Copy(ctx, id)
	return pl.ID, err
}

// SetIdentityProvider applies the defaults of EKS.
// https://docs.aws.amazon.com/eks/latest/APIReference/API_OidcIdentityProviderConfigRequest.html
func (p planes) SetIdentityProvider(ctx context.Context, id string, in *ekstypes.OidcIdentityProviderConfig) error {
	if in == nil {
		return p.m.SetIdentityProvider(ctx, id, nil)
	}
	idp := controlplane.IdentityProvider{
		IssuerURL: *in.IssuerUrl, ClientID: *in.ClientId,
		UsernameClaim: cmp.Or(aws.ToString(in.UsernameClaim), "sub"), GroupsClaim: aws.ToString(in.GroupsClaim),
		UsernamePrefix: aws.ToString(in.UsernamePrefix), GroupsPrefix: aws.ToString(in.GroupsPrefix),
		RequiredClaims: in.RequiredClaims,
	}
	switch {
	case idp.UsernamePrefix == "-":
		idp.UsernamePrefix = ""
	case idp.UsernamePrefix == "" && idp.UsernameClaim != "email":
		idp.UsernamePrefix = idp.IssuerURL + "#"
	}
	return p.m.SetIdentityProvider(ctx, id, &idp)
}

// Dial connects to a control plane as if from inside its own network.
func (p planes) Dial(ctx context.Context, id string) (net.Conn, error) { return p.m.Dial(ctx, id) }

func (p planes) Released(id string) <-chan struct{} { return p.m.Released(id) }

func (p planes) RESTConfig(id string) (*rest.Config, error) { return p.m.RESTConfig(id) }

func (p planes) Encrypt(ctx context.Context, id, keyARN string) error {
	return p.m.Encrypt(ctx, id, keyARN)
}

func (p planes) EncryptionKey(id string) string { return p.m.EncryptionKey(id) }

func (p planes) FargateWebhook() *admissionregistrationv1.MutatingWebhookConfiguration {
	return p.m.FargateWebhook()
}

// ByHost finds the control plane with the given AWS host name. The name's first label is the plane's ID; case does
// not matter.
func (p planes) ByHost(host string) (controlplane.Plane, bool) {
	for _, pl := range p.m.Planes() {
		if strings.EqualFold(pl.AWSHost, host) {
			return pl, true
		}
	}
	return controlplane.Plane{}, false
}

func (p planes) Planes() []controlplane.Plane { return p.m.Planes() }

// AWSHost returns the AWS host name of a plane's endpoint.
func (p planes) AWSHost(planeID string) string {
	for _, pl := range p.m.Planes() {
		if pl.ID == planeID {
			return pl.AWSHost
		}
	}
	return ""
}

// ByEndpoint finds a plane by the address at which users of this machine reach it. DescribeCluster returns that
// address, so people also write it into user data. The endpoint of the source of a copied cluster leads to the copy.
func (p planes) ByEndpoint(endpoint string) (controlplane.Plane, bool) {
	for _, pl := range p.m.Planes() {
		if pl.Endpoint == endpoint {
			return pl, true
		}
	}
	pl, _, ok := p.copyAt(strings.TrimPrefix(endpoint, "https://"))
	return pl, ok
}

// copyAt returns the control plane of the copied cluster whose source is at a host, and the source's certificate authority.
func (p planes) copyAt(host string) (controlplane.Plane, []byte, bool) {
	for _, t := range account.All(p.store) { // other accounts have no copies
		if c, ok := eks.CopyAt(p.store, t.Source.Account, host); ok {
			pl, err := p.m.Get(c.Plane.ID)
			return pl, c.Source.CAPEM, err == nil
		}
	}
	return controlplane.Plane{}, nil, false
}

// Trust returns the certificate authorities that a node trusts at host:port. See node.Config.Authority.
func (p planes) Trust(host string, named []byte) []byte {
	pl, source, ok := p.copyAt(host)
	if !ok || !bytes.Contains(bytes.TrimSpace(source), bytes.TrimSpace(named)) {
		return named
	}
	return pl.CAPEM
}

// AtHost implements accountnet.ControlPlanes.
func (p planes) AtHost(host string) (planeID string, ok bool) {
	pl, ok := p.ByHost(host)
	return pl.ID, ok
}

// Serving implements accountnet.ControlPlanes. It fails for a plane that is still booting, because clients would wait
// for it.
func (p planes) Serving(planeID string) (*rest.Config, error) {
	st, err := p.m.Status(planeID)
	if err != nil {
		return nil, err
	}
	if st.State != controlplane.Ready {
		return nil, fmt.Errorf("the control plane is %s", st.State)
	}
	return p.m.RESTConfig(planeID)
}

// at finds a plane and its cluster's name by the host of either endpoint.
func (p planes) at(host string) (planeID, cluster string, ok bool) {
	pl, ok := p.ByHost(host)
	if !ok {
		pl, ok = p.ByEndpoint("https://" + host)
	}
	return pl.ID, pl.Key.Name, ok
}

// issuerKeys gives STS the keys that verify the service account tokens of a cluster.
func (p planes) issuerKeys(_ context.Context, issuer string) (keySet []byte, ok bool) {
	id := issuer[strings.LastIndexByte(issuer, '/')+1:]
	pl, err := p.m.Get(id)
	if err != nil || pl.Issuer != issuer {
		return nil, false
	}
	keySet, err = p.m.JWKS(id)
	return keySet, err == nil
}

// writeLogs writes lines of a control plane's logs to CloudWatch Logs.
func (d *daemon) writeLogs(ctx context.Context, planeID, instance string, lines []controlplane.LogLine) error {
	out := make([]eks.LogLine, len(lines))
	for i, l := range lines {
		out[i] = eks.LogLine(l)
	}
	return d.eks.WriteLogs(ctx, planeID, instance, out)
}

// authorize is a control plane's authorization webhook.
func (d *daemon) authorize(ctx context.Context, planeID string, spec *authzv1.SubjectAccessReviewSpec) (allowed, denied bool, reason string) {
	ok, reason, err := d.eks.Authorize(ctx, planeID, *spec)
	if err != nil {
		d.log.Warn("authorizing by access policies", "plane", planeID, "err", err)
		return false, false, ""
	}
	return ok, false, reason
}
