package app

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"time"

	clocks "k8s.io/utils/clock"

	"github.com/drydock-dev/drydock/internal/accountnet"
	"github.com/drydock-dev/drydock/internal/api"
	"github.com/drydock-dev/drydock/internal/arn"
	"github.com/drydock-dev/drydock/internal/authz"
	"github.com/drydock-dev/drydock/internal/awsapi"
	"github.com/drydock-dev/drydock/internal/awsapi/server"
	"github.com/drydock-dev/drydock/internal/awscall"
	"github.com/drydock-dev/drydock/internal/balancer"
	"github.com/drydock-dev/drydock/internal/blobstore"
	"github.com/drydock-dev/drydock/internal/bytestore"
	"github.com/drydock-dev/drydock/internal/catalog/regions"
	"github.com/drydock-dev/drydock/internal/cli"
	"github.com/drydock-dev/drydock/internal/clock"
	"github.com/drydock-dev/drydock/internal/compute"
	"github.com/drydock-dev/drydock/internal/controlplane"
	"github.com/drydock-dev/drydock/internal/dialout"
	"github.com/drydock-dev/drydock/internal/elbnet"
	"github.com/drydock-dev/drydock/internal/fault"
	"github.com/drydock-dev/drydock/internal/fault/keeper"
	"github.com/drydock-dev/drydock/internal/imagestore"
	"github.com/drydock-dev/drydock/internal/journal"
	"github.com/drydock-dev/drydock/internal/module"
	"github.com/drydock-dev/drydock/internal/node/fargate"
	"github.com/drydock-dev/drydock/internal/podrun"
	"github.com/drydock-dev/drydock/internal/quotatable"
	"github.com/drydock-dev/drydock/internal/service/acm"
	"github.com/drydock-dev/drydock/internal/service/arczonalshift"
	"github.com/drydock-dev/drydock/internal/service/autoscaling"
	"github.com/drydock-dev/drydock/internal/service/cloudformation"
	"github.com/drydock-dev/drydock/internal/service/cloudtrail"
	"github.com/drydock-dev/drydock/internal/service/ec2"
	"github.com/drydock-dev/drydock/internal/service/ec2instanceconnect"
	"github.com/drydock-dev/drydock/internal/service/ecr"
	"github.com/drydock-dev/drydock/internal/service/ecr/registry"
	"github.com/drydock-dev/drydock/internal/service/ecrpublic"
	"github.com/drydock-dev/drydock/internal/service/eks"
	"github.com/drydock-dev/drydock/internal/service/eksauth"
	"github.com/drydock-dev/drydock/internal/service/elb"
	"github.com/drydock-dev/drydock/internal/service/elbv2"
	eventbridge "github.com/drydock-dev/drydock/internal/service/events"
	"github.com/drydock-dev/drydock/internal/service/iam"
	"github.com/drydock-dev/drydock/internal/service/kms"
	"github.com/drydock-dev/drydock/internal/service/logs"
	"github.com/drydock-dev/drydock/internal/service/organizations"
	"github.com/drydock-dev/drydock/internal/service/pricing"
	"github.com/drydock-dev/drydock/internal/service/resourcegroupstaggingapi"
	"github.com/drydock-dev/drydock/internal/service/route53"
	"github.com/drydock-dev/drydock/internal/service/s3"
	"github.com/drydock-dev/drydock/internal/service/secretsmanager"
	"github.com/drydock-dev/drydock/internal/service/servicequotas"
	"github.com/drydock-dev/drydock/internal/service/shield"
	"github.com/drydock-dev/drydock/internal/service/sns"
	"github.com/drydock-dev/drydock/internal/service/sqs"
	"github.com/drydock-dev/drydock/internal/service/ssm"
	"github.com/drydock-dev/drydock/internal/service/sts"
	"github.com/drydock-dev/drydock/internal/service/wafregional"
	"github.com/drydock-dev/drydock/internal/service/wafv2"
	"github.com/drydock-dev/drydock/internal/serviceevents"
	"github.com/drydock-dev/drydock/internal/store"
	"github.com/drydock-dev/drydock/internal/twin/account"
	"github.com/drydock-dev/drydock/internal/twin/recording"
	"github.com/drydock-dev/drydock/internal/why"
)

// A daemon holds every part of the running program.
type daemon struct {
	cfg     cli.DaemonConfig
	info    api.DaemonInfo
	log     *slog.Logger
	timing  clock.Timing
	started time.Time

	// State that an earlier daemon left, and what is known about connections (openState).
	store   *store.Store
	bytes   *bytestore.Store
	blobs   *blobstore.Store
	journal *journal.Journal
	faults  *fault.Set
	planes  *controlplane.Manager
	// bytesDir is the folder of bytes and blobs.
	bytesDir string
	// origins are the addresses from which machines connect to the endpoint. podListeners are the addresses on which
	// programs that run as pods listen.
	origins      compute.Origins
	podListeners podrun.Listeners

	// What identifies callers, authorizes their calls and answers them (makeFrontDoor).
	iam        *iam.Service
	sts        *sts.Service
	authorizer *authz.Authorizer
	server     *server.Server
	// daemonAPI serves the daemon's own paths, /_drydock/.
	daemonAPI http.ServeMux

	// The other services, and the network that they form together (makeServices).
	ssm     *ssm.Service
	stacks  *cloudformation.Service
	disks   allDisks
	ec2     *ec2.Service
	connect *ec2instanceconnect.Service
	network *accountnet.Balanced
	traffic *balancer.Plane
	elb     *elb.Service
	elbv2   *elbv2.Service
	scaling *autoscaling.Service
	kms     *kms.Service
	eks     *eks.Service
	eksAuth *eksauth.Service
	shifts  *arczonalshift.Service

	organizations *organizations.Service
	events        *eventbridge.Service
	ecr           *ecr.Service
	public        *ecrpublic.Service
	route53       *route53.Service
	acm           *acm.Service
	// registry is where docker pushes images to ECR.
	registry *registry.Registry

	// What runs on them, and what explains or breaks it (makeMachines).
	machines *compute.Machines
	keeper   *keeper.Keeper
	sender   *serviceevents.Sender
	why      *why.Explainer
	podRuns  *podrun.Runs

	// modules are the modules of all services, in the order of the list (register).
	modules []module.Module
}

// An entry is one service in the list: its operations, which are constant, and the function that makes its module for
// a daemon.
type entry struct {
	operations func() awsapi.Service
	module     func(d *daemon) module.Module
}

// services lists the AWS services in the order of docs/compatibility.md. Adding a service takes one line here;
// everything else about it is in its own folder.
var services = []entry{
	{new(eks.Service).AWS, func(d *daemon) module.Module { return d.eks.Module(d.machines) }},
	{new(eksauth.Service).AWS, func(d *daemon) module.Module { return d.eksAuth.Module() }},
	{new(ec2.Service).AWS, func(d *daemon) module.Module { return d.ec2.Module(d.machines) }},
	{new(ec2instanceconnect.Service).AWS, func(d *daemon) module.Module { return d.connect.Module(d.dialFromEndpoint, d.machines.ConsoleInUse) }},
	{new(autoscaling.Service).AWS, func(d *daemon) module.Module { return d.scaling.Module() }},
	{new(arczonalshift.Service).AWS, func(d *daemon) module.Module { return d.shifts.Module(d.managedResources) }},
	{new(elb.Service).AWS, func(d *daemon) module.Module { return d.elb.Module() }},
	{new(elbv2.Service).AWS, func(d *daemon) module.Module { return d.elbv2.Module() }},
	{new(wafv2.Service).AWS, func(d *daemon) module.Module { return wafv2.New(d.elbv2.IsApplication).Module() }},
	{new(wafregional.Service).AWS, func(d *daemon) module.Module { return wafregional.New(d.elbv2.IsApplication).Module() }},
	{new(shield.Service).AWS, func(*daemon) module.Module { return shield.New().Module() }},
	{new(iam.Service).AWS, func(d *daemon) module.Module { return d.iam.Module() }},
	{new(sts.Service).AWS, func(d *daemon) module.Module { return d.sts.Module() }},
	{new(organizations.Service).AWS, func(d *daemon) module.Module { return d.organizations.Module() }},
	{new(kms.Service).AWS, func(d *daemon) module.Module { return d.kms.Module() }},
	{new(ssm.Service).AWS, func(d *daemon) module.Module { return d.ssm.Module(d.machines) }},
	{new(sns.Service).AWS, func(d *daemon) module.Module {
		return sns.New(sns.Config{Store: d.store, SQS: awscall.SQS{API: d.server}, Log: d.log}).Module()
	}},
	{new(sqs.Service).AWS, func(d *daemon) module.Module { return d.newSQS().Module() }},
	{new(logs.Service).AWS, func(d *daemon) module.Module {
		return logs.New(logs.Config{Store: d.store, Bytes: d.bytes, KMS: awscall.KMS{API: d.server}, Log: d.log}).Module()
	}},
	{new(ecr.Service).AWS, func(d *daemon) module.Module { return d.ecr.Module() }},
	{new(s3.Service).AWS, func(d *daemon) module.Module {
		return s3.New(s3.Config{Store: d.store, Blobs: d.blobs, KMS: awscall.KMS{API: d.server}, Authorize: d.authorizer.AuthorizeTargets, Log: d.log}).Module()
	}},
	{new(acm.Service).AWS, func(d *daemon) module.Module { return d.acm.Module() }},
	{new(route53.Service).AWS, func(d *daemon) module.Module { return d.route53.Module() }},
	{new(secretsmanager.Service).AWS, func(d *daemon) module.Module {
		return secretsmanager.New(secretsmanager.Config{Store: d.store, KMS: awscall.KMS{API: d.server}, API: d.server}).Module()
	}},
	{new(ecrpublic.Service).AWS, func(d *daemon) module.Module { return d.public.Module() }},
	{new(eventbridge.Service).AWS, func(d *daemon) module.Module { return d.events.Module() }},
	{new(pricing.Service).AWS, func(*daemon) module.Module { return pricing.New().Module() }},
	{new(servicequotas.Service).AWS, func(d *daemon) module.Module {
		return servicequotas.New(servicequotas.Config{Store: d.store, Providers: d.quotas}).Module()
	}},
	{new(cloudtrail.Service).AWS, func(d *daemon) module.Module {
		return cloudtrail.New(cloudtrail.Config{Store: d.store, Journal: d.journal, Log: d.log}).Module()
	}},
	{new(cloudformation.Service).AWS, func(d *daemon) module.Module { return d.stacks.Module(d.machines.VerifyIdentity) }},
	{new(resourcegroupstaggingapi.Service).AWS, func(d *daemon) module.Module {
		return resourcegroupstaggingapi.New(resourcegroupstaggingapi.Config{API: d.server, Services: d.taggings}).Module()
	}},
}

// operations returns the operation tables of all services. They are constant, so no daemon is needed.
func operations() []awsapi.Service {
	var out []awsapi.Service
	for _, e := range services {
		out = append(out, e.operations())
	}
	return out
}

// assemble builds every part from the parts before it. What answers calls comes first, because services call one
// another through it (awsapi.API). Services are registered with it last, before anything runs.
func (d *daemon) assemble(ctx context.Context) error {
	for _, phase := range []func(context.Context) error{d.openState, d.makeFrontDoor, d.makeServices, d.makeMachines, d.register} {
		if err := phase(ctx); err != nil {
			return err
		}
	}
	return nil
}

// openState opens what an earlier daemon left outside the store.
func (d *daemon) openState(ctx context.Context) (err error) {
	if d.journal, err = journal.Open(filepath.Join(d.cfg.DataDir, "journal"), journal.Limits{}); err != nil {
		return err
	}
	if err := d.openBytes(); err != nil {
		return err
	}
	d.faults = fault.NewSet(fault.Config{})
	var patience time.Duration // the default
	if d.cfg.RefuseFast {
		patience = -1
	}
	d.planes, err = controlplane.Open(ctx, controlplane.Config{
		Dir:             filepath.Join(d.cfg.DataDir, "controlplanes"),
		Store:           d.store,
		ListenAddress:   d.cfg.Listen.Addr().String(),
		ClientAddress:   d.cfg.ClientAddress,
		RefusalPatience: patience,
		WarmSpares:      d.cfg.WarmSpares,
		KeyPause:        d.timing.ClusterKeyPause,
		Faults:          d.faults,
		Log:             d.log,
	})
	return err
}

// makeFrontDoor builds the parts that identify callers, authorize their calls and answer them.
func (d *daemon) makeFrontDoor(ctx context.Context) (err error) {
	d.iam = iam.New(iam.Config{Store: d.store, CertificateUsers: d.usersOfCertificate, Log: d.log})
	if err := d.iam.EnsureAccount(ctx, awsapi.DefaultAccount); err != nil {
		return err
	}
	d.organizations = organizations.New(organizations.Config{Store: d.store, CreateAccount: d.iam.CreateMemberAccount})
	d.authorizer = authz.New(authz.Config{Services: operations(), Policies: d.iam.PoliciesOf, Controls: d.organizations.Controls, Organization: d.organizations.Organization, Store: d.store})
	d.sts = sts.New(sts.Config{Store: d.store, Directory: d.iam, Authorize: d.authorizer.AuthorizeTargets, IssuerKeys: planes{d.planes, d.store}.issuerKeys, Log: d.log})
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
		Faults:    d.faults,
		Changed:   d.store.Changed,
		Changing:  d.changing,
		Journal:   d.journal,
		Internal:  d.access().Guard(&d.daemonAPI),
		Log:       d.log,

		AllowHosts: d.cfg.AllowHosts,
	})
	return err
}

// makeServices builds the AWS services that need more than a line of the list, and the network that they form
// together, which load balancers ask about their targets' health.
func (d *daemon) makeServices(ctx context.Context) (err error) {
	d.ssm = ssm.New(ssm.Config{
		Store: d.store, Image: d.imageExists, KMS: awscall.KMS{API: d.server}, Secrets: awscall.SecretsManager{API: d.server}, Logs: awscall.Logs{API: d.server}, S3: awscall.S3{API: d.server}, SNS: awscall.SNS{API: d.server}, Inventory: awscall.SSM{API: d.server},
		Assume: func(ctx context.Context, roleARN string) (awsapi.Principal, error) {
			return d.managerSession(ctx, roleARN, "SystemsManager")
		},
		Allowed: d.authorizer.Allowed, EndpointURL: d.info.URL, Log: d.log,
	})
	ensureServiceRole := awscall.IAM{API: d.server}.EnsureServiceRole
	d.disks = allDisksIn(d.cfg.DataDir)
	d.ec2 = ec2.New(ec2.Config{
		Disks:     d.disks,
		Store:     d.store,
		Timing:    d.timing,
		Profiles:  identities{d.iam},
		VCPUs:     d.cfg.Quotas["vcpus"],
		Parameter: d.ssm.ImageParameter,
		Bucket:    func(name string) bool { return s3.Exists(d.store, name) },
		Launcher:  awscall.EC2{API: d.server},

		EnsureServiceRole: ensureServiceRole,

		Faults: d.faults,
		Held:   d.holdsInstances,
		Log:    d.log,
	})
	d.connect = ec2instanceconnect.New(ec2instanceconnect.Config{EC2: d.ec2, Calls: d.server, Authorize: d.authorizer.AuthorizeTargets})
	d.route53 = route53.New(route53.Config{Store: d.store, EC2: awscall.EC2{API: d.server}})
	d.acm = acm.New(acm.Config{Store: d.store, CNAME: d.route53.CNAME, Users: d.usersOfCertificate, Log: d.log})
	network := accountnet.New(accountnet.Config{Store: d.store, EC2: d.ec2, Zones: d.route53.Zones, Faults: d.faults, ControlPlanes: planes{d.planes, d.store}, Log: d.log})
	d.traffic = balancer.New(balancer.Config{Store: d.store, Client: d.laptop(), Patience: d.timing.HealthCheckPatience, Log: d.log})
	balancing := elbnet.Config{
		Store:             d.store,
		Network:           elbnet.Network{EC2: awscall.EC2{API: d.server}, EnsureInterfaces: d.ec2.EnsureManagedInterfaces, Probes: network.Probes},
		EnsureServiceRole: ensureServiceRole,
		Certificate:       d.certificate,
		Held:              func(k store.Key) bool { return copies{d}.Held(k.Account) },
		KeyPair:           d.keyPair,
		Traffic:           d.traffic,
		Timing:            d.timing,
		Log:               d.log,
	}
	d.elb, d.elbv2 = elb.New(balancing), elbv2.New(balancing)
	d.network = &accountnet.Balanced{Network: network, ELB: d.elb, ELBv2: d.elbv2}

	d.scaling = autoscaling.New(autoscaling.Config{
		Store:     d.store,
		EC2:       awscall.EC2{API: d.server},
		Instances: d.ec2,
		Sources:   map[string]autoscaling.Sources{"elb": d.elb, "elbv2": d.elbv2},

		EnsureServiceRole: ensureServiceRole,
		Held:              copies{d}.Held,
		HeldUntil: func(id string) time.Time {
			t, _ := account.Of(d.store, id)
			return t.ChangedAt
		},

		Timing: d.timing,
		Log:    d.log,
	})
	d.kms = kms.New(kms.Config{Store: d.store, Allowed: d.authorizer.Allowed, PrincipalExists: identities{d.iam}.exists, Log: d.log})
	d.shifts = arczonalshift.New(arczonalshift.Config{Store: d.store})
	asEKS := awscall.Under(eks.ServiceRole, d.server, clocks.RealClock{})
	d.eks, err = eks.New(eks.Config{
		Store:             d.store,
		ControlPlanes:     planes{d.planes, d.store},
		Identity:          identities{d.iam}.identity,
		InstanceProfiles:  awscall.IAM{API: asEKS},
		RoleDenies:        identities{d.iam}.denies,
		Network:           awscall.EC2{API: asEKS},
		Instances:         awscall.EC2{API: asEKS},
		AutoScaling:       groups{awscall.AutoScaling{API: asEKS}, d.scaling},
		AutoNodes:         autoNodes{awscall.EC2{API: d.server}, awscall.IAM{API: d.server}, d},
		Volumes:           awscall.EC2{API: d.server},
		LoadBalancers:     autoBalancers{awscall.EC2{API: d.server}, awscall.ELBv2{API: d.server}},
		Keys:              clusterKeys{awscall.KMS{API: d.server}, clusterRoles{d.iam, d.sts}},
		Logs:              awscall.Logs{API: d.server},
		ZonalShifts:       d.shifts,
		Twins:             copies{d},
		VerifyPresigned:   d.verifyPresigned,
		OwnHost:           d.ownHost,
		EndpointURL:       d.info.URL,
		Quotas:            eks.Quotas{Clusters: d.cfg.Quotas["clusters"], NodegroupsPerCluster: d.cfg.Quotas["nodegroups-per-cluster"], NodesPerNodegroup: d.cfg.Quotas["nodes-per-nodegroup"]},
		EnsureServiceRole: ensureServiceRole,
		FargateMachines: func(account, region, cluster, profile string) int {
			return fargate.Count(d.store, account, region, cluster, profile)
		},
		Timing: d.timing,
		Log:    d.log,
	})
	if err != nil {
		return err
	}
	d.events = eventbridge.New(eventbridge.Config{Store: d.store, Bytes: d.bytes, SQS: awscall.SQS{API: d.server}, SNS: awscall.SNS{API: d.server}, Logs: awscall.Logs{API: d.server}, Log: d.log})
	images := imagestore.New(imagestore.Config{Store: d.store, Blobs: d.blobs, Clock: clocks.RealClock{}})
	d.ecr = ecr.New(ecr.Config{
		Store: d.store, Images: images, KMS: awscall.KMS{API: d.server}, Upstream: upstream(d.cfg.Internet), Own: registry.Own(strings.TrimPrefix(d.info.URL, "http://")),
		Secrets: awscall.SecretsManager{API: d.server}, EnsureServiceRole: ensureServiceRole,
		Assume: func(ctx context.Context, roleARN, service string) (awsapi.Principal, error) {
			return d.serviceSession(ctx, roleARN, service, "ECR")
		},
		Allowed: d.authorizer.Allowed, Emit: d.imageAction, Synced: d.imageSync, Log: d.log,
	})
	d.public = ecrpublic.New(ecrpublic.Config{Store: d.store, Images: images, Token: d.ecr.Token, Allowed: d.authorizer.Allowed})
	d.registry = registry.New(registry.Config{API: d.server, ECR: d.ecr, Images: images, Public: d.public, Origin: d.origins.Of, Hosts: d.cfg.AllowHosts, Clock: clocks.RealClock{}, Log: d.log})
	d.stacks = d.newCloudFormation()
	d.eksAuth = eksauth.New(eksauth.Config{Review: d.reviewPodToken, Assume: d.assumeForPod, Resolver: d.eks.Authz()})
	return nil
}

// makeMachines builds what runs instances and pods, and what explains and breaks it. EC2 gets its machines when it
// starts to run.
func (d *daemon) makeMachines(ctx context.Context) error {
	if err := d.disks.open(d.ec2); err != nil {
		return err
	}
	endpoint, trusted, err := d.endpoint()
	if err != nil {
		return err
	}
	ca, err := os.ReadFile(d.info.CAFile)
	if err != nil {
		return err
	}
	d.machines, err = compute.New(ctx, compute.Config{
		Store: d.store, Clock: clocks.RealClock{}, Timing: d.timing, Disks: d.disks.root, Volumes: d.disks.other, Network: d.network, ControlPlanes: planes{d.planes, d.store}, Faults: d.faults,
		API: d.server, EC2: d.ec2, EKS: d.eks, IAM: d.iam, STS: d.sts, AutoScaling: d.scaling, Authorizer: d.authorizer, Images: d.ecr, PublicImages: d.public, StrictImages: d.cfg.StrictImages,
		Balancers: balancers{d.traffic}, ConnectKeys: d.connect.Keys, SerialKeys: d.connect.SerialKeys, Origins: &d.origins, Endpoint: endpoint, Trusted: trusted, Step: d.recordStep, Log: d.log,
		HostRole: d.hostRole, ClusterRole: d.networkOf,
		Boxes: filepath.Join(d.cfg.DataDir, "machines"), CA: ca, NodeRuntime: d.cfg.NodeRuntime, Internet: internet(d.cfg.Internet),
		WhyUnauthorized: why.Tokens{EKS: d.eks, PlaneAt: planes{d.planes, d.store}.at}.Unauthorized,
	})
	if err != nil {
		return err
	}
	if err := d.machines.SweepDisks(ctx); err != nil { // what is left takes space, and nothing else
		d.log.Warn("removing the disks of ended machines", "err", err)
	}
	d.sender = serviceevents.New(serviceevents.Config{Bus: d.events, EC2: d.ec2, Clock: clocks.RealClock{}, Log: d.log})
	d.keeper = keeper.New(keeper.Config{Store: d.store, Clock: clocks.RealClock{}, Set: d.faults, Interrupt: d.interrupt, Notice: d.notice, Cleared: d.sender.Done, Log: d.log})
	d.keeper.Refresh()
	d.why = why.New(why.Config{
		EC2: d.ec2, EKS: d.eks, IAM: d.iam, Stacks: d.stacks, API: d.server, Machines: d.machines, Journal: d.journal, Authorizer: d.authorizer, Faults: d.faults,
		Network: d.network.Snapshot, Through: d.network.Through, ClientAddress: d.cfg.ClientAddress, PlaneAt: planes{d.planes, d.store}.at, LastKey: d.connect.LastKey,
		Gaps:      func(id string) []recording.Gap { return account.Gaps(d.store, id) },
		Inventory: d.eks,
		Observed: func(id, instance string) (account.Observation, bool) {
			return account.Observed(d.store, id, instance)
		},
		IsTwin:  func(id string) bool { _, ok := account.Of(d.store, id); return ok },
		Changed: func(id string) bool { t, ok := account.Of(d.store, id); return ok && t.Changed },
		Caller:  keys{iam: d.iam, sts: d.sts, open: d.cfg.Listen.Addr().IsLoopback()}.caller,
	})
	d.podRuns = podrun.New(podrun.Config{
		EC2: d.ec2, EKS: d.eks, Machines: d.machines, ControlPlanes: planes{d.planes, d.store}, Why: d.why,
		Services: operations, AWS: http.HandlerFunc(d.serveAWS), OIDC: d.planes.OIDCHandler(), Origins: &d.origins, Listeners: &d.podListeners, Journal: d.journal, Log: d.log,
	})
	return nil
}

// upstream returns how ECR reaches the upstream registries of pull-through cache rules, or nil if --internet is off.
func upstream(on bool) http.RoundTripper {
	if !on {
		return nil
	}
	return &http.Transport{
		DialContext: dialout.Internet(30 * time.Second).DialContext, TLSHandshakeTimeout: 10 * time.Second, ResponseHeaderTimeout: time.Minute,
		IdleConnTimeout: time.Minute, ForceAttemptHTTP2: true,
	}
}

// internet returns the connection of container machines to the real internet, or nil if --internet is off.
func internet(on bool) *compute.Internet {
	if !on {
		return nil
	}
	return compute.RealInternet()
}

// register creates the modules of all services and registers them with the server and the authorizer.
func (d *daemon) register(context.Context) error {
	for _, e := range services {
		m := e.module(d)
		d.modules = append(d.modules, m)
		if m.Resolver != nil {
			d.authorizer.Register(m.Service.Name, m.Resolver)
		}
		d.iam.Register(m.RoleUsage...)
		if m.DaemonAPI != nil {
			m.DaemonAPI(&d.daemonAPI)
		}
		if err := d.server.Register(m.Service); err != nil {
			return err
		}
	}
	d.addDaemonAPI()
	return nil
}

// certificate reports whether an account has a certificate of ACM or IAM, and whether load balancers can use it.
func (d *daemon) certificate(account, region, certificate string) (exists, usable bool) {
	if a, err := arn.Parse(certificate); err == nil && a.Service == "iam" {
		exists = d.iam.HasServerCertificate(account, certificate)
		return exists, exists
	}
	return d.acm.State(account, region, certificate)
}

// usersOfCertificate returns the ARNs of the load balancers of both generations that use a certificate, in a region or,
// if it is empty, in all regions.
func (d *daemon) usersOfCertificate(account, region, certificate string) []string {
	return append(elb.UsersOfCertificate(d.store, account, region, certificate), elbv2.UsersOfCertificate(d.store, account, region, certificate)...)
}

// managedResources returns the resources that are registered for zonal shifts.
func (d *daemon) managedResources(account, region string) []arczonalshift.Resource {
	var out []arczonalshift.Resource
	r, _ := regions.Lookup(region)
	for _, c := range d.eks.Shiftable(account, region) {
		out = append(out, arczonalshift.Resource{ARN: c.ARN, Name: c.Name, Created: c.Created, Tags: c.Tags, Zones: func(ctx context.Context) ([]string, error) {
			names, err := c.Zones(ctx)
			var zones []string
			for _, name := range names {
				if z, ok := r.Zone(name); ok {
					zones = append(zones, z.ID)
				}
			}
			return zones, err
		}})
	}
	return out
}

// taggings returns what the Resource Groups Tagging API knows of all services.
func (d *daemon) taggings() []module.Tagging {
	var out []module.Tagging
	for _, m := range d.modules {
		out = append(out, m.Tagging)
	}
	return out
}

// quotas returns the quotas of all services.
func (d *daemon) quotas() []quotatable.Provider {
	var out []quotatable.Provider
	for _, m := range d.modules {
		out = append(out, m.Quotas...)
	}
	return out
}

// start boots the control planes of clusters, after everything that they call has been built.
func (d *daemon) start(ctx context.Context) error {
	return d.planes.Start(ctx, controlplane.Hooks{
		DialCluster:        d.machines.DialCluster,
		Authenticate:       d.eks.Authenticate,
		Authorize:          d.authorize,
		MutatePod:          d.eks.MutatePod,
		MutateFargatePod:   d.eks.MutateFargatePod,
		Cloud:              d.cloud,
		AuthenticatorLines: eks.AuthenticatorLines,
		WriteLogs:          d.writeLogs,
		AutoMode:           d.eks.AutoMode,
		KMS:                planeKeys{awscall.KMS{API: d.server}, clusterRoles{d.iam, d.sts}, d.planes, d.eks},
	})
}

// runs returns what runs until the daemon ends, by name.
func (d *daemon) runs() map[string]func(context.Context) error {
	runs := map[string]func(context.Context) error{
		"AWS events":     d.sender.Run,
		"faults":         d.keeper.Run,
		"fargate":        d.machines.RunFargate,
		"guest network":  d.machines.RunNetwork,
		"load balancers": d.runTraffic,
		"memory":         giveBackMemory,
		"node lifecycle": d.machines.RunNodeLifecycles,
	}
	for _, m := range d.modules {
		if m.Run != nil {
			runs[m.Service.Name] = m.Run
		}
		if m.Events != nil {
			runs["events of "+m.Service.Name] = func(ctx context.Context) error { return m.Events(ctx, d.events) }
		}
	}
	return runs
}

// close closes what assemble opened, in reverse order.
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
