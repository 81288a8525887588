package record

import (
	"net/netip"
	"time"

	ekstypes "github.com/aws/aws-sdk-go-v2/service/eks/types"

	"github.com/drydock-dev/drydock/internal/store"
)

// A Cluster is a cluster, kept under its name.
type Cluster struct {
	// Cluster is the description that DescribeCluster returns. Endpoint, certificate authority and
	// issuer are set when the cluster becomes ACTIVE.
	Cluster ekstypes.Cluster
	// UID identifies this incarnation of the cluster: a new cluster of the same name has another
	// one.
	UID     string
	Creator Identity
	// BootstrapAdmin reports whether the creator is an administrator.
	BootstrapAdmin bool
	// SelfManagedAddons reports whether the new cluster gets CoreDNS, aws-node and kube-proxy.
	SelfManagedAddons bool `json:",omitempty"`
	// Token and Request make CreateCluster idempotent.
	Token, Request string
	// Since is when the cluster entered its current status.
	Since time.Time

	Plane Plane
	// SecurityGroupName is chosen before the group is created, so that a retry finds the group.
	SecurityGroupName string
	// Grants are the grants on KMS keys that EKS created for the cluster role.
	Grants []KeyGrant `json:",omitempty"`
	// HalfEncrypted means that the control plane has adopted its key, but the update failed before
	// all data was encrypted. The update can be repeated with the same key.
	HalfEncrypted bool `json:",omitempty"`
	// Interfaces are the control plane's network interfaces by subnet.
	Interfaces map[string]string
	// Upgraded is the last upgrade of the Kubernetes version, or nil if there was none or it has been rolled back.
	Upgraded *Upgrade `json:",omitempty"`
	// Authorities are the cluster's certificate authorities since they were first changed, without their certificates.
	Authorities []ekstypes.CertificateAuthority `json:",omitempty"`
	// NodeRole is the role of the nodes of EKS Auto Mode's built-in node pools.
	NodeRole Identity `json:",omitzero"`
	// Rollback is the version rollback in progress of a cluster with EKS Auto Mode, or nil. The cluster is ACTIVE while its
	// nodes are rolled back, and then UPDATING.
	Rollback *Rollback `json:",omitempty"`
	// PlatformTo is the platform version that the cluster is moving to, or empty. PlatformSince is when it got its
	// current one, if that was after its creation.
	PlatformTo    string    `json:",omitempty"`
	PlatformSince time.Time `json:",omitzero"`
	// Source is what the cluster is a copy of, or nil if it is an own cluster.
	Source *Source `json:",omitempty"`
}

// A Source is the cluster of an AWS account that a cluster of a twin is a copy of. Nodes and pods were configured with
// its names, which lead to the copy.
type Source struct {
	Endpoint string // as DescribeCluster showed it
	CAPEM    []byte
	Issuer   string
	// PlaneID is the ID at the end of Issuer. AWSHost is the host of Endpoint if it is one of AWS's.
	PlaneID string
	AWSHost string `json:",omitempty"`
	// ObjectsRead reports whether the Kubernetes objects were read.
	ObjectsRead bool
}

// An Upgrade is a completed upgrade of a cluster, which can be rolled back for a time.
type Upgrade struct {
	From string // such as 1.35
	At   time.Time
	// SupportEnded is the support whose end made AWS upgrade the cluster, or empty if a user did.
	SupportEnded ekstypes.SupportType `json:",omitempty"`
}

// Name is the cluster's name.
func (c *Cluster) Name() string { return *c.Cluster.Name }

// Mode is the cluster's authentication mode.
func (c *Cluster) Mode() ekstypes.AuthenticationMode {
	return c.Cluster.AccessConfig.AuthenticationMode
}

// UsesAPI reports whether the cluster uses access entries.
func (c *Cluster) UsesAPI() bool {
	return c.Mode() != ekstypes.AuthenticationModeConfigMap
}

// UsesConfigMap reports whether the cluster uses the aws-auth ConfigMap.
func (c *Cluster) UsesConfigMap() bool {
	return c.Mode() != ekstypes.AuthenticationModeApi
}

// Owner identifies the cluster to the control planes; see plane.Request.
func (c *Cluster) Owner() string { return *c.Cluster.Arn + "/" + c.UID }

// IPv6 reports whether pods and services have IPv6 addresses.
func (c *Cluster) IPv6() bool {
	return c.Cluster.KubernetesNetworkConfig.IpFamily == ekstypes.IpFamilyIpv6
}

// ServiceCIDR is the range of the cluster's service addresses.
func (c *Cluster) ServiceCIDR() string {
	if c.IPv6() {
		return *c.Cluster.KubernetesNetworkConfig.ServiceIpv6Cidr
	}
	return *c.Cluster.KubernetesNetworkConfig.ServiceIpv4Cidr
}

// DNSAddress is the cluster's DNS address: the tenth of the service range.
func (c *Cluster) DNSAddress() string {
	p, err := netip.ParsePrefix(c.ServiceCIDR())
	if err != nil {
		return "" // checked when the cluster was created
	}
	a := p.Addr()
	for range 10 {
		a = a.Next()
	}
	return a.String()
}

// KeyARN is the ARN of the cluster's encryption key, or "".
func (c *Cluster) KeyARN() string {
	if len(c.Cluster.EncryptionConfig) == 0 {
		return ""
	}
	return *c.Cluster.EncryptionConfig[0].Provider.KeyArn
}

// A KeyGrant is a grant that lets the cluster role use a key.
type KeyGrant struct {
	KeyARN string
	ID     string
}

// A Plane is a control plane that belongs to a cluster.
type Plane struct {
	ID string
	// Endpoint is the cluster's endpoint: https://127.0.0.1:PORT.
	Endpoint string
	// AWSHost is the host name that the endpoint has on AWS: 0123….gr7.us-east-1.eks.amazonaws.com.
	// Nodes are configured with it.
	AWSHost string
	CAPEM   []byte
	// Issuer is the OIDC issuer of the cluster's service accounts.
	Issuer string
	// PlatformVersion is eks.N, or empty for the version catalog's.
	PlatformVersion string
}

// A VPCChange is a requested change of endpoint access, subnets or security groups.
type VPCChange struct {
	Public, Private bool
	CIDRs           []string
	SecurityGroups  []string
	Subnets         []string
}

// An Update is an update of a cluster, a node group or an add-on, kept under CLUSTER/ID.
type Update struct {
	Update ekstypes.Update
	// At most one of these is set: whose update it is, if not the cluster's.
	Nodegroup  string
	Addon      string `json:",omitempty"`
	Capability string `json:",omitempty"`
	Token      string
	Request    string
	// Changes to the cluster record that take effect when the update succeeds.
	VPC                *VPCChange                           `json:",omitempty"`
	AuthenticationMode ekstypes.AuthenticationMode          `json:",omitempty"`
	SupportType        ekstypes.SupportType                 `json:",omitempty"`
	DeletionProtection *bool                                `json:",omitempty"`
	ZonalShift         *bool                                `json:",omitempty"`
	Tier               ekstypes.ProvisionedControlPlaneTier `json:",omitempty"`
	// RemoteNetwork has no networks if they are to be removed.
	RemoteNetwork *ekstypes.RemoteNetworkConfigResponse `json:",omitempty"`
	Encryption    *KeyGrant                             `json:",omitempty"`
	Logging       *LoggingChange                        `json:",omitempty"`
	Authority     *AuthorityChange                      `json:",omitempty"`
	// Version is the Kubernetes version to change to, up or down.
	Version string `json:",omitempty"`
	// SupportEnded is that of the upgrade's record.
	SupportEnded     ekstypes.SupportType `json:",omitempty"`
	IdentityProvider string               `json:",omitempty"` // the name of the one that Update.Type adds or removes
	// AutoMode is the requested state of EKS Auto Mode.
	AutoMode   *AutoMode   `json:",omitempty"`
	Components *Components `json:",omitempty"`
}

// Components are the settings of a control plane's components.
type Components struct {
	APIServer         *ekstypes.KubeApiServerConfigResponse
	ControllerManager *ekstypes.KubeControllerManagerConfigResponse
	Scheduler         *ekstypes.KubeSchedulerConfigResponse
}

// Commit sets the settings in a cluster's description.
func (s *Components) Commit(c *ekstypes.Cluster) {
	c.KubeApiServerConfig, c.KubeControllerManagerConfig, c.KubeSchedulerConfig = s.APIServer, s.ControllerManager, s.Scheduler
}

// An AutoMode is a state of EKS Auto Mode.
type AutoMode struct {
	Enabled bool
	// NodePools are the built-in node pools, sorted, and NodeRole is the role of their nodes if there are any.
	NodePools []string
	NodeRole  Identity
}

// On reports whether EKS Auto Mode is enabled. A nil AutoMode is not.
func (a *AutoMode) On() bool { return a != nil && a.Enabled }

// Commit sets a cluster's state. A nil AutoMode changes nothing.
func (a *AutoMode) Commit(c *Cluster) {
	if a == nil {
		return
	}
	d := &c.Cluster
	c.NodeRole = a.NodeRole
	d.ComputeConfig = &ekstypes.ComputeConfigResponse{Enabled: &a.Enabled, NodePools: append([]string{}, a.NodePools...)}
	if a.NodeRole.ARN != "" {
		d.ComputeConfig.NodeRoleArn = &a.NodeRole.ARN
	}
	d.StorageConfig = &ekstypes.StorageConfigResponse{BlockStorage: &ekstypes.BlockStorage{Enabled: &a.Enabled}}
	d.KubernetesNetworkConfig.ElasticLoadBalancing = &ekstypes.ElasticLoadBalancing{Enabled: &a.Enabled}
}

// AutoMode returns the cluster's state of EKS Auto Mode.
func (c *Cluster) AutoMode() *AutoMode {
	d := c.Cluster.ComputeConfig
	if d == nil || d.Enabled == nil {
		return &AutoMode{}
	}
	return &AutoMode{Enabled: *d.Enabled, NodePools: d.NodePools, NodeRole: c.NodeRole}
}

// An AuthorityChange is a change of a cluster's certificate authorities.
type AuthorityChange struct {
	Operation AuthorityOperation
	ID        string
}

// An AuthorityOperation says what changes about a certificate authority.
type AuthorityOperation string

// The changes of certificate authorities.
const (
	AuthorityCreate   AuthorityOperation = "create"
	AuthorityActivate AuthorityOperation = "activate"
	AuthorityDelete   AuthorityOperation = "delete"
)

// A LoggingChange is a change of a cluster's logs.
type LoggingChange struct {
	Types []ekstypes.LogType // the enabled ones
}

// ClusterInsights are kept under CLUSTER/insights.
var ClusterInsights = store.NewCollection[Insights]("eks", "insights", store.Same) // version 2 has Source

// Insights is what is stored about the insights of a cluster. The rest is computed.
type Insights struct {
	// Started and Ended are the times of the last refresh that a user started.
	Started, Ended time.Time
	// Statuses are the last known ones, by the insight's ID.
	Statuses map[string]InsightStatus
	// Source holds the insights read from the cluster in AWS. It is nil if this cluster is not a twin, or if they could not be read.
	Source *SourceInsights `json:",omitempty"`
}

// SourceInsights are the insights of an AWS account's cluster. All members that EKS may leave out are set but KubernetesVersion.
type SourceInsights struct {
	Insights []ekstypes.Insight
}

// An InsightStatus is the status of an insight and the time of its last change.
type InsightStatus struct {
	Status ekstypes.InsightStatusValue
	Since  time.Time
}

// A Rollback is the version rollback of a cluster with EKS Auto Mode.
type Rollback struct {
	Update  string    // ID
	Version string    // of new nodes
	Until   time.Time // when the rollback of the nodes fails
	Force   bool      `json:",omitempty"`
}
