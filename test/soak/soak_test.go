// Package soak lets nodes join and leave a cluster at random, for minutes, while faults come and go, and checks
// invariants: no address is used twice, no node is a ghost, no network interface leaks, and the daemon's goroutines
// and file descriptors do not grow.
//
// It also gives instances user data that nobody should use, and checks that the daemon is unaffected.
//
// It drives the built program from outside, with the AWS SDK and client-go, and sets faults with drydock fault. The
// short form, with 25 nodes, is part of the tests; DRYDOCK_SOAK=10m (make soak) runs the long one, with 200, in which
// the daemon also crashes. A printed seed determines what is done, and in which order: DRYDOCK_SOAK_SEED repeats it.
package soak

import (
	"math/rand/v2"
	"os"
	"strconv"
	"testing"
	"time"
)

// A plan says how long a soak lasts, with how many nodes, and with which seed.
type plan struct {
	churn time.Duration
	nodes int
	long  bool
	seed  uint64
}

func readPlan(t *testing.T) plan {
	t.Helper()
	p := plan{churn: 12 * time.Second, nodes: 25, seed: uint64(time.Now().UnixNano())}
	if s := os.Getenv("DRYDOCK_SOAK"); s != "" {
		d, err := time.ParseDuration(s)
		if err != nil {
			t.Fatalf("DRYDOCK_SOAK: %v", err)
		}
		p.churn, p.nodes, p.long = d, 200, true
	}
	if s := os.Getenv("DRYDOCK_SOAK_NODES"); s != "" {
		n, err := strconv.Atoi(s)
		if err != nil || n < 5 {
			t.Fatalf("DRYDOCK_SOAK_NODES is a number of 5 or more, not %q", s)
		}
		p.nodes = n
	}
	if s := os.Getenv("DRYDOCK_SOAK_SEED"); s != "" {
		n, err := strconv.ParseUint(s, 10, 64)
		if err != nil {
			t.Fatalf("DRYDOCK_SOAK_SEED: %v", err)
		}
		p.seed = n
	}
	return p
}

func TestSoak(t *testing.T) {
	if testing.Short() {
		t.Skip("takes most of a minute")
	}
	p := readPlan(t)
	t.Logf("%d nodes for %v; the same again: DRYDOCK_SOAK_SEED=%d", p.nodes, p.churn, p.seed)
	began := time.Now()
	w := newWorld(t, p)
	empty := w.settledUsage()
	t.Logf("cluster ready after %v: %v", time.Since(began).Round(time.Millisecond), empty)

	c := &churn{w: w, plan: p, rng: rand.New(rand.NewPCG(p.seed, p.seed)), done: map[string]int{}, refused: map[string]int{}}
	c.fill()
	c.run()
	t.Logf("%v; refused: %v", c.done, c.refused)
	t.Logf("in the middle of it: %v", w.usage())

	c.mend()
	w.awaitWhole(2 * time.Minute)
	t.Logf("all nodes that should be are Ready after %v", time.Since(began).Round(time.Millisecond))
	w.empty()
	w.awaitWhole(2 * time.Minute)
	t.Logf("all nodes are gone after %v", time.Since(began).Round(time.Millisecond))
	w.awaitNoLeftovers(time.Minute)
	w.awaitUsage(empty, 2*time.Minute)
	t.Logf("%v in all, %d looks at what must hold", time.Since(began).Round(time.Millisecond), w.looks)
}
