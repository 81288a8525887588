package launch

import (
	"reflect"
	"slices"
	"time"

	"github.com/drydock-dev/drydock/internal/automode"
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

// Logging lists the components whose logs are enabled, and has the faults in force and the setting of EKS Auto Mode. The
// child sends what it has, and the daemon answers when that has changed, or after some seconds.
type Logging struct {
	Components []string
	Faults     Faults            `json:",omitzero"`
	AutoMode   *automode.Setting `json:",omitempty"` // nil if it is disabled
}

// Equal reports whether two are the same.
func (l Logging) Equal(other Logging) bool {
	return slices.Equal(l.Components, other.Components) && l.Faults == other.Faults && reflect.DeepEqual(l.AutoMode, other.AutoMode)
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

// Paths of the daemon's webhook server for Logging, for Logs, and for calls and answers of EKS Auto Mode.
const (
	LoggingPath  = "/logging"
	LogsPath     = "/logs"
	AutoModePath = "/automode"
)

// An AutoMode holds a call of EKS Auto Mode's controllers, and then its answer.
type AutoMode struct {
	Call   *automode.Call   `json:",omitempty"`
	Answer *automode.Answer `json:",omitempty"`
}
