package wire

import (
	"reflect"
	"sort"
	"unicode/utf8"

	"github.com/drydock-dev/drydock/internal/awsapi/model"
)

// An xmlWriter appends structs as XML, in the form that ec2query, awsquery and
// restXml share.
type xmlWriter struct {
	b      []byte
	millis bool // timestamps always carry milliseconds
}

func (w *xmlWriter) open(name, namespace string) {
	w.b = append(append(w.b, '<'), name...)
	if namespace != "" {
		w.namespace("", namespace)
	}
	w.b = append(w.b, '>')
}

func (w *xmlWriter) namespace(prefix, uri string) {
	w.b = append(w.b, " xmlns"...)
	if prefix != "" {
		w.b = append(append(w.b, ':'), prefix...)
	}
	w.b = append(w.b, `="`...)
	w.b = appendXMLText(w.b, uri)
	w.b = append(w.b, '"')
}

func (w *xmlWriter) close(name string) {
	w.b = append(append(append(w.b, "</"...), name...), '>')
}

func (w *xmlWriter) element(name, text string) {
	w.open(name, "")
	w.b = appendXMLText(w.b, text)
	w.close(name)
}

// structure appends the members of the struct or union v.
func (w *xmlWriter) structure(p *plan, v reflect.Value) {
	if p.kind == kindUnion {
		if f, val := p.union(v); f != nil {
			w.member(f, val)
		}
		return
	}
	for _, f := range p.body {
		if f.plan != nil && !f.m.XMLAttribute {
			w.member(f, v.Field(f.index))
		}
	}
}

func (w *xmlWriter) member(f *field, v reflect.Value) {
	v, ok := f.plan.present(v)
	if !ok {
		return
	}
	w.named(f.xmlName, f.m, f.plan, v)
}

// named appends v as an element, or as several for a flattened list or map.
func (w *xmlWriter) named(name string, m *model.Member, p *plan, v reflect.Value) {
	switch p.kind {
	case kindList:
		w.list(name, m, p, v)
	case kindMap:
		w.mapping(name, m, p, v)
	case kindStruct, kindUnion:
		w.start(name, m, p, v)
		at := len(w.b)
		w.structure(p, v)
		w.end(name, at)
	case kindDocument, kindStream:
		// neither occurs in an XML protocol's body
	default:
		w.start(name, m, p, v)
		at := len(w.b)
		if p.kind == kindString {
			w.b = appendXMLText(w.b, v.String())
		} else {
			w.b = p.appendText(w.b, v, m.TimestampFormat, w.millis)
		}
		w.end(name, at)
	}
}

// start writes an element's start tag with its namespace and attributes.
func (w *xmlWriter) start(name string, m *model.Member, p *plan, v reflect.Value) {
	w.b = append(append(w.b, '<'), name...)
	if m != nil && m.XMLNamespace != "" {
		w.namespace(m.XMLPrefix, m.XMLNamespace)
	}
	if p.kind == kindStruct {
		for _, f := range p.attrs {
			if f.plan == nil {
				continue
			}
			a, ok := f.plan.present(v.Field(f.index))
			if !ok {
				continue
			}
			w.b = append(append(append(w.b, ' '), f.xmlName...), `="`...)
			w.b = appendXMLText(w.b, string(f.plan.appendText(nil, a, f.m.TimestampFormat, w.millis)))
			w.b = append(w.b, '"')
		}
	}
	w.b = append(w.b, '>')
}

// end closes an element whose content began at position at. An element without content becomes <name/>.
func (w *xmlWriter) end(name string, at int) {
	if len(w.b) == at {
		w.b = append(w.b[:at-1], "/>"...)
		return
	}
	w.close(name)
}

func (w *xmlWriter) list(name string, m *model.Member, p *plan, v reflect.Value) {
	if m != nil && m.IsFlattened() {
		for i := range v.Len() {
			w.item(name, p.shape.Elem, p.elem, v.Index(i))
		}
		return
	}
	elem := p.shape.Elem.LocationName
	if elem == "" {
		elem = "member"
	}
	w.start(name, m, p, v)
	at := len(w.b)
	for i := range v.Len() {
		w.item(elem, p.shape.Elem, p.elem, v.Index(i))
	}
	w.end(name, at)
}

// item appends an element of a list or a value of a map. Unlike a member, it is sent even if it is a zero string.
func (w *xmlWriter) item(name string, m *model.Member, p *plan, v reflect.Value) {
	v, ok := p.present(v)
	if !ok {
		w.b = append(append(append(w.b, '<'), name...), "/>"...)
		return
	}
	w.named(name, m, p, v)
}

func (w *xmlWriter) mapping(name string, m *model.Member, p *plan, v reflect.Value) {
	flat := m != nil && m.IsFlattened()
	entry := "entry"
	at := 0
	if flat {
		entry = name
	} else {
		w.start(name, m, p, v)
		at = len(w.b)
	}
	keyName, valueName := mapNames(p.shape)
	for _, k := range sortedMapKeys(v) {
		w.open(entry, "")
		w.element(keyName, k.String())
		w.item(valueName, p.shape.Value, p.elem, v.MapIndex(k))
		w.close(entry)
	}
	if !flat {
		w.end(name, at)
	}
}

func sortedMapKeys(v reflect.Value) []reflect.Value {
	keys := v.MapKeys()
	sort.Slice(keys, func(i, j int) bool { return keys[i].String() < keys[j].String() })
	return keys
}

// appendXMLText appends s escaped for text and attributes. A carriage return is escaped because XML parsers turn it
// into a newline. Characters that XML cannot represent become U+FFFD.
func appendXMLText(b []byte, s string) []byte {
	last := 0
	for i := 0; i < len(s); {
		c := s[i]
		if c >= 0x20 && c < utf8.RuneSelf && c != '<' && c != '>' && c != '&' && c != '"' {
			i++
			continue
		}
		r, size := rune(c), 1
		if c >= utf8.RuneSelf {
			if r, size = utf8.DecodeRuneInString(s[i:]); (r != utf8.RuneError || size > 1) && r != 0xFFFE && r != 0xFFFF {
				i += size
				continue
			}
		}
		b = append(b, s[last:i]...)
		switch r {
		case '<':
			b = append(b, "&lt;"...)
		case '>':
			b = append(b, "&gt;"...)
		case '&':
			b = append(b, "&amp;"...)
		case '"':
			b = append(b, "&quot;"...)
		case '\t':
			b = append(b, "&#x9;"...)
		case '\n':
			b = append(b, "&#xA;"...)
		case '\r':
			b = append(b, "&#xD;"...)
		default:
			b = append(b, "\uFFFD"...)
		}
		i += size
		last = i
	}
	return append(b, s[last:]...)
}
