package ecrpublic

import (
	"github.com/drydock-dev/drydock/internal/awsapi"
	"github.com/drydock-dev/drydock/internal/module"
)

// Module declares the service to the daemon.
func (s *Service) Module() module.Module {
	return module.Module{Service: s.AWS(), Resolver: resolver{s}, Tagging: s.taggable()}
}

const catalogMembers = "catalogData.aboutText catalogData.architectures catalogData.description catalogData.operatingSystems catalogData.usageText"

// AWS returns the service's registration with the AWS API server.
func (s *Service) AWS() awsapi.Service {
	return awsapi.Service{
		Name:          "ecrpublic",
		Handler:       s,
		Authorization: authorization,
		Before:        inHome,
		Operations: []awsapi.Operation{
			{Name: "GetAuthorizationToken"},
			{Name: "CreateRepository", Members: catalogMembers + " repositoryName tags"},
			{Name: "DescribeRepositories", Members: "maxResults nextToken registryId repositoryNames"},
			{Name: "DeleteRepository", Members: "force registryId repositoryName"},
			{Name: "PutRepositoryCatalogData", Members: catalogMembers + " registryId repositoryName"},
			{Name: "GetRepositoryCatalogData", Members: "registryId repositoryName"},
			{Name: "SetRepositoryPolicy", Members: "force policyText registryId repositoryName"},
			{Name: "GetRepositoryPolicy", Members: "registryId repositoryName"},
			{Name: "DeleteRepositoryPolicy", Members: "registryId repositoryName"},
			{Name: "TagResource", Members: "resourceArn tags"},
			{Name: "UntagResource", Members: "resourceArn tagKeys"},
			{Name: "ListTagsForResource", Members: "resourceArn"},
			{Name: "DescribeRegistries", Members: "maxResults nextToken"},
			{Name: "PutRegistryCatalogData", Members: "displayName"},
			{Name: "GetRegistryCatalogData"},
			{Name: "BatchCheckLayerAvailability", Members: "layerDigests registryId repositoryName", ReadOnly: true},
			{Name: "InitiateLayerUpload", Members: "registryId repositoryName"},
			{Name: "UploadLayerPart", Members: "layerPartBlob partFirstByte partLastByte registryId repositoryName uploadId"},
			{Name: "CompleteLayerUpload", Members: "layerDigests registryId repositoryName uploadId"},
			{Name: "PutImage", Members: "imageDigest imageManifest imageManifestMediaType imageTag registryId repositoryName"},
			{Name: "BatchDeleteImage", Members: "imageIds registryId repositoryName"},
			{Name: "DescribeImages", Members: "imageIds maxResults nextToken registryId repositoryName"},
			{Name: "DescribeImageTags", Members: "maxResults nextToken registryId repositoryName"},
		},
	}
}
