package soak

import (
	"context"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/aws/retry"
	"github.com/aws/aws-sdk-go-v2/credentials"

	"github.com/drydock-dev/drydock/internal/api"
	"github.com/drydock-dev/drydock/internal/testkit"
)

// A daemon is the program under test.
type daemon struct {
	t   *testing.T
	bin string
	dir string
	api.DaemonInfo
}

func start(t *testing.T) *daemon {
	t.Helper()
	bin := testkit.Program(t)
	dir, err := os.MkdirTemp("", "dds") // short: unix sockets allow about a hundred bytes
	if err != nil {
		t.Fatal(err)
	}
	d := &daemon{t: t, bin: bin, dir: dir}
	t.Cleanup(func() {
		if out, err := exec.Command(bin, "down", "--data-dir", dir).CombinedOutput(); err != nil {
			t.Errorf("drydock down: %v\n%s", err, out)
		}
		if t.Failed() {
			d.logs()
		}
		os.RemoveAll(dir)
	})
	d.up("0")
	return d
}

// up starts the daemon on a port.
func (d *daemon) up(port string) {
	d.t.Helper()
	d.drydock("up", "-d", "--port", port, "--warm-spares", "0")
	d.DaemonInfo = must(api.ReadInfo(d.dir))(d.t)
}

// crash ends the daemon by kill -9 and starts it again where it was.
func (d *daemon) crash() {
	d.t.Helper()
	u, err := url.Parse(d.URL)
	if err == nil {
		err = syscall.Kill(d.PID, syscall.SIGKILL)
	}
	if err != nil {
		d.t.Fatal(err)
	}
	deadline := time.Now().Add(time.Minute)
	for syscall.Kill(d.PID, 0) == nil {
		if time.Now().After(deadline) {
			d.t.Fatalf("process %d survives SIGKILL", d.PID)
		}
		pause(20 * time.Millisecond)
	}
	d.up(u.Port())
}

// try runs the command and returns what it printed.
func (d *daemon) try(args ...string) (string, error) {
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, d.bin, append(args, "--data-dir", d.dir)...)
	cmd.Env = append(os.Environ(), "KUBECONFIG="+filepath.Join(d.dir, "kubeconfig"), "AWS_REGION=us-east-1")
	var stderr strings.Builder
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("drydock %s: %w\n%s%s", strings.Join(args, " "), err, out, stderr.String())
	}
	return string(out), nil
}

func (d *daemon) drydock(args ...string) string {
	d.t.Helper()
	out, err := d.try(args...)
	if err != nil {
		d.t.Fatal(err)
	}
	return out
}

// logs shows the ends of the logs.
func (d *daemon) logs() {
	names, _ := filepath.Glob(filepath.Join(d.dir, "*.log"))
	for _, name := range names {
		if b, err := os.ReadFile(name); err == nil {
			d.t.Logf("== %s\n%s", name, b[max(0, len(b)-4000):])
		}
	}
}

func (d *daemon) config() aws.Config {
	return aws.Config{
		Region: "us-east-1", BaseEndpoint: &d.URL, Credentials: credentials.NewStaticCredentialsProvider("test", "test", ""),
		Retryer: func() aws.Retryer {
			return retry.NewStandard(func(o *retry.StandardOptions) {
				o.MaxAttempts, o.MaxBackoff, o.RateLimiter = 8, 500*time.Millisecond, noLimit{}
			})
		},
	}
}

// noLimit lets a client retry however often it was throttled before.
type noLimit struct{}

func (noLimit) GetToken(context.Context, uint) (func() error, error) {
	return func() error { return nil }, nil
}
func (noLimit) AddTokens(uint) error { return nil }

// A usage is the resources that the daemon and its children hold.
type usage struct {
	goroutines int // of the daemon
	files      int // open in the daemon
	childFiles int // and in its control planes
	rss        int // MiB, of the daemon
}

func (u usage) String() string {
	return fmt.Sprintf("%d goroutines, %d open files, %d in the control plane, %d MiB resident", u.goroutines, u.files, u.childFiles, u.rss)
}

func (d *daemon) usage() usage {
	d.t.Helper()
	u := usage{files: files(d.PID)}
	for _, pid := range testkit.Children(d.PID) {
		u.childFiles += files(pid)
	}
	if b, err := os.ReadFile(fmt.Sprintf("/proc/%d/statm", d.PID)); err == nil {
		if f := strings.Fields(string(b)); len(f) > 1 {
			pages, _ := strconv.Atoi(f[1])
			u.rss = pages * os.Getpagesize() >> 20
		}
	}
	text := d.goroutines()
	first, _, _ := strings.Cut(text, "\n") // goroutine profile: total 123
	_, err := fmt.Sscanf(first, "goroutine profile: total %d", &u.goroutines)
	if err != nil {
		d.t.Fatalf("%q: %v", first, err)
	}
	return u
}

// goroutines is the daemon's goroutines by their stacks, most frequent first.
func (d *daemon) goroutines() string {
	d.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	return string(must((&api.Client{Daemon: d.DaemonInfo}).Page(ctx, "goroutines"))(d.t))
}

func files(pid int) int {
	list, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", pid))
	if err != nil {
		return 0 // not Linux
	}
	return len(list)
}
