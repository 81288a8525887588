package eks

import (
	awseks "github.com/aws/aws-sdk-go-v2/service/eks"
	ekstypes "github.com/aws/aws-sdk-go-v2/service/eks/types"

	"github.com/drydock-dev/drydock/internal/awsapi"
	"github.com/drydock-dev/drydock/internal/service/eks/addon"
)

// AWS returns the service's table of operations for the AWS API server.
func (s *Service) AWS() awsapi.Service {
	return awsapi.Service{Name: "eks", Handler: s, Authorization: authorization, Operations: []awsapi.Operation{
		{
			Name: "CreateCluster",
			Members: `name version roleArn clientRequestToken tags accessConfig logging upgradePolicy
				resourcesVpcConfig.subnetIds resourcesVpcConfig.securityGroupIds resourcesVpcConfig.endpointPublicAccess
				resourcesVpcConfig.controlPlaneEgressMode resourcesVpcConfig.endpointPrivateAccess resourcesVpcConfig.publicAccessCidrs
				kubernetesNetworkConfig.ipFamily kubernetesNetworkConfig.serviceIpv4Cidr kubernetesNetworkConfig.elasticLoadBalancing.enabled storageConfig computeConfig remoteNetworkConfig
				zonalShiftConfig.enabled controlPlaneScalingConfig.tier ` + componentMembers + ` bootstrapSelfManagedAddons deletionProtection encryptionConfig.resources encryptionConfig.provider.keyArn`,
			Except: autoModeNote + ". The scaling tier and the networks of hybrid nodes are stored; control planes have one size, and hybrid nodes need hardware. " + newerNote + ". outpostConfig needs an Outpost",
		},
		{Name: "DescribeCluster", Members: "name", Settled: awsapi.SettledWhen(func(out *awseks.DescribeClusterOutput) bool {
			switch out.Cluster.Status {
			case ekstypes.ClusterStatusCreating, ekstypes.ClusterStatusPending, ekstypes.ClusterStatusUpdating, ekstypes.ClusterStatusDeleting:
				return false
			}
			return true
		})},
		{Name: "ListClusters", Members: "maxResults nextToken include"},
		{Name: "DeleteCluster", Members: "name"},
		{
			Name: "UpdateClusterConfig",
			Members: `name clientRequestToken accessConfig logging upgradePolicy deletionProtection zonalShiftConfig.enabled controlPlaneScalingConfig.tier ` + componentMembers + `
				resourcesVpcConfig.endpointPublicAccess resourcesVpcConfig.controlPlaneEgressMode resourcesVpcConfig.endpointPrivateAccess
				resourcesVpcConfig.publicAccessCidrs resourcesVpcConfig.subnetIds resourcesVpcConfig.securityGroupIds
				kubernetesNetworkConfig.ipFamily kubernetesNetworkConfig.serviceIpv4Cidr kubernetesNetworkConfig.elasticLoadBalancing.enabled storageConfig computeConfig remoteNetworkConfig`,
			Except: autoModeNote + ". " + newerNote,
		},
		{Name: "UpdateClusterVersion", Members: "*"},
		{Name: "CancelUpdate", Members: "*"},
		{Name: "CreateCertificateAuthority", Members: "*"},
		{Name: "DescribeCertificateAuthority", Members: "*", Except: "scheduledEvents are not returned: no authority is added or activated automatically"},
		{Name: "ListCertificateAuthorities", Members: "*"},
		{Name: "ActivateCertificateAuthority", Members: "*"},
		{Name: "DeleteCertificateAuthority", Members: "*"},
		{Name: "ListInsights", Members: "*"},
		{Name: "DescribeInsight", Members: "*"},
		{Name: "StartInsightsRefresh", Members: "*"},
		{Name: "DescribeInsightsRefresh", Members: "*"},
		{Name: "AssociateEncryptionConfig", Members: "*"},
		{Name: "AssociateIdentityProviderConfig", Members: "*"},
		{Name: "DescribeIdentityProviderConfig", Members: "*", Settled: awsapi.SettledWhen(func(out *awseks.DescribeIdentityProviderConfigOutput) bool {
			return out.IdentityProviderConfig.Oidc.Status == ekstypes.ConfigStatusActive
		})},
		{Name: "ListIdentityProviderConfigs", Members: "*"},
		{Name: "CreateCapability", Members: "*", Except: capabilityNote},
		{Name: "DescribeCapability", Members: "*"},
		{Name: "UpdateCapability", Members: "*", Except: "configuration.ack: as CreateCapability"},
		{Name: "DeleteCapability", Members: "*"},
		{Name: "ListCapabilities", Members: "*"},
		{Name: "DisassociateIdentityProviderConfig", Members: "*"},
		{Name: "DescribeClusterVersions", Members: "*", Except: "versions before 1.33, which Drydock's control planes cannot be"},
		{Name: "ListUpdates", Members: "*"},
		{Name: "DescribeUpdate", Members: "*", Settled: awsapi.SettledWhen(func(out *awseks.DescribeUpdateOutput) bool {
			return out.Update.Status != ekstypes.UpdateStatusInProgress
		})},
		{
			Name: "CreateNodegroup",
			Members: `clusterName nodegroupName nodeRole subnets scalingConfig instanceTypes amiType capacityType diskSize
				labels taints tags updateConfig launchTemplate version
				releaseVersion clientRequestToken remoteAccess nodeRepairConfig`,
			Except: nodegroupNote,
		},
		{Name: "DescribeNodegroup", Members: "clusterName nodegroupName", Settled: awsapi.SettledWhen(func(out *awseks.DescribeNodegroupOutput) bool {
			switch out.Nodegroup.Status {
			case ekstypes.NodegroupStatusCreating, ekstypes.NodegroupStatusUpdating, ekstypes.NodegroupStatusDeleting:
				return false
			}
			return true
		})},
		{Name: "ListNodegroups", Members: "clusterName maxResults nextToken"},
		{
			Name:    "UpdateNodegroupConfig",
			Members: `clusterName nodegroupName scalingConfig labels taints updateConfig clientRequestToken nodeRepairConfig`,
			Except:  warmPoolNote,
		},
		{Name: "UpdateNodegroupVersion", Members: "*"},
		{Name: "DeleteNodegroup", Members: "clusterName nodegroupName"},
		{Name: "CreateFargateProfile", Members: "*"},
		{Name: "DescribeFargateProfile", Members: "*", Settled: awsapi.SettledWhen(func(out *awseks.DescribeFargateProfileOutput) bool {
			st := out.FargateProfile.Status
			return st != ekstypes.FargateProfileStatusCreating && st != ekstypes.FargateProfileStatusDeleting
		})},
		{Name: "ListFargateProfiles", Members: "*"},
		{Name: "DeleteFargateProfile", Members: "*"},
		{
			Name: "CreateAddon",
			Members: `clusterName addonName addonVersion serviceAccountRoleArn resolveConflicts clientRequestToken tags
				configurationValues podIdentityAssociations namespaceConfig.namespace`,
			Except: addonNote,
		},
		{Name: "DescribeAddon", Members: "*", Settled: awsapi.SettledWhen(addon.Settled)},
		{Name: "ListAddons", Members: "*"},
		{Name: "UpdateAddon", Members: "*", Except: addonNote},
		{Name: "DeleteAddon", Members: "*"},
		{Name: "DescribeAddonVersions", Members: "*"},
		{Name: "DescribeAddonConfiguration", Members: "*"},
		{Name: "CreateAccessEntry", Members: "*"},
		{Name: "DescribeAccessEntry", Members: "*"},
		{Name: "ListAccessEntries", Members: "*"},
		{Name: "UpdateAccessEntry", Members: "*"},
		{Name: "DeleteAccessEntry", Members: "*"},
		{Name: "AssociateAccessPolicy", Members: "*", Except: "policies whose permissions AWS does not publish"},
		{Name: "DisassociateAccessPolicy", Members: "*"},
		{Name: "ListAssociatedAccessPolicies", Members: "*"},
		{Name: "ListAccessPolicies", Members: "*"},
		{Name: "CreatePodIdentityAssociation", Members: "*"},
		{Name: "DescribePodIdentityAssociation", Members: "*"},
		{Name: "ListPodIdentityAssociations", Members: "*"},
		{Name: "UpdatePodIdentityAssociation", Members: "*"},
		{Name: "DeletePodIdentityAssociation", Members: "*"},
		{Name: "RegisterCluster", Members: "*", Except: "connected clusters stay PENDING: the connector's agent needs Systems Manager's hybrid activations"},
		{Name: "DeregisterCluster", Members: "*"},
		{Name: "CreateEksAnywhereSubscription", Members: "*", Except: "there are no licenses: Drydock has no License Manager, and nobody pays"},
		{Name: "DescribeEksAnywhereSubscription", Members: "*"},
		{Name: "ListEksAnywhereSubscriptions", Members: "*"},
		{Name: "UpdateEksAnywhereSubscription", Members: "*"},
		{Name: "DeleteEksAnywhereSubscription", Members: "*"},
		{Name: "TagResource", Members: "*"},
		{Name: "UntagResource", Members: "*"},
		{Name: "ListTagsForResource", Members: "*"},
	}}
}

// What node groups lack.
const (
	warmPoolNote  = "enabled warm pools (and warmPoolConfig with them): node groups do not hand stopped instances over to their clusters"
	nodegroupNote = "Windows and FIPS AMI types, for which there are no images; launch templates with instance requirements, because node groups do not choose types by them; " + warmPoolNote
)

// autoModeNote is what EKS Auto Mode lacks.
const autoModeNote = "EKS Auto Mode supports what docs/auto-mode.md lists"

// capabilityNote is what capabilities lack.
const capabilityNote = "capabilities become DEGRADED: their controllers (Argo CD, ACK, kro), which AWS runs outside the cluster, do not run; " +
	"install their charts in the cluster instead. configuration.ack and configuration.argoCd.endpointPrefix: there is nothing to configure"

// componentMembers are the settings of a control plane's components.
const componentMembers = `kubeApiServerConfig kubeSchedulerConfig
	kubeControllerManagerConfig.horizontalPodAutoscalerControllerConfig.horizontalPodAutoscalerSyncPeriod`

// newerNote lists members and values of newer SDKs that are refused, most of which the stored model does not have.
const newerNote = "kubeControllerManagerConfig.podGcControllerConfig, which EKS's user guide does not list; " +
	"resourcesVpcConfig.controlPlaneEgressMode other than AWS_MANAGED: what a control plane calls, such as webhooks, it calls from this machine; " +
	"kubernetesNetworkConfig.elasticLoadBalancing.gatewayApi: EKS Auto Mode creates no load balancers for the Gateway API here"

// addonNote lists the add-ons that exist and the settings that they refuse.
const addonNote = "add-ons other than aws-ebs-csi-driver, coredns, eks-node-monitoring-agent, eks-pod-identity-agent, kube-proxy, metrics-server, " +
	"snapshot-controller and vpc-cni; configuration values that DescribeAddonConfiguration does not list, and of aws-ebs-csi-driver " +
	"additionalDaemonSets, controller.enableMetrics, controller.volumeModificationFeature, node.enableLinux, node.enableMetrics, node.enableWindows, " +
	"node.kubeletPath and node.selinux, of eks-node-monitoring-agent dcgmAgent and extraObjects, of eks-pod-identity-agent daemonsets, " +
	"fullnameOverride and nameOverride. On simulated nodes, add-ons are objects only; their programs do not run. " +
	"Versions of an add-on differ as the project's manifests do; kube-proxy has no manifests, so its versions differ only in the image. " +
	"The issues AddonSubscriptionNeeded and UnsupportedAddonModification do not occur"
