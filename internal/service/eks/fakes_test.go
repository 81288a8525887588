package eks_test

import (
	"cmp"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"math/rand/v2"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/aws/aws-sdk-go-v2/aws"
	awsec2 "github.com/aws/aws-sdk-go-v2/service/ec2"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"
	ekstypes "github.com/aws/aws-sdk-go-v2/service/eks/types"
	awsiam "github.com/aws/aws-sdk-go-v2/service/iam"
	iamtypes "github.com/aws/aws-sdk-go-v2/service/iam/types"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/rest"
	k8stesting "k8s.io/client-go/testing"

	"github.com/drydock-dev/drydock/internal/automode"
	"github.com/drydock-dev/drydock/internal/awsapi"
	"github.com/drydock-dev/drydock/internal/awsapi/awserr"
	"github.com/drydock-dev/drydock/internal/service/eks"
	"github.com/drydock-dev/drydock/internal/store"
)

// faults makes calls fail: before they do anything, or after, as if the response were lost.
type faults struct {
	mu   sync.Mutex
	rand *rand.Rand
	left int
	rate float64
}

func (f *faults) strike() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.rand == nil || f.left == 0 || f.rand.Float64() > f.rate {
		return nil
	}
	f.left--
	return fmt.Errorf("injected fault")
}

// fakePlanes are control planes based on client-go's fake clientset.
type fakePlanes struct {
	faults    *faults
	mu        sync.Mutex
	n         int
	owners    map[string]eks.Plane
	byID      map[string]*fake.Clientset
	released  map[string]chan struct{}
	logging   map[string][]string
	autoMode  map[string]*automode.Setting
	uses      []eks.APIUse // of all planes
	providers map[string]*ekstypes.OidcIdentityProviderConfig
	access    map[string]string
	replaced  int // calls of Replace

	authorities map[string][]eks.Authority
	// authorityFails is called before a change of authorities and after it, if it is not nil.
	authorityFails func(changed bool) error
	unconverted    []string       // what the copies' CustomResourceDefinitions have lost
	stubbed        map[string]int // the calls of the copies' admission webhooks
	unadopted      bool           // the API servers do not use what SetIdentityProvider has set
	// notReady makes WaitReady fail.
	notReady error
	// protected pods cannot be evicted.
	protected map[string]bool
	// replacements are the pods that their controllers create when others are evicted, by the names of those.
	replacements map[string]*corev1.Pod
	// encrypted are the keys of planes. encrypting is called before a plane gets its key.
	encrypted  map[string]string
	encrypting func(id string) error
	// taken are the keys of planes that have adopted them but are not encrypted yet.
	taken map[string]string
	// admit is the cluster's webhook, called when a pod is created as a dry run. nil means that the
	// API server does not call it.
	admit func(plane string)
	// objectsOf are the objects of any kind, by plane.
	objectsOf map[string]*fakeObjects
	// versions are the Kubernetes versions of planes. upgrading is called before one changes.
	versions  map[string]string
	upgrading func(version string) error
	// settings are those of the planes' components.
	settings map[string]eks.PlaneSettings
}

func newPlanes(f *faults) *fakePlanes {
	return &fakePlanes{faults: f, owners: map[string]eks.Plane{}, byID: map[string]*fake.Clientset{}, access: map[string]string{}, protected: map[string]bool{}, encrypted: map[string]string{}, taken: map[string]string{}, versions: map[string]string{}, settings: map[string]eks.PlaneSettings{}, authorities: map[string][]eks.Authority{}}
}

func (p *fakePlanes) Claim(_ context.Context, req eks.PlaneRequest) (eks.Plane, error) {
	if err := p.faults.strike(); err != nil {
		return eks.Plane{}, err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	pl, ok := p.owners[req.Owner]
	if !ok {
		p.n++
		id := cmp.Or(req.ID, fmt.Sprintf("%032X", p.n))
		pl = eks.Plane{
			ID: id, Endpoint: fmt.Sprintf("https://127.0.0.1:%d", 40000+p.n), AWSHost: id + ".gr7." + req.Region + ".eks.amazonaws.com",
			CAPEM: []byte("-----BEGIN CERTIFICATE-----\n"), Issuer: "https://oidc.eks." + req.Region + ".amazonaws.com/id/" + id,
		}
		p.owners[req.Owner] = pl
		p.versions[id] = req.Version
		p.settings[id] = req.Settings
		p.byID[id] = p.newClientset(id)
	}
	return pl, p.faults.strike()
}

func (p *fakePlanes) Upgrade(_ context.Context, id, version string) error {
	if err := p.faults.strike(); err != nil {
		return err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.upgrading != nil {
		if err := p.upgrading(version); err != nil {
			return err
		}
	}
	p.versions[id] = version
	return p.faults.strike()
}

func (p *fakePlanes) Configure(_ context.Context, id string, to eks.PlaneSettings) error {
	if err := p.faults.strike(); err != nil {
		return err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.settings[id] = to
	return p.faults.strike()
}

func (p *fakePlanes) Replace(_ context.Context, id string) error {
	if err := p.faults.strike(); err != nil {
		return err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.replaced++
	return nil
}

func (p *fakePlanes) Version(id string) string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.versions[id]
}

func (p *fakePlanes) Authority(id string) []byte {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, pl := range p.owners {
		if pl.ID == id {
			return pl.CAPEM
		}
	}
	return nil
}

func (p *fakePlanes) Authorities(id string) []eks.Authority {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.authorities[id] == nil {
		p.authorities[id] = []eks.Authority{{ID: "ca-initial", Signs: true}}
	}
	return slices.Clone(p.authorities[id])
}

func (p *fakePlanes) AddAuthority(_ context.Context, id, authority string) error {
	return p.changeAuthorities(id, func(all []eks.Authority) []eks.Authority {
		if slices.ContainsFunc(all, func(a eks.Authority) bool { return a.ID == authority }) {
			return all
		}
		return append(all, eks.Authority{ID: authority})
	})
}

func (p *fakePlanes) ActivateAuthority(_ context.Context, id, authority string) error {
	return p.changeAuthorities(id, func(all []eks.Authority) []eks.Authority {
		for i := range all {
			all[i].Signs = all[i].ID == authority
		}
		return all
	})
}

func (p *fakePlanes) RemoveAuthority(_ context.Context, id, authority string) error {
	return p.changeAuthorities(id, func(all []eks.Authority) []eks.Authority {
		return slices.DeleteFunc(all, func(a eks.Authority) bool { return a.ID == authority })
	})
}

// changeAuthorities may fail before the change, and after it.
func (p *fakePlanes) changeAuthorities(id string, change func([]eks.Authority) []eks.Authority) error {
	if err := p.faults.strike(); err != nil {
		return err
	}
	p.mu.Lock()
	fails := p.authorityFails
	p.mu.Unlock()
	if fails == nil {
		fails = func(bool) error { return nil }
	}
	if err := fails(false); err != nil {
		return err
	}
	all := change(p.Authorities(id))
	p.mu.Lock()
	p.authorities[id] = all
	p.mu.Unlock()
	return errors.Join(p.faults.strike(), fails(true))
}

// renew reissues the certificate authorities of all planes.
func (p *fakePlanes) renew(caPEM string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for owner, pl := range p.owners {
		pl.CAPEM = []byte(caPEM)
		p.owners[owner] = pl
	}
}

func (p *fakePlanes) newClientset(id string) *fake.Clientset {
	cs := fake.NewClientset()
	cs.PrependReactor("create", "pods", func(a k8stesting.Action) (bool, runtime.Object, error) {
		if c, ok := a.(k8stesting.CreateActionImpl); ok && len(c.CreateOptions.DryRun) > 0 {
			p.mu.Lock()
			admit := p.admit
			p.mu.Unlock()
			if admit != nil {
				admit(id)
			}
			return true, c.Object, nil
		}
		if a.GetSubresource() != "eviction" {
			return false, nil, nil
		}
		ev, ok := a.(k8stesting.CreateAction).GetObject().(*policyv1.Eviction)
		if !ok {
			return false, nil, nil
		}
		p.mu.Lock()
		protected, next := p.protected[ev.Name], p.replacements[ev.Name]
		p.mu.Unlock()
		if protected {
			return true, nil, apierrors.NewTooManyRequests("Cannot evict pod as it would violate the pod's disruption budget.", 1)
		}
		if ev.DeleteOptions != nil && len(ev.DeleteOptions.DryRun) > 0 {
			return true, nil, nil
		}
		pods := corev1.SchemeGroupVersion.WithResource("pods")
		if next != nil {
			if err := cs.Tracker().Create(pods, next.DeepCopy(), ev.Namespace); err != nil {
				return true, nil, err
			}
		}
		return true, nil, cs.Tracker().Delete(pods, ev.Namespace, ev.Name)
	})
	return cs
}

func (p *fakePlanes) WaitReady(context.Context, string) error {
	if err := p.faults.strike(); err != nil {
		return err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.notReady
}

func (p *fakePlanes) Release(_ context.Context, id string) error {
	if err := p.faults.strike(); err != nil {
		return err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	for o, pl := range p.owners {
		if pl.ID == id {
			delete(p.owners, o)
		}
	}
	delete(p.byID, id)
	if c, ok := p.released[id]; ok {
		close(c)
		delete(p.released, id)
	}
	return p.faults.strike()
}

func (p *fakePlanes) SetAccess(_ context.Context, id string, public bool, cidrs []string, private bool) error {
	if err := p.faults.strike(); err != nil {
		return err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.access[id] = fmt.Sprint(public, cidrs, private)
	return nil
}

func (p *fakePlanes) SetIdentityProvider(_ context.Context, id string, idp *ekstypes.OidcIdentityProviderConfig) error {
	if err := p.faults.strike(); err != nil {
		return err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.providers == nil {
		p.providers = map[string]*ekstypes.OidcIdentityProviderConfig{}
	}
	p.providers[id] = idp
	return nil
}

// Copy copies what a rehearsal changes, and nothing else.
func (p *fakePlanes) Copy(ctx context.Context, id string) (string, error) {
	from := p.clientset(id)
	nodes, nodesErr := from.CoreV1().Nodes().List(ctx, metav1.ListOptions{})
	pods, podsErr := from.CoreV1().Pods("").List(ctx, metav1.ListOptions{})
	budgets, budgetsErr := from.PolicyV1().PodDisruptionBudgets("").List(ctx, metav1.ListOptions{})
	leases, leasesErr := from.CoordinationV1().Leases("").List(ctx, metav1.ListOptions{})
	if err := errors.Join(nodesErr, podsErr, budgetsErr, leasesErr); err != nil {
		return "", err
	}
	copied := "COPY" + id[4:]
	cs := p.newClientset(copied)
	for _, list := range []runtime.Object{nodes, pods, budgets, leases} {
		if err := cs.Tracker().Add(list); err != nil {
			return "", err
		}
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.byID[copied], p.versions[copied] = cs, p.versions[id]
	return copied, nil
}

func (p *fakePlanes) Unconverted(string) []string { return p.unconverted }

func (p *fakePlanes) StubbedCalls(string) map[string]int { return p.stubbed }

func (p *fakePlanes) AdoptedIdentityProvider(context.Context, string) (bool, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return !p.unadopted, nil
}

func (p *fakePlanes) DeprecatedUse(string) ([]eks.APIUse, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.uses, nil
}

func (p *fakePlanes) SetAutoMode(id string, to *automode.Setting) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.autoMode == nil {
		p.autoMode = map[string]*automode.Setting{}
	}
	p.autoMode[id] = to
}

// setting returns the setting of EKS Auto Mode of one of the planes, or nil.
func (p *fakePlanes) setting() *automode.Setting {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, s := range p.autoMode {
		if s != nil {
			return s
		}
	}
	return nil
}

func (p *fakePlanes) SetLogging(_ context.Context, id string, components []string) error {
	if err := p.faults.strike(); err != nil {
		return err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.logging == nil {
		p.logging = map[string][]string{}
	}
	p.logging[id] = components
	return nil
}

func (p *fakePlanes) Encrypt(_ context.Context, id, keyARN string) error {
	if err := p.faults.strike(); err != nil {
		return err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.encrypting != nil {
		if err := p.encrypting(id); err != nil {
			return err
		}
	}
	p.encrypted[id] = keyARN
	return p.faults.strike()
}

func (p *fakePlanes) EncryptionKey(id string) string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return cmp.Or(p.encrypted[id], p.taken[id])
}

func (p *fakePlanes) Released(id string) <-chan struct{} {
	p.mu.Lock()
	defer p.mu.Unlock()
	c, ok := p.released[id]
	if !ok {
		c = make(chan struct{})
		if p.byID[id] == nil { // like the Manager
			close(c)
			return c
		}
		if p.released == nil {
			p.released = map[string]chan struct{}{}
		}
		p.released[id] = c
	}
	return c
}

func (p *fakePlanes) RESTConfig(id string) (*rest.Config, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.byID[id] == nil {
		return nil, fmt.Errorf("no plane %s", id)
	}
	return &rest.Config{Host: id}, nil
}

func (p *fakePlanes) setAdmit(fn func(plane string)) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.admit = fn
}

func (p *fakePlanes) FargateWebhook() *admissionregistrationv1.MutatingWebhookConfiguration {
	return &admissionregistrationv1.MutatingWebhookConfiguration{ObjectMeta: metav1.ObjectMeta{Name: "fargate"}}
}

func (p *fakePlanes) client(c *rest.Config) (kubernetes.Interface, error) {
	return p.clientset(c.Host), nil
}

func (p *fakePlanes) clientset(id string) *fake.Clientset {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.byID[id]
}

func (p *fakePlanes) only() (eks.Plane, *fake.Clientset) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, pl := range p.owners {
		return pl, p.byID[pl.ID]
	}
	return eks.Plane{}, nil
}

// fakeIAM has identities and instance profiles.
type fakeIAM struct {
	faults   *faults
	mu       sync.Mutex
	known    map[string]eks.Identity
	profiles map[string]string
	// asked, if not nil, is called before an identity is returned.
	asked func()
	// lacks are actions that roles may not perform.
	lacks map[string][]string
}

func newIAM(f *faults) *fakeIAM {
	return &fakeIAM{faults: f, known: map[string]eks.Identity{}, profiles: map[string]string{}}
}

func (i *fakeIAM) add(arn, id string, trusted ...string) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.known[arn] = eks.Identity{ARN: arn, ID: id, TrustedServices: trusted}
}

// untaggable makes a role's trust policy lack sts:TagSession.
func (i *fakeIAM) untaggable(arn string) {
	i.mu.Lock()
	defer i.mu.Unlock()
	id := i.known[arn]
	id.TaggableBy = func(string) bool { return false }
	i.known[arn] = id
}

// forbid sets the actions that a role may not perform.
func (i *fakeIAM) forbid(role string, actions ...string) {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.lacks == nil {
		i.lacks = map[string][]string{}
	}
	i.lacks[role] = actions
}

func (i *fakeIAM) denies(_ context.Context, role string, actions []string) ([]string, error) {
	i.mu.Lock()
	defer i.mu.Unlock()
	return slices.DeleteFunc(slices.Clone(actions), func(a string) bool { return !slices.Contains(i.lacks[role], a) }), nil
}

func (i *fakeIAM) identity(_ context.Context, arn string) (eks.Identity, error) {
	i.mu.Lock()
	asked := i.asked
	i.mu.Unlock()
	if asked != nil {
		asked()
	}
	i.mu.Lock()
	defer i.mu.Unlock()
	if id, ok := i.known[arn]; ok {
		return id, nil
	}
	return eks.Identity{}, eks.ErrNoIdentity
}

func (i *fakeIAM) CreateInstanceProfile(_ context.Context, in *awsiam.CreateInstanceProfileInput) (*awsiam.CreateInstanceProfileOutput, error) {
	if err := i.faults.strike(); err != nil {
		return nil, err
	}
	i.mu.Lock()
	defer i.mu.Unlock()
	if _, ok := i.profiles[*in.InstanceProfileName]; ok {
		return nil, &iamtypes.EntityAlreadyExistsException{}
	}
	i.profiles[*in.InstanceProfileName] = ""
	return &awsiam.CreateInstanceProfileOutput{}, i.faults.strike()
}

func (i *fakeIAM) AddRoleToInstanceProfile(_ context.Context, in *awsiam.AddRoleToInstanceProfileInput) (*awsiam.AddRoleToInstanceProfileOutput, error) {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.profiles[*in.InstanceProfileName] != "" {
		return nil, &iamtypes.LimitExceededException{}
	}
	i.profiles[*in.InstanceProfileName] = *in.RoleName
	return &awsiam.AddRoleToInstanceProfileOutput{}, i.faults.strike()
}

func (i *fakeIAM) RemoveRoleFromInstanceProfile(_ context.Context, in *awsiam.RemoveRoleFromInstanceProfileInput) (*awsiam.RemoveRoleFromInstanceProfileOutput, error) {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.profiles[*in.InstanceProfileName] != *in.RoleName {
		return nil, &iamtypes.NoSuchEntityException{}
	}
	i.profiles[*in.InstanceProfileName] = ""
	return &awsiam.RemoveRoleFromInstanceProfileOutput{}, i.faults.strike()
}

func (i *fakeIAM) GetInstanceProfile(_ context.Context, in *awsiam.GetInstanceProfileInput) (*awsiam.GetInstanceProfileOutput, error) {
	i.mu.Lock()
	defer i.mu.Unlock()
	role, ok := i.profiles[*in.InstanceProfileName]
	if !ok {
		return nil, &iamtypes.NoSuchEntityException{}
	}
	out := &iamtypes.InstanceProfile{InstanceProfileName: in.InstanceProfileName}
	if role != "" {
		out.Roles = []iamtypes.Role{{RoleName: &role}}
	}
	return &awsiam.GetInstanceProfileOutput{InstanceProfile: out}, nil
}

func (i *fakeIAM) DeleteInstanceProfile(_ context.Context, in *awsiam.DeleteInstanceProfileInput) (*awsiam.DeleteInstanceProfileOutput, error) {
	i.mu.Lock()
	defer i.mu.Unlock()
	if _, ok := i.profiles[*in.InstanceProfileName]; !ok {
		return nil, &iamtypes.NoSuchEntityException{}
	}
	delete(i.profiles, *in.InstanceProfileName)
	return &awsiam.DeleteInstanceProfileOutput{}, i.faults.strike()
}

// fakeEC2 has the VPC 172.31.0.0/16 with subnets a, b and c in three zones, a second VPC with
// subnet other, and whatever EKS creates.
type fakeEC2 struct {
	faults *faults
	mu     sync.Mutex
	n      int

	vpcs       map[string]string // CIDR by ID
	subnets    []ec2types.Subnet
	tables     []ec2types.RouteTable
	groups     map[string]ec2types.SecurityGroup
	interfaces map[string]ec2types.NetworkInterface
	templates  map[string]ec2types.LaunchTemplateVersion // latest versions, by name
	older      []ec2types.LaunchTemplateVersion
	instances  map[string]ec2types.Instance
	reboots    []string
	launches   map[string]*awsec2.RunInstancesOutput // by client token
	store      *store.Store                          // for watchers of instances
	described  int                                   // number of DescribeInstances calls
	launchErr  error
	endsLate   int // how many of the next calls of TerminateInstances have no effect yet
	subnetErr  error
	ingressErr error
	// launched is called for every new instance, with its user data.
	launched func(i ec2types.Instance, userData string)
	refused  int // deletions of security groups
}

func newEC2(f *faults) *fakeEC2 {
	e := &fakeEC2{
		faults: f, vpcs: map[string]string{"vpc-main": "172.31.0.0/16", "vpc-other": "10.0.0.0/16", "vpc-ten": "10.9.0.0/16", "vpc-six": "10.6.0.0/16"},
		groups: map[string]ec2types.SecurityGroup{}, interfaces: map[string]ec2types.NetworkInterface{},
		launches: map[string]*awsec2.RunInstancesOutput{}, templates: map[string]ec2types.LaunchTemplateVersion{}, instances: map[string]ec2types.Instance{},
	}
	for _, s := range []struct{ id, vpc, zone string }{
		{"subnet-a", "vpc-main", "us-east-1a"}, {"subnet-a2", "vpc-main", "us-east-1a"}, {"subnet-b", "vpc-main", "us-east-1b"},
		{"subnet-c", "vpc-main", "us-east-1c"}, {"subnet-other", "vpc-other", "us-east-1b"},
		{"subnet-ten-a", "vpc-ten", "us-east-1a"}, {"subnet-ten-b", "vpc-ten", "us-east-1b"},
	} {
		e.subnets = append(e.subnets, ec2types.Subnet{SubnetId: &s.id, VpcId: &s.vpc, AvailabilityZone: &s.zone, AvailableIpAddressCount: new(int32(250))})
	}
	for i, zone := range []string{"us-east-1a", "us-east-1b"} {
		e.subnets = append(e.subnets, ec2types.Subnet{
			SubnetId: new("subnet-six-" + zone[len(zone)-1:]), VpcId: new("vpc-six"), AvailabilityZone: &zone, AvailableIpAddressCount: new(int32(250)), AssignIpv6AddressOnCreation: new(i == 0),
			Ipv6CidrBlockAssociationSet: []ec2types.SubnetIpv6CidrBlockAssociation{{Ipv6CidrBlock: new(fmt.Sprintf("2600:1f10:0:%x::/64", i))}},
		})
	}
	e.subnets = append(e.subnets, ec2types.Subnet{SubnetId: new("subnet-only-six"), VpcId: new("vpc-six"), AvailabilityZone: new("us-east-1c"), AvailableIpAddressCount: new(int32(0)), Ipv6Native: new(true), Ipv6CidrBlockAssociationSet: []ec2types.SubnetIpv6CidrBlockAssociation{{Ipv6CidrBlock: new("2600:1f10:0:2::/64")}}})
	for _, g := range []struct{ id, vpc string }{{"sg-1", "vpc-main"}, {"sg-2", "vpc-main"}, {"sg-other", "vpc-other"}} {
		e.groups[g.id] = ec2types.SecurityGroup{GroupId: &g.id, VpcId: &g.vpc, GroupName: new("mine")}
	}
	return e
}

func (e *fakeEC2) id(prefix string) string {
	e.n++
	return fmt.Sprintf("%s-0%016x", prefix, e.n)
}

func (e *fakeEC2) DescribeVpcs(_ context.Context, in *awsec2.DescribeVpcsInput) (*awsec2.DescribeVpcsOutput, error) {
	out := &awsec2.DescribeVpcsOutput{}
	for _, id := range in.VpcIds {
		out.Vpcs = append(out.Vpcs, ec2types.Vpc{VpcId: &id, CidrBlock: new(e.vpcs[id])})
	}
	return out, nil
}

func (e *fakeEC2) DescribeSubnets(_ context.Context, in *awsec2.DescribeSubnetsInput) (*awsec2.DescribeSubnetsOutput, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.subnetErr != nil {
		return nil, e.subnetErr
	}
	out := &awsec2.DescribeSubnetsOutput{}
	for _, id := range in.SubnetIds {
		i := slices.IndexFunc(e.subnets, func(s ec2types.Subnet) bool { return *s.SubnetId == id })
		if i < 0 {
			return nil, awserr.Newf("InvalidSubnetID.NotFound", "The subnet ID '%s' does not exist", id)
		}
		out.Subnets = append(out.Subnets, e.subnets[i])
	}
	for _, sn := range e.subnets {
		if len(in.Filters) > 0 && matches(in.Filters, map[string]string{"subnet-id": *sn.SubnetId, "vpc-id": *sn.VpcId}, sn.Tags) {
			out.Subnets = append(out.Subnets, sn)
		}
	}
	return out, nil
}

// DescribeImages and the next method are for groups with instance requirements, which node groups do not have.
func (e *fakeEC2) DescribeImages(context.Context, *awsec2.DescribeImagesInput) (*awsec2.DescribeImagesOutput, error) {
	return nil, errors.New("node groups choose their instance types")
}

func (e *fakeEC2) GetInstanceTypesFromInstanceRequirements(context.Context, *awsec2.GetInstanceTypesFromInstanceRequirementsInput) (*awsec2.GetInstanceTypesFromInstanceRequirementsOutput, error) {
	return nil, errors.New("node groups choose their instance types")
}

func (e *fakeEC2) DescribeRouteTables(context.Context, *awsec2.DescribeRouteTablesInput) (*awsec2.DescribeRouteTablesOutput, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	return &awsec2.DescribeRouteTablesOutput{RouteTables: e.tables}, nil
}

func (e *fakeEC2) DescribeSecurityGroups(_ context.Context, in *awsec2.DescribeSecurityGroupsInput) (*awsec2.DescribeSecurityGroupsOutput, error) {
	if err := e.faults.strike(); err != nil {
		return nil, err
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	out := &awsec2.DescribeSecurityGroupsOutput{}
	for _, id := range in.GroupIds {
		g, ok := e.groups[id]
		if !ok {
			return nil, awserr.Newf("InvalidGroup.NotFound", "The security group '%s' does not exist", id)
		}
		out.SecurityGroups = append(out.SecurityGroups, g)
	}
	for _, g := range e.groups {
		if len(in.Filters) > 0 && matches(in.Filters, map[string]string{"group-id": *g.GroupId, "group-name": *g.GroupName, "vpc-id": *g.VpcId}, g.Tags) {
			out.SecurityGroups = append(out.SecurityGroups, g)
		}
	}
	return out, nil
}

func (e *fakeEC2) CreateSecurityGroup(_ context.Context, in *awsec2.CreateSecurityGroupInput) (*awsec2.CreateSecurityGroupOutput, error) {
	if err := e.faults.strike(); err != nil {
		return nil, err
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, g := range e.groups {
		if *g.GroupName == *in.GroupName && *g.VpcId == *in.VpcId {
			return nil, awserr.New("InvalidGroup.Duplicate", "The security group already exists")
		}
	}
	id := e.id("sg")
	e.groups[id] = ec2types.SecurityGroup{GroupId: &id, VpcId: in.VpcId, GroupName: in.GroupName, Tags: in.TagSpecifications[0].Tags}
	return &awsec2.CreateSecurityGroupOutput{GroupId: &id}, e.faults.strike()
}

func (e *fakeEC2) AuthorizeSecurityGroupIngress(_ context.Context, in *awsec2.AuthorizeSecurityGroupIngressInput) (*awsec2.AuthorizeSecurityGroupIngressOutput, error) {
	if err := e.faults.strike(); err != nil {
		return nil, err
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.ingressErr != nil {
		return nil, e.ingressErr
	}
	g := e.groups[*in.GroupId]
	if len(g.IpPermissions) > 0 {
		return nil, awserr.New("InvalidPermission.Duplicate", "the specified rule already exists")
	}
	g.IpPermissions = in.IpPermissions
	e.groups[*in.GroupId] = g
	return &awsec2.AuthorizeSecurityGroupIngressOutput{}, e.faults.strike()
}

func (e *fakeEC2) DeleteSecurityGroup(_ context.Context, in *awsec2.DeleteSecurityGroupInput) (*awsec2.DeleteSecurityGroupOutput, error) {
	if err := e.faults.strike(); err != nil {
		return nil, err
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, i := range e.interfaces {
		for _, g := range i.Groups {
			if *g.GroupId == *in.GroupId {
				e.refused++
				return nil, awserr.New("DependencyViolation", "resource has a dependent object")
			}
		}
	}
	delete(e.groups, *in.GroupId)
	return &awsec2.DeleteSecurityGroupOutput{}, e.faults.strike()
}

func (e *fakeEC2) DescribeNetworkInterfaces(_ context.Context, in *awsec2.DescribeNetworkInterfacesInput) (*awsec2.DescribeNetworkInterfacesOutput, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	out := &awsec2.DescribeNetworkInterfacesOutput{}
	for _, i := range e.interfaces {
		if matches(in.Filters, map[string]string{
			"description": *i.Description, "vpc-id": *i.VpcId, "private-dns-name": aws.ToString(i.PrivateDnsName), "requester-managed": strconv.FormatBool(aws.ToBool(i.RequesterManaged)),
		}, i.TagSet) {
			out.NetworkInterfaces = append(out.NetworkInterfaces, i)
		}
	}
	return out, nil
}

func (e *fakeEC2) CreateNetworkInterface(_ context.Context, in *awsec2.CreateNetworkInterfaceInput) (*awsec2.CreateNetworkInterfaceOutput, error) {
	if err := e.faults.strike(); err != nil {
		return nil, err
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	i := ec2types.NetworkInterface{NetworkInterfaceId: new(e.id("eni")), SubnetId: in.SubnetId, Description: in.Description, TagSet: in.TagSpecifications[0].Tags}
	i.PrivateIpAddress = new(fmt.Sprintf("10.0.1.%d", len(e.interfaces)+4))
	for _, s := range e.subnets {
		if *s.SubnetId == *in.SubnetId {
			i.VpcId = s.VpcId
		}
	}
	if in.Ipv6AddressCount != nil {
		i.Ipv6Addresses = make([]ec2types.NetworkInterfaceIpv6Address, *in.Ipv6AddressCount)
	}
	for _, g := range in.Groups {
		i.Groups = append(i.Groups, ec2types.GroupIdentifier{GroupId: &g})
	}
	e.interfaces[*i.NetworkInterfaceId] = i
	return &awsec2.CreateNetworkInterfaceOutput{NetworkInterface: &i}, e.faults.strike()
}

func (e *fakeEC2) DeleteNetworkInterface(_ context.Context, in *awsec2.DeleteNetworkInterfaceInput) (*awsec2.DeleteNetworkInterfaceOutput, error) {
	if err := e.faults.strike(); err != nil {
		return nil, err
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	delete(e.interfaces, *in.NetworkInterfaceId)
	return &awsec2.DeleteNetworkInterfaceOutput{}, e.faults.strike()
}

func (e *fakeEC2) CreateLaunchTemplate(_ context.Context, in *awsec2.CreateLaunchTemplateInput) (*awsec2.CreateLaunchTemplateOutput, error) {
	if err := e.faults.strike(); err != nil {
		return nil, err
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if _, ok := e.templates[*in.LaunchTemplateName]; ok {
		return nil, awserr.New("InvalidLaunchTemplateName.AlreadyExistsException", "Launch template name already in use.")
	}
	d := in.LaunchTemplateData
	v := ec2types.LaunchTemplateVersion{
		LaunchTemplateId: new(e.id("lt")), LaunchTemplateName: in.LaunchTemplateName, VersionNumber: new(int64(1)),
		LaunchTemplateData: &ec2types.ResponseLaunchTemplateData{
			ImageId: d.ImageId, UserData: d.UserData, InstanceType: d.InstanceType, SecurityGroupIds: d.SecurityGroupIds, KeyName: d.KeyName,
		},
	}
	if p := d.IamInstanceProfile; p != nil {
		v.LaunchTemplateData.IamInstanceProfile = &ec2types.LaunchTemplateIamInstanceProfileSpecification{Name: p.Name}
	}
	e.templates[*in.LaunchTemplateName] = v
	return &awsec2.CreateLaunchTemplateOutput{LaunchTemplate: &ec2types.LaunchTemplate{LaunchTemplateId: v.LaunchTemplateId}}, e.faults.strike()
}

func (e *fakeEC2) template(id, name *string) (ec2types.LaunchTemplateVersion, bool) {
	for n, v := range e.templates {
		if id != nil && *v.LaunchTemplateId == *id || name != nil && n == *name {
			return v, true
		}
	}
	return ec2types.LaunchTemplateVersion{}, false
}

// version returns a template's version with a number, or the latest if the number is empty.
func (e *fakeEC2) version(latest ec2types.LaunchTemplateVersion, number string) ec2types.LaunchTemplateVersion {
	for _, v := range e.older {
		if *v.LaunchTemplateId == *latest.LaunchTemplateId && fmt.Sprint(*v.VersionNumber) == number {
			return v
		}
	}
	return latest
}

func (e *fakeEC2) DescribeLaunchTemplateVersions(_ context.Context, in *awsec2.DescribeLaunchTemplateVersionsInput) (*awsec2.DescribeLaunchTemplateVersionsOutput, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	v, ok := e.template(in.LaunchTemplateId, in.LaunchTemplateName)
	if !ok {
		return nil, awserr.New("InvalidLaunchTemplateId.NotFound", "The specified launch template does not exist.")
	}
	if len(in.Versions) == 1 {
		v = e.version(v, in.Versions[0])
	}
	return &awsec2.DescribeLaunchTemplateVersionsOutput{LaunchTemplateVersions: []ec2types.LaunchTemplateVersion{v}}, nil
}

func (e *fakeEC2) DeleteLaunchTemplate(_ context.Context, in *awsec2.DeleteLaunchTemplateInput) (*awsec2.DeleteLaunchTemplateOutput, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if _, ok := e.templates[*in.LaunchTemplateName]; !ok {
		return nil, awserr.New("InvalidLaunchTemplateName.NotFoundException", "no such template")
	}
	delete(e.templates, *in.LaunchTemplateName)
	return &awsec2.DeleteLaunchTemplateOutput{}, e.faults.strike()
}

func (e *fakeEC2) CreateLaunchTemplateVersion(_ context.Context, in *awsec2.CreateLaunchTemplateVersionInput) (*awsec2.CreateLaunchTemplateVersionOutput, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	v, ok := e.template(in.LaunchTemplateId, nil)
	if !ok {
		return nil, awserr.New("InvalidLaunchTemplateId.NotFound", "The specified launch template does not exist.")
	}
	e.older = append(e.older, v)
	data := *v.LaunchTemplateData
	data.UserData, data.ImageId = in.LaunchTemplateData.UserData, in.LaunchTemplateData.ImageId
	v.LaunchTemplateData, v.VersionNumber = &data, new(*v.VersionNumber+1)
	e.templates[*v.LaunchTemplateName] = v
	return &awsec2.CreateLaunchTemplateVersionOutput{LaunchTemplateVersion: &v}, e.faults.strike()
}

func (e *fakeEC2) CreateTags(context.Context, *awsec2.CreateTagsInput) (*awsec2.CreateTagsOutput, error) {
	return &awsec2.CreateTagsOutput{}, nil
}

func (e *fakeEC2) DeleteTags(context.Context, *awsec2.DeleteTagsInput) (*awsec2.DeleteTagsOutput, error) {
	return &awsec2.DeleteTagsOutput{}, nil
}

// changes has a record for each change of an instance, which WatchInstances watches.
var changes = store.NewCollection[int]("test", "instance")

func (e *fakeEC2) WatchInstances(sc store.Scope) *store.Watcher { return changes.Watch(e.store, sc) }

func (e *fakeEC2) InstanceState(_, _, id string) (string, bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	i, ok := e.instances[id]
	if !ok {
		return "", false
	}
	return string(i.State.Name), true
}

// tell notifies watchers of instances.
func (e *fakeEC2) tell(ctx context.Context, account, region string, instanceIDs ...string) error {
	return e.store.Update(ctx, func(tx *store.Tx) error {
		for _, id := range instanceIDs {
			k := store.Key{Account: account, Region: region, ID: id}
			n, _ := changes.Get(tx, k)
			if err := changes.Put(tx, k, n+1); err != nil {
				return err
			}
		}
		return nil
	})
}

func (e *fakeEC2) RunInstances(_ context.Context, in *awsec2.RunInstancesInput) (*awsec2.RunInstancesOutput, error) {
	if err := e.faults.strike(); err != nil {
		return nil, err
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	switch done, ok := e.launches[text(in.ClientToken)]; {
	case in.DryRun != nil && *in.DryRun:
		return nil, awserr.New("DryRunOperation", "Request would have succeeded, but DryRun flag is set.")
	case ok:
		return done, nil
	case e.launchErr != nil:
		return nil, e.launchErr
	}
	v, ok := e.template(in.LaunchTemplate.LaunchTemplateId, nil)
	if !ok {
		return nil, awserr.New("InvalidLaunchTemplateId.NotFound", "The specified launch template does not exist.")
	}
	v = e.version(v, text(in.LaunchTemplate.Version))
	data := v.LaunchTemplateData.UserData
	if in.UserData != nil {
		data = in.UserData
	}
	out := &awsec2.RunInstancesOutput{}
	for range *in.MaxCount {
		id := e.id("i")
		i := ec2types.Instance{
			InstanceId: &id, SubnetId: in.SubnetId, Tags: in.TagSpecifications[0].Tags, InstanceType: in.InstanceType, ImageId: v.LaunchTemplateData.ImageId,
			PrivateDnsName: new(fmt.Sprintf("ip-172-31-%d-%d.ec2.internal", e.n/256, e.n%256)),
			State:          &ec2types.InstanceState{Name: ec2types.InstanceStateNameRunning},
		}
		if n := slices.IndexFunc(e.subnets, func(s ec2types.Subnet) bool { return *s.SubnetId == text(in.SubnetId) }); n >= 0 {
			i.Placement = &ec2types.Placement{AvailabilityZone: e.subnets[n].AvailabilityZone}
		}
		e.instances[id] = i
		out.Instances = append(out.Instances, i)
		if e.launched != nil && data != nil {
			raw, _ := base64.StdEncoding.DecodeString(*data)
			e.launched(i, string(raw))
		}
	}
	e.launches[*in.ClientToken] = out
	return out, e.faults.strike()
}

func text(s *string) string {
	if s == nil {
		return ""
	}
	return *s
}

func (e *fakeEC2) DescribeInstances(_ context.Context, in *awsec2.DescribeInstancesInput) (*awsec2.DescribeInstancesOutput, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.described++
	r := ec2types.Reservation{}
	for _, id := range in.InstanceIds {
		i, ok := e.instances[id]
		if !ok {
			return nil, awserr.Newf("InvalidInstanceID.NotFound", "The instance ID '%s' does not exist", id)
		}
		r.Instances = append(r.Instances, i)
	}
	for _, i := range e.instances {
		operator := ""
		if i.Operator != nil {
			operator = *i.Operator.Principal
		}
		if len(in.Filters) > 0 && matches(in.Filters, map[string]string{"instance-state-name": string(i.State.Name), "instance-id": *i.InstanceId, "private-dns-name": aws.ToString(i.PrivateDnsName), "operator.principal": operator, "vpc-id": aws.ToString(i.VpcId)}, i.Tags) {
			r.Instances = append(r.Instances, i)
		}
	}
	return &awsec2.DescribeInstancesOutput{Reservations: []ec2types.Reservation{r}}, nil
}

func (e *fakeEC2) TerminateInstances(ctx context.Context, in *awsec2.TerminateInstancesInput) (*awsec2.TerminateInstancesOutput, error) {
	if err := e.faults.strike(); err != nil {
		return nil, err
	}
	call := awsapi.CallFrom(ctx)
	if !e.late() {
		e.end(in.InstanceIds...)
	}
	return &awsec2.TerminateInstancesOutput{}, errors.Join(e.tell(ctx, call.Account, call.Region, in.InstanceIds...), e.faults.strike())
}

// StartInstances and StopInstances are for warm pools, which node groups do not have.
func (e *fakeEC2) StartInstances(context.Context, *awsec2.StartInstancesInput) (*awsec2.StartInstancesOutput, error) {
	return nil, errors.New("a node group has a warm pool")
}

func (e *fakeEC2) StopInstances(context.Context, *awsec2.StopInstancesInput) (*awsec2.StopInstancesOutput, error) {
	return nil, errors.New("a node group has a warm pool")
}

func (e *fakeEC2) RebootInstances(_ context.Context, in *awsec2.RebootInstancesInput) (*awsec2.RebootInstancesOutput, error) {
	if err := e.faults.strike(); err != nil {
		return nil, err
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	e.reboots = append(e.reboots, in.InstanceIds...)
	return &awsec2.RebootInstancesOutput{}, nil
}

func (e *fakeEC2) DescribeKeyPairs(_ context.Context, in *awsec2.DescribeKeyPairsInput) (*awsec2.DescribeKeyPairsOutput, error) {
	if in.KeyNames[0] != "key" {
		return nil, awserr.Newf("InvalidKeyPair.NotFound", "The key pair '%s' does not exist", in.KeyNames[0])
	}
	return &awsec2.DescribeKeyPairsOutput{}, nil
}

func (e *fakeEC2) late() bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.endsLate--
	return e.endsLate >= 0
}

// end terminates instances without notifying watchers.
func (e *fakeEC2) end(instanceIDs ...string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, id := range instanceIDs {
		i := e.instances[id]
		i.State = &ec2types.InstanceState{Name: ec2types.InstanceStateNameTerminated}
		e.instances[id] = i
	}
}

func (e *fakeEC2) running() []ec2types.Instance {
	e.mu.Lock()
	defer e.mu.Unlock()
	var out []ec2types.Instance
	for _, i := range e.instances {
		if i.State.Name == ec2types.InstanceStateNameRunning {
			out = append(out, i)
		}
	}
	return out
}

func matches(filters []ec2types.Filter, attrs map[string]string, tags []ec2types.Tag) bool {
	for _, f := range filters {
		got := attrs[*f.Name]
		if key, ok := strings.CutPrefix(*f.Name, "tag:"); ok {
			for _, t := range tags {
				if *t.Key == key {
					got = *t.Value
				}
			}
		}
		if !slices.ContainsFunc(f.Values, func(v string) bool { ok, _ := path.Match(v, got); return ok }) {
			return false
		}
	}
	return true
}

var nodeLabelsFlag = regexp.MustCompile(`--node-labels=([^\s"']*)`)

// join creates the node for an instance with this user data.
func join(cs *fake.Clientset, i ec2types.Instance, userData string) error {
	labels := map[string]string{}
	if i.Placement != nil {
		labels[corev1.LabelTopologyZone] = *i.Placement.AvailabilityZone
	}
	if m := nodeLabelsFlag.FindStringSubmatch(userData); m != nil {
		for _, pair := range strings.Split(m[1], ",") {
			k, v, _ := strings.Cut(pair, "=")
			labels[k] = v
		}
	}
	return cs.Tracker().Add(&corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: *i.PrivateDnsName, Labels: labels},
		Spec:       corev1.NodeSpec{ProviderID: "aws:///us-east-1a/" + *i.InstanceId},
		Status:     corev1.NodeStatus{Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}},
	})
}

func instance(id, dnsName string) ec2types.Instance {
	return ec2types.Instance{InstanceId: &id, PrivateDnsName: &dnsName, State: &ec2types.InstanceState{Name: ec2types.InstanceStateNameRunning}}
}

// fail makes calls fail with an error from now on, or succeed if it is nil.
func (e *fakeEC2) fail(field *error, err error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	*field = err
}

// onLaunch sets a function that is called for instances that boot.
func (e *fakeEC2) onLaunch(f func(i ec2types.Instance, userData string)) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.launched = f
}

func (i *fakeIAM) remove(arn string) {
	i.mu.Lock()
	defer i.mu.Unlock()
	delete(i.known, arn)
}
