// Package idle reduces the cost of processes that have nothing to do.
package idle

import (
	"context"
	"runtime"
	"runtime/debug"
	"syscall"
	"time"
)

// A process is idle below idleCores over idleInterval, and busy again above busyCores over busyInterval. The latter
// is short, because until then the process only has one core.
const (
	idleCores, idleInterval = 0.2, 5 * time.Second
	busyCores, busyInterval = 0.4, time.Second
)

// Tend makes this process cheap while it is idle, and removes the limits when there is work, until ctx ends. The process
// starts as busy. changed is called when that changes.
//
// Each of the hundreds of timers of an idle control plane or kubelet (each work queue's fires twice a second) would also
// wake a second thread that has nothing to do. With one core there is no second thread, which saves a quarter of the idle
// CPU time.
func Tend(ctx context.Context, changed func(idle bool)) {
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
			changed(true)
			debug.FreeOSMemory()
			runtime.GOMAXPROCS(1)
			busy, interval = false, busyInterval
		case !busy && used > busyCores:
			runtime.GOMAXPROCS(cores)
			changed(false)
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
