package api

// A PodRunRequest is the body of POST /_drydock/pod-runs: a command on this machine is to run as a container of a
// pod.
type PodRunRequest struct {
	Account   string `json:"account"`
	Region    string `json:"region"`
	Cluster   string `json:"cluster,omitempty"` // may be empty if there is only one
	Namespace string `json:"namespace"`
	Pod       string `json:"pod"` // or its owner, such as a Deployment
	Container string `json:"container,omitempty"`
	// Listener is the CLI's own address at which the command reaches AWS.
	Listener string `json:"listener"`
}

// PodRunEnd is the body of POST /_drydock/pod-runs/end: the command has ended.
type PodRunEnd struct {
	Secret string `json:"secret"`
}

// A PodRunEvent is one line of the response, which lasts as long as the run. The first one has Run.
type PodRunEvent struct {
	Run *PodRun `json:"run,omitempty"`
	// Files are new file contents, by their paths in the container.
	Files map[string][]byte `json:"files,omitempty"`
	// Notice is a message for the user.
	Notice string `json:"notice,omitempty"`
}

// A PodRun is the environment of a command that runs as a pod.
type PodRun struct {
	// Secret lets connections of this process into the run.
	Secret         string            `json:"secret"`
	Cluster        string            `json:"cluster"`
	Pod            string            `json:"pod"` // of the owner that was named, if it was not the pod
	Container      string            `json:"container"`
	Containers     []string          `json:"containers"`
	ServiceAccount string            `json:"serviceAccount"`
	Env            map[string]string `json:"env"`
	Files          map[string][]byte `json:"files"`
	Mounts         []string          `json:"mounts"` // the folder of Files
}

// The targets of CONNECT through which a run's connections get into the daemon.
const (
	PodRunTarget        = "pod.drydock:80"
	PodRunKubernetes    = "kubernetes.default.svc:443"
	PodRunAuthorization = "Drydock-Run " // the prefix of the secret in Proxy-Authorization
)
