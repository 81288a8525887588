package store_test

import (
	"strings"
	"testing"

	"github.com/drydock-dev/drydock/internal/store"
)

// TestForms: data kept outside of the store has versions, too.
func TestForms(t *testing.T) {
	type v1 struct{ A string }
	type v2 struct{ B string }
	old := store.NewForm[v1]("test", "form")
	form := store.NewForm[v2]("test", "form", store.Convert(func(v v1) (v2, error) { return v2{"was " + v.A}, nil }))
	raw, err := old.Encode(v1{"a"})
	if err != nil {
		t.Fatal(err)
	}
	if v, err := form.Decode(raw); err != nil || v.B != "was a" {
		t.Errorf("an old value: %+v %v", v, err)
	}
	if raw, err = form.Encode(v2{"b"}); err != nil {
		t.Fatal(err)
	}
	if v, err := form.Decode(raw); err != nil || v.B != "b" {
		t.Errorf("a new value: %+v %v", v, err)
	}
	if _, err := old.Decode(raw); err == nil || !strings.Contains(err.Error(), "version 2") {
		t.Errorf("a new value in an old Drydock: %v", err)
	}
}
