package sqs

import (
	"time"

	"github.com/drydock-dev/drydock/internal/store"
)

var (
	// queues are stored by name.
	queues = store.NewCollection[queueRecord]("sqs", "queue")
	// moveTasks are stored under QUEUE/ID, where QUEUE is the dead-letter queue that they empty.
	moveTasks = store.NewCollection[moveRecord]("sqs", "movetask")

	// messages and contents are in the byte store.
	messages = store.NewForm[messageRecord]("sqs", "message")
	contents = store.NewForm[contentRecord]("sqs", "content")
	// duplicates are recent deduplication IDs.
	duplicates = store.NewForm[duplicateRecord]("sqs", "duplicate")
)

// A queueRecord is a queue.
type queueRecord struct {
	// ID distinguishes the queue from earlier and later ones with the same name.
	ID                string
	Name              string
	Created, Modified time.Time
	// Attributes are the attributes that were set, by name.
	Attributes map[string]string
	Tags       map[string]string
}

// A messageRecord has the changing state of a message and everything needed to select it. Times are
// in milliseconds since 1970.
type messageRecord struct {
	ID       string
	Sent     int64
	Sender   string
	Visible  int64 // when the message becomes visible
	Received int64 `json:",omitempty"` // last time received
	First    int64 `json:",omitempty"` // first time received
	Receives int   `json:",omitempty"`
	// Receipt is the latest receipt.
	Receipt string `json:",omitempty"`
	Group   string `json:",omitempty"`
	Dedup   string `json:",omitempty"`
	// Source is the ARN of the queue that moved the message to this dead-letter queue.
	Source string `json:",omitempty"`
	Trace  string `json:",omitempty"`
}

// A contentRecord is the content of a message. In a queue with a KMS key, it is sealed.
type contentRecord struct {
	Body       string
	Attributes map[string]attribute `json:",omitempty"`
	// Sealed is a contentRecord encrypted with DataKey, which KMS has encrypted for the queue
	// Context.
	Sealed  []byte `json:",omitempty"`
	DataKey []byte `json:",omitempty"`
	Context string `json:",omitempty"`
}

// An attribute is a message attribute with a string or binary value.
type attribute struct {
	Type   string
	Text   string `json:",omitempty"`
	Binary []byte `json:",omitempty"`
}

// A duplicateRecord is the message that was sent with a deduplication ID.
type duplicateRecord struct {
	ID    string // the message's ID
	Seq   uint64
	Until int64
}

// A moveRecord is a task that moves messages out of a dead-letter queue.
type moveRecord struct {
	ID          string
	Source      string // ARNs
	Destination string // empty to move messages back to their source
	PerSecond   int32  // 0 for as many as possible
	Status      string
	Moved       int64
	ToMove      int64
	Started     time.Time
	Failure     string
}
