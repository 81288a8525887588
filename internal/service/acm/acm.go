// Package acm implements AWS Certificate Manager: certificates that clients request and import, for the listeners of
// load balancers. Requested certificates are issued once CNAME records in Route 53 validate their names.
//
//	aws acm … ──► operations ──► certificates
//	Run ──► Route 53: does the CNAME exist? ──► issue
//
// AWS deviation: browsers do not trust the issuers.
//
// Package authz makes access decisions. Only the composition root imports the package.
package acm

import (
	"cmp"
	"context"
	"crypto/sha256"
	"crypto/tls"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"k8s.io/utils/clock"

	"github.com/drydock-dev/drydock/internal/arn"
	"github.com/drydock-dev/drydock/internal/awsapi/regional"
	timing "github.com/drydock-dev/drydock/internal/clock"
	"github.com/drydock-dev/drydock/internal/store"
)

// Config is what the service needs.
type Config struct {
	Store *store.Store
	// CNAME returns the target of a name's CNAME record in a public zone, or "" if there is no such record.
	CNAME func(name string) string
	// Users returns the ARNs of the load balancers that use a certificate.
	Users func(account, region, certificate string) []string
	Clock clock.WithTicker // nil means the real clock
	Log   *slog.Logger     // nil means slog.Default
}

// Service is AWS Certificate Manager.
type Service struct {
	cfg   Config
	store *store.Store
	clock clock.WithTicker
	log   *slog.Logger
}

// New returns the service. Call Run to issue certificates.
func New(cfg Config) *Service {
	return &Service{cfg: cfg, store: cfg.Store, clock: cmp.Or[clock.WithTicker](cfg.Clock, clock.RealClock{}), log: cmp.Or(cfg.Log, slog.Default())}
}

func (s *Service) now() time.Time { return s.clock.Now().UTC().Truncate(time.Second) }

type scope struct{ regional.Scope }

func scopeOf(ctx context.Context) scope { return scope{regional.Of(ctx)} }

func (sc scope) arn(id string) string {
	return arn.New("acm", sc.Region, sc.Account, "certificate/"+id)
}

// find returns the certificate whose ARN is in a request.
func (s *Service) find(ctx context.Context, name *string) (certificateRecord, error) {
	key, err := keyOf(scopeOf(ctx), *name)
	if err != nil {
		return certificateRecord{}, err
	}
	c, err := certificates.Get(s.store, key)
	return c, store.NotFoundAs(err, errNotFound(*name))
}

// change changes the certificate whose ARN is in a request.
func (s *Service) change(ctx context.Context, name *string, fn func(*certificateRecord) error) error {
	key, err := keyOf(scopeOf(ctx), *name)
	if err != nil {
		return err
	}
	return store.NotFoundAs(certificates.UpdateOne(ctx, s.store, key, fn), errNotFound(*name))
}

func keyOf(sc scope, name string) (store.Key, error) {
	a, err := arn.Parse(name)
	id, ok := strings.CutPrefix(a.Resource, "certificate/")
	switch {
	case err != nil || a.Service != "acm" || !ok || id == "" || strings.Contains(id, "/"):
		return store.Key{}, errARN(name)
	case a.Account != sc.Account || a.Region != sc.Region:
		return store.Key{}, errNotFound(name)
	}
	return sc.Key(id), nil
}

// State reports whether a certificate exists, and whether listeners can use it.
func (s *Service) State(account, region, name string) (exists, usable bool) {
	key, err := keyOf(scope{regional.At(account, region)}, name)
	if err != nil {
		return false, false
	}
	c, err := certificates.Get(s.store, key)
	return err == nil, err == nil && c.Status == issued
}

// KeyPair returns an issued certificate with its chain and its private key, for listeners. An earlier version did not keep
// the keys: a certificate that was requested then is issued again.
func (s *Service) KeyPair(ctx context.Context, account, region, name string) (tls.Certificate, error) {
	key, err := keyOf(scope{regional.At(account, region)}, name)
	if err != nil {
		return tls.Certificate{}, err
	}
	c, err := certificates.Get(s.store, key)
	switch {
	case err != nil:
		return tls.Certificate{}, err
	case c.Status != issued:
		return tls.Certificate{}, errInProgress(name)
	case c.Key == "" && c.Imported:
		return tls.Certificate{}, errors.New("its private key was not kept when it was imported: import it again")
	case c.Key == "":
		if err := c.issue(s.now()); err != nil {
			return tls.Certificate{}, err
		}
		err := certificates.UpdateOne(ctx, s.store, key, func(r *certificateRecord) error {
			if r.Key == "" {
				r.PEM, r.Chain, r.Key, r.Issued = c.PEM, c.Chain, c.Key, c.Issued
			}
			c = *r
			return nil
		})
		if err != nil {
			return tls.Certificate{}, err
		}
	}
	return tls.X509KeyPair([]byte(strings.TrimSpace(c.PEM)+"\n"+c.Chain), []byte(c.Key))
}

func (s *Service) users(sc scope, id string) []string {
	if s.cfg.Users == nil {
		return []string{}
	}
	return append([]string{}, s.cfg.Users(sc.Account, sc.Region, sc.arn(id))...)
}

// validationRecord returns the CNAME record that proves an account's control of a domain. An account always gets the
// same record for a domain and its wildcard, so one record serves all certificates and their renewals.
// https://docs.aws.amazon.com/acm/latest/userguide/dns-validation.html
func validationRecord(account, domain string) (name, value string) {
	domain = strings.TrimPrefix(domain, "*.")
	sum := sha256.Sum256([]byte(account + " " + domain))
	h := hex.EncodeToString(sum[:])
	return fmt.Sprintf("_%s.%s.", h[:32], domain), fmt.Sprintf("_%s.%s.acm-validations.aws.", h[32:], letters(sum[:10]))
}

func letters(b []byte) string {
	out := make([]byte, len(b))
	for i, c := range b {
		out[i] = 'a' + c%26
	}
	return string(out)
}

// validated reports whether the CNAME record for a domain exists.
func (s *Service) validated(account, domain string) bool {
	name, value := validationRecord(account, domain)
	return s.cfg.CNAME != nil && s.cfg.CNAME(name) == strings.TrimSuffix(value, ".")
}

// pause is the time between two checks of pending certificates.
const pause = time.Second

// patience is how long a request waits for its records.
// https://docs.aws.amazon.com/acm/latest/userguide/troubleshooting-DNS-validation.html
const patience = 72 * time.Hour

// Run issues certificates once their records exist. It checks whenever the store has changed.
func (s *Service) Run(ctx context.Context) error {
	for {
		changed := s.store.Changed()
		for _, item := range certificates.All(s.store, store.Scope{}) {
			if item.Value.Status != pending {
				continue
			}
			if err := s.settle(ctx, item.Key); err != nil && ctx.Err() == nil {
				s.log.ErrorContext(ctx, "issuing a certificate", "certificate", item.Key.String(), "error", err)
			}
		}
		select {
		case <-ctx.Done():
			return nil
		case <-changed:
		}
		if !timing.Sleep(ctx, s.clock, pause) {
			return nil
		}
	}
}

// settle issues a pending certificate if all its names are validated. A certificate that has waited too long times out.
func (s *Service) settle(ctx context.Context, key store.Key) error {
	c, err := certificates.Get(s.store, key)
	if err != nil {
		return store.IgnoreNotFound(err)
	}
	now := s.now()
	done := true
	for _, d := range c.Names {
		done = done && s.validated(key.Account, d)
	}
	late := now.Sub(c.Created) > patience
	if !done && !late {
		return nil
	}
	if done {
		if err := c.issue(now); err != nil {
			return err
		}
	} else {
		c.Status = timedOut
	}
	err = certificates.UpdateOne(ctx, s.store, key, func(r *certificateRecord) error {
		if r.Status == pending {
			r.PEM, r.Chain, r.Key, r.Status, r.Issued = c.PEM, c.Chain, c.Key, c.Status, c.Issued
		}
		return nil
	})
	return store.IgnoreNotFound(err)
}
