package eks_test

import (
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	awseks "github.com/aws/aws-sdk-go-v2/service/eks"
	ekstypes "github.com/aws/aws-sdk-go-v2/service/eks/types"

	"github.com/drydock-dev/drydock/internal/testkit"
)

// A cluster and a node group are created, changed and removed while calls fail before or after
// taking effect and the service restarts in between. Whatever happens, both end up as requested,
// and nothing is left over.
func TestAnyCrashIsSurvived(t *testing.T) {
	seeds := []uint64{1, 2, 3, 4}
	if s := os.Getenv("EKS_CRASH_SEED"); s != "" {
		seed, err := strconv.ParseUint(s, 10, 64)
		if err != nil {
			t.Fatal(err)
		}
		seeds = []uint64{seed}
	}
	for _, seed := range seeds {
		t.Run(fmt.Sprintf("EKS_CRASH_SEED=%d", seed), func(t *testing.T) { crash(t, seed) })
	}
}

func crash(t *testing.T, seed uint64) {
	r := rand.New(rand.NewPCG(seed, seed))
	w := newWorld(t)
	disturb := func() {
		w.faults.mu.Lock()
		w.faults.rand, w.faults.left, w.faults.rate = rand.New(rand.NewPCG(seed, 7)), 4, 0.3
		w.faults.mu.Unlock()
		if r.IntN(2) == 0 {
			w.restart()
		}
	}
	dev, ng := aws.String("dev"), aws.String("ng")
	mode := []ekstypes.AuthenticationMode{ekstypes.AuthenticationModeApi, ekstypes.AuthenticationModeConfigMap}[r.IntN(2)]
	in := w.createInput("dev")
	in.AccessConfig = &ekstypes.CreateAccessConfigRequest{AuthenticationMode: mode}
	in.EncryptionConfig = encryptWith(goodKey)
	if _, err := w.client.CreateCluster(t.Context(), in); err != nil {
		t.Fatal(err)
	}
	disturb()
	w.waitCluster("dev", ekstypes.ClusterStatusActive)
	if n := len(w.planes.owners); n != 1 {
		t.Errorf("%d control planes, want 1", n)
	}

	w.faults.calm()
	if _, err := w.client.CreateNodegroup(t.Context(), w.nodegroupInput("dev", "ng", 4)); err != nil {
		t.Fatal(err)
	}
	disturb()
	w.waitNodegroup("dev", "ng", ekstypes.NodegroupStatusActive)
	w.wantInstances(4)

	w.faults.calm()
	if _, err := w.client.UpdateNodegroupConfig(t.Context(), &awseks.UpdateNodegroupConfigInput{ClusterName: dev, NodegroupName: ng, ScalingConfig: &ekstypes.NodegroupScalingConfig{DesiredSize: aws.Int32(2)}}); err != nil {
		t.Fatal(err)
	}
	disturb()
	w.waitNodegroup("dev", "ng", ekstypes.NodegroupStatusActive)
	w.wantInstances(2)

	w.faults.calm()
	if _, err := w.client.DeleteNodegroup(t.Context(), &awseks.DeleteNodegroupInput{ClusterName: dev, NodegroupName: ng}); err != nil {
		t.Fatal(err)
	}
	disturb()
	w.waitNodegroupGone("dev", "ng")
	w.wantInstances(0)

	w.faults.calm()
	if _, err := w.client.DeleteCluster(t.Context(), &awseks.DeleteClusterInput{Name: dev}); err != nil {
		t.Fatal(err)
	}
	disturb()
	w.waitGone("dev")
	w.nothingLeft()
}

func (f *faults) calm() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.left = 0
}

func (w *world) wantInstances(n int) {
	w.Helper()
	testkit.Eventually(w, 20*time.Second, func() error {
		if got := len(w.ec2.running()); got != n {
			return fmt.Errorf("%d instances run, want %d", got, n)
		}
		return nil
	})
}
