package logs

import (
	"encoding/binary"
	"time"

	"github.com/drydock-dev/drydock/internal/store"
)

var (
	// groups are stored by name.
	groups = store.NewCollection[groupRecord]("logs", "group")
	// streams are stored under GROUPID/NAME, because the names of both groups and streams may
	// contain slashes.
	streams = store.NewCollection[streamRecord]("logs", "stream")
	// resourcePolicies are stored by name.
	resourcePolicies = store.NewCollection[policyRecord]("logs", "resourcepolicy")

	// events and states are in the byte store.
	events = store.NewForm[eventRecord]("logs", "event")
	states = store.NewForm[streamState]("logs", "streamstate")
)

// A groupRecord is a log group.
type groupRecord struct {
	// ID distinguishes the group from earlier and later ones with the same name.
	ID        string
	Name      string
	Created   time.Time
	Class     string
	Retention int32  `json:",omitempty"` // in days; 0 means forever
	KMSKey    string `json:",omitempty"`
	Protected bool   `json:",omitempty"`
	Tags      map[string]string
}

// cutoff returns the time before which events have expired, in milliseconds since 1970.
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

// An eventRecord is an event. Its key contains its time.
type eventRecord struct {
	Ingested int64
	Message  string
}

// A streamState is the part of a stream's state that events change. Times are in milliseconds since
// 1970.
type streamState struct {
	First, Last, Ingested int64
	// Sequence is the sequence number of the last event.
	Sequence uint64
}

// A streamID identifies a stream among those of all accounts.
type streamID struct{ account, region, group, stream string }

// Keys in a group's bucket begin with one of these letters.
const (
	eventLetter = 'e'
	stateLetter = 's'
)

// A position is the position of an event in its group.
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

// from returns the first key of events at or after a time.
func from(time int64) []byte {
	return binary.BigEndian.AppendUint64([]byte{eventLetter}, uint64(max(time, 0)))
}

// end is a key after those of all events.
var end = []byte{eventLetter + 1}

func stateKey(stream string) []byte { return append([]byte{stateLetter}, stream...) }
