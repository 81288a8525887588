// Package resource has the code that all EC2 resources share: scopes (account and region), IDs,
// look-up, paging, tags, client tokens and dry runs. It does not depend on any kind of
// resource; the packages above define those.
package resource

import (
	"log/slog"

	"k8s.io/utils/clock"

	timing "github.com/drydock-dev/drydock/internal/clock"
	"github.com/drydock-dev/drydock/internal/store"
)

// A Core is what all of EC2's services share. They embed the same one.
type Core struct {
	Store  *store.Store
	Clock  clock.WithTicker
	Timing timing.Timing
	Log    *slog.Logger
}
