package containers_test

import (
	"fmt"
	"os/exec"
	"regexp"
	"strings"
	"testing"
)

// A machine has the processors and the memory of its type, whatever the real machine has, and its own load.
func TestProcShowsTheMachine(t *testing.T) {
	needContainers(t)
	r := newRuntime(t, t.TempDir())
	in := instance("i-a", "10.0.0.11")
	in.Type.VCPU, in.Type.MemoryMiB = 6, 3072
	m := start(t, r, in)
	for script, want := range map[string]string{
		"grep -c ^processor /proc/cpuinfo":                       "6\n",
		"grep -c '^cpu[0-9]' /proc/stat":                         "6\n",
		"nproc; nproc --all; nproc --ignore=2; nproc --ignore=9": "6\n6\n4\n1\n",
		"grep MemTotal /proc/meminfo":                            "MemTotal:        3145728 kB\n",
		"grep SwapTotal /proc/meminfo":                           "SwapTotal:             0 kB\n",
		"echo x > /proc/meminfo || echo refused":                 "refused\n",
		"unshare --user --map-root-user --mount --pid --fork mount -t proc none /proc && echo mounted": "mounted\n",
	} {
		if got := run(t, m, "sh", "-c", "{ "+script+"; } 2> /dev/null"); got != want {
			t.Errorf("%s: %q, want %q", script, got, want)
		}
	}
	if got := run(t, m, "cat", "/proc/loadavg"); !regexp.MustCompile(`^\d+\.\d\d \d+\.\d\d \d+\.\d\d 1/\d+ \d+\n$`).MatchString(got) {
		t.Errorf("load %q", got)
	}
	if _, err := exec.LookPath("top"); err == nil {
		if got := run(t, m, "sh", "-c", "TERM=dumb top -b -n 1 | head -n 5"); !strings.Contains(got, "MiB Mem :   3072.0 total") {
			t.Errorf("%s", got)
		}
	}
	// A busy program appears in the statistics, and a large one in the memory.
	before := run(t, m, "awk", `$1 == "cpu" {print $2 + $4}`, "/proc/stat")
	run(t, m, "sh", "-c", `timeout 600 sh -c 'while :; do :; done' > /dev/null 2>&1 & { head -c 200000000 /dev/zero; sleep 600; } | timeout 600 tail > /dev/null 2>&1 &`)
	eventually(t, func() error {
		var was, is, used int
		if _, err := fmt.Sscan(before+run(t, m, "awk", `$1 == "cpu" {print $2 + $4} /^MemTotal/ {t = $2} /^MemAvailable/ {print t - $2}`, "/proc/stat", "/proc/meminfo"), &was, &is, &used); err != nil {
			return err
		}
		if is < was+100 || used < 195312 {
			return fmt.Errorf("%d hundredths of a second, then %d; %d kB used", was, is, used)
		}
		return nil
	})
}
