package ec2

import (
	"context"
	"encoding/json"
	"net/netip"
	"path"
	"reflect"
	"strings"
	"testing"
	"time"

	awsec2 "github.com/aws/aws-sdk-go-v2/service/ec2"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"github.com/drydock-dev/drydock/internal/catalog/instancetypes"
	"github.com/drydock-dev/drydock/internal/store"
)

func TestPattern(t *testing.T) {
	for _, tt := range []struct {
		pattern, value string
		want           bool
	}{
		{"a", "a", true},
		{"a", "A", false},
		{"a*", "abc", true},
		{"*c", "abc", true},
		{"a*c*", "abcd", true},
		{"a?c", "abc", true},
		{"a?c", "ac", false},
		{"*", "", true},
		{"?", "", false},
		{`a\*`, "a*", true},
		{`a\*`, "ab", false},
		{`\?x*`, "?xy", true},
		{`a\`, `a\`, true},
		{"*a*b*", "xxaxxbxx", true},
		{"é?", "éé", true},
	} {
		t.Run(tt.pattern+" "+tt.value, func(t *testing.T) {
			if got := compilePattern(tt.pattern).match(tt.value); got != tt.want {
				t.Errorf("got %v", got)
			}
		})
	}
}

// path.Match knows * and ? alike for values without slashes.
func FuzzPattern(f *testing.F) {
	f.Add("a*b?", "axxbc")
	f.Add("***", "")
	f.Add(`\*`, "*")
	f.Fuzz(func(t *testing.T, pattern, value string) {
		got := compilePattern(pattern).match(value)
		if strings.ContainsAny(pattern+value, "/[]\\^") || !json.Valid([]byte(`"`+strings.Map(printable, pattern+value)+`"`)) {
			return
		}
		for _, r := range pattern + value {
			if r == '�' {
				return
			}
		}
		want, err := path.Match(pattern, value)
		if err == nil && got != want {
			t.Errorf("%q matches %q: %v, path.Match says %v", pattern, value, got, want)
		}
	})
}

func printable(r rune) rune {
	if r < ' ' || r == '"' {
		return 'x'
	}
	return r
}

func FuzzParseCIDR(f *testing.F) {
	for _, s := range []string{"10.0.0.0/16", "10.1.2.3/8", "::/0", "::ffff:1.2.3.4/96", "1.2.3.4", "10.0.0.0/016"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		p, ok := parseCIDR(s)
		if !ok {
			return
		}
		if q, again := parseCIDR(p.String()); !again || q != p || p != p.Masked() || !p.Addr().Is4() {
			t.Errorf("%q gives %v, then %v", s, p, q)
		}
	})
}

func openStore(t testing.TB) *store.Store {
	t.Helper()
	st, err := store.Open(context.Background(), store.Config{Ephemeral: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := st.Close(); err != nil {
			t.Error(err)
		}
	})
	return st
}

func TestAddressPool(t *testing.T) {
	st := openStore(t)
	sc := scope{"111111111111", "us-east-1"}
	for _, cidr := range []string{"10.0.0.0/28", "10.0.0.0/24", "10.0.0.0/20"} {
		t.Run(cidr, func(t *testing.T) {
			pool, err := sc.subnetPool(subnetRecord{ID: "subnet-" + cidr[len(cidr)-2:], CIDR: cidr})
			if err != nil {
				t.Fatal(err)
			}
			usable := pool.size() - reservedAddresses
			seen := map[netip.Addr]bool{}
			take := func(n int) (got []netip.Addr, err error) {
				err = st.Update(t.Context(), func(tx *store.Tx) error {
					got, err = pool.take(tx, n, "hint")
					return err
				})
				return got, err
			}
			for len(seen) < usable {
				got, err := take(min(11, usable-len(seen)))
				if err != nil {
					t.Fatal(err)
				}
				for _, a := range got {
					if seen[a] || !pool.prefix.Contains(a) || !pool.usable(pool.index(a)) {
						t.Fatalf("%s handed out twice, or not to be handed out", a)
					}
					seen[a] = true
				}
			}
			if _, err := take(1); !isCode(err, "InsufficientFreeAddressesInSubnet") {
				t.Errorf("a full subnet answers %v", err)
			}
			one := pool.addr(pool.first + 1)
			err = st.Update(t.Context(), func(tx *store.Tx) error {
				if err := pool.claim(tx, one); !isCode(err, "InvalidIPAddress.InUse") {
					t.Errorf("claiming a taken address: %v", err)
				}
				return pool.release(tx, one)
			})
			if err != nil {
				t.Fatal(err)
			}
			if free, err := pool.free(st); err != nil || free != 1 {
				t.Errorf("%d free, %v", free, err)
			}
			if got, err := take(1); err != nil || got[0] != one {
				t.Errorf("got %v, %v; want the freed %s", got, err, one)
			}
		})
	}
}

// A freed address rests until the others of its page had their turn.
func TestFreedAddressesRest(t *testing.T) {
	st := openStore(t)
	pool, err := scope{"111111111111", "us-east-1"}.subnetPool(subnetRecord{ID: "subnet-1", CIDR: "10.0.0.0/24"})
	if err != nil {
		t.Fatal(err)
	}
	last := netip.Addr{}
	for range 100 {
		err := st.Update(t.Context(), func(tx *store.Tx) error {
			got, err := pool.take(tx, 1, "")
			if err != nil {
				return err
			}
			if got[0] == last {
				t.Errorf("%s again at once", last)
			}
			last = got[0]
			return pool.release(tx, last)
		})
		if err != nil {
			t.Fatal(err)
		}
	}
}

// The stored form of launch template data is read back as three SDK types; a
// member of the request that another type lacks would be lost silently.
func TestTemplateDataFitsEverySDKType(t *testing.T) {
	request := reflect.TypeFor[ec2types.RequestLaunchTemplateData]()
	missing := func(to reflect.Type) []string {
		var out []string
		compare(request, to, "", &out)
		return out
	}
	if got := missing(reflect.TypeFor[ec2types.ResponseLaunchTemplateData]()); len(got) > 0 {
		t.Errorf("the response lacks %v", got)
	}
	for _, m := range missing(reflect.TypeFor[awsec2.RunInstancesInput]()) {
		if top, _, _ := strings.Cut(m, "."); strings.Contains(runMembers, top+" ") {
			t.Errorf("RunInstances honours %s but lacks %s", top, m)
		}
	}
}

// compare collects the paths of from that to lacks.
func compare(from, to reflect.Type, at string, out *[]string) {
	for from.Kind() == reflect.Pointer || from.Kind() == reflect.Slice {
		if from.Kind() != to.Kind() {
			*out = append(*out, at)
			return
		}
		from, to = from.Elem(), to.Elem()
	}
	if from.Kind() != to.Kind() {
		*out = append(*out, at)
		return
	}
	if from.Kind() != reflect.Struct || from == to || from.PkgPath() == "time" {
		return
	}
	for i := range from.NumField() {
		f := from.Field(i)
		if !f.IsExported() {
			continue
		}
		g, ok := to.FieldByNameFunc(func(n string) bool { return strings.EqualFold(n, f.Name) })
		if !ok {
			*out = append(*out, at+f.Name)
			continue
		}
		compare(f.Type, g.Type, at+f.Name+".", out)
	}
}

func TestOperationsHonourOnlyMembersThatExist(t *testing.T) {
	svc := New(Config{}).AWS()
	handler := reflect.TypeOf(svc.Handler)
	for _, op := range svc.Operations {
		m, ok := handler.MethodByName(op.Name)
		if !ok {
			t.Errorf("%s has no handler", op.Name)
			continue
		}
		in := m.Type.In(2).Elem()
		for member := range strings.FieldsSeq(op.Members) {
			at := in
			for part := range strings.SplitSeq(member, ".") {
				for at.Kind() == reflect.Pointer || at.Kind() == reflect.Slice {
					at = at.Elem()
				}
				f, ok := at.FieldByName(part)
				if !ok {
					t.Errorf("%s has no member %s", op.Name, member)
					break
				}
				at = f.Type
			}
		}
	}
}

func TestMaxPerInterface(t *testing.T) {
	most := 0
	for _, name := range instancetypes.Names() {
		typ, _ := instancetypes.Lookup(name)
		most = max(most, typ.IPv4PerENI)
	}
	if most != maxPerInterface {
		t.Errorf("the largest type has %d addresses per interface, not %d", most, maxPerInterface)
	}
}

func TestStateText(t *testing.T) {
	if got, want := stateText(time.Date(2026, 11, 21, 9, 30, 0, 0, time.UTC)), "User initiated (2026-11-21 09:30:00 GMT)"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}
