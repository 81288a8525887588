package child

import (
	"context"
	"runtime/debug"
	"runtime/metrics"
	"time"
)

// Garbage collection percentages. Starting makes a lot of garbage at once, and
// collecting it would take a quarter of the start's processor time. Afterwards
// an idle cluster must be small; one with thousands of pods must be fast.
const (
	startGC = 400
	smallGC = 50
	largeGC = 100

	// largeHeap is the live heap of a cluster with a few hundred nodes; an empty
	// one has about 110 MB.
	largeHeap = 200 << 20
)

// tendMemory gives the memory of the start back, once the controllers have
// caught up, and then sets how eagerly garbage is collected, until ctx ends.
func tendMemory(ctx context.Context) {
	tick := time.NewTicker(5 * time.Second)
	defer tick.Stop()
	live := []metrics.Sample{{Name: "/gc/heap/live:bytes"}}
	percent := startGC
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		if percent == startGC {
			debug.FreeOSMemory()
			tick.Reset(30 * time.Second)
		}
		metrics.Read(live)
		want := smallGC
		if live[0].Value.Uint64() > largeHeap {
			want = largeGC
		}
		if want != percent {
			percent = want
			debug.SetGCPercent(percent)
		}
	}
}
