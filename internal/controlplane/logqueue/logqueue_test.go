package logqueue_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/drydock-dev/drydock/internal/controlplane/launch"
	"github.com/drydock-dev/drydock/internal/controlplane/logqueue"
)

func line(text string) launch.LogLine { return launch.LogLine{Component: "c", Text: text} }

func TestLinesAreWrittenTogetherAndInOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := logqueue.New()
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		var mu sync.Mutex
		var batches, reports []string
		fail := errors.New("no log group")
		go q.Run(ctx, func(_ context.Context, lines []launch.LogLine) error {
			mu.Lock()
			defer mu.Unlock()
			if fail != nil {
				return fail
			}
			var texts []string
			for _, l := range lines {
				texts = append(texts, l.Text)
			}
			batches = append(batches, strings.Join(texts, " "))
			return nil
		}, func(err error) {
			mu.Lock()
			defer mu.Unlock()
			reports = append(reports, err.Error())
		})
		written := func() string {
			mu.Lock()
			defer mu.Unlock()
			return fmt.Sprint(batches, reports)
		}

		q.Add(line("a"))
		q.Add(line("b"))
		time.Sleep(time.Second)
		synctest.Wait()
		if got := written(); got != "[] [no log group]" {
			t.Fatal(got)
		}
		// Lines whose write failed come before later ones.
		mu.Lock()
		fail = nil
		mu.Unlock()
		q.Add(line("c"))
		time.Sleep(10 * time.Second)
		synctest.Wait()
		if got := written(); got != "[a b c] [no log group]" {
			t.Fatal(got)
		}
	})
}

// TestOldestLinesAreLost fills a queue before anything reads from it.
func TestOldestLinesAreLost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := logqueue.New()
		big := strings.Repeat("x", 1<<20)
		for i := range 10 {
			q.Add(line(fmt.Sprint(i) + big))
		}
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		var mu sync.Mutex
		var got, reports []string
		go q.Run(ctx, func(_ context.Context, lines []launch.LogLine) error {
			mu.Lock()
			defer mu.Unlock()
			for _, l := range lines {
				got = append(got, l.Text[:1])
			}
			return nil
		}, func(err error) {
			mu.Lock()
			defer mu.Unlock()
			reports = append(reports, err.Error())
		})
		time.Sleep(time.Second)
		synctest.Wait()
		mu.Lock()
		defer mu.Unlock()
		if text := fmt.Sprint(got, reports); text != "[3 4 5 6 7 8 9] [3 lines were lost because they could not be written in time]" {
			t.Error(text)
		}
	})
}

func TestTheLastLinesAreWritten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := logqueue.New()
		ctx, cancel := context.WithCancel(t.Context())
		var last []string
		done := make(chan struct{})
		go func() {
			defer close(done)
			q.Run(ctx, func(ctx context.Context, lines []launch.LogLine) error {
				for _, l := range lines {
					last = append(last, l.Text)
				}
				return ctx.Err()
			}, func(error) {})
		}()
		q.Add(line("a"))
		synctest.Wait() // Run collects lines
		q.Add(line("b"))
		cancel()
		<-done
		if strings.Join(last, " ") != "a b" {
			t.Errorf("written: %q", last)
		}
	})
}

// A batch has lines of one component only, so that a batch that has failed repeats no lines of other components.
func TestBatchesAreOfOneComponent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := logqueue.New()
		ctx, cancel := context.WithCancel(t.Context())
		var batches []string
		failed := false
		done := make(chan struct{})
		go func() {
			defer close(done)
			q.Run(ctx, func(_ context.Context, lines []launch.LogLine) error {
				if lines[0].Component == "b" && !failed {
					failed = true
					return errors.New("throttled")
				}
				batch := lines[0].Component + ":"
				for _, l := range lines {
					if l.Component != lines[0].Component {
						t.Errorf("lines of %s and %s together", lines[0].Component, l.Component)
					}
					batch += " " + l.Text
				}
				batches = append(batches, batch)
				return nil
			}, func(error) {})
		}()
		for i, component := range []string{"a", "b", "a", "c", "b"} {
			q.Add(launch.LogLine{Component: component, Text: fmt.Sprint(i)})
		}
		time.Sleep(time.Minute)
		cancel()
		<-done
		if got := strings.Join(batches, "; "); got != "a: 0 2; b: 1 4; c: 3" {
			t.Error(got)
		}
	})
}
