package secretsmanager

import (
	"context"

	awssm "github.com/aws/aws-sdk-go-v2/service/secretsmanager"

	"github.com/drydock-dev/drydock/internal/arn"
	"github.com/drydock-dev/drydock/internal/authz"
	"github.com/drydock-dev/drydock/internal/awsapi"
	"github.com/drydock-dev/drydock/internal/awsapi/regional"
	"github.com/drydock-dev/drydock/internal/policy"
)

type resolver struct{ s *Service }

// HoldsPolicies implements authz.PolicyHolder.
func (resolver) HoldsPolicies() {}

const secretType = "Secret"

// Resource implements authz.Resolver. A secret is identified by its name or ARN.
func (r resolver) Resource(_ context.Context, account, region, _, id string) (authz.Resource, bool) {
	rec, sc, err := r.s.lookup(r.s.store, scope{regional.At(account, region)}, id)
	if err != nil {
		return authz.Resource{}, false
	}
	out := authz.Resource{ARN: sc.arn(&rec), Tags: rec.Tags, Keys: map[string][]string{
		"secretsmanager:secretid": {sc.arn(&rec)}, "secretsmanager:secretprimaryregion": {sc.Region}, "secretsmanager:resource/allowrotationlambdaarn": nil,
	}}
	if rec.Rotation.Lambda != "" {
		out.Keys["secretsmanager:resource/allowrotationlambdaarn"] = []string{rec.Rotation.Lambda}
	}
	if rec.Policy != "" {
		out.Policy = &policy.Source{Name: "resource policy of " + out.ARN, Document: r.s.docs.Get(rec.Policy)}
	}
	return out, true
}

// Targets implements authz.Targeter.
func (r resolver) Targets(_ context.Context, call *awsapi.Call, in any) ([]authz.Target, bool) {
	tags, tagKeys := authz.RequestTags(in)
	keys := map[string][]string{
		// No secret has these properties, and no supported request has these members.
		"secretsmanager:resource/type": nil, "secretsmanager:type": nil, "secretsmanager:addreplicaregions": nil, "secretsmanager:forceoverwritereplicasecret": nil,
		"secretsmanager:externalsecretrotationrolearn": nil,
	}
	switch in := in.(type) {
	case *awssm.CreateSecretInput:
		// Policies match the name with its random suffix, which has not been chosen yet.
		id := arn.New("secretsmanager", call.Region, call.Account, "secret:"+*in.Name+"-??????")
		setKeyARN(keys, call, in.KmsKeyId)
		return []authz.Target{{Type: secretType, ID: id, New: true, Tags: tags, TagKeys: tagKeys, Keys: keys}}, true
	case *awssm.BatchGetSecretValueInput:
		out := []authz.Target{{}}
		if len(in.Filters) > 0 {
			out = append(out, authz.Target{Action: "secretsmanager:ListSecrets"})
		}
		return out, true
	case *awssm.UpdateSecretInput:
		setKeyARN(keys, call, in.KmsKeyId)
	case *awssm.RotateSecretInput:
		keys["secretsmanager:modifyrotationrules"] = []string{"false"}
		if in.RotationRules != nil {
			keys["secretsmanager:modifyrotationrules"] = []string{"true"}
		}
	}
	if id, ok := authz.Named(in, "SecretId"); ok && id != "" {
		if rec, sc, err := r.s.lookup(r.s.store, scope{regional.At(call.Account, call.Region)}, id); err == nil {
			keys["secretsmanager:secretid"] = []string{sc.arn(&rec)}
		}
		return []authz.Target{{Type: secretType, ID: id, Tags: tags, TagKeys: tagKeys, Keys: keys}}, true
	}
	return nil, false
}

// setKeyARN sets the condition key for the ARN of a KMS key, if the request names one.
func setKeyARN(keys map[string][]string, call *awsapi.Call, id *string) {
	keys["secretsmanager:kmskeyarn"] = nil
	if id == nil {
		return
	}
	name := *id
	if _, err := arn.Parse(name); err != nil {
		name = arn.New("kms", call.Region, call.Account, "key/"+name)
	}
	keys["secretsmanager:kmskeyarn"] = []string{name}
}

// authorization corrects the service authorization reference.
var authorization = awsapi.Authorization{
	Members: map[string]string{
		"SecretId": "SecretId Name",
	},
	Tagging:    awsapi.Tagging{Action: "TagResource", Source: "https://docs.aws.amazon.com/secretsmanager/latest/apireference/API_CreateSecret.html"},
	StoredKeys: "addreplicaregions externalsecretrotationrolearn forceoverwritereplicasecret kmskeyarn modifyrotationrules resource/allowrotationlambdaarn resource/type secretid secretprimaryregion type",
}
