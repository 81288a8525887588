package ec2_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	awsec2 "github.com/aws/aws-sdk-go-v2/service/ec2"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"github.com/drydock-dev/drydock/internal/awsapi"
	"github.com/drydock-dev/drydock/internal/clock"
	"github.com/drydock-dev/drydock/internal/machine"
	"github.com/drydock-dev/drydock/internal/service/ec2"
	"github.com/drydock-dev/drydock/internal/store"
	"github.com/drydock-dev/drydock/internal/testkit"
)

var errCrashed = errors.New("the daemon has crashed")

// A crasher makes the store's writes fail from some point on, as if the daemon had died between two
// writes.
type crasher struct {
	mu   sync.Mutex
	left int // writes until the crash; negative for no crash
}

func (c *crasher) beforeCommit(context.Context) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.left == 0 {
		return errCrashed
	}
	c.left--
	return nil
}

// after sets the number of writes until the crash.
func (c *crasher) after(writes int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.left = writes
}

// A crashWorld is a service that can crash and be restarted on the same store. Its machines may or
// may not survive, like processes.
type crashWorld struct {
	testing.TB
	crasher crasher
	store   *store.Store
	machine *fakeMachines
	ctx     context.Context // context of the calls
	*ec2.Service
	stop func()
}

func newCrashWorld(t testing.TB) *crashWorld {
	w := &crashWorld{TB: t, machine: &fakeMachines{running: map[string]machine.Instance{}}}
	w.crasher.left = -1
	var err error
	if w.store, err = store.Open(t.Context(), store.Config{Ephemeral: true, BeforeCommit: w.crasher.beforeCommit}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := w.store.Close(); err != nil {
			t.Error(err)
		}
	})
	w.ctx = awsapi.WithCall(t.Context(), &awsapi.Call{Service: "ec2", Account: "111122223333", Region: testkit.Region})
	w.start()
	t.Cleanup(func() { w.stop() })
	if err := w.Prepare(w.ctx, "111122223333", testkit.Region); err != nil {
		t.Fatal(err)
	}
	return w
}

// A launcher calls the service's handler, without a server between.
type launcher struct{ w *crashWorld }

func (l launcher) RunInstances(ctx context.Context, in *awsec2.RunInstancesInput) (*awsec2.RunInstancesOutput, error) {
	return l.w.Service.RunInstances(ctx, in)
}

func (w *crashWorld) start() {
	w.Service = ec2.New(ec2.Config{Store: w.store, Timing: clock.Fast(), Profiles: profiles{}, Log: testkit.Log(w.TB),
		VCPUs: 1_000_000, Launcher: launcher{w}})
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- w.RunOn(ctx, w.machine) }()
	w.stop = func() {
		cancel()
		if err := <-done; err != nil {
			w.Errorf("Run: %v", err)
		}
	}
}

// restart restarts the daemon. Its machines are gone.
func (w *crashWorld) restart() {
	w.stop()
	w.crasher.after(-1)
	w.machine.mu.Lock()
	clear(w.machine.running)
	w.machine.mu.Unlock()
	w.start()
}

// all returns the elements of all pages of a list.
func (w *crashWorld) all() (out crashState) {
	w.Helper()
	out.subnets = must(w.DescribeSubnets(w.ctx, &awsec2.DescribeSubnetsInput{}))(w.TB).Subnets
	out.enis = must(w.DescribeNetworkInterfaces(w.ctx, &awsec2.DescribeNetworkInterfacesInput{}))(w.TB).NetworkInterfaces
	out.nats = must(w.DescribeNatGateways(w.ctx, &awsec2.DescribeNatGatewaysInput{}))(w.TB).NatGateways
	out.endpoints = must(w.DescribeVpcEndpoints(w.ctx, &awsec2.DescribeVpcEndpointsInput{}))(w.TB).VpcEndpoints
	out.vpcs = must(w.DescribeVpcs(w.ctx, &awsec2.DescribeVpcsInput{}))(w.TB).Vpcs
	out.addresses = must(w.DescribeAddresses(w.ctx, &awsec2.DescribeAddressesInput{}))(w.TB).Addresses
	out.volumes = must(w.DescribeVolumes(w.ctx, &awsec2.DescribeVolumesInput{}))(w.TB).Volumes
	out.fleets = must(w.DescribeFleets(w.ctx, &awsec2.DescribeFleetsInput{}))(w.TB).Fleets
	for _, r := range must(w.DescribeInstances(w.ctx, &awsec2.DescribeInstancesInput{}))(w.TB).Reservations {
		out.instances = append(out.instances, r.Instances...)
	}
	return out
}

type crashState struct {
	vpcs      []ec2types.Vpc
	subnets   []ec2types.Subnet
	enis      []ec2types.NetworkInterface
	nats      []ec2types.NatGateway
	endpoints []ec2types.VpcEndpoint
	addresses []ec2types.Address
	volumes   []ec2types.Volume
	instances []ec2types.Instance
	fleets    []ec2types.FleetData
}

// moving returns an error if a resource is changing its state.
func (s crashState) moving() error {
	for _, n := range s.nats {
		if n.State == ec2types.NatGatewayStatePending || n.State == ec2types.NatGatewayStateDeleting {
			return fmt.Errorf("%s is %s", *n.NatGatewayId, n.State)
		}
	}
	for _, e := range s.endpoints {
		if e.State != ec2types.StateAvailable {
			return fmt.Errorf("%s is %s", *e.VpcEndpointId, e.State)
		}
	}
	for _, i := range s.instances {
		switch i.State.Name {
		case ec2types.InstanceStateNameRunning, ec2types.InstanceStateNameStopped, ec2types.InstanceStateNameTerminated:
		default:
			return fmt.Errorf("%s is %s", *i.InstanceId, i.State.Name)
		}
	}
	for _, f := range s.fleets {
		if f.FleetState != ec2types.FleetStateCodeActive && f.FleetState != ec2types.FleetStateCodeDeleted {
			return fmt.Errorf("%s is %s", *f.FleetId, f.FleetState)
		}
	}
	return nil
}

// wrong returns violations of the invariants, which must hold wherever the crash was.
func (s crashState) wrong(running map[string]bool) (out []string) {
	say := func(format string, args ...any) { out = append(out, fmt.Sprintf(format, args...)) }
	vpcs, subnets, instances, enis := map[string]bool{}, map[string]int{}, map[string]ec2types.Instance{}, map[string]ec2types.NetworkInterface{}
	for _, v := range s.vpcs {
		vpcs[*v.VpcId] = true
	}
	for _, i := range s.instances {
		instances[*i.InstanceId] = i
		if runs := i.State.Name == ec2types.InstanceStateNameRunning; runs != running[*i.InstanceId] {
			say("%s is %s, its machine runs: %v", *i.InstanceId, i.State.Name, !runs)
		}
	}
	users := map[string]bool{} // interfaces of gateways and endpoints
	for _, n := range s.nats {
		if n.State == ec2types.NatGatewayStateAvailable {
			users[*n.NatGatewayAddresses[0].NetworkInterfaceId] = true
		}
	}
	for _, e := range s.endpoints {
		if e.VpcEndpointType == ec2types.VpcEndpointTypeInterface && len(e.NetworkInterfaceIds) != len(e.SubnetIds) {
			say("%s has %d interfaces in %d subnets", *e.VpcEndpointId, len(e.NetworkInterfaceIds), len(e.SubnetIds))
		}
		for _, id := range e.NetworkInterfaceIds {
			users[id] = true
		}
	}
	taken := map[string]string{}
	for _, e := range s.enis {
		id := *e.NetworkInterfaceId
		enis[id] = e
		for _, a := range e.PrivateIpAddresses {
			subnets[*e.SubnetId]++
			place := *e.SubnetId + " " + *a.PrivateIpAddress
			if other := taken[place]; other != "" {
				say("%s belongs to %s and %s", place, other, id)
			}
			taken[place] = id
		}
		switch {
		case aws.ToBool(e.RequesterManaged) && !users[id]:
			say("nothing has the interface %s (%s)", id, aws.ToString(e.Description))
		case !aws.ToBool(e.RequesterManaged) && e.Attachment != nil && instances[aws.ToString(e.Attachment.InstanceId)].InstanceId == nil:
			say("%s is attached to %s, which is not there", id, aws.ToString(e.Attachment.InstanceId))
		}
		delete(users, id)
	}
	for id := range users {
		say("%s is not there", id)
	}
	for _, sn := range s.subnets {
		if !vpcs[*sn.VpcId] {
			say("%s is of %s, which is not there", *sn.SubnetId, *sn.VpcId)
		}
		var bits int
		if _, err := fmt.Sscanf((*sn.CidrBlock)[len(*sn.CidrBlock)-2:], "%d", &bits); err != nil {
			say("%s: %v", *sn.CidrBlock, err)
		}
		if free := 1<<(32-bits) - 5 - subnets[*sn.SubnetId]; int(*sn.AvailableIpAddressCount) != free {
			say("%s counts %d free addresses; %d are", *sn.SubnetId, *sn.AvailableIpAddressCount, free)
		}
	}
	for _, i := range s.instances {
		ended := i.State.Name == ec2types.InstanceStateNameTerminated
		if n := len(i.NetworkInterfaces); !ended && n != 1 || ended && n != 0 {
			say("%s is %s and has %d interfaces", *i.InstanceId, i.State.Name, n)
		}
	}
	for _, v := range s.volumes {
		for _, a := range v.Attachments {
			if i := instances[*a.InstanceId]; i.InstanceId == nil || i.State.Name == ec2types.InstanceStateNameTerminated {
				say("%s is attached to %s, which is not there", *v.VolumeId, *a.InstanceId)
			}
		}
	}
	for _, a := range s.addresses {
		if a.AssociationId == nil {
			continue
		}
		if e := enis[aws.ToString(a.NetworkInterfaceId)]; e.Association == nil || aws.ToString(e.Association.PublicIp) != *a.PublicIp {
			say("%s is associated with %s, which does not know it", *a.PublicIp, aws.ToString(a.NetworkInterfaceId))
		}
	}
	return out
}

// settled waits until no resource is changing its state, and returns all resources.
func (w *crashWorld) settled() (s crashState) {
	w.Helper()
	testkit.Eventually(w.TB, 20*time.Second, func() error {
		s = w.all()
		if err := s.moving(); err != nil {
			return err
		}
		running := map[string]bool{}
		w.machine.mu.Lock()
		for id := range w.machine.running {
			running[id] = true
		}
		w.machine.mu.Unlock()
		if wrong := s.wrong(running); len(wrong) > 0 {
			return fmt.Errorf("%d wrong: %s", len(wrong), wrong[0])
		}
		return nil
	})
	return s
}

// Network resources and machines are created, changed and removed while the daemon crashes between
// any two writes, in calls and in the background. Wherever it crashes, nothing is left half-done,
// no address or interface is leaked or has two owners, a call repeated with its token launches
// nothing twice, and everything can be removed.
func TestCrashBetweenAnyTwoWrites(t *testing.T) {
	seeds := []uint64{1, 2, 3, 4, 5, 6}
	if s := os.Getenv("EC2_CRASH_SEED"); s != "" {
		seed, err := strconv.ParseUint(s, 10, 64)
		if err != nil {
			t.Fatal(err)
		}
		seeds = []uint64{seed}
	}
	for _, seed := range seeds {
		t.Run(fmt.Sprintf("EC2_CRASH_SEED=%d", seed), func(t *testing.T) { crash(t, seed) })
	}
}

func crash(t *testing.T, seed uint64) {
	r := rand.New(rand.NewPCG(seed, seed))
	w := newCrashWorld(t)
	ctx := w.ctx
	vpc := *must(w.CreateVpc(ctx, &awsec2.CreateVpcInput{CidrBlock: aws.String("10.0.0.0/16")}))(t).Vpc.VpcId
	igw := must(w.CreateInternetGateway(ctx, &awsec2.CreateInternetGatewayInput{}))(t).InternetGateway.InternetGatewayId
	must(w.AttachInternetGateway(ctx, &awsec2.AttachInternetGatewayInput{InternetGatewayId: igw, VpcId: &vpc}))(t)
	var subnets []string
	for i, zone := range []string{"us-east-1a", "us-east-1b"} {
		subnets = append(subnets, *must(w.CreateSubnet(ctx, &awsec2.CreateSubnetInput{
			VpcId: &vpc, CidrBlock: aws.String(fmt.Sprintf("10.0.%d.0/24", i)), AvailabilityZone: &zone,
		}))(t).Subnet.SubnetId)
	}
	template := must(w.CreateLaunchTemplate(ctx, &awsec2.CreateLaunchTemplateInput{
		LaunchTemplateName: aws.String("template"), LaunchTemplateData: &ec2types.RequestLaunchTemplateData{ImageId: image(t, "x86_64"), InstanceType: "m5.large"},
	}))(t).LaunchTemplate.LaunchTemplateId
	pick := func() *string { return &subnets[r.IntN(len(subnets))] }
	running := func() (ids []string) {
		for _, i := range w.all().instances {
			if i.State.Name == ec2types.InstanceStateNameRunning {
				ids = append(ids, *i.InstanceId)
			}
		}
		return ids
	}
	wanted := 0 // launched by RunInstances in this round
	steps := []func(round int) error{
		func(round int) error {
			v, err := w.CreateVpc(ctx, &awsec2.CreateVpcInput{CidrBlock: aws.String("10.9.0.0/16"), AmazonProvidedIpv6CidrBlock: aws.Bool(true)})
			if err != nil {
				return err
			}
			_, err = w.DeleteVpc(ctx, &awsec2.DeleteVpcInput{VpcId: v.Vpc.VpcId})
			return err
		},
		func(round int) error {
			_, err := w.CreateSubnet(ctx, &awsec2.CreateSubnetInput{VpcId: &vpc, CidrBlock: aws.String(fmt.Sprintf("10.0.%d.0/28", 100+round))})
			return err
		},
		func(round int) error {
			a, err := w.AllocateAddress(ctx, &awsec2.AllocateAddressInput{})
			if err != nil {
				return err
			}
			_, err = w.CreateNatGateway(ctx, &awsec2.CreateNatGatewayInput{SubnetId: pick(), AllocationId: a.AllocationId})
			return err
		},
		func(round int) error {
			service := []string{"ec2", "sts", "ecr.api", "ecr.dkr", "eks", "logs", "ssm", "autoscaling"}[r.IntN(8)]
			_, err := w.CreateVpcEndpoint(ctx, &awsec2.CreateVpcEndpointInput{
				VpcId: &vpc, VpcEndpointType: "Interface", ServiceName: aws.String("com.amazonaws.us-east-1." + service), SubnetIds: subnets,
			})
			return err
		},
		func(round int) error {
			eni, err := w.CreateNetworkInterface(ctx, &awsec2.CreateNetworkInterfaceInput{SubnetId: pick(), SecondaryPrivateIpAddressCount: aws.Int32(int32(r.IntN(3)))})
			if err != nil {
				return err
			}
			a, err := w.AllocateAddress(ctx, &awsec2.AllocateAddressInput{})
			if err != nil {
				return err
			}
			_, err = w.AssociateAddress(ctx, &awsec2.AssociateAddressInput{AllocationId: a.AllocationId, NetworkInterfaceId: eni.NetworkInterface.NetworkInterfaceId})
			return err
		},
		func(round int) error { // takes several transactions
			n := aws.Int32(int32(50 + r.IntN(50)))
			wanted = int(*n)
			in := &awsec2.RunInstancesInput{ImageId: image(t, "x86_64"), InstanceType: "m5.large", MinCount: n, MaxCount: n, SubnetId: pick(), ClientToken: aws.String(fmt.Sprint("token ", round)),
				TagSpecifications: []ec2types.TagSpecification{{ResourceType: "instance", Tags: []ec2types.Tag{{Key: aws.String("round"), Value: aws.String(strconv.Itoa(round))}}}}}
			if r.IntN(2) == 0 {
				in.ClientToken = nil
			}
			_, err := w.RunInstances(ctx, in)
			if errors.Is(err, errCrashed) && in.ClientToken != nil && r.IntN(2) == 0 {
				w.restart()
				_, err = w.RunInstances(ctx, in)
			}
			return err
		},
		func(round int) error {
			_, err := w.CreateFleet(ctx, &awsec2.CreateFleetInput{
				Type: []ec2types.FleetType{ec2types.FleetTypeInstant, ec2types.FleetTypeMaintain}[r.IntN(2)],
				LaunchTemplateConfigs: []ec2types.FleetLaunchTemplateConfigRequest{{
					LaunchTemplateSpecification: &ec2types.FleetLaunchTemplateSpecificationRequest{LaunchTemplateId: template, Version: aws.String("$Latest")},
					Overrides:                   []ec2types.FleetLaunchTemplateOverridesRequest{{SubnetId: &subnets[0]}, {SubnetId: &subnets[1]}},
				}},
				TargetCapacitySpecification: &ec2types.TargetCapacitySpecificationRequest{TotalTargetCapacity: aws.Int32(int32(1 + r.IntN(20))), DefaultTargetCapacityType: ec2types.DefaultTargetCapacityType([]string{"spot", "on-demand"}[r.IntN(2)])},
			})
			return err
		},
		func(round int) error {
			ids := running()
			if len(ids) == 0 {
				return nil
			}
			_, err := w.TerminateInstances(ctx, &awsec2.TerminateInstancesInput{InstanceIds: ids[:1+r.IntN(len(ids))]})
			return err
		},
		func(round int) error {
			ids := running()
			if len(ids) == 0 {
				return nil
			}
			_, err := w.RebootInstances(ctx, &awsec2.RebootInstancesInput{InstanceIds: ids[:1+r.IntN(len(ids))]})
			return err
		},
		func(round int) error { return w.removeNetwork(vpc) },
	}
	crashes := 0
	for round := range 30 {
		wanted = 0
		w.crasher.after(r.IntN(12))
		err := steps[r.IntN(len(steps))](round)
		var refused interface{ ErrorCode() string }
		if err != nil && !errors.Is(err, errCrashed) && !errors.As(err, &refused) {
			t.Fatalf("round %d: %v", round, err)
		}
		if errors.Is(err, errCrashed) {
			crashes++
		}
		w.restart()
		if r.IntN(4) == 0 { // crash once more, in the background work
			w.crasher.after(r.IntN(20))
			w.quiet()
			w.restart()
		}
		if wanted > 0 {
			testkit.Eventually(t, 20*time.Second, func() error {
				got := 0
				for _, r := range must(w.DescribeInstances(ctx, &awsec2.DescribeInstancesInput{Filters: filter("tag:round", strconv.Itoa(round))}))(t).Reservations {
					for _, i := range r.Instances {
						if i.State.Name == ec2types.InstanceStateNameRunning {
							got++
						}
					}
				}
				if got != wanted && (got != 0 || err == nil) {
					return fmt.Errorf("round %d: %d instances run, want %d; the call's error: %w", round, got, wanted, err)
				}
				return nil
			})
		}
		w.settled()
	}

	if crashes == 0 { // how many depends on what else was written at the time
		t.Error("no call was cut off")
	}

	// Remove everything.
	for _, f := range w.all().fleets {
		if f.FleetState == ec2types.FleetStateCodeActive {
			must(w.DeleteFleets(ctx, &awsec2.DeleteFleetsInput{FleetIds: []string{*f.FleetId}, TerminateInstances: aws.Bool(true)}))(t)
		}
	}
	w.settled()
	if ids := running(); len(ids) > 0 {
		must(w.TerminateInstances(ctx, &awsec2.TerminateInstancesInput{InstanceIds: ids}))(t)
	}
	w.settled()
	if err := w.removeNetwork(vpc); err != nil {
		t.Fatal(err)
	}
	w.settled()
	if err := w.removeNetwork(vpc); err != nil { // the gateways' addresses
		t.Fatal(err)
	}
	must(w.DetachInternetGateway(ctx, &awsec2.DetachInternetGatewayInput{InternetGatewayId: igw, VpcId: &vpc}))(t)
	for _, sn := range w.all().subnets {
		if *sn.VpcId == vpc {
			must(w.DeleteSubnet(ctx, &awsec2.DeleteSubnetInput{SubnetId: sn.SubnetId}))(t)
		}
	}
	must(w.DeleteVpc(ctx, &awsec2.DeleteVpcInput{VpcId: &vpc}))(t)
	s := w.settled()
	if len(s.enis)+len(s.volumes)+len(s.addresses) > 0 {
		t.Errorf("left over: %d interfaces, %d volumes, %d addresses", len(s.enis), len(s.volumes), len(s.addresses))
	}
}

// removeNetwork deletes the gateways, endpoints, free interfaces and free addresses.
func (w *crashWorld) removeNetwork(vpc string) error {
	s := w.all()
	for _, n := range s.nats {
		if n.State == ec2types.NatGatewayStateAvailable {
			if _, err := w.DeleteNatGateway(w.ctx, &awsec2.DeleteNatGatewayInput{NatGatewayId: n.NatGatewayId}); err != nil {
				return err
			}
		}
	}
	for _, e := range s.endpoints {
		if _, err := w.DeleteVpcEndpoints(w.ctx, &awsec2.DeleteVpcEndpointsInput{VpcEndpointIds: []string{*e.VpcEndpointId}}); err != nil {
			return err
		}
	}
	for _, e := range s.enis {
		if aws.ToBool(e.RequesterManaged) || e.Attachment != nil {
			continue
		}
		if _, err := w.DeleteNetworkInterface(w.ctx, &awsec2.DeleteNetworkInterfaceInput{NetworkInterfaceId: e.NetworkInterfaceId}); err != nil {
			return err
		}
	}
	for _, a := range w.all().addresses {
		if a.AssociationId != nil {
			continue
		}
		if _, err := w.ReleaseAddress(w.ctx, &awsec2.ReleaseAddressInput{AllocationId: a.AllocationId}); err != nil {
			return err
		}
	}
	return nil
}

// quiet waits until the reconcilers have nothing more to write, or the daemon has crashed.
func (w *crashWorld) quiet() {
	for {
		select {
		case <-w.store.Changed():
		case <-time.After(100 * time.Millisecond):
			return
		}
	}
}
