package app

import (
	"context"
	"runtime/debug"
	"time"
)

// restInterval is how often the daemon's memory is looked at.
const restInterval = 15 * time.Second

// giveBackMemory returns to the system what start-up and bursts of calls have left
// behind, once after each, until ctx ends. An idle daemon had better be small.
func giveBackMemory(ctx context.Context) error {
	tick := time.NewTicker(restInterval)
	defer tick.Stop()
	var before debug.GCStats
	debug.ReadGCStats(&before)
	given := int64(-1)
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
		var now debug.GCStats
		debug.ReadGCStats(&now)
		// Busy: garbage was collected several times since the last look.
		if quiet := now.NumGC-before.NumGC <= 2; quiet && given != now.NumGC {
			debug.FreeOSMemory()
			debug.ReadGCStats(&now)
			given = now.NumGC
		}
		before = now
	}
}
