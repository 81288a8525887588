package wire

import (
	"bytes"
	"encoding/json"
	"io"
	"math"
	"reflect"
	"strconv"
	"strings"

	"github.com/drydock-dev/drydock/internal/awsapi/model"
)

// parseJSON reads a body that holds one JSON value. An empty body is an empty object. Numbers are kept as text.
func parseJSON(svc *model.Service, body []byte) (any, error) {
	if len(bytes.TrimSpace(body)) == 0 {
		return map[string]any{}, nil
	}
	switch depth, values := measure(body); {
	case depth > maxDepth:
		return nil, tooDeep(svc)
	case values > maxValues:
		return nil, tooMany(svc)
	}
	dec := json.NewDecoder(bytes.NewReader(body))
	dec.UseNumber()
	var v any
	if err := dec.Decode(&v); err != nil {
		return nil, malformed(svc, "The request body is not valid JSON.")
	}
	if _, err := dec.Token(); err != io.EOF {
		return nil, malformed(svc, "The request body has data after its JSON value.")
	}
	return v, nil
}

// measure returns how deeply brackets nest outside strings, and the maximum number of values.
func measure(body []byte) (most, values int) {
	depth := 0
	inString, escaped := false, false
	for _, c := range body {
		switch {
		case escaped:
			escaped = false
		case inString:
			switch c {
			case '\\':
				escaped = true
			case '"':
				inString = false
			}
		case c == '"':
			inString = true
		case c == ',':
			values++
		case c == '{' || c == '[':
			values++
			if depth++; depth > most {
				most = depth
			}
		case c == '}' || c == ']':
			depth--
		}
	}
	return most, values
}

// jsonStruct fills in the struct or union v from a JSON object. As on AWS, a null is an absent member.
func (d *decoder) jsonStruct(j any, p *plan, v reflect.Value, path, wire string) error {
	obj, ok := j.(map[string]any)
	if !ok {
		return malformed(d.op.Service, expected("structure", j))
	}
	for _, f := range p.body {
		val := obj[f.m.WireName()]
		if val == nil {
			continue
		}
		at := join(wire, f.m.WireName())
		mpath := join(path, f.m.Name)
		d.members.Add(mpath)
		if f.plan == nil {
			d.unknown(at)
			continue
		}
		target := v
		if p.kind == kindUnion {
			if !v.IsNil() {
				return malformed(d.op.Service, "Cannot have multiple values set for union "+p.shape.Name+".")
			}
			target = setUnion(v, f)
		} else {
			target = v.Field(f.index)
		}
		if err := d.jsonValue(val, f.m, f.plan, target, mpath, at); err != nil {
			return err
		}
	}
	for name, val := range obj {
		// some clients send __type, the name of a structure's type
		if val != nil && p.byJSON[name] == nil && name != "__type" {
			d.unknown(join(wire, name))
		}
	}
	return nil
}

func (d *decoder) jsonValue(j any, m *model.Member, p *plan, v reflect.Value, path, wire string) error {
	svc := d.op.Service
	switch p.kind {
	case kindStruct, kindUnion:
		return d.jsonStruct(j, p, p.alloc(v), path, wire)
	case kindList:
		arr, ok := j.([]any)
		if !ok {
			return malformed(svc, expected("list", j))
		}
		list := reflect.MakeSlice(p.typ, len(arr), len(arr))
		for i, val := range arr {
			if val == nil {
				continue
			}
			if err := d.jsonValue(val, p.shape.Elem, p.elem, list.Index(i), path, wire+"/"+strconv.Itoa(i+1)); err != nil {
				return err
			}
		}
		p.alloc(v).Set(list)
		return nil
	case kindMap:
		obj, ok := j.(map[string]any)
		if !ok {
			return malformed(svc, expected("map", j))
		}
		out := reflect.MakeMapWithSize(p.typ, len(obj))
		for name, val := range obj {
			elem := reflect.New(p.typ.Elem()).Elem()
			if val != nil {
				if err := d.jsonValue(val, p.shape.Value, p.elem, elem, path, wire+"/"+clip(name)); err != nil {
					return err
				}
			}
			out.SetMapIndex(reflect.ValueOf(name).Convert(p.typ.Key()), elem)
		}
		p.alloc(v).Set(out)
		return nil
	case kindDocument:
		return d.jsonDocument(j, p, v, wire)
	case kindStream:
		d.unknown(wire)
		return nil
	}
	switch j := j.(type) {
	case []any:
		return malformed(svc, "Start of list found where not expected")
	case map[string]any:
		return malformed(svc, "Start of structure or map found where not expected.")
	case bool:
		if p.kind == kindBool {
			p.alloc(v).SetBool(j)
			return nil
		}
		return malformed(svc, strings.ToUpper(strconv.FormatBool(j))+"_VALUE can not be converted to "+article(p.typeName()))
	case json.Number:
		if p.setNumber(v, j.String()) {
			return nil
		}
		return malformed(svc, "NUMBER_VALUE can not be converted to "+article(p.typeName()))
	case string:
		ok := false
		switch p.kind {
		case kindString, kindBlob, kindTime:
			ok = p.setText(v, j)
		case kindFloat:
			ok = (j == "NaN" || j == "Infinity" || j == "-Infinity") && p.setText(v, j)
		}
		if ok {
			return nil
		}
		return malformed(svc, "STRING_VALUE can not be converted to "+article(p.typeName()))
	}
	return malformed(svc, "Unexpected value")
}

// setNumber sets a JSON number. An integer may be written as 1.0 or 1e3.
func (p *plan) setNumber(v reflect.Value, s string) bool {
	switch p.kind {
	case kindInt:
		if p.setText(v, s) {
			return true
		}
		f, ok := parseFloat(s, 64)
		if !ok || f != math.Trunc(f) || math.Abs(f) > 1<<53 {
			return false
		}
		return p.setText(v, strconv.FormatInt(int64(f), 10))
	case kindFloat:
		return p.setText(v, s)
	case kindTime:
		t, ok := parseUnix(s)
		if ok {
			p.alloc(v).Set(reflect.ValueOf(t))
		}
		return ok
	default:
		return false
	}
}

func expected(want string, got any) string {
	switch got.(type) {
	case []any:
		return "Start of list found where not expected"
	case map[string]any:
		return "Start of structure or map found where not expected."
	}
	return "Expected " + want + " or null"
}

func article(noun string) string {
	if strings.ContainsRune("AEIO", rune(noun[0])) {
		return "an " + noun
	}
	return "a " + noun
}

// A jsonDocument is a document member of a request.
type jsonDocument struct{ value any }

// UnmarshalSmithyDocument implements document.Unmarshaler.
func (d jsonDocument) UnmarshalSmithyDocument(into any) error {
	b, err := json.Marshal(d.value)
	if err != nil {
		return err
	}
	return json.Unmarshal(b, into)
}

// MarshalSmithyDocument implements document.Marshaler.
func (d jsonDocument) MarshalSmithyDocument() ([]byte, error) { return json.Marshal(d.value) }

func (d *decoder) jsonDocument(j any, p *plan, v reflect.Value, wire string) error {
	doc := reflect.ValueOf(jsonDocument{j})
	switch {
	case p.typ.NumMethod() == 0:
		p.alloc(v).Set(reflect.ValueOf(j))
	case doc.Type().Implements(p.typ):
		p.alloc(v).Set(doc)
	default:
		d.unknown(wire) // the SDK's document type cannot be created outside the SDK
	}
	return nil
}
