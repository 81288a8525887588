package sqs

import (
	"context"
	"time"

	awssqs "github.com/aws/aws-sdk-go-v2/service/sqs"
	sqstypes "github.com/aws/aws-sdk-go-v2/service/sqs/types"

	"github.com/drydock-dev/drydock/internal/bytestore"
)

// DeleteMessage deletes a received message. If the receipt is not the message's latest, a standard
// queue reports success without deleting it, and a FIFO queue returns an error.
func (s *Service) DeleteMessage(ctx context.Context, in *awssqs.DeleteMessageInput) (*awssqs.DeleteMessageOutput, error) {
	sc, name := parseURL(scopeOf(ctx), *in.QueueUrl)
	errs, err := s.settle(sc, name, []*string{in.ReceiptHandle}, deleteOne)
	if err == nil {
		err = errs[0]
	}
	return &awssqs.DeleteMessageOutput{}, err
}

// DeleteMessageBatch deletes up to ten messages.
func (s *Service) DeleteMessageBatch(ctx context.Context, in *awssqs.DeleteMessageBatchInput) (*awssqs.DeleteMessageBatchOutput, error) {
	good, failed, err := settleBatch(ctx, s, in.QueueUrl, "DeleteMessageBatchRequestEntry", in.Entries,
		func(e sqstypes.DeleteMessageBatchRequestEntry) (id, handle *string) { return e.Id, e.ReceiptHandle },
		deleteOne, func(id *string) sqstypes.DeleteMessageBatchResultEntry {
			return sqstypes.DeleteMessageBatchResultEntry{Id: id}
		})
	if err != nil {
		return nil, err
	}
	return &awssqs.DeleteMessageBatchOutput{Successful: good, Failed: failed}, nil
}

// settleBatch settles up to ten messages, and returns what the answer says of each.
func settleBatch[E, R any](ctx context.Context, s *Service, url *string, kind string, entries []E, of func(E) (id, handle *string), fn settlement, result func(id *string) R) (good []R, failed []sqstypes.BatchResultErrorEntry, err error) {
	if _, _, err := s.find(ctx, url); err != nil {
		return nil, nil, err
	}
	if err := checkBatch(kind, entries, func(e E) *string { id, _ := of(e); return id }); err != nil {
		return nil, nil, err
	}
	var handles []*string
	for _, e := range entries {
		_, handle := of(e)
		handles = append(handles, handle)
	}
	sc, name := parseURL(scopeOf(ctx), *url)
	errs, err := s.settle(sc, name, handles, fn)
	if err != nil {
		return nil, nil, err
	}
	good = []R{}
	for i, e := range entries {
		id, _ := of(e)
		if errs[i] == nil {
			good = append(good, result(id))
			continue
		}
		f, err := failure(id, errs[i])
		if err != nil {
			return nil, nil, err
		}
		failed = append(failed, f)
	}
	return good, failed, nil
}

// ChangeMessageVisibility sets when a message in flight becomes visible again.
func (s *Service) ChangeMessageVisibility(ctx context.Context, in *awssqs.ChangeMessageVisibilityInput) (*awssqs.ChangeMessageVisibilityOutput, error) {
	sc, name := parseURL(scopeOf(ctx), *in.QueueUrl)
	return &awssqs.ChangeMessageVisibilityOutput{}, s.changeOne(sc, name, *in.ReceiptHandle, in.VisibilityTimeout)
}

func (s *Service) changeOne(sc scope, name, handle string, seconds int32) error {
	errs, err := s.settle(sc, name, []*string{&handle}, changeTo([]int32{seconds}))
	if err == nil {
		err = errs[0]
	}
	return err
}

// ChangeMessageVisibilityBatch changes the visibility of up to ten messages.
func (s *Service) ChangeMessageVisibilityBatch(ctx context.Context, in *awssqs.ChangeMessageVisibilityBatchInput) (*awssqs.ChangeMessageVisibilityBatchOutput, error) {
	var seconds []int32
	for _, e := range in.Entries {
		seconds = append(seconds, e.VisibilityTimeout)
	}
	good, failed, err := settleBatch(ctx, s, in.QueueUrl, "ChangeMessageVisibilityBatchRequestEntry", in.Entries,
		func(e sqstypes.ChangeMessageVisibilityBatchRequestEntry) (id, handle *string) {
			return e.Id, e.ReceiptHandle
		},
		changeTo(seconds), func(id *string) sqstypes.ChangeMessageVisibilityBatchResultEntry {
			return sqstypes.ChangeMessageVisibilityBatchResultEntry{Id: id}
		})
	if err != nil {
		return nil, err
	}
	return &awssqs.ChangeMessageVisibilityBatchOutput{Successful: good, Failed: failed}, nil
}

// A settlement decides what happens to a message. m is nil if the message no longer exists. stale says that the receipt
// is not its latest.
type settlement func(i int, q *queue, m *message, stale bool, handle string, now int64) ([]bytestore.Write, error)

// settle applies fn to messages, given by their receipt handles. It returns an error for each
// message.
func (s *Service) settle(sc scope, name string, handles []*string, fn settlement) ([]error, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	q, _, err := s.open(sc, name)
	if err != nil {
		return nil, err
	}
	now := s.now().UnixMilli()
	q.advance(now)
	errs := make([]error, len(handles))
	var writes []bytestore.Write
	for i, handle := range handles {
		id, seq, receipt, ok := parseReceipt(*handle)
		if !ok || id != q.id {
			errs[i] = errReceipt(*handle)
			continue
		}
		m := q.messages[seq]
		stale := m != nil && m.Receipt != receipt
		if stale && q.fifo {
			errs[i] = errReceiptExpired(*handle)
			continue
		}
		w, err := fn(i, q, m, stale, *handle, now)
		writes, errs[i] = append(writes, w...), err
	}
	if len(writes) == 0 {
		return errs, nil
	}
	q.notify()
	c := s.bytes.Do(writes...)
	s.mu.Unlock()
	err = c.Wait()
	s.mu.Lock()
	if err != nil {
		s.forget(q.id)
	}
	return errs, err
}

func deleteOne(_ int, q *queue, m *message, stale bool, handle string, now int64) ([]bytestore.Write, error) {
	switch {
	case m == nil || stale:
		return nil, nil
	case q.fifo && m.Visible <= now:
		return nil, errReceiptExpired(handle)
	}
	q.remove(m, now)
	return deletion(q, m.seq), nil
}

func changeTo(seconds []int32) settlement {
	return func(i int, q *queue, m *message, _ bool, handle string, now int64) ([]bytestore.Write, error) {
		if seconds[i] < 0 || seconds[i] > maxVisibility {
			return nil, errRange(seconds[i], "VisibilityTimeout", 0, maxVisibility)
		}
		// A standard queue takes any receipt of a message, also after its timeout. [recorded] test_change_message_visibility_after_visibility_timeout_expiration
		// and test_terminate_visibility_timeout_after_receive, LocalStack's tests/aws/services/sqs/test_sqs.py
		if m == nil || q.fifo && m.Visible <= now {
			return nil, errNotInFlight(handle)
		}
		visible := now + (time.Duration(seconds[i]) * time.Second).Milliseconds()
		if visible-m.Received > maxVisibility*1000 {
			return nil, errVisibility(seconds[i])
		}
		q.unplace(m)
		m.Visible = visible
		q.place(m, now)
		raw, err := messages.Encode(m.messageRecord)
		if err != nil {
			return nil, err
		}
		return []bytestore.Write{bytestore.Put(q.sc.bucket(q.id), key(messageLetter, m.seq), raw)}, nil
	}
}
