package ecr

import (
	"github.com/drydock-dev/drydock/internal/awsapi"
	"github.com/drydock-dev/drydock/internal/module"
)

// Module declares the service to the daemon.
func (s *Service) Module() module.Module {
	return module.Module{Service: s.AWS(), Resolver: s.Authz(), Tagging: s.taggable(), Import: importRecords, Run: s.Run}
}

// AWS returns the service's registration with the AWS API server.
func (s *Service) AWS() awsapi.Service {
	return awsapi.Service{
		Name:          "ecr",
		Handler:       s,
		Authorization: authorization,
		Operations: []awsapi.Operation{
			{Name: "CreateRepository", Members: "encryptionConfiguration imageScanningConfiguration imageTagMutability imageTagMutabilityExclusionFilters registryId repositoryName tags"},
			{Name: "DescribeRepositories", Members: "maxResults nextToken registryId repositoryNames"},
			{Name: "DeleteRepository", Members: "force registryId repositoryName"},
			{Name: "PutImageTagMutability", Members: "imageTagMutability imageTagMutabilityExclusionFilters registryId repositoryName"},
			{Name: "TagResource", Members: "resourceArn tags"},
			{Name: "UntagResource", Members: "resourceArn tagKeys"},
			{Name: "ListTagsForResource", Members: "resourceArn"},
			{Name: "SetRepositoryPolicy", Members: "force policyText registryId repositoryName"},
			{Name: "GetRepositoryPolicy", Members: "registryId repositoryName"},
			{Name: "DeleteRepositoryPolicy", Members: "registryId repositoryName"},
			{Name: "PutLifecyclePolicy", Members: "lifecyclePolicyText registryId repositoryName"},
			{Name: "GetLifecyclePolicy", Members: "registryId repositoryName"},
			{Name: "DeleteLifecyclePolicy", Members: "registryId repositoryName"},
			{Name: "StartLifecyclePolicyPreview", Members: "lifecyclePolicyText registryId repositoryName"},
			{Name: "GetLifecyclePolicyPreview", Members: "filter imageIds maxResults nextToken registryId repositoryName"},
			{Name: "PutImage", Members: "imageDigest imageManifest imageManifestMediaType imageTag registryId repositoryName"},
			{Name: "BatchGetImage", Members: "acceptedMediaTypes imageIds registryId repositoryName", ReadOnly: true},
			{Name: "BatchDeleteImage", Members: "imageIds registryId repositoryName"},
			{Name: "ListImages", Members: "filter maxResults nextToken registryId repositoryName"},
			{Name: "DescribeImages", Members: "filter imageIds maxResults nextToken registryId repositoryName"},
			{Name: "ListImageReferrers", Members: "filter.artifactStatus filter.artifactTypes maxResults nextToken registryId repositoryName subjectId"},
			{Name: "BatchCheckLayerAvailability", Members: "layerDigests registryId repositoryName", ReadOnly: true},
			{Name: "InitiateLayerUpload", Members: "registryId repositoryName"},
			{Name: "UploadLayerPart", Members: "layerPartBlob partFirstByte partLastByte registryId repositoryName uploadId"},
			{Name: "CompleteLayerUpload", Members: "layerDigests registryId repositoryName uploadId"},
			{Name: "GetDownloadUrlForLayer", Members: "layerDigest registryId repositoryName"},
			{Name: "GetAuthorizationToken", Members: "registryIds"},
			{Name: "StartImageScan", Members: "imageId registryId repositoryName"},
			{Name: "DescribeImageScanFindings", Members: "imageId maxResults nextToken registryId repositoryName"},
			{Name: "PutImageScanningConfiguration", Members: "imageScanningConfiguration registryId repositoryName"},
			{Name: "BatchGetRepositoryScanningConfiguration", Members: "repositoryNames", ReadOnly: true},
			{Name: "DescribeRegistry"},
			{Name: "PutRegistryPolicy", Members: "policyText"},
			{Name: "GetRegistryPolicy"},
			{Name: "DeleteRegistryPolicy"},
			{Name: "PutRegistryScanningConfiguration", Members: "rules scanType"},
			{Name: "GetRegistryScanningConfiguration"},
			{Name: "PutAccountSetting", Members: "name value"},
			{Name: "GetAccountSetting", Members: "name"},
			{Name: "CreatePullThroughCacheRule", Members: "credentialArn customRoleArn ecrRepositoryPrefix registryId upstreamRegistry upstreamRegistryUrl upstreamRepositoryPrefix"},
			{Name: "DescribePullThroughCacheRules", Members: "ecrRepositoryPrefixes maxResults nextToken registryId"},
			{Name: "UpdatePullThroughCacheRule", Members: "credentialArn customRoleArn ecrRepositoryPrefix registryId"},
			{Name: "DeletePullThroughCacheRule", Members: "ecrRepositoryPrefix registryId"},
			{Name: "ValidatePullThroughCacheRule", Members: "ecrRepositoryPrefix registryId", ReadOnly: true},
			{Name: "CreateRepositoryCreationTemplate", Members: "appliedFor customRoleArn description encryptionConfiguration imageTagMutability imageTagMutabilityExclusionFilters lifecyclePolicy prefix repositoryPolicy resourceTags"},
			{Name: "DescribeRepositoryCreationTemplates", Members: "maxResults nextToken prefixes"},
			{Name: "UpdateRepositoryCreationTemplate", Members: "appliedFor customRoleArn description encryptionConfiguration imageTagMutability imageTagMutabilityExclusionFilters lifecyclePolicy prefix repositoryPolicy resourceTags"},
			{Name: "DeleteRepositoryCreationTemplate", Members: "prefix"},
		},
		Refused: []awsapi.Refusal{
			{Operations: "PutReplicationConfiguration DescribeImageReplicationStatus", Why: "Registries are not replicated. DescribeRegistry says that there are no rules."},
			{Operations: "UpdateImageStorageClass", Why: "There is only one class of storage."},
			{Operations: "PutSigningConfiguration GetSigningConfiguration DeleteSigningConfiguration DescribeImageSigningStatus", Why: "Drydock has no AWS Signer. Signatures that clients push are listed by ListImageReferrers."},
		},
	}
}
