package paging_test

import (
	"errors"
	"slices"
	"testing"

	"github.com/drydock-dev/drydock/internal/awsapi/paging"
)

var errBad = errors.New("bad token")

func id(s string) string { return s }

func rules(question string) paging.Rules {
	return paging.Rules{Usual: 2, Question: question, BadToken: func(string) error { return errBad }}
}

func TestCut(t *testing.T) {
	all := []string{"a", "b", "c", "d", "e"}
	first, token, err := paging.Cut(rules(""), all, id, nil, nil)
	if err != nil || !slices.Equal(first, all[:2]) || token == nil {
		t.Fatal(first, token, err)
	}
	// The last item seen was deleted, one was created before it, and one after.
	page, token, err := paging.Cut(rules(""), []string{"a", "aa", "bb", "c"}, id, new(int32(2)), token)
	if err != nil || !slices.Equal(page, []string{"bb", "c"}) || token != nil {
		t.Error(page, token, err)
	}
	page, token, err = paging.Cut(paging.Rules{}, all, id, nil, nil)
	if err != nil || len(page) != 5 || token != nil {
		t.Error("without a usual size", page, token, err)
	}
}

func TestCutInOrder(t *testing.T) {
	_, token, err := paging.CutInOrder(rules(""), []string{"c", "a", "b"}, id, nil, nil)
	if err != nil || token == nil {
		t.Fatal(err)
	}
	page, token, err := paging.CutInOrder(rules(""), []string{"d", "c", "a", "b"}, id, nil, token)
	if err != nil || !slices.Equal(page, []string{"b"}) || token != nil {
		t.Error(page, token, err)
	}
}

func TestTokensOfOthers(t *testing.T) {
	_, token, err := paging.Cut(rules("x"), []string{"a", "b", "c"}, id, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, bad := range []string{*token, "!", "YQ", "ZHJ5ZG9jay8"} {
		if _, err := rules("y").Start(nil, &bad); !errors.Is(err, errBad) {
			t.Errorf("%s: %v", bad, err)
		}
	}
	if c, err := rules("x").Start(nil, token); err != nil || c.After != "b" {
		t.Error(c, err)
	}
}

func TestSize(t *testing.T) {
	r := rules("")
	r.Size = func(n int32) (int, error) {
		if n > 3 {
			return 0, errBad
		}
		return int(n), nil
	}
	if _, err := r.Start(new(int32(4)), nil); !errors.Is(err, errBad) {
		t.Error(err)
	}
}
