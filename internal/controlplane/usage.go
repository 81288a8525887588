package controlplane

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/drydock-dev/drydock/internal/controlplane/launch"
	"github.com/drydock-dev/drydock/internal/store"
)

const (
	// usageDays is the number of days for which the use of deprecated APIs is kept.
	usageDays = 30
	// maxUses is the maximum number of API and client pairs kept for a plane. New pairs replace the least recently
	// used ones.
	maxUses = 200
)

// An APIUse counts one client's requests to a deprecated API during the last 30 days.
type APIUse struct {
	launch.APIUse
	Last time.Time
}

// A usage is the stored record of a plane's use of deprecated APIs.
type usage struct{ Uses []storedUse }

type storedUse struct {
	API, Removed, UserAgent string
	Last                    time.Time
	Days                    []usedDay // in order
}

type usedDay struct {
	Day      int64 // since 1970
	Requests int
}

var usages = store.NewCollection[usage]("controlplane", "usage")

func dayOf(t time.Time) int64 { return t.Unix() / (24 * 60 * 60) }

// addUses adds the requests that the plane's process has counted.
func (p *plane) addUses(ctx context.Context, uses []launch.APIUse) error {
	now := p.m.cfg.Clock.Now().UTC()
	return p.m.cfg.Store.Update(ctx, func(tx *store.Tx) error {
		if _, err := records.Get(tx, recordKey(p.id)); err != nil {
			return store.IgnoreNotFound(err) // released
		}
		stored, err := usages.Get(tx, recordKey(p.id))
		if store.IgnoreNotFound(err) != nil {
			return err
		}
		for _, u := range uses {
			stored.add(u, now)
		}
		stored.Uses = slices.DeleteFunc(stored.Uses, func(s storedUse) bool { return dayOf(now)-dayOf(s.Last) >= usageDays })
		slices.SortStableFunc(stored.Uses, func(a, b storedUse) int { return b.Last.Compare(a.Last) })
		stored.Uses = stored.Uses[:min(len(stored.Uses), maxUses)]
		return usages.Put(tx, recordKey(p.id), stored)
	})
}

func (u *usage) add(use launch.APIUse, now time.Time) {
	i := slices.IndexFunc(u.Uses, func(s storedUse) bool {
		return s.API == use.API && s.Removed == use.Removed && s.UserAgent == use.UserAgent
	})
	if i < 0 {
		i, u.Uses = len(u.Uses), append(u.Uses, storedUse{API: use.API, Removed: use.Removed, UserAgent: use.UserAgent})
	}
	s, today := &u.Uses[i], dayOf(now)
	s.Last = now
	s.Days = slices.DeleteFunc(s.Days, func(d usedDay) bool { return today-d.Day >= usageDays })
	if n := len(s.Days); n == 0 || s.Days[n-1].Day != today {
		s.Days = append(s.Days, usedDay{Day: today})
	}
	s.Days[len(s.Days)-1].Requests += use.Requests
}

// DeprecatedUse returns the deprecated APIs of a plane that were used during the last 30 days, and their clients.
func (m *Manager) DeprecatedUse(id string) ([]APIUse, error) {
	stored, err := usages.Get(m.cfg.Store, recordKey(id))
	if err != nil {
		return nil, store.IgnoreNotFound(err)
	}
	today := dayOf(m.cfg.Clock.Now())
	var out []APIUse
	for _, s := range stored.Uses {
		u := APIUse{launch.APIUse{API: s.API, Removed: s.Removed, UserAgent: s.UserAgent}, s.Last}
		for _, d := range s.Days {
			if today-d.Day < usageDays {
				u.Requests += d.Requests
			}
		}
		if u.Requests > 0 {
			out = append(out, u)
		}
	}
	slices.SortFunc(out, func(a, b APIUse) int { return cmp.Or(cmp.Compare(a.API, b.API), cmp.Compare(a.UserAgent, b.UserAgent)) })
	return out, nil
}
