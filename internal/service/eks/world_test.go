package eks_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"sync/atomic"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	awsautoscaling "github.com/aws/aws-sdk-go-v2/service/autoscaling"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"
	awseks "github.com/aws/aws-sdk-go-v2/service/eks"
	ekstypes "github.com/aws/aws-sdk-go-v2/service/eks/types"
	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/kubernetes/fake"
	k8sclock "k8s.io/utils/clock"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/drydock-dev/drydock/internal/awsapi"
	"github.com/drydock-dev/drydock/internal/awsapi/awserr"
	"github.com/drydock-dev/drydock/internal/clock"
	"github.com/drydock-dev/drydock/internal/service/arczonalshift"
	"github.com/drydock-dev/drydock/internal/service/autoscaling"
	"github.com/drydock-dev/drydock/internal/service/eks"
	"github.com/drydock-dev/drydock/internal/store"
	"github.com/drydock-dev/drydock/internal/testkit"
)

// A world is the EKS service behind an AWS API server, with fakes of everything it needs.
type world struct {
	testing.TB
	server *testkit.Server
	faults *faults
	planes *fakePlanes
	iam    *fakeIAM
	keys   *fakeKeys
	noKeys bool
	twins  eks.Twins
	logs   fakeLogs
	// disk is where the store is, if the world can be reopened; nil means in memory.
	disk *store.Config
	// serverLog is the server's log, for tests with internal failures.
	serverLog *slog.Logger
	ec2       *fakeEC2
	auto      *fakeAutoNodes
	balancing *fakeBalancing // nil if EKS creates no load balancers
	volumes   *fakeVolumes   // nil if EKS creates no volumes
	account   string
	client    *awseks.Client
	svc       *eks.Service
	scaling   *autoscaling.Service
	shifts    *arczonalshift.Service
	asg       *awsautoscaling.Client
	timing    clock.Timing
	// fake is the services' clock, or nil for the real one. It advances while a test waits.
	// unknownMoves is what rehearsals do not know.
	unknownMoves string
	fake         *clocktesting.FakeClock
	pace         time.Duration // how far it advances whenever a test checks
	quotas       eks.Quotas
	// containers is the ID of the instance that runs containers, a string.
	containers atomic.Value
	// serviceRoles are the names of the service-linked roles that were asked for.
	serviceRoles []string
	// principals returns the signer for an access key. Set it before a login.
	principals map[string]awsapi.Principal

	stop func()
}

// withClock gives the services a clock that advances whenever a test checks.
func withClock(w *world) {
	w.fake, w.pace = clocktesting.NewFakeClock(time.Now().Truncate(time.Second)), time.Second
}

// eventually is testkit.Eventually, during which the world's clock advances.
func (w *world) eventually(check func() error) {
	w.Helper()
	testkit.Eventually(w, 15*time.Second, func() error {
		err := check()
		if err != nil && w.fake != nil {
			w.fake.Step(w.pace)
		}
		return err
	})
}

func newWorld(t testing.TB, options ...func(*world)) *world {
	t.Helper()
	w := &world{TB: t, timing: clock.Fast(), faults: &faults{}, principals: map[string]awsapi.Principal{}}
	w.timing.NodegroupTimeout = 30 * time.Second
	w.planes, w.iam, w.ec2, w.keys = newPlanes(w.faults), newIAM(w.faults), newEC2(w.faults), newKeys(w.faults)
	for _, o := range options {
		o(w)
	}
	w.auto = &fakeAutoNodes{fakeEC2: w.ec2, fakeIAM: w.iam}
	w.serve()
	w.iam.add(w.arn("role/cluster"), "AROACLUSTER", "eks.amazonaws.com")
	w.iam.add(w.arn("role/node"), "AROANODE", "ec2.amazonaws.com")
	w.iam.add(w.arn("role/path/dev"), "AROADEV")
	w.iam.add(w.arn("user/jane"), "AIDAJANE")
	w.iam.add(w.arn("root"), w.account)
	w.ec2.launched = w.boot
	w.planes.admit = w.admit
	w.start()
	t.Cleanup(func() { w.stop() })
	return w
}

// serve opens the store and starts the AWS API server.
func (w *world) serve() {
	w.Helper()
	var st *store.Store
	if w.disk != nil {
		st = testkit.Must(store.Open(w.Context(), *w.disk))(w)
		w.Cleanup(func() { st.Close() })
	}
	w.server = testkit.NewServer(w, testkit.Config{Log: w.serverLog, Store: st, Services: func(st *store.Store) []awsapi.Service {
		w.svc = w.newService(st)
		return []awsapi.Service{w.svc.AWS(), w.scaling.AWS(), w.shifts.Module(w.managedResources).Service}
	}})
	if w.account == "" {
		w.account = w.server.Account(w)
	}
	w.client = awseks.NewFromConfig(w.server.AWSConfig(w.account), func(o *awseks.Options) { o.Retryer = aws.NopRetryer{} })
	w.asg = awsautoscaling.NewFromConfig(w.server.AWSConfig(w.account))
}

// reopen stops everything and opens the store again, as a restart of the daemon does.
func (w *world) reopen() {
	w.Helper()
	w.stop()
	w.server.Stop()
	if err := w.server.Store.Close(); err != nil {
		w.Fatal(err)
	}
	w.serve()
	w.start()
	w.Cleanup(func() { w.stop() }) // before the store is closed
}

// admit calls Fargate's webhook as the API server does.
func (w *world) admit(plane string) {
	if _, err := w.svc.MutateFargatePod(w.Context(), plane, "kube-system", &corev1.Pod{}); err != nil {
		w.Error(err)
	}
}

func (w *world) newService(st *store.Store) *eks.Service {
	w.Helper()
	w.ec2.store = st
	var c k8sclock.WithTicker = k8sclock.RealClock{}
	if w.fake != nil {
		c = w.fake
	}
	w.scaling = autoscaling.New(autoscaling.Config{Store: st, EC2: w.ec2, Instances: w.ec2, Clock: c, Log: testkit.Log(w)})
	w.shifts = arczonalshift.New(arczonalshift.Config{Store: st, Clock: c})
	var keys eks.Keys = w.keys
	if w.noKeys {
		keys = nil
	}
	var balancing eks.LoadBalancers
	if w.balancing != nil {
		balancing = w.balancing
	}
	var volumes eks.Volumes
	if w.volumes != nil {
		volumes = w.volumes
	}
	svc, err := eks.New(eks.Config{
		LoadBalancers: balancing, Volumes: volumes,
		Store: st, AutoScaling: w.scaling, ControlPlanes: w.planes, Identity: w.iam.identity, RoleDenies: w.iam.denies, InstanceProfiles: w.iam, Network: w.ec2, Instances: w.ec2, AutoNodes: w.auto, Keys: keys, Twins: w.twins, Logs: &w.logs, ZonalShifts: w.shifts,
		VerifyPresigned: w.verify, OwnHost: func(h string) bool { return h == "localhost:4566" },
		EndpointURL: "http://127.0.0.1:4566", EnsureServiceRole: w.ensureServiceRole,
		NewClient: w.planes.client, NewObjects: w.planes.objects, Timing: w.timing, Quotas: w.quotas, Clock: c, Log: testkit.Log(w),
	})
	if err != nil {
		w.Fatal(err)
	}
	return svc
}

func (w *world) ensureServiceRole(_ context.Context, role awsapi.ServiceRole) error {
	w.serviceRoles = append(w.serviceRoles, role.Name)
	return nil
}

// RunsContainers implements eks.Machines.
func (w *world) RunsContainers(id string) bool { return id == w.containers.Load() }

func (w *world) start() {
	ctx, cancel := context.WithCancel(context.Background())
	var g errgroup.Group
	g.Go(func() error { return w.svc.RunOn(ctx, w) })
	g.Go(func() error { return w.scaling.Run(ctx) })
	w.stop = func() {
		cancel()
		if err := g.Wait(); err != nil {
			w.Errorf("Run: %v", err)
		}
		w.stop = func() {}
	}
}

// restart stops the reconcilers and restarts them from the stored state, as after a crash.
func (w *world) restart() {
	w.stop()
	w.svc = w.newService(w.server.Store)
	w.start()
}

// boot makes an instance join the cluster in its tags.
func (w *world) boot(i ec2types.Instance, userData string) {
	if _, cs := w.planes.only(); cs != nil {
		if err := join(cs, i, userData); err != nil {
			w.Errorf("joining: %v", err)
		}
	}
}

// verify replaces the signature check: the credential's key identifies the signer, and a token for
// another cluster is invalid.
func (w *world) verify(_ context.Context, r *http.Request) (awsapi.Principal, error) {
	q := r.URL.Query()
	p, ok := w.principals[q.Get("X-Amz-Credential")]
	if !ok {
		return awsapi.Principal{}, errors.New("InvalidClientTokenId")
	}
	if q.Get("X-Amz-Signature") != "for-"+r.Header.Get("x-k8s-aws-id") {
		return awsapi.Principal{}, errors.New("SignatureDoesNotMatch")
	}
	return p, nil
}

func (w *world) arn(resource string) string { return "arn:aws:iam::" + w.account + ":" + resource }

func (w *world) createInput(name string) *awseks.CreateClusterInput {
	return &awseks.CreateClusterInput{
		Name: &name, RoleArn: aws.String(w.arn("role/cluster")),
		ResourcesVpcConfig: &ekstypes.VpcConfigRequest{SubnetIds: []string{"subnet-a", "subnet-b", "subnet-c"}},
	}
}

// cluster creates an ACTIVE cluster.
func (w *world) cluster(name string, mode ekstypes.AuthenticationMode) *ekstypes.Cluster {
	w.Helper()
	in := w.createInput(name)
	in.AccessConfig = &ekstypes.CreateAccessConfigRequest{AuthenticationMode: mode}
	if _, err := w.client.CreateCluster(w.Context(), in); err != nil {
		w.Fatal(err)
	}
	return w.waitCluster(name, ekstypes.ClusterStatusActive)
}

func (w *world) waitCluster(name string, status ekstypes.ClusterStatus) *ekstypes.Cluster {
	w.Helper()
	var c *ekstypes.Cluster
	w.eventually(func() error {
		out, err := w.client.DescribeCluster(w.Context(), &awseks.DescribeClusterInput{Name: &name})
		if err != nil {
			return err
		}
		c = out.Cluster
		if c.Status != status {
			return fmt.Errorf("cluster %s is %s, want %s", name, c.Status, status)
		}
		return nil
	})
	return c
}

func (w *world) waitGone(name string) {
	w.Helper()
	testkit.Eventually(w, 20*time.Second, func() error {
		_, err := w.client.DescribeCluster(w.Context(), &awseks.DescribeClusterInput{Name: &name})
		if isCode(err, "ResourceNotFoundException") {
			return nil
		}
		return fmt.Errorf("cluster %s is still there (%v)", name, err)
	})
}

func (w *world) nodegroupInput(cluster, name string, size int32) *awseks.CreateNodegroupInput {
	return &awseks.CreateNodegroupInput{
		ClusterName: &cluster, NodegroupName: &name, NodeRole: aws.String(w.arn("role/node")), Subnets: []string{"subnet-a", "subnet-b"},
		ScalingConfig: &ekstypes.NodegroupScalingConfig{MinSize: aws.Int32(0), MaxSize: aws.Int32(10), DesiredSize: &size},
	}
}

func (w *world) waitNodegroup(cluster, name string, status ekstypes.NodegroupStatus) *ekstypes.Nodegroup {
	w.Helper()
	var g *ekstypes.Nodegroup
	w.eventually(func() error {
		out, err := w.client.DescribeNodegroup(w.Context(), &awseks.DescribeNodegroupInput{ClusterName: &cluster, NodegroupName: &name})
		if err != nil {
			return err
		}
		g = out.Nodegroup
		if g.Status != status {
			return fmt.Errorf("node group %s is %s, want %s (%+v)", name, g.Status, status, g.Health)
		}
		return nil
	})
	return g
}

func (w *world) waitNodegroupGone(cluster, name string) {
	w.Helper()
	w.eventually(func() error {
		_, err := w.client.DescribeNodegroup(w.Context(), &awseks.DescribeNodegroupInput{ClusterName: &cluster, NodegroupName: &name})
		if isCode(err, "ResourceNotFoundException") {
			return nil
		}
		return fmt.Errorf("node group %s is still there (%v)", name, err)
	})
}

func (w *world) kubernetes() *fake.Clientset {
	_, cs := w.planes.only()
	return cs
}

func isCode(err error, code string) bool { return awserr.CodeOf(err) == code }

var wantError = testkit.WantError
