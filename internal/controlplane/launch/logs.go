package launch

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

// Logging lists the components whose logs are enabled. The child sends the list that it has, and the daemon answers
// when it has changed, or after some seconds.
type Logging struct {
	Components []string
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
