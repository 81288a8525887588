package cli

import (
	"bytes"
	"context"
	"errors"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"os/signal"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/drydock-dev/drydock/internal/api"
)

// TestMain is also the daemon of TestDown.
// It is also the programs that drydock run starts first, and one that runs such a program (TestPodDiesWithRun).
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && slices.Contains([]string{podViewCommand, trustCommand, trustViewCommand}, os.Args[1]) {
		runtime.LockOSThread()
		go func() { // on another thread than the first, as it may happen
			os.Exit(Run(context.Background(), os.Args[1:], Streams{In: os.Stdin, Out: os.Stdout, Err: os.Stderr}, Config{}))
		}()
		select {}
	}
	switch os.Getenv("TEST_DAEMON") {
	case "":
		os.Exit(m.Run())
	case "run":
		o := &globalOptions{streams: Streams{In: os.Stdin, Out: os.Stdout, Err: os.Stderr}}
		_ = o.runChild(podFiles{os.Getenv("TEST_DIR")}.ways("/bin/sh", []string{"sh", "-c", "echo $$; exec sleep 1000"}, nil)...) // it is killed
		os.Exit(1)
	case "deaf":
		signal.Ignore(syscall.SIGTERM)
	}
	_, _ = os.Stdout.WriteString("up\n")
	_, _ = os.Stdin.Read(make([]byte, 1)) // until the test ends
	os.Exit(0)
}

// startFake starts a process that ends by SIGTERM unless it is deaf.
func startFake(t *testing.T, kind string) *exec.Cmd {
	t.Helper()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), exe)
	cmd.Env = append(os.Environ(), "TEST_DAEMON="+kind)
	if _, err := cmd.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan struct{})
	t.Cleanup(func() {
		_ = cmd.Process.Kill() // it may be gone
		<-ended
	})
	_, err = out.Read(make([]byte, 3))
	go func() {
		defer close(ended)
		_ = cmd.Wait() // however it ends
	}()
	if err != nil {
		t.Fatal(err)
	}
	return cmd
}

// A daemon that was suspended answers nothing, and can still be stopped.
func TestDownOfAStoppedDaemon(t *testing.T) {
	ln, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0") // and nobody accepts
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	fake := startFake(t, "polite")
	if err := fake.Process.Signal(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	if err := api.WriteInfo(api.DaemonInfo{PID: fake.Process.Pid, URL: "http://" + ln.Addr().String(), DataDir: dir}); err != nil {
		t.Fatal(err)
	}
	code, _, stderr := run(t, dir, "down")
	if code != 0 || !strings.Contains(stderr, "Drydock is down") || strings.Contains(stderr, "killed") || alive(fake.Process.Pid) {
		t.Errorf("exit code %d, alive %v, %s", code, alive(fake.Process.Pid), stderr)
	}
}

// A daemon that does not heed SIGTERM is killed.
func TestDownOfADeafDaemon(t *testing.T) {
	fake := startFake(t, "deaf")
	pings := httptest.NewServer(http.NotFoundHandler())
	defer pings.Close()
	dir := t.TempDir()
	info := api.DaemonInfo{PID: fake.Process.Pid, URL: pings.URL, DataDir: dir}
	if err := api.WriteInfo(info); err != nil {
		t.Fatal(err)
	}
	var errs bytes.Buffer
	o := &globalOptions{dataDir: dir, streams: Streams{Err: &errs}}
	if err := o.stop(t.Context(), info, 100*time.Millisecond); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(errs.String(), "will be killed. No data is lost") || alive(info.PID) {
		t.Errorf("alive %v, %q", alive(info.PID), errs.String())
	}
	if _, err := o.readInfo(); !errors.Is(err, errNotRunning) {
		t.Errorf("it counts as running: %v", err)
	}
	if _, err := os.Stat(api.InfoFile(dir)); err != nil {
		t.Errorf("its disk was written to: %v", err)
	}
}
