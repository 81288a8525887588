// Package resource holds what EC2's resources have in common: the account and
// region that they are in, their IDs, how they are looked up and listed page by
// page, how they are tagged, client tokens and dry runs. It does not depend on
// kinds of resources; what is particular to one is in the packages above.
package resource

import (
	"log/slog"

	"k8s.io/utils/clock"

	timing "github.com/drydock-dev/drydock/internal/clock"
	"github.com/drydock-dev/drydock/internal/store"
)

// A Core is what the services of all floors share. They embed one and the same.
type Core struct {
	Store  *store.Store
	Clock  clock.WithTicker
	Timing timing.Timing
	Log    *slog.Logger
}
