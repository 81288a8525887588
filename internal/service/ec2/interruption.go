package ec2

import (
	"context"
	"fmt"

	"github.com/drydock-dev/drydock/internal/store"
)

// The reasons of what AWS does to an instance without being asked.
// https://docs.aws.amazon.com/AWSEC2/latest/APIReference/API_StateReason.html
const (
	reasonSpotTermination = "Server.SpotInstanceTermination"
	reasonScheduledStop   = "Server.ScheduledStop"
)

// Interrupt takes an instance away from its user, whatever protects it from API
// calls: a Spot Instance as when its capacity is needed, another one as if somebody
// had terminated it by hand. With stop it is stopped, as when its host retires.
// What is over already stays as it is.
func (s *Service) Interrupt(ctx context.Context, account, region, id string, stop bool) error {
	sc := scope{account, region}
	return s.store.Update(ctx, func(tx *store.Tx) error {
		i, err := get(tx, instances, sc, instanceID, id)
		if err != nil {
			return err
		}
		switch {
		case i.State == stateTerminated || i.State == stateShuttingDown:
			return nil
		case stop && i.SpotRequestID != "" && !i.SpotPersistent:
			return fmt.Errorf("%s is of a one-time Spot request: such instances can be terminated, not stopped", id)
		case stop && (i.State == stateStopped || i.State == stateStopping):
			return nil
		case stop && i.State != stateRunning:
			return fmt.Errorf("%s is %s: only what runs can be stopped", id, i.State)
		case stop:
			s.userInitiated(&i, stateStopping)
			i.ReasonCode = reasonScheduledStop
			i.ReasonMessage = reasonScheduledStop + ": The instance was stopped due to a scheduled retirement"
			err = changeSpot(tx, sc, &i, func(r *spotRequestRecord) {
				if r.State == spotActive {
					r.set(s.now(), spotDisabled, "instance-stopped-no-capacity", spotReclaimed("stopped"))
				}
			})
		default:
			s.userInitiated(&i, stateShuttingDown)
			if i.SpotRequestID != "" {
				i.ReasonCode = reasonSpotTermination
				i.ReasonMessage = reasonSpotTermination + ": Spot instance termination"
			}
		}
		if err != nil {
			return err
		}
		return instances.Put(tx, sc.key(id), i)
	})
}
