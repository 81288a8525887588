package wire

import (
	"io"
	"reflect"
	"strings"
	"sync"
	"time"

	"github.com/aws/smithy-go/document"

	"github.com/drydock-dev/drydock/internal/awsapi/model"
)

// A kind is how a shape is represented in Go.
type kind uint8

const (
	kindString kind = iota
	kindBool
	kindInt
	kindFloat
	kindTime
	kindBlob
	kindStream // io.Reader of an input, io.ReadCloser of an output
	kindDocument
	kindList
	kindMap
	kindStruct
	kindUnion
)

// A plan joins a shape with the Go type that holds it. Plans are built once per pair, shared, and never changed
// afterwards. Recursive shapes have cyclic plans.
type plan struct {
	kind  kind
	shape *model.Shape
	typ   reflect.Type // without the pointer
	ptr   bool         // the Go type is *typ

	elem *plan // of a list; a map's values
	key  *plan // a map's keys

	fields []*field // of a structure or union, in the model's order
	body   []*field // those of fields that are sent in a message's body
	byName map[string]*field
	// byJSON, byQuery and byEC2 find a field by its name on the wire.
	byJSON, byQuery, byEC2 map[string]*field
	byXML                  map[string]*field
	attrs                  []*field // members that are XML attributes
	// variants find a union's field by the type that holds its value.
	variants map[reflect.Type]*field
}

// A field joins a member with the field of the SDK's struct. plan is nil if the SDK has no such field, or if its type
// cannot hold the shape.
type field struct {
	m       *model.Member
	plan    *plan
	index   int
	variant reflect.Type // of a union: FooMemberBar, which holds the value in its field 0

	jsonKey   string // `"name":`
	xmlName   string
	queryName string
	ec2Name   string
}

type planKey struct {
	shape  *model.Shape
	typ    reflect.Type
	stream bool
}

// plans caches plans. Its size is bounded by the number of SDK types.
var plans struct {
	sync.Mutex
	done sync.Map // planKey → *plan, only complete ones
}

// planFor returns the plan of a shape in a Go type, or nil if the type cannot hold the shape.
func planFor(shape *model.Shape, typ reflect.Type) *plan {
	return memberPlan(shape, typ, false)
}

func memberPlan(shape *model.Shape, typ reflect.Type, stream bool) *plan {
	k := planKey{shape, typ, stream}
	if p, ok := plans.done.Load(k); ok {
		return p.(*plan)
	}
	plans.Lock()
	defer plans.Unlock()
	b := planner{made: map[planKey]*plan{}}
	p := b.plan(shape, typ, stream)
	for k, p := range b.made {
		plans.done.LoadOrStore(k, p)
	}
	return p
}

// A planner builds a connected set of plans. They are published together, so that no reader sees half of a cycle.
type planner struct {
	made map[planKey]*plan
}

func (b *planner) plan(shape *model.Shape, typ reflect.Type, stream bool) *plan {
	k := planKey{shape, typ, stream}
	if p, ok := plans.done.Load(k); ok {
		return p.(*plan)
	}
	if p, ok := b.made[k]; ok {
		return p
	}
	p := &plan{shape: shape, typ: typ}
	if typ.Kind() == reflect.Pointer {
		p.ptr, p.typ = true, typ.Elem()
	}
	b.made[k] = p
	if !b.fill(p, stream) {
		b.made[k] = nil
		return nil
	}
	return p
}

var (
	timeType     = reflect.TypeFor[time.Time]()
	readerType   = reflect.TypeFor[io.Reader]()
	documentType = reflect.TypeFor[document.Unmarshaler]()
)

// fill completes p and reports whether p's type can hold its shape.
func (b *planner) fill(p *plan, stream bool) bool {
	t := p.typ
	if stream && t.Kind() == reflect.Interface && t.Implements(readerType) {
		p.kind = kindStream
		return true
	}
	if k, ok := retyped(p.shape.Type, t); ok {
		p.kind = k
		return true
	}
	switch p.shape.Type {
	case model.String:
		p.kind = kindString
		return t.Kind() == reflect.String
	case model.Boolean:
		p.kind = kindBool
		return t.Kind() == reflect.Bool
	case model.Integer, model.Long:
		p.kind = kindInt
		return t.Kind() >= reflect.Int && t.Kind() <= reflect.Int64
	case model.Float, model.Double:
		p.kind = kindFloat
		return t.Kind() == reflect.Float32 || t.Kind() == reflect.Float64
	case model.Timestamp:
		p.kind = kindTime
		return t == timeType
	case model.Blob:
		p.kind = kindBlob
		return t.Kind() == reflect.Slice && t.Elem().Kind() == reflect.Uint8
	case model.Document:
		p.kind = kindDocument
		return t.Kind() == reflect.Interface && (t.NumMethod() == 0 || t.Implements(documentType))
	case model.List:
		p.kind = kindList
		if t.Kind() != reflect.Slice {
			return false
		}
		p.elem = b.plan(p.shape.Elem.Shape, t.Elem(), false)
		return p.elem != nil
	case model.Map:
		p.kind = kindMap
		if t.Kind() != reflect.Map {
			return false
		}
		p.key = b.plan(p.shape.Key.Shape, t.Key(), false)
		p.elem = b.plan(p.shape.Value.Shape, t.Elem(), false)
		return p.key != nil && p.elem != nil && p.key.kind == kindString
	case model.Structure:
		if t.Kind() == reflect.Interface {
			p.kind = kindUnion
			return b.fillUnion(p)
		}
		p.kind = kindStruct
		return t.Kind() == reflect.Struct && b.fillStruct(p)
	}
	return false
}

// retyped recognizes the scalars for which the SDK uses another type than the model: Route 53's MaxItems are strings
// in the model and numbers in the SDK, S3's part number markers are the reverse, and S3's Expires is a time. Both
// services speak restXml, where a scalar's text is the same either way.
func retyped(shape model.Type, t reflect.Type) (kind, bool) {
	switch {
	case shape == model.String && t.Kind() == reflect.Int32:
		return kindInt, true
	case shape == model.Integer && t.Kind() == reflect.String:
		return kindString, true
	case shape == model.String && t == timeType:
		return kindTime, true
	}
	return 0, false
}

func (b *planner) fillStruct(p *plan) bool {
	for _, m := range p.shape.Members {
		f := newField(m)
		if sf, ok := findField(p.typ, m.Name); ok {
			f.index = sf.Index[0]
			f.plan = b.plan(m.Shape, sf.Type, m.Streaming)
		}
		p.add(f)
	}
	return true
}

func (b *planner) fillUnion(p *plan) bool {
	variants, ok := sdkUnions[p.typ]
	if !ok {
		return false
	}
	p.variants = map[reflect.Type]*field{}
	for _, m := range p.shape.Members {
		f := newField(m)
		for _, v := range variants {
			if strings.EqualFold(v.Name(), p.typ.Name()+"Member"+m.Name) {
				f.variant = v
				f.plan = b.plan(m.Shape, v.Field(0).Type, false)
				p.variants[v] = f
			}
		}
		p.add(f)
	}
	return true
}

func (p *plan) add(f *field) {
	if p.byName == nil {
		n := len(p.shape.Members)
		p.byName = make(map[string]*field, n)
		p.byJSON = make(map[string]*field, n)
		p.byQuery = make(map[string]*field, n)
		p.byEC2 = make(map[string]*field, n)
		p.byXML = make(map[string]*field, n)
	}
	p.fields = append(p.fields, f)
	p.byName[f.m.Name] = f
	if f.m.Location != model.Body {
		return
	}
	p.body = append(p.body, f)
	p.byJSON[f.m.WireName()] = f
	p.byQuery[f.queryName] = f
	p.byEC2[f.ec2Name] = f
	if f.m.XMLAttribute {
		p.attrs = append(p.attrs, f)
	} else {
		p.byXML[f.xmlName] = f
	}
}

func newField(m *model.Member) *field {
	f := &field{m: m, index: -1, xmlName: m.WireName(), queryName: m.WireName()}
	f.jsonKey = string(appendJSONString(nil, m.WireName())) + ":"
	flat := (m.Shape.Type == model.List || m.Shape.Type == model.Map) && m.IsFlattened()
	if flat && m.Shape.Type == model.List && m.Shape.Elem.LocationName != "" {
		// The element name of a flattened list replaces the member's own name.
		f.queryName = m.Shape.Elem.LocationName
		if m.LocationName == "" {
			f.xmlName = f.queryName
		}
	}
	switch {
	case m.QueryName != "":
		f.ec2Name = m.QueryName
	default:
		f.ec2Name = upperFirst(m.WireName())
	}
	return f
}

// findField finds the exported field of the SDK's struct for a member: its name capitalized, or a name that differs
// only in case, with or without the underscore that the SDK appends to names that clash.
func findField(t reflect.Type, member string) (reflect.StructField, bool) {
	if f, ok := t.FieldByName(upperFirst(member)); ok && f.IsExported() && len(f.Index) == 1 {
		return f, true
	}
	for i := range t.NumField() {
		f := t.Field(i)
		if f.IsExported() && !f.Anonymous && f.Name != "ResultMetadata" && strings.EqualFold(strings.TrimSuffix(f.Name, "_"), member) {
			return f, true
		}
	}
	return reflect.StructField{}, false
}

func upperFirst(s string) string {
	if s == "" || s[0] < 'a' || s[0] > 'z' {
		return s
	}
	return string(s[0]-'a'+'A') + s[1:]
}

func lowerFirst(s string) string {
	if s == "" || s[0] < 'A' || s[0] > 'Z' {
		return s
	}
	return string(s[0]-'A'+'a') + s[1:]
}

// alloc returns the value to fill in at v for plan p: v itself, or the target of a newly allocated pointer.
func (p *plan) alloc(v reflect.Value) reflect.Value {
	if !p.ptr {
		return v
	}
	if v.IsNil() {
		v.Set(reflect.New(p.typ))
	}
	return v.Elem()
}

// present returns the value at v without its pointer, and whether to send it. Nil pointers, slices, maps and
// interfaces are not sent, nor are zero strings (enums of the SDK have no pointer). Booleans and numbers without a
// pointer are members that AWS always sends.
func (p *plan) present(v reflect.Value) (reflect.Value, bool) {
	if p.ptr {
		if v.IsNil() {
			return v, false
		}
		return v.Elem(), true
	}
	switch p.kind {
	case kindString:
		return v, v.Len() > 0
	case kindList, kindMap, kindBlob, kindUnion, kindStream, kindDocument:
		return v, !v.IsNil()
	case kindTime:
		return v, !v.IsZero()
	default:
		return v, true
	}
}

// union returns the field and value of the union member that is set.
func (p *plan) union(v reflect.Value) (*field, reflect.Value) {
	if v.Kind() == reflect.Interface {
		v = v.Elem()
	}
	if v.Kind() == reflect.Pointer {
		if v.IsNil() {
			return nil, v
		}
		v = v.Elem()
	}
	f := p.variants[v.Type()]
	if f == nil || f.plan == nil {
		return nil, v
	}
	return f, v.Field(0)
}

// setUnion stores a new value of the union member f in v and returns where to fill it in.
func setUnion(v reflect.Value, f *field) reflect.Value {
	variant := reflect.New(f.variant)
	v.Set(variant)
	return variant.Elem().Field(0)
}
