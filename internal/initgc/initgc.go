// Package initgc keeps the garbage collector off while packages are initialized, and out of the way of short commands.
// Kubernetes' packages and the SDK's build tables of 30 MB then, which live as long as the process. To go through them
// again and again took a quarter of the CPU time of a command such as `drydock status`.
//
// Go initializes the packages whose imports are ready in the order of their paths, so this package should import next to
// nothing.
package initgc

import (
	"runtime"
	"runtime/debug"
)

var percent = debug.SetGCPercent(-1)

// shortLived is the GOGC with which the first collection starts at 64 MB, 16 times the runtime's minimum.
const shortLived = 1600

// On turns the collector on, and main calls it first. From the first collection on it is as eager as GOGC says, unless the
// program has set something else.
func On() {
	if percent < 0 {
		return // GOGC=off
	}
	first := max(percent, shortLived)
	debug.SetGCPercent(first)
	runtime.AddCleanup(new([64]byte), func(int) {
		if now := debug.SetGCPercent(percent); now != first {
			debug.SetGCPercent(now)
		}
	}, 0)
}
