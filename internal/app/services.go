package app

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"path/filepath"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	awsiam "github.com/aws/aws-sdk-go-v2/service/iam"
	authzv1 "k8s.io/api/authorization/v1"
	clocks "k8s.io/utils/clock"

	"github.com/drydock-dev/drydock/internal/accountnet"
	"github.com/drydock-dev/drydock/internal/api"
	"github.com/drydock-dev/drydock/internal/authz"
	"github.com/drydock-dev/drydock/internal/awsapi"
	"github.com/drydock-dev/drydock/internal/awsapi/server"
	"github.com/drydock-dev/drydock/internal/awscall"
	"github.com/drydock-dev/drydock/internal/bytestore"
	"github.com/drydock-dev/drydock/internal/cli"
	"github.com/drydock-dev/drydock/internal/clock"
	"github.com/drydock-dev/drydock/internal/compute"
	"github.com/drydock-dev/drydock/internal/controlplane"
	"github.com/drydock-dev/drydock/internal/fault"
	"github.com/drydock-dev/drydock/internal/fault/keeper"
	"github.com/drydock-dev/drydock/internal/journal"
	"github.com/drydock-dev/drydock/internal/machine"
	"github.com/drydock-dev/drydock/internal/module"
	"github.com/drydock-dev/drydock/internal/node"
	"github.com/drydock-dev/drydock/internal/node/fargate"
	"github.com/drydock-dev/drydock/internal/podrun"
	"github.com/drydock-dev/drydock/internal/service/autoscaling"
	"github.com/drydock-dev/drydock/internal/service/cloudformation"
	"github.com/drydock-dev/drydock/internal/service/cloudtrail"
	"github.com/drydock-dev/drydock/internal/service/ec2"
	"github.com/drydock-dev/drydock/internal/service/eks"
	"github.com/drydock-dev/drydock/internal/service/eksauth"
	"github.com/drydock-dev/drydock/internal/service/elb"
	"github.com/drydock-dev/drydock/internal/service/elbv2"
	"github.com/drydock-dev/drydock/internal/service/iam"
	"github.com/drydock-dev/drydock/internal/service/kms"
	"github.com/drydock-dev/drydock/internal/service/pricing"
	"github.com/drydock-dev/drydock/internal/service/servicequotas"
	"github.com/drydock-dev/drydock/internal/service/sqs"
	"github.com/drydock-dev/drydock/internal/service/ssm"
	"github.com/drydock-dev/drydock/internal/service/sts"
	"github.com/drydock-dev/drydock/internal/store"
	"github.com/drydock-dev/drydock/internal/why"
)

// A daemon is everything that runs.
type daemon struct {
	cfg     cli.DaemonConfig
	info    api.DaemonInfo
	log     *slog.Logger
	timing  clock.Timing
	started time.Time

	store *store.Store
	bytes *bytestore.Store
	// bytesDir is the folder of bytes.
	bytesDir string
	faults   *keeper.Keeper
	journal  *journal.Journal
	iam      *iam.Service
	sts      *sts.Service
	ec2      *ec2.Service
	scaling  *autoscaling.Service
	elb      *elb.Service
	elbv2    *elbv2.Service
	kms      *kms.Service
	// clusterKeys let EKS and control planes use KMS.
	clusterKeys *clusterKeys
	ssm         *ssm.Service
	quotas      *servicequotas.Service
	eks         *eks.Service
	eksAuth     *eksauth.Service
	planes      *controlplane.Manager
	machines    *compute.Machines
	// origins are where connections of machines to the endpoint come from.
	origins compute.Origins
	podRuns *podrun.Runs
	network *accountnet.Network
	why     *why.Explainer
	server  *server.Server
	// ec2Quotas are EC2's, which Service Quotas changes.
	ec2Quotas ec2Quotas
	eksQuotas *servicequotas.Table
	// authorizer decides about every call of the AWS API.
	authorizer *authz.Authorizer
	// modules are the services as they were declared, in the order of the list.
	modules []module.Module
	// daemonAPI is what answers the daemon's own paths, /_drydock/.
	daemonAPI http.ServeMux
}

// An entry is a service in the list of all: its operations, which are constant, and the
// module that a daemon makes of it.
type entry struct {
	operations func() awsapi.Service
	module     func(d *daemon) module.Module
}

// services lists AWS's services in the order of docs/compatibility.md. A service is
// added by one line here; everything else about it is in its own folder.
var services = []entry{
	{new(eks.Service).AWS, func(d *daemon) module.Module { return d.eks.Module() }},
	{new(eksauth.Service).AWS, func(d *daemon) module.Module { return d.eksAuth.Module() }},
	{new(ec2.Service).AWS, func(d *daemon) module.Module { return d.ec2.Module() }},
	{new(autoscaling.Service).AWS, func(d *daemon) module.Module { return d.scaling.Module() }},
	{new(elb.Service).AWS, func(d *daemon) module.Module { return d.elb.Module() }},
	{new(elbv2.Service).AWS, func(d *daemon) module.Module { return d.elbv2.Module() }},
	{new(iam.Service).AWS, func(d *daemon) module.Module { return d.iam.Module() }},
	{new(sts.Service).AWS, func(d *daemon) module.Module { return d.sts.Module() }},
	{new(kms.Service).AWS, func(d *daemon) module.Module { return d.kms.Module() }},
	{new(ssm.Service).AWS, func(d *daemon) module.Module { return d.ssm.Module() }},
	{new(sqs.Service).AWS, func(d *daemon) module.Module { return d.newSQS().Module() }},
	{new(pricing.Service).AWS, func(*daemon) module.Module { return pricing.New().Module() }},
	{new(servicequotas.Service).AWS, func(d *daemon) module.Module { return d.quotas.Module() }},
	{new(cloudtrail.Service).AWS, func(d *daemon) module.Module { return cloudtrail.New(cloudtrail.Config{Journal: d.journal}).Module() }},
	{new(cloudformation.Service).AWS, func(*daemon) module.Module { return cloudformation.New().Module() }},
}

// operations are the tables of all services. They are constant, so they need no daemon.
func operations() []awsapi.Service {
	var out []awsapi.Service
	for _, e := range services {
		out = append(out, e.operations())
	}
	return out
}

// assemble makes every part. What answers calls comes first, so that the services can be
// given it: they call one another through the front door's stages (awsapi.API), and are
// registered with it before anything runs.
func (d *daemon) assemble(ctx context.Context) error {
	for _, phase := range []func(context.Context) error{d.openState, d.makeFrontDoor, d.makeServices, d.register} {
		if err := phase(ctx); err != nil {
			return err
		}
	}
	d.machines.Connect(compute.Services{EC2: d.ec2, EKS: d.eks, EKSAuth: d.eksAuth, IAM: d.iam, STS: d.sts, AutoScaling: d.scaling, Authorizer: d.authorizer})
	d.network = d.newNetwork()
	d.why = d.newExplainer()
	d.podRuns = d.newPodRuns()
	d.addDaemonAPI()
	return nil
}

// openState opens what an earlier daemon left beside the store.
func (d *daemon) openState(ctx context.Context) (err error) {
	if d.journal, err = journal.Open(filepath.Join(d.cfg.DataDir, "journal"), journal.Limits{}); err != nil {
		return err
	}
	if err := d.openBytes(); err != nil {
		return err
	}
	d.faults = keeper.New(keeper.Config{Store: d.store, Clock: clocks.RealClock{}, Interrupt: d.interruptInstance, Log: d.log})
	if err := d.faults.Refresh(); err != nil {
		return err
	}
	d.planes, err = controlplane.Open(ctx, controlplane.Config{
		Dir:           filepath.Join(d.cfg.DataDir, "controlplanes"),
		Store:         d.store,
		ListenAddress: d.cfg.Listen.Addr().String(),
		ClientAddress: d.cfg.ClientAddress,
		WarmSpares:    d.cfg.WarmSpares,
		KeyPause:      d.timing.ClusterKeyPause,
		Log:           d.log,
	})
	return err
}

// makeFrontDoor makes what identifies callers, decides about their calls and answers them.
func (d *daemon) makeFrontDoor(ctx context.Context) (err error) {
	d.iam = iam.New(iam.Config{Store: d.store, RoleUsage: d.roleUsage, Log: d.log})
	if err := d.iam.EnsureAccount(ctx, awsapi.DefaultAccount); err != nil {
		return err
	}
	d.authorizer = d.newAuthorizer()
	d.sts = sts.New(sts.Config{Store: d.store, Directory: d.iam, Authorize: d.authorizer.AuthorizeTargets, IssuerKeys: d.issuerKeys, Log: d.log})
	keys := keys{iam: d.iam, sts: d.sts, open: d.cfg.Listen.Addr().IsLoopback()}
	if !keys.open {
		if err := d.makeCredentials(ctx); err != nil {
			return err
		}
	}
	d.server, err = server.New(server.Config{
		Lookup:    keys.lookup,
		Authorize: d.authorizer.Authorize,
		Used:      d.iam.RecordUse,
		Origin:    d.origins.Of,
		Faults:    d.faults.Set(),
		Changed:   d.store.Changed,
		Journal:   d.journal,
		Internal:  d.access().Guard(&d.daemonAPI),
		Log:       d.log,

		AllowHosts: d.cfg.AllowHosts,
	})
	return err
}

// makeServices makes the AWS services that need more than a line of the list.
func (d *daemon) makeServices(ctx context.Context) error {
	volumes, err := newDisks(d.cfg.DataDir)
	if err != nil {
		return err
	}
	if d.machines, err = d.newMachines(ctx, volumes); err != nil {
		return err
	}
	d.ssm = ssm.New(ssm.Config{Store: d.store, Image: d.imageExists, KMS: awscall.KMS{API: d.server}, Log: d.log})
	identities := identities{d.iam}
	eksQuotas := d.makeQuotaTables()
	d.ec2 = ec2.New(ec2.Config{
		Store:           d.store,
		Timing:          d.timing,
		Profiles:        identities,
		Machines:        d.machines,
		VCPUQuota:       d.vcpuQuota,
		Parameter:       d.ssm.ImageParameter,
		AuthorizeLaunch: d.authorizeLaunch,
		Faults:          d.faults.Set(),
		Log:             d.log,
	})
	known, err := d.ec2.InstanceIDs()
	if err == nil {
		err = volumes.sweep(known)
	}
	if err != nil {
		return fmt.Errorf("removing the disks of ended instances: %w", err)
	}
	d.quotas = d.newServiceQuotas()
	if err := d.quotas.Resume(ctx); err != nil {
		return err
	}
	d.makeLoadBalancing()
	d.scaling = d.newAutoScaling()
	d.kms = d.newKMS()
	d.clusterKeys = newClusterKeys(d)
	asEKS := awscall.Under(eks.ServiceRole, d.server, clocks.RealClock{})
	d.eks, err = eks.New(eks.Config{
		Store:            d.store,
		ControlPlanes:    planes{d.planes},
		Identity:         identities.identity,
		InstanceProfiles: awscall.IAM{API: asEKS},
		RoleDenies:       d.roleDenies,
		Network:          awscall.EC2{API: asEKS},
		Instances:        awscall.EC2{API: asEKS},
		AutoScaling:      groups{awscall.AutoScaling{API: asEKS}, d.scaling},
		Keys:             d.clusterKeys,
		VerifyPresigned:  d.verifyPresigned,
		OwnHost:          d.ownHost,
		EndpointURL:      d.info.URL,
		QuotasOf:         eksQuotas,
		EnsureFargateRole: func(ctx context.Context, account string) error {
			_, err := d.iam.EnsureServiceLinkedRole(ctx, account, compute.FargateService)
			return err
		},
		FargateMachines: func(account, region, cluster, profile string) (int, error) {
			return fargate.Count(d.store, account, region, cluster, profile)
		},
		Timing: d.timing,
		Log:    d.log,
	})
	if err != nil {
		return err
	}
	d.eksAuth = eksauth.New(eksauth.Config{Review: d.reviewPodToken, Assume: d.assumeForPod, Resolver: d.eks.Authz()})
	return nil
}

// register makes the modules of all services, and makes them known to what answers and
// decides about their calls.
func (d *daemon) register(context.Context) error {
	for _, e := range services {
		m := e.module(d)
		d.modules = append(d.modules, m)
		if m.Resolver != nil {
			d.authorizer.Register(m.Service.Name, m.Resolver)
		}
		if m.DaemonAPI != nil {
			m.DaemonAPI(&d.daemonAPI)
		}
		if err := d.server.Register(m.Service); err != nil {
			return err
		}
	}
	return nil
}

// start boots the control planes of clusters. Everything that they ask is there.
func (d *daemon) start(ctx context.Context) error {
	return d.planes.Start(ctx, controlplane.Hooks{
		Authenticate:     d.eks.Authenticate,
		Authorize:        d.authorize,
		MutatePod:        d.eks.MutatePod,
		MutateFargatePod: d.eks.MutateFargatePod,
		Cloud:            d.cloud,
		KMS:              planeKeys{d.clusterKeys},
	})
}

// runs is what runs until the daemon ends, by name.
func (d *daemon) runs() map[string]func(context.Context) error {
	runs := map[string]func(context.Context) error{
		"faults":         d.faults.Run,
		"fargate":        d.machines.RunFargate,
		"guest network":  d.machines.RunNetwork,
		"memory":         giveBackMemory,
		"node lifecycle": d.machines.RunNodeLifecycles,
	}
	for _, m := range d.modules {
		if m.Run != nil {
			runs[m.Service.Name] = m.Run
		}
	}
	return runs
}

// close ends what assemble began, in the opposite order.
func (d *daemon) close() error {
	var errs []error
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	if d.machines != nil {
		errs = append(errs, d.machines.Close(ctx))
	}
	if d.planes != nil {
		errs = append(errs, d.planes.Close())
	}
	if d.journal != nil {
		errs = append(errs, d.journal.Close())
	}
	errs = append(errs, d.closeBytes())
	return errors.Join(errs...)
}

// groups are Auto Scaling groups as EKS uses them: by calls, and by look-ups of their
// members.
type groups struct {
	awscall.AutoScaling
	members
}

type members interface {
	CompleteLifecycleActions(ctx context.Context, group, hook, result string, instanceIDs []string) error
	WatchMembers(store.Scope) *store.Watcher
	MemberGroup(store.Key) string
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

func (d *daemon) verifyPresigned(ctx context.Context, r *http.Request) (awsapi.Principal, error) {
	u := *r.URL
	u.Host = r.Host
	return d.server.Verifier().VerifyPresigned(ctx, &u, r.Header, r.Method)
}

// ownHost: tokens may be signed for this endpoint, by whatever address of this
// machine the client calls it.
func (d *daemon) ownHost(host string) bool {
	_, own, err := net.SplitHostPort(strings.TrimPrefix(d.info.URL, "http://"))
	if err != nil {
		return false
	}
	name, port, err := net.SplitHostPort(host)
	if err != nil || port != own && !d.podRuns.Listens(host) {
		return false
	}
	_, err = netip.ParseAddr(name)
	return err == nil || name == "localhost"
}

// handler serves the AWS API and, by their host names, the OIDC issuers of the
// clusters, whose documents anybody may read. What comes from programs of pods goes
// the way of these.
func (d *daemon) handler(proxy *server.Proxy) http.Handler {
	oidc, access := d.planes.OIDCHandler(), d.access()
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if d.podRuns.Serve(w, r, proxy) {
			return
		}
		if r.Method == http.MethodConnect {
			if d.origins.Has(r.RemoteAddr) { // the proxy would be a way around its network
				http.Error(w, "instances may not use the proxy", http.StatusForbidden)
				return
			}
			if !access.Shown(r.Header.Get("Proxy-Authorization")) {
				w.Header().Set("Proxy-Authenticate", "Bearer")
				http.Error(w, "the proxy requires a token; use drydock run", http.StatusProxyAuthRequired)
				return
			}
			proxy.ServeHTTP(w, r)
			return
		}
		if strings.HasPrefix(r.Host, "oidc.eks.") {
			oidc.ServeHTTP(w, r)
			return
		}
		d.server.ServeHTTP(w, r)
	})
}

func (d *daemon) recordStep(_ context.Context, s node.Step) {
	fields := map[string]any{"instance": s.InstanceID, "step": s.Name, "ok": s.OK, "cluster": s.Cluster, "evidence": s.Evidence}
	if s.Warning {
		fields["warning"] = true
	}
	if s.Cause != "" {
		fields["cause"] = s.Cause
	}
	if s.Decision != nil {
		fields["decision"] = s.Decision
	}
	d.journal.Append(journal.Entry{Time: s.Time, Account: s.Account, Region: s.Region, Kind: journal.KindStep, Fields: fields})
}

// whyUnauthorized says why a cluster does not know a machine's token.
func (d *daemon) whyUnauthorized(ctx context.Context, in machine.Instance, host, token string) *node.Decision {
	return d.why.Unauthorized(ctx, in, host, token)
}

// interruptInstance takes away the instance of a fault that is due.
func (d *daemon) interruptInstance(ctx context.Context, f *fault.Fault) error {
	step, err := keeper.Interrupt(ctx, d.ec2, f)
	if step != nil {
		d.recordStep(ctx, *step)
	}
	return err
}

// makeCredentials gives the default user an access key that only readers of the
// data folder know. It runs before the daemon serves requests; nothing writes d.info after that.
func (d *daemon) makeCredentials(ctx context.Context) error {
	k, ok := readMadeKey(d.cfg.DataDir)
	if ok {
		secret, _, err := d.iam.LookupAccessKey(ctx, k.AccessKeyID)
		ok = err == nil && secret == k.SecretAccessKey
	}
	if !ok {
		ctx := awsapi.WithCall(ctx, &awsapi.Call{Account: awsapi.DefaultAccount, Region: "us-east-1"})
		out, err := d.iam.CreateAccessKey(ctx, &awsiam.CreateAccessKeyInput{UserName: aws.String("admin")})
		if err != nil {
			return fmt.Errorf("making credentials for the user admin: %w\nTry: drydock up on loopback, then aws iam delete-access-key --user-name admin --access-key-id ID", err)
		}
		k = madeKey{aws.ToString(out.AccessKey.AccessKeyId), aws.ToString(out.AccessKey.SecretAccessKey)}
		if err := writeMadeKey(d.cfg.DataDir, k); err != nil {
			return err
		}
	}
	d.info.AccessKeyID, d.info.SecretAccessKey = k.AccessKeyID, k.SecretAccessKey
	return nil
}
