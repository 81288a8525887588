package account

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/drydock-dev/drydock/internal/module"
	"github.com/drydock-dev/drydock/internal/store"
	"github.com/drydock-dev/drydock/internal/twin/recording"
)

const id = "111122223333"

// things are the records of a service.
var things = store.NewCollection[string]("twin", "thing")

// loader returns a Loader whose one service imports a number of records.
func loader(t *testing.T, st *store.Store, records int) *Loader {
	l := &Loader{Store: st, InUse: func(string) bool { return false }, Now: time.Now, Dir: t.TempDir()}
	l.Reset = func(ctx context.Context, account string) error {
		return errors.Join(st.Reset(ctx, account), l.Forget(account))
	}
	l.Modules = func() []module.Module {
		return []module.Module{{Import: func(r *recording.Recording) ([]module.Write, []recording.Gap, error) {
			var out []module.Write
			for i := range records {
				out = append(out, module.Put(things, store.Key{Account: r.Source.Account, ID: fmt.Sprint(i)}, "x"))
			}
			return out, nil, nil
		}}}
	}
	return l
}

// A daemon that ends in the middle of a load, as by kill -9, leaves an account that is marked as loading. The next one empties it.
// Whole twins stay.
func TestCleanAfterKill(t *testing.T) {
	st, err := store.Open(t.Context(), store.Config{Ephemeral: true})
	if err != nil {
		t.Fatal(err)
	}
	defer st.Close()
	objects := recording.Answer{Service: recording.Kubernetes, Operation: "List", Input: []byte(`{"Cluster":"c","Version":"v1","Resource":"pods"}`), Pages: []json.RawMessage{json.RawMessage(`{"kind":"PodList","items":[]}`)}}
	rec := func(account string) *recording.Recording {
		return &recording.Recording{Source: recording.Source{Account: account, Region: "us-east-1"}, Answers: []recording.Answer{objects}}
	}
	whole := loader(t, st, 3)
	if _, err := whole.Load(t.Context(), rec("444455556666"), Expect{}); err != nil {
		t.Fatal(err)
	}

	// The process ends after the first transactions: nothing of it runs any more, so it empties nothing.
	l := loader(t, st, 5*writesPerTransaction)
	inner := l.Modules()[0].Import
	l.Modules = func() []module.Module {
		return []module.Module{{Import: func(r *recording.Recording) ([]module.Write, []recording.Gap, error) {
			w, g, err := inner(r)
			tried := false
			w[3*writesPerTransaction] = module.Write{Put: func(*store.Tx) error {
				if !tried {
					tried = true
					return nil
				}
				return errors.New("killed")
			}}
			return w, g, err
		}}}
	}
	resets := 0
	l.Reset = func(context.Context, string) error {
		if resets++; resets > 1 {
			return errors.New("killed")
		}
		return nil
	}
	if _, err := l.Load(t.Context(), rec(id), Expect{}); err == nil || !strings.Contains(err.Error(), "killed") {
		t.Fatalf("got %v", err)
	}
	all := func(account string) int { return len(things.All(st, store.Scope{Account: account})) }
	if tw, ok := Of(st, id); !ok || !tw.Loading || all(id) == 0 {
		t.Fatalf("the load was not interrupted: %+v, %d records", tw, all(id))
	}

	next := loader(t, st, 0)
	next.Dir = l.Dir
	if err := os.MkdirAll(filepath.Join(l.Dir, "reading-x"), 0o700); err != nil { // of a command that was interrupted long ago
		t.Fatal(err)
	}
	if err := next.Clean(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, ok := Of(st, id); ok || all(id) > 0 || len(Gaps(st, id)) > 0 {
		t.Errorf("%d records are left", all(id))
	}
	if left, err := os.ReadDir(l.Dir); err != nil || len(left) > 0 {
		t.Errorf("files are left: %v, %v", left, err)
	}
	if tw, ok := Of(st, "444455556666"); !ok || tw.Loading || all("444455556666") != 3 {
		t.Error("a whole twin was emptied")
	}
}

// What cannot be written is known before the account is emptied, and a service that fails on an answer is an error like any other.
func TestLoadChangesNothingIfItFails(t *testing.T) {
	st, err := store.Open(t.Context(), store.Config{Ephemeral: true})
	if err != nil {
		t.Fatal(err)
	}
	defer st.Close()
	rec := &recording.Recording{Source: recording.Source{Account: id, Region: "us-east-1"}}
	if _, err := loader(t, st, 2*writesPerTransaction).Load(t.Context(), rec, Expect{}); err != nil {
		t.Fatal(err)
	}
	for name, fail := range map[string]func([]module.Write) []module.Write{
		"cannot be kept: bad store key": func(w []module.Write) []module.Write {
			return append(w, module.Put(things, store.Key{Account: id}, "x"))
		},
		"cannot be converted: the answer has no name": func([]module.Write) []module.Write { panic("the answer has no name") },
	} {
		l := loader(t, st, 2*writesPerTransaction)
		inner := l.Modules()[0].Import
		l.Modules = func() []module.Module {
			return []module.Module{{Import: func(r *recording.Recording) ([]module.Write, []recording.Gap, error) {
				w, g, err := inner(r)
				return fail(w), g, err
			}}}
		}
		if _, err := l.Load(t.Context(), rec, Expect{}); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("got %v, want %q", err, name)
		}
		if tw, ok := Of(st, id); !ok || tw.Loading || len(things.All(st, store.Scope{Account: id})) != 2*writesPerTransaction {
			t.Errorf("%s: the twin was changed", name)
		}
	}
}

// What may be replaced is decided when it is about to be replaced, not when the source was asked.
func TestLoadExpects(t *testing.T) {
	same := recording.Source{Account: id, Region: "us-east-1", Clusters: []string{"prod"}, IAM: recording.UsedIAM, Redacted: true}
	other := func(change func(*recording.Source)) recording.Source {
		s := same
		change(&s)
		return s
	}
	for _, tt := range []struct {
		name string
		of   recording.Source
		e    Expect
		late bool // whether the twin is changed while the recording is converted
		want error
	}{
		{"any twin", other(func(s *recording.Source) { s.Region = "eu-west-1" }), Expect{}, true, nil},
		{"an unchanged one", same, Expect{Unchanged: true}, false, nil},
		{"a changed one", same, Expect{Unchanged: true}, true, ErrTwin},
		{"a changed one, whatever it is", same, Expect{Any: true, Unchanged: true}, true, nil},
		{"none", same, Expect{Absent: true}, false, ErrTwin},
		{"one of another region", other(func(s *recording.Source) { s.Region = "eu-west-1" }), Expect{Unchanged: true}, false, ErrTwin},
		{"one of other clusters", other(func(s *recording.Source) { s.Clusters = nil }), Expect{Unchanged: true}, false, ErrTwin},
		{"one with less of IAM", other(func(s *recording.Source) { s.IAM = "" }), Expect{Unchanged: true}, false, ErrTwin},
		{"one with values of Secrets", other(func(s *recording.Source) { s.Secrets = true }), Expect{Unchanged: true}, false, ErrTwin},
		{"one without masks", other(func(s *recording.Source) { s.Redacted = false }), Expect{Unchanged: true}, false, ErrTwin},
		{"one without objects", other(func(s *recording.Source) { s.NoKubernetes = true }), Expect{Unchanged: true}, false, ErrTwin},
	} {
		t.Run(tt.name, func(t *testing.T) {
			st, err := store.Open(t.Context(), store.Config{Ephemeral: true})
			if err != nil {
				t.Fatal(err)
			}
			defer st.Close()
			if _, err := loader(t, st, 3).Load(t.Context(), &recording.Recording{Source: same}, Expect{Absent: true}); err != nil {
				t.Fatal(err)
			}
			l := loader(t, st, 1)
			inner := l.Modules()[0].Import
			l.Modules = func() []module.Module {
				return []module.Module{{Import: func(r *recording.Recording) ([]module.Write, []recording.Gap, error) {
					if tt.late {
						if err := MarkChanged(t.Context(), st, id, time.Now()); err != nil {
							t.Error(err)
						}
					}
					return inner(r)
				}}}
			}
			if _, err := l.Load(t.Context(), &recording.Recording{Source: tt.of}, tt.e); !errors.Is(err, tt.want) {
				t.Errorf("got %v, want %v", err, tt.want)
			}
			left := 1
			if tt.want != nil {
				left = 3
			}
			if n := len(things.All(st, store.Scope{Account: id})); n != left {
				t.Errorf("%d records, want %d", n, left)
			}
			if tw, _ := Of(st, id); tt.late && tt.want != nil && (!tw.Changed || tw.ChangedAt.IsZero()) {
				t.Errorf("the change is not marked: %+v", tw)
			}
		})
	}
}
