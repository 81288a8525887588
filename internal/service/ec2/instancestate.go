package ec2

import (
	"context"
	"slices"

	"github.com/aws/aws-sdk-go-v2/aws"
	awsec2 "github.com/aws/aws-sdk-go-v2/service/ec2"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"github.com/drydock-dev/drydock/internal/store"
)

// changeStates changes the state of instances. check refuses the whole request
// before anything is written; change edits one instance.
func (s *Service) changeStates(ctx context.Context, dryRun *bool, want []string, check func(instanceRecord) error, change func(*store.Tx, scope, *instanceRecord) error) ([]ec2types.InstanceStateChange, error) {
	sc, err := s.scope(ctx)
	if err != nil {
		return nil, err
	}
	if len(want) == 0 {
		return nil, errMissing("InstanceId")
	}
	all, err := choose(s.store, instances, sc, instanceID, want, func(instanceRecord) bool { return true })
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
		err := s.update(ctx, dryRun, func(tx *store.Tx) error {
			changes = nil
			for _, seen := range chunk {
				i, err := get(tx, instances, sc, instanceID, seen.ID)
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
				if err := instances.Put(tx, sc.key(i.ID), i); err != nil {
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

// userInitiated notes that a user asked for the transition.
func (s *Service) userInitiated(i *instanceRecord, state string) {
	s.enter(i, state)
	i.TransitionReason = stateText(i.Since)
	i.ReasonCode, i.ReasonMessage = "Client.UserInitiatedShutdown", "Client.UserInitiatedShutdown: User initiated shutdown"
}

// TerminateInstances terminates instances; terminated ones stay so.
func (s *Service) TerminateInstances(ctx context.Context, in *awsec2.TerminateInstancesInput) (*awsec2.TerminateInstancesOutput, error) {
	changes, err := s.changeStates(ctx, in.DryRun, in.InstanceIds,
		func(i instanceRecord) error {
			if i.DisableTermination && i.State != stateTerminated {
				return errTerminationProtected(i.ID)
			}
			return nil
		},
		func(_ *store.Tx, _ scope, i *instanceRecord) error {
			if i.State != stateTerminated && i.State != stateShuttingDown {
				s.userInitiated(i, stateShuttingDown)
			}
			return nil
		})
	return &awsec2.TerminateInstancesOutput{TerminatingInstances: changes}, err
}

// StopInstances stops running instances.
func (s *Service) StopInstances(ctx context.Context, in *awsec2.StopInstancesInput) (*awsec2.StopInstancesOutput, error) {
	changes, err := s.changeStates(ctx, in.DryRun, in.InstanceIds,
		func(i instanceRecord) error {
			switch {
			case i.State == stateTerminated || i.State == stateShuttingDown || i.State == statePending:
				return errInstanceState(i.ID, "stopped")
			case i.DisableStop && i.State == stateRunning:
				return errf("OperationNotPermitted", "The instance '%s' may not be stopped. Modify its 'disableApiStop' instance attribute and try again.", i.ID)
			case i.SpotRequestID != "" && !i.SpotPersistent:
				return errf("UnsupportedOperation", "You can't stop the Spot Instance '%s' because it is associated with a one-time Spot Instance request. You can only stop Spot Instances associated with persistent Spot Instance requests.", i.ID)
			}
			return nil
		},
		func(tx *store.Tx, sc scope, i *instanceRecord) error {
			if i.State != stateRunning {
				return nil
			}
			s.userInitiated(i, stateStopping)
			return changeSpot(tx, sc, i, func(r *spotRequestRecord) {
				if r.State == spotActive {
					r.set(s.now(), spotDisabled, "instance-stopped-by-user", "Spot Instance stopped due to user-initiated stop.")
				}
			})
		})
	return &awsec2.StopInstancesOutput{StoppingInstances: changes}, err
}

// StartInstances starts stopped instances, with a new public address where they
// had one.
func (s *Service) StartInstances(ctx context.Context, in *awsec2.StartInstancesInput) (*awsec2.StartInstancesOutput, error) {
	changes, err := s.changeStates(ctx, in.DryRun, in.InstanceIds,
		func(i instanceRecord) error {
			if i.State == stateTerminated || i.State == stateShuttingDown || i.State == stateStopping {
				return errInstanceState(i.ID, "started")
			}
			if sc, err := s.scope(ctx); err == nil && i.State == stateStopped {
				// https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/troubleshooting-launch.html#troubleshooting-launch-capacity
				return s.checkCapacity(sc, i.Type, i.Zone, i.SpotRequestID != "")
			}
			return nil
		},
		func(tx *store.Tx, sc scope, i *instanceRecord) error {
			if i.State != stateStopped {
				return nil
			}
			s.enter(i, statePending)
			i.LaunchTime, i.TransitionReason, i.ReasonCode, i.ReasonMessage = i.Since.Truncate(1e9), "", "pending", "pending"
			err := changeSpot(tx, sc, i, func(r *spotRequestRecord) {
				if r.State == spotDisabled {
					r.set(s.now(), spotActive, "fulfilled", "Your Spot request is fulfilled.")
				}
			})
			if err != nil {
				return err
			}
			if !i.AutoPublic || i.PublicIP != "" { // an elastic address stays
				return nil
			}
			public, err := publicPool(sc.region).take(tx, 1, i.ID)
			if err != nil {
				return err
			}
			i.PublicIP = public[0].String()
			return networkInterfaces.Update(tx, sc.key(i.Interfaces[0]), func(e *networkInterfaceRecord) error {
				e.PublicIP = i.PublicIP
				return nil
			})
		})
	return &awsec2.StartInstancesOutput{StartingInstances: changes}, err
}

// RebootInstances reboots running instances, whose state does not change.
func (s *Service) RebootInstances(ctx context.Context, in *awsec2.RebootInstancesInput) (*awsec2.RebootInstancesOutput, error) {
	_, err := s.changeStates(ctx, in.DryRun, in.InstanceIds,
		func(i instanceRecord) error {
			if i.State != stateRunning {
				return errInstanceState(i.ID, "rebooted")
			}
			return nil
		},
		func(_ *store.Tx, _ scope, i *instanceRecord) error {
			i.Boot++
			return nil
		})
	return &awsec2.RebootInstancesOutput{}, err
}
