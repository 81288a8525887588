package record

import (
	"net/netip"
	"time"

	ekstypes "github.com/aws/aws-sdk-go-v2/service/eks/types"
)

// A Cluster is a cluster, kept under its name.
type Cluster struct {
	// Cluster is DescribeCluster's answer. Endpoint, certificate authority and
	// issuer are filled in when the cluster becomes ACTIVE.
	Cluster ekstypes.Cluster
	// UID is unique to this life of the cluster.
	UID     string
	Creator Identity
	// BootstrapAdmin says the creator is an administrator.
	BootstrapAdmin bool
	// SelfManagedAddons says that the new cluster gets CoreDNS, aws-node and
	// kube-proxy.
	SelfManagedAddons bool `json:",omitempty"`
	// Token and Request make CreateCluster idempotent.
	Token, Request string
	// Since is when Status was entered.
	Since time.Time

	Plane Plane
	// SecurityGroupName is chosen before the group is made, so that a repeated
	// attempt finds it.
	SecurityGroupName string
	// Grants are the grants on KMS keys that EKS made for the cluster role.
	Grants []KeyGrant `json:",omitempty"`
	// HalfEncrypted says that the control plane has taken its key, but that the update
	// failed before all was encrypted. It may be repeated with the same key.
	HalfEncrypted bool `json:",omitempty"`
	// Interfaces are the control plane's network interfaces by subnet.
	Interfaces map[string]string
}

// Name is the cluster's name.
func (c *Cluster) Name() string { return *c.Cluster.Name }

// Mode is the cluster's authentication mode.
func (c *Cluster) Mode() ekstypes.AuthenticationMode {
	return c.Cluster.AccessConfig.AuthenticationMode
}

// UsesAPI reports whether access entries count.
func (c *Cluster) UsesAPI() bool {
	return c.Mode() != ekstypes.AuthenticationModeConfigMap
}

// UsesConfigMap reports whether the aws-auth ConfigMap counts.
func (c *Cluster) UsesConfigMap() bool {
	return c.Mode() != ekstypes.AuthenticationModeApi
}

// Owner is what the control plane is claimed for.
func (c *Cluster) Owner() string { return *c.Cluster.Arn + "/" + c.UID }

// DNSAddress is the address of the cluster's DNS: the tenth of the service range.
func (c *Cluster) DNSAddress() string {
	p, err := netip.ParsePrefix(*c.Cluster.KubernetesNetworkConfig.ServiceIpv4Cidr)
	if err != nil {
		return "" // checked when the cluster was made
	}
	a := p.Addr()
	for range 10 {
		a = a.Next()
	}
	return a.String()
}

// KeyARN is the key that the cluster is encrypted with, or "".
func (c *Cluster) KeyARN() string {
	if len(c.Cluster.EncryptionConfig) == 0 {
		return ""
	}
	return *c.Cluster.EncryptionConfig[0].Provider.KeyArn
}

// A KeyGrant is a grant by which the cluster role uses a key.
type KeyGrant struct {
	KeyARN string
	ID     string
}

// A Plane is a control plane that belongs to a cluster.
type Plane struct {
	ID string
	// Endpoint is cluster.endpoint: https://127.0.0.1:PORT.
	Endpoint string
	// AWSHost is the endpoint's name on AWS, without scheme:
	// 0123….gr7.us-east-1.eks.amazonaws.com. Nodes are configured with this name.
	AWSHost string
	CAPEM   []byte
	// Issuer is the OIDC issuer of the cluster's service accounts.
	Issuer string
	// PlatformVersion is eks.N; empty takes the version catalog's.
	PlatformVersion string
}

// A VPCChange is the wanted endpoint access.
type VPCChange struct {
	Public, Private bool
	CIDRs           []string
	SecurityGroups  []string
	Subnets         []string
}

// An Update is an update of a cluster, a node group or an add-on, kept under CLUSTER/ID.
type Update struct {
	Update    ekstypes.Update
	Nodegroup string // empty: the cluster's own or an add-on's
	Addon     string `json:",omitempty"`
	Token     string
	Request   string
	// Changes that a cluster update makes when it succeeds.
	VPC                *VPCChange                  `json:",omitempty"`
	AuthenticationMode ekstypes.AuthenticationMode `json:",omitempty"`
	SupportType        ekstypes.SupportType        `json:",omitempty"`
	DeletionProtection *bool                       `json:",omitempty"`
	Encryption         *KeyGrant                   `json:",omitempty"`
}
