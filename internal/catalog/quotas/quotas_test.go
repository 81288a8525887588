package quotas_test

import (
	"regexp"
	"testing"

	"github.com/drydock-dev/drydock/internal/catalog/quotas"
)

func TestCatalogue(t *testing.T) {
	code := regexp.MustCompile(`^L-[0-9A-F]{8}$`)
	seen := map[string]bool{}
	for _, s := range quotas.Services() {
		all := quotas.Of(s.Code)
		if len(all) == 0 {
			t.Errorf("%s has no quotas", s.Code)
		}
		for _, q := range all {
			if !code.MatchString(q.Code) || seen[q.Code] || q.Name == "" || q.Default <= 0 || q.Value != q.Default || q.Service != s.Code {
				t.Errorf("%+v, seen before: %v", q, seen[q.Code])
			}
			seen[q.Code] = true
			if got, ok := quotas.Lookup(s.Code, q.Code); !ok || got != q {
				t.Errorf("looked up %+v", got)
			}
		}
	}
	if q, ok := quotas.Lookup("eks", "L-1194D53C"); !ok || q.Name != "Clusters" || q.Default != 100 {
		t.Errorf("%+v", q)
	}
	if _, ok := quotas.Lookup("vpc", "L-1194D53C"); ok || quotas.Of("mars") != nil {
		t.Error("found what is not there")
	}
	quotas.Of("eks")[0].Value = 7
	if quotas.Of("eks")[0].Value == 7 {
		t.Error("the catalogue can be changed")
	}
}
