package addon

import (
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/drydock-dev/drydock/internal/catalog/addons"
	"github.com/drydock-dev/drydock/internal/service/eks/record"
)

func TestScalingDemand(t *testing.T) {
	for _, tc := range []struct{ nodes, cores, want int }{
		{0, 0, 0}, {1, 2, 1}, {16, 2, 1}, {17, 2, 2}, {160, 1, 10}, {4, 64, 1}, {4, 65, 2}, {10, 192, 8},
	} {
		var nodes []*corev1.Node
		for range tc.nodes {
			n := &corev1.Node{}
			n.Status.Capacity = corev1.ResourceList{corev1.ResourceCPU: *resource.NewQuantity(int64(tc.cores), resource.DecimalSI)}
			nodes = append(nodes, n)
		}
		if got := scalingDemand(nodes); got != tc.want {
			t.Errorf("%d nodes of %d cores ask for %d, want %d", tc.nodes, tc.cores, got, tc.want)
		}
	}
}

// Demand and resulting replicas, minute by minute.
func TestScaling(t *testing.T) {
	at := func(asked ...int) []int { return asked }
	for name, tc := range map[string]struct {
		limits addons.AutoScaling
		asked  []int
		want   []int
	}{
		"never below the least":      {addons.AutoScaling{Min: 2, Max: 1000}, at(0, 1, 1), at(2, 2, 2)},
		"nor above the most":         {addons.AutoScaling{Min: 2, Max: 4}, at(1, 9, 9), at(2, 4, 4)},
		"up at once":                 {addons.AutoScaling{Min: 2, Max: 1000}, at(2, 30, 31), at(2, 30, 31)},
		"a peak is kept ten minutes": {addons.AutoScaling{Min: 2, Max: 1000}, at(3, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2), at(3, 3, 3, 3, 3, 3, 3, 3, 3, 3, 3, 2)},
		"down by a third in 3 minutes": {addons.AutoScaling{Min: 2, Max: 1000}, slices.Concat(at(10), slices.Repeat(at(2), 24)),
			at(10, 10, 10, 10, 10, 10, 10, 10, 10, 10, 10, 6, 6, 6, 4, 4, 4, 2, 2, 2, 2, 2, 2, 2, 2)},
	} {
		t.Run(name, func(t *testing.T) {
			var s *record.AddonScaling
			now := time.Unix(1e9, 0)
			var got []int
			for _, asked := range tc.asked {
				next, changed := nextScaling(s, tc.limits, asked, now)
				if changed {
					s = &next
				} else if again, changed := nextScaling(s, tc.limits, asked, now); changed || again.Replicas != s.Replicas {
					t.Error("nothing changed, and then it did")
				}
				if len(s.Demands) > 12 {
					t.Errorf("%d demands are kept", len(s.Demands))
				}
				got = append(got, s.Replicas)
				now = now.Add(time.Minute)
			}
			if !slices.Equal(got, tc.want) {
				t.Errorf("got  %v\nwant %v", got, tc.want)
			}
		})
	}
}

// A demand that keeps changing counts as its maximum, and is neither kept nor stored every time,
// even if the clock goes back.
func TestScalingOfADemandThatFlaps(t *testing.T) {
	limits := addons.AutoScaling{Min: 2, Max: 1000}
	for name, step := range map[string]time.Duration{"a second at a time": time.Second, "and back": -time.Second} {
		t.Run(name, func(t *testing.T) {
			s := &record.AddonScaling{}
			now := time.Unix(1e9, 0)
			writes, most := 0, 0
			const looks = 3600
			for i := range looks {
				next, changed := nextScaling(s, limits, 2+8*(i%2), now)
				if changed {
					s = &next
					writes++
				}
				most = max(most, len(s.Demands))
				if i > 0 && s.Replicas != 10 {
					t.Fatalf("look %d: %d replicas", i, s.Replicas)
				}
				now = now.Add(step)
			}
			if buckets := looks/30 + 1; most > maxDemands || writes > 2*buckets {
				t.Errorf("%d writes, %d demands at most", writes, most)
			}
		})
	}
}
