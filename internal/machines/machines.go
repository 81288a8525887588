package machines

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"

	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"github.com/drydock-dev/drydock/internal/catalog/images"
	"github.com/drydock-dev/drydock/internal/node"
	"github.com/drydock-dev/drydock/internal/service/ec2"
)

// Start implements ec2.Machines.
func (m *Machines) Start(ctx context.Context, in ec2.Machine) error {
	m.mu.Lock()
	m.running[in.InstanceID] = in
	m.mu.Unlock()
	return m.runtime.Start(ctx, nodeInstance(in))
}

// nodeInstance is an instance as runtimes know it.
func nodeInstance(in ec2.Machine) node.Instance {
	return node.Instance{
		Account:            in.Account,
		Region:             in.Region,
		ID:                 in.InstanceID,
		BootID:             fmt.Sprintf("%d/%d", in.LaunchTime.UnixNano(), in.Boot),
		InstanceType:       in.Type.Name,
		Architecture:       in.Image.Architecture,
		VCPU:               in.Type.VCPU,
		MemoryMiB:          in.Type.MemoryMiB,
		RootVolumeGiB:      int(in.DiskGiB),
		MaxENI:             in.Type.ENIs,
		IPv4PerENI:         in.Type.IPv4PerENI,
		GPUs:               in.Type.GPUs,
		ImageID:            in.Image.ID,
		AMIFamily:          amiFamily(in.Image.Family),
		KubeletVersion:     in.Image.KubeletVersion,
		AvailabilityZone:   in.AvailabilityZone,
		AvailabilityZoneID: in.ZoneID,
		VPCID:              in.VPCID,
		SubnetID:           in.SubnetID,
		PrivateIP:          in.PrivateIP,
		PublicIP:           in.PublicIP,
		PrivateDNSName:     in.PrivateDNSName,
		PublicDNSName:      in.PublicDNSName,
		UserData:           in.UserData,
		Tags:               in.Tags,
		InstanceProfileARN: in.ProfileARN,
		RoleARN:            in.RoleARN,
		LaunchTime:         in.LaunchTime,
		Spot:               in.Spot,
	}
}

// Stop implements ec2.Machines.
func (m *Machines) Stop(ctx context.Context, account, region, instanceID string) error {
	if err := m.runtime.Stop(ctx, instanceID); err != nil {
		return err
	}
	m.mu.Lock()
	delete(m.running, instanceID)
	m.mu.Unlock()
	m.metadata.Forget(instanceID)
	if !m.keepsDisk(account, region, instanceID) {
		return m.cfg.Disks.Remove(instanceID)
	}
	return nil
}

// keepsDisk says whether an instance that is off may boot again.
func (m *Machines) keepsDisk(account, region, instanceID string) bool {
	i, ok := m.services.EC2.InstanceByID(account, region, instanceID)
	if !ok || i.State == nil {
		return false
	}
	return i.State.Name != ec2types.InstanceStateNameTerminated && i.State.Name != ec2types.InstanceStateNameShuttingDown
}

// StopAccount stops the machines of an account, or of all if account is empty,
// after a reset took their records away.
func (m *Machines) StopAccount(ctx context.Context, account string) error {
	m.mu.Lock()
	var gone []ec2.Machine
	for _, in := range m.running {
		if account == "" || in.Account == account {
			gone = append(gone, in)
		}
	}
	m.mu.Unlock()
	for _, in := range gone {
		if err := m.Stop(ctx, in.Account, in.Region, in.InstanceID); err != nil {
			return err
		}
	}
	return nil
}

// Count is how many instances run.
func (m *Machines) Count() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return len(m.running)
}

// Instance is a running instance, or an error.
func (m *Machines) Instance(instanceID string) (ec2.Machine, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	in, ok := m.running[instanceID]
	if !ok {
		return ec2.Machine{}, fmt.Errorf("instance %s is not running", instanceID)
	}
	return in, nil
}

func amiFamily(f images.Family) node.AMIFamily {
	switch f {
	case images.AL2:
		return node.AL2
	case images.AL2023:
		return node.AL2023
	case images.Bottlerocket:
		return node.Bottlerocket
	default:
		return node.Custom
	}
}

// errNoEndpoint says that a name is no cluster's.
var errNoEndpoint = errors.New("no cluster has this endpoint")

// DialEndpoint connects an instance with a cluster's endpoint, by its AWS name or
// by the address of this machine that DescribeCluster tells, which is what people
// write into user data. Either way, it is the network of the AWS name that decides.
func (m *Machines) DialEndpoint(ctx context.Context, in node.Instance, host string, port int) (net.Conn, error) {
	p, ok := m.cfg.ControlPlanes.ByHost(host)
	ok = ok && port == 443
	if !ok {
		p, ok = m.cfg.ControlPlanes.ByEndpoint("https://" + net.JoinHostPort(host, strconv.Itoa(port)))
	}
	if !ok {
		// The name of a cluster that is gone resolves no more.
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
func (m *Machines) Instances(account, region string) []ec2.Machine {
	m.mu.Lock()
	defer m.mu.Unlock()
	var out []ec2.Machine
	for _, in := range m.running {
		if in.Account == account && in.Region == region {
			out = append(out, in)
		}
	}
	slices.SortFunc(out, func(a, b ec2.Machine) int { return strings.Compare(a.InstanceID, b.InstanceID) })
	return out
}

// IDs are those of the running instances of an account and region.
func (m *Machines) IDs(account, region string) []string {
	var out []string
	for _, in := range m.Instances(account, region) {
		out = append(out, in.InstanceID)
	}
	return out
}

// ConsoleOutput implements ec2.ConsoleReader.
func (m *Machines) ConsoleOutput(_ context.Context, instanceID string) ([]byte, bool) {
	return m.console(instanceID)
}
