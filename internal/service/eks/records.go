package eks

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"net/netip"
	"strings"
	"time"

	ekstypes "github.com/aws/aws-sdk-go-v2/service/eks/types"

	"github.com/drydock-dev/drydock/internal/awsapi"
	"github.com/drydock-dev/drydock/internal/store"
)

// The service's records. Cluster and node group descriptions are kept as the
// SDK's own types, beside what AWS keeps to itself. IDs of everything that
// belongs to a cluster begin with "CLUSTER/".
var (
	clusters      = store.NewCollection[clusterRecord]("eks", "cluster")
	nodegroups    = store.NewCollection[nodegroupRecord]("eks", "nodegroup")
	accessEntries = store.NewCollection[accessEntryRecord]("eks", "accessentry")
	updates       = store.NewCollection[updateRecord]("eks", "update")
)

// An identityRef names an IAM identity for good: an identity made anew under an
// old ARN is another one.
type identityRef struct {
	ARN string
	ID  string
}

type clusterRecord struct {
	// Cluster is DescribeCluster's answer. Endpoint, certificate authority and
	// issuer are filled in when the cluster becomes ACTIVE.
	Cluster ekstypes.Cluster
	// UID is unique to this life of the cluster.
	UID     string
	Creator identityRef
	// BootstrapAdmin says the creator is an administrator.
	BootstrapAdmin bool
	// SelfManagedAddons says the cluster is born with CoreDNS, aws-node and kube-proxy.
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
	Grants []keyGrant `json:",omitempty"`
	// HalfEncrypted says that the control plane has taken its key, but that the update
	// failed before all was encrypted. It may be repeated with the same key.
	HalfEncrypted bool `json:",omitempty"`
	// Interfaces are the control plane's network interfaces by subnet.
	Interfaces map[string]string
}

func (c *clusterRecord) name() string { return *c.Cluster.Name }

func (c *clusterRecord) mode() ekstypes.AuthenticationMode {
	return c.Cluster.AccessConfig.AuthenticationMode
}

// usesAPI reports whether access entries count.
func (c *clusterRecord) usesAPI() bool {
	return c.mode() != ekstypes.AuthenticationModeConfigMap
}

// usesConfigMap reports whether the aws-auth ConfigMap counts.
func (c *clusterRecord) usesConfigMap() bool {
	return c.mode() != ekstypes.AuthenticationModeApi
}

// owner is what the control plane is claimed for.
func (c *clusterRecord) owner() string { return *c.Cluster.Arn + "/" + c.UID }

// dnsAddress is the address of the cluster's DNS: the tenth of the service range.
func (c *clusterRecord) dnsAddress() string {
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

type nodegroupRecord struct {
	Nodegroup ekstypes.Nodegroup
	// UUID is the last part of the ARN and of the names of what EKS makes for
	// the group.
	UUID           string
	Token, Request string
	Since          time.Time

	// Role is the node role.
	Role identityRef
	// ImageID is the AMI its instances boot from.
	ImageID string
	// MachineTypes are the instance types it launches: its own, or its user's
	// launch template's.
	MachineTypes []string
	// InstanceProfile is the profile made for the node role, and the name of the
	// group's own launch template and of its Auto Scaling group: eks-UUID.
	InstanceProfile  string
	LaunchTemplateID string
	// TemplateVersion is the launch template's version for new instances; empty: 1.
	TemplateVersion string `json:",omitempty"`
	// ScalingGroupMade says that the Auto Scaling group was made.
	ScalingGroupMade bool `json:",omitempty"`
	// AccessEntryMade says the node role's access entry was EKS's own doing.
	AccessEntryMade bool
	// UpdateID is the update in progress.
	UpdateID string
	// TemplateStale says labels or taints changed since the launch template's
	// version was made.
	TemplateStale bool
	// Rollout is the update in progress that replaces nodes.
	Rollout *rollout `json:",omitempty"`
	// Draining are the instances that leave, and since when they drain.
	Draining map[string]time.Time
	// Missing are the instances without a Ready node, and since when.
	Missing map[string]time.Time `json:",omitempty"`
	// Labels and Taints removed from the group but not yet from all its nodes.
	RemovedLabels []string
	RemovedTaints []ekstypes.Taint
}

func (g *nodegroupRecord) resourceName() string {
	return "eks-" + *g.Nodegroup.NodegroupName + "-" + g.UUID
}

type accessEntryRecord struct {
	Entry ekstypes.AccessEntry
	// PrincipalID is the identity's unique ID when the entry was made. A role
	// made anew under the same ARN has another and is not let in.
	// https://docs.aws.amazon.com/eks/latest/userguide/deleting-access-entries.html
	PrincipalID string
	Policies    []ekstypes.AssociatedAccessPolicy
	Token       string
	Request     string
	// Managed entries, EKS's own, cannot be changed.
	Managed bool
}

type updateRecord struct {
	Update    ekstypes.Update
	Nodegroup string // empty: the cluster's own or an add-on's
	Addon     string `json:",omitempty"`
	Token     string
	Request   string
	// What a cluster update changes when it succeeds.
	VPC                *vpcChange                  `json:",omitempty"`
	AuthenticationMode ekstypes.AuthenticationMode `json:",omitempty"`
	SupportType        ekstypes.SupportType        `json:",omitempty"`
	DeletionProtection *bool                       `json:",omitempty"`
	Encryption         *keyGrant                   `json:",omitempty"`
}

// A vpcChange is the wanted endpoint access.
type vpcChange struct {
	Public, Private bool
	CIDRs           []string
	SecurityGroups  []string
	Subnets         []string
}

func clusterKey(call *awsapi.Call, name string) store.Key {
	return store.Key{Account: call.Account, Region: call.Region, ID: name}
}

// below returns the key of something that belongs to a cluster.
func below(cluster store.Key, id string) store.Key {
	cluster.ID += "/" + id
	return cluster
}

// allBelow is the scope of what belongs to a cluster.
func allBelow(cluster store.Key) store.Scope {
	return store.Scope{Account: cluster.Account, Region: cluster.Region, Prefix: cluster.ID + "/"}
}

// clusterOf returns the key of the cluster that k's record belongs to.
func clusterOf(k store.Key) store.Key {
	k.ID, _, _ = strings.Cut(k.ID, "/")
	return k
}

// fingerprint identifies the content of a request, but for its token.
func fingerprint(in any) string {
	raw, err := json.Marshal(in)
	if err != nil {
		return ""
	}
	sum := sha256.Sum256(raw)
	return hex.EncodeToString(sum[:16])
}
