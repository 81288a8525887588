package sqs

import (
	"context"
	"errors"
	"strconv"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	awssqs "github.com/aws/aws-sdk-go-v2/service/sqs"
	sqstypes "github.com/aws/aws-sdk-go-v2/service/sqs/types"

	"github.com/drydock-dev/drydock/internal/awsapi"
	"github.com/drydock-dev/drydock/internal/bytestore"
	"github.com/drydock-dev/drydock/internal/ids"
)

// A picked message is about to be delivered to a receiver.
type picked struct {
	*message
	now    messageRecord // copy made at the time, because the message may change
	handle string
}

// An attempt records the messages returned to a receiver, which may repeat its request if it did
// not get the response.
type attempt struct {
	until int64
	seqs  []uint64
	// receipts are the messages' receipts at the time.
	receipts []string
}

// ReceiveMessage receives messages. It waits for some if the request or the queue says so.
func (s *Service) ReceiveMessage(ctx context.Context, in *awssqs.ReceiveMessageInput) (*awssqs.ReceiveMessageOutput, error) {
	members := awsapi.CallFrom(ctx).Members
	n := int(in.MaxNumberOfMessages)
	if n == 0 && !members.Has("MaxNumberOfMessages") {
		n = 1
	}
	if n < 1 || n > maxBatch {
		return nil, errRange(in.MaxNumberOfMessages, "MaxNumberOfMessages", 1, maxBatch)
	}
	if in.WaitTimeSeconds < 0 || in.WaitTimeSeconds > 20 {
		return nil, errParameter(in.WaitTimeSeconds, "WaitTimeSeconds", "Must be >= 0 and <= 20, if provided.")
	}
	if in.VisibilityTimeout < 0 || in.VisibilityTimeout > maxVisibility {
		return nil, errRange(in.VisibilityTimeout, "VisibilityTimeout", 0, maxVisibility)
	}
	rec, sc, err := s.find(ctx, in.QueueUrl)
	if err != nil {
		return nil, err
	}
	if id := in.ReceiveRequestAttemptId; id != nil {
		switch {
		case !rec.fifo():
			return nil, errParameter(*id, "ReceiveRequestAttemptId", notThisType)
		case !token.MatchString(*id):
			return nil, errToken(*id, "ReceiveRequestAttemptId")
		}
	}
	want := pick{n: n, visibility: rec.seconds("VisibilityTimeout"), attempt: aws.ToString(in.ReceiveRequestAttemptId)}
	if in.VisibilityTimeout != 0 || members.Has("VisibilityTimeout") {
		want.visibility = time.Duration(in.VisibilityTimeout) * time.Second
	}
	wait := rec.seconds("ReceiveMessageWaitTimeSeconds")
	if in.WaitTimeSeconds != 0 || members.Has("WaitTimeSeconds") {
		wait = time.Duration(in.WaitTimeSeconds) * time.Second
	}
	deadline := s.clock.Now().Add(wait)
	for {
		got, next, err := s.pick(sc, rec.Name, want)
		if err != nil {
			return nil, err
		}
		if len(got) > 0 {
			return s.deliver(ctx, sc, &rec, in, got)
		}
		left := deadline.Sub(s.clock.Now())
		if left <= 0 || !next.wait(ctx, s, left) {
			return &awssqs.ReceiveMessageOutput{}, ctx.Err()
		}
	}
}

// A pause is what a receiver that found no messages waits for.
type pause struct {
	changed <-chan struct{}
	until   time.Time // when the next message becomes visible; zero if that is not known
}

// wait waits for the pause to end. It returns false if the receiver should give up.
func (p pause) wait(ctx context.Context, s *Service, left time.Duration) bool {
	if !p.until.IsZero() {
		left = min(left, max(p.until.Sub(s.clock.Now()), time.Millisecond))
	}
	t := s.clock.NewTimer(left)
	defer t.Stop()
	select {
	case <-p.changed:
	case <-t.C():
	case <-s.draining(ctx):
		return false
	case <-ctx.Done():
		return false
	}
	return true
}

// A pick specifies the messages that a receiver wants.
type pick struct {
	n          int
	visibility time.Duration
	attempt    string
}

// pick takes visible messages and returns when that is on disk.
func (s *Service) pick(sc scope, name string, want pick) ([]picked, pause, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	q, rec, err := s.open(sc, name)
	if err != nil {
		return nil, pause{}, err
	}
	now := s.now()
	q.advance(now.UnixMilli())
	if got := q.again(want.attempt, now.UnixMilli()); got != nil {
		return got, pause{}, nil
	}
	t := taker{s: s, q: q, rec: &rec, redrive: rec.redrive(), now: now.UnixMilli(), want: want}
	if t.redrive != nil {
		if err := t.openDead(); err != nil {
			return nil, pause{}, err
		}
	}
	if q.fifo {
		err = t.takeGroups()
	} else {
		err = t.take()
	}
	var out []picked
	for _, m := range t.taken {
		q.place(m, t.now)
		out = append(out, picked{m, m.messageRecord, q.handle(m)})
	}
	for _, g := range t.groups {
		q.offer(g, t.now)
	}
	q.remember(want.attempt, out, t.now)
	wait := pause{changed: q.changed}
	if len(q.later) > 0 {
		wait.until = time.UnixMilli(q.later[0].Visible)
	}
	if len(t.writes) > 0 {
		c := s.bytes.Do(t.writes...)
		s.mu.Unlock()
		werr := c.Wait()
		s.mu.Lock()
		if werr != nil {
			s.forget(q.id)
			if t.dead != nil {
				s.forget(t.dead.id)
			}
			return nil, wait, werr
		}
	}
	if err == nil && len(out) == 0 && !q.fifo && q.inFlight >= inFlight {
		err = errOverLimit()
	}
	return out, wait, err
}

// again returns the messages of an earlier attempt with the same ID, unless any of them has changed
// since.
func (q *queue) again(id string, now int64) []picked {
	a, ok := q.attempts[id]
	if id == "" || !ok || a.until <= now {
		return nil
	}
	var out []picked
	for i, seq := range a.seqs {
		m := q.messages[seq]
		if m == nil || m.Receipt != a.receipts[i] || m.Visible <= now {
			return nil
		}
		out = append(out, picked{m, m.messageRecord, q.handle(m)})
	}
	return out
}

func (q *queue) remember(id string, got []picked, now int64) {
	for id, a := range q.attempts {
		if a.until <= now {
			delete(q.attempts, id)
		}
	}
	if id == "" || len(got) == 0 {
		return
	}
	a := attempt{until: now + deduplication.Milliseconds()}
	for _, m := range got {
		a.seqs, a.receipts = append(a.seqs, m.seq), append(a.receipts, m.Receipt)
	}
	q.attempts[id] = a
}

// A taker takes visible messages from a queue. It drops those that are too old, and moves those
// that were received too often to the dead-letter queue.
type taker struct {
	s       *Service
	q       *queue
	rec     *queueRecord
	redrive *redrivePolicy
	dead    *queue // nil if there is no dead-letter queue
	now     int64
	want    pick

	taken  []*message
	groups []*group
	writes []bytestore.Write
}

// openDead opens the dead-letter queue. If that was deleted, messages stay in their queue.
func (t *taker) openDead() error {
	sc, name := parseARN(t.q.sc, t.redrive.Target)
	if _, err := queues.Get(t.s.store, sc.Key(name)); err != nil {
		if notFound(err) {
			return nil
		}
		return err
	}
	var err error
	t.dead, _, err = t.s.open(sc, name)
	return err
}

func (t *taker) full() bool {
	return len(t.taken) == t.want.n || t.q.inFlight+len(t.taken) >= inFlight
}

func (t *taker) take() error {
	for e := t.q.ready.Front(); e != nil && !t.full(); e = t.q.ready.Front() {
		if _, err := t.one(e.Value.(*message)); err != nil {
			return err
		}
	}
	return nil
}

// takeGroups takes as many messages as possible from one group, then from the next: the first ones
// of each group, up to one that is not visible.
func (t *taker) takeGroups() error {
	for e := t.q.offered.Front(); e != nil && !t.full(); e = t.q.offered.Front() {
		g := t.q.offered.Remove(e).(*group)
		g.offer = nil
		t.groups = append(t.groups, g)
		for i := 0; i < len(g.messages) && g.messages[i].Visible <= t.now && !t.full(); {
			took, err := t.one(g.messages[i])
			if err != nil {
				return err
			}
			if took {
				i++
			} else if g.offer != nil { // the removal offered the group again, but this loop is still working on it
				t.q.offered.Remove(g.offer)
				g.offer = nil
			}
		}
	}
	return nil
}

// one takes a visible message for the receiver and returns true, or removes it and returns false.
func (t *taker) one(m *message) (bool, error) {
	switch {
	case m.Sent+t.rec.seconds("MessageRetentionPeriod").Milliseconds() <= t.now:
		t.drop(m)
		return false, nil
	case t.dead != nil && m.Receives >= int(t.redrive.Max):
		return false, t.deadLetter(m)
	}
	t.q.unplace(m)
	m.Receives++
	m.Received, m.Receipt = t.now, ids.Hex(16)
	m.Visible = t.now + t.want.visibility.Milliseconds()
	if m.First == 0 {
		m.First = t.now
	}
	t.taken = append(t.taken, m)
	raw, err := messages.Encode(m.messageRecord)
	if err != nil {
		return true, err
	}
	t.writes = append(t.writes, bytestore.Put(t.q.sc.bucket(t.q.id), key(messageLetter, m.seq), raw))
	return true, nil
}

func (t *taker) drop(m *message) {
	t.q.remove(m, t.now)
	t.writes = append(t.writes, deletion(t.q, m.seq)...)
}

// deletion returns the writes that delete a message from disk.
func deletion(q *queue, seq uint64) []bytestore.Write {
	b := q.sc.bucket(q.id)
	return []bytestore.Write{bytestore.Delete(b, key(messageLetter, seq)), bytestore.Delete(b, key(contentLetter, seq))}
}

// deadLetter moves a message to the dead-letter queue. The message keeps its ID and receive count
// and, in a standard queue, the time when it was sent.
// https://docs.aws.amazon.com/AWSSimpleQueueService/latest/SQSDeveloperGuide/sqs-dead-letter-queues.html
func (t *taker) deadLetter(m *message) error {
	rec := m.messageRecord
	rec.Visible, rec.Receipt, rec.Source = t.now, "", t.q.sc.arn(t.q.name)
	if t.q.fifo {
		rec.Sent = t.now
	}
	writes, err := t.s.move(t.q, t.dead, m, rec, t.now)
	if errors.Is(err, bytestore.ErrDamaged) { // it can never be received, and blocks the messages behind it
		t.s.log.Warn("sqs: dropping a message that cannot be read", "queue", rec.Source, "id", m.ID, "err", err)
		t.drop(m)
		return nil
	}
	t.writes = append(t.writes, writes...)
	return err
}

// move moves a message to another queue, with rec as its new record.
func (s *Service) move(from, to *queue, m *message, rec messageRecord, now int64) ([]bytestore.Write, error) {
	content, err := s.bytes.Get(from.sc.bucket(from.id), key(contentLetter, m.seq))
	if err != nil {
		return nil, err
	}
	raw, err := messages.Encode(rec)
	if err != nil {
		return nil, err
	}
	moved := &message{seq: to.next(time.UnixMilli(now)), messageRecord: rec}
	b := to.sc.bucket(to.id)
	writes := append(deletion(from, m.seq), bytestore.Put(b, key(messageLetter, moved.seq), raw), bytestore.Put(b, key(contentLetter, moved.seq), content))
	from.remove(m, now)
	to.add(moved, now)
	to.notify()
	return writes, nil
}

// deliver reads the contents of messages. If the receiver may not read them, they become visible
// again.
func (s *Service) deliver(ctx context.Context, sc scope, rec *queueRecord, in *awssqs.ReceiveMessageInput, got []picked) (*awssqs.ReceiveMessageOutput, error) {
	names := map[sqstypes.MessageSystemAttributeName]bool{}
	//lint:ignore SA1019 clients of today still send it
	for _, n := range in.AttributeNames {
		names[sqstypes.MessageSystemAttributeName(n)] = true
	}
	for _, n := range in.MessageSystemAttributeNames {
		names[n] = true
	}
	out := &awssqs.ReceiveMessageOutput{}
	for _, m := range got {
		c, err := s.content(ctx, sc, rec, m.seq)
		switch {
		case errors.Is(err, bytestore.ErrNotFound): // purged in the meantime
			continue
		case errors.Is(err, bytestore.ErrDamaged):
			s.log.Warn("sqs: a message cannot be read", "queue", sc.arn(rec.Name), "id", m.now.ID, "err", err)
			continue
		case err != nil:
			for _, m := range got {
				_ = s.changeOne(sc, rec.Name, m.handle, 0) // if this fails, the visibility timeout still ends
			}
			return nil, err
		}
		msg := sqstypes.Message{
			MessageId: &m.now.ID, ReceiptHandle: &m.handle, Body: &c.Body, MD5OfBody: aws.String(digest(c.Body)),
			Attributes: m.now.system(m.seq, rec.fifo(), names),
		}
		chosen := map[string]attribute{}
		for name, a := range c.Attributes {
			if wanted(in.MessageAttributeNames, name) {
				chosen[name] = a
			}
		}
		if len(chosen) > 0 {
			msg.MD5OfMessageAttributes, msg.MessageAttributes = digestAttributes(chosen), map[string]sqstypes.MessageAttributeValue{}
		}
		for name, a := range chosen {
			v := sqstypes.MessageAttributeValue{DataType: aws.String(a.Type), BinaryValue: a.Binary}
			if a.Binary == nil {
				v.StringValue = aws.String(a.Text)
			}
			msg.MessageAttributes[name] = v
		}
		out.Messages = append(out.Messages, msg)
	}
	return out, nil
}

func (s *Service) content(ctx context.Context, sc scope, rec *queueRecord, seq uint64) (contentRecord, error) {
	raw, err := s.bytes.Get(sc.bucket(rec.ID), key(contentLetter, seq))
	if err != nil {
		return contentRecord{}, err
	}
	c, err := contents.Decode(raw)
	if err != nil {
		return c, err
	}
	return s.unseal(ctx, rec, c)
}

// system returns the message's system attributes with the given names.
func (m *messageRecord) system(seq uint64, fifo bool, names map[sqstypes.MessageSystemAttributeName]bool) map[string]string {
	all := map[sqstypes.MessageSystemAttributeName]string{
		sqstypes.MessageSystemAttributeNameApproximateFirstReceiveTimestamp: strconv.FormatInt(m.First, 10),
		sqstypes.MessageSystemAttributeNameApproximateReceiveCount:          strconv.Itoa(m.Receives),
		sqstypes.MessageSystemAttributeNameSenderId:                         m.Sender,
		sqstypes.MessageSystemAttributeNameSentTimestamp:                    strconv.FormatInt(m.Sent, 10),
		sqstypes.MessageSystemAttributeNameMessageGroupId:                   m.Group,
		sqstypes.MessageSystemAttributeNameMessageDeduplicationId:           m.Dedup,
		sqstypes.MessageSystemAttributeNameAWSTraceHeader:                   m.Trace,
		sqstypes.MessageSystemAttributeNameDeadLetterQueueSourceArn:         m.Source,
	}
	if fifo {
		all[sqstypes.MessageSystemAttributeNameSequenceNumber] = sequence(seq)
	}
	var out map[string]string
	for name, value := range all {
		if value != "" && (names[name] || names[sqstypes.MessageSystemAttributeNameAll]) {
			if out == nil {
				out = map[string]string{}
			}
			out[string(name)] = value
		}
	}
	return out
}
