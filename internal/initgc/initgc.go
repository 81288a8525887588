// Package initgc keeps the garbage collector off while packages are initialized, and out of the way of short commands.
// During initialization, Kubernetes' packages and the SDK's build 30 MB of tables that live as long as the process. Scanning
// them over and over took a quarter of the CPU time of a command such as `drydock status`.
//
// Of the packages whose imports are initialized, Go initializes the one with the lowest path first, so this package must
// import next to nothing to come early.
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
