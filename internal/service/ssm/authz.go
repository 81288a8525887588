package ssm

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	awsssm "github.com/aws/aws-sdk-go-v2/service/ssm"
	ssmtypes "github.com/aws/aws-sdk-go-v2/service/ssm/types"

	"github.com/drydock-dev/drydock/internal/arn"
	"github.com/drydock-dev/drydock/internal/authz"
	"github.com/drydock-dev/drydock/internal/awsapi"
	"github.com/drydock-dev/drydock/internal/awsapi/regional"
	"github.com/drydock-dev/drydock/internal/service/ssm/document"
)

// Authz provides package authz with the stored attributes of parameters.
func (s *Service) Authz() authz.Resolver { return resolver{s} }

type resolver struct{ s *Service }

// Targets implements authz.Targeter. A command is authorized on each of its instances, so that conditions on tags apply
// to all of them.
func (r resolver) Targets(ctx context.Context, call *awsapi.Call, in any) ([]authz.Target, bool) {
	switch in := in.(type) {
	case *awsssm.SendCommandInput:
		d, err := r.s.document(scopeOf(awsapi.WithCall(ctx, call)), aws.ToString(in.DocumentName), aws.ToString(in.DocumentVersion), "")
		out := append(r.command(call, in), referenced(d, err, in.Parameters)...)
		if role := aws.ToString(in.ServiceRoleArn); role != "" {
			out = append(out, passed(role))
		}
		return out, true
	case *awsssm.StartSessionInput:
		ctx := awsapi.WithCall(ctx, call)
		d, err := r.s.sessionDocument(scopeOf(ctx), aws.ToString(in.DocumentName))
		return append(r.start(ctx, call, in), referenced(d, err, in.Parameters)...), true
	case *awsssm.UpdateServiceSettingInput:
		out := []authz.Target{{Type: "servicesetting", ID: aws.ToString(in.SettingId)}}
		if role := roleOf(call.Account, aws.ToString(in.SettingValue)); role != "" && strings.HasSuffix(aws.ToString(in.SettingId), hostRole) {
			out = append(out, passed(role))
		}
		return out, true
	case *awsssm.CreateAssociationInput:
		d, err := r.s.document(scopeOf(awsapi.WithCall(ctx, call)), aws.ToString(in.Name), aws.ToString(in.DocumentVersion), "")
		tags := map[string]string{}
		for _, t := range in.Tags {
			tags[aws.ToString(t.Key)] = aws.ToString(t.Value)
		}
		out := []authz.Target{{Type: "association", New: true, Tags: tags, TagKeys: slices.Collect(maps.Keys(tags))}, {Type: "document", ID: aws.ToString(in.Name)}}
		return append(append(out, named(in.InstanceId, in.Targets)...), referenced(d, err, in.Parameters)...), true
	case *awsssm.PutInventoryInput:
		var types []string
		for _, i := range in.Items {
			types = append(types, aws.ToString(i.TypeName))
		}
		return []authz.Target{{Keys: map[string][]string{"ssm:inventorytypename": types}}}, true
	case *awsssm.UpdateAssociationInput:
		out := []authz.Target{{Type: "association", ID: aws.ToString(in.AssociationId)}}
		ctx := awsapi.WithCall(ctx, call)
		a, err := r.s.association(scopeOf(ctx), in.AssociationId, nil, nil)
		if err != nil {
			return out, true
		}
		name := cmp.Or(aws.ToString(in.Name), a.Document)
		d, err := r.s.document(scopeOf(ctx), name, aws.ToString(in.DocumentVersion), "")
		out = append(append(out, authz.Target{Type: "document", ID: name}), named(nil, in.Targets)...)
		return append(out, referenced(d, err, in.Parameters)...), true
	case *awsssm.AddTagsToResourceInput:
		kind, known := taggedKind(in.ResourceType)
		target := authz.Target{Type: kind, ID: aws.ToString(in.ResourceId), Tags: map[string]string{}}
		for _, t := range in.Tags {
			target.Tags[aws.ToString(t.Key)] = aws.ToString(t.Value)
			target.TagKeys = append(target.TagKeys, aws.ToString(t.Key))
		}
		return []authz.Target{target}, known
	case *awsssm.RemoveTagsFromResourceInput:
		kind, known := taggedKind(in.ResourceType)
		return []authz.Target{{Type: kind, ID: aws.ToString(in.ResourceId), TagKeys: in.TagKeys}}, known
	case *awsssm.ListTagsForResourceInput:
		kind, known := taggedKind(in.ResourceType)
		return []authz.Target{{Type: kind, ID: aws.ToString(in.ResourceId)}}, known
	}
	return nil, false
}

// passed is the permission to pass a role to the service.
func passed(roleARN string) authz.Target {
	return authz.Target{Action: "iam:PassRole", Type: "role", ID: roleARN, Keys: map[string][]string{"iam:passedtoservice": {servicePrincipal}}}
}

// taggedKind returns the resource type of documents and associations in requests about tags. It returns false for
// parameters, which are the usual type.
func taggedKind(t ssmtypes.ResourceTypeForTagging) (string, bool) {
	switch t {
	case ssmtypes.ResourceTypeForTaggingDocument:
		return "document", true
	case ssmtypes.ResourceTypeForTaggingAssociation:
		return "association", true
	}
	return "", false
}

// named returns the instances that a request about an association names by their IDs.
func named(instance *string, targets []ssmtypes.Target) (out []authz.Target) {
	if instance != nil {
		out = append(out, authz.Target{Type: "instance", ID: *instance})
	}
	for _, t := range targets {
		if !strings.EqualFold(aws.ToString(t.Key), "InstanceIds") {
			continue
		}
		for _, id := range t.Values {
			if id == "*" {
				id = ""
			}
			out = append(out, authz.Target{Type: "instance", ID: id})
		}
	}
	return out
}

func (r resolver) command(call *awsapi.Call, send *awsssm.SendCommandInput) []authz.Target {
	out := []authz.Target{{Type: "document", ID: aws.ToString(send.DocumentName)}}
	for _, id := range send.InstanceIds {
		out = append(out, authz.Target{Type: "instance", ID: id})
	}
	for _, i := range r.s.fleet.Instances(call.Account, call.Region) {
		if len(send.Targets) > 0 && !slices.ContainsFunc(send.Targets, func(t ssmtypes.Target) bool { return !r.s.targeted(&i, &t) }) {
			out = append(out, authz.Target{Type: "instance", ID: i.ID})
		}
	}
	return out
}

// accessCheck is the condition key ssm:SessionDocumentAccessCheck.
const accessCheck = "ssm:sessiondocumentaccesscheck"

// start returns the targets of StartSession: the instance, and the document if the request names one. If policies allow the
// instance only with ssm:SessionDocumentAccessCheck, the default document is a target too.
// https://docs.aws.amazon.com/systems-manager/latest/userguide/getting-started-sessiondocumentaccesscheck.html
func (r resolver) start(ctx context.Context, call *awsapi.Call, in *awsssm.StartSessionInput) []authz.Target {
	id, name := aws.ToString(in.Target), aws.ToString(in.DocumentName)
	on := func(checked string) authz.Target {
		return authz.Target{Type: "instance", ID: id, Keys: map[string][]string{accessCheck: {checked}}}
	}
	as := authz.Resource{ARN: arn.New("ec2", call.Region, call.Account, "instance/"+id), Tags: r.s.fleet.Tags(call.Account, call.Region, id)}
	asks := func(checked string) bool {
		t := on(checked)
		t.Action = "ssm:StartSession"
		return r.s.allowed == nil || r.s.allowed(ctx, t, as)
	}
	if name == "" {
		if asks("false") || !asks("true") {
			return []authz.Target{on("false")}
		}
		name = document.Shell
	}
	return []authz.Target{on("true"), {Type: "document", ID: name, Keys: map[string][]string{accessCheck: {"true"}}}}
}

// session returns a session's ARN, and the condition keys for its caller and target.
func (r resolver) session(account, region, id string) (authz.Resource, bool) {
	rec, err := sessions.Get(r.s.store, regional.At(account, region).Key(id))
	if err != nil {
		return authz.Resource{}, false
	}
	return authz.Resource{
		ARN:  arn.New("ssm", region, account, "session/"+id),
		Keys: map[string][]string{"ssm:resourcetag/aws:ssmmessages:session-id": {rec.UserID}, "ssm:resourcetag/aws:ssmmessages:target-id": {rec.Target}},
	}, true
}

// document returns a document's ARN and tags.
func (r resolver) document(account, region, id string) (authz.Resource, bool) {
	d, err := r.s.document(scope{regional.At(account, region)}, id, "", "")
	if err != nil {
		return authz.Resource{}, false
	}
	return authz.Resource{ARN: d.arn, Tags: d.rec.Tags, Keys: map[string][]string{"ssm:documenttype": {d.rec.Type}, "ssm:documentcategories": nil}}, true
}

// Resource implements authz.Resolver. A parameter is identified by NAME, NAME:VERSION or its ARN, and a document by its
// name or its ARN.
func (r resolver) Resource(_ context.Context, account, region, kind, id string) (authz.Resource, bool) {
	switch kind {
	case "session":
		return r.session(account, region, id)
	case "document":
		return r.document(account, region, id)
	case "association":
		sc := scope{regional.At(account, region)}
		a, err := associations.Get(r.s.store, sc.Key(id))
		return authz.Resource{ARN: associationARN(sc, id), Tags: a.Tags}, err == nil
	}
	if kind != "parameter" {
		return authz.Resource{}, false
	}
	p, _, err := r.s.find(scope{regional.At(account, region)}, id)
	if err != nil {
		return authz.Resource{}, false
	}
	return authz.Resource{ARN: scope{regional.At(account, region)}.arn(p.Name), Tags: p.Tags}, true
}

// authorization corrects the service authorization reference.
var authorization = awsapi.Authorization{
	Targets: map[string]awsapi.Targets{
		// A parameter is identified by its name or its ARN, and a list of paths by its path.
		"GetParametersByPath":                   {Resources: "parameter=Path", Source: "SAR, https://docs.aws.amazon.com/systems-manager/latest/userguide/sysman-paramstore-access.html"},
		"AddTagsToResource":                     {Resources: "parameter=ResourceId", Source: "SAR: of ResourceType Parameter; the service knows those of documents"},
		"RemoveTagsFromResource":                {Resources: "parameter=ResourceId", Source: "SAR, as above"},
		"ListTagsForResource":                   {Resources: "parameter=ResourceId", Source: "SAR, as above"},
		"GetParameter":                          {Resources: "parameter=Name", Source: "SAR"},
		"GetParameters":                         {Resources: "parameter=Names", Source: "SAR"},
		"GetParameterHistory":                   {Resources: "parameter=Name", Source: "SAR"},
		"DescribeParameters":                    {Source: "SAR: no resource"},
		"CreateDocument":                        {Resources: "document=Name", Source: "SAR"},
		"GetServiceSetting":                     {Resources: "servicesetting=SettingId", Source: "SAR"},
		"UpdateServiceSetting":                  {Resources: "servicesetting=SettingId", Source: "SAR; the service adds the role that it passes"},
		"ResetServiceSetting":                   {Resources: "servicesetting=SettingId", Source: "SAR"},
		"ListDocuments":                         {Source: "SAR: no resource"},
		"ResumeSession":                         {Resources: "session=SessionId", Source: "SAR"},
		"TerminateSession":                      {Resources: "session=SessionId", Source: "SAR"},
		"GetConnectionStatus":                   {Resources: "instance=Target", Source: "SAR"},
		"DescribeSessions":                      {Source: "SAR: no resource"},
		"DescribeInstanceInformation":           {Source: "SAR: no resource"},
		"ListAssociations":                      {Source: "SAR: no resource"},
		"PutInventory":                          {Source: "SAR: no resource; the service knows ssm:InventoryTypeName"},
		"ListInventoryEntries":                  {Source: "SAR: no resource"},
		"GetInventory":                          {Source: "SAR: no resource"},
		"GetInventorySchema":                    {Source: "SAR: no resource"},
		"DeleteInventory":                       {Source: "SAR: no resource"},
		"StartAssociationsOnce":                 {Resources: "association=AssociationIds", Source: "SAR"},
		"DescribeAssociation":                   {Resources: "association?=AssociationId document?=Name instance?=InstanceId", Source: "SAR"},
		"DeleteAssociation":                     {Resources: "association?=AssociationId document?=Name instance?=InstanceId", Source: "SAR"},
		"DescribeInstanceAssociationsStatus":    {Resources: "instance=InstanceId", Source: "SAR"},
		"DescribeEffectiveInstanceAssociations": {Resources: "instance=InstanceId", Source: "SAR"},
	},
	Members: map[string]string{
		"DocumentName":                     "Name DocumentName",
		"ParameterNameWithoutLeadingSlash": "Name Names",
	},
	Owners: map[string]string{"instance": "ec2"},
	ARNs: map[string]func(string) string{
		// A path and the leading slash of a name become one slash.
		"parameter": func(arn string) string {
			return publicParameter(strings.Replace(arn, ":parameter//", ":parameter/", 1))
		},
		"servicesetting": func(arn string) string { return strings.Replace(arn, ":servicesetting//", ":servicesetting/", 1) },
	},
	Tagging:    awsapi.Tagging{Action: "AddTagsToResource", Source: "https://docs.aws.amazon.com/systems-manager/latest/APIReference/API_PutParameter.html"},
	StoredKeys: "documentcategories documenttype inventorytypename sessiondocumentaccesscheck resourcetag/aws:ssmmessages:session-id resourcetag/aws:ssmmessages:target-id",
	AbsentKeys: "accessrequestid",
}

// publicParameter removes the account from the ARN of a parameter that AWS publishes.
// https://docs.aws.amazon.com/systems-manager/latest/userguide/parameter-store-public-parameters.html
func publicParameter(arn string) string {
	f := strings.SplitN(arn, ":", 6)
	if len(f) == 6 && strings.HasPrefix(f[5], "parameter/aws/") {
		f[4] = ""
		return strings.Join(f, ":")
	}
	return arn
}
