package eks_test

import (
	"slices"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	ekstypes "github.com/aws/aws-sdk-go-v2/service/eks/types"
)

func TestNewClustersHaveTheSelfManagedAddOns(t *testing.T) {
	for name, tc := range map[string]struct {
		asked *bool
		want  bool
	}{
		"left out": {nil, true},
		"true":     {aws.Bool(true), true},
		"false":    {aws.Bool(false), false},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			in := w.createInput("dev")
			in.BootstrapSelfManagedAddons = tc.asked
			in.KubernetesNetworkConfig = &ekstypes.KubernetesNetworkConfigRequest{ServiceIpv4Cidr: aws.String("10.96.0.0/16")}
			if _, err := w.client.CreateCluster(t.Context(), in); err != nil {
				t.Fatal(err)
			}
			w.waitCluster("dev", ekstypes.ClusterStatusActive)
			got := w.objects().ids()
			for _, id := range []string{"DaemonSet kube-system/aws-node", "DaemonSet kube-system/kube-proxy", "Deployment kube-system/coredns", "StorageClass /gp2"} {
				if slices.Contains(got, id) != tc.want {
					t.Errorf("%s is there: %v, want %v", id, !tc.want, tc.want)
				}
			}
			if !tc.want {
				return
			}
			if ip := w.objects().field("Service kube-system/kube-dns", "spec.clusterIP"); ip != "10.96.0.10" {
				t.Errorf("kube-dns is at %v", ip)
			}
		})
	}
}

func TestSelfManagedAddOnsAreTheUsers(t *testing.T) {
	w := newWorld(t)
	w.cluster("dev", ekstypes.AuthenticationModeApi)
	if err := w.objects().edit("Deployment kube-system/coredns", "spec.replicas", int64(5)); err != nil {
		t.Fatal(err)
	}
	w.restart()
	w.waitCluster("dev", ekstypes.ClusterStatusActive)
	if n := w.objects().field("Deployment kube-system/coredns", "spec.replicas"); n != int64(5) {
		t.Errorf("after a restart CoreDNS has %v replicas", n)
	}
}
