package store_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"os"
	"os/exec"
	"os/signal"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/drydock-dev/drydock/internal/store"
	"github.com/drydock-dev/drydock/internal/testkit/testlog"
)

// These environment variables make the test binary the child of TestKill or TestDiskFails, with the data folder that
// they name.
const (
	crashDir = "DRYDOCK_STORE_CRASH_DIR"
	failDir  = "DRYDOCK_STORE_FAIL_DIR"
)

const crashWriters = 8

func TestMain(m *testing.M) {
	if dir := os.Getenv(crashDir); dir != "" {
		if err := crashChild(dir); err != nil {
			fmt.Println("error", err)
			os.Exit(1)
		}
	}
	if dir := os.Getenv(failDir); dir != "" {
		if err := failChild(dir); err != nil {
			fmt.Println("error", err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// crashChild writes until it is killed and reports what was acknowledged: "WRITER N" once Update has returned for the
// writer's Nth transaction.
func crashChild(dir string) error {
	ctx := context.Background()
	s, err := store.Open(ctx, store.Config{Dir: dir, Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		return err
	}
	failed := make(chan error)
	for w := range crashWriters {
		go func() {
			for {
				var n int
				err := s.Update(ctx, func(tx *store.Tx) error {
					var last thing
					last, _ = things.Get(tx, key(fmt.Sprint("writer", w)))
					n = last.Count + 1
					if err := things.Put(tx, key(fmt.Sprint("writer", w)), thing{Count: n}); err != nil {
						return err
					}
					// In another collection, of the same transaction.
					if err := others.Put(tx, key(fmt.Sprint("writer", w)), thing{Count: n}); err != nil {
						return err
					}
					// And a record that comes and goes.
					if n%2 == 0 {
						things.Delete(tx, key(fmt.Sprint("odd", w)))
						return nil
					}
					return things.Put(tx, key(fmt.Sprint("odd", w)), thing{Count: n})
				})
				if err != nil {
					failed <- err
					return
				}
				fmt.Printf("%d %d\n", w, n) // unbuffered: in the pipe when it returns
			}
		}()
	}
	return <-failed
}

// child runs the test binary as one of the children.
func child(t *testing.T, env string) (*exec.Cmd, io.Reader) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), os.Args[0])
	cmd.Env = append(os.Environ(), env)
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	return cmd, out
}

// TestKill kills a writing process at random moments. Everything that it reported as written must be there, and every
// transaction must be there as a whole or not at all.
func TestKill(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	dir := t.TempDir()
	rounds := 6
	if testing.Short() {
		rounds = 2
	}
	total := 0
	for round := range rounds {
		var answered [crashWriters]int
		cmd, out := child(t, crashDir+"="+dir)
		// Counted in acknowledged writes, so that the kill hits the writing however slow the machine is; some rounds
		// die at the very first.
		life := time.Duration(random.IntN(400)) * time.Millisecond
		var once sync.Once
		scan := bufio.NewScanner(out)
		for scan.Scan() {
			var w, n int
			if _, err := fmt.Sscanf(scan.Text(), "%d %d", &w, &n); err != nil {
				t.Fatalf("child: %s", scan.Text())
			}
			answered[w] = n
			total++
			once.Do(func() { time.AfterFunc(life, func() { _ = cmd.Process.Kill() }) })
		}
		_ = cmd.Wait() // killed

		start := time.Now()
		s, err := store.Open(t.Context(), store.Config{Dir: dir, Log: testlog.New(t)})
		if err != nil {
			t.Fatalf("round %d: %v", round, err)
		}
		t.Logf("round %d: killed after %v, opened in %v", round, life, time.Since(start))
		for w := range crashWriters {
			k := key(fmt.Sprint("writer", w))
			a, _ := things.Get(s, k)
			b, _ := others.Get(s, k)
			_, oddErr := things.Get(s, key(fmt.Sprint("odd", w)))
			if a.Count < answered[w] {
				t.Errorf("round %d: writer %d was answered %d, found %d", round, w, answered[w], a.Count)
			}
			if a.Count != b.Count || (oddErr == nil) != (a.Count%2 == 1) {
				t.Errorf("round %d: writer %d: half a transaction: %d, %d, odd: %v", round, w, a.Count, b.Count, oddErr)
			}
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
	}
	t.Logf("%d answers in all", total)
}

// failChild writes until the disk refuses: no file may grow beyond 24 MiB. It reports what was acknowledged, then the
// store's error.
func failChild(dir string) error {
	signal.Ignore(unix.SIGXFSZ)
	if err := unix.Setrlimit(unix.RLIMIT_FSIZE, &unix.Rlimit{Cur: 24 << 20, Max: 24 << 20}); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	s, err := store.Open(ctx, store.Config{Dir: dir, Log: slog.New(slog.DiscardHandler), MinFreeBytes: 1})
	if err != nil {
		return err
	}
	for i := 0; ; i++ {
		if err := s.Update(ctx, large(fmt.Sprint(i))); err != nil {
			fmt.Printf("says %q\n", err)
			break
		}
		fmt.Println(i)
	}
	select {
	case <-s.Failed():
		fmt.Printf("says %q\n", s.Err())
	case <-ctx.Done():
		return ctx.Err()
	}
	err = s.Update(ctx, large("after"))
	fmt.Printf("says %q\n", err)
	if v, err := things.Get(s, key("0")); err != nil || v.Name == "" {
		return fmt.Errorf("reading after the failure: %w", err)
	}
	start := time.Now()
	if err := s.Close(); err != nil {
		fmt.Printf("close says %q\n", err)
	}
	if took := time.Since(start); took > 15*time.Second {
		return fmt.Errorf("close took %v", took)
	}
	fmt.Println("done")
	return nil
}

// TestDiskFails lets etcd's disk refuse a write: the daemon survives to report it, and everything acknowledged before
// is there on a working disk.
func TestDiskFails(t *testing.T) {
	dir := t.TempDir()
	cmd, out := child(t, failDir+"="+dir)
	answered, said, done := -1, 0, false
	scan := bufio.NewScanner(out)
	for scan.Scan() {
		var n int
		line := scan.Text()
		switch {
		case line == "done":
			done = true
		case strings.HasPrefix(line, "says "):
			said++
			for _, want := range []string{"store is unavailable", "file too large", dir, "start Drydock again"} {
				if !strings.Contains(line, want) {
					t.Errorf("%s: does not say %q", line, want)
				}
			}
		default:
			if _, err := fmt.Sscan(line, &n); err != nil {
				t.Log(line)
				continue
			}
			answered = n
		}
	}
	if err := cmd.Wait(); err != nil || !done || said != 3 {
		t.Fatalf("child: %v, done %v, said %d", err, done, said)
	}
	s, err := store.Open(t.Context(), store.Config{Dir: dir, Log: testlog.New(t)})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	for i := range answered + 1 {
		if _, err := things.Get(s, key(fmt.Sprint(i))); err != nil {
			t.Errorf("record %d of %d: %v", i, answered, err)
		}
	}
	t.Logf("%d answered", answered+1)
}
