package elbv2

import (
	"context"
	"maps"
	"slices"
	"strconv"
	"strings"

	awselbv2 "github.com/aws/aws-sdk-go-v2/service/elasticloadbalancingv2"
	elbv2types "github.com/aws/aws-sdk-go-v2/service/elasticloadbalancingv2/types"

	"github.com/drydock-dev/drydock/internal/store"
)

const (
	deletionProtection = "deletion_protection.enabled"
	crossZone          = "load_balancing.cross_zone.enabled"
)

// An attribute is a setting of a load balancer, target group or listener. Some are stored and
// described but have no effect: docs/running.md lists them.
type attribute struct {
	key   string
	value string // default value
	// valid defines valid values: if empty, any value; MIN-MAX, a number; otherwise, one of these
	// words.
	valid string
}

const boolean = "true false"

// https://docs.aws.amazon.com/elasticloadbalancing/latest/APIReference/API_LoadBalancerAttribute.html
var (
	commonAttributes = []attribute{
		{"access_logs.s3.enabled", "false", boolean},
		{"access_logs.s3.bucket", "", ""},
		{"access_logs.s3.prefix", "", ""},
		{deletionProtection, "false", boolean},
		{"ipv6.deny_all_igw_traffic", "false", boolean},
		{"zonal_shift.config.enabled", "false", boolean},
	}
	applicationAttributes = append([]attribute{
		{crossZone, "true", "true"},
		{"idle_timeout.timeout_seconds", "60", "1-4000"},
		{"client_keep_alive.seconds", "3600", "60-604800"},
		{"connection_logs.s3.enabled", "false", boolean},
		{"connection_logs.s3.bucket", "", ""},
		{"connection_logs.s3.prefix", "", ""},
		{"health_check_logs.s3.enabled", "false", boolean},
		{"health_check_logs.s3.bucket", "", ""},
		{"health_check_logs.s3.prefix", "", ""},
		{"routing.http.desync_mitigation_mode", "defensive", "monitor defensive strictest"},
		{"routing.http.drop_invalid_header_fields.enabled", "false", boolean},
		{"routing.http.preserve_host_header.enabled", "false", boolean},
		{"routing.http.x_amzn_tls_version_and_cipher_suite.enabled", "false", boolean},
		{"routing.http.xff_client_port.enabled", "false", boolean},
		{"routing.http.xff_header_processing.mode", "append", "append preserve remove"},
		{"routing.http2.enabled", "true", boolean},
		{"waf.fail_open.enabled", "false", boolean},
	}, commonAttributes...)
	networkAttributes = append([]attribute{
		{crossZone, "false", boolean},
		{"dns_record.client_routing_policy", "any_availability_zone", "availability_zone_affinity partial_availability_zone_affinity any_availability_zone"},
		{"secondary_ips.auto_assigned.per_subnet", "0", "0-7"},
	}, commonAttributes...)

	// https://docs.aws.amazon.com/elasticloadbalancing/latest/APIReference/API_TargetGroupAttribute.html
	commonGroupAttributes = []attribute{
		{"deregistration_delay.timeout_seconds", "300", "0-3600"},
		{"stickiness.enabled", "false", boolean},
		{crossZone, "use_load_balancer_configuration", "true false use_load_balancer_configuration"},
		{"target_group_health.dns_failover.minimum_healthy_targets.count", "1", ""},
		{"target_group_health.dns_failover.minimum_healthy_targets.percentage", "off", ""},
		{"target_group_health.unhealthy_state_routing.minimum_healthy_targets.count", "1", ""},
		{"target_group_health.unhealthy_state_routing.minimum_healthy_targets.percentage", "off", ""},
	}
	applicationGroupAttributes = append([]attribute{
		{"load_balancing.algorithm.type", "round_robin", "round_robin least_outstanding_requests weighted_random"},
		{"load_balancing.algorithm.anomaly_mitigation", "off", "on off"},
		{"slow_start.duration_seconds", "0", ""},
		{"stickiness.type", "lb_cookie", "lb_cookie app_cookie"},
		{"stickiness.app_cookie.cookie_name", "", ""},
		{"stickiness.app_cookie.duration_seconds", "86400", "1-604800"},
		{"stickiness.lb_cookie.duration_seconds", "86400", "1-604800"},
	}, commonGroupAttributes...)
	networkGroupAttributes = append([]attribute{
		{"deregistration_delay.connection_termination.enabled", "false", boolean},
		{"preserve_client_ip.enabled", "true", boolean},
		{"proxy_protocol_v2.enabled", "false", boolean},
		{"stickiness.type", "source_ip", "source_ip"},
		{"target_health_state.unhealthy.connection_termination.enabled", "true", boolean},
		{"target_health_state.unhealthy.draining_interval_seconds", "0", "0-360000"},
	}, commonGroupAttributes...)

	stickinessTypes = []string{"lb_cookie", "app_cookie", "source_ip"}

	// https://docs.aws.amazon.com/elasticloadbalancing/latest/APIReference/API_ListenerAttribute.html
	networkListenerAttributes     = []attribute{{"tcp.idle_timeout.seconds", "350", "60-6000"}}
	applicationListenerAttributes = []attribute{
		{"routing.http.response.server.enabled", "true", boolean},
		{"routing.http.response.strict_transport_security.header_value", "", ""},
		{"routing.http.response.access_control_allow_origin.header_value", "", ""},
		{"routing.http.response.access_control_allow_methods.header_value", "", ""},
		{"routing.http.response.access_control_allow_headers.header_value", "", ""},
		{"routing.http.response.access_control_allow_credentials.header_value", "", ""},
		{"routing.http.response.access_control_expose_headers.header_value", "", ""},
		{"routing.http.response.access_control_max_age.header_value", "", ""},
		{"routing.http.response.content_security_policy.header_value", "", ""},
		{"routing.http.response.x_content_type_options.header_value", "", ""},
		{"routing.http.response.x_frame_options.header_value", "", ""},
	}
)

// check reports whether a value is valid.
func (a *attribute) check(value string) bool {
	if a.valid == "" {
		return len(value) <= 1024
	}
	lowest, highest, ok := strings.Cut(a.valid, "-")
	if !ok || strings.Contains(a.valid, " ") {
		return slices.Contains(strings.Fields(a.valid), value)
	}
	n, err := strconv.Atoi(value)
	from, _ := strconv.Atoi(lowest)
	to, _ := strconv.Atoi(highest)
	return err == nil && n >= from && n <= to
}

// A setting is an attribute's key and value.
type setting struct{ key, value string }

// requested converts the attributes in a request from any SDK type.
func requested[T any](in []T, split func(T) (key, value *string)) []setting {
	out := make([]setting, 0, len(in))
	for _, a := range in {
		k, v := split(a)
		out = append(out, setting{text(k), text(v)})
	}
	return out
}

// list returns all attributes and their values as an SDK type.
func list[T any](known []attribute, changed map[string]string, attribute func(key, value *string) T) []T {
	out := []T{}
	for _, s := range values(known, changed) {
		out = append(out, attribute(&s.key, &s.value))
	}
	return out
}

// set returns changed with the settings of a request applied. unknown returns the error for an
// unknown key.
func set(known []attribute, changed map[string]string, request []setting, unknown func(key string) error) (map[string]string, error) {
	out := maps.Clone(changed)
	if out == nil {
		out = map[string]string{}
	}
	seen := map[string]bool{}
	for _, r := range request {
		i := slices.IndexFunc(known, func(a attribute) bool { return a.key == r.key })
		switch {
		case i < 0:
			return nil, unknown(r.key)
		case seen[r.key]:
			return nil, errAttributeTwice(r.key)
		case !known[i].check(r.value):
			return nil, errAttributeValue(r.key, r.value)
		}
		seen[r.key] = true
		out[r.key] = r.value
	}
	return out, nil
}

// values returns all attributes and their values, sorted by key.
func values(known []attribute, changed map[string]string) []setting {
	out := make([]setting, 0, len(known))
	for _, a := range known {
		v, ok := changed[a.key]
		if !ok {
			v = a.value
		}
		out = append(out, setting{a.key, v})
	}
	slices.SortFunc(out, func(a, b setting) int { return strings.Compare(a.key, b.key) })
	return out
}

func (r *loadBalancerRecord) attributes() []attribute {
	if r.network() {
		return networkAttributes
	}
	return applicationAttributes
}

func (r *loadBalancerRecord) sdkAttributes() []elbv2types.LoadBalancerAttribute {
	return list(r.attributes(), r.Attributes, func(k, v *string) elbv2types.LoadBalancerAttribute {
		return elbv2types.LoadBalancerAttribute{Key: k, Value: v}
	})
}

// DescribeLoadBalancerAttributes lists the attributes of a load balancer.
func (s *Service) DescribeLoadBalancerAttributes(ctx context.Context, in *awselbv2.DescribeLoadBalancerAttributesInput) (*awselbv2.DescribeLoadBalancerAttributesOutput, error) {
	r, err := loadBalancer(s.Store, scopeOf(ctx), in.LoadBalancerArn)
	if err != nil {
		return nil, err
	}
	return &awselbv2.DescribeLoadBalancerAttributesOutput{Attributes: r.sdkAttributes()}, nil
}

// DescribeCapacityReservation describes the capacity that is reserved for a load balancer: none, because
// ModifyCapacityReservation is refused. Terraform asks for every load balancer.
func (s *Service) DescribeCapacityReservation(ctx context.Context, in *awselbv2.DescribeCapacityReservationInput) (*awselbv2.DescribeCapacityReservationOutput, error) {
	_, err := loadBalancer(s.Store, scopeOf(ctx), in.LoadBalancerArn)
	return &awselbv2.DescribeCapacityReservationOutput{CapacityReservationState: []elbv2types.ZonalCapacityReservationState{}}, err
}

// ModifyLoadBalancerAttributes changes attributes of a load balancer.
func (s *Service) ModifyLoadBalancerAttributes(ctx context.Context, in *awselbv2.ModifyLoadBalancerAttributesInput) (*awselbv2.ModifyLoadBalancerAttributesOutput, error) {
	request := requested(in.Attributes, func(a elbv2types.LoadBalancerAttribute) (key, value *string) { return a.Key, a.Value })
	r, err := loadBalancerKind.change(ctx, s, in.LoadBalancerArn, func(_ *store.Tx, r *loadBalancerRecord) error {
		var err error
		r.Attributes, err = set(r.attributes(), r.Attributes, request, func(key string) error {
			other := networkAttributes
			if r.network() {
				other = applicationAttributes
			}
			if slices.ContainsFunc(other, func(a attribute) bool { return a.key == key }) {
				return errAttributeUnsupported(key, string(r.LB.Type))
			}
			return errAttributeKey(key)
		})
		if err == nil && r.Attributes["access_logs.s3.enabled"] == "true" && r.Attributes["access_logs.s3.bucket"] == "" {
			return errNoBucket("access_logs.s3.bucket")
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	return &awselbv2.ModifyLoadBalancerAttributesOutput{Attributes: r.sdkAttributes()}, nil
}

// application reports whether Application Load Balancers use the target group.
func (r *targetGroupRecord) application() bool {
	return r.Group.Protocol == elbv2types.ProtocolEnumHttp || r.Group.Protocol == elbv2types.ProtocolEnumHttps
}

// attributes returns the attributes that the group has. Two defaults depend on its protocol and
// target type.
func (r *targetGroupRecord) attributes() []attribute {
	if r.application() {
		return applicationGroupAttributes
	}
	out := slices.Clone(networkGroupAttributes)
	streams := r.Group.Protocol == elbv2types.ProtocolEnumTcp || r.Group.Protocol == elbv2types.ProtocolEnumTls
	for i := range out {
		switch out[i].key {
		case "preserve_client_ip.enabled":
			if streams && r.Group.TargetType == elbv2types.TargetTypeEnumIp {
				out[i].value = "false"
			}
		case "deregistration_delay.connection_termination.enabled":
			if !streams {
				out[i].value = "true"
			}
		}
	}
	return out
}

func (r *targetGroupRecord) sdkAttributes() []elbv2types.TargetGroupAttribute {
	return list(r.attributes(), r.Attributes, func(k, v *string) elbv2types.TargetGroupAttribute {
		return elbv2types.TargetGroupAttribute{Key: k, Value: v}
	})
}

// DescribeTargetGroupAttributes lists the attributes of a target group.
func (s *Service) DescribeTargetGroupAttributes(ctx context.Context, in *awselbv2.DescribeTargetGroupAttributesInput) (*awselbv2.DescribeTargetGroupAttributesOutput, error) {
	r, err := targetGroup(s.Store, scopeOf(ctx), in.TargetGroupArn)
	if err != nil {
		return nil, err
	}
	return &awselbv2.DescribeTargetGroupAttributesOutput{Attributes: r.sdkAttributes()}, nil
}

// ModifyTargetGroupAttributes changes attributes of a target group.
func (s *Service) ModifyTargetGroupAttributes(ctx context.Context, in *awselbv2.ModifyTargetGroupAttributesInput) (*awselbv2.ModifyTargetGroupAttributesOutput, error) {
	request := requested(in.Attributes, func(a elbv2types.TargetGroupAttribute) (key, value *string) { return a.Key, a.Value })
	r, err := targetGroupKind.change(ctx, s, in.TargetGroupArn, func(_ *store.Tx, r *targetGroupRecord) error {
		for _, a := range request {
			if a.key == "stickiness.type" && slices.Contains(stickinessTypes, a.value) && isApplication(&r.Group) == (a.value == "source_ip") {
				return errStickiness(a.value, r.Group.Protocol)
			}
		}
		var err error
		if r.Attributes, err = set(r.attributes(), r.Attributes, request, errGroupAttributeKey); err != nil {
			return err
		}
		if r.attribute("stickiness.enabled") == "true" && r.attribute("load_balancing.algorithm.type") == "weighted_random" {
			return errStickyRandom()
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return &awselbv2.ModifyTargetGroupAttributesOutput{Attributes: r.sdkAttributes()}, nil
}

// attribute returns the value of one of the group's attributes.
func (r *targetGroupRecord) attribute(key string) string {
	for _, v := range values(r.attributes(), r.Attributes) {
		if v.key == key {
			return v.value
		}
	}
	return ""
}

func (r *listenerRecord) attributes() []attribute {
	switch r.Listener.Protocol {
	case elbv2types.ProtocolEnumTcp:
		return networkListenerAttributes
	case elbv2types.ProtocolEnumHttp, elbv2types.ProtocolEnumHttps:
		return applicationListenerAttributes
	}
	return nil
}

func (r *listenerRecord) sdkAttributes() []elbv2types.ListenerAttribute {
	return list(r.attributes(), r.Attributes, func(k, v *string) elbv2types.ListenerAttribute { return elbv2types.ListenerAttribute{Key: k, Value: v} })
}

// DescribeListenerAttributes lists the attributes of a listener.
func (s *Service) DescribeListenerAttributes(ctx context.Context, in *awselbv2.DescribeListenerAttributesInput) (*awselbv2.DescribeListenerAttributesOutput, error) {
	r, err := listener(s.Store, scopeOf(ctx), in.ListenerArn)
	if err != nil {
		return nil, err
	}
	return &awselbv2.DescribeListenerAttributesOutput{Attributes: r.sdkAttributes()}, nil
}

// ModifyListenerAttributes changes attributes of a listener.
func (s *Service) ModifyListenerAttributes(ctx context.Context, in *awselbv2.ModifyListenerAttributesInput) (*awselbv2.ModifyListenerAttributesOutput, error) {
	request := requested(in.Attributes, func(a elbv2types.ListenerAttribute) (key, value *string) { return a.Key, a.Value })
	r, err := listenerKind.change(ctx, s, in.ListenerArn, func(_ *store.Tx, r *listenerRecord) error {
		var err error
		r.Attributes, err = set(r.attributes(), r.Attributes, request, errListenerAttributeKey)
		return err
	})
	if err != nil {
		return nil, err
	}
	return &awselbv2.ModifyListenerAttributesOutput{Attributes: r.sdkAttributes()}, nil
}
