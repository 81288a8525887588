package child

import (
	"context"
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

// tendMemory gives memory back when there is little to do, and takes it again when
// there is work, until ctx ends. The process begins busy.
func tendMemory(ctx context.Context) {
	const interval = 5 * time.Second
	tick := time.NewTicker(interval)
	defer tick.Stop()
	busy, before := true, cpuTime()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		now := cpuTime()
		cores := float64(now-before) / float64(interval)
		before = now
		switch {
		case busy && cores < 0.2:
			debug.SetGCPercent(idleGC)
			debug.FreeOSMemory()
			busy = false
		case !busy && cores > 0.4:
			debug.SetGCPercent(busyGC)
			busy = true
		}
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
