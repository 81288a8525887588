package app

import (
	"context"
	"runtime/debug"
	"time"
)

// restInterval is how often the daemon's memory use is checked.
const restInterval = 15 * time.Second

// giveBackMemory returns memory to the system after start-up and after each burst of calls, so that an idle daemon
// stays small. It runs until ctx ends.
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
		// More than two garbage collections since the last check mean that the daemon is busy.
		if quiet := now.NumGC-before.NumGC <= 2; quiet && given != now.NumGC {
			debug.FreeOSMemory()
			debug.ReadGCStats(&now)
			given = now.NumGC
		}
		before = now
	}
}
