package plane

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strconv"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
)

// Lists are read to their end, unless it is too far away.
func TestListReadsAllPages(t *testing.T) {
	last := 3
	srv := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		page := 1
		if c := r.URL.Query().Get("continue"); c != "" {
			page, _ = strconv.Atoi(c) // 0 fails the test
		}
		next := ""
		if page < last {
			next = strconv.Itoa(page + 1)
		}
		rw.Header().Set("Content-Type", "application/json")
		_, _ = fmt.Fprintf(rw, `{"apiVersion":"v1","kind":"ConfigMapList","metadata":{"continue":%q},"items":[{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"page-%d"}}]}`, next, page)
	}))
	defer srv.Close()
	objects, err := NewObjects(&rest.Config{Host: srv.URL, QPS: -1})
	if err != nil {
		t.Fatal(err)
	}
	all, err := objects.List(t.Context(), schema.GroupVersionResource{Version: "v1", Resource: "configmaps"})
	if err != nil || len(all) != 3 || all[2].GetName() != "page-3" {
		t.Errorf("%v %v", all, err)
	}
	last = listPages + 1
	all, err = objects.List(t.Context(), schema.GroupVersionResource{Version: "v1", Resource: "configmaps"})
	if !errors.Is(err, ErrTooMany) || len(all) != listPages {
		t.Errorf("%d %v", len(all), err)
	}
}

// The API server is asked to delete the object that was read, not another of the same name.
func TestDeleteAsksForTheUID(t *testing.T) {
	asked := make(chan metav1.DeleteOptions, 1)
	srv := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		var opts metav1.DeleteOptions
		if err := json.NewDecoder(r.Body).Decode(&opts); err != nil || r.Method != http.MethodDelete {
			t.Errorf("%s: %v", r.Method, err)
		}
		asked <- opts
		rw.Header().Set("Content-Type", "application/json")
		_, _ = rw.Write([]byte(`{"apiVersion":"v1","kind":"Status","status":"Success"}`))
	}))
	defer srv.Close()
	objects, err := NewObjects(&rest.Config{Host: srv.URL})
	if err != nil {
		t.Fatal(err)
	}
	for _, uid := range []types.UID{"", "7"} {
		o := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "v1", "kind": "ConfigMap"}}
		o.SetNamespace("kube-system")
		o.SetName("coredns")
		o.SetUID(uid)
		if err := objects.Delete(t.Context(), o); err != nil {
			t.Fatal(err)
		}
		var got types.UID
		if p := (<-asked).Preconditions; p != nil && p.UID != nil {
			got = *p.UID
		}
		if got != uid {
			t.Errorf("asked to delete UID %q, want %q", got, uid)
		}
	}
}
