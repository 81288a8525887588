package wire

import (
	"net/url"
	"sort"
	"strconv"
	"strings"

	"github.com/drydock-dev/drydock/internal/awsapi/awserr"
	"github.com/drydock-dev/drydock/internal/awsapi/model"
)

// A formNode is one name in the tree formed by the dotted parameters of a query request: Filter.1.Value.2=x is Filter
// → 1 → Value → 2.
type formNode struct {
	up    *formNode
	name  string
	value string
	set   bool // it has a value of its own
	kids  []*formNode
	index map[string]*formNode // of kids, once there are several
}

// path is the parameter's name up to this node.
func (n *formNode) path() string {
	if n.up == nil {
		return ""
	}
	return join(n.up.path(), n.name)
}

func (n *formNode) kid(name string) *formNode {
	if n.index != nil {
		return n.index[name]
	}
	for _, k := range n.kids {
		if k.name == name {
			return k
		}
	}
	return nil
}

// A formParser reads parameters into a tree.
type formParser struct {
	svc  *model.Service
	root *formNode
	left int // how many more names may be added
}

// add returns n's child with that name, adding it if needed, or nil if there are too many names.
func (p *formParser) add(n *formNode, name string) *formNode {
	if k := n.kid(name); k != nil {
		return k
	}
	if p.left--; p.left < 0 {
		return nil
	}
	k := &formNode{up: n, name: name}
	n.kids = append(n.kids, k)
	if n.index != nil {
		n.index[name] = k
	} else if len(n.kids) > 8 {
		n.index = make(map[string]*formNode, 2*len(n.kids))
		for _, k := range n.kids {
			n.index[k.name] = k
		}
	}
	return k
}

// items returns the children of a list or map in the order of their numbers, and the first child that is not a
// number. Positions may have gaps and be arbitrarily large: the list has as many elements as there are parameters.
func (n *formNode) items() (items []*formNode, stray *formNode) {
	type item struct {
		n   uint64
		kid *formNode
	}
	list := make([]item, 0, len(n.kids))
	for _, k := range n.kids {
		i, err := strconv.ParseUint(k.name, 10, 32)
		if err != nil {
			return nil, k
		}
		list = append(list, item{i, k})
	}
	sort.SliceStable(list, func(i, j int) bool { return list[i].n < list[j].n })
	for _, i := range list {
		items = append(items, i.kid)
	}
	return items, nil
}

// parseForm reads the parameters of a query request: those of the URL and of the body, if there is one. If a
// parameter is repeated, the first counts.
func parseForm(svc *model.Service, req *Request) (*formNode, error) {
	p := &formParser{svc: svc, root: &formNode{}, left: maxNames}
	for _, s := range []string{req.RawQuery, string(req.Body)} {
		for s != "" {
			var pair string
			pair, s, _ = strings.Cut(s, "&")
			if pair == "" {
				continue
			}
			if err := p.parse(pair); err != nil {
				return nil, err
			}
		}
	}
	return p.root, nil
}

func (p *formParser) parse(pair string) error {
	k, v, _ := strings.Cut(pair, "=")
	key, err := url.QueryUnescape(k)
	if err == nil {
		v, err = url.QueryUnescape(v)
	}
	if err != nil || key == "" {
		return malformed(p.svc, "Keys and values of the query string must be URL-encoded: "+clip(strconv.Quote(pair)))
	}
	if isRequestParam(key) {
		return nil
	}
	if strings.Count(key, ".") > maxDepth {
		return tooDeep(p.svc)
	}
	at := p.root
	for rest, more := key, true; more; {
		var name string
		name, rest, more = strings.Cut(rest, ".")
		if at = p.add(at, name); at == nil {
			return tooMany(p.svc)
		}
	}
	if !at.set {
		at.value, at.set = v, true
	}
	return nil
}

// isRequestParam reports whether a parameter belongs to the request and its signature rather than the operation.
// Signature version 2 is long gone, but clients that presign still send some of its parameters.
func isRequestParam(key string) bool {
	switch key {
	case "Action", "Version", "AWSAccessKeyId", "Signature", "SignatureMethod", "SignatureVersion",
		"Timestamp", "Expires", "SecurityToken", "x-id", "ContentType": // cfn-signal sends ContentType=JSON besides its Accept header
		return true
	}
	return len(key) > 6 && strings.EqualFold(key[:6], "x-amz-")
}

// invalidText is the error for a parameter's value of the wrong type.
func (d *decoder) invalidText(p *plan, param, value string) *awserr.Error {
	return validation(d.op.Service).invalid(param, value, strings.ToLower(p.typeName()))
}
