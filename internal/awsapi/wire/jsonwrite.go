package wire

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"math"
	"reflect"
	"time"
	"unicode/utf8"

	"github.com/aws/smithy-go/document"

	"github.com/drydock-dev/drydock/internal/awsapi/model"
)

// A jsonWriter appends structs as JSON.
type jsonWriter struct {
	b []byte
}

// structure appends the body members of the struct or union v as an object.
func (w *jsonWriter) structure(p *plan, v reflect.Value) error {
	w.b = append(w.b, '{')
	if err := w.members(p, v, true, nil); err != nil {
		return err
	}
	w.b = append(w.b, '}')
	return nil
}

// members appends the members without braces. first says whether no member comes before them, and skip is the name of
// a member to leave out.
func (w *jsonWriter) members(p *plan, v reflect.Value, first bool, skip *field) error {
	if p.kind == kindUnion {
		f, val := p.union(v)
		if f == nil {
			return nil
		}
		if val, ok := f.plan.present(val); ok || f.plan.kind == kindString {
			w.b = append(w.b, f.jsonKey...)
			return w.value(f.m, f.plan, val)
		}
		return nil
	}
	for _, f := range p.body {
		if f.plan == nil || f == skip {
			continue
		}
		val, ok := f.plan.present(v.Field(f.index))
		if !ok {
			continue
		}
		if !first {
			w.b = append(w.b, ',')
		}
		first = false
		w.b = append(w.b, f.jsonKey...)
		if err := w.value(f.m, f.plan, val); err != nil {
			return err
		}
	}
	return nil
}

// value appends v, which must be present.
func (w *jsonWriter) value(m *model.Member, p *plan, v reflect.Value) error {
	switch p.kind {
	case kindString:
		w.b = appendJSONString(w.b, v.String())
	case kindBool, kindInt:
		w.b = p.appendText(w.b, v, "", false)
	case kindFloat:
		if f := v.Float(); math.IsNaN(f) || math.IsInf(f, 0) {
			w.b = append(w.b, '"')
			w.b = appendFloat(w.b, f, 64)
			w.b = append(w.b, '"')
		} else {
			w.b = appendFloat(w.b, f, p.typ.Bits())
		}
	case kindTime:
		t := v.Interface().(time.Time)
		if m == nil || m.TimestampFormat == "" || m.TimestampFormat == formatUnix {
			w.b = appendTime(w.b, t, formatUnix, false)
		} else {
			w.b = append(w.b, '"')
			w.b = appendTime(w.b, t, m.TimestampFormat, false)
			w.b = append(w.b, '"')
		}
	case kindBlob:
		w.b = append(w.b, '"')
		w.b = base64.StdEncoding.AppendEncode(w.b, v.Bytes())
		w.b = append(w.b, '"')
	case kindDocument:
		return w.document(v)
	case kindList:
		w.b = append(w.b, '[')
		for i := range v.Len() {
			if i > 0 {
				w.b = append(w.b, ',')
			}
			if err := w.item(p.shape.Elem, p.elem, v.Index(i)); err != nil {
				return err
			}
		}
		w.b = append(w.b, ']')
	case kindMap:
		w.b = append(w.b, '{')
		for i, k := range sortedMapKeys(v) {
			if i > 0 {
				w.b = append(w.b, ',')
			}
			w.b = appendJSONString(w.b, k.String())
			w.b = append(w.b, ':')
			if err := w.item(p.shape.Value, p.elem, v.MapIndex(k)); err != nil {
				return err
			}
		}
		w.b = append(w.b, '}')
	case kindStruct, kindUnion:
		return w.structure(p, v)
	default:
		return fmt.Errorf("wire: a stream cannot be part of a JSON body")
	}
	return nil
}

// item appends an element of a list or a value of a map. Unlike members, nil becomes null and a zero string is
// written.
func (w *jsonWriter) item(m *model.Member, p *plan, v reflect.Value) error {
	val, ok := p.present(v)
	if !ok && p.kind != kindString || !ok && p.ptr {
		w.b = append(w.b, "null"...)
		return nil
	}
	return w.value(m, p, val)
}

func (w *jsonWriter) document(v reflect.Value) error {
	val := v.Interface()
	if u, ok := val.(document.Unmarshaler); ok {
		var plain any
		if err := u.UnmarshalSmithyDocument(&plain); err != nil {
			return fmt.Errorf("wire: document: %w", err)
		}
		val = plain
	}
	b, err := json.Marshal(val)
	if err != nil {
		return fmt.Errorf("wire: document: %w", err)
	}
	w.b = append(w.b, b...)
	return nil
}

const hexDigits = "0123456789abcdef"

// appendJSONString appends s quoted. Invalid UTF-8 becomes U+FFFD.
func appendJSONString(b []byte, s string) []byte {
	b = append(b, '"')
	last := 0
	for i := 0; i < len(s); {
		c := s[i]
		if c >= 0x20 && c < utf8.RuneSelf && c != '"' && c != '\\' {
			i++
			continue
		}
		if c >= utf8.RuneSelf {
			r, size := utf8.DecodeRuneInString(s[i:])
			if r == utf8.RuneError && size == 1 {
				b = append(b, s[last:i]...)
				b = append(b, "\uFFFD"...)
				i++
				last = i
				continue
			}
			i += size
			continue
		}
		b = append(b, s[last:i]...)
		switch c {
		case '"', '\\':
			b = append(b, '\\', c)
		case '\n':
			b = append(b, '\\', 'n')
		case '\r':
			b = append(b, '\\', 'r')
		case '\t':
			b = append(b, '\\', 't')
		default:
			b = append(b, '\\', 'u', '0', '0', hexDigits[c>>4], hexDigits[c&15])
		}
		i++
		last = i
	}
	b = append(b, s[last:]...)
	return append(b, '"')
}
