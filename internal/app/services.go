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
	authnv1 "k8s.io/api/authentication/v1"
	authzv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	clocks "k8s.io/utils/clock"

	"github.com/drydock-dev/drydock/internal/api"
	"github.com/drydock-dev/drydock/internal/authz"
	"github.com/drydock-dev/drydock/internal/awsapi"
	"github.com/drydock-dev/drydock/internal/awsapi/server"
	"github.com/drydock-dev/drydock/internal/cli"
	"github.com/drydock-dev/drydock/internal/clock"
	"github.com/drydock-dev/drydock/internal/controlplane"
	"github.com/drydock-dev/drydock/internal/fault"
	"github.com/drydock-dev/drydock/internal/faults"
	"github.com/drydock-dev/drydock/internal/journal"
	"github.com/drydock-dev/drydock/internal/machine"
	"github.com/drydock-dev/drydock/internal/machines"
	"github.com/drydock-dev/drydock/internal/network"
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

	store   *store.Store
	faults  *faults.Keeper
	journal *journal.Journal
	iam     *iam.Service
	sts     *sts.Service
	ec2     *ec2.Service
	scaling *autoscaling.Service
	elb     *elb.Service
	elbv2   *elbv2.Service
	kms     *kms.Service
	// clusterKeys let EKS and control planes use KMS.
	clusterKeys *clusterKeys
	ssm         *ssm.Service
	pricing     *pricing.Service
	quotas      *servicequotas.Service
	trail       *cloudtrail.Service
	stacks      *cloudformation.Service
	eks         *eks.Service
	eksAuth     *eksauth.Service
	planes      *controlplane.Manager
	machines    *machines.Machines
	// origins are where connections of machines to the endpoint come from.
	origins machines.Origins
	podRuns *podrun.Runs
	network *network.Network
	why     *why.Explainer
	server  *server.Server
	// ec2Quotas are EC2's, which Service Quotas changes.
	ec2Quotas ec2Quotas
	// authorizer decides about every call of the AWS API.
	authorizer *authz.Authorizer
	// connected is closed when all of the above are there: control planes of an
	// earlier life start first and ask at once.
	connected chan struct{}
}

// services are the AWS services, in the order docs/compatibility.md lists them.
func (d *daemon) services() []awsapi.Service {
	return []awsapi.Service{d.eks.AWS(), d.eksAuth.AWS(), d.ec2.AWS(), d.scaling.AWS(), d.elb.AWS(), d.elbv2.AWS(), d.iam.AWS(), d.sts.AWS(), d.kms.AWS(), d.ssm.AWS(), d.pricing.AWS(), d.quotas.AWS(), d.trail.AWS(), d.stacks.AWS()}
}

// connect makes every part and connects them. It returns what has to run.
func (d *daemon) connect(ctx context.Context) (map[string]func(context.Context) error, error) {
	var err error
	if d.journal, err = journal.Open(filepath.Join(d.cfg.DataDir, "journal"), journal.Limits{}); err != nil {
		return nil, err
	}
	d.faults = faults.New(faults.Config{Store: d.store, Clock: clocks.RealClock{}, Interrupt: d.interruptInstance, Log: d.log})
	if err := d.faults.Refresh(); err != nil {
		return nil, err
	}
	d.iam = iam.New(iam.Config{Store: d.store, RoleUsage: d.roleUsage, Log: d.log})
	if err := d.iam.EnsureAccount(ctx, awsapi.DefaultAccount); err != nil {
		return nil, err
	}
	d.sts = sts.New(sts.Config{Store: d.store, Directory: d.iam, Authorize: d.authorizeTargets, IssuerKeys: d.issuerKeys, Log: d.log})
	keys := keys{iam: d.iam, sts: d.sts, open: d.cfg.Listen.Addr().IsLoopback()}
	if !keys.open {
		if err := d.makeCredentials(ctx); err != nil {
			return nil, err
		}
	}
	identities := identities{d.iam}
	d.clusterKeys = newClusterKeys(d)

	d.planes, err = controlplane.Open(ctx, controlplane.Config{
		Dir:           filepath.Join(d.cfg.DataDir, "controlplanes"),
		Store:         d.store,
		ListenAddress: d.cfg.Listen.Addr().String(),
		ClientAddress: d.cfg.ClientAddress,
		WarmSpares:    d.cfg.WarmSpares,
		Authenticate:  d.authenticate,
		Authorize:     d.authorize,
		MutatePod:     d.webhook((*eks.Service).MutatePod),
		Cloud:         d.cloud,
		KMS:           d.clusterKeys,
		KeyPause:      d.timing.ClusterKeyPause,
		Log:           d.log,

		MutateFargatePod: d.webhook((*eks.Service).MutateFargatePod),
	})
	if err != nil {
		return nil, err
	}
	volumes, err := newDisks(d.cfg.DataDir)
	if err != nil {
		return nil, err
	}
	if d.machines, err = d.newMachines(ctx, volumes); err != nil {
		return nil, err
	}
	d.ec2 = ec2.New(ec2.Config{
		Store:     d.store,
		Timing:    d.timing,
		Profiles:  identities,
		Machines:  d.machines,
		VCPUQuota: d.vcpuQuota,
		Parameter: func(account, region, name string) (string, bool) {
			return d.ssm.ImageParameter(account, region, name)
		},
		AuthorizeLaunch: d.authorizeLaunch,
		Faults:          d.faults.Set(),
		Log:             d.log,
	})
	known, err := d.ec2.InstanceIDs()
	if err == nil {
		err = volumes.sweep(known)
	}
	if err != nil {
		return nil, fmt.Errorf("removing the disks of ended instances: %w", err)
	}
	d.connectLoadBalancing()
	d.scaling = d.newAutoScaling()
	d.kms = d.newKMS()
	d.ssm = ssm.New(ssm.Config{
		Store: d.store,
		Image: func(region, id string) bool { _, ok := d.ec2.ResolveImage(region, id); return ok },
		KMS:   keysOfCaller{d},
		Log:   d.log,
	})
	d.pricing = pricing.New()
	eksQuotas := d.connectQuotas()
	if err := d.quotas.Resume(ctx); err != nil {
		return nil, err
	}
	d.eks, err = eks.New(eks.Config{
		Store:            d.store,
		ControlPlanes:    planes{d.planes},
		Identity:         identities.identity,
		InstanceProfiles: d.iam,
		RoleDenies:       d.roleDenies,
		Network:          d.ec2,
		Instances:        d.ec2,
		AutoScaling:      d.scaling,
		Keys:             d.clusterKeys,
		VerifyPresigned:  d.verifyPresigned,
		OwnHost:          d.ownHost,
		EndpointURL:      d.info.URL,
		QuotasOf:         eksQuotas,
		EnsureFargateRole: func(ctx context.Context, account string) error {
			_, err := d.iam.EnsureServiceLinkedRole(ctx, account, machines.FargateService)
			return err
		},
		FargateMachines: func(account, region, cluster, profile string) (int, error) {
			return fargate.Count(d.store, account, region, cluster, profile)
		},
		Timing: d.timing,
		Log:    d.log,
	})
	if err != nil {
		return nil, err
	}
	d.eksAuth = eksauth.New(eksauth.Config{Review: d.reviewPodToken, Assume: d.assumeForPod})
	d.stacks = cloudformation.New()
	d.trail = cloudtrail.New(cloudtrail.Config{Journal: d.journal})
	d.authorizer = d.newAuthorizer()
	d.machines.Connect(machines.Services{EC2: d.ec2, EKS: d.eks, EKSAuth: d.eksAuth, IAM: d.iam, STS: d.sts, AutoScaling: d.scaling, Authorizer: d.authorizer})
	d.network = d.newNetwork()
	d.why = d.newExplainer()
	d.podRuns = d.newPodRuns()
	d.server, err = server.New(server.Config{
		Services:  d.services(),
		Lookup:    keys.lookup,
		Authorize: d.authorizer.Authorize,
		Used:      d.iam.RecordUse,
		Origin:    d.origins.Of,
		Faults:    d.faults.Set(),
		Changed:   d.store.Changed,
		Journal:   d.journal,
		Internal:  d.pages(),
		Log:       d.log,

		AllowHosts: d.cfg.AllowHosts,
	})
	if err != nil {
		return nil, err
	}
	close(d.connected)
	return map[string]func(context.Context) error{
		"iam":            d.iam.Run,
		"ec2":            d.ec2.Run,
		"faults":         d.faults.Run,
		"autoscaling":    d.scaling.Run,
		"elb":            d.elb.Run,
		"kms":            d.kms.Run,
		"elbv2":          d.elbv2.Run,
		"eks":            d.eks.Run,
		"fargate":        d.machines.RunFargate,
		"guest network":  d.machines.RunNetwork,
		"memory":         giveBackMemory,
		"node lifecycle": d.machines.RunNodeLifecycles,
	}, nil
}

// close ends what connect began, in the opposite order.
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
	return errors.Join(errs...)
}

// authenticate is a control plane's token webhook.
func (d *daemon) authenticate(ctx context.Context, planeID, token string) (authnv1.UserInfo, error) {
	select {
	case <-d.connected:
	case <-ctx.Done():
		return authnv1.UserInfo{}, ctx.Err()
	}
	return d.eks.Authenticate(ctx, planeID, token)
}

// authorize is a control plane's authorization webhook.
func (d *daemon) authorize(ctx context.Context, planeID string, spec *authzv1.SubjectAccessReviewSpec) (allowed, denied bool, reason string) {
	select {
	case <-d.connected:
	case <-ctx.Done():
		return false, false, ""
	}
	ok, reason, err := d.eks.Authorize(ctx, planeID, *spec)
	if err != nil {
		d.log.Warn("authorizing by access policies", "plane", planeID, "err", err)
		return false, false, ""
	}
	return ok, false, reason
}

// webhook is one of EKS's webhooks for new pods, once there is EKS.
func (d *daemon) webhook(mutate func(*eks.Service, context.Context, string, string, *corev1.Pod) ([]byte, error)) func(context.Context, string, string, *corev1.Pod) ([]byte, error) {
	return func(ctx context.Context, planeID, namespace string, pod *corev1.Pod) ([]byte, error) {
		select {
		case <-d.connected:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
		return mutate(d.eks, ctx, planeID, namespace, pod)
	}
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
				http.Error(w, "the proxy is for drydock run", http.StatusProxyAuthRequired)
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
	step, err := faults.Interrupt(ctx, d.ec2, f)
	if step != nil {
		d.recordStep(ctx, *step)
	}
	return err
}

// makeCredentials gives the default user an access key that only readers of the
// data folder know. It is called before the daemon answers anybody, and nothing writes
// d.info after that.
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
