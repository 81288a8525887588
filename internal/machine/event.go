package machine

// An Event is something in a machine's life that `drydock why` shows.
type Event struct {
	Name     string // one of the Event… constants
	Err      error  // why it failed; nil if it succeeded
	Evidence string // what was observed: a count, a name
}

// The events that every machine has, whatever runs on it.
const (
	EventBoot     = "boot"      // the machine is on
	EventMetadata = "metadata"  // the instance metadata service answers
	EventScript   = "script"    // a script of user data has run
	EventUserData = "user-data" // user data was read and understood
	EventStop     = "stop"      // the machine is off
)
