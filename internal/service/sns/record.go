package sns

import (
	"time"

	"github.com/drydock-dev/drydock/internal/store"
)

var (
	// topics are stored by name.
	topics = store.NewCollection[topicRecord]("sns", "topic")
	// subscriptions are stored under TOPIC/ID.
	subscriptions = store.NewCollection[subscriptionRecord]("sns", "subscription")
)

// A topicRecord is a topic.
type topicRecord struct {
	Name    string
	Created time.Time
	Display string            `json:",omitempty"`
	Policy  string            `json:",omitempty"` // empty for the default policy
	Deleted int               `json:",omitempty"` // how many subscriptions were deleted
	Tags    map[string]string `json:",omitempty"`
}

// A subscriptionRecord is a queue's subscription to a topic.
type subscriptionRecord struct {
	ID, Topic string
	Queue     string // ARN
	Owner     string // the account that subscribed
	// Attributes are the attributes that were set, by name.
	Attributes map[string]string `json:",omitempty"`
}
