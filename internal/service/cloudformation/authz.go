package cloudformation

import "github.com/drydock-dev/drydock/internal/awsapi"

const sourcePassRole = "https://docs.aws.amazon.com/IAM/latest/UserGuide/id_roles_use_passrole.html"

// authorization corrects the service authorization reference.
var authorization = awsapi.Authorization{
	PassedRoles: map[string][]awsapi.PassedRole{
		"CreateChangeSet":        {{Member: "RoleARN", Service: "cloudformation.amazonaws.com", Source: sourcePassRole}},
		"CreateStack":            {{Member: "RoleARN", Service: "cloudformation.amazonaws.com", Source: sourcePassRole}},
		"DeleteStack":            {{Member: "RoleARN", Service: "cloudformation.amazonaws.com", Source: sourcePassRole}},
		"ContinueUpdateRollback": {{Member: "RoleARN", Service: "cloudformation.amazonaws.com", Source: sourcePassRole}},
		"RollbackStack":          {{Member: "RoleARN", Service: "cloudformation.amazonaws.com", Source: sourcePassRole}},
		"UpdateStack":            {{Member: "RoleARN", Service: "cloudformation.amazonaws.com", Source: sourcePassRole}},
	},
}
