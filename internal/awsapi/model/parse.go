package model

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
)

// Parse reads a compact model: one Record per line, the metadata first.
func Parse(data []byte) (*Service, error) {
	var svc *Service
	var ops []*OperationRecord
	var shapes []*ShapeRecord
	for n := 1; len(data) > 0; n++ {
		var line []byte
		line, data, _ = bytes.Cut(data, []byte("\n"))
		if len(bytes.TrimSpace(line)) == 0 {
			continue
		}
		var r Record
		if err := json.Unmarshal(line, &r); err != nil {
			return nil, fmt.Errorf("line %d: %w", n, err)
		}
		switch {
		case r.Metadata != nil:
			svc = newService(r.Metadata)
		case r.Operation != nil:
			ops = append(ops, r.Operation)
		case r.Shape != nil:
			shapes = append(shapes, r.Shape)
		}
	}
	if svc == nil {
		return nil, fmt.Errorf("no metadata record")
	}
	if err := svc.link(ops, shapes); err != nil {
		return nil, fmt.Errorf("model %s: %w", svc.Name, err)
	}
	return svc, nil
}

func newService(m *MetadataRecord) *Service {
	s := &Service{
		Name:            m.Name,
		Package:         m.Package,
		ServiceID:       m.ServiceID,
		Protocol:        m.Protocol,
		JSONVersion:     m.JSONVersion,
		TargetPrefix:    m.TargetPrefix,
		APIVersion:      m.APIVersion,
		EndpointPrefix:  m.EndpointPrefix,
		GlobalEndpoint:  m.GlobalEndpoint,
		SigningName:     m.signingName(),
		XMLNamespace:    m.XMLNamespace,
		QueryCompatible: m.QueryCompatible,
		Operations:      map[string]*Operation{},
		Shapes:          map[string]*Shape{},
		codes:           map[string]*Shape{},
	}
	return s
}

func (s *Service) link(ops []*OperationRecord, shapes []*ShapeRecord) error {
	scalars := map[Type]*Shape{}
	for _, t := range []Type{String, Blob, Boolean, Integer, Long, Float, Double, Timestamp, Document} {
		scalars[t] = &Shape{Type: t}
	}
	for _, r := range shapes {
		s.Shapes[r.Name] = &Shape{
			Name: r.Name, Type: r.Type, Union: r.Union, Exception: r.Exception,
			Code: r.Code, Status: r.Status, ServerFault: r.ServerFault,
			EventStream: r.EventStream, Element: r.Element, Namespace: r.Namespace, Flattened: r.Flattened,
			Min: r.Min, Max: r.Max, Pattern: r.Pattern, Enum: r.Enum,
		}
	}
	find := func(name string) (*Shape, error) {
		if name == "" {
			return scalars[String], nil
		}
		if sc, ok := scalars[Type(name)]; ok {
			return sc, nil
		}
		if sh, ok := s.Shapes[name]; ok {
			return sh, nil
		}
		return nil, fmt.Errorf("no shape %q", name)
	}
	member := func(r *MemberRecord) (*Member, error) {
		if r == nil {
			return nil, nil
		}
		sh, err := find(r.Shape)
		if err != nil {
			return nil, err
		}
		return &Member{
			Name: r.Name, Shape: sh, Location: r.Location, LocationName: r.LocationName, QueryName: r.QueryName,
			Required: r.Required, Flattened: r.Flattened, XMLNamespace: r.XMLNamespace, XMLPrefix: r.XMLPrefix,
			XMLAttribute: r.XMLAttribute, IdempotencyToken: r.IdempotencyToken, JSONValue: r.JSONValue,
			Streaming: r.Streaming, HostLabel: r.HostLabel, Sensitive: r.Sensitive,
			EventPayload: r.EventPayload, EventHeader: r.EventHeader, TimestampFormat: r.TimestampFormat,
		}, nil
	}
	for _, r := range shapes {
		sh := s.Shapes[r.Name]
		if r.Exception {
			if sh.Code == "" {
				sh.Code = sh.Name
			}
			s.codes[sh.Name] = sh
		}
		var err error
		if sh.Elem, err = member(r.Elem); err != nil {
			return fmt.Errorf("shape %s: %w", r.Name, err)
		}
		if sh.Key, err = member(r.Key); err != nil {
			return fmt.Errorf("shape %s: %w", r.Name, err)
		}
		if sh.Value, err = member(r.Value); err != nil {
			return fmt.Errorf("shape %s: %w", r.Name, err)
		}
		if r.Type != Structure {
			continue
		}
		sh.Members = make([]*Member, 0, len(r.Members))
		sh.byName = make(map[string]*Member, len(r.Members))
		for _, mr := range r.Members {
			m, err := member(mr)
			if err != nil {
				return fmt.Errorf("shape %s: %w", r.Name, err)
			}
			sh.Members = append(sh.Members, m)
			sh.byName[m.Name] = m
		}
		sh.Payload = sh.byName[r.Payload]
	}
	// A wire code may equal another exception's shape name. The code wins, because handlers and clients use it.
	for _, r := range shapes {
		if sh := s.Shapes[r.Name]; r.Exception && sh.Code != sh.Name {
			s.codes[sh.Code] = sh
		}
	}
	for _, r := range ops {
		op := &Operation{
			Service: s, Name: r.Name, Method: r.Method, URI: r.URI, Status: r.Status,
			InputElement: r.InputElement, InputNamespace: r.InputNamespace, ResultWrapper: r.ResultWrapper,
			HostPrefix: r.HostPrefix, Unsigned: r.Unsigned, Deprecated: r.Deprecated,
		}
		if op.Method == "" {
			op.Method = "POST"
		}
		if op.URI == "" {
			op.URI = "/"
		}
		if op.Status == 0 {
			op.Status = 200
		}
		if op.ResultWrapper == "" {
			op.ResultWrapper = op.Name + "Result"
		}
		for _, ref := range []struct {
			name string
			to   **Shape
		}{{r.Input, &op.Input}, {r.Output, &op.Output}} {
			if ref.name == "" {
				continue
			}
			sh, err := find(ref.name)
			if err != nil {
				return fmt.Errorf("operation %s: %w", r.Name, err)
			}
			*ref.to = sh
		}
		for _, name := range r.Errors {
			sh, err := find(name)
			if err != nil {
				return fmt.Errorf("operation %s: %w", r.Name, err)
			}
			op.Errors = append(op.Errors, sh)
		}
		op.parseURI()
		s.Operations[op.Name] = op
	}
	if strings.HasPrefix(s.Protocol, "rest-") {
		s.routes = newRoutes(s)
	}
	if s.QueryCompatible {
		s.query = queryView(s)
	}
	return nil
}
