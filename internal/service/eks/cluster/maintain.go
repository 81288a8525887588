package cluster

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	ekstypes "github.com/aws/aws-sdk-go-v2/service/eks/types"

	"github.com/drydock-dev/drydock/internal/catalog/eksversions"
	"github.com/drydock-dev/drydock/internal/service/eks/base"
	"github.com/drydock-dev/drydock/internal/service/eks/ekserr"
	"github.com/drydock-dev/drydock/internal/service/eks/record"
	"github.com/drydock-dev/drydock/internal/store"
)

// maintain does to an ACTIVE cluster what AWS does by itself: it moves it to new platform versions, and upgrades it when the
// support of its version ends. It returns when that is due next.
// https://docs.aws.amazon.com/eks/latest/userguide/platform-versions.html
func (s *Service) maintain(ctx context.Context, key store.Key, rec record.Cluster) (time.Duration, error) {
	if to := rec.PlatformTo; to != "" {
		replacing, cancel := context.WithTimeout(ctx, upgradeWait)
		defer cancel()
		if err := s.ControlPlanes.Replace(replacing, rec.Plane.ID); err != nil {
			return 0, fmt.Errorf("moving cluster %s to platform version %s: %w", rec.Name(), to, err)
		}
		return 0, s.change(ctx, key, rec.UID, func(c *record.Cluster) {
			if c.PlatformTo == to {
				c.Cluster.PlatformVersion, c.PlatformTo, c.PlatformSince = &to, "", s.Clock.Now().UTC()
			}
		})
	}
	if s.Timing.ClusterPlatform == 0 {
		return 0, nil
	}
	now := s.Clock.Now()
	wait := platformSince(rec).Add(s.Timing.ClusterPlatform).Sub(now)
	if wait <= 0 {
		return 0, s.change(ctx, key, rec.UID, planPlatform)
	}
	if end := endOfSupport(rec); !end.IsZero() {
		left := end.Sub(now)
		if left <= 0 {
			return 0, s.endSupport(ctx, key)
		}
		wait = min(wait, left)
	}
	return wait, nil
}

// platformSince returns when a cluster got its platform version.
func platformSince(rec record.Cluster) time.Time {
	if rec.PlatformSince.IsZero() {
		return aws.ToTime(rec.Cluster.CreatedAt)
	}
	return rec.PlatformSince
}

// planPlatform decides on a cluster's next platform version.
func planPlatform(c *record.Cluster) {
	n, err := strconv.Atoi(strings.TrimPrefix(aws.ToString(c.Cluster.PlatformVersion), "eks."))
	if err == nil {
		c.PlatformTo = cmp.Or(c.PlatformTo, "eks."+strconv.Itoa(n+1))
	}
}

// endOfSupport returns when AWS upgrades a cluster by itself, or zero if there is no later version.
// https://docs.aws.amazon.com/eks/latest/userguide/kubernetes-versions.html
func endOfSupport(rec record.Cluster) time.Time {
	v, ok := eksversions.Lookup(*rec.Cluster.Version)
	switch {
	case !ok || !offered(nextVersion(v.Minor)):
		return time.Time{}
	case rec.Cluster.UpgradePolicy.SupportType == ekstypes.SupportTypeStandard:
		return v.EndOfStandardSupport
	}
	return v.EndOfExtendedSupport
}

func nextVersion(version string) string { return fmt.Sprintf("1.%d", eksversions.Number(version)+1) }

// MovePlatform moves a cluster to the next platform version, as AWS does by itself. The cluster reconciler does the work.
func (s *Service) MovePlatform(ctx context.Context, account, region, cluster string) error {
	key := store.Key{Account: account, Region: region, ID: cluster}
	err := record.Clusters.UpdateOne(ctx, s.Store, key, func(c *record.Cluster) error {
		if c.Cluster.Status != ekstypes.ClusterStatusActive {
			return ekserr.ClusterNotActive(cluster, c.Cluster.Status)
		}
		planPlatform(c)
		return nil
	})
	return store.NotFoundAs(err, ekserr.NoCluster(cluster))
}

// EndSupport upgrades a cluster to the next Kubernetes version, as AWS does when the support of its version ends.
func (s *Service) EndSupport(ctx context.Context, account, region, cluster string) error {
	return s.endSupport(ctx, store.Key{Account: account, Region: region, ID: cluster})
}

// ErrLatestVersion means that there is no later Kubernetes version to upgrade a cluster to.
var ErrLatestVersion = errors.New("is the latest one")

// endSupport starts an upgrade that neither insights nor node groups prevent.
func (s *Service) endSupport(ctx context.Context, key store.Key) error {
	return s.Store.Update(ctx, func(tx *store.Tx) error {
		rec, err := record.Clusters.Get(tx, key)
		if err != nil {
			return store.NotFoundAs(err, ekserr.NoCluster(key.ID))
		}
		to, ok := eksversions.Lookup(nextVersion(*rec.Cluster.Version))
		if !ok {
			return fmt.Errorf("Kubernetes version %s %w, so AWS does not upgrade cluster %s", *rec.Cluster.Version, ErrLatestVersion, key.ID)
		}
		up := s.NewUpdate(ekstypes.UpdateTypeVersionUpdate,
			base.UpdateParam(ekstypes.UpdateParamTypeVersion, to.Minor), base.UpdateParam(ekstypes.UpdateParamTypePlatformVersion, to.PlatformVersion))
		up.Version, up.SupportEnded = to.Minor, rec.Cluster.UpgradePolicy.SupportType
		if err := s.updatable(tx, key, rec, up); err != nil {
			return err
		}
		return s.begin(tx, key, up)
	})
}

// ClusterNames returns the names of the clusters in an account and region.
func (s *Service) ClusterNames(account, region string) []string {
	var out []string
	for _, i := range record.Clusters.All(s.Store, store.Scope{Account: account, Region: region}) {
		out = append(out, i.Key.ID)
	}
	return out
}
