package sqs

import (
	"time"

	"github.com/drydock-dev/drydock/internal/store"
)

var (
	// queues are called by their names.
	queues = store.NewCollection[queueRecord]("sqs", "queue")
	// moveTasks are called QUEUE/ID, by the queue that they empty.
	moveTasks = store.NewCollection[moveRecord]("sqs", "movetask")

	// messages and contents are in the store of bytes.
	messages = store.NewForm[messageRecord]("sqs", "message")
	contents = store.NewForm[contentRecord]("sqs", "content")
	// duplicates are the deduplication IDs of the last minutes.
	duplicates = store.NewForm[duplicateRecord]("sqs", "duplicate")
)

// A queueRecord is a queue.
type queueRecord struct {
	// ID tells queues apart that have the same name one after the other.
	ID                string
	Name              string
	Created, Modified time.Time
	// Attributes are those that were set, by their names.
	Attributes map[string]string
	Tags       map[string]string
}

// A messageRecord is what changes of a message, and all that is needed to choose it.
// Times are in milliseconds since 1970.
type messageRecord struct {
	ID       string
	Sent     int64
	Sender   string
	Visible  int64 // not before this
	Received int64 `json:",omitempty"` // the last time
	First    int64 `json:",omitempty"` // the first time
	Receives int   `json:",omitempty"`
	// Receipt is the last one.
	Receipt string `json:",omitempty"`
	Group   string `json:",omitempty"`
	Dedup   string `json:",omitempty"`
	// Source is the ARN of the queue from which the message came to this dead-letter queue.
	Source string `json:",omitempty"`
	Trace  string `json:",omitempty"`
}

// A contentRecord is what a message says. Of a queue with a KMS key it is sealed.
type contentRecord struct {
	Body       string
	Attributes map[string]attribute `json:",omitempty"`
	// Sealed is the content in the form above, encrypted with a data key, which is
	// encrypted by KMS for the queue Context.
	Sealed  []byte `json:",omitempty"`
	DataKey []byte `json:",omitempty"`
	Context string `json:",omitempty"`
}

// An attribute of a message has a value of text or of bytes.
type attribute struct {
	Type   string
	Text   string `json:",omitempty"`
	Binary []byte `json:",omitempty"`
}

// A duplicateRecord is what was sent with a deduplication ID.
type duplicateRecord struct {
	ID    string // the message's
	Seq   uint64
	Until int64
}

// A moveRecord is a task that moves messages out of a dead-letter queue.
type moveRecord struct {
	ID          string
	Source      string // ARNs
	Destination string // empty: where they came from
	PerSecond   int32  // 0: as many as possible
	Status      string
	Moved       int64
	ToMove      int64
	Started     time.Time
	Failure     string
}
