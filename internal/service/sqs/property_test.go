package sqs_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	awssqs "github.com/aws/aws-sdk-go-v2/service/sqs"
	sqstypes "github.com/aws/aws-sdk-go-v2/service/sqs/types"
	"k8s.io/utils/ptr"

	"github.com/drydock-dev/drydock/internal/testkit"
)

// A naive queue is the simplest correct implementation of a queue: it searches all its messages
// every time.
type naive struct {
	fifo     bool
	now      time.Time
	messages []*naiveMessage // in sending order
}

type naiveMessage struct {
	body, group string
	visible     time.Time
	receipts    []string
	deleted     bool
}

func (n *naive) find(body string) *naiveMessage {
	for _, m := range n.messages {
		if m.body == body {
			return m
		}
	}
	return nil
}

func (n *naive) isVisible(m *naiveMessage) bool { return !m.deleted && !m.visible.After(n.now) }

// receivable returns the messages that a receiver may get. In a FIFO queue, these are the first
// ones of each group, up to one that is not visible.
func (n *naive) receivable() []*naiveMessage {
	var out []*naiveMessage
	blocked := map[string]bool{}
	for _, m := range n.messages {
		if n.isVisible(m) && !blocked[m.group] {
			out = append(out, m)
		} else if n.fifo && !m.deleted {
			blocked[m.group] = true
		}
	}
	return out
}

// check returns what is wrong with the received messages.
func (n *naive) check(got []sqstypes.Message, most int) error {
	could := n.receivable()
	if len(got) != min(most, len(could)) {
		return fmt.Errorf("got %d messages of %d that were there", len(got), len(could))
	}
	taken := map[string]bool{}
	for _, g := range got {
		m := n.find(*g.Body)
		if m == nil || !slices.Contains(could, m) || taken[m.body] {
			return fmt.Errorf("got %s, which was not to be had, or twice", *g.Body)
		}
		if n.fifo { // no earlier message of its group may be skipped
			for _, earlier := range could {
				if earlier == m {
					break
				}
				if earlier.group == m.group && !taken[earlier.body] {
					return fmt.Errorf("got %s before %s", m.body, earlier.body)
				}
			}
		}
		taken[m.body] = true
	}
	return nil
}

// TestAgainstANaiveQueue randomly sends, receives and deletes messages, changes their visibility,
// restarts the service, and compares the results with a naive queue. In the end, exactly the
// messages that were sent and not deleted must be there.
func TestAgainstANaiveQueue(t *testing.T) {
	for _, fifo := range []bool{false, true} {
		for seed := range uint64(6) {
			t.Run(fmt.Sprintf("fifo=%v/%d", fifo, seed), func(t *testing.T) { compare(t, fifo, rand.New(rand.NewPCG(seed, 7))) })
		}
	}
}

func compare(t *testing.T, fifo bool, rnd *rand.Rand) {
	const timeout = 30 * time.Second
	dir := t.TempDir()
	w := newWorld(t, options{dir: dir})
	c, account := w.root(t)
	var q *queue
	if fifo {
		q = w.fifo(t, c, nil)
	} else {
		q = w.queue(t, c, "q", nil)
	}
	ctx, n := t.Context(), &naive{fifo: fifo}
	type receipt struct {
		m      *naiveMessage
		handle string
	}
	var receipts []receipt
	sent := 0
	for step := range 250 {
		n.now = w.clock.Now().UTC().Truncate(time.Millisecond)
		fail := func(err error) {
			t.Helper()
			if err != nil {
				t.Fatalf("step %d: %v", step, err)
			}
		}
		switch k := rnd.IntN(100); {
		case k < 35:
			m := &naiveMessage{body: fmt.Sprint(sent), visible: n.now}
			sent++
			in := &awssqs.SendMessageInput{QueueUrl: q.url, MessageBody: &m.body}
			if fifo {
				m.group = string('a' + rune(rnd.IntN(3)))
				in.MessageGroupId = &m.group
			} else if rnd.IntN(4) == 0 {
				in.DelaySeconds = rnd.Int32N(40)
				m.visible = n.now.Add(time.Duration(in.DelaySeconds) * time.Second)
			}
			_, err := c.SendMessage(ctx, in)
			fail(err)
			n.messages = append(n.messages, m)
		case k < 60:
			most := 1 + rnd.Int32N(10)
			got := q.receive(most)
			fail(n.check(got, int(most)))
			for _, g := range got {
				m := n.find(*g.Body)
				m.visible, m.receipts = n.now.Add(timeout), append(m.receipts, *g.ReceiptHandle)
				receipts = append(receipts, receipt{m, *g.ReceiptHandle})
				if want := fmt.Sprint(len(m.receipts)); g.Attributes["ApproximateReceiveCount"] != want {
					t.Fatalf("step %d: %s was received %s times, want %s", step, m.body, g.Attributes["ApproximateReceiveCount"], want)
				}
			}
		case k < 75 && len(receipts) > 0:
			r := receipts[rnd.IntN(len(receipts))]
			last := r.m.receipts[len(r.m.receipts)-1] == r.handle
			_, err := c.DeleteMessage(ctx, &awssqs.DeleteMessageInput{QueueUrl: q.url, ReceiptHandle: &r.handle})
			switch {
			case r.m.deleted || last && (!fifo || r.m.visible.After(n.now)):
				fail(err)
				r.m.deleted = true
			case fifo:
				testkit.WantErrorWith(t, err, "InvalidParameterValue", "The receipt handle has expired.")
			default:
				fail(err) // it reports success but does nothing
			}
		case k < 85 && len(receipts) > 0:
			r := receipts[rnd.IntN(len(receipts))]
			seconds := rnd.Int32N(60) * rnd.Int32N(2)
			_, err := c.ChangeMessageVisibility(ctx, &awssqs.ChangeMessageVisibilityInput{QueueUrl: q.url, ReceiptHandle: &r.handle, VisibilityTimeout: seconds})
			latest := r.m.receipts[len(r.m.receipts)-1] == r.handle
			if good := !r.m.deleted && (!fifo || latest && r.m.visible.After(n.now)); good {
				fail(err)
				r.m.visible = n.now.Add(time.Duration(seconds) * time.Second)
			} else if err == nil {
				t.Fatalf("step %d: the visibility of a message changed that is not in flight", step)
			}
		case k < 97:
			w.clock.Step(time.Duration(rnd.IntN(15)) * time.Second)
		default: // restart the daemon
			w.Stop()
			fail(w.bytes.Close())
			w = newWorld(t, options{dir: dir, store: w.Store, clock: w.clock})
			c = awssqs.NewFromConfig(w.AWSConfig(account))
			q = &queue{t, c, w, q.url}
		}
	}
	w.clock.Step(time.Minute)
	n.now = w.clock.Now().UTC().Truncate(time.Millisecond)
	var left, want []string
	for _, m := range n.messages {
		if !m.deleted {
			want = append(want, m.body)
		}
	}
	for {
		got := testkit.Must(c.ReceiveMessage(ctx, &awssqs.ReceiveMessageInput{QueueUrl: q.url, MaxNumberOfMessages: 10, VisibilityTimeout: 1000}))(t).Messages
		if len(got) == 0 {
			break
		}
		var entries []sqstypes.DeleteMessageBatchRequestEntry
		for i, m := range got {
			left = append(left, *m.Body)
			entries = append(entries, sqstypes.DeleteMessageBatchRequestEntry{Id: ptr.To(fmt.Sprint(i)), ReceiptHandle: m.ReceiptHandle})
		}
		testkit.Must(c.DeleteMessageBatch(ctx, &awssqs.DeleteMessageBatchInput{QueueUrl: q.url, Entries: entries}))(t)
	}
	slices.Sort(left)
	slices.Sort(want)
	if strings.Join(left, " ") != strings.Join(want, " ") {
		t.Errorf("left %v\nwant %v", left, want)
	}
	q.wantCounts("0 0 0")
}

// TestStartedAgain checks that a queue's state other than messages survives a restart.
func TestStartedAgain(t *testing.T) {
	dir := t.TempDir()
	w := newWorld(t, options{dir: dir})
	c, account := w.root(t)
	q := w.fifo(t, c, nil)
	q.send("a:1", "a:2")
	before := q.want(1, "a:1")[0]
	gone := w.queue(t, c, "gone", nil)
	gone.send("orphan")
	w.Stop()
	if err := w.bytes.Close(); err != nil {
		t.Fatal(err)
	}
	w = newWorld(t, options{dir: dir, store: w.Store, clock: w.clock})
	c = awssqs.NewFromConfig(w.AWSConfig(account))
	q = &queue{t, c, w, q.url}
	q.send("a:2") // a duplicate
	q.wantCounts("1 0 1")
	if err := q.delete(before); err != nil {
		t.Errorf("with the receipt of before: %v", err)
	}
	if m := q.want(10, "a:2")[0]; m.Attributes["SequenceNumber"] <= before.Attributes["SequenceNumber"] {
		t.Errorf("sequence numbers %s, %s", before.Attributes["SequenceNumber"], m.Attributes["SequenceNumber"])
	}
	// An interrupted reset has left messages without a queue.
	if err := w.Store.Reset(t.Context(), account); err != nil {
		t.Fatal(err)
	}
	testkit.Run(t, w.sqs.Run)
	testkit.Eventually(t, 10*time.Second, func() error {
		if n := w.bytes.Used(account); n != 0 {
			return fmt.Errorf("%d bytes are left", n)
		}
		return nil
	})
}

// BenchmarkMessages sends, receives and deletes messages in batches of ten, on disk.
func BenchmarkMessages(b *testing.B) {
	w := newWorld(b, options{real: true, sync: true})
	c, _ := w.root(b)
	q := w.queue(b, c, "q", nil)
	ctx := b.Context()
	b.SetParallelism(8)
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			var entries []sqstypes.SendMessageBatchRequestEntry
			for i := range 10 {
				entries = append(entries, sqstypes.SendMessageBatchRequestEntry{Id: aws.String(fmt.Sprint(i)), MessageBody: aws.String(strings.Repeat("x", 500))})
			}
			testkit.Must(c.SendMessageBatch(ctx, &awssqs.SendMessageBatchInput{QueueUrl: q.url, Entries: entries}))(b)
			got := testkit.Must(c.ReceiveMessage(ctx, &awssqs.ReceiveMessageInput{QueueUrl: q.url, MaxNumberOfMessages: 10}))(b).Messages
			var done []sqstypes.DeleteMessageBatchRequestEntry
			for i, m := range got {
				done = append(done, sqstypes.DeleteMessageBatchRequestEntry{Id: aws.String(fmt.Sprint(i)), ReceiptHandle: m.ReceiptHandle})
			}
			if len(done) > 0 {
				testkit.Must(c.DeleteMessageBatch(ctx, &awssqs.DeleteMessageBatchInput{QueueUrl: q.url, Entries: done}))(b)
			}
		}
	})
	b.ReportMetric(float64(10*b.N)/b.Elapsed().Seconds(), "messages/s")
}
