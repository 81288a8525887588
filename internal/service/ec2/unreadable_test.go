package ec2_test

import (
	"testing"

	awsec2 "github.com/aws/aws-sdk-go-v2/service/ec2"

	"github.com/drydock-dev/drydock/internal/store"
	"github.com/drydock-dev/drydock/internal/testkit"
)

// An instance whose record cannot be read is left out of lists but is not treated as gone: its disk
// stays, and its Auto Scaling group does not replace it.
func TestUnreadableInstancesAreNotGone(t *testing.T) {
	w := newWorld(t)
	ctx := t.Context()
	ids := instanceIDs(w.launch(t, 2, nil))
	bad := ids[0]
	err := w.server.Store.Update(ctx, func(tx *store.Tx) error {
		damaged := store.NewCollection[string]("ec2", "instance")
		return damaged.Put(tx, store.Key{Account: w.account, Region: testkit.Region, ID: bad}, "not an object")
	})
	if err != nil {
		t.Fatal(err)
	}
	out, err := w.DescribeInstances(ctx, &awsec2.DescribeInstancesInput{})
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range out.Reservations {
		for _, i := range r.Instances {
			if *i.InstanceId == bad {
				t.Error("DescribeInstances lists the unreadable instance")
			}
		}
	}
	known, err := w.service.InstanceIDs()
	if err != nil || !known[bad] || !known[ids[1]] {
		t.Errorf("InstanceIDs: %v, %v", known, err)
	}
	if state, ok := w.service.InstanceState(w.account, testkit.Region, bad); !ok || state != "" {
		t.Errorf("InstanceState: %q, %v", state, ok)
	}
}
