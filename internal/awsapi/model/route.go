package model

import (
	"net/url"
	"sort"
	"strings"
)

// routes matches REST requests to operations: first segment by segment by path template, then by query literals. The
// more literal template wins.
type routes struct {
	byMethod map[string][]*route
}

type route struct {
	op       *Operation
	segments []segment
	query    []queryLiteral
	literals int
	greedy   bool
	// wanted are the query parameters of required members. They distinguish operations that share a path (S3's
	// PutObject and UploadPart).
	wanted []string
	// headers counts the required headers, which are not checked. Of two operations with one URL (S3's PutObject and
	// CopyObject), the one with fewer wins.
	headers int
}

type segment struct {
	literal string
	label   string // set for {label} and {label+}
	greedy  bool
}

type queryLiteral struct {
	key, value string
	hasValue   bool
}

func newRoutes(s *Service) *routes {
	rs := &routes{byMethod: map[string][]*route{}}
	for _, op := range s.Operations {
		r := newRoute(op)
		rs.byMethod[op.Method] = append(rs.byMethod[op.Method], r)
	}
	for _, list := range rs.byMethod {
		sort.Slice(list, func(i, j int) bool {
			a, b := list[i], list[j]
			if a.op.Deprecated != b.op.Deprecated {
				return b.op.Deprecated // GetBucketLifecycle was replaced by an operation at the same URL
			}
			if x, y := len(a.query), len(b.query); x != y {
				return x > y
			}
			if a.literals != b.literals {
				return a.literals > b.literals
			}
			if x, y := len(a.wanted), len(b.wanted); x != y {
				return x > y
			}
			if a.headers != b.headers {
				return a.headers < b.headers
			}
			if x, y := len(a.segments), len(b.segments); x != y {
				return x > y
			}
			return a.op.Name < b.op.Name
		})
	}
	return rs
}

// parseURI splits op's URI into path segments and query parameters.
func (op *Operation) parseURI() {
	path, query, _ := strings.Cut(op.URI, "?")
	op.segments = parseTemplate(path)
	for _, kv := range strings.Split(query, "&") {
		if kv != "" {
			k, _, _ := strings.Cut(kv, "=")
			op.literals = append(op.literals, k)
		}
	}
}

func newRoute(op *Operation) *route {
	_, query, _ := strings.Cut(op.URI, "?")
	r := &route{op: op, segments: op.segments}
	for _, s := range r.segments {
		if s.label == "" {
			r.literals++
		}
		r.greedy = r.greedy || s.greedy
	}
	for _, kv := range strings.Split(query, "&") {
		if kv == "" {
			continue
		}
		k, v, has := strings.Cut(kv, "=")
		r.query = append(r.query, queryLiteral{k, v, has})
	}
	if op.Input != nil {
		for _, m := range op.Input.Members {
			if m.Required && m.Location == QueryString {
				r.wanted = append(r.wanted, m.WireName())
			}
			if m.Required && m.Location == Header {
				r.headers++
			}
		}
	}
	return r
}

func parseTemplate(path string) []segment {
	var out []segment
	for _, s := range splitPath(path) {
		if strings.HasPrefix(s, "{") && strings.HasSuffix(s, "}") {
			label := s[1 : len(s)-1]
			greedy := strings.HasSuffix(label, "+")
			out = append(out, segment{label: strings.TrimSuffix(label, "+"), greedy: greedy})
			continue
		}
		out = append(out, segment{literal: s})
	}
	return out
}

func splitPath(path string) []string {
	path = strings.Trim(path, "/")
	if path == "" {
		return nil
	}
	return strings.Split(path, "/")
}

// match compares the segments. If set is not nil, it receives each label's escaped value.
func match(segments []segment, parts []string, set func(label, escaped string)) bool {
	for i, s := range segments {
		if s.greedy {
			rest := len(segments) - i - 1
			if len(parts)-rest < 1 {
				return false
			}
			if set != nil {
				set(s.label, strings.Join(parts[:len(parts)-rest], "/"))
			}
			parts = parts[len(parts)-rest:]
			continue
		}
		if len(parts) == 0 {
			return false
		}
		if s.label == "" {
			if s.literal != parts[0] {
				return false
			}
		} else {
			if parts[0] == "" {
				return false
			}
			if set != nil {
				set(s.label, parts[0])
			}
		}
		parts = parts[1:]
	}
	return len(parts) == 0
}

// pathParts splits a request's path for matching. A trailing slash is ignored, except in a greedy label, because S3
// keys may end in one.
func pathParts(segments []segment, escapedPath string) []string {
	greedy := len(segments) > 0 && segments[len(segments)-1].greedy
	if !greedy {
		return splitPath(escapedPath)
	}
	p := strings.TrimPrefix(escapedPath, "/")
	if p == "" {
		return nil
	}
	parts := strings.Split(p, "/")
	if len(parts) == len(segments) && parts[len(parts)-1] == "" {
		return parts[:len(parts)-1] // "/bucket/" names the bucket, not an empty key
	}
	return parts
}

// MatchREST finds the operation of a REST request by method, query and escaped path (so that an ARN with an escaped
// slash stays one segment). Operations that differ only by a header (S3's PutObject and CopyObject) are distinguished
// by the SDKs' x-id parameter. Without it, the operation that needs no header is chosen.
func (s *Service) MatchREST(method, escapedPath, rawQuery string) (*Operation, bool) {
	if s.routes == nil {
		return nil, false
	}
	query, _ := url.ParseQuery(rawQuery) // the decoder rejects malformed pairs
	id := query.Get("x-id")
	parts := splitPath(escapedPath)
	var best *route
	for _, r := range s.routes.byMethod[method] {
		p := parts
		if r.greedy {
			p = pathParts(r.segments, escapedPath)
		}
		if !match(r.segments, p, nil) || !r.matchesQuery(query) {
			continue
		}
		if id == "" || id == r.op.Name {
			return r.op, true
		}
		if best == nil {
			best = r
		}
	}
	if best == nil {
		return nil, false
	}
	return best.op, true
}

// matchesQuery reports whether the query has the parameters of the route's URI and those that distinguish it from
// other routes.
func (r *route) matchesQuery(query url.Values) bool {
	for _, l := range r.query {
		if l.key == "x-id" {
			continue // a hint that clients may leave out
		}
		v, ok := query[l.key]
		if !ok || l.hasValue && v[0] != l.value {
			return false
		}
	}
	for _, w := range r.wanted {
		if _, ok := query[w]; !ok && len(r.query) == 0 && r.ambiguous() {
			return false
		}
	}
	return true
}

// ambiguous reports whether routes can only be distinguished by their required query members. Only S3 has such
// operations. Elsewhere a missing required parameter is a validation error of the operation rather than another
// operation.
func (r *route) ambiguous() bool { return r.op.Service.Name == "s3" }

// PathLabels returns the unescaped values of the labels of op's URI in an escaped path, or false if the path does not
// match.
func (op *Operation) PathLabels(escapedPath string) (map[string]string, bool) {
	labels := map[string]string{}
	valid := true
	ok := match(op.segments, pathParts(op.segments, escapedPath), func(label, escaped string) {
		v, err := url.PathUnescape(escaped)
		if err != nil {
			valid = false
		}
		labels[label] = v
	})
	return labels, ok && valid
}

// QueryLiterals returns the names of the query parameters that are part of op's URI.
func (op *Operation) QueryLiterals() []string { return op.literals }
