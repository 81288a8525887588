package child

import (
	"context"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"sync"
	"syscall"
	"time"
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

// A process is idle below idleCores over idleInterval, and busy again above busyCores over busyInterval. The latter
// is short, because until then the process only has one core.
const (
	idleCores, idleInterval = 0.2, 5 * time.Second
	busyCores, busyInterval = 0.4, time.Second
)

// tendIdleness makes an idle process cheap until ctx ends, and removes the limits when there is work. The process
// starts as busy.
//
// Each of the hundreds of timers of an idle control plane (each work queue's fires twice a second) would also wake a
// second thread that has nothing to do. With one core there is no second thread, which saves a quarter of the idle
// CPU time.
func tendIdleness(ctx context.Context, gc *collector) {
	cores := runtime.GOMAXPROCS(0)
	defer runtime.GOMAXPROCS(cores)
	busy, interval := true, idleInterval
	tick := time.NewTicker(interval)
	defer tick.Stop()
	before := cpuTime()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		now := cpuTime()
		used := float64(now-before) / float64(interval)
		before = now
		switch {
		case busy && used < idleCores:
			gc.setIdle(true)
			debug.FreeOSMemory()
			runtime.GOMAXPROCS(1)
			busy, interval = false, busyInterval
		case !busy && used > busyCores:
			runtime.GOMAXPROCS(cores)
			gc.setIdle(false)
			busy, interval = true, idleInterval
		default:
			continue
		}
		tick.Reset(interval)
	}
}

// cpuTime returns the CPU time that this process has used.
func cpuTime() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
