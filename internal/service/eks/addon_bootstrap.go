package eks

import (
	"context"
	"fmt"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/drydock-dev/drydock/internal/catalog/addons"
	"github.com/drydock-dev/drydock/internal/store"
)

// selfManaged are the add-ons a cluster is born with unless
// bootstrapSelfManagedAddons is false. They belong to the user: nothing keeps
// them up to date.
// https://docs.aws.amazon.com/eks/latest/APIReference/API_CreateCluster.html
func selfManaged() []string { return []string{"vpc-cni", "kube-proxy", "coredns"} }

// ensureSelfManaged applies the self-managed add-ons of a new cluster. It takes
// nothing over: what is there already is a user's, or an earlier attempt's.
func (s *Service) ensureSelfManaged(ctx context.Context, key store.Key, rec clusterRecord, plane Plane) error {
	if !rec.SelfManagedAddons {
		return nil
	}
	ses, err := s.sessions.open(key, plane.ID)
	if err != nil {
		return err
	}
	objects := addons.System()
	in := addonCluster(key, rec, plane)
	for _, name := range selfManaged() {
		a, ok := addons.Lookup(name)
		if !ok {
			return fmt.Errorf("no add-on %s in the catalogue", name)
		}
		v := a.Default(*rec.Cluster.Version)
		if v == nil {
			return fmt.Errorf("no version of add-on %s for Kubernetes %s", name, *rec.Cluster.Version)
		}
		own, err := a.Objects(v, in)
		if err != nil {
			return err
		}
		objects = slices.Concat(objects, own)
	}
	return each(ctx, objects, func(ctx context.Context, o *unstructured.Unstructured) error {
		if err := ses.objects.Apply(ctx, o, ApplyOptions{}); err != nil && !apierrors.IsConflict(err) {
			return fmt.Errorf("applying %s: %w", describeObject(o), err)
		}
		return nil
	})
}

// addonCluster is what the objects of add-ons need to know of a cluster.
func addonCluster(key store.Key, rec clusterRecord, plane Plane) addons.Cluster {
	return addons.Cluster{
		Name: rec.name(), Region: key.Region, Endpoint: "https://" + plane.AWSHost, DNSAddress: rec.dnsAddress(),
		VPCID: text(rec.Cluster.ResourcesVpcConfig.VpcId),
	}
}
