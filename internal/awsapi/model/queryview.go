package model

// SQS is the one service that changed its protocol: it speaks JSON and still answers the query requests of SDKs from
// before 2023. Its model no longer has the names of the query form, so they are restored here. Source:
// models/apis/sqs/2012-11-05/api-2.json in aws-sdk-go v1.44.332, the last line of releases with a query client;
// package wire tests against that client.

// queryMembers are the members' names on the wire.
var queryMembers = map[string]string{
	"Attributes":              "Attribute",
	"BinaryListValues":        "BinaryListValue",
	"MessageAttributes":       "MessageAttribute",
	"MessageSystemAttributes": "MessageSystemAttribute",
	"StringListValues":        "StringListValue",
	"Tags":                    "Tag",
	"tags":                    "Tag",
}

// queryElements are the element names of lists of scalars. Elements that are structures are named after their shape.
var queryElements = map[string]string{
	"AWSAccountIdList":           "AWSAccountId",
	"ActionNameList":             "ActionName",
	"AttributeNameList":          "AttributeName",
	"BinaryList":                 "BinaryListValue",
	"MessageAttributeNameList":   "MessageAttributeName",
	"MessageSystemAttributeList": "MessageSystemAttributeName",
	"QueueUrlList":               "QueueUrl",
	"StringList":                 "StringListValue",
	"TagKeyList":                 "TagKey",
}

// queryView copies a query-compatible service as a service of the query protocol.
func queryView(s *Service) *Service {
	v := *s
	v.Protocol = ProtocolQuery
	v.QueryCompatible = false
	v.XMLNamespace = "http://" + v.EndpointPrefix + ".amazonaws.com/doc/" + v.APIVersion + "/"
	c := queryCopier{}
	v.Operations = make(map[string]*Operation, len(s.Operations))
	for name, op := range s.Operations {
		o := *op
		o.Service = &v
		o.Input, o.Output = c.shape(op.Input), c.shape(op.Output)
		v.Operations[name] = &o
	}
	return &v
}

// A queryCopier copies shapes, each only once.
type queryCopier map[*Shape]*Shape

func (c queryCopier) shape(s *Shape) *Shape {
	if s == nil || s.Name == "" {
		return s
	}
	if n, ok := c[s]; ok {
		return n
	}
	n := *s
	c[s] = &n
	n.Elem, n.Key, n.Value = c.member(s.Elem), c.member(s.Key), c.member(s.Value)
	switch s.Type {
	case List:
		n.Elem.LocationName = queryElements[s.Name]
		if n.Elem.LocationName == "" {
			n.Elem.LocationName = s.Elem.Shape.Name
		}
	case Map:
		n.Key.LocationName, n.Value.LocationName = "Name", "Value"
		if s.Name == "TagMap" {
			n.Key.LocationName = "Key"
		}
	case Structure:
		n.Members = nil
		n.byName = make(map[string]*Member, len(s.Members))
		for _, m := range s.Members {
			m := c.member(m)
			if q := queryMembers[m.Name]; q != "" {
				m.LocationName = q
			}
			n.Members = append(n.Members, m)
			n.byName[m.Name] = m
		}
	}
	return &n
}

func (c queryCopier) member(m *Member) *Member {
	if m == nil {
		return nil
	}
	n := *m
	n.Shape = c.shape(m.Shape)
	return &n
}
