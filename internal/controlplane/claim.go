package controlplane

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"

	"golang.org/x/sync/errgroup"

	"github.com/drydock-dev/drydock/internal/childproc"
	"github.com/drydock-dev/drydock/internal/store"
)

// Claim returns the plane that owner has, otherwise a spare, otherwise a new one. The plane may still be starting,
// see WaitReady. Owner is any string that permanently identifies the cluster, such as its ARN and creation token.
func (m *Manager) Claim(ctx context.Context, owner string, key Key) (Plane, error) {
	return m.claim(ctx, owner, key, "", "")
}

// ErrIDTaken means that another plane has the ID.
var ErrIDTaken = errors.New("another cluster has this ID")

// Adopt is Claim for a copy of a cluster on AWS: a new plane gets an ID, 32 upper-case hexadecimal digits, and so the
// cluster's issuer, and its host name on AWS. If host is empty, it follows from the ID.
func (m *Manager) Adopt(ctx context.Context, owner string, key Key, id, host string) (Plane, error) {
	return m.claim(ctx, owner, key, id, host)
}

func (m *Manager) claim(ctx context.Context, owner string, key Key, id, host string) (Plane, error) {
	if owner == "" {
		return Plane{}, errors.New("a control plane needs an owner")
	}
	if err := key.validate(); err != nil {
		return Plane{}, err
	}
	m.birth.Lock()
	defer m.birth.Unlock()
	if m.isClosed() {
		return Plane{}, errClosed
	}
	p, err := m.assign(ctx, owner, key, id, host)
	if err != nil {
		return Plane{}, err
	}
	if err := p.listen(ctx); err != nil {
		return Plane{}, err
	}
	if err := p.boot(ctx); err != nil {
		return Plane{}, err
	}
	p.applyFaults() // those of a cluster of the same name
	m.wakeSpares()
	return p.describe(), nil
}

// assign finds or creates the plane for owner.
func (m *Manager) assign(ctx context.Context, owner string, key Key, id, host string) (*plane, error) {
	var spare *plane
	for _, p := range m.all() {
		rec := p.snapshot()
		switch {
		case rec.Releasing:
		case rec.Owner == owner:
			return p, nil
		case id != "":
		case rec.Owner == "" && rec.Key.kind() == key.kind():
			if spare == nil || p.currentStatus().State == Ready {
				spare = p
			}
		}
	}
	if spare != nil {
		err := spare.update(ctx, func(r *record) error {
			if r.Releasing {
				return store.ErrNotFound
			}
			r.Owner, r.Key, r.CreatedAt = owner, key, m.cfg.Clock.Now()
			return nil
		})
		switch {
		case err == nil:
			return spare, m.remember(ctx, key)
		case !errors.Is(err, store.ErrNotFound): // otherwise it was just released
			return nil, err
		}
	}
	if id != "" {
		if m.find(id) != nil {
			return nil, fmt.Errorf("%w: %s", ErrIDTaken, id)
		}
		return m.bear(ctx, owner, key, id, host)
	}
	p, err := m.bear(ctx, owner, key, "", "")
	if err != nil {
		return nil, err
	}
	return p, m.remember(ctx, key)
}

// bear creates a new plane with its identity; owner is empty for a spare, and id and host are empty if they are not
// given.
func (m *Manager) bear(ctx context.Context, owner string, key Key, id, host string) (*plane, error) {
	now := m.cfg.Clock.Now()
	rec := newRecord(key, owner, now)
	rec.ID, rec.Host = cmp.Or(id, rec.ID), host
	sec, err := newSecrets(now)
	if err != nil {
		return nil, err
	}
	err = m.cfg.Store.Update(ctx, func(tx *store.Tx) error {
		return errors.Join(
			records.Create(tx, recordKey(rec.ID), rec),
			secretRecords.Create(tx, recordKey(rec.ID), sec),
		)
	})
	if err != nil {
		return nil, err
	}
	p := newPlane(m, rec, sec)
	m.mu.Lock()
	m.planes[rec.ID] = p
	m.mu.Unlock()
	return p, nil
}

// remember stores the key that was claimed last, for spares.
func (m *Manager) remember(ctx context.Context, key Key) error {
	if m.cfg.WarmSpares == 0 || key.IPFamily == "ipv6" { // the service range of an IPv6 cluster is random
		return nil
	}
	return m.cfg.Store.Update(ctx, func(tx *store.Tx) error {
		return lastKeys.Put(tx, recordKey("last"), key.kind())
	})
}

// Release removes a plane and everything that belongs to it: process, listener, files, Kubernetes state, record.
// Releasing a missing plane does nothing. After an error, call it again; a new Manager continues a release by itself.
func (m *Manager) Release(ctx context.Context, id string) error {
	if p := m.find(id); p != nil {
		return m.release(ctx, p)
	}
	return nil
}

// ReleaseOf is Release for a plane of an owner: another cluster may have its ID by now.
func (m *Manager) ReleaseOf(ctx context.Context, id, owner string) error {
	if p := m.find(id); p != nil && p.snapshot().Owner == owner {
		return m.release(ctx, p)
	}
	return nil
}

func (m *Manager) release(ctx context.Context, p *plane) error {
	p.releasing.Lock()
	defer p.releasing.Unlock()
	if p.isReleased() {
		return nil // another plane may have its ID by now
	}
	if err := p.update(ctx, func(r *record) error { r.Releasing = true; return nil }); err != nil && !errors.Is(err, store.ErrNotFound) {
		return err
	}
	p.set(func() { p.rec.Releasing = true }) // also if a reset has already removed the record
	// Nothing of it is needed any more, so it need not end in good order.
	p.halt((*childproc.Supervisor).Kill)
	if err := os.RemoveAll(string(p.dir())); err != nil {
		return err
	}
	if err := m.cfg.Store.DeleteClusterPrefix(ctx, p.id); err != nil {
		return fmt.Errorf("removing the state of control plane %s: %w", p.id, err)
	}
	err := m.cfg.Store.Update(ctx, func(tx *store.Tx) error {
		records.Delete(tx, recordKey(p.id))
		secretRecords.Delete(tx, recordKey(p.id))
		usages.Delete(tx, recordKey(p.id))
		return nil
	})
	if err != nil {
		return err
	}
	p.set(func() { close(p.released) })
	m.mu.Lock()
	delete(m.planes, p.id)
	m.mu.Unlock()
	return nil
}

// ReleaseAll releases the planes of an account, or all planes and spares if account is empty. It uses the running
// planes rather than the records, because a reset of the store may have removed the records already.
func (m *Manager) ReleaseAll(ctx context.Context, account string) error {
	group, ctx := errgroup.WithContext(ctx)
	for _, p := range m.all() {
		rec := p.snapshot()
		if account == "" || rec.Owner != "" && rec.Key.Account == account {
			group.Go(func() error { return m.release(ctx, p) })
		}
	}
	return group.Wait()
}
