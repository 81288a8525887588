package controlplane_test

import (
	"context"
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/drydock-dev/drydock/internal/controlplane"
)

// A cloud provider whose role cannot be assumed still learns where it is, so that it runs and its calls report the
// problem.
func TestAPlaneLearnsItsCloudWithoutCredentials(t *testing.T) {
	place := controlplane.Cloud{Region: "eu-west-1", Cluster: "dev", VPC: "vpc-1", Subnet: "subnet-1"}
	got := controlplane.AskCloud(t.Context(), controlplane.Hooks{Cloud: func(context.Context, string) (controlplane.Cloud, error) {
		return place, errors.New("no such role")
	}}, "P")
	want := place
	want.Problem = "no such role"
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("without a role (-want +got):\n%s", diff)
	}
	if got := controlplane.AskCloud(t.Context(), controlplane.Hooks{}, "P"); got.Problem == "" || got.Cluster != "" {
		t.Errorf("without a cloud: %+v", got)
	}
}
