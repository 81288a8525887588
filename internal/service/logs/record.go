package logs

import (
	"encoding/binary"
	"time"

	"github.com/drydock-dev/drydock/internal/store"
)

var (
	// groups are called by their names.
	groups = store.NewCollection[groupRecord]("logs", "group")
	// streams are called GROUPID/NAME: the names of groups and streams both may have slashes.
	streams = store.NewCollection[streamRecord]("logs", "stream")
	// resourcePolicies are called by their names.
	resourcePolicies = store.NewCollection[policyRecord]("logs", "resourcepolicy")

	// events and states are in the store of bytes.
	events = store.NewForm[eventRecord]("logs", "event")
	states = store.NewForm[streamState]("logs", "streamstate")
)

// A groupRecord is a log group.
type groupRecord struct {
	// ID tells groups apart that have the same name one after the other.
	ID        string
	Name      string
	Created   time.Time
	Class     string
	Retention int32  `json:",omitempty"` // days; 0: for good
	KMSKey    string `json:",omitempty"`
	Protected bool   `json:",omitempty"`
	Tags      map[string]string
}

// cutoff is the time before which events have expired, in milliseconds since 1970.
func (g *groupRecord) cutoff(now time.Time) int64 {
	if g.Retention == 0 {
		return 0
	}
	return now.AddDate(0, 0, -int(g.Retention)).UnixMilli()
}

// A streamRecord is a log stream.
type streamRecord struct {
	ID      string // 16 digits, part of its events' keys
	Name    string
	Created time.Time
}

// A policyRecord is a resource policy of an account in a region.
type policyRecord struct {
	Name     string
	Document string
	Updated  time.Time
}

// An eventRecord is an event. Its time is in the key.
type eventRecord struct {
	Ingested int64
	Message  string
}

// A streamState is what events change of a stream. Times are in milliseconds since 1970.
type streamState struct {
	First, Last, Ingested int64
	// Sequence is that of the last event.
	Sequence uint64
}

// A streamID names a stream among those of all accounts.
type streamID struct{ account, region, group, stream string }

// The keys in a group's bucket begin with a letter.
const (
	eventLetter = 'e'
	stateLetter = 's'
)

// A position is the place of an event in its group.
type position struct {
	time     int64
	stream   string
	sequence uint64
}

func (p position) key() []byte {
	k := binary.BigEndian.AppendUint64([]byte{eventLetter}, uint64(p.time))
	return binary.BigEndian.AppendUint64(append(k, p.stream...), p.sequence)
}

func positionOf(key []byte) position {
	return position{int64(binary.BigEndian.Uint64(key[1:])), string(key[9:25]), binary.BigEndian.Uint64(key[25:])}
}

// from is the first key of events that are not older than a time.
func from(time int64) []byte {
	return binary.BigEndian.AppendUint64([]byte{eventLetter}, uint64(max(time, 0)))
}

// end is behind the keys of all events.
var end = []byte{eventLetter + 1}

func stateKey(stream string) []byte { return append([]byte{stateLetter}, stream...) }
