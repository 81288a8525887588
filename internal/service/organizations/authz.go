package organizations

import (
	"context"
	"strings"

	"github.com/drydock-dev/drydock/internal/authz"
	"github.com/drydock-dev/drydock/internal/awsapi"
	"github.com/drydock-dev/drydock/internal/store"
)

type resolver struct{ s *Service }

// Resource implements authz.Resolver. Resources are identified by their ARNs.
func (r resolver) Resource(_ context.Context, account, _, _, id string) (authz.Resource, bool) {
	if !strings.HasPrefix(id, "arn:") {
		return authz.Resource{}, false
	}
	name := id[strings.LastIndex(id, "/")+1:]
	tags, err := tagged.Get(r.s.store, key(account, name))
	return authz.Resource{ARN: id, Tags: tags}, store.IgnoreNotFound(err) == nil
}

// Targets implements authz.Targeter: ARNs contain the organization's ID, which requests do not.
func (r resolver) Targets(_ context.Context, call *awsapi.Call, in any) ([]authz.Target, bool) {
	o, err := r.s.of(r.s.store, call.Account)
	if err != nil {
		o = &org{organization{ID: "o-none"}, call.Account, call.Account, r.s.store}
	}
	var out []authz.Target
	for _, path := range []string{"PolicyId", "TargetId", "ResourceId", "OrganizationalUnitId", "ParentId", "AccountId", "ChildId", "SourceParentId", "DestinationParentId", "RootId"} {
		id, _ := authz.Named(in, path)
		if id == "" {
			continue
		}
		name := o.arnOf(id)
		kind, _, _ := strings.Cut(strings.SplitN(*name, ":", 6)[5], "/")
		if kind == "ou" {
			kind = "organizationalunit"
		}
		if strings.HasPrefix(*name, "arn:aws:organizations::aws:") {
			kind = "awspolicy"
		}
		out = append(out, authz.Target{Type: kind, ID: *name})
	}
	return out, len(out) > 0
}

// arnOf returns the ARN of a resource by the form of its ID.
func (o *org) arnOf(id string) *string {
	switch {
	case strings.HasPrefix(id, "p-"):
		d, ok := o.policy(id)
		if !ok {
			d = document{ID: id, Type: serviceType}
		}
		name := o.policyARN(d)
		return &name
	case strings.HasPrefix(id, "r-"):
		return o.arn("root", id)
	case strings.HasPrefix(id, "ou-"):
		return o.arn("ou", id)
	}
	return o.arn("account", id)
}

// authorization corrects the service authorization reference.
var authorization = awsapi.Authorization{
	KeyMembers: map[string]string{
		"policytype": "Type|Filter|PolicyType",
	},
}
