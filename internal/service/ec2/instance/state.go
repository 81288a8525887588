package instance

import (
	"context"
	"slices"

	"github.com/aws/aws-sdk-go-v2/aws"
	awsec2 "github.com/aws/aws-sdk-go-v2/service/ec2"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"github.com/drydock-dev/drydock/internal/service/ec2/ec2err"
	"github.com/drydock-dev/drydock/internal/service/ec2/ipam"
	"github.com/drydock-dev/drydock/internal/service/ec2/placement"
	"github.com/drydock-dev/drydock/internal/service/ec2/record"
	"github.com/drydock-dev/drydock/internal/service/ec2/resource"
	"github.com/drydock-dev/drydock/internal/store"
)

// changeStates changes the states of instances. check can reject the whole request before anything
// is stored; change edits one instance.
func (s *Service) changeStates(ctx context.Context, dryRun *bool, want []string, check func(record.Instance) error, change func(*store.Tx, resource.Scope, *record.Instance) error) ([]ec2types.InstanceStateChange, error) {
	sc := resource.ScopeOf(ctx)
	if len(want) == 0 {
		return nil, ec2err.Missing("InstanceId")
	}
	all, err := resource.Choose(s.Store, record.Instances, sc, want, resource.All)
	if err != nil {
		return nil, err
	}
	for _, i := range all {
		if err := check(i); err != nil {
			return nil, err
		}
	}
	var out []ec2types.InstanceStateChange
	for chunk := range slices.Chunk(all, 30) {
		var changes []ec2types.InstanceStateChange
		err := s.Update(ctx, dryRun, func(tx *store.Tx) error {
			changes = nil
			for _, seen := range chunk {
				i, err := resource.Get(tx, record.Instances, sc, seen.ID)
				if err != nil {
					return err
				}
				if err := check(i); err != nil {
					return err
				}
				before := i.State
				if err := change(tx, sc, &i); err != nil {
					return err
				}
				changes = append(changes, ec2types.InstanceStateChange{
					InstanceId: aws.String(i.ID), PreviousState: sdkState(before), CurrentState: sdkState(i.State),
				})
				if err := record.Instances.Put(tx, sc.Key(i.ID), i); err != nil {
					return err
				}
			}
			return nil
		})
		if err != nil {
			return nil, err
		}
		out = append(out, changes...)
	}
	return out, nil
}

// UserInitiated records that a user requested the transition.
func (s *Service) UserInitiated(i *record.Instance, state string) {
	s.enter(i, state)
	i.TransitionReason = stateText(i.Since)
	i.ReasonCode, i.ReasonMessage = "Client.UserInitiatedShutdown", "Client.UserInitiatedShutdown: User initiated shutdown"
}

// TerminateInstances terminates instances. Terminated ones stay as they are.
func (s *Service) TerminateInstances(ctx context.Context, in *awsec2.TerminateInstancesInput) (*awsec2.TerminateInstancesOutput, error) {
	changes, err := s.changeStates(ctx, in.DryRun, in.InstanceIds,
		func(i record.Instance) error {
			if i.DisableTermination && i.State != record.Terminated {
				return ec2err.TerminationProtected(i.ID)
			}
			return nil
		},
		func(_ *store.Tx, _ resource.Scope, i *record.Instance) error {
			if i.State != record.Terminated && i.State != record.ShuttingDown {
				s.UserInitiated(i, record.ShuttingDown)
			}
			return nil
		})
	return &awsec2.TerminateInstancesOutput{TerminatingInstances: changes}, err
}

// StopInstances stops running instances.
func (s *Service) StopInstances(ctx context.Context, in *awsec2.StopInstancesInput) (*awsec2.StopInstancesOutput, error) {
	changes, err := s.changeStates(ctx, in.DryRun, in.InstanceIds,
		func(i record.Instance) error {
			switch {
			case i.State == record.Terminated || i.State == record.ShuttingDown || i.State == record.Pending:
				return ec2err.InstanceState(i.ID, "stopped")
			case i.DisableStop && i.State == record.Running:
				return ec2err.New("OperationNotPermitted", "The instance '%s' may not be stopped. Modify its 'disableApiStop' instance attribute and try again.", i.ID)
			case i.SpotRequestID != "" && !i.SpotPersistent:
				return ec2err.New("UnsupportedOperation", "You can't stop the Spot Instance '%s' because it is associated with a one-time Spot Instance request. You can only stop Spot Instances associated with persistent Spot Instance requests.", i.ID)
			}
			return nil
		},
		func(tx *store.Tx, sc resource.Scope, i *record.Instance) error {
			if i.State != record.Running {
				return nil
			}
			s.UserInitiated(i, record.Stopping)
			return changeSpot(tx, sc, i, func(r *SpotRequest) {
				if r.State == spotActive {
					r.set(s.Now(), spotDisabled, "instance-stopped-by-user", "Spot Instance stopped due to user-initiated stop.")
				}
			})
		})
	return &awsec2.StopInstancesOutput{StoppingInstances: changes}, err
}

// StartInstances starts stopped instances. Those that had a public address get a new one.
func (s *Service) StartInstances(ctx context.Context, in *awsec2.StartInstancesInput) (*awsec2.StartInstancesOutput, error) {
	changes, err := s.changeStates(ctx, in.DryRun, in.InstanceIds,
		func(i record.Instance) error {
			if i.State == record.Terminated || i.State == record.ShuttingDown || i.State == record.Stopping {
				return ec2err.InstanceState(i.ID, "started")
			}
			if i.State == record.Stopped {
				// https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/troubleshooting-launch.html#troubleshooting-launch-capacity
				sc := resource.ScopeOf(ctx)
				if i.SpotRequestID == "" && s.capacity.Room(sc, wants(i), i.Type, i.Zone, i.Tenancy) > 0 {
					return nil
				}
				return s.capacity.Check(sc, i.Type, i.Zone, i.SpotRequestID != "")
			}
			return nil
		},
		func(tx *store.Tx, sc resource.Scope, i *record.Instance) error {
			if i.State != record.Stopped {
				return nil
			}
			if i.SpotRequestID == "" {
				if err := s.capacity.Take(tx, sc, wants(*i), i); err != nil {
					return err
				}
			}
			if i.PlacementGroupID != "" {
				g, err := resource.Get(tx, placement.Groups, sc, i.PlacementGroupID)
				if err != nil {
					return err
				}
				if err := g.Place(tx, sc, i, nil); err != nil {
					return err
				}
			}
			s.enter(i, record.Pending)
			i.LaunchTime, i.TransitionReason, i.ReasonCode, i.ReasonMessage = i.Since.Truncate(1e9), "", "pending", "pending"
			err := changeSpot(tx, sc, i, func(r *SpotRequest) {
				if r.State == spotDisabled {
					r.set(s.Now(), spotActive, "fulfilled", "Your Spot request is fulfilled.")
				}
			})
			if err != nil {
				return err
			}
			if !i.AutoPublic || i.PrivateIP == "" || i.PublicIP != "" { // an elastic address is kept
				return nil
			}
			public, err := ipam.Public(sc.Region).Take(tx, 1, i.ID)
			if err != nil {
				return err
			}
			i.PublicIP = public[0].String()
			return record.NetworkInterfaces.Update(tx, sc.Key(i.Interfaces[0]), func(e *record.NetworkInterface) error {
				e.PublicIP = i.PublicIP
				return nil
			})
		})
	return &awsec2.StartInstancesOutput{StartingInstances: changes}, err
}

// RebootInstances reboots running instances. They stay in the state running.
func (s *Service) RebootInstances(ctx context.Context, in *awsec2.RebootInstancesInput) (*awsec2.RebootInstancesOutput, error) {
	_, err := s.changeStates(ctx, in.DryRun, in.InstanceIds,
		func(i record.Instance) error {
			if i.State != record.Running {
				return ec2err.InstanceState(i.ID, "rebooted")
			}
			return nil
		},
		func(_ *store.Tx, _ resource.Scope, i *record.Instance) error {
			i.Boot++
			return nil
		})
	return &awsec2.RebootInstancesOutput{}, err
}
