package arczonalshift

import (
	"time"

	shifttypes "github.com/aws/aws-sdk-go-v2/service/arczonalshift/types"

	"github.com/drydock-dev/drydock/internal/store"
)

// shifts are stored by ID.
var shifts = store.NewCollection[shiftRecord]("arczonalshift", "shift")

// A shiftRecord is a zonal shift. It ends by itself: nothing is stored when it expires.
type shiftRecord struct {
	ID, Resource, AwayFrom string // Resource is an ARN, AwayFrom the ID of a zone
	Comment                string
	Start, Expiry          time.Time
	Canceled               time.Time `json:",omitzero"`
}

func (r *shiftRecord) status(now time.Time) shifttypes.ZonalShiftStatus {
	switch {
	case !r.Canceled.IsZero():
		return shifttypes.ZonalShiftStatusCanceled
	case !now.Before(r.Expiry):
		return shifttypes.ZonalShiftStatusExpired
	}
	return shifttypes.ZonalShiftStatusActive
}

// end is when the shift ends or ended.
func (r *shiftRecord) end() time.Time {
	if !r.Canceled.IsZero() {
		return r.Canceled
	}
	return r.Expiry
}
