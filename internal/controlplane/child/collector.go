package child

import (
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"sync"
)

// How eagerly garbage is collected, in terms of GOGC. A busy process makes a lot of garbage, and collecting it often
// takes a quarter of its CPU time, while an idle process should be small. A busy process keeps up to garbage bytes of
// it, however large its live heap is. With GOGC alone, many nodes that joined together turned 400 MB of live objects
// into the 2 GB at which the limit forces frequent collections.
const (
	busyGC, largeGC = 400, 100 // for small and for large heaps
	garbage         = 256 << 20
	idleGC          = 50
	memoryLimit     = 2 << 30
)

// busyPercent returns the GOGC of a busy process with that many live bytes.
func busyPercent(live uint64) int {
	return int(min(busyGC, max(largeGC, 100*garbage/max(live, 1))))
}

// A collector sets how eagerly garbage is collected, and adjusts that after every collection.
type collector struct {
	mu   sync.Mutex
	idle bool
	live [1]metrics.Sample
}

// startCollector starts with the settings of a busy process.
func startCollector() *collector {
	c := &collector{live: [1]metrics.Sample{{Name: "/gc/heap/live:bytes"}}}
	c.adjust()
	c.afterNext()
	return c
}

// afterNext calls adjust after the next collection and every later one. A collection is noticed by the cleanup of an
// unreferenced object.
func (c *collector) afterNext() {
	runtime.AddCleanup(new([64]byte), func(c *collector) { c.adjust(); c.afterNext() }, c)
}

// setIdle tells whether the process is idle.
func (c *collector) setIdle(idle bool) {
	c.mu.Lock()
	c.idle = idle
	c.mu.Unlock()
	c.adjust()
}

func (c *collector) adjust() {
	c.mu.Lock()
	defer c.mu.Unlock()
	percent := idleGC
	if !c.idle {
		metrics.Read(c.live[:])
		percent = busyPercent(c.live[0].Value.Uint64())
	}
	debug.SetGCPercent(percent)
}
