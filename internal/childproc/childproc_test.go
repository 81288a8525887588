package childproc_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/drydock-dev/drydock/internal/childproc"
)

// TestMain makes the test program its own child.
func TestMain(m *testing.M) {
	if code, ok := modes().Dispatch(context.Background(), os.Args); ok {
		os.Exit(code)
	}
	os.Exit(m.Run())
}

func modes() childproc.Modes {
	return childproc.Modes{
		"echo": func(ctx context.Context, env childproc.Env) int {
			_ = env.Report(append([]byte("got "), env.Config...))
			<-ctx.Done()
			return 0
		},
		"crash": func(_ context.Context, env childproc.Env) int {
			_ = env.Report([]byte("crashing"))
			fmt.Fprintln(os.Stderr, "out of luck")
			return 3
		},
		"deaf": func(_ context.Context, env childproc.Env) int {
			_ = env.Report([]byte("up"))
			select {}
		},
		// A child that ends when it is asked to.
		"polite": func(ctx context.Context, env childproc.Env) int {
			_ = env.Report([]byte("up"))
			for {
				msg, err := env.Receive(ctx)
				if err != nil {
					return 1
				}
				_ = env.Report(append([]byte("heard "), msg...))
				if string(msg) == "bye" {
					return 0
				}
			}
		},
		"chatty": func(ctx context.Context, env childproc.Env) int {
			for i := range 2000 {
				fmt.Printf("line %d %s\n", i, strings.Repeat("x", 80))
			}
			_ = env.Report([]byte("said it"))
			<-ctx.Done()
			return 0
		},
		// A daemon with a child of its own, whose process ID it reports.
		"parent": func(ctx context.Context, env childproc.Env) int {
			s := childproc.Supervise(ctx, childproc.Spec{
				Mode:      "deaf",
				Config:    func() ([]byte, error) { return nil, nil },
				OnStart:   func(pid int) { _ = env.Report([]byte(strconv.Itoa(pid))) },
				LogFile:   filepath.Join(string(env.Config), "grandchild.log"),
				StopGrace: 50 * time.Millisecond,
			})
			<-s.Done()
			return 0
		},
	}
}

// A run is a supervised child with events that a test can wait for.
type run struct {
	*childproc.Supervisor
	starts  chan int
	reports chan string
	exits   chan error
	logFile string
}

func supervise(t *testing.T, mode string, config []byte, change func(*childproc.Spec)) *run {
	t.Helper()
	r := &run{
		starts: make(chan int, 100), reports: make(chan string, 100), exits: make(chan error, 100),
		logFile: filepath.Join(t.TempDir(), "child.log"),
	}
	spec := childproc.Spec{
		Mode:       mode,
		Config:     func() ([]byte, error) { return config, nil },
		OnStart:    func(pid int) { r.starts <- pid },
		OnReport:   func(msg []byte) { r.reports <- string(msg) },
		OnExit:     func(err error) { r.exits <- err },
		LogFile:    r.logFile,
		MinBackoff: time.Millisecond,
	}
	if change != nil {
		change(&spec)
	}
	r.Supervisor = childproc.Supervise(t.Context(), spec)
	t.Cleanup(r.Stop)
	return r
}

func next[T any](t *testing.T, what string, ch chan T) T {
	t.Helper()
	select {
	case v := <-ch:
		return v
	case <-time.After(time.Minute):
		t.Fatalf("waited too long for %s", what)
		panic("unreachable")
	}
}

// awaitGone waits until no process has the ID, or only one that has not been reaped yet: an orphan's new parent may
// take its time.
func awaitGone(t *testing.T, pid int) {
	t.Helper()
	deadline := time.NewTimer(time.Minute)
	defer deadline.Stop()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for alive(pid) {
		select {
		case <-tick.C:
		case <-deadline.C:
			t.Fatalf("process %d is still there", pid)
		}
	}
}

func alive(pid int) bool {
	if errors.Is(syscall.Kill(pid, 0), syscall.ESRCH) {
		return false
	}
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	_, state, _ := strings.Cut(string(stat), ") ")
	return err != nil || !strings.HasPrefix(state, "Z")
}

func TestConfigurationAndReportsTravelByPipe(t *testing.T) {
	secret := bytes.Repeat([]byte("secret "), 100_000) // more than a pipe holds
	r := supervise(t, "echo", secret, nil)
	pid := next(t, "start", r.starts)
	if got := next(t, "report", r.reports); got != "got "+string(secret) {
		t.Errorf("report of %d bytes, want the %d of the configuration", len(got), len(secret))
	}
	for _, name := range []string{"cmdline", "environ"} {
		b, err := os.ReadFile(fmt.Sprintf("/proc/%d/%s", pid, name))
		if err == nil && bytes.Contains(b, []byte("secret")) {
			t.Errorf("the configuration shows in /proc/PID/%s", name)
		}
	}
	r.Stop()
	awaitGone(t, pid)
	if got := len(r.exits); got != 1 {
		t.Errorf("%d exits, want 1", got)
	}
}

func TestACrashedChildIsStartedAgain(t *testing.T) {
	r := supervise(t, "crash", nil, nil)
	for range 3 {
		next(t, "start", r.starts)
		next(t, "report", r.reports)
		if err := next(t, "exit", r.exits); err == nil || !strings.Contains(err.Error(), "exit status 3") {
			t.Errorf("exit: %v, want status 3", err)
		}
	}
	if tail := childproc.LogTail(r.logFile); !strings.HasPrefix(tail, "out of luck\nout of luck") {
		t.Errorf("log tail %q", tail)
	}
}

func TestAKilledChildIsStartedAgain(t *testing.T) {
	r := supervise(t, "echo", nil, nil)
	pid := next(t, "start", r.starts)
	next(t, "report", r.reports)
	if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	if err := next(t, "exit", r.exits); err == nil || !strings.Contains(err.Error(), "killed") {
		t.Errorf("exit: %v, want killed", err)
	}
	if again := next(t, "start", r.starts); again == pid {
		t.Errorf("started again as the same process")
	}
	next(t, "report", r.reports)
}

func TestRestartNowEndsTheBackoff(t *testing.T) {
	r := supervise(t, "crash", nil, func(s *childproc.Spec) { s.MinBackoff, s.MaxBackoff = time.Hour, time.Hour })
	next(t, "exit", r.exits)
	next(t, "start", r.starts)
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for range 10_000 {
		r.RestartNow() // the supervisor may not be waiting yet
		select {
		case <-r.starts:
			return
		case <-tick.C:
		}
	}
	t.Fatal("not started again")
}

func TestAChildThatDoesNotStopIsKilled(t *testing.T) {
	r := supervise(t, "deaf", nil, func(s *childproc.Spec) { s.StopGrace = 50 * time.Millisecond })
	pid := next(t, "start", r.starts)
	next(t, "report", r.reports)
	r.Stop()
	awaitGone(t, pid)
}

func TestKillDoesNotWaitForTheChild(t *testing.T) {
	r := supervise(t, "deaf", nil, func(s *childproc.Spec) { s.StopGrace = time.Hour })
	pid := next(t, "start", r.starts)
	next(t, "report", r.reports)
	r.Kill()
	awaitGone(t, pid)
	r.Kill()
}

func TestAChildIsSentMessagesUntilItRetires(t *testing.T) {
	r := supervise(t, "polite", nil, nil)
	next(t, "the child", r.reports)
	if err := r.Send([]byte("hello")); err != nil {
		t.Fatal(err)
	}
	if got := next(t, "the answer", r.reports); got != "heard hello" {
		t.Errorf("report %q", got)
	}
	r.Retire([]byte("bye"), time.Minute)
	if got := next(t, "the farewell", r.reports); got != "heard bye" {
		t.Errorf("report %q", got)
	}
	next(t, "the exit", r.exits)
	select {
	case <-r.Done():
	default:
		t.Error("the child is still supervised")
	}
	if len(r.starts) != 1 {
		t.Error("the child was started again")
	}
	if err := r.Send([]byte("hello")); err == nil {
		t.Error("a message was sent to a child that has ended")
	}
}

func TestAChildThatDoesNotRetireIsKilled(t *testing.T) {
	r := supervise(t, "deaf", nil, nil)
	next(t, "the child", r.reports)
	r.Retire([]byte("bye"), 10*time.Millisecond)
	next(t, "the exit", r.exits)
}

func TestTheLogIsBounded(t *testing.T) {
	const limit = 20_000
	r := supervise(t, "chatty", nil, func(s *childproc.Spec) { s.LogLimit = limit })
	next(t, "report", r.reports)
	r.Stop()
	for _, path := range []string{r.logFile, r.logFile + ".1"} {
		st, err := os.Stat(path)
		if err != nil {
			t.Fatal(err)
		}
		// One write may be larger than what is left, and is not split.
		if st.Size() > limit+64<<10 {
			t.Errorf("%s has %d bytes, limit %d", filepath.Base(path), st.Size(), limit)
		}
		if st.Mode().Perm() != 0o600 {
			t.Errorf("%s is %s", filepath.Base(path), st.Mode())
		}
	}
	if tail := childproc.LogTail(r.logFile); !strings.Contains(tail, "line 1999 ") || strings.HasPrefix(tail, "x") {
		t.Errorf("log tail does not end with the last whole lines: %q", tail)
	}
}

// The last write may have filled the file, and the new one is empty then.
func TestTheLogTailReachesIntoTheFileBefore(t *testing.T) {
	path := filepath.Join(t.TempDir(), "child.log")
	for _, tc := range []struct{ before, now, want string }{
		{"one\ntwo\n", "", "one\ntwo"},
		{"one\ntwo\n", "three\n", "one\ntwo\nthree"},
		{strings.Repeat("x", 5000) + "\ntwo\n", "three\n", "two\nthree"},
		{"one\n", strings.Repeat("x", 5000) + "\nthree\n", "three"},
	} {
		for name, text := range map[string]string{path + ".1": tc.before, path: tc.now} {
			if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		if got := childproc.LogTail(path); got != tc.want {
			t.Errorf("after %.10q and %.10q: %.20q, want %q", tc.before, tc.now, got, tc.want)
		}
	}
}

func TestAFailingPreparationIsTriedAgain(t *testing.T) {
	fails := 2
	r := supervise(t, "echo", nil, func(s *childproc.Spec) {
		s.Config = func() ([]byte, error) {
			if fails--; fails >= 0 {
				return nil, errors.New("disk full")
			}
			return []byte("config"), nil
		}
	})
	for range 2 {
		if err := next(t, "exit", r.exits); err == nil || !strings.Contains(err.Error(), "disk full") {
			t.Errorf("exit: %v", err)
		}
	}
	if got := next(t, "report", r.reports); got != "got config" {
		t.Errorf("report %q", got)
	}
}

// The parent is killed without a chance to clean up, and its child ignores the pipe. On Linux the kernel therefore
// ends the child.
func TestAKilledParentLeavesNoChild(t *testing.T) {
	r := supervise(t, "parent", []byte(t.TempDir()), nil)
	parent := next(t, "start", r.starts)
	child, err := strconv.Atoi(next(t, "report", r.reports))
	if err != nil {
		t.Fatal(err)
	}
	if err := syscall.Kill(child, 0); err != nil {
		t.Fatalf("the grandchild is not there: %v", err)
	}
	if err := syscall.Kill(parent, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	awaitGone(t, child)
}

func TestDispatchLeavesOtherCommandsAlone(t *testing.T) {
	for _, tc := range []struct {
		name string
		args []string
		code int
		ok   bool
	}{
		{"no arguments", []string{"drydock"}, 0, false},
		{"a command", []string{"drydock", "up", "-d"}, 0, false},
		{"unknown mode", []string{"drydock", "be-child", "nothing"}, 2, true},
		{"a mode as an argument of another command", []string{"drydock", "be-child", "echo", "x"}, 0, false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if code, ok := modes().Dispatch(t.Context(), tc.args); code != tc.code || ok != tc.ok {
				t.Errorf("Dispatch = %d, %v, want %d, %v", code, ok, tc.code, tc.ok)
			}
		})
	}
}
