package sqs

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"slices"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	awssqs "github.com/aws/aws-sdk-go-v2/service/sqs"
	sqstypes "github.com/aws/aws-sdk-go-v2/service/sqs/types"

	"github.com/drydock-dev/drydock/internal/awsapi/regional"
	"github.com/drydock-dev/drydock/internal/bytestore"
	"github.com/drydock-dev/drydock/internal/ids"
	"github.com/drydock-dev/drydock/internal/store"
)

// States of a task.
const (
	taskRunning   = "RUNNING"
	taskCompleted = "COMPLETED"
	taskCancelled = "CANCELLED"
	taskFailed    = "FAILED"
)

// maxTasks is how many tasks are kept per queue.
const maxTasks = 10

type taskHandle struct {
	Task   string `json:"taskId"`
	Source string `json:"sourceArn"`
}

func (t *moveRecord) handle() string {
	raw, err := json.Marshal(taskHandle{t.ID, t.Source})
	if err != nil {
		panic(err) // strings always marshal
	}
	return base64.StdEncoding.EncodeToString(raw)
}

func parseHandle(text string) (task, source string, ok bool) {
	var h taskHandle
	raw, err := base64.StdEncoding.DecodeString(text)
	if err != nil || json.Unmarshal(raw, &h) != nil || h.Task == "" {
		return "", "", false
	}
	return h.Task, h.Source, true
}

// StartMessageMoveTask moves the messages of a dead-letter queue back to where they came from, or
// to another queue.
func (s *Service) StartMessageMoveTask(ctx context.Context, in *awssqs.StartMessageMoveTaskInput) (*awssqs.StartMessageMoveTaskOutput, error) {
	sc, name := parseARN(scopeOf(ctx), *in.SourceArn)
	source, err := queues.Get(s.store, sc.Key(name))
	if err != nil {
		return nil, store.NotFoundAs(err, errNoResource("SourceArn"))
	}
	if n := aws.ToInt32(in.MaxNumberOfMessagesPerSecond); in.MaxNumberOfMessagesPerSecond != nil && (n < 1 || n > 500) {
		return nil, errRange(n, "MaxNumberOfMessagesPerSecond", 1, 500)
	}
	sources, _, err := s.list(sc, nil, nil, "", func(q queueRecord) bool {
		p := q.redrive()
		return p != nil && p.Target == *in.SourceArn
	})
	if err != nil {
		return nil, err
	}
	if len(sources) == 0 {
		return nil, errNotDeadLetter()
	}
	if in.DestinationArn != nil {
		to, name := parseARN(sc, *in.DestinationArn)
		if _, err := queues.Get(s.store, to.Key(name)); err != nil {
			return nil, store.NotFoundAs(err, errNoResource("DestinationArn"))
		}
	}
	c, err := s.count(sc, &source)
	if err != nil {
		return nil, err
	}
	t := moveRecord{
		ID: ids.UUID(), Source: *in.SourceArn, Destination: aws.ToString(in.DestinationArn), PerSecond: aws.ToInt32(in.MaxNumberOfMessagesPerSecond),
		Status: taskRunning, ToMove: int64(c.visible), Started: s.now(),
	}
	err = s.store.Update(ctx, func(tx *store.Tx) error {
		tasks := moveTasks.All(tx, sc.Below(name))
		if slices.ContainsFunc(tasks, func(t store.Item[moveRecord]) bool { return t.Value.Status == taskRunning }) {
			return errTaskRuns()
		}
		byAge(tasks)
		for i := maxTasks - 1; i < len(tasks); i++ {
			moveTasks.Delete(tx, tasks[i].Key)
		}
		return moveTasks.Create(tx, sc.Key(name+"/"+t.ID), t)
	})
	if err != nil {
		return nil, err
	}
	s.wakeMoves()
	return &awssqs.StartMessageMoveTaskOutput{TaskHandle: aws.String(t.handle())}, nil
}

func (s *Service) wakeMoves() {
	select {
	case s.moves <- struct{}{}:
	default:
	}
}

// byAge sorts tasks, latest first.
func byAge(tasks []store.Item[moveRecord]) {
	slices.SortStableFunc(tasks, func(a, b store.Item[moveRecord]) int { return b.Value.Started.Compare(a.Value.Started) })
}

// ListMessageMoveTasks lists the latest tasks of a dead-letter queue, by default only one.
func (s *Service) ListMessageMoveTasks(ctx context.Context, in *awssqs.ListMessageMoveTasksInput) (*awssqs.ListMessageMoveTasksOutput, error) {
	n := int32(1)
	if in.MaxResults != nil {
		if n = *in.MaxResults; n < 1 || n > maxTasks {
			return nil, errRange(n, "MaxResults", 1, maxTasks)
		}
	}
	sc, name := parseARN(scopeOf(ctx), *in.SourceArn)
	if _, err := queues.Get(s.store, sc.Key(name)); err != nil {
		return nil, store.NotFoundAs(err, errNoResource("SourceArn"))
	}
	tasks := moveTasks.All(s.store, sc.Below(name))
	byAge(tasks)
	out := &awssqs.ListMessageMoveTasksOutput{}
	for _, item := range tasks[:min(int(n), len(tasks))] {
		t := &item.Value
		e := sqstypes.ListMessageMoveTasksResultEntry{
			SourceArn: &t.Source, Status: &t.Status, StartedTimestamp: t.Started.UnixMilli(), ApproximateNumberOfMessagesMoved: t.Moved,
			ApproximateNumberOfMessagesToMove: &t.ToMove,
		}
		if t.Destination != "" {
			e.DestinationArn = &t.Destination
		}
		if t.PerSecond != 0 {
			e.MaxNumberOfMessagesPerSecond = &t.PerSecond
		}
		if t.Failure != "" {
			e.FailureReason = &t.Failure
		}
		if t.Status == taskRunning {
			e.TaskHandle = aws.String(t.handle())
		}
		out.Results = append(out.Results, e)
	}
	return out, nil
}

// CancelMessageMoveTask cancels a task. Messages that it has moved stay where they are.
func (s *Service) CancelMessageMoveTask(ctx context.Context, in *awssqs.CancelMessageMoveTaskInput) (*awssqs.CancelMessageMoveTaskOutput, error) {
	task, source, ok := parseHandle(*in.TaskHandle)
	if !ok {
		return nil, errTaskHandle()
	}
	sc, name := parseARN(scopeOf(ctx), source)
	if _, err := queues.Get(s.store, sc.Key(name)); err != nil {
		return nil, store.NotFoundAs(err, errNoResource("SourceArn"))
	}
	out := &awssqs.CancelMessageMoveTaskOutput{}
	err := moveTasks.UpdateOne(ctx, s.store, sc.Key(name+"/"+task), func(t *moveRecord) error {
		if t.Status != taskRunning {
			return errTaskOver(t.Status)
		}
		t.Status, out.ApproximateNumberOfMessagesMoved = taskCancelled, t.Moved
		return nil
	})
	return out, store.NotFoundAs(err, errNoTask())
}

const (
	// moveAtOnce is how many messages a task without a rate limit moves in one write.
	moveAtOnce = 500
	// sweepPause is the interval between searches for expired messages.
	sweepPause = 30 * time.Second
)

// Run runs move tasks and removes expired messages until ctx ends.
func (s *Service) Run(ctx context.Context) error {
	if err := s.dropOrphans(); err != nil {
		return err
	}
	limited, swept := map[string]time.Time{}, s.clock.Now()
	for {
		wait, err := s.runTasks(ctx, limited)
		if err != nil {
			s.log.Warn("sqs: moving messages", "err", err)
			wait = time.Second
		}
		if left := sweepPause - s.clock.Since(swept); left > 0 {
			wait = min(wait, left)
		} else {
			if err := s.sweep(); err != nil {
				s.log.Warn("sqs: removing expired messages", "err", err)
			}
			swept = s.clock.Now()
		}
		t := s.clock.NewTimer(max(wait, time.Millisecond))
		select {
		case <-ctx.Done():
			t.Stop()
			return nil
		case <-s.moves:
			t.Stop()
		case <-t.C():
		}
	}
}

// dropOrphans removes the messages of queues that no longer exist, left by a daemon that was
// stopped in the middle of a deletion.
func (s *Service) dropOrphans() error {
	buckets := s.bytes.Buckets(kind)
	known := map[bytestore.Bucket]bool{}
	for _, q := range queues.All(s.store, store.Scope{}) {
		known[scope{regional.At(q.Key.Account, q.Key.Region)}.bucket(q.Value.ID)] = true
	}
	if len(queues.Unreadable(s.store, store.Scope{})) > 0 {
		return nil // the messages may belong to an unreadable queue
	}
	for _, b := range buckets {
		if !known[b] {
			if err := s.bytes.Do(bytestore.Drop(b)).Wait(); err != nil {
				return err
			}
		}
	}
	return nil
}

// runTasks takes one step of every running task, and returns the time until the next step.
func (s *Service) runTasks(ctx context.Context, limited map[string]time.Time) (time.Duration, error) {
	wait := sweepPause
	for _, item := range moveTasks.All(s.store, store.Scope{}) {
		t := item.Value
		if t.Status != taskRunning {
			delete(limited, t.ID)
			continue
		}
		n := moveAtOnce
		if t.PerSecond > 0 {
			n = int(t.PerSecond)
			if left := time.Second - s.clock.Since(limited[t.ID]); left > 0 {
				wait = min(wait, left)
				continue
			}
			limited[t.ID] = s.clock.Now()
			wait = min(wait, time.Second)
		} else {
			wait = 0
		}
		moved, status, failure, err := s.moveSome(item.Key, &t, min(n, int(t.ToMove-t.Moved)))
		if err != nil {
			return wait, err
		}
		err = moveTasks.UpdateOne(ctx, s.store, item.Key, func(t *moveRecord) error {
			t.Moved += int64(moved)
			if t.Status == taskRunning {
				t.Status, t.Failure = status, failure
			}
			return nil
		})
		if store.IgnoreNotFound(err) != nil {
			return wait, err
		}
	}
	return wait, nil
}

// moveSome moves up to n messages and returns the task's new state.
func (s *Service) moveSome(at store.Key, t *moveRecord, n int) (moved int, status, failure string, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	sc := scope{regional.At(at.Account, at.Region)}
	_, name := parseARN(sc, t.Source)
	from, _, err := s.open(sc, name)
	if err != nil {
		return 0, taskFailed, "AWS.SimpleQueueService.NonExistentQueue", nil
	}
	now := s.now().UnixMilli()
	from.advance(now)
	var writes []bytestore.Write
	touched := map[string]bool{from.id: true}
	status = taskRunning
	for _, m := range from.visible(now, n) {
		target := t.Destination
		if target == "" {
			target = m.Source
		}
		if target == "" {
			status, failure = taskFailed, "CouldNotDetermineMessageSource"
			break
		}
		sc, name := parseARN(sc, target)
		to, rec, err := s.open(sc, name)
		if err != nil {
			status, failure = taskFailed, "AWS.SimpleQueueService.NonExistentQueue"
			break
		}
		w, err := s.move(from, to, m, messageRecord{
			ID: ids.UUID(), Sent: now, Sender: m.Sender, Visible: now + rec.seconds("DelaySeconds").Milliseconds(), Group: m.Group, Dedup: m.Dedup, Trace: m.Trace,
		}, now)
		if err != nil {
			return 0, status, "", err
		}
		touched[to.id] = true
		writes, moved = append(writes, w...), moved+1
	}
	if status == taskRunning && (moved < n || t.Moved+int64(moved) >= t.ToMove) {
		status = taskCompleted
	}
	c := s.bytes.Do(writes...)
	s.mu.Unlock()
	err = c.Wait()
	s.mu.Lock()
	if err != nil {
		for id := range touched {
			s.forget(id)
		}
		return 0, taskRunning, "", err
	}
	return moved, status, failure, nil
}

// visible returns up to n visible messages in order.
func (q *queue) visible(now int64, n int) []*message {
	var out []*message
	for _, m := range q.messages {
		if m.Visible <= now {
			out = append(out, m)
		}
	}
	slices.SortFunc(out, func(a, b *message) int {
		if a.seq < b.seq {
			return -1
		}
		return 1
	})
	return out[:min(n, len(out))]
}

// sweep removes expired messages from the queues in memory. Other queues have not been used since
// the start; their messages expire when they are used.
func (s *Service) sweep() error {
	s.mu.Lock()
	var commits []*bytestore.Commit
	for key, at := range s.deleted {
		if s.now().Sub(at) >= s.cfg.Pause {
			delete(s.deleted, key)
		}
	}
	now := s.now().UnixMilli()
	for id, q := range s.queues {
		rec, err := queues.Get(s.store, q.sc.Key(q.name))
		if err != nil || rec.ID != id {
			continue
		}
		retention := rec.seconds("MessageRetentionPeriod").Milliseconds()
		var writes []bytestore.Write
		for _, m := range q.messages {
			if m.Sent+retention <= now {
				q.remove(m, now)
				writes = append(writes, deletion(q, m.seq)...)
			}
		}
		for dedup, d := range q.duplicates {
			if d.Until <= now {
				delete(q.duplicates, dedup)
				writes = append(writes, bytestore.Delete(q.sc.bucket(id), duplicateKey(dedup)))
			}
		}
		if len(writes) > 0 {
			commits = append(commits, s.bytes.Do(writes...))
		}
	}
	s.mu.Unlock()
	var err error
	for _, c := range commits {
		err = errors.Join(err, c.Wait())
	}
	return err
}
