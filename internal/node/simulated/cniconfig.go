package simulated

import (
	"encoding/json"
	"strconv"
	"time"

	"github.com/drydock-dev/drydock/internal/automode"
)

// cniConfig is the configuration in the environment of aws-node.
// https://github.com/aws/amazon-vpc-cni-k8s#cni-configuration-variables
type cniConfig struct {
	prefixes, ipv4, ipv6                     bool
	warmENI, warmIP, minimumIP, warmPrefix   int
	maxENI                                   int // 0 means the instance type's
	custom                                   bool
	eniConfigLabel, eniConfigAnnotation      string
	cluster                                  string
	tags                                     map[string]string
	cooldown                                 time.Duration
	discover, manageUntagged, noProvisioning bool
	// node is the name of a node of EKS Auto Mode, whose interfaces have other tags; or empty.
	node string
}

// manifestCNI is the environment in the manifest that is published for EKS, where it differs from the program's own
// defaults. https://github.com/aws/amazon-vpc-cni-k8s/blob/master/config/master/aws-k8s-cni.yaml
func manifestCNI(cluster string) map[string]string {
	return map[string]string{"WARM_ENI_TARGET": "1", "WARM_PREFIX_TARGET": "1", "CLUSTER_NAME": cluster}
}

// defaultENIConfig is the key of the node's label, and of its annotation, that names its ENIConfig.
const defaultENIConfig = "k8s.amazonaws.com/eniConfig"

// parseCNI reads an environment as the plugin does: malformed values count as not set.
func parseCNI(env map[string]string) cniConfig {
	number := func(key string, unset int) int {
		if n, err := strconv.Atoi(env[key]); err == nil && n >= 0 {
			return n
		}
		return unset
	}
	flag := func(key string, unset bool) bool {
		if b, err := strconv.ParseBool(env[key]); err == nil {
			return b
		}
		return unset
	}
	text := func(key, unset string) string {
		if env[key] != "" {
			return env[key]
		}
		return unset
	}
	c := cniConfig{
		prefixes: flag("ENABLE_PREFIX_DELEGATION", false),
		ipv4:     flag("ENABLE_IPv4", env["ENABLE_IPv6"] == ""), ipv6: flag("ENABLE_IPv6", false), // manifests older than 1.10 have neither
		warmENI: number("WARM_ENI_TARGET", 1), warmIP: number("WARM_IP_TARGET", 0),
		minimumIP: number("MINIMUM_IP_TARGET", 0), warmPrefix: number("WARM_PREFIX_TARGET", 0),
		maxENI:         number("MAX_ENI", 0),
		custom:         flag("AWS_VPC_K8S_CNI_CUSTOM_NETWORK_CFG", false),
		eniConfigLabel: text("ENI_CONFIG_LABEL_DEF", defaultENIConfig), eniConfigAnnotation: text("ENI_CONFIG_ANNOTATION_DEF", defaultENIConfig),
		cluster:  env["CLUSTER_NAME"],
		cooldown: time.Duration(number("IP_COOLDOWN_PERIOD", 30)) * time.Second,
		discover: flag("ENABLE_SUBNET_DISCOVERY", true), manageUntagged: flag("MANAGE_UNTAGGED_ENI", true),
		noProvisioning: flag("DISABLE_NETWORK_RESOURCE_PROVISIONING", false),
	}
	if s := env["ADDITIONAL_ENI_TAGS"]; s != "" {
		if json.Unmarshal([]byte(s), &c.tags) != nil {
			c.tags = nil
		}
	}
	return c
}

// warmIPs reports whether targets for single addresses are set. They take precedence over the others.
func (c *cniConfig) warmIPs() bool { return c.warmIP != 0 || c.minimumIP != 0 }

// Tags of the plugin's interfaces.
const (
	tagInstance = "node.k8s.amazonaws.com/instance_id"
	tagCreated  = "node.k8s.amazonaws.com/createdAt"
	tagNoManage = "node.k8s.amazonaws.com/no_manage"
	tagCluster  = "cluster.k8s.amazonaws.com/name"
	tagOwner    = "eks:eni:owner"
)

// eniTags returns the tags of all interfaces that the plugin manages on an instance.
func (c *cniConfig) eniTags(instanceID string) map[string]string {
	if c.node != "" {
		return map[string]string{automode.TagCluster: c.cluster, "eks:kubernetes-cni-node-name": c.node}
	}
	tags := map[string]string{tagInstance: instanceID}
	if c.cluster != "" {
		tags[tagCluster], tags[tagOwner] = c.cluster, "amazon-vpc-cni"
	}
	for k, v := range c.tags {
		tags[k] = v
	}
	return tags
}
