package why

import (
	"context"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/drydock-dev/drydock/internal/api"
	"github.com/drydock-dev/drydock/internal/node"
	"github.com/drydock-dev/drydock/internal/service/eks"
)

// podsOf is a cluster with the facts of one pod.
type podsOf struct {
	EKS
	facts eks.PodFacts
}

func (p podsOf) PodFacts(_ context.Context, _, namespace, name string) (eks.PodFacts, error) {
	if namespace != "kube-system" || name != "aws-node" {
		return eks.PodFacts{Pod: &corev1.Pod{}}, nil
	}
	return p.facts, nil
}

func (podsOf) TryAddon(context.Context, string, string) error { return nil }

func TestANodeWithoutCNI(t *testing.T) {
	at := time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC)
	for name, tt := range map[string]struct {
		now   time.Time
		facts eks.PodFacts
		image string // the state of that step before
		want  bool
	}{
		"no aws-node":               {at.Add(time.Minute), eks.PodFacts{}, api.StepPending, true},
		"it has just registered":    {at.Add(time.Second), eks.PodFacts{}, api.StepPending, false},
		"a pod is on its way":       {at.Add(time.Minute), eks.PodFacts{Pod: &corev1.Pod{}}, api.StepPending, false},
		"pods are refused":          {at.Add(time.Minute), eks.PodFacts{Events: []corev1.Event{{Reason: "FailedCreate"}}}, api.StepPending, false},
		"its image has been pulled": {at.Add(time.Minute), eks.PodFacts{}, api.StepOK, false},
	} {
		t.Run(name, func(t *testing.T) {
			e := api.NodeExplanation{Cluster: "dev", Region: "us-east-1", Account: "000000000000", Steps: []api.Step{
				{Name: node.StepRegister, State: api.StepOK, Time: at}, {Name: node.StepImage, State: tt.image},
			}}
			New(Config{EKS: podsOf{facts: tt.facts}, Machines: noMachines{}}).missingCNI(t.Context(), &e, tt.now)
			failed := e.FirstFailed()
			if (failed != nil) != tt.want {
				t.Fatalf("failed: %+v", failed)
			}
			if tt.want && (failed.Name != node.StepImage || failed.Reason.Fixes[0].Shell() != "aws eks create-addon --cluster-name dev --addon-name vpc-cni --region us-east-1") {
				t.Errorf("%+v", failed.Reason)
			}
		})
	}
}
