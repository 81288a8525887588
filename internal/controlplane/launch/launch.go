// Package launch defines the messages between a control plane's parent (controlplane) and child (controlplane/child),
// and the names of the files that they share. Only those two import it.
package launch

import (
	"encoding/json"
	"path/filepath"
)

// Mode is the child mode of a control plane, see childproc.Modes.
const Mode = "controlplane"

// A Config is the configuration that the parent passes to the child. Keys and certificates are in files under Dir.
type Config struct {
	// Dir is the plane's folder. The methods of Files name the files in it.
	Dir string
	// Version is the Kubernetes minor version to emulate: "1.33".
	Version string
	// GitVersion is what /version reports: v1.33.5-eks-1234567.
	GitVersion string
	// Etcd is where the plane's state is.
	Etcd Etcd
	// ServiceCIDR is the range of service addresses.
	ServiceCIDR string
	// Issuer is the issuer of service account tokens.
	Issuer string
	// AWSHost is the endpoint's name on AWS.
	AWSHost string
	// Settings are what the user has set about the components.
	Settings Settings `json:",omitzero"`
	// Copy is true if the plane is a copy for a rehearsal. Its cloud controller does not run.
	Copy bool `json:",omitempty"`
	// Successor means that another process still runs the plane's controllers. This one only answers requests until it
	// is sent Lead.
	Successor bool `json:",omitempty"`
}

// Settings are settings of the components. The zero value is Kubernetes' defaults.
type Settings struct {
	EventTTL      string // how long the API server keeps events, such as 30m
	NodePorts     string // the ports of services of type NodePort, such as 30000-32767
	HPASyncPeriod string // how often the controller manager looks at HorizontalPodAutoscalers, such as 10s
	// Scoring is the scheduler's strategy for NodeResourcesFit, such as MostAllocated. Weights are the resources that it
	// considers, such as cpu=1,memory=1.
	Scoring, Weights string
}

// A Command is a message from the parent to the child.
type Command string

// The commands during an upgrade, when one process replaces another.
const (
	// Lead makes a successor start the controllers.
	Lead Command = "lead"
	// Retire makes the process stop its controllers, ask its clients to reconnect, and exit.
	Retire Command = "retire"
)

// Etcd says how to reach the state of one control plane.
type Etcd struct {
	Endpoints []string
	// Prefix comes before every key.
	Prefix string
	// CAFile, CertFile and KeyFile are for TLS, or empty.
	CAFile, CertFile, KeyFile string
}

// An Event is the kind of a Report.
type Event string

// A child's events, in the order in which they occur.
const (
	// Listening means that Port accepts connections. Requests may still be refused.
	Listening Event = "listening"
	// Serving means that a successor answers requests and waits for Lead.
	Serving Event = "serving"
	// Ready means that requests are answered and all built-in roles exist.
	Ready Event = "ready"
	// Fatal means that the child ends, because of Reason.
	Fatal Event = "fatal"
)

// A Report is a message from the child to the parent.
type Report struct {
	Event  Event
	Port   int    `json:",omitempty"`
	Reason string `json:",omitempty"`
}

// Encode returns the report as bytes.
func (r Report) Encode() []byte {
	b, _ := json.Marshal(r) // strings and a number always encode
	return b
}

// Files returns the names of the files in a plane's folder. Files ending in .pem hold a certificate and its key
// together, so that both are replaced at once.
type Files string

// CA is the certificate authority of servers and clients.
func (d Files) CA() string { return d.file("ca.crt") }

// CAKey is CA's key.
func (d Files) CAKey() string { return d.file("ca.key") }

// Serving is the API server's certificate.
func (d Files) Serving() string { return d.file("apiserver.pem") }

// FrontProxyCA signs the client certificate that the API server presents to aggregated API servers.
func (d Files) FrontProxyCA() string { return d.file("front-proxy-ca.crt") }

// FrontProxy is the API server's client certificate for aggregated API servers.
func (d Files) FrontProxy() string { return d.file("front-proxy-client.pem") }

// KubeletClient is the API server's client certificate for kubelets.
func (d Files) KubeletClient() string { return d.file("apiserver-kubelet-client.pem") }

// ControllerManager is the controller manager's client certificate.
func (d Files) ControllerManager() string { return d.file("controller-manager.pem") }

// Scheduler is the scheduler's client certificate.
func (d Files) Scheduler() string { return d.file("scheduler.pem") }

// ServiceAccountKey signs and verifies service account tokens.
func (d Files) ServiceAccountKey() string { return d.file("service-account.key") }

// TokenWebhook is the client configuration for the daemon's token webhook.
func (d Files) TokenWebhook() string { return d.file("token-webhook.kubeconfig") }

// AuthorizationWebhook is the client configuration for the authorization webhook.
func (d Files) AuthorizationWebhook() string { return d.file("authorization-webhook.kubeconfig") }

// WebhookClient is the API server's client certificate for the daemon's webhooks.
func (d Files) WebhookClient() string { return d.file("webhook-client.pem") }

// WebhookCA verifies the daemon's webhooks.
func (d Files) WebhookCA() string { return d.file("webhook-ca.crt") }

// Authentication is the API server's AuthenticationConfiguration.
func (d Files) Authentication() string { return d.file("authentication.yaml") }

// Authorization is the API server's AuthorizationConfiguration.
func (d Files) Authorization() string { return d.file("authorization.yaml") }

// Admission is the API server's AdmissionConfiguration.
func (d Files) Admission() string { return d.file("admission.yaml") }

// AdmissionWebhook is the client configuration for the daemon's admission webhook.
func (d Files) AdmissionWebhook() string { return d.file("admission-webhook.kubeconfig") }

// PodIdentityWebhook is the MutatingWebhookConfiguration, in JSON, that the child creates in the cluster before the
// cluster is ready.
func (d Files) PodIdentityWebhook() string { return d.file("pod-identity-webhook.json") }

// FargateWebhook is the MutatingWebhookConfiguration, in JSON, that the child updates in clusters that have one.
func (d Files) FargateWebhook() string { return d.file("fargate-webhook.json") }

// Egress is the API server's EgressSelectorConfiguration.
func (d Files) Egress() string { return d.file("egress.yaml") }

// Encryption is the API server's EncryptionConfiguration. The API server reloads it when it changes.
func (d Files) Encryption() string { return d.file("encryption.yaml") }

// ControllerManagerKubeconfig is the controller manager's client configuration. The child writes it, because only the
// child knows its port.
func (d Files) ControllerManagerKubeconfig() string { return d.file("controller-manager.kubeconfig") }

// SchedulerKubeconfig is the scheduler's client configuration.
func (d Files) SchedulerKubeconfig() string { return d.file("scheduler.kubeconfig") }

// SchedulerConfig is the KubeSchedulerConfiguration. The child writes it if there are settings of the scheduler.
func (d Files) SchedulerConfig() string { return d.file("scheduler.yaml") }

// FlexVolumes is the folder of volume plugins; it stays empty.
func (d Files) FlexVolumes() string { return d.file("flexvolume") }

// Log is the child's output.
func (d Files) Log() string { return d.file("child.log") }

func (d Files) file(name string) string { return filepath.Join(string(d), name) }
