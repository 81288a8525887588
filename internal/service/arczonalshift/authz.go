package arczonalshift

import (
	"context"
	"slices"

	"github.com/aws/aws-sdk-go-v2/aws"
	awsshift "github.com/aws/aws-sdk-go-v2/service/arczonalshift"

	"github.com/drydock-dev/drydock/internal/authz"
	"github.com/drydock-dev/drydock/internal/awsapi"
	"github.com/drydock-dev/drydock/internal/awsapi/regional"
)

type resolver struct{ s *Service }

// Resource implements authz.Resolver. A managed resource is identified by its ARN.
func (r resolver) Resource(_ context.Context, account, region, _, id string) (authz.Resource, bool) {
	out := authz.Resource{ARN: id}
	all := r.s.resources(account, region)
	if i := slices.IndexFunc(all, func(m Resource) bool { return m.ARN == id }); i >= 0 {
		out.Tags = all[i].Tags
	}
	return out, true
}

// Targets implements authz.Targeter. Operations on a shift are authorized on its resource. The service authorization
// reference has only load balancers, but policies for clusters name the cluster, as the resource or in the condition
// key: https://docs.aws.amazon.com/r53recovery/latest/dg/security_iam_service-with-iam-zonal-shift.html
func (r resolver) Targets(_ context.Context, call *awsapi.Call, in any) ([]authz.Target, bool) {
	var name *string
	var shift *string
	switch in := in.(type) {
	case *awsshift.GetManagedResourceInput:
		name = in.ResourceIdentifier
	case *awsshift.StartZonalShiftInput:
		name = in.ResourceIdentifier
	case *awsshift.UpdateZonalShiftInput:
		shift = in.ZonalShiftId
	case *awsshift.CancelZonalShiftInput:
		shift = in.ZonalShiftId
	default:
		return nil, false
	}
	if shift != nil {
		if sh, err := shifts.Get(r.s.store, regional.At(call.Account, call.Region).Key(*shift)); err == nil {
			name = &sh.Resource
		}
	}
	return []authz.Target{{Type: "ALB", ID: aws.ToString(name), Keys: map[string][]string{"arc-zonal-shift:resourceidentifier": {aws.ToString(name)}}}}, true
}

// authorization corrects the service authorization reference.
var authorization = awsapi.Authorization{
	StoredKeys: "resourceidentifier",
}
