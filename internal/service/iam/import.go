package iam

import (
	"fmt"
	"net/url"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	awsiam "github.com/aws/aws-sdk-go-v2/service/iam"
	iamtypes "github.com/aws/aws-sdk-go-v2/service/iam/types"

	"github.com/drydock-dev/drydock/internal/arn"
	"github.com/drydock-dev/drydock/internal/catalog/managedpolicies"
	"github.com/drydock-dev/drydock/internal/module"
	"github.com/drydock-dev/drydock/internal/policy"
	"github.com/drydock-dev/drydock/internal/store"
	"github.com/drydock-dev/drydock/internal/twin/entities"
	"github.com/drydock-dev/drydock/internal/twin/recording"
)

// An importer converts what another account's IAM answered (package twin). Names, paths and unique IDs stay as they
// are. Access keys, passwords and MFA devices are not read, so it is not possible to sign in to a twin as one of its users.
type importer struct {
	account string
	writes  []module.Write
	gaps    []recording.Gap
	// ids are the unique IDs of users and roles by ARN.
	ids map[string]string
}

// importRecords returns the writes for a recording, and the policies that this IAM cannot evaluate.
func importRecords(r *recording.Recording) ([]module.Write, []recording.Gap, error) {
	im := &importer{account: r.Source.Account, ids: map[string]string{}}
	im.writes = append(im.writes, module.Put(accounts, store.Key{Account: im.account, ID: accountID}, account{Created: r.Source.Started}))
	all, err := entities.Of(r)
	if err != nil {
		return nil, nil, err
	}
	for _, u := range all.Users {
		im.ids[aws.ToString(u.Arn)] = aws.ToString(u.UserId)
	}
	for _, r := range all.Roles {
		im.ids[aws.ToString(r.Arn)] = aws.ToString(r.RoleId)
	}
	im.gaps = all.Gaps
	if err := im.entities(all); err != nil {
		return nil, nil, fmt.Errorf("the source's answers of IAM: %w", err)
	}
	oidc, err := recording.Pages[awsiam.GetOpenIDConnectProviderInput, awsiam.GetOpenIDConnectProviderOutput](r, "iam", "GetOpenIDConnectProvider")
	if err != nil {
		return nil, nil, err
	}
	for _, page := range oidc {
		p := page.Output
		rec := oidcProvider{
			URL: strings.TrimPrefix(aws.ToString(p.Url), "https://"), ClientIDs: p.ClientIDList, Thumbprints: p.ThumbprintList, Created: aws.ToTime(p.CreateDate), Tags: importTags(p.Tags),
		}
		im.writes = append(im.writes, module.Put(providers, store.Key{Account: im.account, ID: rec.URL}, rec))
	}
	return im.writes, im.gaps, nil
}

func (im *importer) entities(all *entities.Entities) error {
	for _, u := range all.Users {
		id, err := im.identity(u.Arn, u.UserName, u.Path, u.UserId, u.UserPolicyList, u.AttachedManagedPolicies, u.PermissionsBoundary, u.Tags)
		if err != nil {
			return err
		}
		id.Created = aws.ToTime(u.CreateDate)
		im.writes = append(im.writes, module.Put(users, nameKey(im.account, id.Name), user{identity: id, Groups: u.GroupList}))
	}
	for _, g := range all.Groups {
		id, err := im.identity(g.Arn, g.GroupName, g.Path, g.GroupId, g.GroupPolicyList, g.AttachedManagedPolicies, nil, nil)
		if err != nil {
			return err
		}
		id.Created = aws.ToTime(g.CreateDate)
		im.writes = append(im.writes, module.Put(groups, nameKey(im.account, id.Name), group{id}))
	}
	for _, r := range all.Roles {
		if err := im.role(&r); err != nil {
			return err
		}
	}
	for _, p := range all.Policies {
		if err := im.policy(&p); err != nil {
			return err
		}
	}
	return nil
}

func (im *importer) role(r *iamtypes.RoleDetail) error {
	id, err := im.identity(r.Arn, r.RoleName, r.Path, r.RoleId, r.RolePolicyList, r.AttachedManagedPolicies, r.PermissionsBoundary, r.Tags)
	if err != nil {
		return err
	}
	id.Created = aws.ToTime(r.CreateDate)
	rec := role{identity: id, MaxSession: 3600} // the details do not have the maximum; this is the default
	if rec.Trust, err = im.document(policy.Trust, r.AssumeRolePolicyDocument, aws.ToString(r.Arn), "the trust policy of "+aws.ToString(r.Arn)); err != nil {
		return err
	}
	if doc, err := policy.Parse(policy.Trust, rec.Trust); err == nil {
		for _, st := range doc.Statements {
			for _, ps := range []*policy.Principals{st.Principals, st.NotPrincipals} {
				if ps == nil {
					continue
				}
				for _, name := range ps.AWS {
					if known := im.ids[name]; known != "" {
						if rec.Trusted == nil {
							rec.Trusted = map[string]string{}
						}
						rec.Trusted[name] = known
					}
				}
			}
		}
	}
	if service, ok := strings.CutPrefix(id.Path, "/aws-service-role/"); ok {
		rec.ServiceLinked = strings.TrimSuffix(service, "/")
	}
	im.writes = append(im.writes, module.Put(roles, nameKey(im.account, id.Name), rec))
	for _, p := range r.InstanceProfileList {
		rec := instanceProfile{Name: aws.ToString(p.InstanceProfileName), Path: pathOr(p.Path), ID: aws.ToString(p.InstanceProfileId), Created: aws.ToTime(p.CreateDate), Role: id.Name, Tags: importTags(p.Tags)}
		if err := im.checkARN(p.Arn, rec.arn(im.account)); err != nil {
			return err
		}
		im.writes = append(im.writes, module.Put(profiles, nameKey(im.account, rec.Name), rec))
	}
	return nil
}

func (im *importer) identity(entityARN, name, path, id *string, inline []iamtypes.PolicyDetail, attached []iamtypes.AttachedPolicy, boundary *iamtypes.AttachedPermissionsBoundary, tags []iamtypes.Tag) (identity, error) {
	out := identity{Name: aws.ToString(name), Path: pathOr(path), ID: aws.ToString(id), Tags: importTags(tags)}
	if a, err := arn.Parse(aws.ToString(entityARN)); err != nil || a.Account != im.account || out.Name == "" || !strings.HasSuffix(a.Resource, out.Path+out.Name) {
		return out, fmt.Errorf("%q is not the ARN of %q in account %s", aws.ToString(entityARN), out.Path+out.Name, im.account)
	}
	for _, p := range inline {
		text, err := im.document(policy.Identity, p.PolicyDocument, aws.ToString(entityARN), "policy "+aws.ToString(p.PolicyName)+" of "+aws.ToString(entityARN))
		if err != nil {
			return out, err
		}
		if out.Inline == nil {
			out.Inline = map[string]string{}
		}
		out.Inline[aws.ToString(p.PolicyName)] = text
	}
	for _, p := range attached {
		out.Attached = append(out.Attached, aws.ToString(p.PolicyArn))
		im.ofAWS(aws.ToString(p.PolicyArn), aws.ToString(entityARN))
	}
	if boundary != nil {
		out.Boundary = aws.ToString(boundary.PermissionsBoundaryArn)
		im.ofAWS(out.Boundary, aws.ToString(entityARN))
	}
	return out, nil
}

// ofAWS adds a gap for a policy of AWS that is not in the catalogue, from which AWS's policies are read.
func (im *importer) ofAWS(policyARN, owner string) {
	if !strings.HasPrefix(policyARN, "arn:aws:iam::aws:") {
		return
	}
	if _, ok := managedpolicies.Get(policyARN); !ok {
		im.gap(owner, policyARN+", a policy of "+owner+", is not in Drydock's catalogue")
	}
}

func (im *importer) gap(subject, message string) {
	im.gaps = append(im.gaps, recording.Gap{Service: "iam", Operation: "GetAccountAuthorizationDetails", Subject: subject, Code: recording.NotModelled, Message: message})
}

func (im *importer) policy(p *iamtypes.ManagedPolicyDetail) error {
	if strings.HasPrefix(aws.ToString(p.Arn), "arn:aws:iam::aws:") {
		return nil // the catalogue's
	}
	rec := managedPolicy{
		Name: aws.ToString(p.PolicyName), Path: pathOr(p.Path), ID: aws.ToString(p.PolicyId), Description: aws.ToString(p.Description), Created: aws.ToTime(p.CreateDate),
		Updated: aws.ToTime(p.UpdateDate), Default: aws.ToString(p.DefaultVersionId),
	}
	if err := im.checkARN(p.Arn, rec.arn(im.account)); err != nil {
		return err
	}
	for i := len(p.PolicyVersionList) - 1; i >= 0; i-- { // newest first
		v := p.PolicyVersionList[i]
		text, err := im.document(policy.Identity, v.Document, aws.ToString(p.Arn), aws.ToString(p.Arn)+" "+aws.ToString(v.VersionId))
		if err != nil {
			return err
		}
		rec.Versions = append(rec.Versions, policyVersion{ID: aws.ToString(v.VersionId), Document: text, Created: aws.ToTime(v.CreateDate)})
		var n int
		if _, err := fmt.Sscanf(aws.ToString(v.VersionId), "v%d", &n); err == nil {
			rec.LastVersion = max(rec.LastVersion, n)
		}
	}
	im.writes = append(im.writes, module.Put(policies, nameKey(im.account, rec.Name), rec))
	return nil
}

func (im *importer) checkARN(got *string, want string) error {
	if aws.ToString(got) != want {
		return fmt.Errorf("%q is not in account %s: want %s", aws.ToString(got), im.account, want)
	}
	return nil
}

// document decodes a document, which IAM's answers have as a URL's part. A document that cannot be evaluated is a gap
// about its owner.
func (im *importer) document(kind policy.Kind, escaped *string, owner, what string) (string, error) {
	text, err := url.PathUnescape(aws.ToString(escaped))
	if err != nil {
		return "", fmt.Errorf("%s: %w", what, err)
	}
	if _, err := policy.Parse(kind, text); err != nil {
		im.gap(owner, "Drydock cannot evaluate "+what+": "+err.Error())
	}
	return text, nil
}

func importTags(in []iamtypes.Tag) []tag {
	var out []tag
	for _, t := range in {
		out = append(out, tag{aws.ToString(t.Key), aws.ToString(t.Value)})
	}
	return out
}
