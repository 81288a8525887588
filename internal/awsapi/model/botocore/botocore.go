// Package botocore reads API models in the JSON format that botocore and
// aws-sdk-go v1 share and turns them into the records of package model.
//
// tools/modelgen uses it to generate the embedded models, and the codec's tests
// use it for the protocol-test corpus, which is written in the same format.
// Nothing that runs in the daemon may import it.
package botocore

import (
	"bytes"
	"cmp"
	_ "embed" // for additions.json
	"encoding/json"
	"fmt"
	"slices"
	"sort"

	"github.com/drydock-dev/drydock/internal/awsapi/model"
)

// An API is one API model.
type API struct {
	Metadata   Metadata              `json:"metadata"`
	Operations map[string]*Operation `json:"operations"`
	Shapes     map[string]*Shape     `json:"shapes"`
}

// Metadata is a model's description of its service.
type Metadata struct {
	APIVersion         string          `json:"apiVersion"`
	EndpointPrefix     string          `json:"endpointPrefix"`
	GlobalEndpoint     string          `json:"globalEndpoint"`
	JSONVersion        string          `json:"jsonVersion"`
	Protocol           string          `json:"protocol"`
	ServiceID          string          `json:"serviceId"`
	SigningName        string          `json:"signingName"`
	TargetPrefix       string          `json:"targetPrefix"`
	XMLNamespace       string          `json:"xmlNamespace"`
	AWSQueryCompatible json.RawMessage `json:"awsQueryCompatible"`
}

// An Operation is one operation.
type Operation struct {
	Name string `json:"name"`
	HTTP struct {
		Method       string `json:"method"`
		RequestURI   string `json:"requestUri"`
		ResponseCode int    `json:"responseCode"`
	} `json:"http"`
	Input      *Ref   `json:"input"`
	Output     *Ref   `json:"output"`
	Errors     []*Ref `json:"errors"`
	AuthType   string `json:"authtype"`
	Deprecated bool   `json:"deprecated"`
	Endpoint   struct {
		HostPrefix string `json:"hostPrefix"`
	} `json:"endpoint"`
}

// A Shape is a type.
type Shape struct {
	Type            string          `json:"type"`
	Members         map[string]*Ref `json:"members"`
	Required        []string        `json:"required"`
	Payload         string          `json:"payload"`
	Member          *Ref            `json:"member"`
	Key             *Ref            `json:"key"`
	Value           *Ref            `json:"value"`
	Flattened       bool            `json:"flattened"`
	LocationName    string          `json:"locationName"`
	XMLNamespace    *Namespace      `json:"xmlNamespace"`
	Union           bool            `json:"union"`
	Document        bool            `json:"document"`
	EventStream     bool            `json:"eventstream"`
	Exception       bool            `json:"exception"`
	Fault           bool            `json:"fault"`
	Sensitive       bool            `json:"sensitive"`
	TimestampFormat string          `json:"timestampFormat"`
	Location        string          `json:"location"` // inherited by the members of this shape
	JSONValue       bool            `json:"jsonvalue"`
	Streaming       bool            `json:"streaming"`
	Min             *float64        `json:"min"`
	Max             *float64        `json:"max"`
	Pattern         string          `json:"pattern"`
	Enum            []string        `json:"enum"`
	Error           *struct {
		Code           string `json:"code"`
		HTTPStatusCode int    `json:"httpStatusCode"`
		SenderFault    bool   `json:"senderFault"`
		Fault          bool   `json:"fault"`
	} `json:"error"`
}

// A Ref refers to a shape and says how that use of it is encoded.
type Ref struct {
	Shape            string     `json:"shape"`
	Location         string     `json:"location"`
	LocationName     string     `json:"locationName"`
	QueryName        string     `json:"queryName"`
	Flattened        bool       `json:"flattened"`
	XMLNamespace     *Namespace `json:"xmlNamespace"`
	XMLAttribute     bool       `json:"xmlAttribute"`
	IdempotencyToken bool       `json:"idempotencyToken"`
	JSONValue        bool       `json:"jsonvalue"`
	Streaming        bool       `json:"streaming"`
	HostLabel        bool       `json:"hostLabel"`
	EventPayload     bool       `json:"eventpayload"`
	EventHeader      bool       `json:"eventheader"`
	TimestampFormat  string     `json:"timestampFormat"`
	ResultWrapper    string     `json:"resultWrapper"`
	Payload          string     `json:"payload"` // on the shape itself, in the oldest models
}

// A Namespace is an XML namespace; models write it as an object or a string.
type Namespace struct {
	URI    string `json:"uri"`
	Prefix string `json:"prefix"`
}

// UnmarshalJSON reads both forms.
func (n *Namespace) UnmarshalJSON(b []byte) error {
	if len(b) > 0 && b[0] == '"' {
		return json.Unmarshal(b, &n.URI)
	}
	type plain Namespace
	return json.Unmarshal(b, (*plain)(n))
}

// additionsJSON lists, by service, the operations, shapes, members and enum values that clients use but that are newer
// than the models, with the reason for each addition.
//
//go:embed additions.json
var additionsJSON []byte

// add adds what additions.json has for a service to the service's model.
func (a *API) add(name string) error {
	var all map[string]struct {
		Why        string                `json:"why"`
		Operations map[string]*Operation `json:"operations"`
		Shapes     map[string]*Shape     `json:"shapes"`
	}
	if err := json.Unmarshal(additionsJSON, &all); err != nil {
		return err
	}
	for op, added := range all[name].Operations {
		if a.Operations[op] != nil {
			return fmt.Errorf("the model has operation %s by now: remove it from additions.json", op)
		}
		a.Operations[op] = added
	}
	for shape, added := range all[name].Shapes {
		old := a.Shapes[shape]
		if old == nil {
			a.Shapes[shape] = added
			continue
		}
		for member, ref := range added.Members {
			if old.Members[member] != nil {
				return fmt.Errorf("the model has member %s of %s by now: remove it from additions.json", member, shape)
			}
			old.Members[member] = ref
		}
		for _, value := range added.Enum {
			if slices.Contains(old.Enum, value) {
				return fmt.Errorf("the model has %s in %s by now: remove it from additions.json", value, shape)
			}
			old.Enum = append(old.Enum, value)
		}
	}
	return nil
}

// Compact renders an API model as the lines that package model parses: metadata, operations and shapes, each sorted
// by name. Scalar shapes without constraints are folded into the members that use them. Shapes that no operation
// reaches are left out, as are the constraints of shapes that appear only in responses.
func Compact(name string, apiJSON []byte) ([]byte, error) {
	var api API
	if err := json.Unmarshal(apiJSON, &api); err != nil {
		return nil, fmt.Errorf("model %s: %w", name, err)
	}
	if err := api.add(name); err != nil {
		return nil, fmt.Errorf("model %s: additions.json: %w", name, err)
	}
	records, err := api.Records(name)
	if err != nil {
		return nil, fmt.Errorf("model %s: %w", name, err)
	}
	var out bytes.Buffer
	enc := json.NewEncoder(&out)
	enc.SetEscapeHTML(false)
	for _, r := range records {
		if err := enc.Encode(r); err != nil {
			return nil, fmt.Errorf("model %s: %w", name, err)
		}
	}
	return out.Bytes(), nil
}

// Records returns the compact form of a model.
func (a *API) Records(name string) ([]*model.Record, error) {
	md := a.Metadata
	if md.XMLNamespace == "" && md.Protocol == model.ProtocolRESTXML {
		md.XMLNamespace = a.namespace()
	}
	records := []*model.Record{{Metadata: &model.MetadataRecord{
		Name: name, Package: PackageOf(name), ServiceID: md.ServiceID, Protocol: md.Protocol,
		JSONVersion: md.JSONVersion, TargetPrefix: md.TargetPrefix, APIVersion: md.APIVersion,
		EndpointPrefix: md.EndpointPrefix, GlobalEndpoint: md.GlobalEndpoint, SigningName: md.SigningName,
		XMLNamespace: md.XMLNamespace, QueryCompatible: md.AWSQueryCompatible != nil,
	}}}
	used, sent := map[string]bool{}, map[string]bool{}
	payloads := map[string]string{}
	for _, opName := range sortedKeys(a.Operations) {
		o := a.Operations[opName]
		r := &model.OperationRecord{Name: opName, HostPrefix: o.Endpoint.HostPrefix, Unsigned: o.AuthType == "none", Deprecated: o.Deprecated}
		if o.HTTP.Method != "POST" {
			r.Method = o.HTTP.Method
		}
		if o.HTTP.RequestURI != "/" {
			r.URI = o.HTTP.RequestURI
		}
		if o.HTTP.ResponseCode != 200 {
			r.Status = o.HTTP.ResponseCode
		}
		if o.Input != nil {
			r.Input, r.InputElement = o.Input.Shape, o.Input.LocationName
			if o.Input.XMLNamespace != nil {
				r.InputNamespace = o.Input.XMLNamespace.URI
			}
			a.reach(o.Input.Shape, used)
			if md.Protocol != model.ProtocolEC2 {
				a.reach(o.Input.Shape, sent)
			}
			payloads[o.Input.Shape] = o.Input.Payload
		}
		if o.Output != nil {
			r.Output = o.Output.Shape
			if o.Output.ResultWrapper != opName+"Result" {
				r.ResultWrapper = o.Output.ResultWrapper
			}
			a.reach(o.Output.Shape, used)
		}
		for _, e := range o.Errors {
			r.Errors = append(r.Errors, e.Shape)
			a.reach(e.Shape, used)
		}
		records = append(records, &model.Record{Operation: r})
	}
	// Exceptions that no operation lists can still be returned.
	for n, s := range a.Shapes {
		if s.Exception || s.Error != nil {
			a.reach(n, used)
		}
	}
	for n, s := range a.Shapes {
		if !sent[n] {
			s.Min, s.Max, s.Pattern, s.Enum = nil, nil, "", nil
		}
	}
	for _, n := range sortedKeys(a.Shapes) {
		if !used[n] || isFree(a.Shapes[n]) {
			continue
		}
		r, err := a.shapeRecord(n)
		if err != nil {
			return nil, err
		}
		r.Payload = firstOf(r.Payload, payloads[n])
		records = append(records, &model.Record{Shape: r})
	}
	return records, nil
}

// namespace finds the XML namespace of a rest-xml service. It is stated where requests use it: on operations' inputs
// or on their payloads.
func (a *API) namespace() string {
	for _, n := range sortedKeys(a.Operations) {
		in := a.Operations[n].Input
		if in == nil {
			continue
		}
		if in.XMLNamespace != nil {
			return in.XMLNamespace.URI
		}
		s := a.Shapes[in.Shape]
		if s == nil || s.Payload == "" {
			continue
		}
		if m := s.Members[s.Payload]; m != nil && m.XMLNamespace != nil {
			return m.XMLNamespace.URI
		}
	}
	return ""
}

func (a *API) reach(name string, used map[string]bool) {
	s := a.Shapes[name]
	if s == nil || used[name] {
		return
	}
	used[name] = true
	for _, m := range s.Members {
		a.reach(m.Shape, used)
	}
	for _, r := range []*Ref{s.Member, s.Key, s.Value} {
		if r != nil {
			a.reach(r.Shape, used)
		}
	}
}

func isScalar(s *Shape) bool {
	return s.Document || s.Type != "structure" && s.Type != "list" && s.Type != "map"
}

// isFree reports whether s is a scalar that may have any value.
func isFree(s *Shape) bool {
	return isScalar(s) && s.Min == nil && s.Max == nil && s.Pattern == "" && s.Enum == nil
}

func (a *API) shapeRecord(name string) (*model.ShapeRecord, error) {
	s := a.Shapes[name]
	r := &model.ShapeRecord{
		Name: name, Type: model.Type(s.Type), Union: s.Union, Exception: s.Exception || s.Error != nil,
		ServerFault: s.Fault, EventStream: s.EventStream, Element: s.LocationName, Payload: s.Payload, Flattened: s.Flattened,
		Min: s.Min, Max: s.Max, Pattern: s.Pattern, Enum: s.Enum,
	}
	if isScalar(s) {
		r.Type = model.Type(scalarType(s))
	}
	if s.XMLNamespace != nil {
		r.Namespace = s.XMLNamespace.URI
	}
	if s.Error != nil {
		if s.Error.Code != name {
			r.Code = s.Error.Code
		}
		r.Status = s.Error.HTTPStatusCode
		r.ServerFault = r.ServerFault || s.Error.Fault
	}
	var err error
	for _, ref := range []struct {
		from *Ref
		to   **model.MemberRecord
	}{{s.Member, &r.Elem}, {s.Key, &r.Key}, {s.Value, &r.Value}} {
		if ref.from == nil {
			continue
		}
		if *ref.to, err = a.member("", ref.from); err != nil {
			return nil, fmt.Errorf("shape %s: %w", name, err)
		}
	}
	for _, n := range sortedKeys(s.Members) {
		m, err := a.member(n, s.Members[n])
		if err != nil {
			return nil, fmt.Errorf("shape %s: member %s: %w", name, n, err)
		}
		m.Required = slices.Contains(s.Required, n)
		r.Members = append(r.Members, m)
	}
	return r, nil
}

func (a *API) member(name string, ref *Ref) (*model.MemberRecord, error) {
	s := a.Shapes[ref.Shape]
	if s == nil {
		return nil, fmt.Errorf("no shape %q", ref.Shape)
	}
	m := &model.MemberRecord{
		Name: name, Shape: ref.Shape, Location: model.Location(firstOf(ref.Location, s.Location)), QueryName: ref.QueryName,
		Flattened: ref.Flattened, XMLAttribute: ref.XMLAttribute, IdempotencyToken: ref.IdempotencyToken,
		JSONValue: ref.JSONValue || s.JSONValue, Streaming: ref.Streaming || s.Streaming, HostLabel: ref.HostLabel,
		EventPayload: ref.EventPayload, EventHeader: ref.EventHeader,
		TimestampFormat: ref.TimestampFormat, Sensitive: s.Sensitive,
	}
	if isScalar(s) {
		m.TimestampFormat = firstOf(m.TimestampFormat, s.TimestampFormat)
		if isFree(s) {
			m.Shape = scalarType(s)
		}
		if m.Shape == "string" {
			m.Shape = ""
		}
	}
	if ref.LocationName != name {
		m.LocationName = ref.LocationName
	}
	if ref.Location == "" && s.Location != "" && m.LocationName == "" {
		m.LocationName = s.LocationName
	}
	if ns := ref.XMLNamespace; ns != nil {
		m.XMLNamespace, m.XMLPrefix = ns.URI, ns.Prefix
	} else if ns := s.XMLNamespace; ns != nil {
		m.XMLNamespace, m.XMLPrefix = ns.URI, ns.Prefix
	}
	return m, nil
}

func scalarType(s *Shape) string {
	switch {
	case s.Document:
		return string(model.Document)
	case s.Type == "character" || s.Type == "":
		return string(model.String)
	}
	return s.Type
}

func firstOf(a, b string) string {
	if a != "" {
		return a
	}
	return b
}

func sortedKeys[V any](m map[string]V) []string {
	keys := make([]string, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	sort.Strings(keys)
	return keys
}

// packageOf maps botocore's model names to package names in aws-sdk-go-v2, for the services where they differ.
var packageOf = map[string]string{
	"arc-zonal-shift":      "arczonalshift",
	"elb":                  "elasticloadbalancing",
	"elbv2":                "elasticloadbalancingv2",
	"events":               "eventbridge",
	"logs":                 "cloudwatchlogs",
	"ecr-public":           "ecrpublic",
	"ec2-instance-connect": "ec2instanceconnect",
	"eks-auth":             "eksauth",
	"service-quotas":       "servicequotas",
	"waf-regional":         "wafregional",
}

// PackageOf returns the name of a model's package in aws-sdk-go-v2.
func PackageOf(name string) string { return cmp.Or(packageOf[name], name) }
