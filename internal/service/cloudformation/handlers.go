package cloudformation

import (
	"maps"
	"slices"
)

// handlers maps the resource types that stacks may have to their handlers.
var handlers = func() map[string]handler {
	out := map[string]handler{
		// eksctl and CDK use a handle on its own as a resource that does nothing.
		handleType: {create: (*request).newHandle},
		waitCondition: {own: "Count Handle Timeout", create: func(r *request) (string, error) {
			return r.o.arn + "/" + r.token + "/" + r.logical, nil
		}},
		stackTyp:             nestedHandler(),
		"AWS::CDK::Metadata": {create: func(r *request) (string, error) { return r.token, nil }},
	}
	for _, some := range []map[string]handler{
		vpcHandlers(), gatewayHandlers(), routeHandlers(), securityGroupHandlers(), vpcEndpointHandlers(), launchTemplateHandlers(),
		iamHandlers(), eksHandlers(), otherHandlers(),
		instanceHandlers(), networkHandlers(), eventHandlers(), scalingHandlers(), balancerHandlers(), userHandlers(), customHandlers(), s3Handlers(), ecrHandlers(),
	} {
		maps.Copy(out, some)
	}
	return out
}()

// Types returns the types of resources that stacks may have, sorted.
func Types() []string { return slices.Sorted(maps.Keys(handlers)) }
