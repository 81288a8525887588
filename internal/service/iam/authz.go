package iam

import (
	"cmp"
	"context"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	awsiam "github.com/aws/aws-sdk-go-v2/service/iam"

	"github.com/drydock-dev/drydock/internal/arn"
	"github.com/drydock-dev/drydock/internal/authz"
	"github.com/drydock-dev/drydock/internal/awsapi"
	"github.com/drydock-dev/drydock/internal/catalog/managedpolicies"
	"github.com/drydock-dev/drydock/internal/policy"
	"github.com/drydock-dev/drydock/internal/store"
)

// Authz provides package authz with the stored attributes of IAM's resources.
func (s *Service) Authz() authz.Resolver { return resolver{s} }

type resolver struct{ s *Service }

// Resource implements authz.Resolver. Named resources are identified by name or ARN.
func (r resolver) Resource(ctx context.Context, account, _, kind, id string) (authz.Resource, bool) {
	name := id
	if owner, _, n, ok := arnName(id, kind); ok {
		account, name = owner, n
	} else if strings.HasPrefix(id, "arn:") && kind != "oidc-provider" && kind != "saml-provider" {
		return authz.Resource{}, false
	}
	switch kind {
	case "user":
		if u, err := users.Get(r.s.store, nameKey(account, name)); err == nil {
			return authz.Resource{ARN: u.arn(account), Tags: tagMap(u.Tags), Keys: boundaryKey(u.Boundary)}, true
		}
	case "role":
		role, err := roles.Get(r.s.store, nameKey(account, name))
		if named := strings.HasPrefix(id, "arn:"); err == nil && (!named || role.arn(account) == id) { // an ARN must include the path
			trust := policy.Source{Name: "trust policy of " + role.arn(account), Document: r.s.trust(&role)}
			return authz.Resource{ARN: role.arn(account), Tags: tagMap(role.Tags), Keys: boundaryKey(role.Boundary), Trust: &trust}, true
		}
	case "group":
		if g, err := groups.Get(r.s.store, nameKey(account, name)); err == nil {
			return authz.Resource{ARN: g.arn(account)}, true
		}
	case "policy":
		if p, ok := managedpolicies.Get(id); ok {
			return authz.Resource{ARN: p.ARN}, true
		}
		if p, err := policies.Get(r.s.store, nameKey(account, name)); err == nil {
			return authz.Resource{ARN: p.arn(account), Tags: tagMap(p.Tags)}, true
		}
	case "instance-profile":
		p, err := profiles.Get(r.s.store, nameKey(account, name))
		if err != nil {
			return authz.Resource{}, false
		}
		out := authz.Resource{ARN: p.arn(account), Tags: tagMap(p.Tags)}
		if role, err := r.s.RoleByName(ctx, account, p.Role); p.Role != "" && err == nil {
			out.Role = role.ARN
		}
		return out, true
	case "oidc-provider":
		return r.provider(account, id)
	case "saml-provider":
		_, rest, _ := strings.Cut(id, ":saml-provider/")
		if p, err := samlProviders.Get(r.s.store, store.Key{Account: account, ID: cmp.Or(rest, id)}); err == nil {
			return authz.Resource{ARN: samlProviderARN(account, p.Name), Tags: tagMap(p.Tags)}, true
		}
	case "server-certificate":
		if c, err := serverCertificates.Get(r.s.store, nameKey(account, name)); err == nil {
			return authz.Resource{ARN: c.arn(account), Tags: tagMap(c.Tags)}, true
		}
	case "mfa":
		if d, err := mfaDevices.Get(r.s.store, nameKey(account, name)); err == nil {
			return authz.Resource{ARN: d.arn(account), Tags: tagMap(d.Tags)}, true
		}
	}
	return authz.Resource{}, false
}

// Targets implements authz.Targeter for resources that requests identify indirectly: a
// user by an access key, a role by its service or by the task of its deletion.
func (r resolver) Targets(_ context.Context, call *awsapi.Call, in any) ([]authz.Target, bool) {
	switch in := in.(type) {
	case *awsiam.GetAccessKeyLastUsedInput:
		t := authz.Target{Type: "user"} // any user, if there is no such key
		if k, err := keys.Get(r.s.store, store.Key{Account: call.Account, ID: aws.ToString(in.AccessKeyId)}); err == nil {
			t.ID = k.User
		}
		return []authz.Target{t}, true
	case *awsiam.CreateServiceLinkedRoleInput:
		path := "role/aws-service-role/" + aws.ToString(in.AWSServiceName)
		if name, ok := serviceRoleName(in); ok {
			path += "/" + name
		}
		return []authz.Target{{Type: "role", ID: arn.IAM(call.Account, path), New: true}}, true
	case *awsiam.GetServiceLinkedRoleDeletionStatusInput:
		// task/aws-service-role/SERVICE/ROLE/ID
		task := strings.TrimPrefix(aws.ToString(in.DeletionTaskId), "task/")
		path := task[:max(0, strings.LastIndexByte(task, '/'))]
		if path == "" {
			return []authz.Target{{Type: "role"}}, true
		}
		return []authz.Target{{Type: "role", ID: arn.IAM(call.Account, "role/"+path)}}, true
	}
	return nil, false
}

func (r resolver) provider(account, id string) (authz.Resource, bool) {
	url := id
	if _, rest, ok := strings.Cut(id, ":oidc-provider/"); ok {
		url = rest
	}
	url = strings.TrimPrefix(url, "https://")
	items := providers.All(r.s.store, within(account))
	for i := range items {
		if p := &items[i].Value; p.URL == url {
			return authz.Resource{ARN: providerARN(account, p.URL), Tags: tagMap(p.Tags)}, true
		}
	}
	return authz.Resource{}, false
}

// boundaryKey returns the condition key for the permissions boundary of a user or role, which
// applies if the request has no boundary.
// https://docs.aws.amazon.com/IAM/latest/UserGuide/reference_policies_iam-condition-keys.html
func boundaryKey(boundary string) map[string][]string {
	if boundary == "" {
		return map[string][]string{"iam:permissionsboundary": nil}
	}
	return map[string][]string{"iam:permissionsboundary": {boundary}}
}

// authorization corrects the service authorization reference.
var authorization = awsapi.Authorization{
	Targets: map[string]awsapi.Targets{
		// For lists, IAM's resource is the path, with the list's kind. SAR has none (from memory of IAM's messages:
		// iam:ListRoles on resource: arn:aws:iam::…:role/).
		"ListUsers":              {Resources: "user=PathPrefix|'/", Source: "messages of IAM"},
		"ListGroups":             {Resources: "group=PathPrefix|'/", Source: "messages of IAM"},
		"ListRoles":              {Resources: "role=PathPrefix|'/", Source: "messages of IAM"},
		"ListInstanceProfiles":   {Resources: "instance-profile=PathPrefix|'/", Source: "messages of IAM"},
		"ListPolicies":           {Resources: "policy=PathPrefix|'/", Source: "messages of IAM"},
		"ListServerCertificates": {Resources: "server-certificate=PathPrefix|'/", Source: "as the lists above"},
		// SAR names every kind for the tag operations; the identity is the one given.
		"AddUserToGroup":                     {Resources: "group=GroupName", Source: "SAR"},
		"RemoveUserFromGroup":                {Resources: "group=GroupName", Source: "SAR"},
		"ListGroupsForUser":                  {Resources: "user=UserName", Source: "SAR"},
		"AddRoleToInstanceProfile":           {Resources: "instance-profile=InstanceProfileName", Source: "SAR"},
		"RemoveRoleFromInstanceProfile":      {Resources: "instance-profile=InstanceProfileName", Source: "SAR"},
		"ListInstanceProfilesForRole":        {Resources: "role=RoleName", Source: "SAR"},
		"DeleteVirtualMFADevice":             {Resources: "mfa=SerialNumber", Source: "SAR: sms-mfa is no longer offered"},
		"CreateOpenIDConnectProvider":        {Resources: "oidc-provider=Url", Source: "SAR: named by the URL without its scheme"},
		"GetContextKeysForPrincipalPolicy":   {Resources: "user?=PolicySourceArn", Source: "SAR: the principal asked about, of whatever kind"},
		"GenerateServiceLastAccessedDetails": {Resources: "user=Arn", Source: "SAR: the entity or policy asked about, of whatever kind"},
		"ListPoliciesGrantingServiceAccess":  {Resources: "user=Arn", Source: "SAR, as above"},
		"SimulatePrincipalPolicy":            {Resources: "user?=PolicySourceArn", Source: "SAR: the principal simulated, of whatever kind"},
	},
	Members: map[string]string{
		"GroupNameWithPath":           "GroupName",
		"InstanceProfileNameWithPath": "InstanceProfileName",
		"MfaTokenIdWithPath":          "SerialNumber VirtualMFADeviceName",
		"OidcProviderName":            "OpenIDConnectProviderArn",
		"CertificateNameWithPath":     "ServerCertificateName",
		"PolicyNameWithPath":          "PolicyArn PolicyName",
		"RoleNameWithPath":            "RoleName",
		"SamlProviderName":            "SAMLProviderArn Name",
		"UserNameWithPath":            "UserName",
	},
	ARNs: map[string]func(string) string{
		// A path and the leading slash of a name become one slash.
		"user": oneSlash, "group": oneSlash, "role": oneSlash, "policy": oneSlash, "instance-profile": oneSlash, "mfa": oneSlash, "server-certificate": oneSlash,
		"oidc-provider": func(arn string) string { return strings.Replace(arn, ":oidc-provider/https://", ":oidc-provider/", 1) },
	},
	PassedRoles: map[string][]awsapi.PassedRole{
		"AddRoleToInstanceProfile": {{Member: "RoleName", Service: "ec2.amazonaws.com", Source: "SAR: dependent action"}},
	},
	Tagging: awsapi.Tagging{
		ByType: map[string]string{
			"user": "TagUser", "role": "TagRole", "policy": "TagPolicy",
			"instance-profile": "TagInstanceProfile", "oidc-provider": "TagOpenIDConnectProvider", "server-certificate": "TagServerCertificate",
		},
		Source: "https://docs.aws.amazon.com/IAM/latest/UserGuide/id_tags.html",
	},
	KeyMembers: map[string]string{
		"servicespecificcredentialservicename": "ServiceName",
		"servicespecificcredentialagedays":     "CredentialAgeDays",
	},
	StoredKeys: "passedtoservice permissionsboundary",
	AbsentKeys: "fido-certification fido-fips-140-2-certification fido-fips-140-3-certification registersecuritykey",
}

func oneSlash(arn string) string {
	return strings.Replace(arn, "//", "/", 1)
}
