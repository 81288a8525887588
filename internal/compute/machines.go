package compute

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	awsec2 "github.com/aws/aws-sdk-go-v2/service/ec2"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"github.com/drydock-dev/drydock/internal/awsapi"
	"github.com/drydock-dev/drydock/internal/machine"
	"github.com/drydock-dev/drydock/internal/node/fargate"
	"github.com/drydock-dev/drydock/internal/store"
)

// Start implements ec2.Machines.
func (m *Machines) Start(ctx context.Context, in machine.Instance) error {
	m.mu.Lock()
	m.running[in.ID] = in
	m.mu.Unlock()
	return m.runtime.Start(ctx, in)
}

// Stop implements ec2.Machines.
func (m *Machines) Stop(ctx context.Context, account, region, instanceID string) error {
	if err := machine.Stop(ctx, m.runtime, instanceID, true); err != nil {
		return err
	}
	m.mu.Lock()
	delete(m.running, instanceID)
	m.mu.Unlock()
	m.metadata.Forget(instanceID)
	if !m.keepsDisk(account, region, instanceID) {
		return errors.Join(m.boxes.RemoveDisk(instanceID), m.cfg.Disks.Remove(instanceID))
	}
	return nil
}

// ReplaceDisk implements ec2.Machines. Snapshots hold no files of machines that run containers.
func (m *Machines) ReplaceDisk(instanceID, snapshotID string) error {
	if err := errors.Join(m.boxes.RemoveDisk(instanceID), m.cfg.Disks.Remove(instanceID)); err != nil || snapshotID == "" {
		return err
	}
	data, ok, err := m.cfg.Disks.Load(snapshotID)
	if err != nil || !ok {
		return err
	}
	return m.cfg.Disks.Save(instanceID, data)
}

// keepsDisk reports whether an instance that is off may boot again.
func (m *Machines) keepsDisk(account, region, instanceID string) bool {
	i, ok := m.cfg.EC2.InstanceByID(account, region, instanceID)
	if !ok || i.State == nil {
		return false
	}
	return i.State.Name != ec2types.InstanceStateNameTerminated && i.State.Name != ec2types.InstanceStateNameShuttingDown
}

// SweepDisks removes the disks of machines that run containers and no longer exist: before machines start, those that a daemon
// which was killed has left.
func (m *Machines) SweepDisks(ctx context.Context) error {
	known, err := m.cfg.EC2.InstanceIDs()
	if err != nil {
		return err
	}
	clusters, err := m.cfg.EKS.Clusters(ctx)
	if err != nil {
		return err
	}
	// The ID of a Fargate machine is that of its network interface, in its cluster's account and region.
	scopes := map[store.Scope]bool{}
	for _, c := range clusters {
		scopes[store.Scope{Account: c.Account, Region: c.Region}] = true
	}
	for k := range fargate.Clusters(m.cfg.Store) {
		scopes[store.Scope{Account: k.Account, Region: k.Region}] = true
	}
	for s := range scopes {
		ctx := awsapi.WithCall(ctx, &awsapi.Call{Account: s.Account, Region: s.Region, Service: "ec2"})
		out, err := m.cfg.EC2.DescribeNetworkInterfaces(ctx, &awsec2.DescribeNetworkInterfacesInput{})
		if err != nil {
			return err
		}
		for _, e := range out.NetworkInterfaces {
			known[aws.ToString(e.NetworkInterfaceId)] = true
		}
	}
	return m.boxes.SweepDisks(known)
}

// StopAccount stops the machines of an account, or of all accounts if account is empty, after a reset has removed
// their records, and removes the disks of those that were off.
func (m *Machines) StopAccount(ctx context.Context, account string) error {
	m.mu.Lock()
	var gone []machine.Instance
	for _, in := range m.running {
		if account == "" || in.Account == account {
			gone = append(gone, in)
		}
	}
	m.mu.Unlock()
	for _, in := range gone {
		if err := m.Stop(ctx, in.Account, in.Region, in.ID); err != nil {
			return err
		}
	}
	return m.SweepDisks(ctx)
}

// Count returns how many instances are running.
func (m *Machines) Count() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return len(m.running)
}

// Instance returns a running instance, or an error.
func (m *Machines) Instance(instanceID string) (machine.Instance, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	in, ok := m.running[instanceID]
	if !ok {
		return machine.Instance{}, fmt.Errorf("instance %s is not running", instanceID)
	}
	return in, nil
}

// errNoEndpoint says that no cluster has this host name.
var errNoEndpoint = errors.New("no cluster has this endpoint")

// DialEndpoint connects an instance to a cluster's endpoint, by its AWS name or by the address on this machine that
// DescribeCluster returns and people write into user data. Either way, the network is checked for the AWS name.
func (m *Machines) DialEndpoint(ctx context.Context, in machine.Instance, host string, port int) (net.Conn, error) {
	p, ok := m.cfg.ControlPlanes.ByHost(host)
	ok = ok && port == 443
	if !ok {
		p, ok = m.cfg.ControlPlanes.ByEndpoint("https://" + net.JoinHostPort(host, strconv.Itoa(port)))
	}
	if !ok {
		// The name of a deleted cluster no longer resolves.
		return nil, fmt.Errorf("%w: %w", errNoEndpoint, &net.DNSError{Err: "no such host", Name: host, IsNotFound: true})
	}
	v, err := m.network.allow(ctx, in, p.AWSHost, 443)
	if err != nil {
		return nil, err
	}
	c, err := m.cfg.ControlPlanes.Dial(ctx, p.ID)
	if err != nil {
		return nil, err
	}
	return m.network.track(c, in, p.AWSHost, v), nil
}

// Instances returns the running machines of an account and region by ID.
func (m *Machines) Instances(account, region string) []machine.Instance {
	m.mu.Lock()
	defer m.mu.Unlock()
	var out []machine.Instance
	for _, in := range m.running {
		if in.Account == account && in.Region == region {
			out = append(out, in)
		}
	}
	slices.SortFunc(out, func(a, b machine.Instance) int { return strings.Compare(a.ID, b.ID) })
	return out
}

// IDs returns the IDs of the running instances of an account and region.
func (m *Machines) IDs(account, region string) []string {
	var out []string
	for _, in := range m.Instances(account, region) {
		out = append(out, in.ID)
	}
	return out
}

// Machine implements ec2.Machines. It returns the computer behind an instance that is on.
func (m *Machines) Machine(instanceID string) (machine.Machine, bool) {
	return m.runtime.Machine(instanceID)
}
