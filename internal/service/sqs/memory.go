package sqs

import (
	"container/heap"
	"container/list"
	"encoding/base64"
	"encoding/binary"
	"fmt"
	"slices"
	"sort"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/drydock-dev/drydock/internal/bytestore"
	"github.com/drydock-dev/drydock/internal/store"
)

// A queue is a queue in memory: its messages without their contents. Service.mu guards all fields
// except sending. If a write fails, the queue is dropped from memory and loaded again.
type queue struct {
	sc   scope
	id   string
	name string
	fifo bool

	messages map[uint64]*message
	// later are the messages that are delayed or in flight, ordered by when they become visible.
	later    later
	inFlight int
	// ready are the visible messages of a standard queue.
	ready list.List
	// groups are the message groups of a FIFO queue. offered are those whose first message is
	// visible, or was when the group was added.
	groups  map[string]*group
	offered list.List
	// duplicates are the recently sent messages, by deduplication ID.
	duplicates map[string]duplicateRecord
	attempts   map[string]attempt
	last       uint64 // latest sequence number
	purged     time.Time
	closed     bool
	// changed is closed when a message may have become visible.
	changed chan struct{}

	// sending ensures that the messages of a FIFO queue become visible in the order of their
	// sequence numbers. Lock it before mu.
	sending sync.Mutex
}

// A message is a message in a queue.
type message struct {
	seq uint64
	messageRecord
	group *group
	index int           // index in later, or -1
	ready *list.Element // element of ready, or nil
	taken bool          // is in later because it was received
}

type group struct {
	name     string
	messages []*message // all messages, by sequence number
	offer    *list.Element
}

// later is a heap.
type later []*message

func (h later) Len() int           { return len(h) }
func (h later) Less(i, j int) bool { return h[i].Visible < h[j].Visible }
func (h later) Swap(i, j int)      { h[i], h[j] = h[j], h[i]; h[i].index, h[j].index = i, j }
func (h *later) Push(x any)        { m := x.(*message); m.index = len(*h); *h = append(*h, m) }
func (h *later) Pop() any {
	m := (*h)[len(*h)-1]
	(*h)[len(*h)-1] = nil
	*h, m.index = (*h)[:len(*h)-1], -1
	return m
}

// Keys in a queue's bucket: a letter, followed by the sequence number or the deduplication ID.
const (
	messageLetter   = 'm'
	contentLetter   = 'c'
	duplicateLetter = 'd'
)

func key(letter byte, seq uint64) []byte {
	return binary.BigEndian.AppendUint64([]byte{letter}, seq)
}

func duplicateKey(id string) []byte { return append([]byte{duplicateLetter}, id...) }

// open returns the queue with a name, loading it if necessary. The caller holds s.mu, so that a
// queue that is being deleted is found either with its messages or not at all.
func (s *Service) open(sc scope, name string) (*queue, queueRecord, error) {
	rec, err := queues.Get(s.store, sc.Key(name))
	if err != nil {
		return nil, rec, store.NotFoundAs(err, errNoQueue())
	}
	q := s.queues[rec.ID]
	if q == nil {
		if q, err = s.load(sc, &rec); err != nil {
			return nil, rec, err
		}
		s.queues[rec.ID] = q
	}
	return q, rec, nil
}

// load reads a queue from disk, after waiting for earlier writes.
func (s *Service) load(sc scope, rec *queueRecord) (*queue, error) {
	if err := s.bytes.Do().Wait(); err != nil {
		return nil, err
	}
	q := &queue{
		sc: sc, id: rec.ID, name: rec.Name, fifo: rec.fifo(), messages: map[uint64]*message{}, groups: map[string]*group{},
		duplicates: map[string]duplicateRecord{}, attempts: map[string]attempt{}, changed: make(chan struct{}),
	}
	now := s.now().UnixMilli()
	err := s.bytes.Scan(sc.bucket(rec.ID), []byte{messageLetter}, func(k, raw []byte, err error) error {
		if err == nil {
			var m messageRecord
			if m, err = messages.Decode(raw); err == nil {
				q.add(&message{seq: binary.BigEndian.Uint64(k[1:]), messageRecord: m}, now)
			}
		}
		if err != nil { // keep the other messages
			s.log.Warn("sqs: skipping a message that cannot be read", "queue", sc.arn(rec.Name), "err", err)
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return q, s.bytes.Scan(sc.bucket(rec.ID), []byte{duplicateLetter}, func(k, raw []byte, err error) error {
		if err == nil {
			q.duplicates[string(k[1:])], err = duplicates.Decode(raw)
		}
		if err != nil {
			s.log.Warn("sqs: skipping a deduplication ID that cannot be read", "queue", sc.arn(rec.Name), "err", err)
			delete(q.duplicates, string(k[1:]))
		}
		return nil
	})
}

// forget drops a queue from memory, so that it is loaded again on its next use.
func (s *Service) forget(id string) {
	if q := s.queues[id]; q != nil {
		q.close()
		delete(s.queues, id)
	}
}

func (q *queue) close() {
	q.closed = true
	q.notify()
}

func (q *queue) notify() {
	close(q.changed)
	q.changed = make(chan struct{})
}

// next returns a new sequence number. Sequence numbers keep growing even if the queue was emptied
// and the daemon restarted.
func (q *queue) next(now time.Time) uint64 {
	q.last = max(q.last+1, uint64(now.UnixMicro()))
	return q.last
}

// sequence formats a sequence number as clients see it, with 20 digits.
func sequence(seq uint64) string { return fmt.Sprintf("1%019d", seq) }

// add adds a message to the queue.
func (q *queue) add(m *message, now int64) {
	m.index, q.last = -1, max(q.last, m.seq)
	q.messages[m.seq] = m
	if q.fifo {
		g := q.groups[m.Group]
		if g == nil {
			g = &group{name: m.Group}
			q.groups[m.Group] = g
		}
		m.group = g
		at := sort.Search(len(g.messages), func(i int) bool { return g.messages[i].seq > m.seq })
		g.messages = slices.Insert(g.messages, at, m)
	}
	q.place(m, now)
}

// remove removes a message from the queue.
func (q *queue) remove(m *message, now int64) {
	q.unplace(m)
	delete(q.messages, m.seq)
	if g := m.group; g != nil {
		at := slices.Index(g.messages, m)
		g.messages = slices.Delete(g.messages, at, at+1)
		if len(g.messages) == 0 {
			delete(q.groups, g.name)
		} else {
			q.offer(g, now)
		}
	}
}

// place adds a message to the visible ones or to later.
func (q *queue) place(m *message, now int64) {
	if m.Visible > now {
		if m.taken = m.Receipt != ""; m.taken {
			q.inFlight++
		}
		heap.Push(&q.later, m)
		return
	}
	if q.fifo {
		q.offer(m.group, now)
	} else {
		m.ready = q.ready.PushBack(m)
	}
}

func (q *queue) unplace(m *message) {
	switch {
	case m.index >= 0:
		heap.Remove(&q.later, m.index)
		if m.taken {
			m.taken = false
			q.inFlight--
		}
	case m.ready != nil:
		q.ready.Remove(m.ready)
		m.ready = nil
	}
}

// offer adds a group to offered if its first message is visible.
func (q *queue) offer(g *group, now int64) {
	if g.offer == nil && len(g.messages) > 0 && g.messages[0].Visible <= now {
		g.offer = q.offered.PushBack(g)
	}
}

// advance makes messages visible that are due.
func (q *queue) advance(now int64) {
	for len(q.later) > 0 && q.later[0].Visible <= now {
		m := q.later[0]
		q.unplace(m)
		q.place(m, now)
	}
}

type counts struct{ visible, delayed, inFlight int }

// count counts the messages of a queue.
func (s *Service) count(sc scope, rec *queueRecord) (counts, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	q, _, err := s.open(sc, rec.Name)
	if err != nil {
		return counts{}, err
	}
	q.advance(s.now().UnixMilli())
	return counts{visible: len(q.messages) - len(q.later), delayed: len(q.later) - q.inFlight, inFlight: q.inFlight}, nil
}

// purge deletes all messages, and what deduplication remembers. [recorded] test_purge_queue_clears_fifo_deduplication_cache,
// LocalStack's tests/aws/services/sqs/test_sqs.py
func (s *Service) purge(sc scope, rec *queueRecord) (*bytestore.Commit, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	q, _, err := s.open(sc, rec.Name)
	if err != nil {
		return nil, err
	}
	if !q.purged.IsZero() && s.now().Sub(q.purged) < s.cfg.Pause {
		return nil, errPurging(rec.Name)
	}
	c := s.bytes.Do(bytestore.Drop(sc.bucket(rec.ID)))
	s.forget(rec.ID)
	if q, _, err = s.open(sc, rec.Name); err != nil {
		return nil, err
	}
	q.purged = s.now()
	return c, nil
}

// A receipt handle identifies a message of a queue and one receipt of that message. As on AWS, it
// is opaque to clients.
const handlePrefix = "AQEB"

func (q *queue) handle(m *message) string {
	return handlePrefix + base64.StdEncoding.EncodeToString([]byte(q.id+"/"+strconv.FormatUint(m.seq, 10)+"/"+m.Receipt))
}

func parseReceipt(handle string) (queueID string, seq uint64, receipt string, ok bool) {
	text, found := strings.CutPrefix(handle, handlePrefix)
	raw, err := base64.StdEncoding.DecodeString(text)
	f := strings.Split(string(raw), "/")
	if !found || err != nil || len(f) != 3 {
		return "", 0, "", false
	}
	seq, err = strconv.ParseUint(f[1], 10, 64)
	return f[0], seq, f[2], err == nil
}
