package iam

import "github.com/drydock-dev/drydock/internal/awsapi"

// simulated are the supported members of simulations. ResourceHandlingOption, for which AWS adds
// related EC2 resources, is not supported.
const simulated = "ActionNames CallerArn ContextEntries Marker MaxItems PermissionsBoundaryPolicyInputList PolicyInputList ResourceArns ResourceOwner ResourcePolicy"

// AWS declares the operations that the service answers.
func (s *Service) AWS() awsapi.Service {
	return awsapi.Service{Name: "iam", Handler: s, Operations: []awsapi.Operation{
		// Account.
		{Name: "GetAccountSummary"},
		{Name: "GenerateCredentialReport"},
		{Name: "GetCredentialReport"},
		{Name: "GetAccountAuthorizationDetails", Members: "Filter Marker MaxItems"},
		{Name: "CreateAccountAlias", Members: "AccountAlias"},
		{Name: "DeleteAccountAlias", Members: "AccountAlias"},
		{Name: "ListAccountAliases", Members: "Marker MaxItems"},
		{Name: "UpdateAccountPasswordPolicy", Members: "AllowUsersToChangePassword HardExpiry MaxPasswordAge MinimumPasswordLength PasswordReusePrevention RequireLowercaseCharacters RequireNumbers RequireSymbols RequireUppercaseCharacters"},
		{Name: "GetAccountPasswordPolicy"},
		{Name: "DeleteAccountPasswordPolicy"},
		{Name: "ListServerCertificates", Members: "PathPrefix Marker MaxItems"},
		{Name: "ListVirtualMFADevices", Members: "AssignmentStatus Marker MaxItems"},

		// Users.
		{Name: "CreateUser", Members: "UserName Path PermissionsBoundary Tags"},
		{Name: "GetUser", Members: "UserName"},
		{Name: "ListUsers", Members: "Marker MaxItems PathPrefix"},
		{Name: "UpdateUser", Members: "UserName NewPath NewUserName"},
		{Name: "DeleteUser", Members: "UserName"},
		{Name: "TagUser", Members: "UserName Tags"},
		{Name: "UntagUser", Members: "UserName TagKeys"},
		{Name: "ListUserTags", Members: "UserName Marker MaxItems"},
		{Name: "PutUserPermissionsBoundary", Members: "UserName PermissionsBoundary"},
		{Name: "DeleteUserPermissionsBoundary", Members: "UserName"},
		{Name: "PutUserPolicy", Members: "UserName PolicyName PolicyDocument"},
		{Name: "GetUserPolicy", Members: "UserName PolicyName"},
		{Name: "ListUserPolicies", Members: "UserName Marker MaxItems"},
		{Name: "DeleteUserPolicy", Members: "UserName PolicyName"},
		{Name: "AttachUserPolicy", Members: "UserName PolicyArn"},
		{Name: "DetachUserPolicy", Members: "UserName PolicyArn"},
		{Name: "ListAttachedUserPolicies", Members: "UserName PathPrefix Marker MaxItems"},

		// Access keys.
		{Name: "CreateAccessKey", Members: "UserName"},
		{Name: "ListAccessKeys", Members: "UserName Marker MaxItems"},
		{Name: "UpdateAccessKey", Members: "UserName AccessKeyId Status"},
		{Name: "DeleteAccessKey", Members: "UserName AccessKeyId"},
		{Name: "GetAccessKeyLastUsed", Members: "AccessKeyId"},

		// Other credentials.
		{Name: "CreateLoginProfile", Members: "UserName Password PasswordResetRequired"},
		{Name: "GetLoginProfile", Members: "UserName"},
		{Name: "UpdateLoginProfile", Members: "UserName Password PasswordResetRequired"},
		{Name: "DeleteLoginProfile", Members: "UserName"},
		{Name: "CreateVirtualMFADevice", Members: "Path Tags VirtualMFADeviceName"},
		{Name: "DeleteVirtualMFADevice", Members: "SerialNumber"},
		{Name: "EnableMFADevice", Members: "UserName SerialNumber AuthenticationCode1 AuthenticationCode2"},
		{Name: "ResyncMFADevice", Members: "UserName SerialNumber AuthenticationCode1 AuthenticationCode2"},
		{Name: "DeactivateMFADevice", Members: "UserName SerialNumber"},
		{Name: "GetMFADevice", Members: "UserName SerialNumber"},
		{Name: "ListMFADevices", Members: "UserName Marker MaxItems"},
		{Name: "TagMFADevice", Members: "SerialNumber Tags"},
		{Name: "UntagMFADevice", Members: "SerialNumber TagKeys"},
		{Name: "ListMFADeviceTags", Members: "SerialNumber Marker MaxItems"},
		{Name: "ListSSHPublicKeys", Members: "UserName Marker MaxItems"},
		{Name: "ListSigningCertificates", Members: "UserName Marker MaxItems"},
		{Name: "ListServiceSpecificCredentials", Members: "UserName ServiceName Marker MaxItems"},

		// Groups.
		{Name: "CreateGroup", Members: "GroupName Path"},
		{Name: "GetGroup", Members: "GroupName Marker MaxItems"},
		{Name: "ListGroups", Members: "Marker MaxItems PathPrefix"},
		{Name: "ListGroupsForUser", Members: "UserName Marker MaxItems"},
		{Name: "UpdateGroup", Members: "GroupName NewGroupName NewPath"},
		{Name: "DeleteGroup", Members: "GroupName"},
		{Name: "AddUserToGroup", Members: "GroupName UserName"},
		{Name: "RemoveUserFromGroup", Members: "GroupName UserName"},
		{Name: "PutGroupPolicy", Members: "GroupName PolicyName PolicyDocument"},
		{Name: "GetGroupPolicy", Members: "GroupName PolicyName"},
		{Name: "ListGroupPolicies", Members: "GroupName Marker MaxItems"},
		{Name: "DeleteGroupPolicy", Members: "GroupName PolicyName"},
		{Name: "AttachGroupPolicy", Members: "GroupName PolicyArn"},
		{Name: "DetachGroupPolicy", Members: "GroupName PolicyArn"},
		{Name: "ListAttachedGroupPolicies", Members: "GroupName PathPrefix Marker MaxItems"},

		// Roles.
		{Name: "CreateRole", Members: "RoleName Path AssumeRolePolicyDocument Description MaxSessionDuration PermissionsBoundary Tags"},
		{Name: "GetRole", Members: "RoleName"},
		{Name: "ListRoles", Members: "Marker MaxItems PathPrefix"},
		{Name: "UpdateRole", Members: "RoleName Description MaxSessionDuration"},
		{Name: "UpdateRoleDescription", Members: "RoleName Description"},
		{Name: "UpdateAssumeRolePolicy", Members: "RoleName PolicyDocument"},
		{Name: "DeleteRole", Members: "RoleName"},
		{Name: "TagRole", Members: "RoleName Tags"},
		{Name: "UntagRole", Members: "RoleName TagKeys"},
		{Name: "ListRoleTags", Members: "RoleName Marker MaxItems"},
		{Name: "PutRolePermissionsBoundary", Members: "RoleName PermissionsBoundary"},
		{Name: "DeleteRolePermissionsBoundary", Members: "RoleName"},
		{Name: "PutRolePolicy", Members: "RoleName PolicyName PolicyDocument"},
		{Name: "GetRolePolicy", Members: "RoleName PolicyName"},
		{Name: "ListRolePolicies", Members: "RoleName Marker MaxItems"},
		{Name: "DeleteRolePolicy", Members: "RoleName PolicyName"},
		{Name: "AttachRolePolicy", Members: "RoleName PolicyArn"},
		{Name: "DetachRolePolicy", Members: "RoleName PolicyArn"},
		{Name: "ListAttachedRolePolicies", Members: "RoleName PathPrefix Marker MaxItems"},
		{Name: "CreateServiceLinkedRole", Members: "AWSServiceName Description CustomSuffix",
			Except: "AWSServiceName of services other than EKS, EC2 Fleet, Spot, Auto Scaling and Elastic Load Balancing"},
		{Name: "DeleteServiceLinkedRole", Members: "RoleName"},
		{Name: "GetServiceLinkedRoleDeletionStatus", Members: "DeletionTaskId"},

		// Managed policies.
		{Name: "CreatePolicy", Members: "PolicyName Path PolicyDocument Description Tags"},
		{Name: "GetPolicy", Members: "PolicyArn"},
		{Name: "ListPolicies", Members: "Scope OnlyAttached PathPrefix PolicyUsageFilter Marker MaxItems"},
		{Name: "ListEntitiesForPolicy", Members: "PolicyArn EntityFilter PathPrefix PolicyUsageFilter Marker MaxItems"},
		{Name: "ListPoliciesGrantingServiceAccess", Members: "Arn ServiceNamespaces Marker"},
		{Name: "DeletePolicy", Members: "PolicyArn"},
		{Name: "CreatePolicyVersion", Members: "PolicyArn PolicyDocument SetAsDefault"},
		{Name: "GetPolicyVersion", Members: "PolicyArn VersionId"},
		{Name: "ListPolicyVersions", Members: "PolicyArn Marker MaxItems"},
		{Name: "DeletePolicyVersion", Members: "PolicyArn VersionId"},
		{Name: "SetDefaultPolicyVersion", Members: "PolicyArn VersionId"},
		{Name: "TagPolicy", Members: "PolicyArn Tags"},
		{Name: "UntagPolicy", Members: "PolicyArn TagKeys"},
		{Name: "ListPolicyTags", Members: "PolicyArn Marker MaxItems"},

		// Simulation.
		{Name: "SimulateCustomPolicy", ReadOnly: true, Members: simulated},
		{Name: "SimulatePrincipalPolicy", ReadOnly: true, Members: "PolicySourceArn " + simulated},
		{Name: "GetContextKeysForCustomPolicy", Members: "PolicyInputList"},
		{Name: "GetContextKeysForPrincipalPolicy", Members: "PolicySourceArn PolicyInputList"},

		// Instance profiles.
		{Name: "CreateInstanceProfile", Members: "InstanceProfileName Path Tags"},
		{Name: "GetInstanceProfile", Members: "InstanceProfileName"},
		{Name: "ListInstanceProfiles", Members: "Marker MaxItems PathPrefix"},
		{Name: "ListInstanceProfilesForRole", Members: "RoleName Marker MaxItems"},
		{Name: "DeleteInstanceProfile", Members: "InstanceProfileName"},
		{Name: "AddRoleToInstanceProfile", Members: "InstanceProfileName RoleName"},
		{Name: "RemoveRoleFromInstanceProfile", Members: "InstanceProfileName RoleName"},
		{Name: "TagInstanceProfile", Members: "InstanceProfileName Tags"},
		{Name: "UntagInstanceProfile", Members: "InstanceProfileName TagKeys"},
		{Name: "ListInstanceProfileTags", Members: "InstanceProfileName Marker MaxItems"},

		// OpenID Connect providers.
		{Name: "CreateOpenIDConnectProvider", Members: "Url ClientIDList ThumbprintList Tags"},
		{Name: "GetOpenIDConnectProvider", Members: "OpenIDConnectProviderArn"},
		{Name: "ListOpenIDConnectProviders"},
		{Name: "DeleteOpenIDConnectProvider", Members: "OpenIDConnectProviderArn"},
		{Name: "UpdateOpenIDConnectProviderThumbprint", Members: "OpenIDConnectProviderArn ThumbprintList"},
		{Name: "AddClientIDToOpenIDConnectProvider", Members: "OpenIDConnectProviderArn ClientID"},
		{Name: "RemoveClientIDFromOpenIDConnectProvider", Members: "OpenIDConnectProviderArn ClientID"},
		{Name: "TagOpenIDConnectProvider", Members: "OpenIDConnectProviderArn Tags"},
		{Name: "UntagOpenIDConnectProvider", Members: "OpenIDConnectProviderArn TagKeys"},
		{Name: "ListOpenIDConnectProviderTags", Members: "OpenIDConnectProviderArn Marker MaxItems"},
	}}
}
