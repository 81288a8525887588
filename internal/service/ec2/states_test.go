package ec2_test

import (
	"context"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	awsec2 "github.com/aws/aws-sdk-go-v2/service/ec2"

	"github.com/drydock-dev/drydock/internal/serviceevents"
)

// TestWatchStates: whoever watches sees where an instance has arrived.
func TestWatchStates(t *testing.T) {
	w := newWorld(t)
	sn := w.subnet(t, w.vpc(t, "10.0.0.0/16"), "10.0.0.0/24")
	id := *must(w.RunInstances(t.Context(), &awsec2.RunInstancesInput{ImageId: image(t, "x86_64"), InstanceType: "m5.large", MinCount: aws.Int32(1), MaxCount: aws.Int32(1), SubnetId: &sn}))(t).Instances[0].InstanceId
	ctx, stop := context.WithTimeout(t.Context(), time.Minute)
	defer stop()
	seen := map[string]bool{}
	err := w.service.WatchStates(ctx, func(c serviceevents.StateChange) {
		if c.ID != id || c.Account != w.account || c.State != "" && c.Since.IsZero() {
			t.Errorf("%+v", c)
		}
		if seen[c.State] = true; c.State == "running" {
			must(w.TerminateInstances(t.Context(), &awsec2.TerminateInstancesInput{InstanceIds: []string{id}}))(t)
		}
		if c.State == "terminated" {
			stop()
		}
	})
	if err != nil || !seen["running"] || !seen["terminated"] {
		t.Errorf("%v: saw %v", err, seen)
	}
}
