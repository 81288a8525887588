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

// How eagerly garbage is collected, as for GOGC. A busy process makes a lot of it,
// and collecting it often takes a quarter of its CPU time; an idle one had better
// be small. A busy process keeps up to garbage bytes of it, whatever its live
// objects are: by GOGC alone, nodes that join together made of 400 MB in use the
// 2 GB at which the limit makes collecting frequent again.
const (
	busyGC, largeGC = 400, 100 // of small and of large heaps
	garbage         = 256 << 20
	idleGC          = 50
	memoryLimit     = 2 << 30
)

// busyPercent is the GOGC of a busy process with so many bytes in use.
func busyPercent(live uint64) int {
	return int(min(busyGC, max(largeGC, 100*garbage/max(live, 1))))
}

// A collector sets how eagerly garbage is collected; it adjusts this after every
// collection.
type collector struct {
	mu   sync.Mutex
	idle bool
	live [1]metrics.Sample
}

// startCollector begins with a busy process.
func startCollector() *collector {
	c := &collector{live: [1]metrics.Sample{{Name: "/gc/heap/live:bytes"}}}
	c.adjust()
	c.afterNext()
	return c
}

// afterNext has the next collection, which finds an object that nothing refers to,
// call adjust, and so on.
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

// A process is idle below idleCores over idleInterval, and busy again above
// busyCores over busyInterval, which is short: until then it has one core.
const (
	idleCores, idleInterval = 0.2, 5 * time.Second
	busyCores, busyInterval = 0.4, time.Second
)

// tendIdleness makes an idle process cheap until ctx ends, and gives it everything
// again when there is work. The process begins busy.
//
// The hundreds of timers of an idle control plane (each work queue's has two
// firings a second) would each wake a second thread that has nothing to do: with
// one core there is no second thread, which saves a quarter of the idle CPU
// time.
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

// cpuTime is the CPU time this process has used.
func cpuTime() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
