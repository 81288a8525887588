package cloudtrail

import (
	"context"
	"encoding/json"
	"strings"

	"github.com/drydock-dev/drydock/internal/journal"
	"github.com/drydock-dev/drydock/internal/serviceevents"
)

// waiting is how many calls may wait to be sent; any more are dropped. AWS's delivery is best
// effort, too.
const waiting = 1024

// Events sends calls that change something to the default bus of their region, if a trail logs them
// there.
// https://docs.aws.amazon.com/eventbridge/latest/userguide/eb-service-event-cloudtrail.html
func (s *Service) Events(ctx context.Context, bus serviceevents.Bus) error {
	entries, stop := s.journal.Follow(waiting)
	defer stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case entry := <-entries:
			if !s.logs(entry) {
				continue
			}
			e, ok := read(entry)
			if !ok || e.ReadOnly {
				continue
			}
			source, _, _ := strings.Cut(e.EventSource, ".")
			if err := bus.Emit(entry.Account, entry.Region, &serviceevents.Event{
				DetailType: "AWS API Call via CloudTrail", Source: "aws." + source, Time: e.EventTime.UTC().Format(serviceevents.TimeForm), Detail: json.RawMessage(e.text),
			}); err != nil {
				s.log.Warn("cloudtrail: sending a call to EventBridge", "operation", e.EventName, "err", err)
			}
		}
	}
}

// logs reports whether any trail logs a call.
func (s *Service) logs(entry journal.Entry) bool {
	if entry.Kind != journal.KindCall || entry.Fields["event"] == nil {
		return false
	}
	for _, i := range s.all(entry.Account) {
		if i.Value.logs(entry.Time) && (i.Value.MultiRegion || i.Key.Region == entry.Region) {
			return true
		}
	}
	return false
}
