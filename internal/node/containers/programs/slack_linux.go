package programs

import (
	"os"
	"strconv"
	"time"
)

// slack is how late the kernel may end the waits of the kubelet and containerd. drydock-runc takes it back for containers.
const slack = 4 * time.Millisecond

// relax lets the kernel end several waits of this process together. Of the CPU time of an idle kubelet a third is spent on waking
// up: for its dozens of timers, which fire up to ten times a second, and each time also for the monitor of the Go runtime.
// Threads inherit it from those that start them. https://man7.org/linux/man-pages/man5/proc_pid_timerslack_ns.5.html
func relax() {
	tasks, _ := os.ReadDir("/proc/self/task") // without it, the process only takes more time
	for _, t := range tasks {
		_ = os.WriteFile("/proc/"+t.Name()+"/timerslack_ns", strconv.AppendInt(nil, slack.Nanoseconds(), 10), 0)
	}
}
