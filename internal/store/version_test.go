package store_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/drydock-dev/drydock/internal/store"
	"github.com/drydock-dev/drydock/internal/testkit/testlog"
)

// A server's records have had three forms: a port as text, the port as a number, and a new field.
type (
	serverV1 struct{ Name, Port string }
	serverV2 struct {
		Name string
		Port int
	}
	server struct {
		Name string
		Port int
		TLS  bool
	}
)

var (
	portNumbers = store.Convert(func(old serverV1) (serverV2, error) {
		v := serverV2{Name: old.Name}
		_, err := fmt.Sscanf(old.Port, "%d", &v.Port)
		return v, err
	})
	servers = store.NewCollection[server]("test", "server", portNumbers, store.Same)
	// As older versions declared it. The declaration above comes first and counts.
	serversV1 = store.NewCollection[serverV1]("test", "server")
	serversV2 = store.NewCollection[serverV2]("test", "server", portNumbers)
	numbers   = store.NewCollection[int]("test", "number")
)

func putOne[T any](t *testing.T, s *store.Store, c store.Collection[T], id string, v T) {
	t.Helper()
	if err := s.Update(t.Context(), func(tx *store.Tx) error { return c.Put(tx, key(id), v) }); err != nil {
		t.Fatal(err)
	}
}

func reopen(t *testing.T, s *store.Store, cfg store.Config) *store.Store {
	t.Helper()
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	s, err := store.Open(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}

func TestOpenMigratesOldRecords(t *testing.T) {
	cfg := store.Config{Dir: t.TempDir(), Log: testlog.New(t)}
	s, err := store.Open(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	const many = 120 // more than one transaction
	want := map[string]server{"two": {Name: "two", Port: 8080}}
	putOne(t, s, serversV2, "two", serverV2{"two", 8080})
	for i := range many {
		id := fmt.Sprint("one-", i)
		putOne(t, s, serversV1, id, serverV1{id, fmt.Sprint(i)})
		want[id] = server{Name: id, Port: i}
	}
	if v, err := servers.Get(s, key("one-7")); err != nil || v != want["one-7"] {
		t.Errorf("a reader must migrate what it reads: %v %v", v, err)
	}
	s = reopen(t, s, cfg)
	items := servers.All(s, store.Scope{})
	got := map[string]server{}
	for _, i := range items {
		got[i.Key.ID] = i.Value
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	for _, id := range []string{"two", "one-0", "one-119"} {
		if raw := s.Raw("test/server", key(id)); !strings.HasPrefix(raw, "v3{") {
			t.Errorf("the stored record was not rewritten: %s", raw)
		}
	}
	// Writes are of the latest version, and a record of version 1 is plain JSON.
	putOne(t, s, servers, "three", server{"three", 443, true})
	putOne(t, s, numbers, "n", 7)
	if raw := s.Raw("test/server", key("three")); raw != `v3{"Name":"three","Port":443,"TLS":true}` {
		t.Errorf("stored %s", raw)
	}
	if raw := s.Raw("test/number", key("n")); raw != "7" {
		t.Errorf("stored %s", raw)
	}
}

func TestUnreadableRecordIsSkippedAndKept(t *testing.T) {
	var log strings.Builder
	cfg := store.Config{Dir: t.TempDir(), Log: slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelWarn}))}
	s, err := store.Open(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	putOne(t, s, servers, "good", server{Name: "good"})
	for id, raw := range map[string]string{
		"cut": `v3{"Name":`, "kind": `v3{"Port":"http"}`, "null": `null`, "empty": ``,
		"newer": `v4{"Name":"x"}`, "odd": `v{}`, "migration": `{"Name":"x","Port":"http"}`,
	} {
		s.SetRaw(t, "test/server", key(id), raw)
	}
	s = reopen(t, s, cfg)
	ctx := t.Context()
	for range 2 { // the second time from the first one's cache
		items := servers.All(s, store.Scope{})
		if len(items) != 1 || items[0].Key.ID != "good" {
			t.Fatalf("All: %v", items)
		}
		seen := 0
		servers.Scan(s, store.Scope{Account: key("").Account, Region: key("").Region}, "", func(store.Key, server) bool { seen++; return true })
		if seen != 1 {
			t.Fatalf("Scan: %d, %v", seen, err)
		}
		if keys := servers.Unreadable(s, store.Scope{}); len(keys) != 7 {
			t.Fatalf("Unreadable: %v", keys)
		}
	}
	for _, id := range []string{"cut", "newer"} {
		k := key(id)
		_, get := servers.Get(s, k)
		for what, err := range map[string]error{
			"Get":    get,
			"Update": servers.UpdateOne(ctx, s, k, func(*server) error { return nil }),
			"Put":    s.Update(ctx, func(tx *store.Tx) error { return servers.Put(tx, k, server{}) }),
		} {
			if !errors.Is(err, store.ErrUnreadable) || errors.Is(err, store.ErrNotFound) || !strings.Contains(err.Error(), id) {
				t.Errorf("%s of %s: %v", what, id, err)
			}
		}
		if err := s.Update(ctx, func(tx *store.Tx) error { return servers.Create(tx, k, server{}) }); !errors.Is(err, store.ErrExists) {
			t.Errorf("Create of %s: %v", id, err)
		}
	}
	if bad := s.Unreadable(); len(bad) != 7 || bad[0].Collection != "test/server" || bad[0].Key != key("cut") {
		t.Errorf("Unreadable: %v", bad)
	}
	if n := strings.Count(log.String(), "skipping an unreadable record"); n != 7 {
		t.Errorf("each is logged once; the log has %d lines:\n%s", n, log.String())
	}
	// Deleted and created again, it works like any other.
	err = s.Update(ctx, func(tx *store.Tx) error {
		servers.Delete(tx, key("cut"))
		return servers.Put(tx, key("cut"), server{Name: "new"})
	})
	if err != nil || len(s.Unreadable()) != 6 {
		t.Errorf("after replacing one: %v, %v", err, s.Unreadable())
	}
}

func TestOpenRefusesNewerData(t *testing.T) {
	cfg := store.Config{Dir: t.TempDir(), Log: testlog.New(t), Version: "v0.5.0"}
	s, err := store.Open(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	mine := s.DataVersion()
	if mine.Drydock != "v0.5.0" || mine.Collections["test/server"] != 3 || mine.Number() < 4 {
		t.Fatalf("data version %+v", mine)
	}
	putOne(t, s, servers, "a", server{Name: "a"})
	newer := func(s *store.Store, collection string, version int) {
		v := store.DataVersion{Format: 1, Drydock: "v0.7.1", Collections: map[string]int{"test/server": 3}}
		v.Collections[collection] = version
		raw, err := json.Marshal(v)
		if err != nil {
			t.Fatal(err)
		}
		s.SetDataVersion(t, string(raw))
	}
	refuses := func(want ...string) {
		t.Helper()
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
		broken, err := store.Open(t.Context(), cfg)
		if err == nil {
			s = broken
			t.Fatalf("newer data was opened: want %q", want)
		}
		for _, w := range want {
			if !strings.Contains(err.Error(), w) || strings.Contains(err.Error(), "\n") {
				t.Errorf("the refusal %q lacks %q", err, w)
			}
		}
	}
	newer(s, "test/server", 4)
	refuses("test/server version 4", "use Drydock v0.7.1 or later", "this is Drydock v0.5.0", cfg.Dir)

	// Collections without records do not keep an older version out.
	s = openAnyway(t, cfg)
	newer(s, "test/other-new", 1)
	s = reopen(t, s, cfg)
	if got := s.DataVersion(); got.Drydock != "v0.5.0" || got.Collections["test/other-new"] != 0 {
		t.Errorf("data version %+v", got)
	}
	newer(s, "test/new", 1)
	s.SetRaw(t, "test/new", key("x"), `{}`)
	refuses("test/new version 1")

	s = openAnyway(t, cfg)
	s.SetDataVersion(t, `{"format":2,"drydock":"v2.0.0"}`)
	refuses("format 2", "use Drydock v2.0.0 or later")
	s = openAnyway(t, cfg)
	s.SetDataVersion(t, `garbage`)
	refuses("damaged")
}

// openAnyway opens refused data like a Drydock without versions.
func openAnyway(t *testing.T, cfg store.Config) *store.Store {
	t.Helper()
	store.EraseDataVersion(t, cfg)
	s, err := store.Open(context.Background(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestDataVersionNamesTheFirstWriter(t *testing.T) {
	cfg := store.Config{Dir: t.TempDir(), Log: testlog.New(t), Version: "v0.5.0"}
	s, err := store.Open(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	cfg.Version = "v0.6.0"
	if s = reopen(t, s, cfg); s.DataVersion().Drydock != "v0.5.0" {
		t.Errorf("v0.5.0 reads these records as well: %+v", s.DataVersion())
	}
}

func TestFingerprint(t *testing.T) {
	type inner struct{ A *string }
	type renamed struct{ A *string } // another Go name is the same JSON
	type tagged struct {
		A *string `json:"b"`
	}
	type tree struct{ Kids []*tree }
	type embedding struct{ inner }
	type private struct {
		A *string
		b int
	}
	print := func(form string) string { return form }
	forms := map[string]string{
		"inner":   print(store.NewCollection[inner]("form", "inner").Form()),
		"renamed": print(store.NewCollection[renamed]("form", "renamed").Form()),
		"tagged":  print(store.NewCollection[tagged]("form", "tagged").Form()),
		"tree":    print(store.NewCollection[tree]("form", "tree").Form()),
		"embed":   print(store.NewCollection[embedding]("form", "embed").Form()),
		"private": print(store.NewCollection[private]("form", "private").Form()),
	}
	_ = private{}.b
	for _, same := range []string{"renamed", "embed", "private"} {
		if forms[same] != forms["inner"] {
			t.Errorf("%s:\n%s\nis not\n%s", same, forms[same], forms["inner"])
		}
	}
	if forms["tagged"] == forms["inner"] {
		t.Error("another JSON name is another form")
	}
	if want := "struct\n\tKids []*recursive 1\n"; forms["tree"] != want {
		t.Errorf("tree: %q, want %q", forms["tree"], want)
	}
}
