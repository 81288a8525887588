package api

// A PodRunRequest is the body of POST /_drydock/pod-runs: a command of this machine is
// to run as a container of a pod.
type PodRunRequest struct {
	Account   string `json:"account"`
	Region    string `json:"region"`
	Cluster   string `json:"cluster,omitempty"` // empty: the only one
	Namespace string `json:"namespace"`
	Pod       string `json:"pod"`
	Container string `json:"container,omitempty"`
	// Listener is where the command reaches its AWS: an address of the CLI's own.
	Listener string `json:"listener"`
}

// A PodRunEvent is a line of the answer, which lasts as long as the run. The first has
// Run.
type PodRunEvent struct {
	Run *PodRun `json:"run,omitempty"`
	// Files are new contents, by their paths in the container.
	Files map[string][]byte `json:"files,omitempty"`
	// Notice is for the user.
	Notice string `json:"notice,omitempty"`
}

// A PodRun is what a command of a pod has around it.
type PodRun struct {
	// Secret lets connections of this process into the run.
	Secret         string            `json:"secret"`
	Cluster        string            `json:"cluster"`
	Container      string            `json:"container"`
	Containers     []string          `json:"containers"`
	ServiceAccount string            `json:"serviceAccount"`
	Env            map[string]string `json:"env"`
	Files          map[string][]byte `json:"files"`
	Mounts         []string          `json:"mounts"` // where Files are
}

// The targets of CONNECT by which a run's connections get into the daemon.
const (
	PodRunTarget        = "pod.drydock:80"
	PodRunKubernetes    = "kubernetes.default.svc:443"
	PodRunAuthorization = "Drydock-Run " // before the secret, in Proxy-Authorization
)
