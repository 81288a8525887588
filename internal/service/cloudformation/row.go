package cloudformation

import (
	"errors"
	"fmt"
	"strings"

	"github.com/drydock-dev/drydock/internal/service/cloudformation/template"
)

// made completes a handler whose resource is created by one call. The properties are the
// members of the call's input, except own, which the handler deals with itself. prepare
// sets what the properties do not.
func made[In, Out any](h handler, own string, prepare func(*request, *In), id func(*request, *Out) *string) handler {
	return madeWith(h, own, func(r *request, in *In) error { prepare(r, in); return nil }, id)
}

// madeWith is like made, but prepare can fail.
func madeWith[In, Out any](h handler, own string, prepare func(*request, *In) error, id func(*request, *Out) *string) handler {
	h.input, h.own = new(In), own
	h.create = func(r *request) (string, error) {
		in := new(In)
		if err := r.fill(in, own); err != nil {
			return "", err
		}
		if err := prepare(r, in); err != nil {
			return "", err
		}
		out, err := call[Out](r, in)
		if err != nil {
			return "", err
		}
		return *id(r, out), nil
	}
	return h
}

// again completes a handler whose creating call can also change an existing resource.
func again(inPlace string, h handler) handler {
	create := h.create
	h.inPlace, h.update = inPlace, func(r *request) error { _, err := create(r); return err }
	return h
}

// defaults are the values of properties after an update has removed them. If the default is
// nil, the old value stays.
var defaults = map[string]any{
	"AWS::AutoScaling::AutoScalingGroup.CapacityRebalance": "false", "AWS::AutoScaling::AutoScalingGroup.Cooldown": "300", "AWS::AutoScaling::AutoScalingGroup.DesiredCapacity": nil,
	"AWS::AutoScaling::AutoScalingGroup.HealthCheckGracePeriod": "0", "AWS::AutoScaling::AutoScalingGroup.HealthCheckType": "EC2",
	"AWS::AutoScaling::AutoScalingGroup.NewInstancesProtectedFromScaleIn": "false", "AWS::AutoScaling::AutoScalingGroup.TerminationPolicies": []any{"Default"},
	// If two properties exclude each other, the new one replaces the old one.
	"AWS::AutoScaling::AutoScalingGroup.LaunchConfigurationName": nil, "AWS::AutoScaling::AutoScalingGroup.LaunchTemplate": nil, "AWS::AutoScaling::AutoScalingGroup.MixedInstancesPolicy": nil,
	"AWS::AutoScaling::AutoScalingGroup.AvailabilityZones":           nil,
	"AWS::EC2::CapacityReservation.EndDateType":                      "unlimited",
	"AWS::EC2::CapacityReservation.InstanceMatchCriteria":            "open",
	"AWS::EC2::Volume.VolumeType":                                    "gp2",
	"AWS::EKS::Nodegroup.ReleaseVersion":                             nil,
	"AWS::EKS::Nodegroup.Version":                                    nil,
	"AWS::ElasticLoadBalancingV2::LoadBalancer.Subnets":              nil,
	"AWS::ElasticLoadBalancingV2::LoadBalancer.SubnetMappings":       nil,
	"AWS::ElasticLoadBalancingV2::TargetGroup.HealthCheckPath":       "/",
	"AWS::ElasticLoadBalancingV2::TargetGroup.HealthCheckPort":       "traffic-port",
	"AWS::ElasticLoadBalancingV2::TargetGroup.HealthyThresholdCount": "5", "AWS::ElasticLoadBalancingV2::TargetGroup.UnhealthyThresholdCount": "2",
	"AWS::ElasticLoadBalancingV2::TargetGroup.HealthCheckIntervalSeconds": "30",
	"AWS::IAM::Role.Description":                                          "",
	"AWS::IAM::Role.MaxSessionDuration":                                   "3600",
}

// onlyChanged fills in only those of the properties that an update changes.
func (r *request) onlyChanged(in any, properties ...string) error {
	m := &template.Map{}
	for _, p := range properties {
		value, known := defaults[r.typ+"."+p]
		switch {
		case !r.changed(p):
		case r.props.Has(p):
			m.Set(p, r.props.Get(p))
		case !known:
			return r.notHonoured(p + ", which an update takes away,")
		case value != nil:
			m.Set(p, value)
		}
	}
	return r.fillWith(in, m, nil, "")
}

// one returns a step of a handler that makes one call and ignores its output.
func one[Out any](in func(*request) any) func(*request) error {
	return func(r *request) error {
		_, err := call[Out](r, in(r))
		return err
	}
}

// idAs returns a function that returns the resource's ID as the value of every attribute.
func idAs(names ...string) func(*request) (map[string]any, error) {
	return func(r *request) (map[string]any, error) {
		out := map[string]any{}
		for _, n := range names {
			out[n] = r.id
		}
		return out, nil
	}
}

// each calls do for every element of a list property, with an SDK value filled in from that element.
func each[T any](r *request, property, other string, do func(*T, *template.Map) error) error {
	list, ok := r.props.Get(property).([]any)
	if !ok && r.props.Has(property) {
		list = []any{r.props.Get(property)}
	}
	for _, e := range list {
		m, ok := e.(*template.Map)
		if !ok {
			return r.wrongType(property, "List of Map")
		}
		v := new(T)
		if err := r.fillWith(v, m, strings.Fields(other), property+"."); err != nil {
			return err
		}
		if err := do(v, m); err != nil {
			return err
		}
	}
	return nil
}

// until waits until state returns the good state, and fails if it returns a bad one.
func (r *request) until(state func() (string, error), good string, bad ...string) error {
	return r.wait(func() (bool, error) {
		now, err := state()
		for _, b := range bad {
			if err == nil && now == b {
				err = fmt.Errorf("%s is in state %s and hence failed to stabilize", r.id, now)
			}
		}
		return now == good, err
	})
}

// untilNotFound waits until describe fails because the resource does not exist.
func (r *request) untilNotFound(describe func() error) error {
	return r.wait(func() (bool, error) {
		err := describe()
		if notFound(err) {
			return true, nil
		}
		return false, err
	})
}

// rename returns a copy of a map property with other names for some members. names has
// pairs of an old and a new name.
func rename(m *template.Map, names ...string) *template.Map {
	out := &template.Map{}
	for _, k := range m.Keys() {
		v := m.Get(k)
		for i := 0; i+1 < len(names); i += 2 {
			if k == names[i] {
				k = names[i+1]
			}
		}
		out.Set(k, v)
	}
	return out
}

var errNone = errors.New("the service returned nothing")

// first returns the only element of a description, or errNone if it is empty.
func first[T any](list []T) (T, error) {
	if len(list) == 0 {
		var none T
		return none, errNone
	}
	return list[0], nil
}
