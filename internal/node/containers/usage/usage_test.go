package usage

import (
	"os"
	"path/filepath"
	"runtime"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/drydock-dev/drydock/internal/testkit/needs"
)

func TestMeasure(t *testing.T) {
	proc := t.TempDir()
	put := func(pid, cgroup, rollup string) {
		t.Helper()
		dir := filepath.Join(proc, pid)
		if err := os.Mkdir(dir, 0o755); err != nil {
			t.Fatal(err)
		}
		for name, text := range map[string]string{"cgroup": cgroup, "smaps_rollup": rollup} {
			if text == "" {
				continue
			}
			if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
				t.Fatal(err)
			}
		}
	}
	rollup := func(pss, anonymous string) string {
		return "00400000-7ffd5f5c5000 ---p 00000000 00:00 0      [rollup]\nRss:            9999 kB\nPss:   " + pss + " kB\nPss_Dirty:     7 kB\nPss_Anon:  " + anonymous + " kB\n"
	}
	put("1", "0::/\n", rollup("10", "5"))
	put("20", "4:memory:/x\n0::/k8s.io/a\n", rollup("100", "60"))
	put("21", "0::/k8s.io/a\n", rollup("1", "1"))
	put("22", "0::/k8s.io/b\n", "") // without memory: it has ended
	put("self", "0::/k8s.io/b\n", rollup("1", "1"))
	want := map[string]Memory{
		"/": {Total: 111 << 10, Anonymous: 66 << 10}, "/k8s.io": {Total: 101 << 10, Anonymous: 61 << 10}, "/k8s.io/a": {Total: 101 << 10, Anonymous: 61 << 10},
	}
	if diff := cmp.Diff(want, Measure(proc)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	// A process that cannot be measured makes the sums unknown, not smaller.
	put("23", "0::/k8s.io/b\n", "Pss: many kB\n")
	got := Measure(proc)
	if !got["/k8s.io/b"].Unknown || !got["/"].Unknown || got["/k8s.io/a"].Unknown {
		t.Errorf("with an unreadable process: %+v", got)
	}
}

// The memory of this process is in the sum of its cgroup.
func TestMeasureOfARealProcess(t *testing.T) {
	cgroup, ok := cgroupOf("/proc/self/cgroup")
	if !ok {
		needs.Missing(t, "cgroup v2")
	}
	before := Measure("/proc")[cgroup]
	const more = 64 << 20
	b := make([]byte, more)
	for i := 0; i < len(b); i += 4096 {
		b[i] = 1
	}
	after := Measure("/proc")[cgroup]
	runtime.KeepAlive(b)
	if total, _, err := memoryOf("/proc/self/smaps_rollup"); err != nil || total < more || after.Total < total || before.Total == 0 {
		t.Errorf("before %+v, after %+v, this process %d, %v", before, after, total, err)
	}
}
