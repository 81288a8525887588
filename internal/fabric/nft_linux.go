package fabric

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/google/nftables"
	"github.com/google/nftables/expr"
	"github.com/mdlayher/netlink"
)

// The kernel acknowledges each message of a batch, and echoes rules. A batch must not have more messages than the
// socket's buffer has room for.
const batchSize = 64

const socketBuffer = 4 << 20

// A writer keeps the kernel's tables as rulesets say.
type writer struct {
	conn    *nftables.Conn
	current map[*family]*ruleset
	queued  int
}

func newWriter() (*writer, error) {
	conn, err := nftables.New(nftables.AsLasting(), nftables.WithSockOptions(func(c *netlink.Conn) error {
		_ = c.SetReadBuffer(socketBuffer) // as far as the kernel allows
		_ = c.SetWriteBuffer(socketBuffer)
		return nil
	}))
	if err != nil {
		return nil, err
	}
	return &writer{conn: conn, current: map[*family]*ruleset{}}, nil
}

// more sends what is queued if it is enough.
func (w *writer) more(n int) error {
	if w.queued += n; w.queued < batchSize {
		return nil
	}
	return w.flush()
}

func (w *writer) flush() error {
	w.queued = 0
	return w.conn.Flush()
}

// apply makes the kernel's tables like the rulesets. New chains and sets are prepared first, where no packet passes
// yet. All other changes are made in one transaction, of all families. Then, what nothing refers to any more is removed.
func (w *writer) apply(next map[*family]*ruleset) error {
	for _, f := range families {
		if err := w.prepare(f, next[f]); err != nil {
			delete(w.current, f)
			return fmt.Errorf("prepare chains: %w", err)
		}
	}
	if err := w.flush(); err != nil {
		clear(w.current)
		return fmt.Errorf("prepare chains: %w", err)
	}
	for _, f := range families {
		if err := w.change(f, next[f]); err != nil {
			return err
		}
	}
	if err := w.flush(); err != nil {
		clear(w.current) // the next call begins with an empty table
		return fmt.Errorf("change rules: %w", err)
	}
	for _, f := range families {
		if err := w.remove(f, next[f]); err != nil {
			clear(w.current)
			return fmt.Errorf("remove chains: %w", err)
		}
	}
	if err := w.flush(); err != nil {
		clear(w.current)
		return fmt.Errorf("remove chains: %w", err)
	}
	maps.Copy(w.current, next)
	return nil
}

func (w *writer) prepare(f *family, next *ruleset) error {
	old := w.current[f]
	if old == nil {
		w.conn.AddTable(f.table) // so that it can be deleted
		w.conn.DelTable(f.table)
		w.conn.AddTable(f.table)
		// From the beginning, what no rule accepts is dropped. The rules follow in the last transaction.
		policy := nftables.ChainPolicyDrop
		w.conn.AddChain(&nftables.Chain{
			Name: "pre", Table: f.table, Type: nftables.ChainTypeFilter, Hooknum: nftables.ChainHookPrerouting,
			Priority: nftables.ChainPriorityRaw, Policy: &policy,
		})
		old = newRuleset()
		old.add("pre")
		w.current[f] = old
	}
	var sets, chains []string
	for _, name := range slices.Sorted(maps.Keys(next.sets)) {
		if old.sets[name] == nil {
			sets = append(sets, name)
			s := next.sets[name].Set
			s.Table = f.table
			if err := w.conn.AddSet(&s, nil); err != nil {
				return err
			}
			if err := w.more(1); err != nil {
				return err
			}
		}
	}
	for _, name := range slices.Sorted(maps.Keys(next.chains)) {
		if old.chains[name] != nil {
			continue
		}
		chains = append(chains, name)
		w.conn.AddChain(&nftables.Chain{Name: name, Table: f.table})
		if err := w.more(1); err != nil {
			return err
		}
	}
	for _, name := range chains {
		if err := w.rules(f, name, next.chains[name], true); err != nil {
			return err
		}
	}
	for _, name := range sets {
		if err := w.elements(f, name, nil, next.sets[name], true); err != nil {
			return err
		}
	}
	return nil
}

func (w *writer) rules(f *family, name string, c *chain, flush bool) error {
	for _, r := range c.rules {
		w.conn.AddRule(&nftables.Rule{Table: f.table, Chain: &nftables.Chain{Name: name}, Exprs: r})
		if flush {
			if err := w.more(1); err != nil {
				return err
			}
		}
	}
	return nil
}

// elements changes a set's elements from those of old to those of next. Either may be nil.
func (w *writer) elements(f *family, name string, old, next *set, flush bool) error {
	var gone, added []nftables.SetElement
	if old != nil {
		for key, e := range old.elements {
			if next == nil || !has(next.elements, key) {
				gone = append(gone, e)
			}
		}
	}
	var s nftables.Set
	if next != nil {
		s = next.Set
		for key, e := range next.elements {
			if old == nil || !has(old.elements, key) {
				added = append(added, e)
			}
		}
	} else {
		s = old.Set
	}
	s.Table = f.table
	for part := range slices.Chunk(gone, 200) {
		if err := w.conn.SetDeleteElements(&s, part); err != nil {
			return err
		}
	}
	for part := range slices.Chunk(added, 200) {
		if err := w.conn.SetAddElements(&s, part); err != nil {
			return err
		}
		if flush {
			if err := w.more(1); err != nil {
				return err
			}
		}
	}
	return nil
}

func has[V any](m map[string]V, k string) bool { _, ok := m[k]; return ok }

// change queues the transaction for one family.
func (w *writer) change(f *family, next *ruleset) error {
	old := w.current[f]
	for _, name := range slices.Sorted(maps.Keys(next.sets)) {
		if was := old.sets[name]; was != nil {
			if err := w.elements(f, name, was, next.sets[name], false); err != nil {
				return err
			}
		}
	}
	for _, name := range slices.Sorted(maps.Keys(old.chains)) {
		was, now := old.chains[name], next.chains[name]
		if now == nil {
			continue
		}
		same, err := sameRules(f, was, now)
		if err != nil {
			return err
		}
		if same {
			continue
		}
		w.conn.FlushChain(&nftables.Chain{Name: name, Table: f.table})
		if err := w.rules(f, name, now, false); err != nil {
			return err
		}
	}
	return nil
}

// remove removes the chains and sets of one family that no rule in use refers to any more. They refer to each other.
func (w *writer) remove(f *family, next *ruleset) error {
	old := w.current[f]
	var errs []error
	for _, name := range slices.Sorted(maps.Keys(old.chains)) {
		if next.chains[name] == nil {
			w.conn.FlushChain(&nftables.Chain{Name: name, Table: f.table})
			errs = append(errs, w.more(1))
		}
	}
	for _, name := range slices.Sorted(maps.Keys(old.sets)) {
		if next.sets[name] == nil {
			s := old.sets[name].Set
			s.Table = f.table
			w.conn.FlushSet(&s)
			errs = append(errs, w.more(1))
		}
	}
	for _, name := range slices.Sorted(maps.Keys(old.chains)) {
		if next.chains[name] == nil {
			w.conn.DelChain(&nftables.Chain{Name: name, Table: f.table})
			errs = append(errs, w.more(1))
		}
	}
	for _, name := range slices.Sorted(maps.Keys(old.sets)) {
		if next.sets[name] == nil {
			s := old.sets[name].Set
			s.Table = f.table
			w.conn.DelSet(&s)
			errs = append(errs, w.more(1))
		}
	}
	return errors.Join(errs...)
}

func sameRules(f *family, a, b *chain) (bool, error) {
	if len(a.rules) != len(b.rules) {
		return false, nil
	}
	x, err := a.text(f)
	if err != nil {
		return false, err
	}
	y, err := b.text(f)
	return x == y, err
}

// text returns the rules as the kernel reads them.
func (c *chain) text(f *family) (string, error) {
	var b strings.Builder
	for _, r := range c.rules {
		for _, e := range r {
			x, err := expr.Marshal(byte(f.table.Family), e)
			if err != nil {
				return "", err
			}
			b.Write(x)
		}
		b.WriteByte('\n')
	}
	return b.String(), nil
}
