package eks

import "github.com/drydock-dev/drydock/internal/awsapi"

const (
	sourceEKSRoles     = "https://docs.aws.amazon.com/eks/latest/userguide/security-iam-id-based-policies.html"
	sourceCapabilities = "https://docs.aws.amazon.com/eks/latest/userguide/capability-role.html"
	sourceAddonRoles   = "https://docs.aws.amazon.com/eks/latest/userguide/update-addon-role.html"
)

// authorization corrects the service authorization reference.
var authorization = awsapi.Authorization{
	Actions: map[string]string{
		// The embedded reference is older than these operations. On AWS their actions have their own names; here the
		// policies for refreshing insights, or for a cluster's encryption, allow them.
		"CancelUpdate":                 "StartInsightsRefresh",
		"CreateCertificateAuthority":   "AssociateEncryptionConfig",
		"ActivateCertificateAuthority": "AssociateEncryptionConfig",
		"DeleteCertificateAuthority":   "AssociateEncryptionConfig",
		"DescribeCertificateAuthority": "DescribeCluster",
		"ListCertificateAuthorities":   "DescribeCluster",
	},
	// Users reported "is not authorized to perform: eks:ListClusters on resource: arn:aws:eks:us-east-1:111122223333:cluster/*",
	// and likewise eks:DescribeClusterVersions on …:111122223333:*.
	Unnamed: map[string]string{
		"ListClusters":            "arn:${Partition}:eks:${Region}:${Account}:cluster/*",
		"DescribeClusterVersions": "arn:${Partition}:eks:${Region}:${Account}:*",
	},
	Targets: map[string]awsapi.Targets{
		// EKS: creating something in a cluster is checked against the cluster.
		"ListUpdates":                        {Resources: "cluster=name nodegroup?=name+nodegroupName addon?=name+addonName capability?=name+capabilityName", Source: "SAR"},
		"DescribeUpdate":                     {Resources: "cluster=name nodegroup?=name+nodegroupName addon?=name+addonName capability?=name+capabilityName", Source: "SAR"},
		"CreateCapability":                   {Source: "SAR: no resource"},
		"DescribeCapability":                 {Resources: "capability=clusterName+capabilityName", Source: "SAR"},
		"UpdateCapability":                   {Resources: "capability=clusterName+capabilityName", Source: "SAR"},
		"DeleteCapability":                   {Resources: "capability=clusterName+capabilityName", Source: "SAR"},
		"CreateAddon":                        {Resources: "cluster=clusterName", Source: "SAR; its associations, of no name yet, are asked about by their roles"},
		"UpdateAddon":                        {Resources: "addon=clusterName+addonName", Source: "SAR, as above"},
		"DeleteAddon":                        {Resources: "addon=clusterName+addonName", Source: "SAR, as above"},
		"CreateCluster":                      {Resources: "cluster=name", Source: "https://docs.aws.amazon.com/eks/latest/userguide/security-iam-id-based-policies.html: messages name the cluster, SAR has no resource"},
		"DescribeAccessEntry":                {Resources: "access-entry=clusterName+principalArn", Source: "SAR"},
		"UpdateAccessEntry":                  {Resources: "access-entry=clusterName+principalArn", Source: "SAR"},
		"DeleteAccessEntry":                  {Resources: "access-entry=clusterName+principalArn", Source: "SAR"},
		"AssociateAccessPolicy":              {Resources: "access-entry=clusterName+principalArn", Source: "SAR"},
		"DisassociateAccessPolicy":           {Resources: "access-entry=clusterName+principalArn", Source: "SAR"},
		"DescribePodIdentityAssociation":     {Resources: "podidentityassociation=clusterName+associationId", Source: "SAR"},
		"UpdatePodIdentityAssociation":       {Resources: "podidentityassociation=clusterName+associationId", Source: "SAR"},
		"DeletePodIdentityAssociation":       {Resources: "podidentityassociation=clusterName+associationId", Source: "SAR"},
		"DescribeIdentityProviderConfig":     {Resources: "identityproviderconfig=clusterName+identityProviderConfig.type+identityProviderConfig.name", Source: "SAR"},
		"DisassociateIdentityProviderConfig": {Resources: "identityproviderconfig=clusterName+identityProviderConfig.type+identityProviderConfig.name", Source: "SAR"},
		"ListAssociatedAccessPolicies":       {Resources: "access-entry=clusterName+principalArn", Source: "SAR"},
		"DescribeEksAnywhereSubscription":    {Resources: "eks-anywhere-subscription=id", Source: "SAR"},
		"UpdateEksAnywhereSubscription":      {Resources: "eks-anywhere-subscription=id", Source: "SAR"},
		"DeleteEksAnywhereSubscription":      {Resources: "eks-anywhere-subscription=id", Source: "SAR"},
		"TagResource":                        {Resources: "cluster=resourceArn", Source: "SAR: the resource whose ARN is given, of whatever kind"},
		"UntagResource":                      {Resources: "cluster=resourceArn", Source: "SAR, as above"},
		"ListTagsForResource":                {Resources: "cluster=resourceArn", Source: "SAR, as above"},
	},
	Members: map[string]string{
		"ClusterName":                "clusterName name",
		"UUID":                       "associationId",
		"IdentityProviderConfigName": "identityProviderConfigName",
	},
	PassedRoles: map[string][]awsapi.PassedRole{
		"CreateCluster":                {{Member: "roleArn", Service: "eks.amazonaws.com", Source: sourceEKSRoles}, {Member: "computeConfig.nodeRoleArn", Service: "eks.amazonaws.com", Source: sourceEKSRoles}},
		"UpdateClusterConfig":          {{Member: "computeConfig.nodeRoleArn", Service: "eks.amazonaws.com", Source: sourceEKSRoles}},
		"CreateNodegroup":              {{Member: "nodeRole", Service: "eks.amazonaws.com", Source: sourceEKSRoles}},
		"RegisterCluster":              {{Member: "connectorConfig.roleArn", Service: "ssm.amazonaws.com", Source: "https://docs.aws.amazon.com/eks/latest/userguide/connecting-cluster.html"}},
		"CreateCapability":             {{Member: "roleArn", Service: "capabilities.eks.amazonaws.com", Source: sourceCapabilities}},
		"UpdateCapability":             {{Member: "roleArn", Service: "capabilities.eks.amazonaws.com", Source: sourceCapabilities}},
		"CreateFargateProfile":         {{Member: "podExecutionRoleArn", Service: "eks.amazonaws.com", Source: sourceEKSRoles}},
		"CreateAddon":                  {{Member: "serviceAccountRoleArn", Service: "eks.amazonaws.com", Source: sourceEKSRoles}, {Member: "podIdentityAssociations.roleArn", Service: "pods.eks.amazonaws.com", Source: sourceAddonRoles}},
		"UpdateAddon":                  {{Member: "serviceAccountRoleArn", Service: "eks.amazonaws.com", Source: sourceEKSRoles}, {Member: "podIdentityAssociations.roleArn", Service: "pods.eks.amazonaws.com", Source: sourceAddonRoles}},
		"CreatePodIdentityAssociation": {{Member: "roleArn", Service: "pods.eks.amazonaws.com", Source: "https://docs.aws.amazon.com/eks/latest/userguide/pod-id-association.html"}},
		"UpdatePodIdentityAssociation": {{Member: "roleArn", Service: "pods.eks.amazonaws.com", Source: "https://docs.aws.amazon.com/eks/latest/userguide/pod-id-association.html"}},
	},
	Launches: map[string]awsapi.Launch{
		"CreateNodegroup":        {Templates: []string{"launchTemplate"}, Subnets: "subnets", Source: "https://github.com/scylladb/scylla-cluster-tests/issues/12172"},
		"UpdateNodegroupVersion": {Templates: []string{"launchTemplate"}, Source: "as above"},
	},
	Tagging: awsapi.Tagging{Action: "TagResource", Source: "https://docs.aws.amazon.com/eks/latest/userguide/eks-using-tags.html"},
	KeyMembers: map[string]string{
		// The names of the members are those of the API model.
		"kubernetesversion":                       "version",
		"authenticationmode":                      "accessConfig.authenticationMode",
		"bootstrapclustercreatoradminpermissions": "accessConfig.bootstrapClusterCreatorAdminPermissions",
		"endpointpublicaccess":                    "resourcesVpcConfig.endpointPublicAccess",
		"endpointprivateaccess":                   "resourcesVpcConfig.endpointPrivateAccess",
		"encryptionconfigproviderkeyarns":         "encryptionConfig.provider.keyArn",
		"supporttype":                             "upgradePolicy.supportType",
		"zonalshiftenabled":                       "zonalShiftConfig.enabled",
		"computeconfigenabled":                    "computeConfig.enabled",
		"elasticloadbalancingenabled":             "kubernetesNetworkConfig.elasticLoadBalancing.enabled",
		"blockstorageenabled":                     "storageConfig.blockStorage.enabled",
		"controlplanescalingtier":                 "controlPlaneScalingConfig.tier",
		"clustername":                             "clusterName",
		"accessentrytype":                         "type",
		"accessscope":                             "accessScope.type",
		"namespaces":                              "accessScope.namespaces",
		"clientid":                                "oidc.clientId",
		"issuerurl":                               "oidc.issuerUrl",
	},
	StoredKeys: "accessentrytype clustername kubernetesgroups principalarn username",
}
