package store

import (
	"runtime"
)

// InTransaction reports whether it is called from within the function of an Update. That
// function may run several times and must have no effect but through its Tx, so nothing
// that has one may be called there. It looks at the stack: nobody needs to pass anything on.
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
