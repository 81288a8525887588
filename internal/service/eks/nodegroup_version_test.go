package eks_test

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	awsautoscaling "github.com/aws/aws-sdk-go-v2/service/autoscaling"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"
	awseks "github.com/aws/aws-sdk-go-v2/service/eks"
	ekstypes "github.com/aws/aws-sdk-go-v2/service/eks/types"
	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/drydock-dev/drydock/internal/awsapi"
	"github.com/drydock-dev/drydock/internal/catalog/images"
	"github.com/drydock-dev/drydock/internal/testkit"
)

// oldRelease is the release before the latest.
func oldRelease(t *testing.T) string {
	t.Helper()
	latest, ok := images.EKS(testkit.Region, images.AL2023, "1.36", "x86_64", "standard")
	for _, i := range images.All(testkit.Region) {
		if ok && i.Family == images.AL2023 && i.KubernetesVersion == "1.36" && i.Architecture == "x86_64" && i.Variant == "standard" && i.ReleaseVersion != latest.ReleaseVersion {
			return i.ReleaseVersion
		}
	}
	t.Fatal("no older release")
	return ""
}

// behind creates a group of an old release with n nodes.
func (w *world) behind(t *testing.T, n int32, change func(*awseks.CreateNodegroupInput)) *ekstypes.Nodegroup {
	t.Helper()
	in := w.nodegroupInput("dev", "ng", n)
	in.ReleaseVersion = aws.String(oldRelease(t))
	if change != nil {
		change(in)
	}
	if _, err := w.client.CreateNodegroup(t.Context(), in); err != nil {
		t.Fatal(err)
	}
	return w.waitNodegroup("dev", "ng", ekstypes.NodegroupStatusActive)
}

// updateVersion starts an update and waits until it ends.
func (w *world) updateVersion(in *awseks.UpdateNodegroupVersionInput) *ekstypes.Update {
	w.Helper()
	in.ClusterName, in.NodegroupName = aws.String("dev"), aws.String("ng")
	out, err := w.client.UpdateNodegroupVersion(w.Context(), in)
	if err != nil {
		w.Fatal(err)
	}
	var up *ekstypes.Update
	w.eventually(func() error {
		got, err := w.client.DescribeUpdate(w.Context(), &awseks.DescribeUpdateInput{Name: aws.String("dev"), NodegroupName: aws.String("ng"), UpdateId: out.Update.Id})
		if err != nil {
			return err
		}
		if up = got.Update; up.Status == ekstypes.UpdateStatusInProgress {
			return fmt.Errorf("in progress: %d instances, %d nodes, group %+v", len(w.ec2.running()), len(w.nodes()), asJSON(w.scalingGroups()))
		}
		return nil
	})
	return up
}

// settled waits until that many instances are running, all of them nodes.
func (w *world) settled(n int) {
	w.Helper()
	w.eventually(func() error {
		if i, nodes := len(w.ec2.running()), len(w.nodes()); i != n || nodes != n {
			return fmt.Errorf("%d instances and %d nodes, want %d", i, nodes, n)
		}
		return nil
	})
}

func TestAVersionUpdateReplacesTheNodes(t *testing.T) {
	for _, strategy := range []ekstypes.NodegroupUpdateStrategies{"", ekstypes.NodegroupUpdateStrategiesMinimal} {
		t.Run("strategy "+string(strategy), func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, withClock)
			w.cluster("dev", ekstypes.AuthenticationModeApi)
			before := w.behind(t, 3, func(in *awseks.CreateNodegroupInput) {
				in.UpdateConfig = &ekstypes.NodegroupUpdateConfig{MaxUnavailable: aws.Int32(2), UpdateStrategy: strategy}
			})
			old := map[string]bool{}
			for _, i := range w.ec2.running() {
				old[*i.InstanceId] = true
			}
			most := 0
			w.ec2.onLaunch(func(i ec2types.Instance, data string) {
				w.ec2.endsLate = 20 // drained instances are still running when their replacements have joined
				n := 0
				for _, i := range w.ec2.instances { // the fake's lock is held
					if i.State.Name == ec2types.InstanceStateNameRunning {
						n++
					}
				}
				most = max(most, n)
				w.boot(i, data)
			})
			up := w.updateVersion(&awseks.UpdateNodegroupVersionInput{})
			latest, _ := images.EKS(testkit.Region, images.AL2023, "1.36", "x86_64", "standard")
			var params []string
			for _, p := range up.Params {
				params = append(params, string(p.Type)+"="+*p.Value)
			}
			if diff := cmp.Diff([]string{"Version=1.36", "ReleaseVersion=" + latest.ReleaseVersion}, params); diff != "" || up.Status != ekstypes.UpdateStatusSuccessful || up.Type != ekstypes.UpdateTypeVersionUpdate {
				t.Errorf("update %s %s %v\n%s", up.Type, up.Status, up.Errors, diff)
			}
			after := w.waitNodegroup("dev", "ng", ekstypes.NodegroupStatusActive)
			if *after.ReleaseVersion != latest.ReleaseVersion || *before.ReleaseVersion == latest.ReleaseVersion {
				t.Errorf("release %s, before %s", *after.ReleaseVersion, *before.ReleaseVersion)
			}
			w.settled(3)
			for _, i := range w.ec2.running() {
				if old[*i.InstanceId] || *i.ImageId != latest.ID {
					t.Errorf("instance %s of %s, old: %t", *i.InstanceId, *i.ImageId, old[*i.InstanceId])
				}
			}
			for _, n := range w.nodes() {
				if n.Labels["eks.amazonaws.com/nodegroup-image"] != latest.ID || n.Spec.Unschedulable {
					t.Errorf("node %+v", n.ObjectMeta)
				}
			}
			if g := w.scalingGroups()[0]; *g.DesiredCapacity != 3 || *g.MaxSize != 10 {
				t.Errorf("group of %d, %d at most", *g.DesiredCapacity, *g.MaxSize)
			}
			// Two zones mean four extra nodes. Two nodes at a time are replaced.
			if strategy == "" && (most < 7 || most > 9) || strategy != "" && most > 5 {
				t.Errorf("%d instances at once", most)
			}
			// Repeating the update does nothing.
			if up := w.updateVersion(&awseks.UpdateNodegroupVersionInput{}); up.Status != ekstypes.UpdateStatusSuccessful {
				t.Errorf("update %s %v", up.Status, up.Errors)
			}
		})
	}
}

func (w *world) protect(t *testing.T) (victim corev1.Node) {
	t.Helper()
	nodes := w.nodes()
	slices.SortFunc(nodes, func(a, b corev1.Node) int { return strings.Compare(a.Spec.ProviderID, b.Spec.ProviderID) })
	victim = nodes[0]
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "protected", Namespace: "default"}, Spec: corev1.PodSpec{NodeName: victim.Name}}
	w.planes.mu.Lock()
	w.planes.protected["protected"] = true
	w.planes.mu.Unlock()
	if _, err := w.kubernetes().CoreV1().Pods("default").Create(t.Context(), p, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	return victim
}

func TestAVersionUpdateThatABudgetBlocksIsTurnedBack(t *testing.T) {
	t.Parallel()
	w := newWorld(t, withClock)
	w.cluster("dev", ekstypes.AuthenticationModeApi)
	before := w.behind(t, 2, nil)
	victim := w.protect(t)
	up := w.updateVersion(&awseks.UpdateNodegroupVersionInput{})
	want := []ekstypes.ErrorDetail{{
		ErrorCode: "PodEvictionFailure", ErrorMessage: aws.String("Reached max retries while trying to evict pods from nodes in node group ng"), ResourceIds: []string{victim.Name},
	}}
	if asJSON(up.Errors) != asJSON(want) || up.Status != ekstypes.UpdateStatusFailed {
		t.Errorf("update %s %s", up.Status, asJSON(up.Errors))
	}
	note := "the VersionUpdate of node group ng, requested at " + up.CreatedAt.UTC().Format(time.RFC3339) + ", failed: PodEvictionFailure: " + *want[0].ErrorMessage
	if got := w.updateNotes(); !slices.Contains(got, note) {
		t.Errorf("notes %q, want %q", got, note)
	}
	ctx := awsapi.WithCall(t.Context(), &awsapi.Call{Account: w.account, Region: testkit.Region, Service: "eks"})
	if got, err := w.svc.NodegroupUpdateNotes(ctx, "dev", "ng"); err != nil || !slices.Equal(got, []string{strings.Replace(note, " of node group ng", "", 1)}) {
		t.Errorf("notes of the node group: %q, %v", got, err)
	}
	after := w.waitNodegroup("dev", "ng", ekstypes.NodegroupStatusActive)
	if *after.ReleaseVersion != *before.ReleaseVersion || *after.ScalingConfig.DesiredSize != 2 {
		t.Errorf("group %s of %d", *after.ReleaseVersion, *after.ScalingConfig.DesiredSize)
	}
	w.settled(2)
	for _, n := range w.nodes() {
		if stuck := n.Name == victim.Name; n.Spec.Unschedulable != stuck {
			t.Errorf("node %s is cordoned: %t", n.Name, n.Spec.Unschedulable)
		}
	}
	// With force, the pod is deleted.
	if up := w.updateVersion(&awseks.UpdateNodegroupVersionInput{Force: true}); up.Status != ekstypes.UpdateStatusSuccessful {
		t.Errorf("update %s %s", up.Status, asJSON(up.Errors))
	}
	w.settled(2)
}

func TestAVersionUpdateWhoseNodesDoNotJoinIsTurnedBack(t *testing.T) {
	t.Parallel()
	w := newWorld(t, withClock)
	w.cluster("dev", ekstypes.AuthenticationModeApi)
	before := w.behind(t, 2, nil)
	old := w.ec2.running()
	w.ec2.onLaunch(nil)
	up := w.updateVersion(&awseks.UpdateNodegroupVersionInput{})
	if len(up.Errors) != 1 || up.Errors[0].ErrorCode != "NodeCreationFailure" || *up.Errors[0].ErrorMessage != "Couldn't proceed with upgrade process as new nodes are not joining node group ng" {
		t.Errorf("update %s %s", up.Status, asJSON(up.Errors))
	}
	w.settled(2)
	for _, i := range w.ec2.running() {
		if !slices.ContainsFunc(old, func(o ec2types.Instance) bool { return *o.InstanceId == *i.InstanceId }) {
			t.Errorf("%s is new", *i.InstanceId)
		}
	}
	after := w.waitNodegroup("dev", "ng", ekstypes.NodegroupStatusActive)
	if *after.ReleaseVersion != *before.ReleaseVersion {
		t.Errorf("group %s", *after.ReleaseVersion)
	}
}

// If someone deletes the Auto Scaling group during a rollout, the rollout ends and the group says
// why.
func TestAVersionUpdateWithoutItsAutoScalingGroupFails(t *testing.T) {
	t.Parallel()
	w := newWorld(t, withClock)
	w.cluster("dev", ekstypes.AuthenticationModeApi)
	before := w.behind(t, 2, nil)
	name := before.Resources.AutoScalingGroups[0].Name
	var once sync.Once
	w.ec2.onLaunch(func(ec2types.Instance, string) { // the first new node never joins
		once.Do(func() {
			go func() { // the caller holds the fake's lock, which deleting needs
				if _, err := w.asg.DeleteAutoScalingGroup(t.Context(), &awsautoscaling.DeleteAutoScalingGroupInput{AutoScalingGroupName: name, ForceDelete: aws.Bool(true)}); err != nil {
					t.Error(err)
				}
			}()
		})
	})
	up := w.updateVersion(&awseks.UpdateNodegroupVersionInput{})
	want := []ekstypes.ErrorDetail{{ErrorCode: "NodeCreationFailure", ErrorMessage: aws.String("the Auto Scaling group is gone"), ResourceIds: []string{*name}}}
	if asJSON(up.Errors) != asJSON(want) || up.Status != ekstypes.UpdateStatusFailed {
		t.Errorf("update %s %s", up.Status, asJSON(up.Errors))
	}
	after := w.waitNodegroup("dev", "ng", ekstypes.NodegroupStatusDegraded)
	if *after.ReleaseVersion != *before.ReleaseVersion || after.Health.Issues[0].Code != ekstypes.NodegroupIssueCodeAutoScalingGroupNotFound {
		t.Errorf("group %s %s", *after.ReleaseVersion, asJSON(after.Health))
	}
	w.deleteNodegroup("dev", "ng")
}

// If the daemon is killed, a rollout continues where it was.
func TestAVersionUpdateSurvivesARestart(t *testing.T) {
	t.Parallel()
	w := newWorld(t, withClock)
	w.cluster("dev", ekstypes.AuthenticationModeApi)
	w.behind(t, 3, nil)
	out, err := w.client.UpdateNodegroupVersion(t.Context(), &awseks.UpdateNodegroupVersionInput{ClusterName: aws.String("dev"), NodegroupName: aws.String("ng")})
	if err != nil {
		t.Fatal(err)
	}
	restarts := 0
	w.eventually(func() error {
		got, err := w.client.DescribeUpdate(t.Context(), &awseks.DescribeUpdateInput{Name: aws.String("dev"), NodegroupName: aws.String("ng"), UpdateId: out.Update.Id})
		if err != nil {
			return err
		}
		if got.Update.Status != ekstypes.UpdateStatusSuccessful {
			if restarts < 6 {
				restarts++
				w.restart()
			}
			return fmt.Errorf("%s %v", got.Update.Status, got.Update.Errors)
		}
		return nil
	})
	w.settled(3)
}

func TestUpdateNodegroupVersionRefusesWhatAWSRefuses(t *testing.T) {
	w := newWorld(t)
	w.cluster("dev", ekstypes.AuthenticationModeApi)
	w.behind(t, 0, nil)
	ami := func(id string) *ec2types.ResponseLaunchTemplateData {
		return &ec2types.ResponseLaunchTemplateData{ImageId: &id, InstanceType: "t3.large"}
	}
	w.template("custom", ami("ami-custom"))
	w.template("plain", &ec2types.ResponseLaunchTemplateData{InstanceType: "t3.large"})
	for _, name := range []string{"custom", "plain"} {
		in := w.nodegroupInput("dev", name, 0)
		in.LaunchTemplate = &ekstypes.LaunchTemplateSpecification{Name: &name}
		if _, err := w.client.CreateNodegroup(t.Context(), in); err != nil {
			t.Fatal(err)
		}
		w.waitNodegroup("dev", name, ekstypes.NodegroupStatusActive)
	}
	spec := func(name string) *ekstypes.LaunchTemplateSpecification {
		return &ekstypes.LaunchTemplateSpecification{Name: &name}
	}
	for name, tt := range map[string]struct {
		group         string
		in            awseks.UpdateNodegroupVersionInput
		code, message string
	}{
		"no such group":               {"nope", awseks.UpdateNodegroupVersionInput{}, "ResourceNotFoundException", "No node group found for name: nope."},
		"a release of no version":     {"ng", awseks.UpdateNodegroupVersionInput{ReleaseVersion: aws.String("1.31.3-20250103")}, "", "Requested release version 1.31.3-20250103 is not valid for kubernetes version 1.36."},
		"another version":             {"ng", awseks.UpdateNodegroupVersionInput{Version: aws.String("1.35")}, "", "Requested nodegroup version 1.35 is not the cluster's version"},
		"a template for one without":  {"ng", awseks.UpdateNodegroupVersionInput{LaunchTemplate: spec("plain")}, "", "You can only update a node group using a launch template if the node group was originally deployed with a launch template."},
		"another template":            {"custom", awseks.UpdateNodegroupVersionInput{LaunchTemplate: spec("plain")}, "", "You must specify the same launch template ID or name that was used to create the node group."},
		"a custom image alone":        {"custom", awseks.UpdateNodegroupVersionInput{}, "", "Launch template details can't be null for Custom ami type node group"},
		"a version of a custom image": {"custom", awseks.UpdateNodegroupVersionInput{LaunchTemplate: spec("custom"), Version: aws.String("1.36")}, "", "You cannot specify the field kubernetesVersion when using custom AMIs."},
		"a release of a custom image": {"custom", awseks.UpdateNodegroupVersionInput{LaunchTemplate: spec("custom"), ReleaseVersion: aws.String("x")}, "", "You cannot specify the field releaseVersion when using custom AMIs."},
		"an ID and a name":            {"plain", awseks.UpdateNodegroupVersionInput{LaunchTemplate: &ekstypes.LaunchTemplateSpecification{Id: aws.String("lt-plain"), Name: aws.String("plain")}}, "", "Either provide launch template ID or launch template name in the request."},
	} {
		t.Run(name, func(t *testing.T) {
			tt.in.ClusterName, tt.in.NodegroupName = aws.String("dev"), &tt.group
			_, err := w.client.UpdateNodegroupVersion(t.Context(), &tt.in)
			if tt.code == "" {
				tt.code = "InvalidParameterException"
			}
			wantError(t, err, tt.code, tt.message)
		})
	}
	// A template version with an image cannot be used for a group with EKS's own image.
	w.template("plain", ami("ami-x"))
	_, err := w.client.UpdateNodegroupVersion(t.Context(), &awseks.UpdateNodegroupVersionInput{ClusterName: aws.String("dev"), NodegroupName: aws.String("plain"), LaunchTemplate: spec("plain")})
	wantError(t, err, "InvalidParameterException", "You can't change a node group between an Amazon EKS optimized AMI and a custom AMI.")
	// A different image can be used.
	w.template("custom", ami("ami-next"))
	if _, err := w.client.UpdateNodegroupVersion(t.Context(), &awseks.UpdateNodegroupVersionInput{ClusterName: aws.String("dev"), NodegroupName: aws.String("custom"), LaunchTemplate: spec("custom")}); err != nil {
		t.Fatal(err)
	}
	testkit.Eventually(t, 20*time.Second, func() error {
		g := w.waitNodegroup("dev", "custom", ekstypes.NodegroupStatusActive)
		if *g.ReleaseVersion != "ami-next" {
			return fmt.Errorf("release %s", *g.ReleaseVersion)
		}
		return nil
	})
}

// A new node group may have an older version than its cluster, which an update changes later.
func TestANodeGroupOfAnOlderVersion(t *testing.T) {
	w := newWorld(t)
	w.cluster("dev", ekstypes.AuthenticationModeApi)
	in := w.nodegroupInput("dev", "ng", 1)
	in.Version = aws.String("1.35")
	testkit.Must(w.client.CreateNodegroup(t.Context(), in))(t)
	g := w.waitNodegroup("dev", "ng", ekstypes.NodegroupStatusActive)
	if *g.Version != "1.35" || !strings.HasPrefix(*g.ReleaseVersion, "1.35.") {
		t.Errorf("version %s, release %s", *g.Version, *g.ReleaseVersion)
	}
	if up := w.updateVersion(&awseks.UpdateNodegroupVersionInput{}); up.Status != ekstypes.UpdateStatusSuccessful {
		t.Errorf("update %s", asJSON(up))
	}
	if g := w.waitNodegroup("dev", "ng", ekstypes.NodegroupStatusActive); *g.Version != "1.36" {
		t.Errorf("version %s after the update", *g.Version)
	}
}
