package events

import (
	"encoding/binary"
	"encoding/json"
	"time"

	"github.com/drydock-dev/drydock/internal/bytestore"
	"github.com/drydock-dev/drydock/internal/store"
)

var (
	// buses are stored by name. The default bus has a record only if it has tags or a policy.
	buses = store.NewCollection[busRecord]("events", "bus")
	// rules are stored under BUS/NAME.
	rules = store.NewCollection[ruleRecord]("events", "rule")

	// deliveries and marks are in the store of bytes.
	deliveries = store.NewForm[delivery]("events", "delivery")
	marks      = store.NewForm[mark]("events", "mark")
)

// A busRecord is an event bus.
type busRecord struct {
	Name              string
	Description       string `json:",omitempty"`
	Created, Modified time.Time
	Policy            string `json:",omitempty"`
	Tags              map[string]string
}

// A ruleRecord is a rule.
type ruleRecord struct {
	Bus, Name   string
	Description string `json:",omitempty"`
	Pattern     string `json:",omitempty"`
	Schedule    string `json:",omitempty"`
	Disabled    bool   `json:",omitempty"`
	// Started is when the schedule was set or enabled.
	Started time.Time
	Targets []target
	Tags    map[string]string
}

// A target receives the events of a rule.
type target struct {
	ID, ARN string
	// Input, Path or Template determines what the target gets. If all are empty, it gets the event.
	Input    string            `json:",omitempty"`
	Path     string            `json:",omitempty"`
	Template string            `json:",omitempty"`
	Paths    map[string]string `json:",omitempty"` // paths of the template's variables
	// Group is the message group of a FIFO queue.
	Group      string `json:",omitempty"`
	DeadLetter string `json:",omitempty"` // ARN of a queue
	MaxAge     *int32 `json:",omitempty"` // seconds
	MaxRetries *int32 `json:",omitempty"`
}

// A delivery is an event on its way to a target.
type delivery struct {
	Rule   string // ARN
	Target target
	Event  json.RawMessage
	Body   string // what the target gets
	Time   time.Time
	// Attempts is the number of failed attempts, the last one with Code and Message. Due is when to
	// try again.
	Attempts      int       `json:",omitempty"`
	Due           time.Time `json:",omitzero"`
	Code, Message string    `json:",omitempty"`
}

// A deliveryID is the place of a delivery in the byte store.
type deliveryID struct {
	bucket bytestore.Bucket
	number uint64
}

// A mark says which state of something the last event was about (EmitOnce).
type mark struct{ State string }

// The keys in a bucket begin with a letter.
const (
	deliveryLetter = 'd'
	markLetter     = 'm'
)

func (id deliveryID) key() []byte {
	return binary.BigEndian.AppendUint64([]byte{deliveryLetter}, id.number)
}

func markKey(thing string) []byte { return append([]byte{markLetter}, thing...) }
