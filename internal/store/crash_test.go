package store_test

import (
	"bufio"
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"sync"
	"testing"
	"time"

	"github.com/drydock-dev/drydock/internal/store"
)

// crashDir in the environment makes the test binary the child of TestKill.
const crashDir = "DRYDOCK_STORE_CRASH_DIR"

const crashWriters = 8

func TestMain(m *testing.M) {
	if dir := os.Getenv(crashDir); dir != "" {
		if err := crashChild(dir); err != nil {
			fmt.Println("error", err)
			os.Exit(1)
		}
	}
	os.Exit(m.Run())
}

// crashChild writes until it is killed and says what was answered: "WRITER N"
// once Update has returned for the writer's Nth transaction.
func crashChild(dir string) error {
	ctx := context.Background()
	s, err := store.Open(ctx, store.Config{Dir: dir, Log: quiet()})
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

// TestKill kills a writing process at random moments: what it was answered is
// there afterwards, and every transaction is there as a whole or not at all.
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
		cmd := exec.CommandContext(t.Context(), os.Args[0])
		cmd.Env = append(os.Environ(), crashDir+"="+dir)
		cmd.Stderr = os.Stderr
		out, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		// Counted in answers, so that it falls into the writing however slow the
		// machine is; some rounds die at the very first.
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
		s, err := store.Open(t.Context(), store.Config{Dir: dir, Log: quiet()})
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
