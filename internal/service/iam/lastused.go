package iam

import (
	"context"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	awsiam "github.com/aws/aws-sdk-go-v2/service/iam"
	iamtypes "github.com/aws/aws-sdk-go-v2/service/iam/types"

	"github.com/drydock-dev/drydock/internal/authz"
	"github.com/drydock-dev/drydock/internal/awsapi"
	"github.com/drydock-dev/drydock/internal/store"
)

// lastUses records when access keys ("key/AKIA…") and roles ("role/NAME") were last used, and when users and roles last
// called a service ("service/UNIQUE-ID/PREFIX"). It lags behind: see Run. What is deleted takes its uses along.
var lastUses = store.NewCollection[use]("iam", "last-use")

// A use is the last use of an access key or a role.
type use struct {
	Owner   string // unique ID of the key's user or of the role
	Time    time.Time
	Region  string
	Service string
}

const (
	// keepUses is the interval between writes of last uses. AWS's is longer.
	keepUses = time.Minute
	// usesPerWrite limits the size of a transaction.
	usesPerWrite = 50
)

// A usageLog has the uses that have not been stored yet: at most one per key.
type usageLog struct {
	mu   sync.Mutex
	uses map[store.Key]use
}

func keyUse(account, id string) store.Key { return store.Key{Account: account, ID: "key/" + id} }

func roleUse(account, name string) store.Key {
	return store.Key{Account: account, ID: "role/" + strings.ToLower(name)}
}

// forgetUses deletes what is recorded of the services that a user or role called.
func forgetUses(tx *store.Tx, account, id string) {
	of := within(account)
	of.Prefix = accessKeyFor(account, id, "").ID
	for _, u := range lastUses.All(tx, of) {
		lastUses.Delete(tx, u.Key)
	}
}

// RecordUse remembers that call used its credentials. The first call by an account's root creates
// the account; nothing else is stored at once.
func (s *Service) RecordUse(ctx context.Context, call *awsapi.Call) error {
	p := call.Principal
	if p.Type == awsapi.Root {
		return s.EnsureAccount(ctx, p.Account)
	}
	u := use{Time: call.Time.UTC().Truncate(time.Second), Region: call.Region, Service: authz.Prefix(call.Service)}
	key := store.Key{Account: p.Account}
	switch p.Type {
	case awsapi.IAMUser:
		u.Owner = p.UserID
		if p.IssuedAt.IsZero() {
			key = keyUse(p.Account, p.AccessKeyID)
		}
	case awsapi.AssumedRole:
		u.Owner, _, _ = strings.Cut(p.UserID, ":")
		key = roleUse(p.Account, p.Name)
	default:
		return nil
	}
	s.used.mu.Lock()
	defer s.used.mu.Unlock()
	if s.used.uses == nil {
		s.used.uses = map[store.Key]use{}
	}
	if key.ID != "" {
		s.used.uses[key] = u
	}
	s.used.uses[accessKeyFor(p.Account, u.Owner, u.Service)] = u
	return nil
}

// lastUse returns the last use of a key or role that belongs to owner.
func (s *Service) lastUse(key store.Key, owner string) (use, bool) {
	s.used.mu.Lock()
	u, ok := s.used.uses[key]
	s.used.mu.Unlock()
	if !ok {
		var err error
		u, err = lastUses.Get(s.store, key)
		ok = err == nil
	}
	return u, ok && u.Owner == owner
}

// Run stores last uses periodically and once more when ctx ends.
func (s *Service) Run(ctx context.Context) error {
	ticker := s.clock.NewTicker(keepUses)
	defer ticker.Stop()
	for {
		select {
		case <-ticker.C():
			s.keepUses(ctx)
		case <-ctx.Done():
			last, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
			defer cancel()
			s.keepUses(last)
			return nil
		}
	}
}

// keepUses stores the remembered uses. If a write fails they are lost, since the data is not
// important.
func (s *Service) keepUses(ctx context.Context) {
	s.used.mu.Lock()
	uses := s.used.uses
	s.used.uses = nil
	s.used.mu.Unlock()
	for batch := range slices.Chunk(slices.Collect(maps.Keys(uses)), usesPerWrite) {
		err := s.store.Update(ctx, func(tx *store.Tx) error {
			principals := map[string]map[string]bool{} // unique IDs by account
			for _, k := range batch {
				if principals[k.Account] == nil {
					principals[k.Account] = principalIDs(tx, k.Account)
				}
				if owner := uses[k].Owner; !principals[k.Account][owner] || !stillThere(tx, k, owner) {
					continue
				}
				if err := lastUses.Put(tx, k, uses[k]); err != nil {
					return err
				}
			}
			return nil
		})
		if err != nil {
			s.parsed.log.WarnContext(ctx, "iam: could not record when access keys and roles were last used", "err", err)
			return
		}
	}
}

func principalIDs(r store.Reader, account string) map[string]bool {
	out := map[string]bool{}
	for _, u := range users.All(r, within(account)) {
		out[u.Value.ID] = true
	}
	for _, r := range roles.All(r, within(account)) {
		out[r.Value.ID] = true
	}
	return out
}

// stillThere reports whether the key or role still exists. Its owner does.
func stillThere(tx *store.Tx, key store.Key, owner string) bool {
	kind, id, _ := strings.Cut(key.ID, "/")
	switch kind {
	case "service":
		return true
	case "role":
		r, err := roles.Get(tx, nameKey(key.Account, id))
		return err == nil && r.ID == owner
	}
	k, err := keys.Get(tx, store.Key{Account: key.Account, ID: id})
	return err == nil && k.UserID == owner
}

// GetAccessKeyLastUsed returns when, in which region and for which service a key was last used.
func (s *Service) GetAccessKeyLastUsed(ctx context.Context, in *awsiam.GetAccessKeyLastUsedInput) (*awsiam.GetAccessKeyLastUsedOutput, error) {
	acct := awsapi.CallFrom(ctx).Account
	k, err := keys.Get(s.store, store.Key{Account: acct, ID: *in.AccessKeyId})
	if err != nil {
		return nil, store.NotFoundAs(err, noSuchAccessKey(*in.AccessKeyId))
	}
	// https://docs.aws.amazon.com/IAM/latest/APIReference/API_AccessKeyLastUsed.html
	last := &iamtypes.AccessKeyLastUsed{Region: aws.String("N/A"), ServiceName: aws.String("N/A")}
	if u, ok := s.lastUse(keyUse(acct, *in.AccessKeyId), k.UserID); ok {
		last = &iamtypes.AccessKeyLastUsed{LastUsedDate: &u.Time, Region: &u.Region, ServiceName: &u.Service}
	}
	return &awsiam.GetAccessKeyLastUsedOutput{AccessKeyLastUsed: last, UserName: &k.User}, nil
}

// roleLastUsed returns a role's last use. It is empty if the role was never used.
func (s *Service) roleLastUsed(account string, r *role) *iamtypes.RoleLastUsed {
	u, ok := s.lastUse(roleUse(account, r.Name), r.ID)
	if !ok {
		return &iamtypes.RoleLastUsed{}
	}
	return &iamtypes.RoleLastUsed{LastUsedDate: &u.Time, Region: &u.Region}
}
