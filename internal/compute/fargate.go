package compute

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	awsec2 "github.com/aws/aws-sdk-go-v2/service/ec2"
	ekstypes "github.com/aws/aws-sdk-go-v2/service/eks/types"
	"github.com/aws/smithy-go"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	clocks "k8s.io/utils/clock"

	"github.com/drydock-dev/drydock/internal/awsapi"
	"github.com/drydock-dev/drydock/internal/catalog/images"
	"github.com/drydock-dev/drydock/internal/clock"
	"github.com/drydock-dev/drydock/internal/machine"
	"github.com/drydock-dev/drydock/internal/machine/containers/probe"
	"github.com/drydock-dev/drydock/internal/node"
	"github.com/drydock-dev/drydock/internal/node/fargate"
	"github.com/drydock-dev/drydock/internal/node/simulated"
	"github.com/drydock-dev/drydock/internal/service/eks"
	"github.com/drydock-dev/drydock/internal/store"
)

// fargates runs Fargate's scheduler for every cluster that has Fargate profiles, and
// the machines of its pods. They are not instances: each is identified by its
// network interface, from which its connections come, and acts as its pod execution
// role.
type fargates struct {
	m       *Machines
	runtime *simulated.Runtime

	clusters   func(context.Context) ([]eks.ClusterStatus, error)
	profiles   func() (map[store.Key]bool, error) // the clusters that have profiles
	restConfig func(planeID string) (*rest.Config, error)
	network    func(account, region string) fargate.Network
	able       atomic.Bool // machines can run containers here

	mu       sync.Mutex
	machines map[string]*fargateMachine // by network interface
	failures map[string]node.Step       // of the machines that could not be started, by network interface
	running  map[string]*runningFargate // by plane ID; only run uses it
}

type fargateMachine struct {
	in          node.Fargate
	mu          sync.Mutex
	credentials aws.Credentials
}

type runningFargate struct {
	scheduler *fargate.Scheduler
	stop      context.CancelFunc
	done      chan struct{}
	ending    bool // it was stopped, but its machines may still be running
}

func newFargates(m *Machines) *fargates {
	f := &fargates{
		m: m, machines: map[string]*fargateMachine{}, running: map[string]*runningFargate{},
		clusters: m.cfg.EKS.Clusters, profiles: m.cfg.EKS.FargateClusters, restConfig: m.cfg.ControlPlanes.RESTConfig,
		network: func(account, region string) fargate.Network {
			return fargateNetwork{m.cfg.API, m.cfg.Clock, account, region}
		},
	}
	calls := m.calls()
	f.runtime = simulated.New(node.Config{
		Credentials:         m.credentials,
		DialEndpoint:        m.DialEndpoint,
		Call:                calls.call,
		Connect:             calls.connect,
		Image:               calls.image,
		Patience:            m.cfg.Timing.GuestDial,
		WhyUnauthorized:     m.whyUnauthorized,
		ControlPlaneVersion: m.controlPlaneVersion,
		Step:                m.cfg.Step,
		Clock:               m.cfg.Clock,
		Log:                 m.cfg.Log,
	}, simulated.Options{BootDuration: m.cfg.Timing.InstanceBoot, StartDuration: m.cfg.Timing.PodStart})
	return f
}

// lookAgain limits how often the set of clusters is checked while the store is busy.
const lookAgain = 200 * time.Millisecond

// fargateRetry is how long run waits before it retries after a failure, if nothing changes.
const fargateRetry = 5 * time.Second

// run keeps a scheduler for each cluster with profiles until ctx ends. Failures are
// retried, and problems of one cluster do not affect the others.
func (f *fargates) run(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer func() {
		for _, r := range f.running {
			<-r.done
		}
	}()
	defer cancel() // runs before the other one
	for {
		changed := f.m.cfg.Store.Changed() // changes of profiles, clusters, or a cluster's last machine
		var again <-chan time.Time
		if err := f.sync(ctx); err != nil {
			if ctx.Err() != nil {
				return nil
			}
			f.m.cfg.Log.Warn("fargate", "err", err)
			again = f.m.cfg.Clock.After(fargateRetry)
		}
		select {
		case <-ctx.Done():
			return nil
		case <-changed:
		case <-again:
		}
		if !clock.Sleep(ctx, f.m.cfg.Clock, lookAgain) {
			return nil
		}
	}
}

// sync starts missing schedulers, and stops those of clusters that are being deleted or no longer have profiles or
// machines. It also removes what deleted clusters left behind. The error joins those of all clusters.
func (f *fargates) sync(ctx context.Context) error {
	machines := fargate.Clusters(f.m.cfg.Store) // listed before the clusters, because a cluster precedes its machines
	clusters, err := f.clusters(ctx)
	if err != nil {
		return err
	}
	profiles, err := f.profiles()
	if err != nil {
		return err
	}
	want := map[string]eks.ClusterStatus{}
	for _, c := range clusters {
		key := store.Key{Account: c.Account, Region: c.Region, ID: c.Name}
		if c.Unreadable() { // the cluster still exists
			delete(machines, key)
			continue
		}
		if c.PlaneID == "" || c.Status == string(ekstypes.ClusterStatusDeleting) {
			continue
		}
		if profiles[key] || machines[key] {
			want[c.PlaneID] = c
		}
		delete(machines, key) // its scheduler handles them
	}
	var errs []error
	for id, r := range f.running {
		if _, ok := want[id]; ok && !r.ending {
			continue
		}
		r.ending = true
		r.stop()
		<-r.done
		if ctx.Err() != nil { // the daemon ends, not the cluster
			return nil
		}
		if err := r.scheduler.Halt(ctx); err != nil {
			errs = append(errs, fmt.Errorf("stopping machines of Fargate: %w", err))
			continue
		}
		delete(f.running, id)
	}
	for key := range machines {
		s := fargate.New(fargate.Config{
			Account: key.Account, Region: key.Region, Cluster: key.ID, Store: f.m.cfg.Store,
			Machines: f, Network: f.network(key.Account, key.Region), Clock: f.m.cfg.Clock, Log: f.m.cfg.Log,
		})
		if err := s.Abandon(ctx); err != nil {
			errs = append(errs, fmt.Errorf("removing what Fargate left behind of cluster %s: %w", key.ID, err))
		}
	}
	for id, c := range want {
		if f.running[id] != nil || ctx.Err() != nil {
			continue
		}
		r, err := f.start(ctx, c)
		if err != nil {
			errs = append(errs, fmt.Errorf("starting the scheduler of cluster %s: %w", c.Name, err))
			continue
		}
		f.running[id] = r
	}
	return errors.Join(errs...)
}

func (f *fargates) start(ctx context.Context, c eks.ClusterStatus) (*runningFargate, error) {
	rc, err := f.restConfig(c.PlaneID)
	if err != nil {
		return nil, err
	}
	rc.QPS, rc.ContentType, rc.UserAgent = -1, runtime.ContentTypeProtobuf, fargate.SchedulerName
	client, err := kubernetes.NewForConfig(rc)
	if err != nil {
		return nil, err
	}
	ctx, stop := context.WithCancel(ctx)
	log := f.m.cfg.Log.With("cluster", c.Name)
	r := &runningFargate{stop: stop, done: make(chan struct{}), scheduler: fargate.New(fargate.Config{
		Account: c.Account, Region: c.Region, Cluster: c.Name, Store: f.m.cfg.Store, Client: client, Machines: f, Clock: f.m.cfg.Clock, Log: log,
		Network: f.network(c.Account, c.Region),
		Policies: func(ctx context.Context, namespace string) ([]fargate.SecurityGroupPolicy, error) {
			return fargate.ReadPolicies(ctx, client.CoreV1().RESTClient(), namespace)
		},
		Describe: func(ctx context.Context) (fargate.Cluster, error) {
			return f.describe(ctx, c)
		},
		Profile: func(ctx context.Context, name string, pod *corev1.Pod) (fargate.Profile, error) {
			return f.profile(ctx, c, name, pod)
		},
	})}
	go func() {
		defer close(r.done)
		if err := f.m.cfg.ControlPlanes.WaitReady(ctx, c.PlaneID); err != nil && ctx.Err() == nil {
			log.Warn("fargate: waiting for the control plane", "err", err)
		}
		if err := r.scheduler.Run(ctx); err != nil && ctx.Err() == nil {
			log.Error("fargate's scheduler ended", "err", err)
		}
	}()
	return r, nil
}

func (f *fargates) describe(ctx context.Context, c eks.ClusterStatus) (fargate.Cluster, error) {
	is, err := f.m.cfg.EKS.FargateCluster(ctx, c.Account, c.Region, c.Name)
	if err != nil {
		return fargate.Cluster{}, err
	}
	img, ok := images.EKS(c.Region, images.AL2023, is.Version, "x86_64", "standard") // the kubelet has the cluster's version
	if !ok {
		return fargate.Cluster{}, fmt.Errorf("no kubelet is known for Kubernetes %s", is.Version)
	}
	return fargate.Cluster{
		ClusterInfo:    node.ClusterInfo{Endpoint: is.Endpoint, CA: is.CA, ServiceCIDR: is.ServiceCIDR, IPFamily: is.IPFamily},
		KubeletVersion: img.KubeletVersion, SecurityGroups: []string{is.SecurityGroup},
	}, nil
}

func (f *fargates) profile(ctx context.Context, c eks.ClusterStatus, name string, pod *corev1.Pod) (fargate.Profile, error) {
	p, err := f.m.cfg.EKS.FargateLaunch(ctx, c.Account, c.Region, c.Name, name, pod)
	var blocked *eks.FargateBlock
	switch {
	case errors.As(err, &blocked):
		return fargate.Profile{}, &fargate.BlockedError{Reason: blocked.Reason}
	case errors.Is(err, store.ErrNotFound):
		return fargate.Profile{}, fargate.ErrNoProfile
	}
	if err != nil {
		return fargate.Profile{}, err
	}
	runtime, err := f.runtimeFor(ctx, c, p.Tags[RuntimeTag])
	if why, ok := errors.AsType[*noRuntimeError](err); ok {
		return fargate.Profile{}, &fargate.BlockedError{Reason: "Misconfigured Fargate Profile: fargate profile " + name + ": " + why.Error()}
	}
	return fargate.Profile{RoleARN: p.RoleARN, Subnets: p.Subnets, Runtime: runtime}, err
}

// A noRuntimeError says why a machine cannot run in the runtime that is wanted.
type noRuntimeError struct{ why string }

func (e *noRuntimeError) Error() string { return e.why }

// runtimeFor returns the runtime of a new machine: that of the profile's tag or, without one, that of instances without one.
func (f *fargates) runtimeFor(ctx context.Context, c eks.ClusterStatus, tag string) (string, error) {
	name := f.m.chooseRuntime(machine.Instance{Tags: map[string]string{RuntimeTag: tag}})
	switch name {
	case f.runtime.Name():
		return name, nil
	case f.m.boxes.Name():
	default:
		return "", &noRuntimeError{fmt.Sprintf("there is no machine runtime %q: the tag %s is simulated, containers or auto", name, RuntimeTag)}
	}
	cluster, err := f.m.cfg.EKS.FargateCluster(ctx, c.Account, c.Region, c.Name)
	if err != nil {
		return "", err
	}
	why := ""
	if cluster.IPFamily == string(ekstypes.IpFamilyIpv6) {
		why = "machines that run containers have no IPv6 addresses"
	} else if !f.able.Load() { // asking takes a process with namespaces
		r := probe.Run()
		if f.able.Store(r.Available); !r.Available {
			why = r.Why() + " (drydock doctor containers)"
		}
	}
	switch {
	case why == "":
		return name, nil
	case cmp.Or(tag, f.m.cfg.NodeRuntime) == name: // not auto
		return "", &noRuntimeError{"pods cannot run containers: " + why}
	}
	return f.runtime.Name(), nil
}

// Start implements fargate.Machines. A failure is a step of the machine.
func (f *fargates) Start(ctx context.Context, in node.Fargate) error {
	err := f.boot(ctx, in)
	f.mu.Lock()
	defer f.mu.Unlock()
	if err == nil {
		delete(f.failures, in.ID)
		return nil
	}
	if f.failures == nil {
		f.failures = map[string]node.Step{}
	}
	f.failures[in.ID] = node.Step{
		Name: machine.EventBoot, Evidence: err.Error(), Cause: node.CauseOf(err), Decision: node.DecisionOf(err),
		Account: in.Account, Region: in.Region, Cluster: in.ClusterName, InstanceID: in.ID, Time: f.m.cfg.Clock.Now(),
	}
	return err
}

func (f *fargates) boot(ctx context.Context, in node.Fargate) error {
	boxed := f.isBox(in)
	if boxed {
		e, err := f.primary(ctx, in.Instance)
		if err != nil {
			return err
		}
		in.MAC, in.Interfaces = e.MAC, []machine.Interface{e}
	}
	f.mu.Lock()
	if f.machines[in.ID] == nil {
		f.machines[in.ID] = &fargateMachine{in: in}
	}
	f.mu.Unlock()
	if boxed {
		return f.m.boxes.StartFargate(ctx, in)
	}
	return f.runtime.StartFargate(ctx, in)
}

// failed returns why a machine could not be started, or false. A nil f has none.
func (f *fargates) failed(id string) (node.Step, bool) {
	if f == nil {
		return node.Step{}, false
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	s, ok := f.failures[id]
	return s, ok
}

// isBox reports whether a machine runs containers.
func (f *fargates) isBox(in node.Fargate) bool { return in.Runtime == machine.Containers }

// primary returns the network interface of a machine.
func (f *fargates) primary(ctx context.Context, in machine.Instance) (machine.Interface, error) {
	ctx = awsapi.WithCall(ctx, &awsapi.Call{Account: in.Account, Region: in.Region, Service: "ec2"})
	out, err := f.m.cfg.EC2.DescribeNetworkInterfaces(ctx, &awsec2.DescribeNetworkInterfacesInput{NetworkInterfaceIds: []string{in.ID}})
	if err != nil {
		return machine.Interface{}, err
	}
	if len(out.NetworkInterfaces) != 1 {
		return machine.Interface{}, fmt.Errorf("there is no network interface %s", in.ID)
	}
	e := out.NetworkInterfaces[0]
	m := machine.Interface{ID: in.ID, MAC: aws.ToString(e.MacAddress), SubnetID: in.SubnetID, Addresses: []netip.Addr{in.PrivateIP}}
	for _, g := range e.Groups {
		m.SecurityGroupIDs = append(m.SecurityGroupIDs, aws.ToString(g.GroupId))
	}
	return m, nil
}

// Stop implements fargate.Machines.
func (f *fargates) Stop(ctx context.Context, id string) error {
	if err := machine.Stop(ctx, f.runtime, id, true); err != nil {
		return err
	}
	if f.m.boxes != nil {
		if err := f.m.boxes.RemoveFargate(ctx, id); err != nil {
			return err
		}
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.machines, id)
	delete(f.failures, id)
	return nil
}

// boxes returns the machines that run containers, by ID. A nil f has none.
func (f *fargates) boxes() map[string]machine.Instance {
	out := map[string]machine.Instance{}
	if f == nil {
		return out
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	for id, m := range f.machines {
		if f.isBox(m.in) {
			out[id] = m.in.Instance
		}
	}
	return out
}

// machine returns the machine with a network interface. A nil f has none.
func (f *fargates) machine(id string) (machine.Instance, bool) {
	if f == nil {
		return machine.Instance{}, false
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	m, ok := f.machines[id]
	if !ok {
		return machine.Instance{}, false
	}
	return m.in.Instance, true
}

// byNode returns the machine behind a Fargate node.
func (f *fargates) byNode(account, region, name string) (machine.Instance, bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, m := range f.machines {
		if m.in.Account == account && m.in.Region == region && m.in.NodeName == name {
			return m.in.Instance, true
		}
	}
	return machine.Instance{}, false
}

// of returns the IDs of the machines of a cluster.
func (f *fargates) of(account, region, cluster string) []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	var out []string
	for id, m := range f.machines {
		if m.in.Account == account && m.in.Region == region && m.in.ClusterName == cluster {
			out = append(out, id)
		}
	}
	slices.Sort(out)
	return out
}

// credentials returns those of a session of the pod execution role. The session has the node's name, by which EKS
// recognizes the node.
func (f *fargates) credentials(ctx context.Context, id string) (aws.Credentials, error) {
	f.mu.Lock()
	m := f.machines[id]
	f.mu.Unlock()
	if m == nil {
		return aws.Credentials{}, fmt.Errorf("there is no machine with %s", id)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.credentials.Expires.Sub(f.m.cfg.Clock.Now()) > 10*time.Minute {
		return m.credentials, nil
	}
	profile, err := f.m.cfg.EKS.FargateProfileARN(m.in.Account, m.in.Region, m.in.ClusterName, m.in.Profile)
	if err != nil {
		return aws.Credentials{}, err
	}
	ctx = awsapi.AsServicePrincipal(ctx, m.in.Account, m.in.Region, "eks-fargate-pods.amazonaws.com", profile, f.m.cfg.Clock.Now())
	c, err := f.m.assume(ctx, m.in.RoleARN, m.in.NodeName)
	if err != nil {
		return aws.Credentials{}, err
	}
	m.credentials = aws.Credentials{
		AccessKeyID: *c.AccessKeyId, SecretAccessKey: *c.SecretAccessKey, SessionToken: *c.SessionToken,
		CanExpire: true, Expires: *c.Expiration, Source: "pod execution role",
	}
	return m.credentials, nil
}

// fargateNetwork makes network interfaces in an account's subnets.
type fargateNetwork struct {
	api             awsapi.API
	clock           clocks.PassiveClock
	account, region string
}

// service returns a context in which Fargate calls EC2 for the account.
func (n fargateNetwork) service(ctx context.Context) context.Context {
	return awsapi.AsService(ctx, n.account, n.region, eks.FargateRole, n.clock.Now())
}

// MakeInterface implements fargate.Network.
func (n fargateNetwork) MakeInterface(ctx context.Context, req fargate.InterfaceRequest) (fargate.Interface, error) {
	in := &awsec2.CreateNetworkInterfaceInput{SubnetId: &req.Subnet, Groups: req.Groups, Description: &req.Description, ClientToken: &req.Token}
	if req.IPv6 {
		in.Ipv6AddressCount = aws.Int32(1)
	}
	out, err := awsapi.Do[awsec2.CreateNetworkInterfaceOutput](n.service(ctx), n.api, in)
	var refused smithy.APIError
	if errors.As(err, &refused) {
		switch c := refused.ErrorCode(); {
		case c == "InsufficientFreeAddressesInSubnet", strings.HasPrefix(c, "InvalidSubnet"), strings.HasPrefix(c, "InvalidNetworkInterface"):
			return fargate.Interface{}, fmt.Errorf("%w: %w", fargate.ErrNoAddress, err)
		case strings.HasPrefix(c, "InvalidGroup"), c == "InvalidParameterValue", strings.HasPrefix(c, "SecurityGroups"):
			return fargate.Interface{}, &fargate.GroupsError{Reason: refused.ErrorMessage()}
		case refused.ErrorFault() == smithy.FaultClient: // nothing was created, because of a quota, for example
			return fargate.Interface{}, &fargate.RefusedError{Reason: c + ": " + refused.ErrorMessage()}
		}
	}
	if err != nil {
		return fargate.Interface{}, err
	}
	i := out.NetworkInterface
	address, err := netip.ParseAddr(aws.ToString(i.PrivateIpAddress))
	if err != nil {
		return fargate.Interface{}, err
	}
	made := fargate.Interface{ID: aws.ToString(i.NetworkInterfaceId), VPC: aws.ToString(i.VpcId), Zone: aws.ToString(i.AvailabilityZone), Address: address}
	if req.IPv6 && len(i.Ipv6Addresses) > 0 {
		if made.Address6, err = netip.ParseAddr(aws.ToString(i.Ipv6Addresses[0].Ipv6Address)); err != nil {
			return made, err
		}
	}
	return made, nil
}

// RemoveInterface implements fargate.Network.
func (n fargateNetwork) RemoveInterface(ctx context.Context, id string) error {
	_, err := awsapi.Do[awsec2.DeleteNetworkInterfaceOutput](n.service(ctx), n.api, &awsec2.DeleteNetworkInterfaceInput{NetworkInterfaceId: &id})
	var refused smithy.APIError
	if errors.As(err, &refused) && strings.HasPrefix(refused.ErrorCode(), "InvalidNetworkInterfaceID") {
		return nil
	}
	return err
}
