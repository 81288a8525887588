package addon

import (
	"context"
	"fmt"
	"slices"

	"github.com/aws/aws-sdk-go-v2/aws"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/drydock-dev/drydock/internal/catalog/addons"
	"github.com/drydock-dev/drydock/internal/service/eks/plane"
	"github.com/drydock-dev/drydock/internal/service/eks/record"
	"github.com/drydock-dev/drydock/internal/store"
)

// selfManaged are the add-ons that a new cluster gets unless bootstrapSelfManagedAddons is false.
// They belong to the user: EKS does not update them.
// https://docs.aws.amazon.com/eks/latest/APIReference/API_CreateCluster.html
func selfManaged() []string { return []string{"vpc-cni", "kube-proxy", "coredns"} }

// ApplySelfManaged applies the self-managed add-ons of a new cluster. It leaves existing objects
// alone: they are a user's, or from an earlier attempt.
func (s *Service) ApplySelfManaged(ctx context.Context, key store.Key, rec record.Cluster, p record.Plane) error {
	if !rec.SelfManagedAddons {
		return nil
	}
	ses, err := s.Sessions.Open(key, p.ID)
	if err != nil {
		return err
	}
	objects := addons.System()
	in := clusterFacts(key, rec, p)
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
	return plane.Each(ctx, objects, func(ctx context.Context, o *unstructured.Unstructured) error {
		if err := ses.Objects.Apply(ctx, o, plane.ApplyOptions{}); err != nil && !apierrors.IsConflict(err) {
			return fmt.Errorf("applying %s: %w", plane.Describe(o), err)
		}
		return nil
	})
}

// clusterFacts returns what the templates of add-on objects need to know about a cluster.
func clusterFacts(key store.Key, rec record.Cluster, p record.Plane) addons.Cluster {
	return addons.Cluster{
		Name: rec.Name(), Region: key.Region, Endpoint: "https://" + p.AWSHost, DNSAddress: rec.DNSAddress(),
		VPCID: aws.ToString(rec.Cluster.ResourcesVpcConfig.VpcId), IPv6: rec.IPv6(),
	}
}
