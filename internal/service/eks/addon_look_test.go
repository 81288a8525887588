package eks_test

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	awseks "github.com/aws/aws-sdk-go-v2/service/eks"
	ekstypes "github.com/aws/aws-sdk-go-v2/service/eks/types"
	corev1 "k8s.io/api/core/v1"
)

const (
	lacksPods = "The add-on is unhealthy because it doesn't have the desired number of replicas."
	noNode    = "The add-on is unhealthy because one or more pods is not scheduled 0/%d nodes are available."
)

// A failure to scale CoreDNS is reported, and does not hide other issues.
func TestCoreDNSThatCannotBeScaled(t *testing.T) {
	t.Parallel()
	w := addOnWorld(t)
	w.createAddon(&awseks.CreateAddonInput{AddonName: aws.String("coredns"), ConfigurationValues: aws.String(`{"autoScaling":{"enabled":true}}`)})
	w.waitAddon("coredns", ekstypes.AddonStatusActive)
	const no = `admission webhook "no" denied the request: no`
	w.objects().refuse(coreDNS, forbidden(no))
	w.addNodes(0, 33)
	w.issue("coredns", ekstypes.AddonStatusDegraded, ekstypes.AddonIssueCodeAdmissionRequestDenied, no)
	w.objects().refuse(coreDNS, nil)
	w.waitReplicas(3)
	w.waitAddon("coredns", ekstypes.AddonStatusActive)

	w.objects().refuse(coreDNS, errors.New("no answer"))
	if err := w.objects().edit(coreDNS, "spec.replicas", int64(1)); err != nil {
		t.Fatal(err)
	}
	w.objects().stop(coreDNS, true)
	w.issue("coredns", ekstypes.AddonStatusDegraded, ekstypes.AddonIssueCodeInsufficientNumberOfReplicas, lacksPods)
	w.objects().stop(coreDNS, false)
	w.waitAddon("coredns", ekstypes.AddonStatusActive)
	w.objects().refuse(coreDNS, nil)
	w.waitReplicas(3)
}

// A DEGRADED add-on shows its current issue, updated at most every five seconds.
func TestAddOnIssueFollowsItsReason(t *testing.T) {
	t.Parallel()
	w := newWorld(t, withClock, func(w *world) {
		w.timing.AddonUnhealthy, w.timing.AddonRollout, w.pace = 0, 0, 50*time.Millisecond
	})
	w.cluster("dev", ekstypes.AuthenticationModeApi)
	objects := w.objects()
	objects.stop(coreDNS, true)
	w.createAddon(&awseks.CreateAddonInput{AddonName: aws.String("coredns")})
	w.issue("coredns", ekstypes.AddonStatusDegraded, ekstypes.AddonIssueCodeInsufficientNumberOfReplicas, lacksPods)
	reads := func() int {
		objects.mu.Lock()
		defer objects.mu.Unlock()
		return objects.read
	}
	was := lacksPods
	for nodes := range 2 {
		free := corev1.Pod{Status: corev1.PodStatus{Conditions: []corev1.PodCondition{{Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Message: fmt.Sprintf("0/%d nodes are available.", nodes)}}}}
		objects.pending(coreDNS, corev1.Pod{}, free)
		before := reads()
		w.eventually(func() error {
			if n := reads() - before; n < 3 {
				return fmt.Errorf("looked at %d times", n)
			}
			return nil
		})
		w.issue("coredns", ekstypes.AddonStatusDegraded, ekstypes.AddonIssueCodeInsufficientNumberOfReplicas, was)
		w.fake.Step(5 * time.Second)
		was = fmt.Sprintf(noNode, nodes)
		w.eventually(func() error {
			if got := w.waitAddon("coredns", ekstypes.AddonStatusDegraded).Health.Issues; len(got) != 1 || *got[0].Message != was {
				return fmt.Errorf("issues %s", asJSON(got))
			}
			return nil
		})
	}
}
