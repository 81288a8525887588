package eks_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	awseks "github.com/aws/aws-sdk-go-v2/service/eks"
	ekstypes "github.com/aws/aws-sdk-go-v2/service/eks/types"
	"github.com/aws/smithy-go"
	corev1 "k8s.io/api/core/v1"

	"github.com/drydock-dev/drydock/internal/serviceevents/eventstest"
	"github.com/drydock-dev/drydock/internal/testkit"
)

const coreDNS = "Deployment kube-system/coredns"

// addOnWorld has the ACTIVE cluster dev and short timeouts.
func addOnWorld(t testing.TB) *world {
	w := newWorld(t, func(w *world) { w.timing.AddonUnhealthy, w.timing.AddonStuck, w.timing.AddonRollout = 0, 0, 0 })
	w.cluster("dev", ekstypes.AuthenticationModeApi)
	w.iam.add(w.arn("role/pods"), "AROAPODS", "pods.eks.amazonaws.com")
	w.iam.add(w.arn("role/other"), "AROAOTHER", "pods.eks.amazonaws.com")
	return w
}

func (w *world) createAddon(in *awseks.CreateAddonInput) *ekstypes.Addon {
	w.Helper()
	in.ClusterName = aws.String("dev")
	out, err := w.client.CreateAddon(w.Context(), in)
	if err != nil {
		w.Fatal(err)
	}
	return out.Addon
}

func (w *world) updateAddon(in *awseks.UpdateAddonInput) *ekstypes.Update {
	w.Helper()
	in.ClusterName = aws.String("dev")
	out, err := w.client.UpdateAddon(w.Context(), in)
	if err != nil {
		w.Fatal(err)
	}
	return out.Update
}

func (w *world) waitAddon(name string, status ekstypes.AddonStatus) *ekstypes.Addon {
	w.Helper()
	var got *ekstypes.Addon
	w.eventually(func() error {
		out, err := w.client.DescribeAddon(w.Context(), &awseks.DescribeAddonInput{ClusterName: aws.String("dev"), AddonName: &name})
		if err != nil {
			return err
		}
		if got = out.Addon; got.Status != status {
			return fmt.Errorf("add-on %s is %s, want %s", name, got.Status, status)
		}
		return nil
	})
	return got
}

func (w *world) waitAddonGone(name string) {
	w.Helper()
	w.eventually(func() error {
		_, err := w.client.DescribeAddon(w.Context(), &awseks.DescribeAddonInput{ClusterName: aws.String("dev"), AddonName: &name})
		if err == nil {
			return errors.New("it is still there")
		}
		if want := "No addon: " + name + " found in cluster: dev"; !strings.Contains(err.Error(), want) {
			return fmt.Errorf("%w, want %s", err, want)
		}
		return nil
	})
}

func (w *world) deleteAddon(name string, preserve bool) {
	w.Helper()
	if _, err := w.client.DeleteAddon(w.Context(), &awseks.DeleteAddonInput{ClusterName: aws.String("dev"), AddonName: &name, Preserve: preserve}); err != nil {
		w.Fatal(err)
	}
	w.waitAddonGone(name)
}

func (w *world) describeUpdate(addon, id string) *ekstypes.Update {
	w.Helper()
	out, err := w.client.DescribeUpdate(w.Context(), &awseks.DescribeUpdateInput{Name: aws.String("dev"), AddonName: &addon, UpdateId: &id})
	if err != nil {
		w.Fatal(err)
	}
	return out.Update
}

func TestAddOnFromCreationToDeletion(t *testing.T) {
	w := addOnWorld(t)
	bus := &eventstest.Bus{}
	testkit.Run(t, func(ctx context.Context) error { return w.svc.Events(ctx, bus) })
	made := w.createAddon(&awseks.CreateAddonInput{AddonName: aws.String("metrics-server"), Tags: map[string]string{"team": "a"}})
	if made.Status != ekstypes.AddonStatusCreating || !strings.HasPrefix(*made.AddonArn, "arn:aws:eks:us-east-1:"+w.account+":addon/dev/metrics-server/") {
		t.Errorf("created %s %s", made.Status, *made.AddonArn)
	}
	got := w.waitAddon("metrics-server", ekstypes.AddonStatusActive)
	if *got.AddonVersion == "" || len(got.Health.Issues) != 0 || got.Tags["team"] != "a" || *got.Owner != "community" {
		t.Errorf("add-on = %+v", got)
	}
	var detail struct{ ClusterName, AddonName, AddonVersion string }
	wantEvent := func(name string) {
		t.Helper()
		e := bus.Next(t, name)
		if err := json.Unmarshal(e.Detail, &detail); err != nil || e.Source != "aws.eks" || e.Resources[0] != *made.AddonArn || detail.ClusterName != "dev" || detail.AddonName != "metrics-server" {
			t.Errorf("%v: %+v %s", err, e, e.Detail)
		}
	}
	wantEvent("EKS Addon Creation Succeeded")
	const id = "Deployment kube-system/metrics-server"
	if !slices.Contains(w.objects().ids(), id) {
		t.Error("its objects are not there")
	}
	up := w.updateAddon(&awseks.UpdateAddonInput{AddonName: aws.String("metrics-server"), ConfigurationValues: aws.String(`{"replicas": 3}`)})
	w.waitAddon("metrics-server", ekstypes.AddonStatusActive)
	if done := w.describeUpdate("metrics-server", *up.Id); done.Status != ekstypes.UpdateStatusSuccessful || done.Type != ekstypes.UpdateTypeAddonUpdate {
		t.Errorf("update = %+v", done)
	}
	wantEvent("EKS Addon Update Succeeded")
	if n := w.objects().field(id, "spec.replicas"); n != int64(3) {
		t.Errorf("replicas = %v", n)
	}
	list, err := w.client.ListUpdates(t.Context(), &awseks.ListUpdatesInput{Name: aws.String("dev"), AddonName: aws.String("metrics-server")})
	if err != nil || !slices.Equal(list.UpdateIds, []string{*up.Id}) {
		t.Errorf("updates = %v, %v", list, err)
	}
	if all, err := w.client.ListUpdates(t.Context(), &awseks.ListUpdatesInput{Name: aws.String("dev")}); err != nil || len(all.UpdateIds) != 0 {
		t.Errorf("the cluster's updates = %v, %v", all, err)
	}
	w.deleteAddon("metrics-server", false)
	if slices.Contains(w.objects().ids(), id) {
		t.Error("its objects are still there")
	}
	wantEvent("EKS Addon Deletion Succeeded")
	if left := bus.Left(); len(left) > 0 {
		t.Errorf("besides: %q", left)
	}
}

func TestAddOnStates(t *testing.T) {
	edit := func(id, path string, value any) func(*world) {
		return func(w *world) {
			if err := w.objects().edit(id, path, value); err != nil {
				w.Fatal(err)
			}
		}
	}
	conflict := "Conflicts found when trying to apply. Will not continue due to resolve conflicts mode. Conflicts:\nDeployment.apps coredns - .spec.replicas"
	for name, tc := range map[string]struct {
		before  func(*world)
		resolve ekstypes.ResolveConflicts
		update  bool // update an ACTIVE add-on rather than create it
		want    ekstypes.AddonStatus
		code    ekstypes.AddonIssueCode
		message string
		// replicas is the final number of CoreDNS's replicas.
		replicas int64
	}{
		"self-managed objects as they were are taken over": {want: ekstypes.AddonStatusActive, replicas: 2},
		"changed ones are not":                             {before: edit(coreDNS, "spec.replicas", int64(5)), want: ekstypes.AddonStatusCreateFailed, code: ekstypes.AddonIssueCodeConfigurationConflict, message: conflict, replicas: 5},
		"not with NONE either":                             {before: edit(coreDNS, "spec.replicas", int64(5)), resolve: ekstypes.ResolveConflictsNone, want: ekstypes.AddonStatusCreateFailed, code: ekstypes.AddonIssueCodeConfigurationConflict, message: conflict, replicas: 5},
		"nor, on creation, with PRESERVE":                  {before: edit(coreDNS, "spec.replicas", int64(5)), resolve: ekstypes.ResolveConflictsPreserve, want: ekstypes.AddonStatusCreateFailed, code: ekstypes.AddonIssueCodeConfigurationConflict, message: conflict, replicas: 5},
		"OVERWRITE takes them":                             {before: edit(coreDNS, "spec.replicas", int64(5)), resolve: ekstypes.ResolveConflictsOverwrite, want: ekstypes.AddonStatusActive, replicas: 2},
		"an update of changed ones fails":                  {update: true, before: edit(coreDNS, "spec.replicas", int64(5)), want: ekstypes.AddonStatusUpdateFailed, code: ekstypes.AddonIssueCodeConfigurationConflict, message: conflict, replicas: 5},
		"with PRESERVE it leaves what was changed":         {update: true, before: edit(coreDNS, "spec.replicas", int64(5)), resolve: ekstypes.ResolveConflictsPreserve, want: ekstypes.AddonStatusActive, replicas: 5},
		"with OVERWRITE it does not":                       {update: true, before: edit(coreDNS, "spec.replicas", int64(5)), resolve: ekstypes.ResolveConflictsOverwrite, want: ekstypes.AddonStatusActive, replicas: 2},
		"what others added is nobody's conflict":           {before: edit(coreDNS, "spec.paused", true), want: ekstypes.AddonStatusActive, replicas: 2},
		"pods that do not start degrade a new add-on":      {before: func(w *world) { w.objects().stop(coreDNS, true) }, want: ekstypes.AddonStatusDegraded, code: ekstypes.AddonIssueCodeInsufficientNumberOfReplicas, message: "The add-on is unhealthy because it doesn't have the desired number of replicas.", replicas: 2},
		"pods without a node": {before: func(w *world) {
			free := corev1.Pod{Status: corev1.PodStatus{Conditions: []corev1.PodCondition{{Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Message: "no nodes available to schedule pods"}}}}
			w.objects().pending(coreDNS, free, free)
		}, want: ekstypes.AddonStatusDegraded, code: ekstypes.AddonIssueCodeInsufficientNumberOfReplicas, message: "The add-on is unhealthy because all deployments have all pods unscheduled no nodes available to schedule pods", replicas: 2},
		"one pod without a node": {before: func(w *world) {
			free := corev1.Pod{Status: corev1.PodStatus{Conditions: []corev1.PodCondition{{Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Message: "0/1 nodes are available: 1 Too many pods."}}}}
			w.objects().pending(coreDNS, corev1.Pod{}, free)
		}, want: ekstypes.AddonStatusDegraded, code: ekstypes.AddonIssueCodeInsufficientNumberOfReplicas, message: "The add-on is unhealthy because one or more pods is not scheduled 0/1 nodes are available: 1 Too many pods.", replicas: 2},
		"a container that fails": {before: func(w *world) {
			w.objects().pending(coreDNS, corev1.Pod{}, corev1.Pod{Status: corev1.PodStatus{ContainerStatuses: []corev1.ContainerStatus{{
				State:                corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "CrashLoopBackOff"}},
				LastTerminationState: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{Reason: "Error"}},
			}}}})
		}, want: ekstypes.AddonStatusDegraded, code: ekstypes.AddonIssueCodeInsufficientNumberOfReplicas, message: "The add-on is unhealthy because one or more pods have waiting containers CrashLoopBackOff: Error", replicas: 2},
		"and one that is changed": {update: true, before: func(w *world) { w.objects().stop(coreDNS, true) }, want: ekstypes.AddonStatusDegraded, code: ekstypes.AddonIssueCodeInsufficientNumberOfReplicas, message: "The add-on is unhealthy because it doesn't have the desired number of replicas.", replicas: 2},
		"what admission refuses cannot be created": {before: func(w *world) {
			w.objects().refuse(coreDNS, forbidden(`admission webhook "no" denied the request: no`))
		}, want: ekstypes.AddonStatusCreateFailed, code: ekstypes.AddonIssueCodeAdmissionRequestDenied, message: `admission webhook "no" denied the request: no`, replicas: 2},
		"what admission refuses cannot be changed, neither": {update: true, before: func(w *world) {
			w.objects().refuse(coreDNS, forbidden(`admission webhook "no" denied the request: no`))
		}, want: ekstypes.AddonStatusUpdateFailed, code: ekstypes.AddonIssueCodeAdmissionRequestDenied, message: `admission webhook "no" denied the request: no`, replicas: 2},
	} {
		t.Run(name, func(t *testing.T) {
			w := addOnWorld(t)
			var up *ekstypes.Update
			switch {
			case tc.update:
				w.createAddon(&awseks.CreateAddonInput{AddonName: aws.String("coredns"), AddonVersion: aws.String("v1.13.2-eksbuild.19")})
				w.waitAddon("coredns", ekstypes.AddonStatusActive)
				tc.before(w)
				up = w.updateAddon(&awseks.UpdateAddonInput{AddonName: aws.String("coredns"), AddonVersion: aws.String("v1.14.3-eksbuild.11"), ResolveConflicts: tc.resolve})
			default:
				if tc.before != nil {
					tc.before(w)
				}
				w.createAddon(&awseks.CreateAddonInput{AddonName: aws.String("coredns"), ResolveConflicts: tc.resolve})
			}
			got := w.waitAddon("coredns", tc.want)
			var want []ekstypes.AddonIssue
			if tc.code != "" {
				want = []ekstypes.AddonIssue{{Code: tc.code, Message: &tc.message, ResourceIds: []string{}}}
			}
			same := func(x, y ekstypes.AddonIssue) bool { return x.Code == y.Code && *x.Message == *y.Message }
			if !slices.EqualFunc(want, got.Health.Issues, same) {
				t.Errorf("issues = %+v, want %s %q", got.Health.Issues, tc.code, tc.message)
			}
			if n := w.objects().field(coreDNS, "spec.replicas"); n != tc.replicas {
				t.Errorf("CoreDNS has %v replicas, want %d", n, tc.replicas)
			}
			if up == nil {
				return
			}
			done := w.describeUpdate("coredns", *up.Id)
			failed := tc.code != ""
			if failed != (done.Status == ekstypes.UpdateStatusFailed) || failed != (len(done.Errors) == 1) {
				t.Errorf("update = %s %v", done.Status, done.Errors)
			}
			if old := tc.want == ekstypes.AddonStatusUpdateFailed; old != (*got.AddonVersion == "v1.13.2-eksbuild.19") {
				t.Errorf("version = %s", *got.AddonVersion)
			}
		})
	}
}

func TestAddOnRecovers(t *testing.T) {
	w := addOnWorld(t)
	bus := &eventstest.Bus{}
	testkit.Run(t, func(ctx context.Context) error { return w.svc.Events(ctx, bus) })
	w.objects().stop(coreDNS, true)
	w.createAddon(&awseks.CreateAddonInput{AddonName: aws.String("coredns")})
	w.waitAddon("coredns", ekstypes.AddonStatusDegraded)
	if e := bus.Next(t, "EKS Addon Health Degraded"); !strings.Contains(string(e.Detail), `"code":"InsufficientNumberOfReplicas"`) {
		t.Errorf("%s", e.Detail)
	}
	w.objects().stop(coreDNS, false)
	w.waitAddon("coredns", ekstypes.AddonStatusActive)
	bus.Next(t, "EKS Addon Health Restored")

	if err := w.objects().edit(coreDNS, "spec.replicas", int64(4)); err != nil {
		t.Fatal(err)
	}
	w.updateAddon(&awseks.UpdateAddonInput{AddonName: aws.String("coredns")})
	w.waitAddon("coredns", ekstypes.AddonStatusUpdateFailed)
	bus.Next(t, "EKS Addon Update Failed")
	w.updateAddon(&awseks.UpdateAddonInput{AddonName: aws.String("coredns"), ResolveConflicts: ekstypes.ResolveConflictsOverwrite})
	w.waitAddon("coredns", ekstypes.AddonStatusActive)
}

// An add-on that stays DEGRADED is checked as rarely as a healthy one.
func TestAddOnThatStaysDegradedIsLookedAtSeldom(t *testing.T) {
	t.Parallel()
	w := newWorld(t, withClock, func(w *world) { w.timing.AddonUnhealthy = 0 })
	w.cluster("dev", ekstypes.AuthenticationModeApi)
	w.objects().stop(coreDNS, true)
	w.createAddon(&awseks.CreateAddonInput{AddonName: aws.String("coredns")})
	w.waitAddon("coredns", ekstypes.AddonStatusDegraded)
	w.fake.Step(time.Hour)
	reads := func() int {
		w.objects().mu.Lock()
		defer w.objects().mu.Unlock()
		return w.objects().read
	}
	// Checks that were due before the hour come within 200 ms, later ones 5 s later. A check may
	// read more than once.
	w.pace = 50 * time.Millisecond
	for until := w.fake.Now().Add(20 * time.Second); w.fake.Now().Before(until); {
		before, begin := reads(), w.fake.Now()
		w.eventually(func() error {
			if reads() == before {
				return errors.New("not looked at")
			}
			return nil
		})
		if w.fake.Since(begin) > 2*time.Second {
			return
		}
	}
	t.Error("it is looked at as often as before")
}

// If the pods of an add-on cannot be checked, it does not stay CREATING forever.
func TestAddOnOfAClusterThatDoesNotAnswer(t *testing.T) {
	t.Parallel()
	w := newWorld(t, withClock, func(w *world) { w.pace = 0 })
	w.cluster("dev", ekstypes.AuthenticationModeApi)
	objects := w.objects()
	silence := func(err error) {
		objects.mu.Lock()
		defer objects.mu.Unlock()
		objects.silent, objects.read = err, 0
	}
	silence(errors.New("no answer"))
	w.createAddon(&awseks.CreateAddonInput{AddonName: aws.String("metrics-server")})
	w.eventually(func() error { // it has been applied, and its pods have been checked
		objects.mu.Lock()
		defer objects.mu.Unlock()
		if objects.read == 0 {
			return errors.New("not looked at")
		}
		return nil
	})
	w.waitAddon("metrics-server", ekstypes.AddonStatusCreating)
	w.fake.Step(time.Hour)
	got := w.waitAddon("metrics-server", ekstypes.AddonStatusDegraded)
	if i := got.Health.Issues; len(i) != 1 || i[0].Code != ekstypes.AddonIssueCodeClusterUnreachable || !strings.HasSuffix(*i[0].Message, "no answer") {
		t.Errorf("issues %s", asJSON(i))
	}
	silence(nil)
	w.pace = time.Second
	w.waitAddon("metrics-server", ekstypes.AddonStatusActive)
}

func TestAddOnSurvivesARestart(t *testing.T) {
	w := addOnWorld(t)
	w.createAddon(&awseks.CreateAddonInput{AddonName: aws.String("metrics-server")})
	w.restart()
	w.waitAddon("metrics-server", ekstypes.AddonStatusActive)
	w.updateAddon(&awseks.UpdateAddonInput{AddonName: aws.String("metrics-server"), ConfigurationValues: aws.String("replicas: 1")})
	w.restart()
	w.waitAddon("metrics-server", ekstypes.AddonStatusActive)
	if _, err := w.client.DeleteAddon(t.Context(), &awseks.DeleteAddonInput{ClusterName: aws.String("dev"), AddonName: aws.String("metrics-server")}); err != nil {
		t.Fatal(err)
	}
	w.restart()
	w.waitAddonGone("metrics-server")
}

func TestAddOnRefusals(t *testing.T) {
	w := addOnWorld(t)
	w.createAddon(&awseks.CreateAddonInput{AddonName: aws.String("kube-proxy")})
	w.waitAddon("kube-proxy", ekstypes.AddonStatusActive)
	config := "ConfigurationValue provided in request is not supported: Json schema validation failed with error: "
	for name, tc := range map[string]struct {
		in            awseks.CreateAddonInput
		code, message string
	}{
		"no such cluster":    {awseks.CreateAddonInput{ClusterName: aws.String("nope"), AddonName: aws.String("coredns")}, "ResourceNotFoundException", "No cluster found for name: nope."},
		"no such add-on":     {awseks.CreateAddonInput{AddonName: aws.String("nope")}, "InvalidParameterException", "Addon specified is not supported"},
		"no such version":    {awseks.CreateAddonInput{AddonName: aws.String("coredns"), AddonVersion: aws.String("v1.0.0-eksbuild.1")}, "InvalidParameterException", "Addon version specified is not supported"},
		"not of the release": {awseks.CreateAddonInput{AddonName: aws.String("coredns"), AddonVersion: aws.String("v1.12.4-eksbuild.1")}, "InvalidParameterException", "Addon version specified is not supported"},
		"already there":      {awseks.CreateAddonInput{AddonName: aws.String("kube-proxy")}, "ResourceInUseException", "Addon already exists."},
		"an unknown value":   {awseks.CreateAddonInput{AddonName: aws.String("coredns"), ConfigurationValues: aws.String(`{"podNotes":{}}`)}, "InvalidParameterException", config + "[$.podNotes: is not defined in the schema and the schema does not allow additional properties]"},
		"null":               {awseks.CreateAddonInput{AddonName: aws.String("coredns"), ConfigurationValues: aws.String("null")}, "InvalidParameterException", config + "[$: null found, object expected]"},
		"a wrong type":       {awseks.CreateAddonInput{AddonName: aws.String("coredns"), ConfigurationValues: aws.String("replicaCount: two")}, "InvalidParameterException", config + "[$.replicaCount: string found, integer expected]"},
		"in a list":          {awseks.CreateAddonInput{AddonName: aws.String("coredns"), ConfigurationValues: aws.String("tolerations: [1]")}, "InvalidParameterException", config + "[$.tolerations[0]: integer found, object expected]"},
		"two at once":        {awseks.CreateAddonInput{AddonName: aws.String("vpc-cni"), ConfigurationValues: aws.String(`{"env": {"MAX_ENI": 1}, "enableNetworkPolicy": true}`)}, "InvalidParameterException", config + "[$.enableNetworkPolicy: boolean found, string expected, $.env.MAX_ENI: integer found, string expected]"},
		"not even YAML":      {awseks.CreateAddonInput{AddonName: aws.String("coredns"), ConfigurationValues: aws.String("{")}, "InvalidParameterException", "The ConfigurationValues provided is not in valid YAML or JSON format."},
		"too long":           {awseks.CreateAddonInput{AddonName: aws.String("coredns"), ConfigurationValues: aws.String("#" + strings.Repeat("x", 128<<10))}, "InvalidParameterException", "ConfigurationValue provided in request is not supported: it is too long"},
		"too long a record":  {awseks.CreateAddonInput{AddonName: aws.String("coredns"), ConfigurationValues: aws.String("#" + strings.Repeat("<", 100<<10))}, "InvalidParameterException", "ConfigurationValue provided in request is not supported: it is too long"},
		"a bomb": {awseks.CreateAddonInput{AddonName: aws.String("coredns"), ConfigurationValues: aws.String(fmt.Sprintf("a: &a %q\nb: [%s*a]", strings.Repeat("x", 40<<10), strings.Repeat("*a,", 9_999)))},
			"InvalidParameterException", "The ConfigurationValues provided is not in valid YAML or JSON format."},
		"no role":            {awseks.CreateAddonInput{AddonName: aws.String("coredns"), ServiceAccountRoleArn: aws.String("arn:aws:iam::1:user/x")}, "InvalidParameterException", "Invalid serviceAccountRoleArn: arn:aws:iam::1:user/x"},
		"no service account": {awseks.CreateAddonInput{AddonName: aws.String("eks-pod-identity-agent"), ServiceAccountRoleArn: aws.String(w.arn("role/pods"))}, "InvalidParameterException", "ServiceAccountRoleArn is not supported for addon eks-pod-identity-agent"},
		"not its account": {awseks.CreateAddonInput{AddonName: aws.String("vpc-cni"), PodIdentityAssociations: []ekstypes.AddonPodIdentityAssociations{{ServiceAccount: aws.String("coredns"), RoleArn: aws.String(w.arn("role/pods"))}}},
			"InvalidParameterException", "Service account coredns in pod identity configuration is not supported for addon vpc-cni"},
		"EKS's value":     {awseks.CreateAddonInput{AddonName: aws.String("aws-ebs-csi-driver"), ConfigurationValues: aws.String(`{"node":{"enableWindows":true}}`)}, "NotImplemented", "configurationValues of add-on aws-ebs-csi-driver: node.enableWindows"},
		"its namespace":   {awseks.CreateAddonInput{AddonName: aws.String("coredns"), NamespaceConfig: &ekstypes.AddonNamespaceConfigRequest{Namespace: aws.String("x")}}, "InvalidParameterException", "Custom namespace is not supported for addon coredns"},
		"not a namespace": {awseks.CreateAddonInput{AddonName: aws.String("metrics-server"), NamespaceConfig: &ekstypes.AddonNamespaceConfigRequest{Namespace: aws.String("X_y")}}, "InvalidParameterException", "Provided namespace value is not a valid RFC 1123 DNS label"},
	} {
		t.Run(name, func(t *testing.T) {
			if tc.in.ClusterName == nil {
				tc.in.ClusterName = aws.String("dev")
			}
			_, err := w.client.CreateAddon(t.Context(), &tc.in)
			var api smithy.APIError
			if !errors.As(err, &api) || api.ErrorCode() != tc.code || !strings.Contains(api.ErrorMessage(), tc.message) {
				t.Errorf("got %v, want %s: %s", err, tc.code, tc.message)
			}
		})
	}
}

func TestAddOnConfigurationReachesTheObjects(t *testing.T) {
	w := addOnWorld(t)
	w.createAddon(&awseks.CreateAddonInput{AddonName: aws.String("vpc-cni"), ConfigurationValues: aws.String(`
env:
  ENABLE_PREFIX_DELEGATION: "true"
  WARM_IP_TARGET: "5"
enableNetworkPolicy: "true"
podAnnotations: {a: b}
tolerations: []
`), ServiceAccountRoleArn: aws.String(w.arn("role/pods"))})
	got := w.waitAddon("vpc-cni", ekstypes.AddonStatusActive)
	if !strings.Contains(*got.ConfigurationValues, "WARM_IP_TARGET") || *got.ServiceAccountRoleArn != w.arn("role/pods") {
		t.Errorf("add-on = %+v", got)
	}
	objects := w.objects()
	for path, want := range map[string]string{
		"spec.template.spec.containers":                    "map[name:ENABLE_PREFIX_DELEGATION value:true]",
		"spec.template.spec.initContainers":                "aws-vpc-cni-init",
		"spec.template.metadata.annotations":               "map[a:b]",
		"spec.template.spec.tolerations":                   "[]",
		"spec.template.spec.hostNetwork":                   "true",
		"spec.template.metadata.labels.k8s-app":            "aws-node",
		"spec.updateStrategy.type":                         "RollingUpdate",
		"spec.template.spec.serviceAccountName":            "aws-node",
		"spec.template.spec.priorityClassName":             "system-node-critical",
		"spec.selector.matchLabels.k8s-app":                "aws-node",
		"spec.updateStrategy.rollingUpdate":                "maxUnavailable:10%",
		"spec.template.spec.affinity":                      "fargate",
		"spec.template.spec.volumes":                       "/etc/cni/net.d",
		"metadata.labels.k8s-app":                          "aws-node",
		"spec.template.spec.terminationGracePeriodSeconds": "10",
	} {
		if text := fmt.Sprint(objects.field("DaemonSet kube-system/aws-node", path)); !strings.Contains(text, want) {
			t.Errorf("%s = %.200s, want %s", path, text, want)
		}
	}
	containers := fmt.Sprint(objects.field("DaemonSet kube-system/aws-node", "spec.template.spec.containers"))
	for _, want := range []string{"name:WARM_IP_TARGET value:5", "--enable-network-policy=true", "name:CLUSTER_NAME value:dev"} {
		if !strings.Contains(containers, want) {
			t.Errorf("the containers have no %s", want)
		}
	}
	if role := objects.field("ServiceAccount kube-system/aws-node", "metadata.annotations"); fmt.Sprint(role) != "map[eks.amazonaws.com/role-arn:"+w.arn("role/pods")+"]" {
		t.Errorf("the service account has %v", role)
	}
}

func TestAddOnOwnsItsAssociations(t *testing.T) {
	w := addOnWorld(t)
	associations := func() []ekstypes.PodIdentityAssociationSummary {
		out, err := w.client.ListPodIdentityAssociations(t.Context(), &awseks.ListPodIdentityAssociationsInput{ClusterName: aws.String("dev")})
		if err != nil {
			t.Fatal(err)
		}
		return out.Associations
	}
	give := func(role string) []ekstypes.AddonPodIdentityAssociations {
		return []ekstypes.AddonPodIdentityAssociations{{ServiceAccount: aws.String("aws-node"), RoleArn: aws.String(w.arn("role/" + role))}}
	}
	made := w.createAddon(&awseks.CreateAddonInput{AddonName: aws.String("vpc-cni"), PodIdentityAssociations: give("pods")})
	w.waitAddon("vpc-cni", ekstypes.AddonStatusActive)
	got := associations()
	if len(got) != 1 || aws.ToString(got[0].OwnerArn) != *made.AddonArn || !slices.Equal(made.PodIdentityAssociations, []string{*got[0].AssociationArn}) {
		t.Fatalf("associations = %+v of %v", got, made.PodIdentityAssociations)
	}
	_, err := w.client.DeletePodIdentityAssociation(t.Context(), &awseks.DeletePodIdentityAssociationInput{ClusterName: aws.String("dev"), AssociationId: got[0].AssociationId})
	if err == nil || !strings.Contains(err.Error(), "is owned by addon") {
		t.Errorf("deleting it: %v", err)
	}
	_, err = w.client.UpdatePodIdentityAssociation(t.Context(), &awseks.UpdatePodIdentityAssociationInput{ClusterName: aws.String("dev"), AssociationId: got[0].AssociationId, RoleArn: aws.String(w.arn("role/other"))})
	if err == nil || !strings.Contains(err.Error(), "is owned by addon") {
		t.Errorf("changing it: %v", err)
	}
	w.updateAddon(&awseks.UpdateAddonInput{AddonName: aws.String("vpc-cni"), PodIdentityAssociations: give("other")})
	w.waitAddon("vpc-cni", ekstypes.AddonStatusActive)
	after, err := w.client.DescribePodIdentityAssociation(t.Context(), &awseks.DescribePodIdentityAssociationInput{ClusterName: aws.String("dev"), AssociationId: got[0].AssociationId})
	if err != nil || *after.Association.RoleArn != w.arn("role/other") {
		t.Errorf("after the update: %+v, %v", after, err)
	}
	w.updateAddon(&awseks.UpdateAddonInput{AddonName: aws.String("vpc-cni"), PodIdentityAssociations: []ekstypes.AddonPodIdentityAssociations{}})
	if a := w.waitAddon("vpc-cni", ekstypes.AddonStatusActive); len(associations()) != 0 || len(a.PodIdentityAssociations) != 0 {
		t.Error("an empty list leaves associations")
	}
	w.updateAddon(&awseks.UpdateAddonInput{AddonName: aws.String("vpc-cni"), PodIdentityAssociations: give("pods")})
	w.waitAddon("vpc-cni", ekstypes.AddonStatusActive)
	w.deleteAddon("vpc-cni", false)
	if left := associations(); len(left) != 0 {
		t.Errorf("deleted, it leaves %v", left)
	}
}

// An update that completes while another is being checked is not undone by it.
func TestAnAddOnUpdateIsNotLostToAnother(t *testing.T) {
	w := addOnWorld(t)
	w.createAddon(&awseks.CreateAddonInput{AddonName: aws.String("vpc-cni")})
	w.waitAddon("vpc-cni", ekstypes.AddonStatusActive)
	asked, answer, done := make(chan struct{}), make(chan struct{}), make(chan error, 1)
	var once sync.Once
	w.iam.mu.Lock()
	w.iam.asked = func() {
		once.Do(func() {
			close(asked)
			select {
			case <-answer:
			case <-t.Context().Done():
			}
		})
	}
	w.iam.mu.Unlock()
	go func() {
		_, err := w.client.UpdateAddon(t.Context(), &awseks.UpdateAddonInput{
			ClusterName: aws.String("dev"), AddonName: aws.String("vpc-cni"),
			PodIdentityAssociations: []ekstypes.AddonPodIdentityAssociations{{ServiceAccount: aws.String("aws-node"), RoleArn: aws.String(w.arn("role/pods"))}},
		})
		done <- err
	}()
	<-asked
	w.updateAddon(&awseks.UpdateAddonInput{AddonName: aws.String("vpc-cni"), ConfigurationValues: aws.String(`{"env": {"WARM_IP_TARGET": "5"}}`)})
	w.waitAddon("vpc-cni", ekstypes.AddonStatusActive)
	close(answer)
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	got := w.waitAddon("vpc-cni", ekstypes.AddonStatusActive)
	if len(got.PodIdentityAssociations) != 1 || aws.ToString(got.ConfigurationValues) != `{"env": {"WARM_IP_TARGET": "5"}}` {
		t.Errorf("associations %v, configuration %s", got.PodIdentityAssociations, aws.ToString(got.ConfigurationValues))
	}
}

// A deleted add-on exists until its last object is gone, but not forever.
func TestADeletedAddOnWaitsForItsObjects(t *testing.T) {
	const id = "Deployment kube-system/metrics-server"
	for name, timeout := range map[string]bool{"that end": false, "that never end": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, withClock, func(w *world) { w.pace = 200 * time.Millisecond })
			w.cluster("dev", ekstypes.AuthenticationModeApi)
			w.createAddon(&awseks.CreateAddonInput{AddonName: aws.String("metrics-server")})
			w.waitAddon("metrics-server", ekstypes.AddonStatusActive)
			objects := w.objects()
			objects.mu.Lock()
			objects.finalized = map[string]int{id: 0}
			objects.mu.Unlock()
			if _, err := w.client.DeleteAddon(t.Context(), &awseks.DeleteAddonInput{ClusterName: aws.String("dev"), AddonName: aws.String("metrics-server")}); err != nil {
				t.Fatal(err)
			}
			w.eventually(func() error {
				objects.mu.Lock()
				defer objects.mu.Unlock()
				if n := objects.finalized[id]; n < 2 {
					return fmt.Errorf("deleted %d times", n)
				}
				return nil
			})
			w.waitAddon("metrics-server", ekstypes.AddonStatusDeleting)
			if timeout {
				w.fake.Step(time.Hour)
			} else {
				objects.mu.Lock()
				objects.finalized = nil
				objects.mu.Unlock()
			}
			w.waitAddonGone("metrics-server")
			if left := slices.Contains(objects.ids(), id); left != timeout {
				t.Errorf("left: %t", left)
			}
		})
	}
}

func TestPreservedAddOnLeavesItsObjects(t *testing.T) {
	w := addOnWorld(t)
	w.createAddon(&awseks.CreateAddonInput{AddonName: aws.String("vpc-cni"), PodIdentityAssociations: []ekstypes.AddonPodIdentityAssociations{{ServiceAccount: aws.String("aws-node"), RoleArn: aws.String(w.arn("role/pods"))}}})
	w.waitAddon("vpc-cni", ekstypes.AddonStatusActive)
	w.deleteAddon("vpc-cni", true)
	if !slices.Contains(w.objects().ids(), "DaemonSet kube-system/aws-node") {
		t.Error("its DaemonSet is gone")
	}
	out, err := w.client.ListPodIdentityAssociations(t.Context(), &awseks.ListPodIdentityAssociationsInput{ClusterName: aws.String("dev")})
	if err != nil || len(out.Associations) != 1 || out.Associations[0].OwnerArn != nil {
		t.Errorf("associations = %+v, %v", out, err)
	}
}

// Objects that kept an add-on from being created belong to the user, and stay when it is deleted.
func TestAddOnThatNeverAppliedLeavesWhatIsNotItsOwn(t *testing.T) {
	for name, overwrite := range map[string]bool{"it failed": false, "it failed, and took over then": true} {
		t.Run(name, func(t *testing.T) {
			w := addOnWorld(t)
			if err := w.objects().edit(coreDNS, "spec.replicas", int64(5)); err != nil {
				t.Fatal(err)
			}
			before := w.objects().ids()
			w.createAddon(&awseks.CreateAddonInput{AddonName: aws.String("coredns")})
			w.waitAddon("coredns", ekstypes.AddonStatusCreateFailed)
			if overwrite {
				w.updateAddon(&awseks.UpdateAddonInput{AddonName: aws.String("coredns"), ResolveConflicts: ekstypes.ResolveConflictsOverwrite})
				w.waitAddon("coredns", ekstypes.AddonStatusActive)
			}
			w.deleteAddon("coredns", false)
			if left := slices.Contains(w.objects().ids(), coreDNS); left == overwrite {
				t.Errorf("CoreDNS is left: %t", left)
			}
			if !overwrite && !slices.Equal(before, w.objects().ids()) {
				t.Errorf("%v, before %v", w.objects().ids(), before)
			}
		})
	}
}

func TestAddOnTokensTagsAndTheEndOfItsCluster(t *testing.T) {
	w := addOnWorld(t)
	in := &awseks.CreateAddonInput{AddonName: aws.String("coredns"), ClientRequestToken: aws.String("once")}
	first := w.createAddon(in)
	if again := w.createAddon(in); *again.AddonArn != *first.AddonArn {
		t.Error("the same token makes another one")
	}
	w.waitAddon("coredns", ekstypes.AddonStatusActive)
	up := &awseks.UpdateAddonInput{AddonName: aws.String("coredns"), ConfigurationValues: aws.String("{}"), ClientRequestToken: aws.String("twice")}
	if a, b := w.updateAddon(up), w.updateAddon(up); *a.Id != *b.Id {
		t.Error("the same token makes another update")
	}
	w.waitAddon("coredns", ekstypes.AddonStatusActive)
	if _, err := w.client.TagResource(t.Context(), &awseks.TagResourceInput{ResourceArn: first.AddonArn, Tags: map[string]string{"a": "b"}}); err != nil {
		t.Fatal(err)
	}
	if tags, err := w.client.ListTagsForResource(t.Context(), &awseks.ListTagsForResourceInput{ResourceArn: first.AddonArn}); err != nil || tags.Tags["a"] != "b" {
		t.Errorf("tags = %v, %v", tags, err)
	}
	if _, err := w.client.DeleteCluster(t.Context(), &awseks.DeleteClusterInput{Name: aws.String("dev")}); err != nil {
		t.Fatal(err)
	}
	w.waitGone("dev")
	w.cluster("dev", ekstypes.AuthenticationModeApi)
	if list, err := w.client.ListAddons(t.Context(), &awseks.ListAddonsInput{ClusterName: aws.String("dev")}); err != nil || len(list.Addons) != 0 {
		t.Errorf("a new cluster has %v, %v", list, err)
	}
}

func TestDescribeAddonVersions(t *testing.T) {
	w := newWorld(t)
	for name, tc := range map[string]struct {
		in   awseks.DescribeAddonVersionsInput
		want []string
	}{
		"all":         {awseks.DescribeAddonVersionsInput{}, []string{"aws-ebs-csi-driver", "coredns", "eks-node-monitoring-agent", "eks-pod-identity-agent", "kube-proxy", "metrics-server", "snapshot-controller", "vpc-cni"}},
		"one":         {awseks.DescribeAddonVersionsInput{AddonName: aws.String("vpc-cni")}, []string{"vpc-cni"}},
		"a type":      {awseks.DescribeAddonVersionsInput{Types: []string{"storage"}}, []string{"aws-ebs-csi-driver", "snapshot-controller"}},
		"an owner":    {awseks.DescribeAddonVersionsInput{Owners: []string{"community"}}, []string{"metrics-server"}},
		"a publisher": {awseks.DescribeAddonVersionsInput{Publishers: []string{"eks"}, Types: []string{"security"}}, []string{"eks-pod-identity-agent"}},
		"no release":  {awseks.DescribeAddonVersionsInput{KubernetesVersion: aws.String("1.20")}, nil},
		"first page":  {awseks.DescribeAddonVersionsInput{MaxResults: aws.Int32(2)}, []string{"aws-ebs-csi-driver", "coredns"}},
	} {
		t.Run(name, func(t *testing.T) {
			out, err := w.client.DescribeAddonVersions(t.Context(), &tc.in)
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			for _, a := range out.Addons {
				got = append(got, *a.AddonName)
				for _, v := range a.AddonVersions {
					for _, c := range v.Compatibilities {
						if tc.in.KubernetesVersion != nil && *c.ClusterVersion != *tc.in.KubernetesVersion {
							t.Errorf("%s runs on %s", *v.AddonVersion, *c.ClusterVersion)
						}
					}
				}
			}
			if !slices.Equal(got, tc.want) || (out.NextToken != nil) != (name == "first page") {
				t.Errorf("got %v, want %v", got, tc.want)
			}
		})
	}
	c, err := w.client.DescribeAddonConfiguration(t.Context(), &awseks.DescribeAddonConfigurationInput{AddonName: aws.String("vpc-cni"), AddonVersion: aws.String("v1.20.4-eksbuild.2")})
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(*c.ConfigurationSchema, `"enableNetworkPolicy"`) || c.PodIdentityConfiguration[0].RecommendedManagedPolicies[0] != "arn:aws:iam::aws:policy/AmazonEKS_CNI_Policy" {
		t.Errorf("configuration = %s %+v", *c.ConfigurationSchema, c.PodIdentityConfiguration)
	}
}

// All versions without filters, through the AWS API server, decoded by the SDK.
func BenchmarkDescribeAddonVersions(b *testing.B) {
	w := newWorld(b)
	for b.Loop() {
		if _, err := w.client.DescribeAddonVersions(b.Context(), &awseks.DescribeAddonVersionsInput{}); err != nil {
			b.Fatal(err)
		}
	}
}
