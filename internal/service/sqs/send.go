package sqs

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"regexp"
	"time"
	"unicode/utf8"

	"github.com/aws/aws-sdk-go-v2/aws"
	awssqs "github.com/aws/aws-sdk-go-v2/service/sqs"
	sqstypes "github.com/aws/aws-sdk-go-v2/service/sqs/types"
	"github.com/aws/smithy-go"

	"github.com/drydock-dev/drydock/internal/awsapi"
	"github.com/drydock-dev/drydock/internal/bytestore"
	"github.com/drydock-dev/drydock/internal/ids"
)

// deduplication is how long a FIFO queue remembers sent messages.
const deduplication = 5 * time.Minute

// A draft is a message to be sent.
type draft struct {
	body       string
	attributes map[string]sqstypes.MessageAttributeValue
	system     map[string]sqstypes.MessageSystemAttributeValue
	delay      int32
	delayed    bool // the request has a delay
	group      *string
	dedup      *string

	// Set by check and seal.
	content contentRecord
	raw     []byte
	size    int
	dedupID string
	err     error // why the message is not sent
	// Set by send.
	id       string
	seq      uint64
	new      *message // nil for a duplicate, which was sent before
	trace    string
	md5Attrs *string
}

// SendMessage sends a message.
func (s *Service) SendMessage(ctx context.Context, in *awssqs.SendMessageInput) (*awssqs.SendMessageOutput, error) {
	rec, sc, err := s.find(ctx, in.QueueUrl)
	if err != nil {
		return nil, err
	}
	d := &draft{
		body: *in.MessageBody, attributes: in.MessageAttributes, system: in.MessageSystemAttributes, trace: traceOf(awsapi.CallFrom(ctx)),
		delay: in.DelaySeconds, delayed: in.DelaySeconds != 0 || awsapi.CallFrom(ctx).Members.Has("DelaySeconds"),
		group: in.MessageGroupId, dedup: in.MessageDeduplicationId,
	}
	if err := d.check(&rec); err != nil {
		return nil, err
	}
	if most := rec.number("MaximumMessageSize"); d.size > most {
		return nil, errTooLong(most)
	}
	if rec.fifo() && d.group == nil {
		return nil, errMissing("MessageGroupId")
	}
	if err := s.send(ctx, sc, &rec, d); err != nil {
		return nil, err
	}
	out := &awssqs.SendMessageOutput{
		MessageId: &d.id, MD5OfMessageBody: aws.String(digest(d.body)), MD5OfMessageAttributes: d.md5Attrs, MD5OfMessageSystemAttributes: digestSystem(d.system),
	}
	if rec.fifo() {
		out.SequenceNumber = aws.String(sequence(d.seq))
	}
	return out, nil
}

// SendMessageBatch sends up to ten messages. Each can fail separately.
func (s *Service) SendMessageBatch(ctx context.Context, in *awssqs.SendMessageBatchInput) (*awssqs.SendMessageBatchOutput, error) {
	rec, sc, err := s.find(ctx, in.QueueUrl)
	if err != nil {
		return nil, err
	}
	if err := checkBatch("SendMessageBatchRequestEntry", in.Entries, func(e sqstypes.SendMessageBatchRequestEntry) *string { return e.Id }); err != nil {
		return nil, err
	}
	total := 0
	var drafts, good []*draft
	said := awsapi.CallFrom(ctx).Members.Has("Entries.DelaySeconds")
	for _, e := range in.Entries {
		d := &draft{
			body: *e.MessageBody, attributes: e.MessageAttributes, system: e.MessageSystemAttributes, trace: traceOf(awsapi.CallFrom(ctx)), delay: e.DelaySeconds, delayed: said,
			group: e.MessageGroupId, dedup: e.MessageDeduplicationId,
		}
		d.err = d.check(&rec)
		if rec.fifo() { // the whole batch fails, with a different code from a single message's
			if d.group == nil {
				return nil, errValue("The request must contain the parameter MessageGroupId.")
			}
			if d.dedupID == "" && d.err != nil {
				return nil, d.err
			}
		}
		if most := rec.number("MaximumMessageSize"); d.err == nil && d.size > most && most < maxSize {
			d.err = errEntryTooLong(most)
		}
		total += d.size
		drafts = append(drafts, d)
		if d.err == nil {
			good = append(good, d)
		}
	}
	if total > maxSize {
		return nil, errBatchTooLong(total)
	}
	if err := s.send(ctx, sc, &rec, good...); err != nil {
		return nil, err
	}
	out := &awssqs.SendMessageBatchOutput{Successful: []sqstypes.SendMessageBatchResultEntry{}}
	for i, d := range drafts {
		id := in.Entries[i].Id
		if d.err != nil {
			failed, err := failure(id, d.err)
			if err != nil {
				return nil, err
			}
			out.Failed = append(out.Failed, failed)
			continue
		}
		e := sqstypes.SendMessageBatchResultEntry{
			Id: id, MessageId: &d.id, MD5OfMessageBody: aws.String(digest(d.body)), MD5OfMessageAttributes: d.md5Attrs, MD5OfMessageSystemAttributes: digestSystem(d.system),
		}
		if rec.fifo() {
			e.SequenceNumber = aws.String(sequence(d.seq))
		}
		out.Successful = append(out.Successful, e)
	}
	return out, nil
}

var entryID = regexp.MustCompile(`^[A-Za-z0-9_-]{1,80}$`)

// checkBatch checks the entries of a batch of any kind.
func checkBatch[T any](name string, entries []T, id func(T) *string) error {
	if len(entries) == 0 {
		return errEmptyBatch(name)
	}
	if len(entries) > maxBatch {
		return errManyEntries(len(entries))
	}
	seen := map[string]bool{}
	for _, e := range entries {
		if !entryID.MatchString(*id(e)) {
			return errEntryID()
		}
		if seen[*id(e)] {
			return errRepeatedID(*id(e))
		}
		seen[*id(e)] = true
	}
	return nil
}

// queryCodes are the error codes in batch results that differ from the names of the exceptions.
var queryCodes = map[string]string{"InvalidParameterValueException": "InvalidParameterValue", "MissingRequiredParameterException": "MissingParameter"}

// failure returns the result for an entry's error. Errors that are not AWS's fail the whole batch.
func failure(id *string, err error) (sqstypes.BatchResultErrorEntry, error) {
	var api smithy.APIError
	if !errors.As(err, &api) {
		return sqstypes.BatchResultErrorEntry{}, err
	}
	code := api.ErrorCode()
	if c := queryCodes[code]; c != "" {
		code = c
	}
	return sqstypes.BatchResultErrorEntry{Id: id, Code: &code, Message: aws.String(api.ErrorMessage()), SenderFault: api.ErrorFault() != smithy.FaultServer}, nil
}

var token = regexp.MustCompile("^[A-Za-z0-9!\"#$%&'()*+,\\-./:;<=>?@\\[\\\\\\]^_`{|}~]{1,128}$")

// check validates a message before it is sent.
func (d *draft) check(rec *queueRecord) error {
	if d.body == "" {
		return errMissing("MessageBody")
	}
	if !valid(d.body) {
		return errContents()
	}
	d.content.Body, d.size = d.body, len(d.body)
	if err := d.checkAttributes(); err != nil {
		return err
	}
	if d.group != nil && !token.MatchString(*d.group) {
		return errToken(*d.group, "MessageGroupId")
	}
	if d.dedup != nil && !token.MatchString(*d.dedup) {
		return errToken(*d.dedup, "MessageDeduplicationId")
	}
	if d.delay < 0 || d.delay > 900 {
		return errParameter(d.delay, "DelaySeconds", "DelaySeconds must be >= 0 and <= 900.")
	}
	if !rec.fifo() {
		if d.dedup != nil {
			return errParameter(*d.dedup, "MessageDeduplicationId", notThisType)
		}
		return nil
	}
	switch {
	case d.delay != 0:
		return errParameter(d.delay, "DelaySeconds", notThisType)
	case d.dedup != nil:
		d.dedupID = *d.dedup
	case rec.attribute("ContentBasedDeduplication") == "true":
		sum := sha256.Sum256([]byte(d.body))
		d.dedupID = hex.EncodeToString(sum[:])
	default:
		return errNoDedup()
	}
	d.delayed = false // in FIFO queues, all messages have the queue's delay
	return nil
}

// valid reports whether a text has only characters that SQS allows.
// https://docs.aws.amazon.com/AWSSimpleQueueService/latest/APIReference/API_SendMessage.html
func valid(text string) bool {
	if !utf8.ValidString(text) {
		return false
	}
	for _, r := range text {
		if r < 0x20 && r != '\t' && r != '\n' && r != '\r' || r == 0xfffe || r == 0xffff {
			return false
		}
	}
	return true
}

// send stores messages and returns when they are on disk.
func (s *Service) send(ctx context.Context, sc scope, rec *queueRecord, drafts ...*draft) error {
	size := 0
	for _, d := range drafts {
		size += d.size
	}
	if err := s.bytes.Room(sc.Account, size); err != nil {
		return errFull()
	}
	if err := s.seal(ctx, sc, rec, drafts); err != nil {
		return err
	}
	for _, d := range drafts {
		var err error
		if d.raw, err = contents.Encode(d.content); err != nil {
			return err
		}
	}
	if rec.fifo() {
		q, err := s.lockSending(sc, rec.Name)
		if err != nil {
			return err
		}
		defer q.sending.Unlock()
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	q, now, err := s.number(ctx, sc, rec, drafts)
	if err != nil {
		return err
	}
	var writes []bytestore.Write
	b := sc.bucket(q.id)
	for _, d := range drafts {
		if d.new == nil {
			continue
		}
		raw, err := messages.Encode(d.new.messageRecord)
		if err != nil {
			return err
		}
		writes = append(writes, bytestore.Put(b, key(messageLetter, d.seq), raw), bytestore.Put(b, key(contentLetter, d.seq), d.raw))
		if q.fifo {
			id := d.duplicateID(rec)
			if raw, err = duplicates.Encode(q.duplicates[id]); err != nil {
				return err
			}
			writes = append(writes, bytestore.Put(b, duplicateKey(id), raw))
		}
	}
	c := s.bytes.Do(writes...)
	s.mu.Unlock()
	err = c.Wait()
	s.mu.Lock()
	if err != nil {
		s.forget(q.id)
		return err
	}
	if q.closed {
		return nil // the queue will be loaded again, with these messages
	}
	for _, d := range drafts {
		if d.new != nil {
			q.add(d.new, now.UnixMilli())
		}
	}
	q.notify()
	return nil
}

// lockSending acquires the sending lock of a FIFO queue.
func (s *Service) lockSending(sc scope, name string) (*queue, error) {
	for {
		s.mu.Lock()
		q, _, err := s.open(sc, name)
		s.mu.Unlock()
		if err != nil {
			return nil, err
		}
		q.sending.Lock()
		s.mu.Lock()
		closed := q.closed
		s.mu.Unlock()
		if !closed {
			return q, nil
		}
		q.sending.Unlock()
	}
}

// duplicateID returns the ID under which a message is deduplicated.
func (d *draft) duplicateID(rec *queueRecord) string {
	if rec.attribute("DeduplicationScope") == "messageGroup" {
		return *d.group + "\x00" + d.dedupID
	}
	return d.dedupID
}

// number assigns sequence numbers to the messages, and finds those that were sent before.
func (s *Service) number(ctx context.Context, sc scope, rec *queueRecord, drafts []*draft) (*queue, time.Time, error) {
	now := s.now()
	q, _, err := s.open(sc, rec.Name)
	if err != nil {
		return nil, now, err
	}
	sender := awsapi.CallFrom(ctx).Principal.UserID
	for _, d := range drafts {
		if q.fifo {
			if old, ok := q.duplicates[d.duplicateID(rec)]; ok && old.Until > now.UnixMilli() {
				d.id, d.seq = old.ID, old.Seq
				continue
			}
		}
		delay := rec.seconds("DelaySeconds")
		if d.delayed {
			delay = time.Duration(d.delay) * time.Second
		}
		d.id, d.seq = ids.UUID(), q.next(now)
		d.new = &message{seq: d.seq, messageRecord: messageRecord{
			ID: d.id, Sent: now.UnixMilli(), Sender: sender, Visible: now.Add(delay).UnixMilli(),
			Group: aws.ToString(d.group), Dedup: d.dedupID, Trace: d.trace,
		}}
		if q.fifo {
			q.duplicates[d.duplicateID(rec)] = duplicateRecord{ID: d.id, Seq: d.seq, Until: now.Add(deduplication).UnixMilli()}
		}
	}
	return q, now, nil
}
