package inside

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"sync"
)

// boundProcesses bounds the processes of this process namespace, with those of namespaces below it. Kernels before Linux 6.14
// cannot do that for one namespace, and do not let machines do it for all.
func boundProcesses(n int) {
	reserveThreads(16)
	if n > 0 {
		_ = os.WriteFile("/proc/sys/kernel/pid_max", []byte(strconv.Itoa(n)), 0)
	}
}

// reserveThreads starts n threads, which the Go runtime keeps. It ends a process that needs one more and cannot start it, which
// would be the machine's first process when others have taken all process IDs.
func reserveThreads(n int) {
	var started, ended sync.WaitGroup
	started.Add(n)
	for range n {
		ended.Go(func() {
			runtime.LockOSThread()
			started.Done()
			started.Wait()
			runtime.UnlockOSThread() // a thread that is locked would end with its goroutine
		})
	}
	ended.Wait()
}

// prepareCgroups moves this process into a leaf, because a group with controllers for its children has no processes.
func prepareCgroups(noLimits bool) error {
	if err := intoLeaf(hostCgroup, "host"); err != nil {
		return err
	}
	if noLimits {
		return nil
	}
	return enableControllers(hostCgroup)
}

func intoLeaf(cgroup, name string) error {
	leaf := filepath.Join(cgroup, name)
	if err := os.Mkdir(leaf, 0o755); err != nil && !errors.Is(err, os.ErrExist) {
		return err
	}
	return os.WriteFile(filepath.Join(leaf, "cgroup.procs"), []byte(strconv.Itoa(os.Getpid())), 0)
}

func enableControllers(cgroup string) error {
	return os.WriteFile(filepath.Join(cgroup, "cgroup.subtree_control"), []byte("+cpu +memory +pids"), 0)
}

// cgroup returns the group of a machine, with its limits.
func (h *host) cgroup(cfg MachineConfig) (*os.File, error) {
	dir := filepath.Join(hostCgroup, cfg.ID)
	if err := os.Mkdir(dir, 0o755); err != nil && !errors.Is(err, os.ErrExist) {
		return nil, err
	}
	if !cfg.NoLimits {
		for name, value := range map[string]string{
			"cpu.max": fmt.Sprintf("%d 100000", cfg.CPUs*100000), "memory.max": strconv.FormatInt(cfg.MemoryBytes, 10), "pids.max": strconv.Itoa(cfg.PIDs),
		} {
			if err := os.WriteFile(filepath.Join(dir, name), []byte(value), 0); err != nil {
				return nil, err
			}
		}
	}
	return os.Open(dir)
}

// removeCgroup removes a group and those below it. What still has processes stays; the next start tries again.
func removeCgroup(dir string) {
	entries, _ := os.ReadDir(dir) // a missing group is removed
	for _, e := range entries {
		if e.IsDir() {
			removeCgroup(filepath.Join(dir, e.Name()))
		}
	}
	_ = os.Remove(dir)
}
