package ssm

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	awsssm "github.com/aws/aws-sdk-go-v2/service/ssm"
	ssmtypes "github.com/aws/aws-sdk-go-v2/service/ssm/types"

	"github.com/drydock-dev/drydock/internal/awsapi/paging"
	"github.com/drydock-dev/drydock/internal/awsapi/regional"
	"github.com/drydock-dev/drydock/internal/catalog/images"
	"github.com/drydock-dev/drydock/internal/machine"
)

// A Fleet is the set of instances on which agents of Systems Manager may run.
type Fleet interface {
	// Instances returns the running instances of an account and region by ID.
	Instances(account, region string) []machine.Instance
	// Tags returns an instance's tags, which may have changed since it booted.
	Tags(account, region, instanceID string) map[string]string
	Machine(instanceID string) (machine.Machine, bool)
	// As returns a context for calls to an AWS service, such as logs, that a program on an instance makes as the
	// instance's role. It returns an error if the instance has no credentials or does not reach the service.
	As(ctx context.Context, instanceID, service string) (context.Context, error)
	// Agent returns an error that says why the agent on an instance cannot do a job, or nil if it can.
	Agent(ctx context.Context, instanceID string, job Job) error
	// AgentVersion returns the version of the agent on an instance, or the empty string if it has none.
	AgentVersion(instanceID string) string
}

// A Job is something that an agent does. The jobs differ in the endpoints and permissions that they need.
type Job int

// The jobs.
const (
	Register Job = iota // and report that the instance is online
	RunCommands
	ServeSessions
)

// noFleet has no instances.
type noFleet struct{}

func (noFleet) Instances(string, string) []machine.Instance   { return nil }
func (noFleet) Tags(string, string, string) map[string]string { return nil }
func (noFleet) Machine(string) (machine.Machine, bool)        { return nil, false }
func (noFleet) As(_ context.Context, instanceID, _ string) (context.Context, error) {
	return nil, fmt.Errorf("there is no %s", instanceID)
}
func (noFleet) Agent(_ context.Context, instanceID string, _ Job) error {
	return fmt.Errorf("there is no %s", instanceID)
}
func (noFleet) AgentVersion(string) string { return "" }

// latestAgent is the newest version of the agent, which the images have.
// https://github.com/aws/amazon-ssm-agent/blob/mainline/RELEASENOTES.md
const latestAgent = "3.3.3050.0"

// NeedsEC2Messages reports whether an agent is older than 3.3.40.0, the first version that does without ec2messages.
// https://docs.aws.amazon.com/systems-manager/latest/userguide/systems-manager-setting-up-messageAPIs.html
func NeedsEC2Messages(version string) bool {
	return version != "" && images.OlderVersion(version, "3.3.40.0")
}

// instances returns the running instances of an account and region, and removes all others from s.seen.
func (s *Service) instances(sc scope) []machine.Instance {
	list := s.fleet.Instances(sc.Account, sc.Region)
	s.mu.Lock()
	defer s.mu.Unlock()
	maps.DeleteFunc(s.seen[sc], func(id string, _ time.Time) bool {
		return !slices.ContainsFunc(list, func(i machine.Instance) bool { return i.ID == id })
	})
	if len(s.seen[sc]) == 0 {
		delete(s.seen, sc)
	}
	return list
}

// ping returns the state of an instance's agent, and when it was last connected. registered is false if it has not been
// connected since the daemon started.
func (s *Service) ping(ctx context.Context, in *machine.Instance) (status ssmtypes.PingStatus, at time.Time, registered bool) {
	sc, now := scope{regional.At(in.Account, in.Region)}, s.now()
	connected := s.fleet.Agent(ctx, in.ID, Register) == nil
	s.mu.Lock()
	defer s.mu.Unlock()
	if connected {
		if s.seen[sc] == nil {
			s.seen[sc] = map[string]time.Time{}
		}
		s.seen[sc][in.ID] = now
		return ssmtypes.PingStatusOnline, now, true
	}
	at, registered = s.seen[sc][in.ID]
	return ssmtypes.PingStatusConnectionLost, at, registered
}

// DescribeInstanceInformation lists the instances whose agents have registered.
func (s *Service) DescribeInstanceInformation(ctx context.Context, in *awsssm.DescribeInstanceInformationInput) (*awsssm.DescribeInstanceInformationOutput, error) {
	sc := scopeOf(ctx)
	filters := map[string][]string{}
	for _, f := range in.Filters {
		filters[aws.ToString(f.Key)] = f.Values
	}
	for _, f := range in.InstanceInformationFilterList {
		filters[string(f.Key)] = f.ValueSet
	}
	for key := range filters {
		switch key {
		case "InstanceIds", "AgentVersion", "PingStatus", "PlatformTypes", "ResourceType", "tag-key":
		default:
			if !strings.HasPrefix(key, "tag:") {
				return nil, errInvalidFilterKey("The specified key isn't valid.")
			}
		}
	}
	var all []ssmtypes.InstanceInformation
	associated := s.associated(sc)
	for _, i := range s.instances(sc) {
		status, at, registered := s.ping(ctx, &i)
		if !registered {
			continue
		}
		version := cmp.Or(s.fleet.AgentVersion(i.ID), latestAgent) // an agent that was removed had one
		info := ssmtypes.InstanceInformation{
			InstanceId: aws.String(i.ID), PingStatus: status, LastPingDateTime: aws.Time(at), AgentVersion: aws.String(version), IsLatestVersion: aws.Bool(version == latestAgent),
			PlatformType: ssmtypes.PlatformTypeLinux, ResourceType: ssmtypes.ResourceTypeEc2Instance, IPAddress: aws.String(i.Address().String()),
			ComputerName: aws.String(i.PrivateDNSName), SourceId: aws.String(i.ID), SourceType: ssmtypes.SourceTypeAwsEc2Instance,
		}
		info.PlatformName, info.PlatformVersion = platform(i.Image.Family)
		if matches(s.fleet.Tags(i.Account, i.Region, i.ID), &info, filters) {
			addAssociations(associationsOf(associated, i.ID), &info)
			all = append(all, info)
		}
	}
	list, next, err := paging.Cut(paging.Rules{Usual: 50, BadToken: func(string) error { return errNextToken() }}, all, func(i ssmtypes.InstanceInformation) string { return *i.InstanceId }, in.MaxResults, in.NextToken)
	if err != nil {
		return nil, err
	}
	return &awsssm.DescribeInstanceInformationOutput{InstanceInformationList: append([]ssmtypes.InstanceInformation{}, list...), NextToken: next}, nil
}

func platform(f images.Family) (name, version *string) {
	switch f {
	case images.AL2, images.Bottlerocket: // whose control container is Amazon Linux 2
		return aws.String("Amazon Linux"), aws.String("2")
	case images.Ubuntu:
		return aws.String("Ubuntu"), aws.String("24.04")
	}
	return aws.String("Amazon Linux"), aws.String("2023")
}

// matches reports whether an instance passes all filters.
func matches(tags map[string]string, info *ssmtypes.InstanceInformation, filters map[string][]string) bool {
	for key, values := range filters {
		var have string
		switch key {
		case "InstanceIds":
			have = *info.InstanceId
		case "AgentVersion":
			have = *info.AgentVersion
		case "PingStatus":
			have = string(info.PingStatus)
		case "PlatformTypes":
			have = string(info.PlatformType)
		case "ResourceType":
			have = string(info.ResourceType)
		case "tag-key":
			if !slices.ContainsFunc(values, func(v string) bool { _, ok := tags[v]; return ok }) {
				return false
			}
			continue
		default:
			var ok bool
			if have, ok = tags[strings.TrimPrefix(key, "tag:")]; !ok {
				return false
			}
		}
		if !slices.Contains(values, have) {
			return false
		}
	}
	return true
}

// target returns an instance of an account. It returns false if the instance is not running or its agent cannot do a job.
func (s *Service) target(ctx context.Context, sc scope, id string, job Job) (machine.Instance, bool) {
	i, err := s.runningInstance(sc, id)
	return i, err == nil && s.can(ctx, &i, job)
}

// can reports whether the agent on a running instance is online and can do a job.
func (s *Service) can(ctx context.Context, i *machine.Instance, job Job) bool {
	status, _, _ := s.ping(ctx, i)
	return status == ssmtypes.PingStatusOnline && s.fleet.Agent(ctx, i.ID, job) == nil
}

// GetConnectionStatus reports whether a session with an instance can be started.
func (s *Service) GetConnectionStatus(ctx context.Context, in *awsssm.GetConnectionStatusInput) (*awsssm.GetConnectionStatusOutput, error) {
	out := &awsssm.GetConnectionStatusOutput{Target: in.Target, Status: ssmtypes.ConnectionStatusNotConnected}
	if _, ok := s.target(ctx, scopeOf(ctx), aws.ToString(in.Target), ServeSessions); ok {
		out.Status = ssmtypes.ConnectionStatusConnected
	}
	return out, nil
}
