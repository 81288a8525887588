package child

import (
	"context"
	"runtime"
	"runtime/debug"
	"syscall"
	"time"
)

// How eagerly garbage is collected, as for GOGC. A busy process makes a lot of it,
// and collecting it often takes a quarter of its CPU time; an idle one had better
// be small. The limit makes collecting more frequent again before a large cluster
// takes the machine's memory.
const (
	busyGC      = 400
	idleGC      = 50
	memoryLimit = 2 << 30
)

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
// firings a second) would each wake a second thread that finds nothing to do: on
// one core there is none to wake, which saves a quarter of the idle CPU time.
func tendIdleness(ctx context.Context) {
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
			debug.SetGCPercent(idleGC)
			debug.FreeOSMemory()
			runtime.GOMAXPROCS(1)
			busy, interval = false, busyInterval
		case !busy && used > busyCores:
			runtime.GOMAXPROCS(cores)
			debug.SetGCPercent(busyGC)
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
