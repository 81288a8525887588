package server

import (
	"context"
	"errors"
	"fmt"
	"path"
	"reflect"
	"slices"
	"strings"
	"sync"

	"github.com/drydock-dev/drydock/internal/awsapi"
	"github.com/drydock-dev/drydock/internal/awsapi/model"
	"github.com/drydock-dev/drydock/internal/awsapi/wire"
)

// A registry holds the declared services by the names of their models. A service is bound to its model when it is first
// needed, because parsing all models takes longer than anything else the daemon does before it is ready.
type registry struct {
	services map[string]func() *service
	unsigned []string // services with operations that need no signature
}

type service struct {
	awsapi.Service
	refused    map[string]string // why operations are not handled
	model      *model.Service
	operations map[string]*operation
}

// An operation is a declared operation with its model and its handler.
type operation struct {
	awsapi.Operation
	model       *model.Operation
	honours     awsapi.Honours
	all         bool // honours everything ("*")
	readOnly    bool
	input       reflect.Type // the SDK's input struct
	method      reflect.Value
	dryRun      []int                       // the index of the input's DryRun field; nil if it has none
	constraints *wire.Constraints           // the service's
	before      func(context.Context) error // the service's Before; nil if it has none
	// handlesDryRun reports that the handler answers a dry run itself.
	handlesDryRun bool
}

func newRegistry(services []awsapi.Service) (*registry, error) {
	r := &registry{services: map[string]func() *service{}}
	return r, r.add(services)
}

func (r *registry) add(services []awsapi.Service) error {
	var errs []error
	for _, s := range services {
		name, ok := model.Name(s.Name)
		switch {
		case !ok:
			errs = append(errs, fmt.Errorf("no API model %q", s.Name))
			continue
		case r.services[name] != nil:
			errs = append(errs, fmt.Errorf("service %s is declared twice", name))
			continue
		}
		if slices.ContainsFunc(s.Operations, func(o awsapi.Operation) bool { return o.Unsigned }) {
			r.unsigned = append(r.unsigned, name)
		}
		r.services[name] = sync.OnceValue(func() *service {
			svc, err := bind(s)
			if err != nil {
				panic(err) // Compatibility, which tests call with all services, returns it
			}
			return svc
		})
	}
	return errors.Join(errs...)
}

// bind finds the models of a service's operations, corrected by its constraints, and the methods of its handler.
func bind(s awsapi.Service) (*service, error) {
	m, err := model.Get(s.Name)
	if err != nil {
		return nil, err
	}
	svc := &service{Service: s, model: m, operations: map[string]*operation{}, refused: map[string]string{}}
	var errs []error
	constraints, err := wire.NewConstraints(m, s.Constraints)
	if err != nil {
		errs = append(errs, fmt.Errorf("%s: %w", m.Name, err))
	}
	for _, decl := range s.Operations {
		op, err := newOperation(m, s.Handler, decl)
		switch {
		case err != nil:
			errs = append(errs, fmt.Errorf("%s %s: %w", m.Name, decl.Name, err))
			continue
		case svc.operations[decl.Name] != nil:
			errs = append(errs, fmt.Errorf("%s %s: declared twice", m.Name, decl.Name))
		}
		op.constraints, op.before, op.handlesDryRun = constraints, s.Before, s.HandlesDryRun
		svc.operations[decl.Name] = op
	}
	for _, refusal := range s.Refused {
		for _, name := range strings.Fields(refusal.Operations) {
			switch {
			case m.Operations[name] == nil:
				errs = append(errs, fmt.Errorf("%s %s: refused, but AWS has no such operation", m.Name, name))
			case svc.operations[name] != nil:
				errs = append(errs, fmt.Errorf("%s %s: handled and refused", m.Name, name))
			}
			svc.refused[name] = refusal.Why
		}
	}
	return svc, errors.Join(errs...)
}

// service returns the service with a model's name or an SDK package's, or nil if it is not declared.
func (r *registry) service(name string) *service {
	name, _ = model.Name(name)
	if bound := r.services[name]; bound != nil {
		return bound()
	}
	return nil
}

// unsignedOperations yields the operations that need no signature.
func (r *registry) unsignedOperations(yield func(*operation) bool) {
	for _, name := range r.unsigned {
		for _, op := range r.service(name).operations {
			if op.Unsigned && !yield(op) {
				return
			}
		}
	}
}

// bySigningName returns the models of the service in a credential scope.
func bySigningName(name string) []*model.Service {
	var out []*model.Service
	for _, n := range model.BySigningName(name) {
		if m, err := model.Get(n); err == nil {
			out = append(out, m)
		}
	}
	return out
}

// find returns the handled operation, or nil.
func (r *registry) find(svc *model.Service, name string) *operation {
	if s := r.service(svc.Name); s != nil {
		return s.operations[name]
	}
	return nil
}

// byInput returns the handled operation with that input, a pointer to the SDK's struct, or nil.
func (r *registry) byInput(in any) *operation {
	t := reflect.TypeOf(in)
	if t.Kind() != reflect.Pointer {
		return nil
	}
	s := r.service(path.Base(t.Elem().PkgPath()))
	if s == nil {
		return nil
	}
	if op := s.operations[strings.TrimSuffix(t.Elem().Name(), "Input")]; op != nil && op.input == t.Elem() {
		return op
	}
	return nil
}

var (
	contextType = reflect.TypeFor[context.Context]()
	errorType   = reflect.TypeFor[error]()
)

func newOperation(m *model.Service, handler any, decl awsapi.Operation) (*operation, error) {
	op := &operation{Operation: decl, model: m.Operations[decl.Name], honours: awsapi.ParseHonours(decl.Members)}
	if op.model == nil {
		return nil, errors.New("no such operation in the API model")
	}
	op.method = reflect.ValueOf(handler).MethodByName(decl.Name)
	if !op.method.IsValid() {
		return nil, fmt.Errorf("%T has no such method", handler)
	}
	t := op.method.Type()
	want := fmt.Sprintf("func(context.Context, *%[1]s.%[2]sInput) (*%[1]s.%[2]sOutput, error)", m.Package, decl.Name)
	if t.NumIn() != 2 || t.NumOut() != 2 || t.IsVariadic() || t.In(0) != contextType || t.Out(1) != errorType ||
		!isSDKStruct(t.In(1), m.Package, decl.Name+"Input") || !isSDKStruct(t.Out(0), m.Package, decl.Name+"Output") {
		return nil, fmt.Errorf("method is %v, want %s", t, want)
	}
	op.input = t.In(1).Elem()
	if m.Protocol == model.ProtocolEC2 {
		if f, ok := op.input.FieldByName("DryRun"); ok {
			op.dryRun = f.Index
			op.honours = awsapi.ParseHonours(decl.Members + " DryRun")
		}
	}
	for path := range strings.FieldsSeq(decl.Members) {
		if path == "*" {
			op.all = true
		} else if !hasMember(op.model.Input, path) {
			return nil, fmt.Errorf("honours member %q, which the API model does not know", path)
		}
	}
	op.readOnly = decl.ReadOnly
	for _, p := range []string{"Describe", "Get", "List"} {
		op.readOnly = op.readOnly || strings.HasPrefix(decl.Name, p)
	}
	if m.Name == "sts" && strings.HasSuffix(decl.Name, "Token") {
		op.readOnly = false // GetSessionToken and GetFederationToken return credentials
	}
	return op, nil
}

// isSDKStruct reports whether t is a pointer to the SDK's type, or to a type that a service defines in a package of
// the same name because the SDK has no such module.
func isSDKStruct(t reflect.Type, pkg, name string) bool {
	if t.Kind() != reflect.Pointer || t.Elem().Kind() != reflect.Struct || t.Elem().Name() != name {
		return false
	}
	path := t.Elem().PkgPath()
	return path == "github.com/aws/aws-sdk-go-v2/service/"+pkg || path == "github.com/drydock-dev/drydock/internal/service/"+pkg
}

// hasMember reports whether a dotted path of member names exists; lists and maps do not count as levels.
func hasMember(sh *model.Shape, path string) bool {
	for name := range strings.SplitSeq(path, ".") {
		m := structure(sh).Member(name)
		if m == nil {
			return false
		}
		sh = m.Shape
	}
	return true
}

// structure unwraps lists and maps. It returns nil if there is no structure inside.
func structure(sh *model.Shape) *model.Shape {
	for sh != nil {
		switch {
		case sh.Type == model.Structure:
			return sh
		case sh.Elem != nil:
			sh = sh.Elem.Shape
		case sh.Value != nil:
			sh = sh.Value.Shape
		default:
			return nil
		}
	}
	return nil
}

// refused lists the members of a request that the operation does not honour. A member with an empty value (false, 0,
// "", an empty list) is never refused.
func (o *operation) refused(members awsapi.Members, in any) []string {
	var refused []string
	if o.all { // all members, but only those in the model
		for m := range members {
			if !hasMember(o.model.Input, m) {
				refused = append(refused, m)
			}
		}
		slices.Sort(refused)
		return refused
	}
	if refused = o.honours.Refused(members); refused == nil {
		return nil
	}
	filled := wire.Filled(o.model, in)
	return slices.DeleteFunc(refused, func(m string) bool { return hasMember(o.model.Input, m) && !filled.Has(m) })
}

func (o *operation) newInput() any { return reflect.New(o.input).Interface() }

// action returns the operation's IAM action: ec2:RunInstances.
func (o *operation) action() string { return actionName(o.model.Service, o.Name) }

func actionName(svc *model.Service, op string) string { return svc.SigningName + ":" + op }

func (o *operation) isDryRun(in any) bool {
	if o.dryRun == nil {
		return false
	}
	v := reflect.ValueOf(in).Elem().FieldByIndex(o.dryRun)
	if v.Kind() == reflect.Pointer {
		return !v.IsNil() && v.Elem().Bool()
	}
	return v.Kind() == reflect.Bool && v.Bool()
}

func (o *operation) invoke(ctx context.Context, in any) (any, error) {
	if o.before != nil {
		if err := o.before(ctx); err != nil {
			return nil, err
		}
	}
	res := o.method.Call([]reflect.Value{reflect.ValueOf(ctx), reflect.ValueOf(in)})
	if err, ok := res[1].Interface().(error); ok && err != nil {
		return nil, err
	}
	if res[0].IsNil() {
		return nil, errors.New("handler returned neither an answer nor an error")
	}
	return res[0].Interface(), nil
}
