package launch

import "time"

// A Cloud is what the cloud provider of one cluster needs to know of AWS. The child
// asks for it, over the connection of its webhooks, when there is the first service
// that wants a load balancer: a spare control plane has no cluster before it is
// claimed.
type Cloud struct {
	Region string `json:"region,omitempty"`
	// Cluster is the name in the tags kubernetes.io/cluster/NAME.
	Cluster string `json:"cluster,omitempty"`
	VPC     string `json:"vpc,omitempty"`
	// Subnet is one of the control plane's, which the provider falls back to.
	Subnet string `json:"subnet,omitempty"`
	// Endpoint is where the AWS API answers.
	Endpoint string `json:"endpoint,omitempty"`
	// Credentials are of the cluster role. They are in no file and no argument.
	Credentials Credentials `json:"credentials"`
	// Problem says why the rest is missing, or only the credentials.
	Problem string `json:"problem,omitempty"`
}

// Credentials are temporary ones of a role.
type Credentials struct {
	AccessKeyID     string    `json:"AccessKeyId"`
	SecretAccessKey string    `json:"SecretAccessKey"`
	SessionToken    string    `json:"Token"`
	Expiration      time.Time `json:"Expiration"`
}

// CloudPath is where the daemon's webhooks answer with a Cloud.
const CloudPath = "/cloud"
