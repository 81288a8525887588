package sts

import "github.com/drydock-dev/drydock/internal/awsapi"

// authorization corrects the service authorization reference.
var authorization = awsapi.Authorization{
	Targets: map[string]awsapi.Targets{
		"AssumeRole":                {Resources: "role=RoleArn", Source: "SAR"},
		"AssumeRoleWithWebIdentity": {Resources: "role=RoleArn", Source: "SAR"},
		"GetFederationToken":        {Resources: "federated-user=Name", Source: "SAR: named federated-user/NAME"},
	},
	Owners: map[string]string{"role": "iam"},
	KeyMembers: map[string]string{
		"requestcontextproviders": "ProvidedContexts.ProviderArn",
		"taskpolicyarn":           "TaskPolicyArn.Arn",
	},
	StoredKeys: "awsservicename",
}
