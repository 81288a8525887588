package why

import (
	"context"
	"slices"
	"time"

	"github.com/drydock-dev/drydock/internal/advice"
	"github.com/drydock-dev/drydock/internal/api"
	"github.com/drydock-dev/drydock/internal/awsapi"
	"github.com/drydock-dev/drydock/internal/node"
)

// cniPatience is how long the DaemonSet controller may take to put a pod of aws-node on a node that has registered.
const cniPatience = 10 * time.Second

// missingCNI explains a node that waits for a CNI plugin that its cluster does not have: a cluster created without
// self-managed add-ons has none until the add-on vpc-cni is installed.
// https://docs.aws.amazon.com/eks/latest/userguide/eks-add-ons.html#addon-consider-auto
func (x *Explainer) missingCNI(ctx context.Context, e *api.NodeExplanation, now time.Time) {
	registered := slices.IndexFunc(e.Steps, func(s api.Step) bool {
		return s.Name == node.StepRegister && s.State == api.StepOK && now.Sub(s.Time) > cniPatience
	})
	image := slices.IndexFunc(e.Steps, func(s api.Step) bool { return s.Name == node.StepImage && s.State == api.StepPending })
	if e.Ready || e.Cluster == "" || registered < 0 || image < 0 {
		return
	}
	if _, ok := x.cfg.Machines.Fargate(e.Instance); ok {
		return // Fargate has its own network
	}
	ctx = awsapi.WithCall(ctx, &awsapi.Call{Account: e.Account, Region: e.Region, Service: "eks"})
	facts, err := x.cfg.EKS.PodFacts(ctx, e.Cluster, "kube-system", "aws-node")
	if err != nil || facts.Pod != nil || len(facts.Events) > 0 {
		return // it exists, or that is unknown
	}
	e.Steps[image].State = api.StepFailed
	e.Steps[image].Evidence = "container runtime network not ready: NetworkReady=false reason:NetworkPluginNotReady message:Network plugin returns error: cni plugin not initialized"
	e.Steps[image].Reason = &api.Reason{
		By: node.ByCluster, Code: codeNoCNI, Component: "DaemonSet kube-system/aws-node",
		Text: "the cluster has no pods of aws-node, the VPC CNI plugin: without it nodes do not become Ready",
		Fixes: advice.Try(func(changes []advice.Change) error { return x.cfg.EKS.TryAddon(ctx, e.Cluster, changes[0].Value) },
			[]advice.Change{{Kind: advice.InstallAddon, Resource: e.Cluster, Value: "vpc-cni"}}, "aws eks create-addon --cluster-name "+e.Cluster+" --addon-name vpc-cni --region "+e.Region),
	}
}
