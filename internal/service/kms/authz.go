package kms

import (
	"context"
	"slices"
	"strconv"
	"strings"

	kmstypes "github.com/aws/aws-sdk-go-v2/service/kms/types"

	"github.com/drydock-dev/drydock/internal/arn"
	"github.com/drydock-dev/drydock/internal/authz"
	"github.com/drydock-dev/drydock/internal/awsapi"
	"github.com/drydock-dev/drydock/internal/awsapi/regional"
	"github.com/drydock-dev/drydock/internal/policy"
	"github.com/drydock-dev/drydock/internal/store"
)

// Authz provides package authz with the targets of requests, and with the policies and grants of
// keys.
func (s *Service) Authz() authz.Resolver { return resolver{s} }

type resolver struct{ s *Service }

// HoldsPolicies implements authz.PolicyHolder: key policies apply even to the account's root.
func (resolver) HoldsPolicies() {}

// retireMark separates the key from the grant to be retired in the IDs that Targets returns.
const retireMark = "#"

// Resource implements authz.Resolver. A key is identified as in requests. A missing key of another
// account looks like one that denies everyone. If it would be in the caller's own account, the
// handler reports that it does not exist.
func (r resolver) Resource(ctx context.Context, account, region, kind, id string) (authz.Resource, bool) {
	sc := scope{regional.At(account, region)}
	if kind == "alias" {
		return authz.Resource{ARN: sc.arn(strings.TrimPrefix(id, sc.arn("")))}, strings.HasPrefix(id, aliasPrefix) || strings.HasPrefix(id, "arn:")
	}
	name, retired, _ := strings.Cut(id, retireMark)
	k, err := parseRef(sc, name)
	if kind != "key" || err != nil {
		return authz.Resource{}, false
	}
	rec, of, err := r.s.lookup(r.s.store, k)
	if err != nil {
		return r.absent(k, account), true
	}
	out := authz.Resource{
		ARN: rec.ARN, Tags: rec.Tags, PolicyRequired: true,
		Policy: &policy.Source{Name: sourceName(&rec), Document: r.s.docs.Get(rec.Policy)},
	}
	if rec.Manager != kmstypes.KeyManagerTypeAws {
		out.PolicyText = rec.Policy
	}
	who := awsapi.CallFrom(ctx).Principal
	out.Grants = r.s.grantsTo(&who, of, rec.ID, retired)
	return out, true
}

// grantsTo returns the grants of a key that may allow a principal to use it (those to its own ARN,
// its role or its account) and the grant to be retired, if any. Without a principal, it returns all
// grants.
func (s *Service) grantsTo(p *awsapi.Principal, sc scope, keyID, retired string) []policy.Source {
	var out []policy.Source
	if p.Account == "" {
		grants.Scan(s.store, sc.Below(keyID), "", func(_ store.Key, g grantRecord) bool {
			out = append(out, g.source(g.ID == retired))
			return true
		})
		return out
	}
	add := func(grantID string) {
		// If the grant is missing, it was deleted in the meantime.
		if g, err := grants.Get(s.store, sc.grantKey(keyID, grantID)); err == nil {
			out = append(out, g.source(g.ID == retired))
		}
	}
	if retired != "" {
		add(retired)
	}
	names := []string{p.ARN, p.RoleARN, arn.IAM(p.Account, "root")}
	slices.Sort(names)
	for _, name := range slices.Compact(names) {
		if name == "" {
			continue
		}
		below := sc.granteeKey(keyID, name, "").ID
		in := store.Scope{Account: sc.Account, Region: sc.Region, Prefix: below}
		grantees.Scan(s.store, in, "", func(k store.Key, _ granteeRecord) bool {
			if id := strings.TrimPrefix(k.ID, below); id != retired {
				add(id)
			}
			return true
		})
	}
	return out
}

// absent returns the resource for a key that does not exist.
func (r resolver) absent(k ref, account string) authz.Resource {
	out := authz.Resource{ARN: k.keyARN(k.id), PolicyRequired: k.Account != account}
	if k.alias != "" {
		out.ARN = k.arn(k.alias)
	}
	if !out.PolicyRequired && isManaged(k.alias) {
		// The key would be created with this policy.
		text := managedPolicy(k.scope, k.alias)
		out.PolicyRequired, out.Policy = true, &policy.Source{Name: "key policy of " + out.ARN, Document: r.s.docs.Get(text)}
	}
	return out
}

// common returns the condition keys of every request.
// https://docs.aws.amazon.com/kms/latest/developerguide/conditions-kms.html
func common(call *awsapi.Call) map[string][]string {
	return map[string][]string{
		"kms:calleraccount": one(call.Principal.Account),
		"kms:viaservice":    one(call.ViaService()),
	}
}

// describe adds the condition keys for a key's attributes.
func (k *keyRecord) describe(keys map[string][]string) {
	keys["kms:keyspec"] = one(string(k.Spec))
	keys["kms:keyusage"] = one(string(k.Usage))
	keys["kms:keyorigin"] = one(string(kmstypes.OriginTypeAwsKms))
	keys["kms:multiregion"] = one("false")
	keys["kms:multiregionkeytype"] = nil
}

// one returns the values of a condition key that has at most one value.
func one(value string) []string {
	if value == "" {
		return nil
	}
	return []string{value}
}

func boolean(b bool) []string { return one(strconv.FormatBool(b)) }

// source converts the grant to a policy that allows its operations under its constraints.
// DescribeKey and RetireGrant are not constrained. A grant created with CreateGrant must be at
// least as constrained and must not allow more. Only the grant to be retired decides who may retire
// it; retired marks that grant.
// https://docs.aws.amazon.com/kms/latest/developerguide/create-grant-overview.html#grant-constraints
// https://docs.aws.amazon.com/kms/latest/developerguide/grant-manage.html#grant-delete
func (o *grantRecord) source(retired bool) policy.Source {
	// Version 2008 has no policy variables, so constraints are plain text.
	doc := &policy.Document{Version: policy.Version2008}
	allow := func(principal string, conditions []policy.Condition, actions ...string) {
		if len(actions) > 0 && principal != "" {
			doc.Statements = append(doc.Statements, policy.Statement{
				SID: o.Name, Principals: &policy.Principals{AWS: []string{principal}}, Actions: actions, Resources: []string{o.KeyARN}, Conditions: conditions,
			})
		}
	}
	var constrained []string
	for _, op := range o.Operations {
		switch action := "kms:" + string(op); op {
		case kmstypes.GrantOperationDescribeKey:
			allow(o.Grantee, nil, action)
		case kmstypes.GrantOperationCreateGrant:
			c := policy.Condition{Operator: "ForAllValues:StringEquals", Key: "kms:GrantOperations"}
			for _, op := range o.Operations {
				c.Values = append(c.Values, string(op))
			}
			conditions := append(o.constraints(), c)
			if o.Equals != nil {
				conditions = append(conditions, policy.Condition{Operator: "StringEquals", Key: "kms:GrantConstraintType", Values: []string{constraintEquals}})
			}
			allow(o.Grantee, conditions, action)
		case kmstypes.GrantOperationRetireGrant:
			if retired {
				allow(o.Grantee, nil, action)
			}
		default:
			constrained = append(constrained, action)
		}
	}
	allow(o.Grantee, o.constraints(), constrained...)
	if retired {
		allow(o.Retiring, nil, "kms:RetireGrant")
		allow(arn.IAM(o.Issuer, "root"), nil, "kms:RetireGrant")
	}
	return policy.Source{Name: "grant " + o.ID, Document: doc}
}

// Values of kms:GrantConstraintType.
const (
	constraintEquals = "EncryptionContextEquals"
	constraintSubset = "EncryptionContextSubset"
)

// constraints converts a grant's constraints to conditions. Condition keys are case-insensitive,
// but encryption contexts are not. Therefore kms:EncryptionContextKeys has the exact names, and if
// two names differ only in case, both values must match.
func (o *grantRecord) constraints() []policy.Condition {
	pairs := o.Subset
	if o.Equals != nil {
		pairs = o.Equals
	}
	var out []policy.Condition
	var names []string
	for k, v := range pairs {
		names = append(names, k)
		out = append(out,
			policy.Condition{Operator: "ForAnyValue:StringEquals", Key: "kms:EncryptionContextKeys", Values: []string{k}},
			policy.Condition{Operator: "StringEquals", Key: "kms:EncryptionContext:" + k, Values: []string{v}},
			policy.Condition{Operator: "ForAllValues:StringEquals", Key: "kms:EncryptionContext:" + k, Values: []string{v}})
	}
	if o.Equals != nil {
		out = append(out, policy.Condition{Operator: "ForAllValues:StringEquals", Key: "kms:EncryptionContextKeys", Values: names})
	}
	return out
}

// authorization corrects the service authorization reference.
var authorization = awsapi.Authorization{
	Actions: map[string]string{
		// https://docs.aws.amazon.com/kms/latest/APIReference/API_ReEncrypt.html: also kms:ReEncryptTo, which the service
		// adds
		"ReEncrypt": "ReEncryptFrom",
	},
	Tagging: awsapi.Tagging{
		Action: "TagResource",
		Free:   []string{"CreateKey"}, // the service adds the check itself, with its condition keys
		Source: "https://docs.aws.amazon.com/kms/latest/APIReference/API_CreateKey.html",
	},
	StoredKeys: `bypasspolicylockoutsafetycheck calleraccount customermasterkeyspec customermasterkeyusage datakeypairspec
		encryptionalgorithm encryptioncontext:${encryptioncontextkey} encryptioncontextkeys grantconstraintsourcearn grantconstrainttype
		granteeprincipal granteeserviceprincipal grantisforawsresource grantoperations keyagreementalgorithm keyorigin keyspec keyusage macalgorithm
		messagetype multiregion multiregionkeytype reencryptonsamekey requestalias resourcealiases retiringprincipal
		retiringserviceprincipal rotationperiodindays schedulekeydeletionpendingwindowindays signingalgorithm viaservice`,
}
