package instance

import (
	"context"

	"github.com/drydock-dev/drydock/internal/machine"
)

// Profiles looks up IAM instance profiles.
type Profiles interface {
	// InstanceProfile returns the account's instance profile with a name, or false if there is
	// none.
	InstanceProfile(ctx context.Context, account, name string) (Profile, bool, error)
}

// A Profile is an instance profile with its role.
type Profile struct {
	ARN string
	ID  string // AIPA…
	// RoleARN is empty for a profile without a role, with which nothing can be launched.
	RoleARN string
}

// Machines boots and stops the machines behind instances.
type Machines interface {
	// Start boots m, or does nothing if m is already running. After a restart of the daemon it is
	// called for every running instance. It must not wait for the guest. If it returns an error, it
	// is called again later.
	Start(ctx context.Context, m machine.Instance) error
	// Stop stops the machine. It does nothing if there is none.
	Stop(ctx context.Context, account, region, instanceID string) error
	// ReplaceDisk gives a stopped instance a new root volume with the contents of a snapshot, or an empty one if
	// snapshotID is empty.
	ReplaceDisk(instanceID, snapshotID string) error
	// Machine returns a running machine, or false if it is not running.
	Machine(instanceID string) (machine.Machine, bool)
}
