package launch

import (
	"slices"
	"time"
)

// The components of a control plane that write logs. Their log streams' names begin with these names.
// https://docs.aws.amazon.com/eks/latest/userguide/control-plane-logs.html
const (
	APIServer              = "kube-apiserver"
	Audit                  = "kube-apiserver-audit"
	Authenticator          = "authenticator"
	ControllerManager      = "kube-controller-manager"
	CloudControllerManager = "cloud-controller-manager"
	Scheduler              = "kube-scheduler"
)

// A LogLine is a line that a component wrote.
type LogLine struct {
	Component string
	Time      int64 // milliseconds since 1970
	Text      string
}

// Logging lists the components whose logs are enabled, and has the faults in force. The child sends what it has, and the
// daemon answers when that has changed, or after some seconds.
type Logging struct {
	Components []string
	Faults     Faults `json:",omitzero"`
}

// Equal reports whether two are the same.
func (l Logging) Equal(other Logging) bool {
	return slices.Equal(l.Components, other.Components) && l.Faults == other.Faults
}

// Faults are faults that an API server applies to requests.
type Faults struct {
	Delay   time.Duration // every request takes longer
	NoSpace bool          // etcd's database has reached its size limit, so nothing can be written
}

// Logs holds log lines from the child. The daemon answers with a Problem if the child should send them again.
type Logs struct {
	Lines   []LogLine `json:",omitempty"`
	Problem string    `json:",omitempty"`
}

// Paths of the daemon's webhook server for Logging and Logs.
const (
	LoggingPath = "/logging"
	LogsPath    = "/logs"
)
