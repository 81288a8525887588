// Package logqueue holds the lines of a control plane's logs until they have been written elsewhere. Both the control
// plane's process and the daemon use it; it depends on neither of them.
package logqueue

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/drydock-dev/drydock/internal/controlplane/launch"
)

const (
	// gather is how long lines are collected before they are written together.
	gather = 500 * time.Millisecond
	// maxBatch and maxBatchLines limit a batch. CloudWatch Logs accepts 1 MiB and 10,000 lines.
	maxBatch, maxBatchLines = 512 << 10, 5000
	// maxQueue is the maximum size of the queue in bytes. If the writer cannot keep up, the oldest lines are dropped:
	// as on EKS, delivery is best effort.
	maxQueue = 8 << 20
	// perLine is the approximate overhead of a line.
	perLine = 64
	// firstRetry and lastRetry are the shortest and the longest pause after a failure.
	firstRetry, lastRetry = time.Second, 30 * time.Second
	// lastWrites is the time limit for writing the remaining lines after Run's context has ended.
	lastWrites = 2 * time.Second
)

// A Queue is a queue of lines. Use New to create one.
type Queue struct {
	mu      sync.Mutex
	lines   []launch.LogLine
	size    int
	lost    int
	arrived chan struct{} // has an element if lines were added since Run last checked
}

// New returns an empty queue.
func New() *Queue { return &Queue{arrived: make(chan struct{}, 1)} }

// Add appends a line.
func (q *Queue) Add(line launch.LogLine) {
	q.mu.Lock()
	q.lines = append(q.lines, line)
	q.size += cost(line)
	for q.size > maxQueue && len(q.lines) > 1 {
		q.size -= cost(q.lines[0])
		q.lines = q.lines[1:]
		q.lost++
	}
	q.mu.Unlock()
	select {
	case q.arrived <- struct{}{}:
	default:
	}
}

func cost(line launch.LogLine) int { return len(line.Text) + perLine }

// next removes and returns the oldest lines of the component that wrote the first one, up to a full batch, and returns how
// many lines were dropped since the last call. A batch belongs to one component, and so to one log stream, so that a
// batch that is written again after a failure repeats nothing of another stream.
func (q *Queue) next() (batch []launch.LogLine, lost int) {
	q.mu.Lock()
	defer q.mu.Unlock()
	var rest []launch.LogLine
	size := 0
	for i, line := range q.lines {
		if line.Component != q.lines[0].Component {
			rest = append(rest, line)
			continue
		}
		if len(batch) == maxBatchLines || len(batch) > 0 && size+cost(line) > maxBatch {
			rest = append(rest, q.lines[i:]...)
			break
		}
		batch, size = append(batch, line), size+cost(line)
	}
	q.lines, q.size = rest, q.size-size
	lost, q.lost = q.lost, 0
	return batch, lost
}

// Run writes lines soon after they are added, until ctx ends. If a write fails, it tries again after a pause. It
// calls report for failed writes and dropped lines. When ctx ends, it tries once to write the remaining lines.
func (q *Queue) Run(ctx context.Context, write func(context.Context, []launch.LogLine) error, report func(error)) {
	defer func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), lastWrites)
		defer cancel()
		for {
			batch, _ := q.next()
			if len(batch) == 0 || write(ctx, batch) != nil {
				return
			}
		}
	}()
	for {
		select {
		case <-ctx.Done():
			return
		case <-q.arrived:
		}
		if !pause(ctx, gather) {
			return
		}
		for {
			batch, lost := q.next()
			if lost > 0 {
				report(fmt.Errorf("%d lines were lost because they could not be written in time", lost))
			}
			if len(batch) == 0 {
				break
			}
			for retry := firstRetry; ; retry = min(2*retry, lastRetry) {
				err := write(ctx, batch)
				if err == nil {
					break
				}
				if ctx.Err() == nil {
					report(err)
				}
				if !pause(ctx, retry) {
					return
				}
			}
		}
	}
}

func pause(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-t.C:
		return true
	}
}
