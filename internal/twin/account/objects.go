package account

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"time"

	"github.com/drydock-dev/drydock/internal/atomicfile"
	"github.com/drydock-dev/drydock/internal/module"
	"github.com/drydock-dev/drydock/internal/store"
	"github.com/drydock-dev/drydock/internal/twin"
	"github.com/drydock-dev/drydock/internal/twin/recording"
)

// The Kubernetes objects of a twin are kept in a file of the data folder, DIR/ACCOUNT, because their control planes take
// them in only after the load, and the store is for records (docs/decisions/0046-bytes-in-the-data-folder.md).

// A List is a list of Kubernetes objects of one kind.
type List struct {
	Kind  string // such as PodList
	Items []map[string]any
}

func (l *Loader) file(account string) string { return filepath.Join(l.Dir, account) }

// keepObjects writes the answers of clusters to the file of the account.
func (l *Loader) keepObjects(r *recording.Recording) error {
	var lists []recording.Answer
	for _, a := range r.Answers {
		if a.Service == recording.Kubernetes && len(a.Pages) > 0 {
			lists = append(lists, a)
		}
	}
	if len(lists) == 0 {
		return l.Forget(r.Source.Account)
	}
	if err := os.MkdirAll(l.Dir, 0o700); err != nil {
		return err
	}
	b, err := json.Marshal(lists)
	if err != nil {
		return err
	}
	return atomicfile.Write(l.file(r.Source.Account), b, 0o600)
}

// Forget removes the file of an account, or of all accounts if account is empty. What interrupted commands have read of them, and what
// is too old to be continued, goes as well.
func (l *Loader) Forget(account string) error {
	err := twin.CleanScratches(l.Dir, l.Now().Add(-twin.Resumable), func(of string) bool { return account == "" || of == account })
	files := []string{l.file(account)}
	if account == "" {
		var globErr error
		files, globErr = filepath.Glob(l.file("[0-9]*"))
		err = errors.Join(err, globErr)
	}
	for _, file := range files {
		if gone := os.Remove(file); !errors.Is(gone, fs.ErrNotExist) {
			err = errors.Join(err, gone)
		}
	}
	return err
}

// Objects calls fn for each list of objects that was read from a cluster. It keeps one answer in memory at a time.
func (l *Loader) Objects(account, cluster string, fn func(recording.KubernetesList, *List) error) error {
	f, err := os.Open(l.file(account))
	if err != nil {
		return err
	}
	defer f.Close()
	d := json.NewDecoder(bufio.NewReader(f))
	if _, err := d.Token(); err != nil { // the bracket
		return err
	}
	for d.More() {
		var a recording.Answer
		if err := d.Decode(&a); err != nil {
			return err
		}
		q, err := a.KubernetesList()
		if err != nil {
			return err
		}
		if q.Cluster != cluster {
			continue
		}
		for _, page := range a.Pages {
			var list List
			if err := json.Unmarshal(page, &list); err != nil {
				return err
			}
			if err := fn(q, &list); err != nil {
				return err
			}
		}
	}
	return nil
}

// checkObjects returns an error if an answer of a cluster is not a list of objects.
func checkObjects(r *recording.Recording) error {
	_, err := recording.Pages[recording.KubernetesList, List](r, recording.Kubernetes, "List")
	return err
}

// Held reports whether an account is a twin in which nothing was changed since it was loaded.
func Held(r store.Reader, account string) bool {
	t, ok := Of(r, account)
	return ok && !t.Changed
}

// MarkChanged records that something in a twin is changed. From then on, the twin behaves like any other account.
func MarkChanged(ctx context.Context, st *store.Store, account string, now time.Time) error {
	if !Held(st, account) {
		return nil
	}
	return store.IgnoreNotFound(twins.UpdateOne(ctx, st, key(account), func(t *Twin) error {
		if !t.Changed {
			t.Changed, t.ChangedAt = true, now
		}
		return nil
	}))
}

// AddGaps adds gaps to a twin, without those that it has. It does nothing if the account is no twin any more, or still returns false
// in the transaction.
func AddGaps(ctx context.Context, st *store.Store, account string, still func(store.Reader) bool, more []recording.Gap) error {
	return st.Update(ctx, func(tx *store.Tx) error {
		if _, ok := Of(tx, account); !ok || !still(tx) {
			return nil
		}
		have := Gaps(tx, account)
		unknown := slices.DeleteFunc(slices.Clone(more), func(g recording.Gap) bool { return slices.Contains(have, g) })
		for _, w := range gapPages(account, len(gaps.All(tx, store.Scope{Account: account, Global: true})), unknown) {
			if err := w.Put(tx); err != nil {
				return err
			}
		}
		return nil
	})
}

// gapPages returns the writes of gaps. first is the number of the first page.
func gapPages(account string, first int, all []recording.Gap) []module.Write {
	var out []module.Write
	for n, some := range slices.Collect(slices.Chunk(all, gapsPerPage)) {
		out = append(out, module.Put(gaps, store.Key{Account: account, ID: strconv.Itoa(first + n)}, gapPage{some}))
	}
	return out
}
