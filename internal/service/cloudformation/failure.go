package cloudformation

import (
	"context"
	"errors"

	"github.com/aws/aws-sdk-go-v2/aws"

	"github.com/drydock-dev/drydock/internal/awsapi"
)

// A failure is the error of the work on a resource, with the evidence for `drydock why`.
type failure struct {
	error
	failureRecord
}

func (f *failure) Unwrap() error { return f.error }

// failureOf returns what is known about an error besides its text, or nil.
func failureOf(err error) *failureRecord {
	if f, ok := errors.AsType[*failure](err); ok {
		return &f.failureRecord
	}
	return nil
}

// because records the error with which the work on a resource ended, or nil if it succeeded.
func (rec *resourceRecord) because(err error) {
	rec.Reason, rec.Failure = "", failureOf(err)
	if err != nil {
		rec.Reason = err.Error()
	}
}

// callsOf returns the refused calls in an error, the innermost first.
func callsOf(err error) (out []callRecord) {
	for {
		refused, ok := errors.AsType[*awsapi.CallError](err)
		if !ok {
			return out
		}
		out = append([]callRecord{{refused.RequestID, refused.Service, refused.Operation}}, out...)
		err = refused.Err
	}
}

// withInstances adds a resource's instances to the error of the work on it.
func (o *operation) withInstances(ctx context.Context, id string, err error) error {
	rec, _ := o.resource(id)
	if rec.PhysicalID == "" {
		return err
	}
	r := o.request(o.asItself(context.WithoutCancel(ctx)), &rec, &rec.resourceState)
	instances := r.instances()
	if len(instances) == 0 {
		return err
	}
	out := &failure{error: err}
	if known := failureOf(err); known != nil {
		out.failureRecord = *known
	}
	out.Instances = instances
	return out
}

// instances returns the IDs of the instances that an instance, an Auto Scaling group or a node group has, as far as they
// are known.
func (r *request) instances() (out []string) {
	var groups []string
	switch r.typ {
	case "AWS::EC2::Instance":
		return []string{r.id}
	case scalingGroup:
		groups = append(groups, r.id)
	case "AWS::EKS::Nodegroup":
		n, err := r.nodegroup(r.parts("/"))
		if err != nil || n.Resources == nil {
			return nil
		}
		for _, g := range n.Resources.AutoScalingGroups {
			groups = append(groups, aws.ToString(g.Name))
		}
	}
	for _, name := range groups {
		g, err := r.group(name)
		if err != nil || g == nil {
			continue
		}
		for _, i := range g.Instances {
			out = append(out, aws.ToString(i.InstanceId))
		}
	}
	return out
}
