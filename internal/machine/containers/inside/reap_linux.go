package inside

import (
	"os"
	"os/signal"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// reap waits for processes that have lost their parent, as the first process of a namespace must. If a zombie is still
// there at the second look, nothing else waits for it: package os/exec always waits for its own children.
func reap() {
	ended := make(chan os.Signal, 1)
	signal.Notify(ended, syscall.SIGCHLD)
	for {
		for before := zombies(); len(before) > 0; {
			time.Sleep(time.Second)
			now := zombies()
			for pid := range now {
				if before[pid] {
					_, _ = syscall.Wait4(pid, nil, syscall.WNOHANG, nil)
				}
			}
			before = now
		}
		<-ended
	}
}

// zombies returns the ended children of this process.
func zombies() map[int]bool {
	out := map[int]bool{}
	b, err := os.ReadFile("/proc/self/task/" + strconv.Itoa(os.Getpid()) + "/children")
	if err != nil {
		return out
	}
	for f := range strings.FieldsSeq(string(b)) {
		stat, err := os.ReadFile("/proc/" + f + "/stat")
		if _, rest, ok := strings.Cut(string(stat), ") "); err == nil && ok && strings.HasPrefix(rest, "Z") {
			if pid, err := strconv.Atoi(f); err == nil {
				out[pid] = true
			}
		}
	}
	return out
}
