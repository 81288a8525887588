package autobalancing

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	awsec2 "github.com/aws/aws-sdk-go-v2/service/ec2"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"
	elbv2types "github.com/aws/aws-sdk-go-v2/service/elasticloadbalancingv2/types"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/drydock-dev/drydock/internal/service/eks/base"
)

// Prefixes of annotations.
// https://docs.aws.amazon.com/eks/latest/userguide/auto-configure-nlb.html
const (
	serviceAnnotations = "service.beta.kubernetes.io/aws-load-balancer-"
	ingressAnnotations = "alb.ingress.kubernetes.io/"
)

// Annotations that are honoured, without their prefix. An object with another one of the same prefix gets no load
// balancer, so that none is ignored.
var (
	ofServices = []string{
		"scheme", "nlb-target-type", "subnets", "healthcheck-protocol", "healthcheck-path", "healthcheck-port", "ssl-cert", "ssl-ports",
		"attributes", "additional-resource-tags", "ip-address-type", "type",
	}
	ofIngresses = []string{
		"scheme", "target-type", "subnets", "healthcheck-protocol", "healthcheck-path", "healthcheck-port", "certificate-arn", "listen-ports",
		"load-balancer-attributes", "tags", "ip-address-type", "inbound-cidrs",
	}
)

// settings are the annotations of an object, without their prefix.
type settings map[string]string

func settingsOf(annotations map[string]string, prefix string, known []string) (settings, error) {
	out := settings{}
	for _, k := range slices.Sorted(maps.Keys(annotations)) {
		name, ok := strings.CutPrefix(k, prefix)
		if !ok {
			continue
		}
		if !slices.Contains(known, name) {
			return nil, fmt.Errorf("the annotation %s is not supported by Drydock (docs/auto-mode.md)", k)
		}
		out[name] = annotations[k]
	}
	if t := out["ip-address-type"]; t != "" && t != "ipv4" {
		return nil, fmt.Errorf("the IP address type %s is not supported by Drydock (docs/auto-mode.md)", t)
	}
	return out, nil
}

func list(text string) (out []string) {
	for s := range strings.SplitSeq(text, ",") {
		if s = strings.TrimSpace(s); s != "" {
			out = append(out, s)
		}
	}
	return out
}

// pairs reads key=value pairs that commas or lines separate.
func pairs(text string) (map[string]string, error) {
	out := map[string]string{}
	for _, s := range list(strings.ReplaceAll(text, "\n", ",")) {
		k, v, ok := strings.Cut(s, "=")
		if !ok {
			return nil, fmt.Errorf("failed to parse stringMap annotation: %q", text)
		}
		out[k] = v
	}
	return out, nil
}

func schemeOf(text string) (elbv2types.LoadBalancerSchemeEnum, error) {
	switch s := elbv2types.LoadBalancerSchemeEnum(text); s {
	case "":
		return elbv2types.LoadBalancerSchemeEnumInternal, nil
	case elbv2types.LoadBalancerSchemeEnumInternal, elbv2types.LoadBalancerSchemeEnumInternetFacing:
		return s, nil
	}
	return "", fmt.Errorf("unknown scheme: %s", text)
}

// targetType is that of a load balancer, whose default in EKS Auto Mode is ip.
func targetType(text string) (elbv2types.TargetTypeEnum, error) {
	switch text {
	case "", "ip":
		return elbv2types.TargetTypeEnumIp, nil
	case "instance":
		return elbv2types.TargetTypeEnumInstance, nil
	}
	return "", fmt.Errorf("unsupported target type: %s", text)
}

// nameOf returns a name for something of an object, of at most 32 characters.
func nameOf(namespace, name string, of ...string) string {
	sum := sha256.Sum256([]byte(strings.Join(append([]string{namespace, name}, of...), "\x00")))
	clean := func(s string) string {
		s = strings.Map(func(r rune) rune {
			if r >= '0' && r <= '9' || r >= 'a' && r <= 'z' {
				return r
			}
			return -1
		}, s)
		return s[:min(len(s), 8)]
	}
	return fmt.Sprintf("k8s-%s-%s-%s", clean(namespace), clean(name), hex.EncodeToString(sum[:5]))
}

// model returns the load balancer that an object wants.
func (c *cluster) model(ctx context.Context, d *deployer, o object) (*stack, error) {
	if svc, ok := o.(*corev1.Service); ok {
		return c.modelService(ctx, d, svc)
	}
	return c.modelIngress(ctx, d, o.(*networkingv1.Ingress))
}

func (c *cluster) modelService(ctx context.Context, d *deployer, svc *corev1.Service) (*stack, error) {
	set, err := settingsOf(svc.Annotations, serviceAnnotations, ofServices)
	if err != nil {
		return nil, err
	}
	st := &stack{id: stackOf(kindService, svc), kind: kindService, typ: elbv2types.LoadBalancerTypeEnumNetwork, ranges: masked(svc.Spec.LoadBalancerSourceRanges), groups: map[string]*group{}}
	if st.scheme, err = schemeOf(set["scheme"]); err != nil {
		return nil, err
	}
	if st.attributes, err = pairs(set["attributes"]); err != nil {
		return nil, err
	}
	if st.tags, err = pairs(set["additional-resource-tags"]); err != nil {
		return nil, err
	}
	typ, err := targetType(set["nlb-target-type"])
	if err != nil {
		return nil, err
	}
	if len(st.ranges) == 0 {
		st.ranges = []string{"0.0.0.0/0"}
	}
	if st.subnets, err = d.subnets(list(set["subnets"]), nil, st.scheme); err != nil {
		return nil, err
	}
	st.name = nameOf(svc.Namespace, svc.Name, c.key.String(), *d.rec.Cluster.Arn, string(st.scheme))
	secure := list(set["ssl-ports"])
	for i := range svc.Spec.Ports {
		p := &svc.Spec.Ports[i]
		l := listener{port: p.Port, protocol: elbv2types.ProtocolEnum(p.Protocol)}
		if l.protocol == "" {
			l.protocol = elbv2types.ProtocolEnumTcp
		}
		back := l.protocol
		if certs := list(set["ssl-cert"]); len(certs) > 0 && (len(secure) == 0 || slices.Contains(secure, strconv.Itoa(int(p.Port))) || slices.Contains(secure, p.Name)) {
			l.protocol, l.certificates = elbv2types.ProtocolEnumTls, certs
		}
		if l.group, err = c.addGroup(ctx, st, d, svc, p, back, typ, localCheck(checkOf(set), svc, typ)); err != nil {
			return nil, err
		}
		st.listeners = append(st.listeners, l)
	}
	return st, nil
}

func checkOf(set settings) check {
	return check{set["healthcheck-protocol"], set["healthcheck-path"], set["healthcheck-port"]}
}

// localCheck returns the health check of a service's instances. With externalTrafficPolicy Local, kube-proxy says at a port of
// its own whether a node has a pod of the service, unless annotations say otherwise.
// https://kubernetes-sigs.github.io/aws-load-balancer-controller/latest/guide/service/annotations/#healthcheck
func localCheck(c check, svc *corev1.Service, typ elbv2types.TargetTypeEnum) check {
	if typ != elbv2types.TargetTypeEnumInstance || svc.Spec.ExternalTrafficPolicy != corev1.ServiceExternalTrafficPolicyLocal || svc.Spec.HealthCheckNodePort == 0 {
		return c
	}
	return check{cmp.Or(c.protocol, "HTTP"), cmp.Or(c.path, "/healthz"), cmp.Or(c.port, strconv.Itoa(int(svc.Spec.HealthCheckNodePort)))}
}

// addGroup adds the target group of a port of a service to a stack, and returns its name.
func (c *cluster) addGroup(ctx context.Context, st *stack, d *deployer, svc *corev1.Service, p *corev1.ServicePort, protocol elbv2types.ProtocolEnum, typ elbv2types.TargetTypeEnum, check check) (string, error) {
	g := &group{resource: fmt.Sprintf("%s/%s:%d", svc.Namespace, svc.Name, p.Port), protocol: protocol, typ: typ, check: check, port: 1} // LBC's, for named target ports
	if p.TargetPort.Type == intstr.Int && p.TargetPort.IntVal > 0 {
		g.port = p.TargetPort.IntVal
	} else if p.TargetPort.Type == intstr.Int {
		g.port = p.Port
	}
	if typ == elbv2types.TargetTypeEnumInstance {
		if p.NodePort == 0 {
			return "", fmt.Errorf("service %s/%s has no node port: the target type instance needs one", svc.Namespace, svc.Name)
		}
		g.port = p.NodePort
		for _, n := range c.ses.Nodes().All() {
			if i := strings.LastIndexByte(n.Spec.ProviderID, '/'); strings.HasPrefix(n.Spec.ProviderID[i+1:], "i-") && ready(n) {
				g.targets = append(g.targets, target{n.Spec.ProviderID[i+1:], p.NodePort})
			}
		}
	} else {
		g.targets = c.endpoints(svc, p)
	}
	slices.SortFunc(g.targets, func(a, b target) int { return strings.Compare(fmt.Sprint(a), fmt.Sprint(b)) })
	g.targets = slices.Compact(g.targets)
	name := nameOf(svc.Namespace, svc.Name, st.id, *d.rec.Cluster.Arn, fmt.Sprint(p.Port, g.protocol, g.port, g.typ, g.check))
	st.groups[name] = g
	return name, nil
}

// masked returns ranges as EC2 stores them: 10.1.2.3/16 is 10.1.0.0/16. The API server refuses invalid ones.
func masked(ranges []string) []string {
	var out []string
	for _, r := range ranges {
		if p, err := netip.ParsePrefix(strings.TrimSpace(r)); err == nil {
			r = p.Masked().String()
		}
		out = append(out, r)
	}
	slices.Sort(out)
	return slices.Compact(out)
}

func ready(n *corev1.Node) bool {
	if n.Spec.Unschedulable {
		return false
	}
	return slices.ContainsFunc(n.Status.Conditions, func(c corev1.NodeCondition) bool {
		return c.Type == corev1.NodeReady && c.Status == corev1.ConditionTrue
	})
}

// endpoints returns the addresses of the ready pods behind a port of a service.
func (c *cluster) endpoints(svc *corev1.Service, p *corev1.ServicePort) (out []target) {
	for _, e := range c.slices.By(byService, svc.Namespace+"/"+svc.Name) {
		if e.AddressType != discoveryv1.AddressTypeIPv4 {
			continue
		}
		i := slices.IndexFunc(e.Ports, func(q discoveryv1.EndpointPort) bool { return aws.ToString(q.Name) == p.Name })
		if i < 0 || e.Ports[i].Port == nil {
			continue
		}
		for _, ep := range e.Endpoints {
			if ep.Conditions.Ready != nil && !*ep.Conditions.Ready {
				continue
			}
			for _, a := range ep.Addresses {
				out = append(out, target{a, *e.Ports[i].Port})
			}
		}
	}
	return out
}

// subnets returns those of a load balancer: the named ones, those with the tags, or one of each zone that carries the
// tag of its scheme.
// https://docs.aws.amazon.com/eks/latest/userguide/tag-subnets-auto.html
func (d *deployer) subnets(named []string, tags map[string][]string, scheme elbv2types.LoadBalancerSchemeEnum) ([]string, error) {
	vpc := aws.ToString(d.rec.Cluster.ResourcesVpcConfig.VpcId)
	filters := []ec2types.Filter{base.EC2Filter("vpc-id", vpc)}
	role := "kubernetes.io/role/internal-elb"
	if scheme == elbv2types.LoadBalancerSchemeEnumInternetFacing {
		role = "kubernetes.io/role/elb"
	}
	for k, v := range tags {
		filters = append(filters, base.EC2Filter("tag:"+k, v...))
	}
	out, err := d.s.Network.DescribeSubnets(d.svc, &awsec2.DescribeSubnetsInput{Filters: filters})
	if err != nil {
		return nil, err
	}
	tag := func(s ec2types.Subnet, key string) (string, bool) {
		for _, t := range s.Tags {
			if aws.ToString(t.Key) == key {
				return aws.ToString(t.Value), true
			}
		}
		return "", false
	}
	all := out.Subnets
	slices.SortFunc(all, func(a, b ec2types.Subnet) int { return strings.Compare(*a.SubnetId, *b.SubnetId) })
	var ids []string
	zones := map[string]bool{}
	for _, s := range all {
		switch value, tagged := tag(s, role); {
		case len(named) > 0:
			if name, _ := tag(s, "Name"); !slices.Contains(named, *s.SubnetId) && (name == "" || !slices.Contains(named, name)) {
				continue
			}
		case len(tags) == 0 && (!tagged || value != "" && value != "1"):
			continue
		}
		if zone := aws.ToString(s.AvailabilityZone); len(named) > 0 || !zones[zone] {
			zones[zone] = true
			ids = append(ids, *s.SubnetId)
		}
	}
	switch {
	case len(named) > 0 && len(ids) != len(named):
		return nil, fmt.Errorf("couldn't find all subnets, nameOrIDs: %v, found: %d", named, len(ids))
	case len(ids) == 0:
		return nil, fmt.Errorf("unable to resolve at least one subnet (0 match VPC and tags: [%s])", role)
	}
	return ids, nil
}

// classOf returns the class of an ingress if EKS Auto Mode serves it.
func (c *cluster) classOf(ing *networkingv1.Ingress) *networkingv1.IngressClass {
	name := aws.ToString(ing.Spec.IngressClassName)
	if class, ok := c.classes.Get(name); ok && class.Spec.Controller == ingressController {
		return class
	}
	return nil
}

var ingressClassParams = schema.GroupVersionResource{Group: "eks.amazonaws.com", Version: "v1", Resource: "ingressclassparams"}

// params is the spec of an IngressClassParams.
// https://docs.aws.amazon.com/eks/latest/userguide/auto-configure-alb.html
type params struct {
	Scheme          string   `json:"scheme"`
	IPAddressType   string   `json:"ipAddressType"`
	CertificateARNs []string `json:"certificateARNs"`
	Subnets         *struct {
		IDs       []string `json:"ids"`
		MatchTags []struct {
			Key    string   `json:"key"`
			Values []string `json:"values"`
		} `json:"matchTags"`
	} `json:"subnets"`
	Tags                   []pair `json:"tags"`
	LoadBalancerAttributes []pair `json:"loadBalancerAttributes"`
}

type pair struct{ Key, Value string }

// paramsOf returns the parameters of a class. Other fields than those of params are an error.
func (c *cluster) paramsOf(ctx context.Context, class *networkingv1.IngressClass) (*params, error) {
	out := &params{}
	ref := class.Spec.Parameters
	if ref == nil {
		return out, nil
	}
	if aws.ToString(ref.APIGroup) != "eks.amazonaws.com" || ref.Kind != "IngressClassParams" {
		return nil, fmt.Errorf("IngressClass %s must refer to an IngressClassParams of eks.amazonaws.com", class.Name)
	}
	all, err := c.ses.Objects.List(ctx, ingressClassParams)
	if err != nil {
		return nil, err
	}
	i := slices.IndexFunc(all, func(o unstructured.Unstructured) bool { return o.GetName() == ref.Name })
	if i < 0 {
		return nil, fmt.Errorf("ingressclassparams.eks.amazonaws.com %q not found", ref.Name)
	}
	raw, err := json.Marshal(all[i].Object["spec"])
	if err != nil {
		return nil, err
	}
	dec := json.NewDecoder(strings.NewReader(string(raw)))
	dec.DisallowUnknownFields()
	if err := dec.Decode(out); err != nil {
		return nil, fmt.Errorf("IngressClassParams %s: %w (docs/auto-mode.md lists what Drydock supports)", ref.Name, err)
	}
	if t := out.IPAddressType; t != "" && t != "ipv4" {
		return nil, fmt.Errorf("the IP address type %s is not supported by Drydock (docs/auto-mode.md)", t)
	}
	return out, nil
}

func (c *cluster) modelIngress(ctx context.Context, d *deployer, ing *networkingv1.Ingress) (*stack, error) {
	set, err := settingsOf(ing.Annotations, ingressAnnotations, ofIngresses)
	if err != nil {
		return nil, err
	}
	class := c.classOf(ing)
	if class == nil {
		return nil, fmt.Errorf("the class of ingress %s/%s is gone", ing.Namespace, ing.Name)
	}
	from, err := c.paramsOf(ctx, class)
	if err != nil {
		return nil, err
	}
	st := &stack{id: stackOf(kindIngress, ing), kind: kindIngress, typ: elbv2types.LoadBalancerTypeEnumApplication, ranges: list(set["inbound-cidrs"]), groups: map[string]*group{}}
	if len(st.ranges) == 0 {
		st.ranges = []string{"0.0.0.0/0"}
	}
	if from.Scheme != "" {
		set["scheme"] = from.Scheme
	}
	if st.scheme, err = schemeOf(set["scheme"]); err != nil {
		return nil, err
	}
	if st.attributes, err = pairs(set["load-balancer-attributes"]); err != nil {
		return nil, err
	}
	for _, a := range from.LoadBalancerAttributes {
		st.attributes[a.Key] = a.Value
	}
	if st.tags, err = pairs(set["tags"]); err != nil {
		return nil, err
	}
	for _, t := range from.Tags {
		st.tags[t.Key] = t.Value
	}
	typ, err := targetType(set["target-type"])
	if err != nil {
		return nil, err
	}
	named, tags := list(set["subnets"]), map[string][]string{}
	if from.Subnets != nil {
		named = from.Subnets.IDs
		for _, t := range from.Subnets.MatchTags {
			tags[t.Key] = t.Values
		}
	}
	if st.subnets, err = d.subnets(named, tags, st.scheme); err != nil {
		return nil, err
	}
	st.name = nameOf(ing.Namespace, ing.Name, c.key.String(), *d.rec.Cluster.Arn, string(st.scheme))
	certificates := from.CertificateARNs
	if len(certificates) == 0 {
		certificates = list(set["certificate-arn"])
	}
	if st.listeners, err = listeners(set["listen-ports"], certificates); err != nil {
		return nil, err
	}
	backend := func(b *networkingv1.IngressBackend) (string, error) {
		if b.Service == nil {
			return "", fmt.Errorf("ingress %s/%s: only services can be backends", ing.Namespace, ing.Name)
		}
		svc, ok := c.services.Get(ing.Namespace + "/" + b.Service.Name)
		if !ok {
			return "", fmt.Errorf("ingress: %s/%s: Service %q not found", ing.Namespace, ing.Name, b.Service.Name)
		}
		i := slices.IndexFunc(svc.Spec.Ports, func(p corev1.ServicePort) bool {
			return b.Service.Port.Name != "" && p.Name == b.Service.Port.Name || b.Service.Port.Name == "" && p.Port == b.Service.Port.Number
		})
		if i < 0 {
			return "", fmt.Errorf("unable to find port %s%d on service %s/%s", b.Service.Port.Name, b.Service.Port.Number, svc.Namespace, svc.Name)
		}
		return c.addGroup(ctx, st, d, svc, &svc.Spec.Ports[i], elbv2types.ProtocolEnumHttp, typ, checkOf(set))
	}
	var fallback string
	if ing.Spec.DefaultBackend != nil {
		if fallback, err = backend(ing.Spec.DefaultBackend); err != nil {
			return nil, err
		}
	}
	var rules []rule
	for _, r := range ing.Spec.Rules {
		if r.HTTP == nil {
			continue
		}
		for _, p := range inOrder(r.HTTP.Paths) {
			to, err := backend(&p.Backend)
			if err != nil {
				return nil, err
			}
			next := rule{group: to, paths: patterns(&p)}
			if r.Host != "" {
				next.hosts = []string{r.Host}
			}
			rules = append(rules, next)
		}
	}
	for i := range st.listeners {
		st.listeners[i].group, st.listeners[i].rules = fallback, rules
	}
	return st, nil
}

// listeners returns those of an ingress: HTTP on 80, or HTTPS on 443 if there are certificates.
func listeners(ports string, certificates []string) ([]listener, error) {
	if ports == "" && len(certificates) > 0 {
		ports = `[{"HTTPS":443}]`
	} else if ports == "" {
		ports = `[{"HTTP":80}]`
	}
	var entries []map[elbv2types.ProtocolEnum]int32
	if err := json.Unmarshal([]byte(ports), &entries); err != nil {
		return nil, fmt.Errorf("failed to parse listen-ports configuration: `%s`", ports)
	}
	var out []listener
	for _, e := range entries {
		for protocol, port := range e {
			l := listener{port: port, protocol: protocol}
			switch {
			case port < 1 || port > 65535:
				return nil, fmt.Errorf("listen port must be within [1, 65535]: %d", port)
			case protocol == elbv2types.ProtocolEnumHttps && len(certificates) == 0:
				return nil, fmt.Errorf("no certificate found for the HTTPS listener on port %d", port)
			case protocol == elbv2types.ProtocolEnumHttps:
				l.certificates = certificates
			case protocol != elbv2types.ProtocolEnumHttp:
				return nil, fmt.Errorf("listen protocol must be within [HTTP, HTTPS]: %s", protocol)
			}
			out = append(out, l)
		}
	}
	slices.SortFunc(out, func(a, b listener) int { return int(a.port - b.port) })
	return out, nil
}

// inOrder returns paths in the order in which they are to be tried: exact ones first, then prefixes, the longest first.
func inOrder(paths []networkingv1.HTTPIngressPath) []networkingv1.HTTPIngressPath {
	class := func(p networkingv1.HTTPIngressPath) int {
		switch {
		case p.PathType != nil && *p.PathType == networkingv1.PathTypeExact:
			return 0
		case p.PathType != nil && *p.PathType == networkingv1.PathTypePrefix:
			return 1
		}
		return 2
	}
	out := slices.Clone(paths)
	slices.SortStableFunc(out, func(a, b networkingv1.HTTPIngressPath) int {
		if x, y := class(a), class(b); x != y || x != 1 {
			return x - y
		}
		return len(b.Path) - len(a.Path)
	})
	return out
}

// patterns returns the path patterns of a path.
func patterns(p *networkingv1.HTTPIngressPath) []string {
	path := p.Path
	if path == "" {
		path = "/"
	}
	if p.PathType == nil || *p.PathType != networkingv1.PathTypePrefix {
		return []string{path}
	}
	path = strings.TrimSuffix(path, "/")
	if path == "" {
		return []string{"/*"}
	}
	return []string{path, path + "/*"}
}
