package eks_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	awsshift "github.com/aws/aws-sdk-go-v2/service/arczonalshift"
	shifttypes "github.com/aws/aws-sdk-go-v2/service/arczonalshift/types"
	awsautoscaling "github.com/aws/aws-sdk-go-v2/service/autoscaling"
	awseks "github.com/aws/aws-sdk-go-v2/service/eks"
	ekstypes "github.com/aws/aws-sdk-go-v2/service/eks/types"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/drydock-dev/drydock/internal/catalog/regions"
	"github.com/drydock-dev/drydock/internal/service/arczonalshift"
	"github.com/drydock-dev/drydock/internal/testkit"
)

// managedResources is what internal/app gives ARC.
func (w *world) managedResources(account, region string) []arczonalshift.Resource {
	var out []arczonalshift.Resource
	r, _ := regions.Lookup(region)
	for _, c := range w.svc.Shiftable(account, region) {
		out = append(out, arczonalshift.Resource{ARN: c.ARN, Name: c.Name, Created: c.Created, Zones: func(ctx context.Context) ([]string, error) {
			names, err := c.Zones(ctx)
			for i := range names {
				z, _ := r.Zone(names[i])
				names[i] = z.ID
			}
			return names, err
		}})
	}
	return out
}

// nodeState returns, for every node, its zone and whether it is cordoned.
func (w *world) nodeState() string {
	w.Helper()
	list, err := w.kubernetes().CoreV1().Nodes().List(w.Context(), metav1.ListOptions{})
	if err != nil {
		w.Fatal(err)
	}
	var out []string
	for _, n := range list.Items {
		state := n.Labels["topology.kubernetes.io/zone"][len("us-east-1"):]
		if n.Spec.Unschedulable {
			state += " cordoned"
		}
		out = append(out, state)
	}
	slices.Sort(out)
	return strings.Join(out, ", ")
}

// groupState returns the subnets of a node group's Auto Scaling group, and its suspended processes.
func (w *world) groupState(g *ekstypes.Nodegroup) string {
	w.Helper()
	out := testkit.Must(w.asg.DescribeAutoScalingGroups(w.Context(), &awsautoscaling.DescribeAutoScalingGroupsInput{AutoScalingGroupNames: []string{*g.Resources.AutoScalingGroups[0].Name}}))(w).AutoScalingGroups[0]
	state := *out.VPCZoneIdentifier
	for _, p := range out.SuspendedProcesses {
		state += " without " + *p.ProcessName
	}
	return state
}

func (w *world) waitState(what string, get func() string, want string) {
	w.Helper()
	w.eventually(func() error {
		if got := get(); got != want {
			return fmt.Errorf("%s: %q, want %q", what, got, want)
		}
		return nil
	})
}

func TestZonalShift(t *testing.T) {
	w := newWorld(t, withClock)
	in := w.createInput("dev")
	in.ZonalShiftConfig = &ekstypes.ZonalShiftConfigRequest{Enabled: aws.Bool(true)}
	testkit.Must(w.client.CreateCluster(t.Context(), in))(t)
	cluster := w.waitCluster("dev", ekstypes.ClusterStatusActive)
	testkit.Must(w.client.CreateNodegroup(t.Context(), w.nodegroupInput("dev", "ng", 4)))(t)
	one := w.nodegroupInput("dev", "one", 1)
	one.Subnets = []string{"subnet-a"}
	testkit.Must(w.client.CreateNodegroup(t.Context(), one))(t)
	ng, single := w.waitNodegroup("dev", "ng", ekstypes.NodegroupStatusActive), w.waitNodegroup("dev", "one", ekstypes.NodegroupStatusActive)
	w.waitState("nodes", w.nodeState, "a, a, a, b, b")
	group, lonely := func() string { return w.groupState(ng) }, func() string { return w.groupState(single) }
	arc := awsshift.NewFromConfig(w.server.AWSConfig(w.account), func(o *awsshift.Options) { o.Retryer = aws.NopRetryer{} })
	start := func(expires string) *string {
		t.Helper()
		return testkit.Must(arc.StartZonalShift(t.Context(), &awsshift.StartZonalShiftInput{ResourceIdentifier: cluster.Arn, AwayFrom: aws.String("use1-az1"), ExpiresIn: &expires, Comment: aws.String("bad deployment")}))(t).ZonalShiftId
	}

	// What a user cordoned stays cordoned afterwards.
	nodes := testkit.Must(w.kubernetes().CoreV1().Nodes().List(t.Context(), metav1.ListOptions{LabelSelector: "topology.kubernetes.io/zone=us-east-1a,eks.amazonaws.com/nodegroup=ng"}))(t).Items
	testkit.Must(w.kubernetes().CoreV1().Nodes().Patch(t.Context(), nodes[0].Name, types.MergePatchType, []byte(`{"spec":{"unschedulable":true}}`), metav1.PatchOptions{}))(t)
	id := start("72h")
	zone1, _ := regions.Lookup("us-east-1")
	z, _ := zone1.Zone("use1-az1")
	if z.Name != "us-east-1a" {
		t.Fatalf("use1-az1 is %s", z.Name)
	}
	w.waitState("nodes", w.nodeState, "a cordoned, a cordoned, a cordoned, b, b")
	w.waitState("group", group, "subnet-b without AZRebalance")
	w.waitState("group in the zone", lonely, "subnet-a without AZRebalance without Launch")
	const note = "a zonal shift away from us-east-1a is in force: its nodes are cordoned"
	w.wantNote(note, true)

	// The shift survives a crash. New instances are launched outside of the zone, also those of new node groups.
	w.restart()
	testkit.Must(w.client.UpdateNodegroupConfig(t.Context(), &awseks.UpdateNodegroupConfigInput{
		ClusterName: aws.String("dev"), NodegroupName: aws.String("ng"), ScalingConfig: &ekstypes.NodegroupScalingConfig{DesiredSize: aws.Int32(6)},
	}))(t)
	w.waitState("nodes", w.nodeState, "a cordoned, a cordoned, a cordoned, b, b, b, b")
	testkit.Must(w.client.CreateNodegroup(t.Context(), w.nodegroupInput("dev", "late", 2)))(t)
	late := w.waitNodegroup("dev", "late", ekstypes.NodegroupStatusActive)
	w.waitState("nodes", w.nodeState, "a cordoned, a cordoned, a cordoned, b, b, b, b, b, b")
	w.waitState("new group", func() string { return w.groupState(late) }, "subnet-b without AZRebalance")
	for _, g := range []string{"ng", "one", "late"} {
		if n := w.waitNodegroup("dev", g, ekstypes.NodegroupStatusActive); len(n.Health.Issues) > 0 {
			t.Errorf("%+v", n.Health)
		}
	}

	testkit.Must(arc.CancelZonalShift(t.Context(), &awsshift.CancelZonalShiftInput{ZonalShiftId: id}))(t)
	w.waitState("group", group, "subnet-a,subnet-b")
	w.waitState("group in the zone", lonely, "subnet-a")
	w.wantNote(note, false)
	w.waitState("new group", func() string { return w.groupState(late) }, "subnet-a,subnet-b")
	w.eventually(func() error {
		if got := w.nodeState(); strings.Count(got, "cordoned") != 1 {
			return fmt.Errorf("nodes: %s", got)
		}
		return nil
	})
	// A second shift ends by itself.
	w.pace = 10 * time.Second
	start("20m")
	w.eventually(func() error {
		if got := group(); got != "subnet-b without AZRebalance" {
			return fmt.Errorf("group: %s", got)
		}
		return nil
	})
	w.waitState("group", group, "subnet-a,subnet-b")
	w.waitState("shift", func() string {
		out := testkit.Must(arc.ListZonalShifts(t.Context(), &awsshift.ListZonalShiftsInput{Status: shifttypes.ZonalShiftStatusExpired}))(t)
		return fmt.Sprint(len(out.Items))
	}, "1")

	// A cluster that is no longer registered, or gone, is not shifted.
	start("1h")
	w.waitState("group", group, "subnet-b without AZRebalance")
	testkit.Must(w.client.UpdateClusterConfig(t.Context(), &awseks.UpdateClusterConfigInput{Name: aws.String("dev"), ZonalShiftConfig: &ekstypes.ZonalShiftConfigRequest{Enabled: aws.Bool(false)}}))(t)
	w.waitState("group", group, "subnet-a,subnet-b")
	_, err := arc.GetManagedResource(t.Context(), &awsshift.GetManagedResourceInput{ResourceIdentifier: cluster.Arn})
	wantError(t, err, "ResourceNotFoundException", "…")
}
