package controlplane

import (
	"bytes"
	"cmp"
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"slices"
	"strings"
)

// An Authority is a certificate authority that a plane trusts.
type Authority struct {
	ID      string
	CertPEM []byte
	Signs   bool // it issues the plane's certificates
}

// Authorities returns the certificate authorities of a plane; the one that signs comes first.
func (m *Manager) Authorities(id string) []Authority {
	p := m.find(id)
	if p == nil {
		return nil
	}
	var out []Authority
	for i, a := range p.keys().authorities() {
		out = append(out, Authority{ID: a.id(p.id), CertPEM: a.CertPEM, Signs: i == 0})
	}
	return out
}

// AddAuthority makes a plane trust a new certificate authority, which signs nothing yet. Like the next two methods, it
// replaces the plane's process while it serves, does nothing to a plane that is as requested, and can be repeated. After an
// error, the plane is as it was, unless its process already has the new authorities.
func (m *Manager) AddAuthority(ctx context.Context, id, authority string) error {
	return m.changeAuthorities(ctx, id, func(s *secrets) error {
		if s.find(id, authority) >= 0 {
			return nil
		}
		now := m.cfg.Clock.Now()
		a, err := newAuthority("kubernetes", now)
		a.ID, a.AddedAt = authority, now
		s.Trusted = append(s.Trusted, a)
		return err
	})
}

// ActivateAuthority makes one of the plane's certificate authorities the one that signs. The others stay trusted.
func (m *Manager) ActivateAuthority(ctx context.Context, id, authority string) error {
	return m.changeAuthorities(ctx, id, func(s *secrets) error {
		switch i := s.find(id, authority); {
		case i < 0:
			return fmt.Errorf("control plane %s has no certificate authority %s", id, authority)
		case i > 0:
			s.CA, s.Trusted[i-1] = s.Trusted[i-1], s.CA
		}
		return nil
	})
}

// RemoveAuthority makes a plane no longer trust a certificate authority, which must not be the one that signs.
func (m *Manager) RemoveAuthority(ctx context.Context, id, authority string) error {
	return m.changeAuthorities(ctx, id, func(s *secrets) error {
		switch i := s.find(id, authority); {
		case i == 0:
			return fmt.Errorf("certificate authority %s signs the certificates of control plane %s", authority, id)
		case i > 0:
			s.Trusted = slices.Delete(s.Trusted, i-1, i)
		}
		return nil
	})
}

func (m *Manager) changeAuthorities(ctx context.Context, id string, change func(*secrets) error) error {
	p := m.find(id)
	if p == nil {
		return ErrNotFound
	}
	p.upgrading.Lock()
	defer p.upgrading.Unlock()
	was := p.keys()
	next := was
	next.Trusted = slices.Clone(was.Trusted)
	if err := change(&next); err != nil {
		return err
	}
	if !p.has(next) {
		if err := p.storeKeys(ctx, next); err != nil {
			return err
		}
		if err := p.replace(ctx, p.snapshot().Key.Version); err != nil {
			if p.has(next) {
				return err
			}
			return errors.Join(err, p.restoreKeys(ctx, was))
		}
	}
	if p.expired() != nil {
		return nil // the controllers start when an authority signs that has not expired
	}
	return p.awaitLeading(ctx)
}

// has reports whether the plane's process was started with the authorities of sec.
func (p *plane) has(sec secrets) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.process != nil && bytes.Equal(p.process.bundle, sec.bundle())
}

// storeKeys changes the plane's keys, first in the store and then here.
func (p *plane) storeKeys(ctx context.Context, sec secrets) error {
	if err := secretRecords.UpdateOne(ctx, p.m.cfg.Store, recordKey(p.id), func(s *secrets) error { *s = sec; return nil }); err != nil {
		return err
	}
	p.set(func() { p.secrets = sec })
	p.clients.renewCert()
	return nil
}

// restoreKeys undoes a change of keys that the plane's process has not adopted. The process rereads the files that its
// successor has changed.
func (p *plane) restoreKeys(ctx context.Context, was secrets) error {
	if p.snapshot().Releasing {
		return nil
	}
	if err := p.storeKeys(context.WithoutCancel(ctx), was); err != nil {
		return err
	}
	return p.writeFiles(p.snapshot(), was)
}

// keys returns the plane's keys.
func (p *plane) keys() secrets {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.secrets
}

// authorities returns the certificate authorities that sign or are trusted; the one that signs comes first.
func (s secrets) authorities() []authority { return append([]authority{s.CA}, s.Trusted...) }

// find returns the index of an authority of a plane in authorities, or -1.
func (s secrets) find(plane, id string) int {
	return slices.IndexFunc(s.authorities(), func(a authority) bool { return a.id(plane) == id })
}

// bundle returns the certificates of all authorities in PEM.
func (s secrets) bundle() []byte {
	var out [][]byte
	for _, a := range s.authorities() {
		out = append(out, a.CertPEM)
	}
	return bytes.Join(out, nil)
}

// pool returns the certificates of all authorities.
func (s secrets) pool() *x509.CertPool {
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(s.bundle())
	return pool
}

// id returns the authority's ID. The one that a plane is created with has an ID that is derived from the plane's.
func (a authority) id(plane string) string { return cmp.Or(a.ID, "ca-"+strings.ToLower(plane[:17])) }
