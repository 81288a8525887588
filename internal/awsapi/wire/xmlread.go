package wire

import (
	"bytes"
	"encoding/xml"
	"errors"
	"io"
	"reflect"
	"strings"

	"github.com/drydock-dev/drydock/internal/awsapi/model"
)

// An xmlNode is an element of a request's XML body.
type xmlNode struct {
	name  string // without prefix
	attrs []xml.Attr
	text  []byte
	kids  []*xmlNode
}

var errXML = errors.New("malformed XML")

// parseXML reads a body into a tree. It rejects document types, and with them sender-defined entities, and nesting
// beyond maxDepth.
func parseXML(svc *model.Service, body []byte) (*xmlNode, error) {
	n, err := readXML(body)
	if err != nil {
		return nil, malformed(svc, "The request body is not well-formed XML.")
	}
	return n, nil
}

func readXML(body []byte) (*xmlNode, error) {
	dec := xml.NewDecoder(bytes.NewReader(body))
	dec.CharsetReader = func(charset string, in io.Reader) (io.Reader, error) {
		if strings.EqualFold(charset, "utf-8") {
			return in, nil
		}
		return nil, errXML
	}
	var root *xmlNode
	var stack []*xmlNode
	elements := 0
	for {
		tok, err := dec.Token()
		if err == io.EOF {
			break
		}
		if err != nil {
			return nil, err
		}
		switch t := tok.(type) {
		case xml.Directive: // <!DOCTYPE …>
			return nil, errXML
		case xml.StartElement:
			n := &xmlNode{name: t.Name.Local, attrs: t.Attr}
			switch elements++; {
			case len(stack) >= maxDepth, elements > maxValues:
				return nil, errXML
			case len(stack) > 0:
				top := stack[len(stack)-1]
				top.kids = append(top.kids, n)
			case root != nil:
				return nil, errXML
			default:
				root = n
			}
			stack = append(stack, n)
		case xml.EndElement:
			stack = stack[:len(stack)-1]
		case xml.CharData:
			if len(stack) > 0 {
				top := stack[len(stack)-1]
				top.text = append(top.text, t...)
			}
		}
	}
	if root == nil || len(stack) > 0 {
		return nil, errXML
	}
	return root, nil
}

// xmlStruct fills in the struct or union v from the children of n.
func (d *decoder) xmlStruct(n *xmlNode, p *plan, v reflect.Value, path, wire string) error {
	flat := map[*field][]*xmlNode{}
	for _, k := range n.kids {
		f := p.byXML[k.name]
		at := join(wire, k.name)
		if f == nil {
			d.unknown(at)
			continue
		}
		mpath := join(path, f.m.Name)
		d.members.Add(mpath)
		if f.plan == nil {
			d.unknown(at)
			continue
		}
		if (f.plan.kind == kindList || f.plan.kind == kindMap) && f.m.IsFlattened() {
			flat[f] = append(flat[f], k)
			continue
		}
		target := v
		if p.kind == kindUnion {
			target = setUnion(v, f)
		} else {
			target = v.Field(f.index)
		}
		if err := d.xmlValue(k, f.plan, target, mpath, at); err != nil {
			return err
		}
	}
	for _, f := range p.body {
		kids := flat[f]
		if kids == nil {
			continue
		}
		target := v
		if p.kind == kindUnion {
			target = setUnion(v, f)
		} else {
			target = v.Field(f.index)
		}
		var err error
		if f.plan.kind == kindList {
			err = d.xmlList(kids, f.plan, target, join(path, f.m.Name), join(wire, f.xmlName))
		} else {
			err = d.xmlMap(kids, f.plan, target, join(path, f.m.Name), join(wire, f.xmlName))
		}
		if err != nil {
			return err
		}
	}
	for _, f := range p.attrs {
		for _, a := range n.attrs {
			if local := f.xmlName[strings.IndexByte(f.xmlName, ':')+1:]; a.Name.Local != local {
				continue
			}
			d.members.Add(join(path, f.m.Name))
			if err := d.text(f, v, a.Value, join(wire, f.xmlName)); err != nil {
				return err
			}
		}
	}
	return nil
}

func (d *decoder) xmlValue(n *xmlNode, p *plan, v reflect.Value, path, wire string) error {
	switch p.kind {
	case kindStruct, kindUnion:
		return d.xmlStruct(n, p, p.alloc(v), path, wire)
	case kindList:
		return d.xmlList(n.kids, p, v, path, wire)
	case kindMap:
		return d.xmlMap(n.kids, p, v, path, wire)
	case kindStream, kindDocument:
		d.unknown(wire)
		return nil
	default:
		if len(n.kids) > 0 {
			return malformed(d.op.Service, "Unexpected element "+n.kids[0].name+".")
		}
		s := string(n.text)
		if p.kind != kindString {
			s = strings.TrimSpace(s)
		}
		if !p.setText(v, s) {
			return d.invalidText(p, wire, s)
		}
		return nil
	}
}

func (d *decoder) xmlList(items []*xmlNode, p *plan, v reflect.Value, path, wire string) error {
	list := reflect.MakeSlice(p.typ, len(items), len(items))
	for i, k := range items {
		if err := d.xmlValue(k, p.elem, list.Index(i), path, join(wire, clip(k.name))); err != nil {
			return err
		}
	}
	p.alloc(v).Set(list)
	return nil
}

func (d *decoder) xmlMap(entries []*xmlNode, p *plan, v reflect.Value, path, wire string) error {
	keyName, valueName := mapNames(p.shape)
	out := reflect.MakeMap(p.typ)
	for _, e := range entries {
		key, value := reflect.New(p.typ.Key()).Elem(), reflect.New(p.typ.Elem()).Elem()
		for _, k := range e.kids {
			var err error
			switch k.name {
			case keyName:
				err = d.xmlValue(k, p.key, key, path, wire)
			case valueName:
				err = d.xmlValue(k, p.elem, value, path, wire)
			default:
				d.unknown(join(wire, k.name))
			}
			if err != nil {
				return err
			}
		}
		out.SetMapIndex(key, value)
	}
	p.alloc(v).Set(out)
	return nil
}
