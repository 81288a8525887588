package store

import (
	"runtime"
)

// InTransaction reports whether the caller runs inside the function of an Update. That function may run several times
// and must have no effects except through its Tx, so code with other effects must not be called there. InTransaction
// inspects the stack, so callers need not pass anything along.
func InTransaction() bool {
	var pcs [128]uintptr
	frames := runtime.CallersFrames(pcs[:runtime.Callers(2, pcs[:])])
	for {
		frame, more := frames.Next()
		if frame.Function == runMethod {
			return true
		}
		if !more {
			return false
		}
	}
}

// runMethod is the method that runs the functions of transactions.
const runMethod = "github.com/drydock-dev/drydock/internal/store.(*Store).run"
