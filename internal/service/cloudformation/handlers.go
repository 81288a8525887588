package cloudformation

import (
	"maps"
	"slices"
)

// A handler implements one type of resource. Its calls are made as the stack's caller or role.
type handler struct {
	// find returns the ID of the resource if an interrupted call has already created it, and otherwise "". It is nil
	// if creating the resource twice does no harm.
	find func(r *request) (string, error)
	// adopts is true if create succeeds for a resource that already exists.
	adopts bool
	// input is the input of the call that creates the resource. Its members are properties. own lists the properties
	// that the handler converts itself.
	input any
	own   string
	// create creates the resource and returns its physical ID.
	create func(r *request) (string, error)
	// settle completes the resource and waits until it can be used. It runs after creations and updates, and may run
	// more than once.
	settle func(r *request) error
	// inPlace lists the properties that can be changed on an existing resource, or is anyProperty. Changing any other
	// property fails the resource, unless the schema says that the change requires replacement. createOnly says so
	// for types without a schema.
	inPlace, createOnly string
	// update changes an existing resource from the state in r.was to the state in r. It may run again after
	// completing part of its work. It is nil if settle makes all changes.
	update func(r *request) error
	// read returns the attributes for Fn::GetAtt other than the properties.
	read func(r *request) (map[string]any, error)
	// live lists the attributes that other resources change. They are read each time they are requested.
	live string
	// snapshot saves the resource's data before the resource is deleted, if its DeletionPolicy is Snapshot. It is nil for
	// types that do not support snapshots. AWS ignores the policy for them (https://github.com/aws/aws-cdk/pull/20668).
	snapshot func(r *request) error
	// remove deletes the resource and waits until it is gone.
	remove func(r *request) error
}

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
		instanceHandlers(), networkHandlers(), eventHandlers(), scalingHandlers(), balancerHandlers(), userHandlers(), customHandlers(), s3Handlers(), ecrHandlers(), route53Handlers(),
		secretHandlers(), snsHandlers(), acmHandlers(), capacityHandlers(), transitHandlers(), vpnHandlers(),
	} {
		maps.Copy(out, some)
	}
	return out
}()

// Types returns the types of resources that stacks may have, sorted.
func Types() []string { return slices.Sorted(maps.Keys(handlers)) }
