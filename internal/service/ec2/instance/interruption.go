package instance

import (
	"context"
	"fmt"

	"github.com/drydock-dev/drydock/internal/service/ec2/record"
	"github.com/drydock-dev/drydock/internal/service/ec2/resource"
	"github.com/drydock-dev/drydock/internal/store"
)

// State reason codes for what AWS does to an instance unasked.
// https://docs.aws.amazon.com/AWSEC2/latest/APIReference/API_StateReason.html
const (
	reasonSpotTermination = "Server.SpotInstanceTermination"
	reasonScheduledStop   = "Server.ScheduledStop"
)

// Interrupt terminates an instance even if it is protected from API calls: a Spot Instance as if
// its capacity were reclaimed, any other as if it had been terminated by hand. With stop, it stops
// the instance instead, as when its host is retired. It does nothing if the instance has already
// terminated.
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
			return fmt.Errorf("%s belongs to a one-time Spot request: such instances can be terminated, but not stopped", id)
		case stop && (i.State == record.Stopped || i.State == record.Stopping):
			return nil
		case stop && i.State != record.Running:
			return fmt.Errorf("%s is %s: only running instances can be stopped", id, i.State)
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
