package keeper

import (
	"context"
	"time"

	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"github.com/drydock-dev/drydock/internal/fault"
	"github.com/drydock-dev/drydock/internal/node"
)

// Interrupter is the part of EC2 that interrupts instances.
type Interrupter interface {
	InstanceByID(account, region, id string) (ec2types.Instance, bool)
	Interrupt(ctx context.Context, account, region, id string, stop bool) error
}

// Interrupt interrupts the instance of a fault that is due. It returns the step that `drydock why` shows, or nil if
// the instance was already gone.
func Interrupt(ctx context.Context, by Interrupter, f *fault.Fault) (*node.Step, error) {
	stop := f.Kind == fault.Stop
	if _, ok := by.InstanceByID(f.Account, f.Region, f.Instance); !ok {
		return nil, nil
	}
	if err := by.Interrupt(ctx, f.Account, f.Region, f.Instance, stop); err != nil {
		return nil, err
	}
	what := "terminated from outside"
	if stop {
		what = "stopped from outside"
	}
	why := node.FaultDecision(f, f.Instance+" was "+what)
	why.Subject = &node.Subject{Instance: f.Instance}
	return &node.Step{
		Account: f.Account, Region: f.Region, InstanceID: f.Instance, Name: node.StepStop, Evidence: what,
		Decision: &why, Time: time.Now(),
	}, nil
}
