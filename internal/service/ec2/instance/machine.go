package instance

import (
	"context"

	"github.com/drydock-dev/drydock/internal/machine"
)

// Profiles looks up IAM instance profiles.
type Profiles interface {
	// InstanceProfile returns the account's instance profile of that name, or
	// false if there is none.
	InstanceProfile(ctx context.Context, account, name string) (Profile, bool, error)
}

// A Profile is an instance profile with the role it holds.
type Profile struct {
	ARN string
	ID  string // AIPA…
	// RoleARN is empty for a profile without a role; nothing can be launched with it.
	RoleARN string
}

// Machines boots and stops what stands behind instances.
type Machines interface {
	// Start boots m, or does nothing when m runs already: after a restart of the
	// daemon every running instance is started again. It must not wait for the
	// guest. An error is tried again later.
	Start(ctx context.Context, m machine.Instance) error
	// Stop stops the machine, or does nothing if there is none.
	Stop(ctx context.Context, account, region, instanceID string) error
	// Machine returns a machine that is on; false if it is not.
	Machine(instanceID string) (machine.Machine, bool)
}
