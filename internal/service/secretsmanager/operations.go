package secretsmanager

import (
	awssm "github.com/aws/aws-sdk-go-v2/service/secretsmanager"

	"github.com/drydock-dev/drydock/internal/awsapi"
	"github.com/drydock-dev/drydock/internal/awsapi/regional"
	"github.com/drydock-dev/drydock/internal/module"
	"github.com/drydock-dev/drydock/internal/store"
)

// Module declares the service to the daemon.
func (s *Service) Module() module.Module {
	return module.Module{Service: s.AWS(), Resolver: resolver{s}, Tagging: s.taggable(), Run: s.Run}
}

// AWS returns the service's registration with the AWS API server.
func (s *Service) AWS() awsapi.Service {
	return awsapi.Service{
		Name:          "secretsmanager",
		Handler:       s,
		Authorization: authorization,
		Operations: []awsapi.Operation{
			{Name: "CreateSecret", Members: "ClientRequestToken Description KmsKeyId Name SecretBinary SecretString Tags"},
			{Name: "DescribeSecret", Members: "SecretId"},
			{Name: "ListSecrets", Members: "Filters IncludePlannedDeletion MaxResults NextToken SortOrder"},
			{Name: "UpdateSecret", Members: "ClientRequestToken Description KmsKeyId SecretBinary SecretString SecretId"},
			{Name: "DeleteSecret", Members: "ForceDeleteWithoutRecovery RecoveryWindowInDays SecretId"},
			{Name: "RestoreSecret", Members: "SecretId"},
			{Name: "GetSecretValue", Members: "SecretId VersionId VersionStage"},
			{Name: "BatchGetSecretValue", Members: "Filters MaxResults NextToken SecretIdList", ReadOnly: true},
			{Name: "PutSecretValue", Members: "ClientRequestToken SecretBinary SecretId SecretString VersionStages"},
			{Name: "ListSecretVersionIds", Members: "IncludeDeprecated MaxResults NextToken SecretId"},
			{Name: "UpdateSecretVersionStage", Members: "MoveToVersionId RemoveFromVersionId SecretId VersionStage"},
			{Name: "RotateSecret", Members: "ClientRequestToken RotateImmediately RotationLambdaARN RotationRules SecretId", Except: "the rotation itself: it is stored and not run, because there are no Lambda functions"},
			{Name: "CancelRotateSecret", Members: "SecretId"},
			{Name: "GetResourcePolicy", Members: "SecretId"},
			{Name: "PutResourcePolicy", Members: "BlockPublicPolicy ResourcePolicy SecretId"},
			{Name: "DeleteResourcePolicy", Members: "SecretId"},
			{Name: "ValidateResourcePolicy", Members: "ResourcePolicy SecretId", ReadOnly: true},
			{Name: "GetRandomPassword", Members: "ExcludeCharacters ExcludeLowercase ExcludeNumbers ExcludePunctuation ExcludeUppercase IncludeSpace PasswordLength RequireEachIncludedType"},
			{Name: "TagResource", Members: "SecretId Tags"},
			{Name: "UntagResource", Members: "SecretId TagKeys"},
		},
		Refused: []awsapi.Refusal{
			{Operations: "ReplicateSecretToRegions RemoveRegionsFromReplication StopReplicationToReplica", Why: "Secrets are not replicated."},
		},
	}
}

func (s *Service) taggable() module.Tagging {
	return module.Tagging{
		Resources: func(account, region string) []module.Resource {
			return module.Resources(s.store, secrets, account, region, func(k store.Key, r *secretRecord) (string, map[string]string) {
				if !r.Deleted.IsZero() {
					return "", nil
				}
				return scope{regional.At(k.Account, k.Region)}.arn(r), r.Tags
			})
		},
		Put: func(name string, tags map[string]string) any {
			return &awssm.TagResourceInput{SecretId: &name, Tags: tagList(tags)}
		},
		Remove: func(name string, keys []string) any {
			return &awssm.UntagResourceInput{SecretId: &name, TagKeys: keys}
		},
	}
}
