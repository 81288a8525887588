package record

import (
	"time"

	ekstypes "github.com/aws/aws-sdk-go-v2/service/eks/types"

	"github.com/drydock-dev/drydock/internal/store"
)

// ConnectedClusters are the clusters from elsewhere that were registered, kept under their names. No
// name is in Clusters, too.
var ConnectedClusters = store.NewCollection[ConnectedCluster]("eks", "connectedcluster")

// A ConnectedCluster is a registered cluster. Only its tags change.
type ConnectedCluster struct {
	Cluster        ekstypes.Cluster
	Token, Request string // make RegisterCluster idempotent
}

// Connected returns the connected cluster of a name, or false if there is none.
func Connected(r store.Reader, key store.Key) (ConnectedCluster, bool) {
	c, err := ConnectedClusters.Get(r, key)
	return c, err == nil
}

// Subscriptions are the EKS Anywhere subscriptions, kept under their IDs.
var Subscriptions = store.NewCollection[Subscription]("eks", "subscription")

// A Subscription is an EKS Anywhere subscription. Its status and its present term follow from the time.
type Subscription struct {
	Subscription   ekstypes.EksAnywhereSubscription
	Name           string
	Token, Request string
}

// At returns the description at a time: in a later term if the subscription has been renewed.
func (s *Subscription) At(now time.Time) ekstypes.EksAnywhereSubscription {
	out := s.Subscription
	status := ekstypes.EksAnywhereSubscriptionStatusActive
	for !now.Before(*out.ExpirationDate) {
		if !out.AutoRenew {
			status = ekstypes.EksAnywhereSubscriptionStatusExpired
			break
		}
		out.EffectiveDate, out.ExpirationDate = out.ExpirationDate, new(out.ExpirationDate.AddDate(0, int(out.Term.Duration), 0))
	}
	out.Status = new(string(status))
	return out
}
