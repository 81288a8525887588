package roundtrip_test

import (
	"bytes"
	"fmt"
	"io"
	"math/rand/v2"
	"reflect"
	"strings"
	"time"

	"github.com/drydock-dev/drydock/internal/awsapi/model"
)

// A generator fills in SDK structs with random values, along the model.
type generator struct {
	rnd *rand.Rand
	// density is the share of optional members that are set.
	density float64
	// lacking collects members of the model that the SDK's struct does not have.
	lacking map[string]bool
	// skip tells members to leave alone, as Shape.Member.
	skip func(path string) bool
	// fixed are values of members that cannot be random, as Shape.Member.
	fixed func(path string) string
	inUse map[*model.Shape]int
	// prefix is the path of the current structure; paths are those of all members that were set.
	prefix string
	paths  map[string]bool
}

func newGenerator(seed string, density float64, skip func(string) bool, fixed func(string) string) *generator {
	var h uint64 = 14695981039346656037
	for _, c := range []byte(seed) {
		h = (h ^ uint64(c)) * 1099511628211
	}
	return &generator{
		rnd: rand.New(rand.NewPCG(h, 2)), density: density,
		lacking: map[string]bool{}, skip: skip, fixed: fixed, inUse: map[*model.Shape]int{}, paths: map[string]bool{},
	}
}

// maxRecursion is how often a shape may occur within itself.
const maxRecursion = 2

// structure fills in v, a struct.
func (g *generator) structure(s *model.Shape, v reflect.Value, depth int) {
	g.inUse[s]++
	defer func() { g.inUse[s]-- }()
	// An empty structure inside another does not exist in a query: set at least
	// one member.
	set := depth == 0
	for pass := 0; pass == 0 || pass == 1 && !set; pass++ {
		set = g.members(s, v, depth, pass == 1) || set
	}
}

// members sets members; with first, the first that can be set.
func (g *generator) members(s *model.Shape, v reflect.Value, depth int, first bool) (set bool) {
	for _, m := range s.Members {
		if first && set {
			return set
		}
		path := s.Name + "." + m.Name
		f, ok := fieldOf(v.Type(), m.Name)
		if !ok {
			g.lacking[path] = true
			continue
		}
		if g.skip(path) || g.recursive(m.Shape) {
			continue
		}
		if !first && !m.Required && m.Location != model.Label && g.rnd.Float64() >= g.density {
			continue
		}
		field := v.FieldByIndex(f.Index)
		outer := g.prefix
		g.prefix = strings.TrimPrefix(outer+"."+m.Name, ".")
		ok = g.value(m.Shape, m, field, depth+1)
		at := g.prefix
		g.prefix = outer
		if !ok {
			g.lacking[path] = true
			continue
		}
		if s := g.fixed(path); s != "" {
			reflect.Indirect(field).SetString(s)
		}
		set = true
		g.paths[at] = true
	}
	return set
}

func (g *generator) recursive(s *model.Shape) bool {
	for s.Type == model.List || s.Type == model.Map {
		if s.Type == model.List {
			s = s.Elem.Shape
		} else {
			s = s.Value.Shape
		}
	}
	return g.inUse[s] >= maxRecursion
}

// value fills in v. It returns false if the Go type cannot hold the shape.
func (g *generator) value(s *model.Shape, m *model.Member, v reflect.Value, depth int) bool {
	pointer := v.Kind() == reflect.Pointer
	if pointer {
		v.Set(reflect.New(v.Type().Elem()))
		v = v.Elem()
	}
	switch s.Type {
	case model.Structure:
		if v.Kind() == reflect.Interface {
			return g.union(s, v, depth)
		}
		if v.Kind() != reflect.Struct {
			return false
		}
		g.structure(s, v, depth)
	case model.List:
		if v.Kind() != reflect.Slice {
			return false
		}
		n := 1
		if depth < 3 {
			n += g.rnd.IntN(2)
		}
		v.Set(reflect.MakeSlice(v.Type(), n, n))
		for i := range n {
			if !g.value(s.Elem.Shape, s.Elem, v.Index(i), depth+1) {
				return false
			}
		}
	case model.Map:
		if v.Kind() != reflect.Map {
			return false
		}
		v.Set(reflect.MakeMap(v.Type()))
		for i := range 1 + g.rnd.IntN(2) {
			e := reflect.New(v.Type().Elem()).Elem()
			if !g.value(s.Value.Shape, s.Value, e, depth+1) {
				return false
			}
			key := fmt.Sprintf("Key-%d%s", i, g.word())
			if m.Location == model.Headers {
				key = strings.ToLower(key)
				e.SetString(g.word())
			}
			v.SetMapIndex(reflect.ValueOf(key).Convert(v.Type().Key()), e)
		}
	case model.String:
		switch {
		case v.Kind() == reflect.String:
			v.SetString(g.text(m))
		case v.CanInt():
			v.SetInt(int64(g.rnd.Int32N(1000)))
		case v.Type() == reflect.TypeFor[time.Time]():
			v.Set(reflect.ValueOf(time.Unix(1_600_000_000, 0).UTC()))
		default:
			return false
		}
	case model.Boolean:
		if v.Kind() != reflect.Bool {
			return false
		}
		v.SetBool(g.rnd.IntN(2) == 0)
		if !pointer {
			v.SetBool(true) // the SDK does not send false for its value types
		}
	case model.Integer, model.Long:
		if v.Kind() == reflect.String { // see retyped in package wire
			v.SetString(fmt.Sprint(g.rnd.Int32N(1000)))
			return true
		}
		if !v.CanInt() {
			return false
		}
		v.SetInt(int64(g.rnd.Int32()) - 1<<30)
		if m.Location == model.Header && v.Int() < 0 {
			v.SetInt(-v.Int()) // Content-Length
		}
		if m.Location == model.StatusCode {
			v.SetInt(200)
		}
	case model.Float, model.Double:
		if !v.CanFloat() {
			return false
		}
		v.SetFloat(float64(float32(g.rnd.NormFloat64() * 1000)))
	case model.Timestamp:
		t := time.Unix(1_600_000_000+int64(g.rnd.Int32N(1<<28)), 0).UTC()
		if m.TimestampFormat == "" && m.Location == model.Body {
			t = t.Add(time.Duration(g.rnd.IntN(1000)) * time.Millisecond)
		}
		if v.Type() != reflect.TypeFor[time.Time]() {
			return false
		}
		v.Set(reflect.ValueOf(t))
	case model.Blob:
		b := []byte(g.word() + "\x00\xff")
		if v.Kind() == reflect.Interface {
			r := io.NopCloser(bytes.NewReader(b))
			if reflect.TypeOf(bytes.NewReader(b)).AssignableTo(v.Type()) && v.Type() == reflect.TypeFor[io.Reader]() {
				v.Set(reflect.ValueOf(bytes.NewReader(b)))
				return true
			}
			if !reflect.TypeOf(r).AssignableTo(v.Type()) {
				return false
			}
			v.Set(reflect.ValueOf(r))
			return true
		}
		if v.Kind() != reflect.Slice {
			return false
		}
		v.SetBytes(b)
	default:
		return false
	}
	return true
}

func (g *generator) union(s *model.Shape, v reflect.Value, depth int) bool {
	var usable []*model.Member
	for _, m := range s.Members {
		if variants[v.Type().String()+"Member"+upperFirst(m.Name)] != nil && !g.recursive(m.Shape) {
			usable = append(usable, m)
		}
	}
	if len(usable) == 0 {
		return false
	}
	m := usable[g.rnd.IntN(len(usable))]
	n := reflect.New(variants[v.Type().String()+"Member"+upperFirst(m.Name)])
	outer := g.prefix
	defer func() { g.prefix = outer }()
	g.prefix += "." + m.Name
	if !g.value(m.Shape, m, n.Elem().Field(0), depth+1) {
		return false
	}
	g.paths[g.prefix] = true
	v.Set(n)
	return true
}

const letters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"

func (g *generator) word() string {
	b := make([]byte, 3+g.rnd.IntN(6))
	for i := range b {
		b[i] = letters[g.rnd.IntN(len(letters))]
	}
	return string(b)
}

// text returns a random string that can be sent in the place of m.
func (g *generator) text(m *model.Member) string {
	switch {
	case m.HostLabel:
		return "host" + strings.ToLower(g.word())
	case m.JSONValue:
		return `{"` + g.word() + `":1}`
	}
	switch m.Location {
	case model.Header, model.Headers:
		return g.word() + "/" + g.word()
	case model.Label:
		return g.word() + "/:" + g.word() + " " + g.word()
	}
	extra := []string{"", " ", "&", "<", ">", `"`, "'", "\\", "/", "é", "日本", "😀", "\n", "\t", "+", "%41", "=", "{}", ",", "\u2028"}
	return g.word() + extra[g.rnd.IntN(len(extra))] + g.word()
}

func upperFirst(s string) string { return strings.ToUpper(s[:1]) + s[1:] }

func fieldOf(t reflect.Type, member string) (reflect.StructField, bool) {
	if f, ok := t.FieldByName(upperFirst(member)); ok {
		return f, true
	}
	for i := range t.NumField() {
		f := t.Field(i)
		if f.IsExported() && f.Name != "ResultMetadata" && strings.EqualFold(strings.TrimSuffix(f.Name, "_"), member) {
			return f, true
		}
	}
	return reflect.StructField{}, false
}
