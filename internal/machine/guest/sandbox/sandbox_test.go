package sandbox_test

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/drydock-dev/drydock/internal/childproc"
	"github.com/drydock-dev/drydock/internal/machine/guest/sandbox"
	"github.com/drydock-dev/drydock/internal/machine/guest/shell"
	"github.com/drydock-dev/drydock/internal/machine/guest/vfs"
	"github.com/drydock-dev/drydock/internal/testkit"
)

// The test binary is the child as well.
func TestMain(m *testing.M) {
	main := sandbox.Main
	if len(os.Args) > 1 {
		switch os.Args[1] {
		case greedy:
			main = sandbox.Greedy
		case deaf:
			main = sandbox.Deaf
		}
	}
	if code, ok := (childproc.Modes{sandbox.Mode: main}).Dispatch(context.Background(), os.Args); ok {
		os.Exit(code)
	}
	os.Exit(m.Run())
}

// The arguments that make a child sandbox.Greedy or sandbox.Deaf.
const (
	greedy = "greedy"
	deaf   = "deaf"
)

func newPool(t testing.TB, cfg sandbox.Config) *sandbox.Pool {
	t.Helper()
	p := sandbox.NewPool(cfg)
	t.Cleanup(p.Close)
	return p
}

func run(t testing.TB, p *sandbox.Pool, f *vfs.FS, script string, outside func(context.Context, *shell.Call) (int, bool)) (string, shell.Result, error) {
	t.Helper()
	var out bytes.Buffer
	res, err := p.Run(t.Context(), shell.Job{FS: f, Script: []byte(script), Name: "s", Stdout: &out, Stderr: &out, Outside: outside})
	return out.String(), res, err
}

func newFS(t testing.TB) *vfs.FS {
	t.Helper()
	f := vfs.New(vfs.DefaultLimits, nil)
	if err := f.MkdirAll("/tmp", 0o755); err != nil {
		t.Fatal(err)
	}
	return f
}

func TestScriptsRunInAChild(t *testing.T) {
	p, f := newPool(t, sandbox.Config{}), newFS(t)
	outside := func(_ context.Context, c *shell.Call) (int, bool) {
		if c.Args[0] != "ask" {
			return 0, false
		}
		in, _ := io.ReadAll(c.Stdin)
		before, _ := c.FS.ReadFile("/tmp/before")
		fmt.Fprintf(c.Stdout, "%s|%s|%s|%s\n", c.Args[1], c.Getenv("X"), in, before)
		fmt.Fprintln(c.Stderr, "complaint")
		return 5, c.FS.WriteFile("/tmp/made", []byte("outside"), 0o644) == nil
	}
	out, res, err := run(t, p, f, "export X=x; echo old > /tmp/before; echo -n in | ask a | tee /tmp/teed; cat /tmp/made; ask b || exit $?; echo no", outside)
	if err != nil || res.Status != 5 {
		t.Fatalf("%+v, %v\n%s", res, err, out)
	}
	if want := "a|x|in|old\n\n"; !strings.Contains(out, want) || !strings.Contains(out, "complaint\n") || !strings.Contains(out, "outside") || strings.Contains(out, "no\n") {
		t.Errorf("%q", out)
	}
	for name, want := range map[string]string{"/tmp/teed": "a|x|in|old\n\n", "/tmp/made": "outside", "/tmp/before": "old\n"} {
		if b, err := f.ReadFile(name); err != nil || string(b) != want {
			t.Errorf("%s: %q, %v", name, b, err)
		}
	}
	out, res, err = run(t, p, f, "nope", nil)
	if err != nil || res.Status != 127 || out != "s: line 1: nope: command not found\n" {
		t.Errorf("%q, %+v, %v", out, res, err)
	}
}

func TestManyProgramsAtOnce(t *testing.T) {
	p := newPool(t, sandbox.Config{})
	var mu sync.Mutex
	now, most := 0, 0
	out, res, err := run(t, p, newFS(t), "for i in $(seq 50); do ask $i & done; wait; echo done", func(_ context.Context, c *shell.Call) (int, bool) {
		if c.Args[0] != "ask" {
			return 0, false
		}
		mu.Lock()
		now++
		most = max(most, now)
		mu.Unlock()
		fmt.Fprintln(c.Stdout, "answer", c.Args[1])
		mu.Lock()
		now--
		mu.Unlock()
		return 0, true
	})
	if err != nil || res.Status != 0 || strings.Count(out, "answer ") != 50 || !strings.HasSuffix(out, "done\n") || most > 4 {
		t.Errorf("%+v, %v, %d at once\n%s", res, err, most, out)
	}
}

// Whatever a script does to its interpreter, the next one works.
func TestRunawaysAreKilled(t *testing.T) {
	p := newPool(t, sandbox.Config{Timeout: 2 * time.Minute})
	for name, tc := range map[string]struct {
		script string
		want   error
	}{
		"a recursion": {"f() { f; }; f", nil},
		"eval":        {"x='eval \"$x\"'; eval \"$x\"", nil},
		"memory":      {"x=0123456789; while true; do x=$x$x$x$x; done", sandbox.ErrKilled},
		"braces":      {"echo {1..10000}{1..10000}{1..10000}", nil}, // refused by the interpreter
		"commands":    {"while true; do :; done", shell.ErrTooManyCommands},
	} {
		t.Run(name, func(t *testing.T) {
			_, res, err := run(t, p, newFS(t), tc.script, nil)
			if tc.want != nil && !errors.Is(err, tc.want) {
				t.Errorf("%+v, %v", res, err)
			}
			if out, res, err := run(t, p, newFS(t), "echo fine", nil); err != nil || out != "fine\n" {
				t.Errorf("the next script: %q, %+v, %v", out, res, err)
			}
		})
	}
}

// Nothing of one script is visible to the next, which belongs to another machine. All scripts together take no more
// memory than ten processes may have, however many processors there are.
func TestFewScriptsAtOnce(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(64))
	p := newPool(t, sandbox.Config{})
	const most = 10
	var mu sync.Mutex
	running, tooMany := 0, 0
	full := make(chan struct{})
	var scripts sync.WaitGroup
	for range most + 4 {
		scripts.Go(func() {
			_, res, err := run(t, p, newFS(t), "ask", func(ctx context.Context, _ *shell.Call) (int, bool) {
				mu.Lock()
				if running++; running == most {
					close(full)
				}
				tooMany = max(tooMany, running)
				mu.Unlock()
				select {
				case <-full: // all that may run do
				case <-ctx.Done():
				}
				mu.Lock()
				running--
				mu.Unlock()
				return 0, true
			})
			if err != nil || res.Status != 0 {
				t.Errorf("%+v, %v", res, err)
			}
		})
	}
	scripts.Wait()
	if tooMany != most {
		t.Errorf("%d scripts at once, want %d", tooMany, most)
	}
}

func TestScriptsShareNothing(t *testing.T) {
	p := newPool(t, sandbox.Config{Size: 1})
	for range 5 {
		if _, res, err := run(t, p, newFS(t), "(while true; do echo leak; done) & dd if=/dev/zero bs=1024 count=100000 & sleep 0.02", nil); err != nil && !errors.Is(err, shell.ErrTooManyCommands) || res.Status != 0 && err == nil {
			t.Fatalf("%+v, %v", res, err)
		}
		if out, _, err := run(t, p, newFS(t), "echo clean", nil); err != nil || out != "clean\n" {
			t.Fatalf("the next script printed %d bytes: %.40q, %v", len(out), out, err)
		}
	}
}

// A program in the parent that does not answer delays only its own script.
func TestUnansweredPrograms(t *testing.T) {
	p := newPool(t, sandbox.Config{Size: 1})
	for range 3 {
		out, res, err := run(t, p, newFS(t), "timeout 0.1 ask; echo $?; ask & echo end", func(ctx context.Context, c *shell.Call) (int, bool) {
			if c.Args[0] != "ask" {
				return 0, false
			}
			<-ctx.Done()
			return 1, true
		})
		if err != nil || res.Status != 0 || out != "124\nend\n" {
			t.Fatalf("%q, %+v, %v", out, res, err)
		}
		if out, _, err := run(t, p, newFS(t), "echo clean", nil); err != nil || out != "clean\n" {
			t.Fatalf("%q, %v", out, err)
		}
	}
}

// A script may end while more programs want to run than may, and while their output is more than a pipe holds.
// Without care both sides would wait for each other.
func TestProgramsLeftBehind(t *testing.T) {
	p := newPool(t, sandbox.Config{Size: 1, Timeout: time.Second})
	much := bytes.Repeat([]byte("much "), 1<<17)
	for range 3 {
		_, _, err := run(t, p, newFS(t), "head -c 300000 /dev/zero > /tmp/f; for i in $(seq 60); do ask < /tmp/f & done; sleep 0.3", func(ctx context.Context, c *shell.Call) (int, bool) {
			if c.Args[0] != "ask" {
				return 0, false
			}
			ctx, cancel := context.WithTimeout(ctx, time.Second/2) // the script ends before that
			defer cancel()
			<-ctx.Done()
			_, _ = c.Stdout.Write(much)
			return 0, true
		})
		if err != nil && !errors.Is(err, sandbox.ErrTimeout) && !errors.Is(err, sandbox.ErrKilled) {
			t.Error(err)
		}
		if out, _, err := run(t, p, newFS(t), "echo clean", nil); err != nil || out != "clean\n" {
			t.Fatalf("%.100q, %v", out, err)
		}
	}
}

// Programs in the parent get no more arguments than Linux gives a program.
func TestManyArguments(t *testing.T) {
	asked := 0
	outside := func(_ context.Context, c *shell.Call) (int, bool) {
		if c.Args[0] != "ask" {
			return 0, false
		}
		asked++
		fmt.Fprintln(c.Stdout, len(c.Args))
		return 0, true
	}
	out, _, err := run(t, newPool(t, sandbox.Config{}), newFS(t), "ask $(seq 100000); echo $?; ask $(seq 200000); echo $?", outside)
	if want := "100001\n0\nArgument list too long\n126\n"; err != nil || out != want || asked != 1 {
		t.Errorf("%.200q, asked %d times, %v", out, asked, err)
	}
}

func TestAProgramThatPanics(t *testing.T) {
	out, res, err := run(t, newPool(t, sandbox.Config{}), newFS(t), "ask; echo $?", func(context.Context, *shell.Call) (int, bool) {
		panic("a mistake of ours")
	})
	if err != nil || res.Status != 0 || out != "ask: Segmentation fault\n139\n" {
		t.Errorf("%q, %+v, %v", out, res, err)
	}
}

// What a script has written before it was killed is on the disk.
func TestALateScriptKeepsItsFiles(t *testing.T) {
	p, f := newPool(t, sandbox.Config{Timeout: 3 * time.Second}), newFS(t)
	if _, _, err := run(t, p, f, "echo early > /tmp/f; sleep 100; echo late > /tmp/f", nil); !errors.Is(err, sandbox.ErrTimeout) {
		t.Error(err)
	}
	if b, err := f.ReadFile("/tmp/f"); err != nil || string(b) != "early\n" {
		t.Errorf("%q, %v", b, err)
	}
}

// TestLargeFiles runs a script on a disk with a file of 64 MiB, which a program reads and the script copies and writes.
func TestLargeFiles(t *testing.T) {
	size := 64 << 20
	if testing.Short() { // the race detector's memory comes on top, and a child has a bound
		size = 4 << 20
	}
	p, f := newPool(t, sandbox.Config{}), vfs.New(vfs.Limits{Bytes: int64(size) * 5 / 4, Files: 100}, nil)
	data := bytes.Repeat([]byte("0123456789abcdef"), size/16)
	if err := f.WriteFile("/data", data, 0o644); err != nil {
		t.Fatal(err)
	}
	outside := func(_ context.Context, c *shell.Call) (int, bool) {
		if c.Args[0] != "length" {
			return 0, false
		}
		b, err := c.FS.ReadFile("/data")
		fmt.Fprintln(c.Stdout, len(b), err, c.FS.WriteFile("/length", fmt.Append(nil, len(b)), 0o644))
		return 0, true
	}
	out, res, err := run(t, p, f, "sha256sum /data; length; cp /data /copy; echo $?; rm -f /copy; length; mv /data /moved; printf X >> /moved; wc -c /moved", outside)
	want := fmt.Sprintf("%x  /data\n%d <nil> <nil>\n", sha256.Sum256(data), size)
	if err != nil || res.Status != 0 || !strings.HasPrefix(out, want) || !strings.Contains(out, "No space left on device") || !strings.HasSuffix(out, fmt.Sprintf("%d /moved\n", size+1)) {
		t.Errorf("%q, %v, %v", out, res, err)
	}
	if b, err := f.ReadFile("/moved"); err != nil || len(b) != size+1 || !bytes.Equal(b[:size], data) {
		t.Errorf("%d bytes, %v", len(b), err)
	}
	if b, err := f.ReadFile("/length"); err != nil || string(b) != fmt.Sprint(size) {
		t.Errorf("%q, %v", b, err)
	}
}

// TestAFullDisk runs a script on a full disk that makes room before it writes.
func TestAFullDisk(t *testing.T) {
	p, f := newPool(t, sandbox.Config{}), vfs.New(vfs.Limits{Bytes: 12 << 20, Files: 100}, nil)
	if err := f.WriteFile("/z", make([]byte, 12<<20), 0o644); err != nil {
		t.Fatal(err)
	}
	out, res, err := run(t, p, f, "set -e; echo x > /z; dd if=/dev/zero of=/a bs=1M count=11 2> /dev/null", nil)
	if err != nil || res.Status != 0 {
		t.Errorf("%q, %v, %v", out, res, err)
	}
	if i, err := f.Stat("/a"); err != nil || i.Size() != 11<<20 {
		t.Errorf("%v, %v", i, err)
	}
}

// TestMemory fills the memory for the files of all scripts and programs. Programs do not start while another one, which runs for as
// long as its output is read, takes what is left. Those that run find the disk full, and scripts do not start.
func TestMemory(t *testing.T) {
	p, f := newPool(t, sandbox.Config{}), vfs.New(vfs.Limits{Bytes: 80 << 20, Files: 100}, nil)
	p.Keep(5 << 20)
	const refused = "Cannot allocate memory: the scripts and programs of all simulated machines hold too many files; try again when others have ended\n"
	holding, let := make(chan struct{}), make(chan struct{})
	outside := func(ctx context.Context, c *shell.Call) (int, bool) {
		switch c.Args[0] {
		case "ask":
			i, err := c.FS.Stat("/large")
			if err != nil {
				return 1, true
			}
			fmt.Fprintln(c.Stdout, i.Size())
			return 0, true
		case "fetch":
			if err := c.FS.WriteFile("/fetched", make([]byte, 4<<20), 0o644); err != nil {
				fmt.Fprintln(c.Stderr, err)
				return 23, true
			}
			return 0, true
		case "hold":
			close(holding)
			<-let
			return 0, true
		case "follow":
			return follow(ctx, c), true
		}
		return 0, false
	}
	for _, tt := range []struct{ script, want string }{
		{"dd if=/dev/zero of=/large bs=1M count=4 2> /dev/null; ask; follow | { read l; ask < /dev/null; echo $?; }; ask", "4194304\n" + refused + "126\n4194304\n"},
		{"fetch; echo $?; rm /large; fetch; echo $?", "open /fetched: no space left on device\n23\n0\n"},
		// What cannot be held is sent again when it can.
		{"rm /fetched; dd if=/dev/zero of=/large bs=1M count=8 2> /dev/null; ask; ask; echo $?; echo small > /large; ask; ask", refused + refused + "126\n6\n6\n"},
	} {
		if out, res, err := run(t, p, f, tt.script, outside); err != nil || res.Status != 0 || out != tt.want {
			t.Errorf("%s:\n%q, want\n%q\n%+v, %v", tt.script, out, tt.want, res, err)
		}
	}

	// Another machine's script.
	ended := make(chan error)
	go func() {
		_, _, err := run(t, p, f, "dd if=/dev/zero of=/large bs=1M count=4 2> /dev/null; hold", outside)
		ended <- err
	}()
	select {
	case <-holding:
	case err := <-ended:
		t.Fatal(err)
	}
	other := vfs.New(vfs.Limits{Bytes: 80 << 20, Files: 100}, nil)
	if err := other.WriteFile("/x", make([]byte, 5<<20), 0o644); err != nil {
		t.Fatal(err)
	}
	if out, res, err := run(t, p, other, "echo", outside); err != nil || res.Status != 254 || out != "s: fork: Cannot allocate memory\n" {
		t.Errorf("%q, %+v, %v", out, res, err)
	}
	if out, res, err := run(t, p, newFS(t), "ask || echo small > /tmp/x && cat /tmp/x", outside); err != nil || res.Status != 0 || out != "small\n" {
		t.Errorf("a small machine: %q, %+v, %v", out, res, err)
	}
	close(let)
	if err := <-ended; err != nil {
		t.Error(err)
	}
	if out, res, err := run(t, p, other, "echo fine", outside); err != nil || res.Status != 0 || out != "fine\n" {
		t.Errorf("%q, %+v, %v", out, res, err)
	}
}

// TestAStoppedJobWithLargeFiles stops a job that has begun to send large files. They arrive, because other machines wait for that,
// and the job continues when it may.
func TestAStoppedJobWithLargeFiles(t *testing.T) {
	p, f := newPool(t, sandbox.Config{}), vfs.New(vfs.Limits{Bytes: 20 << 20, Files: 100}, nil)
	awaited, let := p.HoldFrames()
	called := make(chan int64, 1)
	outside := func(_ context.Context, c *shell.Call) (int, bool) {
		if c.Args[0] != "ask" {
			return 0, false
		}
		i, err := c.FS.Stat("/large")
		if err != nil {
			t.Error(err)
			return 1, true
		}
		called <- i.Size()
		return 0, true
	}
	pause, ended := make(chan bool), make(chan error, 1)
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	var out bytes.Buffer
	go func() {
		_, err := p.Run(ctx, shell.Job{
			FS: f, Script: []byte("dd if=/dev/zero of=/large bs=1M count=10 2> /dev/null; ask; echo $?"), Stdin: strings.NewReader(""), Stdout: &out, Stderr: &out,
			Outside: outside, Terminal: true, Pause: pause, Interrupt: make(chan struct{}),
		})
		ended <- err
	}()
	testkit.Eventually(t, time.Minute, func() error {
		if !awaited() {
			return errors.New("no large message was sent")
		}
		return nil
	})
	for range 2 { // when the second one is taken, the first one has been heeded
		select {
		case pause <- true:
		case <-ctx.Done():
			t.Fatal("the job was not stopped")
		}
	}
	let()
	select {
	case n := <-called:
		if n != 10<<20 {
			t.Errorf("%d bytes", n)
		}
	case <-ctx.Done():
		t.Error("the files did not arrive")
	}
	select {
	case pause <- false:
	case <-ctx.Done():
	}
	if err := <-ended; err != nil || out.String() != "0\n" {
		t.Errorf("%q, %v", &out, err)
	}
}

// TestCallsCarryWhatIsNew calls many programs after a large change, which is sent once.
func TestCallsCarryWhatIsNew(t *testing.T) {
	p, f := newPool(t, sandbox.Config{}), newFS(t)
	var seen []string
	outside := func(_ context.Context, c *shell.Call) (int, bool) {
		if c.Args[0] != "ask" {
			return 0, false
		}
		i, err := c.FS.Stat("/tmp/large")
		b, rerr := c.FS.ReadFile("/tmp/small")
		if err := errors.Join(err, rerr); err != nil {
			t.Error(err)
			return 1, true
		}
		seen = append(seen, fmt.Sprint(i.Size(), " ", strings.TrimSpace(string(b))))
		return 0, true
	}
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	if out, res, err := run(t, p, f, "dd if=/dev/zero of=/tmp/large bs=1M count=7 2> /dev/null; for i in $(seq 40); do echo $i > /tmp/small; ask; done", outside); err != nil || res.Status != 0 {
		t.Fatalf("%q, %+v, %v", out, res, err)
	}
	runtime.ReadMemStats(&after)
	if len(seen) != 40 || seen[0] != "7340032 1" || seen[39] != "7340032 40" {
		t.Errorf("%q", seen)
	}
	if grown := (after.TotalAlloc - before.TotalAlloc) >> 20; grown > 250 { // 40 times 7 MiB, several times each, if every call brought the file
		t.Errorf("%d MiB were allocated", grown)
	}
}

// follow is a program like tail -f: it prints lines until its output is closed or it is interrupted.
func follow(ctx context.Context, c *shell.Call) int {
	for n := 0; ; n++ {
		fmt.Fprintln(c.Stdout, "line", n)
		if err := c.Stdout.(shell.Flusher).Flush(); err != nil || ctx.Err() != nil {
			return 1
		}
		select {
		case <-time.After(time.Millisecond):
		case <-ctx.Done():
			return 130
		}
	}
}

func TestTimeout(t *testing.T) {
	p := newPool(t, sandbox.Config{Timeout: 200 * time.Millisecond, Size: 1})
	if _, _, err := run(t, p, newFS(t), "sleep 100", nil); !errors.Is(err, sandbox.ErrTimeout) {
		t.Error(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := p.Run(ctx, shell.Job{FS: newFS(t), Script: []byte("echo"), Name: "s"}); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}

func BenchmarkRun(b *testing.B) {
	p, f := newPool(b, sandbox.Config{}), newFS(b)
	for b.Loop() {
		if _, _, err := run(b, p, f, "set -e; x=1; echo $x > /tmp/x", nil); err != nil {
			b.Fatal(err)
		}
	}
}

// The result of --query is computed in the child, however large it is.
func TestQueriesOfTheAWSCLIRunInTheChild(t *testing.T) {
	p := newPool(t, sandbox.Config{})
	var asked []string
	outside := func(_ context.Context, c *shell.Call) (int, bool) {
		asked = c.Args
		fmt.Fprintln(c.Stdout, `{"a": [1, {"b": "x"}]}`)
		return 0, true
	}
	out, res, err := run(t, p, newFS(t), "aws ec2 describe-tags --query 'a[1].b' --output text --filters Name=a,Values=b; aws ec2 describe-tags --query 'a[' 2>&1 | grep -c 'Bad value for --query'", outside)
	if err != nil || res.Status != 0 || out != "x\n1\n" || strings.Join(asked, " ") != "aws ec2 describe-tags --output json" {
		t.Errorf("%q, %q, %+v, %v", out, asked, res, err)
	}
	impatient := newPool(t, sandbox.Config{Timeout: 2 * time.Second})
	out, _, err = run(t, impatient, newFS(t), `q='[@,@]'; for i in $(seq 60); do q="$q|[@,@]"; done; aws ec2 describe-tags --query "$q"`, outside)
	if !errors.Is(err, sandbox.ErrKilled) && !errors.Is(err, sandbox.ErrTimeout) {
		t.Errorf("%.100q, %v", out, err)
	}
}

// Even if a child keeps asking for input, the terminal has only one reader.
func TestOneReaderOfATerminal(t *testing.T) {
	p := newPool(t, sandbox.Config{Args: []string{greedy}})
	asked, keys := make(chan struct{}), &counted{typed: make(chan struct{})}
	go func() {
		<-asked
		close(keys.typed)
	}()
	res, err := p.Run(t.Context(), shell.Job{FS: newFS(t), Terminal: true, Name: "s", Stdin: keys, Stdout: onWrite(func() { close(asked) })})
	if n := keys.readers.Load(); err != nil || res.Status != 0 || n != 1 {
		t.Errorf("%d readers at once: %+v, %v", n, res, err)
	}
}

// TestAChildThatDoesNotReceive has large answers for a child that sends instead of receiving them, as at the end of a script. It is
// waited for once.
func TestAChildThatDoesNotReceive(t *testing.T) {
	p, f := newPool(t, sandbox.Config{Args: []string{deaf}}), vfs.New(vfs.Limits{Bytes: 20 << 20, Files: 100}, nil)
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	var out bytes.Buffer
	var asked atomic.Int32
	res, err := p.Run(ctx, shell.Job{FS: f, Name: "s", Stdout: &out, Outside: func(_ context.Context, c *shell.Call) (int, bool) {
		asked.Add(1)
		return 0, c.FS.WriteFile("/large", make([]byte, 10<<20), 0o644) == nil
	}})
	if err := cmp.Or(err, ctx.Err()); err != nil || res.Status != 0 || asked.Load() != 2 || out.Len() == 0 {
		t.Errorf("%+v, %v, asked %d times, %d bytes", res, err, asked.Load(), out.Len())
	}
}

// counted is a terminal that counts its readers. At first, nothing is typed.
type counted struct {
	typed   chan struct{}
	readers atomic.Int32
}

func (c *counted) Read(p []byte) (int, error) {
	c.readers.Add(1)
	<-c.typed
	return copy(p, "x\n"), nil
}

type onWrite func()

func (f onWrite) Write(p []byte) (int, error) {
	f()
	return len(p), nil
}

// A program's output appears while the program runs, and the program ends when its output is no longer read.
func TestProgramsThatGoOn(t *testing.T) {
	p := newPool(t, sandbox.Config{})
	ended := make(chan struct{}, 4)
	goesOn := func(ctx context.Context, c *shell.Call) (int, bool) {
		if c.Args[0] != "follow" {
			return 0, false
		}
		defer func() { ended <- struct{}{} }()
		return follow(ctx, c), true
	}
	for _, script := range []string{"follow | head -n 3", "timeout 0.2 follow | head -n 1; follow | grep -m 1 'line 7'"} {
		out, _, err := run(t, p, newFS(t), script, goesOn)
		if err != nil || !strings.HasPrefix(out, "line ") {
			t.Errorf("%s: %q, %v", script, out, err)
		}
		<-ended
	}
	for _, script := range []string{"follow", "follow | grep 'line 7'", "follow | grep -v 'line 1' | grep 7"} {
		interrupt, shown := make(chan struct{}), make(chan struct{})
		var once sync.Once
		_, err := p.Run(t.Context(), shell.Job{FS: newFS(t), Script: []byte(script), Name: "s", Terminal: true, Stdin: strings.NewReader(""), Outside: goesOn, Interrupt: interrupt,
			Stdout: onWrite(func() { once.Do(func() { close(shown); close(interrupt) }) })})
		select {
		case <-shown:
		default:
			t.Errorf("%s: nothing was shown: %v", script, err)
		}
		<-ended
	}
}

// The terminal stays usable while a program keeps running and its output is not read: other programs answer, and Ctrl-C
// ends the line.
func TestOutputThatNobodyReads(t *testing.T) {
	p := newPool(t, sandbox.Config{})
	interrupt, ended := make(chan struct{}), make(chan error, 1)
	var once sync.Once
	outside := func(ctx context.Context, c *shell.Call) (int, bool) {
		switch c.Args[0] {
		case "ask":
			fmt.Fprintln(c.Stdout, "answer")
			return 0, true
		case "follow":
			line := bytes.Repeat([]byte("much "), 1<<16)
			for ctx.Err() == nil {
				_, _ = c.Stdout.Write(line)
				if err := c.Stdout.(shell.Flusher).Flush(); err != nil {
					ended <- err
					return 1, true
				}
			}
			ended <- nil
			return 130, true
		}
		return 0, false
	}
	res, err := p.Run(t.Context(), shell.Job{
		FS: newFS(t), Script: []byte("follow | { sleep 0.2; ask; sleep 600; }"), Name: "s", Terminal: true, Stdin: strings.NewReader(""), Outside: outside, Interrupt: interrupt,
		Stdout: onWrite(func() { once.Do(func() { close(interrupt) }) }),
	})
	if err != nil || res.Status == 0 {
		t.Errorf("%+v, %v", res, err)
	}
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

// TestLongInput checks that a standard input that is too long is not cut.
func TestLongInput(t *testing.T) {
	for size, ok := range map[int]bool{1 << 20: true, 1<<20 + 1: false} {
		if b, err := sandbox.ReadInput(strings.NewReader(strings.Repeat("x", size))); (err == nil) != ok || ok && len(b) != size {
			t.Errorf("%d bytes: %d, %v", size, len(b), err)
		}
	}
	p := newPool(t, sandbox.Config{})
	outside := func(_ context.Context, c *shell.Call) (int, bool) {
		switch c.Args[0] {
		case "all":
			n, err := io.Copy(io.Discard, c.Stdin)
			fmt.Fprintln(c.Stdout, n, err)
		case "some":
			n, err := io.CopyN(io.Discard, c.Stdin, 10)
			fmt.Fprintln(c.Stdout, n, err)
		default:
			return 0, false
		}
		return 0, true
	}
	// A program that turns out to be a script gets all of it, too.
	if got, _, err := run(t, p, newFS(t), "printf 'wc -c' > /tmp/count; chmod +x /tmp/count; echo some | /tmp/count; seq 300000 | /tmp/count", outside); got != "5\n1988895\n" || err != nil {
		t.Errorf("%q, %v", got, err)
	}
	var out bytes.Buffer
	if _, err := p.Run(t.Context(), shell.Job{
		FS: newFS(t), Script: []byte("seq 300000 > f; some < f; all < f; head -c 1048576 f | all"), Name: "s", Outside: outside, Stdout: &out, Stderr: &out,
	}); err != nil {
		t.Fatal(err)
	}
	if want := "10 <nil>\n1048576 on simulated machines, the standard input must not be longer than 1 MiB\n1048576 <nil>\n"; out.String() != want {
		t.Errorf("%q, want %q", out.String(), want)
	}
}
