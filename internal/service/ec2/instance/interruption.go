package instance

import (
	"context"
	"fmt"

	"github.com/drydock-dev/drydock/internal/service/ec2/record"
	"github.com/drydock-dev/drydock/internal/service/ec2/resource"
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
	sc := resource.Scope{Account: account, Region: region}
	return s.Store.Update(ctx, func(tx *store.Tx) error {
		i, err := resource.Get(tx, record.Instances, sc, id)
		if err != nil {
			return err
		}
		switch {
		case i.State == record.Terminated || i.State == record.ShuttingDown:
			return nil
		case stop && i.SpotRequestID != "" && !i.SpotPersistent:
			return fmt.Errorf("%s is of a one-time Spot request: such instances can be terminated, not stopped", id)
		case stop && (i.State == record.Stopped || i.State == record.Stopping):
			return nil
		case stop && i.State != record.Running:
			return fmt.Errorf("%s is %s: only what runs can be stopped", id, i.State)
		case stop:
			s.UserInitiated(&i, record.Stopping)
			i.ReasonCode = reasonScheduledStop
			i.ReasonMessage = reasonScheduledStop + ": The instance was stopped due to a scheduled retirement"
			err = changeSpot(tx, sc, &i, func(r *SpotRequest) {
				if r.State == spotActive {
					r.set(s.Now(), spotDisabled, "instance-stopped-no-capacity", spotReclaimed("stopped"))
				}
			})
		default:
			s.UserInitiated(&i, record.ShuttingDown)
			if i.SpotRequestID != "" {
				i.ReasonCode = reasonSpotTermination
				i.ReasonMessage = reasonSpotTermination + ": Spot instance termination"
			}
		}
		if err != nil {
			return err
		}
		return record.Instances.Put(tx, sc.Key(id), i)
	})
}
