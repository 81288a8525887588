package launch

import "time"

// A Cloud is what the cloud provider of one cluster needs to know about AWS. The child asks for it, over the
// connection of its webhooks, when the first service needs a load balancer, because a spare control plane has no
// cluster until it is claimed.
type Cloud struct {
	Region string `json:"region,omitempty"`
	// Cluster is the name in the tags kubernetes.io/cluster/NAME.
	Cluster string `json:"cluster,omitempty"`
	VPC     string `json:"vpc,omitempty"`
	// Subnet is one of the control plane's subnets, which the provider uses as a fallback.
	Subnet string `json:"subnet,omitempty"`
	// Endpoint is the address of the AWS API.
	Endpoint string `json:"endpoint,omitempty"`
	// Credentials are the cluster role's. They are not in any file or argument.
	Credentials Credentials `json:"credentials"`
	// Problem says why everything else, or only the credentials, is missing.
	Problem string `json:"problem,omitempty"`
}

// Credentials are temporary credentials of a role.
type Credentials struct {
	AccessKeyID     string    `json:"AccessKeyId"`
	SecretAccessKey string    `json:"SecretAccessKey"`
	SessionToken    string    `json:"Token"`
	Expiration      time.Time `json:"Expiration"`
}

// CloudPath is the path of the daemon's webhook server that returns a Cloud.
const CloudPath = "/cloud"
