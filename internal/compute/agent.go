package compute

import (
	"context"
	"errors"

	"github.com/aws/aws-sdk-go-v2/aws"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"github.com/drydock-dev/drydock/internal/awsapi"
	"github.com/drydock-dev/drydock/internal/fault"
	"github.com/drydock-dev/drydock/internal/ids"
	"github.com/drydock-dev/drydock/internal/machine"
	"github.com/drydock-dev/drydock/internal/node"
	"github.com/drydock-dev/drydock/internal/node/ami"
	"github.com/drydock-dev/drydock/internal/service/ssm"
)

// The reasons for a disconnected agent other than the network and the role.
var (
	errNoAgent      = errors.New("Drydock runs no SSM Agent for its image")
	errNoPackage    = errors.New("the package amazon-ssm-agent is not installed on it")
	errAgentStopped = errors.New("the service amazon-ssm-agent is not running on it")
)

// Agent returns why the Systems Manager agent on an instance cannot do a job, or nil if it can. It registers with ssm. It
// gets its work through a control channel at ssmmessages or, commands only, from ec2messages. Since 3.3.40.0 it uses
// ec2messages only if it cannot open the channel; older versions need it for everything but the sessions' own channel.
// https://docs.aws.amazon.com/systems-manager/latest/userguide/systems-manager-setting-up-messageAPIs.html
func (m *Machines) Agent(ctx context.Context, instanceID string, job ssm.Job) error {
	in, err := m.Instance(instanceID)
	if err != nil {
		return err
	}
	computer, ok := m.runtime.Machine(instanceID)
	if !ok {
		return machine.ErrOff
	}
	select {
	case <-computer.Booted():
	default:
		return machine.ErrBooting
	}
	if !computer.Abilities().Has(machine.Terminal) {
		return errNoAgent
	}
	version := m.AgentVersion(instanceID)
	if version == "" {
		return errNoPackage
	}
	if active, _ := m.Unit(instanceID, "amazon-ssm-agent"); !active {
		return errAgentStopped
	}
	err = agentCalls(ctx, in, job, ssm.NeedsEC2Messages(version), m.Call)
	if who, ok := m.hostRole(ctx, in); err != nil && ok && agentCalls(ctx, in, job, ssm.NeedsEC2Messages(version), m.callAs(who)) == nil {
		return nil // AWS's agent, too, uses this role only if the instance's own role fails
	}
	return err
}

// AgentVersion implements ssm.Fleet.
func (m *Machines) AgentVersion(instanceID string) string {
	if version, ok := m.boxes.AgentVersion(instanceID); ok {
		return version
	}
	return m.kubelets.AgentVersion(instanceID)
}

// agentCalls makes the calls that an agent needs for a job with the given function, and returns the error of the first
// that fails. old is whether it needs ec2messages.
func agentCalls(ctx context.Context, in machine.Instance, job ssm.Job, old bool, call func(context.Context, machine.Instance, node.Call) error) error {
	err := call(ctx, in, node.Call{Action: node.ActionRegisterAgent})
	if err == nil && old {
		err = call(ctx, in, node.Call{Action: node.ActionGetMessages})
	}
	if err != nil || job == ssm.Register || old && job == ssm.RunCommands {
		return err
	}
	err = call(ctx, in, node.Call{Action: node.ActionControlChannel})
	if err != nil && job == ssm.RunCommands && call(ctx, in, node.Call{Action: node.ActionGetMessages}) == nil {
		return nil
	}
	return err
}

// broken returns the fault that kills a unit of an instance or, for ami.DiskFull, fills its disk. It returns nil if there
// is no such fault.
func (m *Machines) broken(in machine.Instance, unit string) *fault.Fault {
	kinds := map[string]fault.Kind{"amazon-ssm-agent": fault.Agent, "kubelet": fault.Kubelet, ami.DiskFull: fault.Disk}
	kind, ok := kinds[unit]
	if !ok {
		return nil
	}
	return m.cfg.Faults.Instance(kind, in.Account, in.Region, in.ID)
}

// callAs returns a function that does what Call does, but with the credentials of who.
func (m *Machines) callAs(who awsapi.Principal) func(context.Context, machine.Instance, node.Call) error {
	return func(ctx context.Context, in machine.Instance, c node.Call) error {
		g := m.calls()
		v, err := g.network.decide(ctx, in, g.host(in, c), 443)
		if err != nil {
			return err
		}
		_, refused, err := g.permit(ctx, in, c, v, who)
		if refused != nil {
			return refused.error()
		}
		return err
	}
}

// hostRole returns a session of the role for default host management. It returns false if the instance's metadata service
// is off, because the agent uses it to identify the instance.
func (m *Machines) hostRole(ctx context.Context, in machine.Instance) (awsapi.Principal, bool) {
	i, ok := m.cfg.EC2.InstanceByID(in.Account, in.Region, in.ID)
	if !ok || m.cfg.HostRole == nil || i.MetadataOptions != nil && i.MetadataOptions.HttpEndpoint == ec2types.InstanceMetadataEndpointStateDisabled {
		return awsapi.Principal{}, false
	}
	return m.cfg.HostRole(ctx, in.Account, in.Region, in.ID)
}

// Unit reports whether a systemd unit runs on an instance, and whether it starts when the instance boots.
func (m *Machines) Unit(instanceID, unit string) (active, boots bool) {
	if active, boots, ok := m.boxes.Unit(instanceID, unit); ok {
		return active, boots
	}
	return m.kubelets.Unit(instanceID, unit)
}

// As returns a context for calls that the agent on an instance makes to a service of AWS, such as logs. The agent calls as
// the instance's role or, if the instance has no role, as the role for default host management. As returns an error if
// the instance has no credentials or cannot reach the service.
func (m *Machines) As(ctx context.Context, instanceID, service string) (context.Context, error) {
	in, err := m.Instance(instanceID)
	if err != nil {
		return nil, err
	}
	g := m.calls()
	v, err := g.network.decide(ctx, in, service+"."+in.Region+".amazonaws.com", 443)
	if err != nil {
		return nil, err
	}
	var who awsapi.Principal
	creds, err := g.credentials(ctx, in.ID)
	if err == nil {
		_, who, err = g.sts.OpenSession(ctx, creds.AccessKeyID, creds.SessionToken)
	} else if role, ok := m.hostRole(ctx, in); ok {
		who, err = role, nil
	}
	if err != nil {
		return nil, err
	}
	return awsapi.WithCall(ctx, &awsapi.Call{
		RequestID: ids.UUID(), Account: in.Account, Region: in.Region, Principal: who, SourceIP: v.Source, VPCEndpoint: endpointOf(in, v), Time: m.cfg.Clock.Now(), TLS: true, UserAgent: "amazon-ssm-agent",
	}), nil
}

// Tags returns an instance's tags, which may have changed since it booted.
func (m *Machines) Tags(account, region, instanceID string) map[string]string {
	i, _ := m.cfg.EC2.InstanceByID(account, region, instanceID)
	out := map[string]string{}
	for _, t := range i.Tags {
		out[aws.ToString(t.Key)] = aws.ToString(t.Value)
	}
	return out
}
