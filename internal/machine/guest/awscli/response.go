package awscli

import (
	"bytes"
	"encoding/json"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"math"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/drydock-dev/drydock/internal/awsapi/model"
)

// parse decodes an answer into values by member name.
func parse(op *model.Operation, resp *http.Response, body []byte) (map[string]any, error) {
	if op.Output == nil {
		return map[string]any{}, nil
	}
	switch op.Service.Protocol {
	case model.ProtocolQuery, model.ProtocolEC2:
		root, err := parseXML(body)
		if err != nil {
			return nil, err
		}
		if w := root.kid(op.ResultWrapper); op.ResultWrapper != "" && w != nil {
			root = w
		}
		return fromXML(op.Output, root), nil
	}
	out := map[string]any{}
	if len(bytes.TrimSpace(body)) > 0 {
		var doc map[string]any
		if err := json.Unmarshal(body, &doc); err != nil {
			return nil, fmt.Errorf("Unable to parse response (%w), invalid JSON received:\n%.200q", err, body) //nolint:staticcheck // botocore's text
		}
		out = fromJSON(op.Output, doc).(map[string]any)
	}
	for _, m := range op.Output.Members {
		if m.Location == model.Header && resp.Header.Get(m.WireName()) != "" {
			out[m.Name] = resp.Header.Get(m.WireName())
		}
	}
	return out, nil
}

// fromJSON renames members from their wire names and formats times like the CLI. A null value is treated as missing.
func fromJSON(s *model.Shape, v any) any {
	switch v := v.(type) {
	case map[string]any:
		out := map[string]any{}
		switch s.Type {
		case model.Structure:
			for _, m := range s.Members {
				if x, ok := v[m.WireName()]; ok && x != nil {
					out[m.Name] = fromJSON(m.Shape, x)
				}
			}
		case model.Map:
			for k, x := range v {
				if x != nil {
					out[k] = fromJSON(s.Value.Shape, x)
				}
			}
		default:
			return v
		}
		return out
	case []any:
		if s.Elem == nil {
			return v
		}
		out := make([]any, len(v))
		for i, x := range v {
			out[i] = fromJSON(s.Elem.Shape, x)
		}
		return out
	case float64:
		if s.Type == model.Timestamp {
			sec, frac := math.Modf(v)
			return isoTime(time.Unix(int64(sec), int64(math.Round(frac*1e6))*1000))
		}
	case string:
		if s.Type == model.Timestamp {
			return textTime(v)
		}
	}
	return v
}

// isoTime formats a time like the CLI, with microseconds if they are not zero.
func isoTime(t time.Time) string {
	t = t.UTC()
	if t.Nanosecond() == 0 {
		return t.Format("2006-01-02T15:04:05+00:00")
	}
	return t.Format("2006-01-02T15:04:05.000000+00:00")
}

func textTime(s string) string {
	for _, layout := range []string{time.RFC3339Nano, http.TimeFormat} {
		if t, err := time.Parse(layout, s); err == nil {
			return isoTime(t)
		}
	}
	return s
}

// An element is an XML element of an answer.
type element struct {
	name string
	text []byte
	kids []*element
}

func (e *element) kid(name string) *element {
	for _, k := range e.kids {
		if k.name == name {
			return k
		}
	}
	return nil
}

func (e *element) textOf(name string) string {
	if k := e.kid(name); k != nil {
		return string(k.text)
	}
	return ""
}

func parseXML(body []byte) (*element, error) {
	dec := xml.NewDecoder(bytes.NewReader(body))
	root := &element{}
	stack := []*element{root}
	for {
		t, err := dec.Token()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, fmt.Errorf("Unable to parse response (%w), invalid XML received:\n%.200q", err, body) //nolint:staticcheck // botocore's text
		}
		top := stack[len(stack)-1]
		switch t := t.(type) {
		case xml.StartElement:
			if len(stack) > maxDepth {
				return nil, errors.New("the answer is nested too deeply")
			}
			e := &element{name: t.Name.Local}
			top.kids = append(top.kids, e)
			stack = append(stack, e)
		case xml.CharData:
			top.text = append(top.text, t...)
		case xml.EndElement:
			stack = stack[:len(stack)-1]
		}
	}
	if len(root.kids) != 1 {
		return nil, errors.New("Unable to parse response, invalid XML received") //nolint:staticcheck // botocore's text
	}
	return root.kids[0], nil
}

func fromXML(s *model.Shape, e *element) map[string]any {
	out := map[string]any{}
	for _, m := range s.Members {
		name := m.WireName()
		if m.Shape.Type == model.List && m.IsFlattened() {
			if n := m.Shape.Elem.LocationName; n != "" {
				name = n
			}
			var list []any
			for _, k := range e.kids {
				if k.name == name {
					list = append(list, xmlValue(m.Shape.Elem.Shape, k))
				}
			}
			if list != nil {
				out[m.Name] = list
			}
			continue
		}
		if k := e.kid(name); k != nil {
			out[m.Name] = xmlValue(m.Shape, k)
		}
	}
	return out
}

func xmlValue(s *model.Shape, e *element) any {
	switch s.Type {
	case model.Structure:
		return fromXML(s, e)
	case model.List:
		list := []any{}
		for _, k := range e.kids {
			list = append(list, xmlValue(s.Elem.Shape, k))
		}
		return list
	case model.Map:
		out := map[string]any{}
		key, value := "key", "value"
		if n := s.Key.LocationName; n != "" {
			key = n
		}
		if n := s.Value.LocationName; n != "" {
			value = n
		}
		for _, k := range e.kids {
			if v := k.kid(value); v != nil {
				out[k.textOf(key)] = xmlValue(s.Value.Shape, v)
			}
		}
		return out
	case model.Boolean:
		return string(e.text) == "true"
	case model.Integer, model.Long, model.Float, model.Double:
		n, _ := strconv.ParseFloat(string(e.text), 64) // the service is our own
		return n
	case model.Timestamp:
		return textTime(string(e.text))
	}
	return string(e.text)
}

// serviceError decodes a service's error.
func serviceError(op *model.Operation, resp *http.Response, body []byte) error {
	out := &APIError{Operation: op.Name, Code: strconv.Itoa(resp.StatusCode), Message: http.StatusText(resp.StatusCode)}
	if op.Service.Protocol == model.ProtocolQuery || op.Service.Protocol == model.ProtocolEC2 {
		root, err := parseXML(body)
		if err != nil {
			return out
		}
		e := root
		if errs := root.kid("Errors"); errs != nil {
			e = errs
		}
		if e = e.kid("Error"); e != nil {
			out.Code, out.Message = e.textOf("Code"), e.textOf("Message")
		}
		return out
	}
	var doc map[string]any
	if json.Unmarshal(body, &doc) != nil {
		return out
	}
	code := resp.Header.Get("X-Amzn-Errortype")
	for _, k := range []string{"__type", "code"} {
		if s, ok := doc[k].(string); ok && code == "" {
			code = s
		}
	}
	code, _, _ = strings.Cut(code[strings.LastIndexByte(code, '#')+1:], ":")
	if code != "" {
		out.Code, out.Message = code, ""
	}
	for _, k := range []string{"message", "Message"} {
		if s, ok := doc[k].(string); ok {
			out.Message = s
		}
	}
	return out
}
