package why

import (
	"context"
	"errors"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/drydock-dev/drydock/internal/advice"
	"github.com/drydock-dev/drydock/internal/api"
	"github.com/drydock-dev/drydock/internal/machine"
	"github.com/drydock-dev/drydock/internal/node"
	"github.com/drydock-dev/drydock/internal/node/fargate"
	"github.com/drydock-dev/drydock/internal/service/eks"
)

// A fargateExplanation is Fargate's view of a pod that is not on a node.
type fargateExplanation struct {
	// Choice says which profiles were considered, and which selector did not match.
	Choice eks.FargateChoice
	// Ours says that Fargate is to schedule the pod.
	Ours bool
	// Evidence is what Fargate's scheduler last reported, or is doing.
	Evidence string
	// Reason is what keeps the pod from being launched, or nil if there is nothing or the pod is not Fargate's.
	Reason *api.Reason
	// Notes say why a pod is not Fargate's.
	Notes []string
	// ByAnnotation says that a profile would match the pod without its annotation.
	ByAnnotation bool
	// without is what would keep that profile from launching it.
	without error
}

// annotationComputeType with the value ec2 keeps a pod away from Fargate.
// https://docs.aws.amazon.com/eks/latest/userguide/fargate-getting-started.html#fargate-gs-coredns
const annotationComputeType = "eks.amazonaws.com/compute-type"

// byFargate names Fargate as the part that decides about its pods.
const byFargate = "Fargate"

// fargateExplain returns Fargate's view of a pod that is not bound to a node: which profiles were considered, which
// selector did not match, what Fargate refuses, and how far the pod's machine has come.
func (x *Explainer) fargateExplain(ctx context.Context, account, region, cluster string, pod *corev1.Pod) (fargateExplanation, error) {
	var out fargateExplanation
	var err error
	if out.Choice, err = x.cfg.EKS.ExplainFargate(ctx, account, region, cluster, pod.Namespace, pod); err != nil {
		return out, err
	}
	if out.Ours = pod.Spec.SchedulerName == fargate.SchedulerName; !out.Ours {
		out.Notes = notFargate(&out.Choice, pod)
		if pod.Annotations[annotationComputeType] != "" { // would a profile match it without the annotation?
			without := pod.DeepCopy()
			delete(without.Annotations, annotationComputeType)
			choice, err := x.cfg.EKS.ExplainFargate(ctx, account, region, cluster, pod.Namespace, without)
			if err != nil {
				return out, err
			}
			if out.ByAnnotation = choice.Profile != ""; out.ByAnnotation {
				_, out.without = x.cfg.EKS.FargateLaunch(ctx, account, region, cluster, choice.Profile, without)
			}
		}
		return out, nil
	}
	for _, c := range pod.Status.Conditions {
		if c.Type == corev1.PodScheduled && c.Status == corev1.ConditionFalse {
			out.Evidence = c.Message
			out.Reason = paged(x.fargateRefusal(ctx, account, region, cluster, pod, c.Reason, c.Message))
		}
	}
	if m, ok := x.cfg.Machines.FargatePod(account, region, cluster, pod.UID); ok {
		x.fargateMachine(&out, account, region, m.ID, m.RoleARN)
	} else if out.Evidence == "" {
		out.Evidence = "Fargate has not processed it yet"
	}
	return out, nil
}

// fargateMachine fills in how far the machine for a pod has come.
func (x *Explainer) fargateMachine(out *fargateExplanation, account, region, id, role string) {
	out.Evidence, out.Reason = "a machine with "+id+" is being started for it", nil
	info, ok := x.cfg.Machines.Info(id)
	if !ok {
		return
	}
	for _, s := range info.Steps {
		if s.OK {
			continue
		}
		out.Evidence = "the machine with " + id + " does not join: " + s.Name + " fails: " + s.Evidence
		out.Reason = x.reason(account, region, s.Decision)
		if out.Reason == nil {
			out.Reason = &api.Reason{By: node.ByKubernetes, Component: role, Text: s.Evidence}
		}
		return
	}
}

// fargateRefusal returns the reason for a refusal, with a fix.
func (x *Explainer) fargateRefusal(ctx context.Context, account, region, cluster string, pod *corev1.Pod, code, message string) *api.Reason {
	profile := pod.Labels[fargate.LabelProfile]
	why := &api.Reason{By: byFargate, Code: code, Component: "Fargate profile " + profile, Text: message}
	switch code {
	case fargate.ReasonUnsupported, fargate.ReasonTooLarge, fargate.ReasonStorage:
		why.Component = "pod " + pod.Namespace + "/" + pod.Name
		switch code {
		case fargate.ReasonStorage:
			why.Fixes = []advice.Fix{advice.Sketch("request no more than 175 GiB of ephemeral-storage for all containers together")}
		case fargate.ReasonTooLarge:
			why.Fixes = []advice.Fix{advice.Sketch("request no more than 16 vCPU and 119.75 GiB for all containers together")}
		}
		why.Fixes = append(why.Fixes, advice.Sketch("annotate the pod's template with "+annotationComputeType+"=ec2, and it runs on a node group"))
	case fargate.ReasonBlocked:
		x.fargateBlock(ctx, why, account, region, cluster, pod)
	case fargate.ReasonNoAddress:
		why.By = node.ByNetwork
		why.Fixes = oneSketch("create a Fargate profile with larger subnets (aws eks create-fargate-profile): profiles cannot be changed")
	}
	return why
}

// fargateBlock explains what keeps a profile from launching a pod: its selectors, its role, or a cluster that does not
// know the role.
func (x *Explainer) fargateBlock(ctx context.Context, why *api.Reason, account, region, cluster string, pod *corev1.Pod) {
	profile := pod.Labels[fargate.LabelProfile]
	_, err := x.cfg.EKS.FargateLaunch(ctx, account, region, cluster, profile, pod)
	block, ok := errors.AsType[*eks.FargateBlock](err)
	if !ok {
		return // nothing blocks it any more, or the profile is gone
	}
	if block.Cause == eks.FargateBlockedSelectors {
		why.Fixes = oneSketch("remove schedulerName " + fargate.SchedulerName + " and the label " + fargate.LabelProfile + " from the pod's template: pods that a profile selects get both automatically")
		return
	}
	role, byEntry, err := x.cfg.EKS.FargateRole(ctx, account, region, cluster, profile)
	switch {
	case err != nil:
	case block.Cause == eks.FargateBlockedTrust:
		why.By, why.Component, why.Fixes = node.ByIAM, role, x.trusting(role, "eks-fargate-pods.amazonaws.com")
	default:
		why.By, why.Component = node.ByCluster, role
		plane, err := x.planeOf(&api.NodeExplanation{Account: account, Region: region, Cluster: cluster})
		s := &node.Subject{PlaneID: plane, Cluster: cluster, Role: role}
		switch {
		case err != nil:
		case byEntry:
			why.Fixes = x.addEntry(region, s, "FARGATE_LINUX")
		default:
			why.Fixes = x.editAuth(ctx, s, "FARGATE_LINUX")
		}
	}
}

// notFargate returns why none of the cluster's profiles matches a pod.
func notFargate(c *eks.FargateChoice, pod *corev1.Pod) []string {
	if c.Profile != "" {
		return []string{"Fargate profile " + c.Profile + " matches now, but did not when the pod was created: profiles apply to new pods only (kubectl delete pod " + pod.Name + " --namespace " + pod.Namespace + ")"}
	}
	var out []string
	for _, p := range c.Profiles {
		why := p.Why
		if !p.Matches && len(p.Selectors) > 0 && p.Status == "ACTIVE" {
			var each []string
			for _, s := range p.Selectors {
				each = append(each, s.Why)
			}
			why = strings.Join(each, "; ")
		}
		out = append(out, "not of Fargate profile "+p.Name+": "+why)
	}
	return out
}

// fargate adds Fargate's view to a pod's chain, and reports whether the pod is Fargate's.
func (c *podChain) fargate(e *fargateExplanation) bool {
	if !e.Ours {
		c.Notes = append(c.Notes, e.Notes...)
		if kind, _, _ := strings.Cut(c.maker(), "/"); e.ByAnnotation && (kind == "deployment" || kind == "statefulset") {
			c.toFargate = &advice.Try(func([]advice.Change) error { return e.without },
				[]advice.Change{{Kind: advice.PatchObject, Resource: c.maker(), Value: "without annotation " + annotationComputeType}},
				"kubectl patch "+c.maker()+" --namespace "+c.pod.Namespace+` --type json -p '[{"op":"remove","path":"/spec/template/metadata/annotations/`+
					strings.ReplaceAll(annotationComputeType, "/", "~1")+`"}]'`)[0]
		}
		return false
	}
	if e.Reason != nil {
		c.fail(podScheduling, e.Evidence, e.Reason)
	} else {
		c.Steps = append(c.Steps, api.Step{Name: podScheduling, State: api.StepPending, Evidence: e.Evidence})
	}
	return true
}

// logging adds a note about the logs of a Fargate pod. runtime is that of its machine, and sends the step of its log router, or
// nil if it has none.
func (c *podChain) logging(runtime string, sends *node.Step) {
	if c.pod.Spec.SchedulerName != fargate.SchedulerName {
		return
	}
	says := c.pod.Annotations[fargate.AnnotationLogging]
	switch state, _, _ := strings.Cut(says, ":"); state {
	case "":
	case fargate.LoggingDisabled:
		c.Notes = append(c.Notes, says+": Fargate's log router is configured by the ConfigMap aws-observability/aws-logging, for pods created after it")
	default:
		switch {
		case sends != nil:
			c.Notes = append(c.Notes, says+": "+sends.Evidence)
		case runtime == machine.Containers:
			c.Notes = append(c.Notes, says+": the log router has not started")
		default:
			c.Notes = append(c.Notes, says+", but nothing is sent: containers of simulated machines write no logs")
		}
	}
}

// logs returns the runtime of a Fargate pod's machine and the step of its log router, or nil if it has none.
func (c *podChain) logs() (runtime string, sends *node.Step) {
	if c.pod.Spec.SchedulerName != fargate.SchedulerName {
		return "", nil
	}
	m, ok := c.x.cfg.Machines.FargatePod(c.facts.Account, c.facts.Region, c.facts.Cluster, c.pod.UID)
	if !ok {
		return "", nil
	}
	info, _ := c.x.cfg.Machines.Info(m.ID)
	for i := range info.Steps {
		if info.Steps[i].Name == node.StepLogs {
			return m.Runtime, &info.Steps[i]
		}
	}
	return m.Runtime, nil
}

func oneSketch(text string, commands ...string) []advice.Fix {
	return []advice.Fix{advice.Sketch(text, commands...)}
}
