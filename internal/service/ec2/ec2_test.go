package ec2_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	awsec2 "github.com/aws/aws-sdk-go-v2/service/ec2"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"github.com/drydock-dev/drydock/internal/awsapi"
	"github.com/drydock-dev/drydock/internal/awsapi/awserr"
	"github.com/drydock-dev/drydock/internal/awsapi/server"
	"github.com/drydock-dev/drydock/internal/awscall"
	"github.com/drydock-dev/drydock/internal/catalog/images"
	"github.com/drydock-dev/drydock/internal/clock"
	"github.com/drydock-dev/drydock/internal/fault"
	"github.com/drydock-dev/drydock/internal/machine"
	"github.com/drydock-dev/drydock/internal/service/ec2"
	"github.com/drydock-dev/drydock/internal/store"
	"github.com/drydock-dev/drydock/internal/testkit"
)

// A world is an AWS API server with a running EC2 service, and a client of a new account.
type world struct {
	*awsec2.Client
	server   *testkit.Server
	service  *ec2.Service
	machines *fakeMachines
	account  string
	// denied are the instance types that fleets may not launch.
	denied []string
	// faults determine which pools have no capacity.
	faults *fault.Set
	// noRoles says that the caller may not create service-linked roles.
	noRoles bool
	// disks is the data of volumes and snapshots.
	disks memoryDisks
	// launching, if not nil, is called while a fleet launches.
	launching func()
}

// setVCPUs sets the quotas of vCPUs of standard instances.
func (w *world) setVCPUs(t *testing.T, n int) {
	t.Helper()
	w.setQuota(t, "L-1216C47A", float64(n))
	w.setQuota(t, "L-34B43A08", float64(n)) // of Spot instances
}

// authorize allows everything but launches of denied types by fleets.
func (w *world) authorize(_ context.Context, call *awsapi.Call, in any) error {
	run, ok := in.(*awsec2.RunInstancesInput)
	if !ok || call.By() != "ec2fleet.amazonaws.com" {
		return nil
	}
	if w.launching != nil {
		w.launching()
	}
	if slices.Contains(w.denied, string(run.InstanceType)) {
		return awserr.New("UnauthorizedOperation", "You are not authorized to perform this operation.").WithStatus(403)
	}
	return nil
}

func (w *world) ensureServiceRole(context.Context, awsapi.ServiceRole) error {
	if w.noRoles {
		return awserr.New("AccessDenied", "User is not authorized to perform: iam:CreateServiceLinkedRole").WithStatus(403)
	}
	return nil
}

func newWorld(t testing.TB) *world {
	t.Helper()
	return newTimedWorld(t, clock.Fast())
}

func newTimedWorld(t testing.TB, timing clock.Timing) *world {
	t.Helper()
	w := &world{machines: &fakeMachines{running: map[string]machine.Instance{}}, faults: fault.NewSet(fault.Config{})}
	w.server = testkit.NewServer(t, testkit.Config{AuthorizeInput: w.authorize, Calling: func(st *store.Store, front *server.Server) []awsapi.Service {
		w.service = ec2.New(ec2.Config{Store: st, Timing: timing, Profiles: profiles{}, Log: testkit.Log(t), VCPUs: 1_000_000, Launcher: awscall.EC2{API: front}, EnsureServiceRole: w.ensureServiceRole, Faults: w.faults, Disks: &w.disks, Bucket: func(name string) bool { return name == "logs" }})
		return []awsapi.Service{w.service.AWS()}
	}})
	w.account = w.server.Account(t)
	cfg := w.server.AWSConfig(w.account)
	// The SDK closes a request's body as soon as the response begins. If net/http is then still
	// looking for the body's end, the connection is dropped in the middle of a long response. The
	// default retries hide that.
	cfg.RetryMaxAttempts = 4
	if _, measured := t.(*testing.B); !measured {
		cfg.HTTPClient = codeRecorder{cfg.HTTPClient, answered}
	}
	w.Client = awsec2.NewFromConfig(cfg)
	ctx, stop := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- w.service.RunOn(ctx, w.machines) }()
	t.Cleanup(func() {
		stop()
		if err := <-done; err != nil {
			t.Errorf("Run: %v", err)
		}
	})
	return w
}

// short takes capacity away from pools. Without arguments, it restores capacity.
func (w *world) short(pools ...fault.Fault) {
	for i := range pools {
		pools[i].Kind, pools[i].Account, pools[i].Region = fault.Capacity, w.account, testkit.Region
	}
	w.faults.Replace(pools)
}

type profiles struct{}

func (profiles) InstanceProfile(_ context.Context, account, name string) (ec2.Profile, bool, error) {
	p := ec2.Profile{ARN: "arn:aws:iam::" + account + ":instance-profile/" + name, ID: "AIPA0000000000000NODE", RoleARN: "arn:aws:iam::" + account + ":role/node"}
	switch name {
	case "node":
		return p, true, nil
	case "empty":
		p.RoleARN = ""
		return p, true, nil
	}
	return ec2.Profile{}, false, nil
}

// fakeMachines records which machines are running.
type fakeMachines struct {
	mu       sync.Mutex
	running  map[string]machine.Instance
	starts   int
	replaced []string // the snapshots of replaced disks
	starting func()   // if not nil, called by Start
}

func (f *fakeMachines) Start(_ context.Context, m machine.Instance) error {
	if f.starting != nil {
		f.starting()
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.running[m.ID] = m
	f.starts++
	return nil
}

func (f *fakeMachines) Stop(_ context.Context, _, _, id string) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.running, id)
	return nil
}

func (f *fakeMachines) ReplaceDisk(id, snapshot string) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if _, on := f.running[id]; on {
		return errors.New("the disk of a running machine is replaced")
	}
	f.replaced = append(f.replaced, snapshot)
	return nil
}

func (f *fakeMachines) Machine(id string) (machine.Machine, bool) {
	_, ok := f.get(id)
	return fakeMachine{nil, f, id}, ok
}

// fakeMachine records its network interfaces.
type fakeMachine struct {
	machine.Machine
	of *fakeMachines
	id string
}

func (m fakeMachine) Abilities() machine.Abilities { return machine.Abilities{machine.Interfaces} }

func (m fakeMachine) Console() []byte { return []byte("booted\n") }

func (m fakeMachine) SetInterfaces(_ context.Context, all []machine.Interface) error {
	m.of.mu.Lock()
	defer m.of.mu.Unlock()
	in, ok := m.of.running[m.id]
	if !ok {
		return machine.ErrOff
	}
	in.Interfaces = all
	m.of.running[m.id] = in
	return nil
}

func (f *fakeMachines) get(id string) (machine.Instance, bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	m, ok := f.running[id]
	return m, ok
}

func (f *fakeMachines) count() (running, starts int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return len(f.running), f.starts
}

func must[T any](v T, err error) func(testing.TB) T { return testkit.Must(v, err) }

var (
	wantError = testkit.WantError
	code      = awserr.CodeOf
)

func filter(name string, values ...string) []ec2types.Filter {
	return []ec2types.Filter{{Name: aws.String(name), Values: values}}
}

// image is the AL2023 image of a region.
func image(t testing.TB, arch string) *string {
	t.Helper()
	img, ok := images.EKS(testkit.Region, images.AL2023, "1.36", arch, "")
	if !ok {
		t.Fatal("no image")
	}
	return aws.String(img.ID)
}

// launch launches n instances and waits until they are running.
func (w *world) launch(t testing.TB, n int32, edit func(*awsec2.RunInstancesInput)) []ec2types.Instance {
	t.Helper()
	in := &awsec2.RunInstancesInput{ImageId: image(t, "x86_64"), InstanceType: "m5.large", MinCount: aws.Int32(n), MaxCount: aws.Int32(n)}
	if edit != nil {
		edit(in)
	}
	out := must(w.RunInstances(t.Context(), in))(t)
	ids := make([]string, len(out.Instances))
	for i, inst := range out.Instances {
		ids[i] = *inst.InstanceId
	}
	return w.await(t, ec2types.InstanceStateNameRunning, ids...)
}

// instanceIDs returns the IDs of instances.
func instanceIDs(all []ec2types.Instance) []string {
	ids := make([]string, len(all))
	for i, inst := range all {
		ids[i] = *inst.InstanceId
	}
	return ids
}

// await waits until all instances are in a state.
func (w *world) await(t testing.TB, state ec2types.InstanceStateName, ids ...string) []ec2types.Instance {
	t.Helper()
	var got []ec2types.Instance
	testkit.Eventually(t, 20*time.Second, func() error {
		got = nil
		out, err := w.DescribeInstances(t.Context(), &awsec2.DescribeInstancesInput{InstanceIds: ids})
		if err != nil {
			return err
		}
		for _, r := range out.Reservations {
			for _, i := range r.Instances {
				if i.State.Name != state {
					return fmt.Errorf("%s is %s, not %s", *i.InstanceId, i.State.Name, state)
				}
				got = append(got, i)
			}
		}
		return nil
	})
	return got
}

// quiet waits until the reconcilers have nothing more to write.
func (w *world) quiet(t testing.TB) {
	t.Helper()
	for {
		select {
		case <-w.server.Store.Changed():
		case <-time.After(300 * time.Millisecond):
			return
		}
	}
}
