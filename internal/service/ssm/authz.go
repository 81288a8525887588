package ssm

import (
	"context"
	"slices"

	"github.com/aws/aws-sdk-go-v2/aws"
	awsssm "github.com/aws/aws-sdk-go-v2/service/ssm"
	ssmtypes "github.com/aws/aws-sdk-go-v2/service/ssm/types"

	"github.com/drydock-dev/drydock/internal/arn"
	"github.com/drydock-dev/drydock/internal/authz"
	"github.com/drydock-dev/drydock/internal/awsapi"
	"github.com/drydock-dev/drydock/internal/awsapi/regional"
)

// Authz provides package authz with the stored attributes of parameters.
func (s *Service) Authz() authz.Resolver { return resolver{s} }

type resolver struct{ s *Service }

// Targets implements authz.Targeter. A command is authorized on each of its instances, so that conditions on tags apply
// to all of them.
func (r resolver) Targets(ctx context.Context, call *awsapi.Call, in any) ([]authz.Target, bool) {
	send, ok := in.(*awsssm.SendCommandInput)
	if !ok {
		return nil, false
	}
	out := []authz.Target{{Type: "document", ID: aws.ToString(send.DocumentName)}}
	for _, id := range send.InstanceIds {
		out = append(out, authz.Target{Type: "instance", ID: id})
	}
	for _, i := range r.s.fleet.Instances(call.Account, call.Region) {
		if len(send.Targets) > 0 && !slices.ContainsFunc(send.Targets, func(t ssmtypes.Target) bool { return !r.s.targeted(&i, &t) }) {
			out = append(out, authz.Target{Type: "instance", ID: i.ID})
		}
	}
	return out, true
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

// Resource implements authz.Resolver. A parameter is identified by NAME, NAME:VERSION or its ARN.
func (r resolver) Resource(_ context.Context, account, region, kind, id string) (authz.Resource, bool) {
	if kind == "session" {
		return r.session(account, region, id)
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
