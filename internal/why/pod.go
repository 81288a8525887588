package why

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"github.com/aws/smithy-go"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/drydock-dev/drydock/internal/advice"
	"github.com/drydock-dev/drydock/internal/api"
	"github.com/drydock-dev/drydock/internal/api/httpapi"
	"github.com/drydock-dev/drydock/internal/awsapi"
	"github.com/drydock-dev/drydock/internal/journal"
	"github.com/drydock-dev/drydock/internal/node"
	"github.com/drydock-dev/drydock/internal/service/eks"
	"github.com/drydock-dev/drydock/internal/twin/recording"
)

// getWhyPod explains how far the pod ?namespace=&name= of ?cluster= has come.
func (x *Explainer) getWhyPod(w http.ResponseWriter, r *http.Request) {
	account, region, err := httpapi.Place(r)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	q := r.URL.Query()
	ctx := awsapi.WithCall(r.Context(), &awsapi.Call{Account: account, Region: region, Service: "eks"})
	cluster, err := x.OnlyCluster(ctx, account, region, q.Get("cluster"))
	if err != nil {
		refuse(w, err, http.StatusBadRequest)
		return
	}
	facts, err := x.cfg.EKS.PodFacts(ctx, cluster, q.Get("namespace"), q.Get("name"))
	var refused smithy.APIError
	switch {
	case errors.As(err, &refused):
		http.Error(w, refused.ErrorMessage(), http.StatusNotFound)
	case err != nil:
		http.Error(w, err.Error(), http.StatusInternalServerError)
	case facts.Pod == nil && len(facts.Events) == 0:
		e := api.PodExplanation{Cluster: cluster, Account: account, Region: region, Namespace: q.Get("namespace"), Pod: q.Get("name"), Steps: []api.Step{}}
		if e.Unknown = x.unknownMaker(&e); len(e.Unknown) > 0 {
			httpapi.Answer(w, e)
			return
		}
		http.Error(w, fmt.Sprintf("no pod %s/%s is known in cluster %s, and no controller has tried to create one", q.Get("namespace"), q.Get("name"), cluster), http.StatusNotFound)
	default:
		e, err := x.explain(ctx, &facts, q.Get("namespace"), q.Get("name"))
		if err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
		e.Unknown = x.unknownPod(&e, facts.Pod, x.lostNodes(account, region, cluster))
		httpapi.Answer(w, e)
	}
}

// explain explains a pod. If the pod is not on a node, it asks Fargate about it.
func (x *Explainer) explain(ctx context.Context, facts *eks.PodFacts, namespace, name string) (api.PodExplanation, error) {
	var ofFargate fargateExplanation
	if facts.Pod != nil && facts.Pod.Spec.NodeName == "" {
		var err error
		if ofFargate, err = x.fargateExplain(ctx, facts.Account, facts.Region, facts.Cluster, facts.Pod); err != nil {
			return api.PodExplanation{}, err
		}
	}
	return x.explainPod(ctx, facts, &ofFargate, namespace, name)
}

// FailingStep returns the first step at which a pod fails, or nil if none is known.
func (x *Explainer) FailingStep(ctx context.Context, cluster, namespace, name string) *api.Step {
	facts, err := x.cfg.EKS.PodFacts(ctx, cluster, namespace, name)
	if err != nil || facts.Pod == nil {
		return nil
	}
	e, err := x.explain(ctx, &facts, namespace, name)
	if err != nil {
		return nil
	}
	return e.FirstFailed()
}

// OnlyCluster returns the named cluster, or the region's only one.
func (x *Explainer) OnlyCluster(ctx context.Context, account, region, name string) (string, error) {
	clusters, err := x.cfg.EKS.Clusters(ctx)
	if err != nil {
		return "", err
	}
	found, err := onlyCluster(clusters, account, region, name)
	if err != nil {
		unknown := x.unknown(account, func(g recording.Gap) bool {
			return g.Service == "eks" && (g.Operation == "ListClusters" || g.Operation == "DescribeCluster" && (name == "" || g.Cluster == name))
		})
		if len(unknown) > 0 {
			return "", &unknownError{strings.TrimSpace("cluster " + name), unknown}
		}
	}
	return found, err
}

// Known returns an error if a cluster of a twin was not read, so that nothing can be said about it.
func (x *Explainer) Known(ctx context.Context, account, region, cluster string) error {
	_, err := x.OnlyCluster(ctx, account, region, cluster)
	if _, ok := errors.AsType[*unknownError](err); !ok {
		return nil
	}
	return err
}

func onlyCluster(clusters []eks.ClusterStatus, account, region, name string) (string, error) {
	var names, elsewhere []string
	for _, c := range clusters {
		switch {
		case c.Account == account && c.Region == region:
			names = append(names, c.Name)
		case name == "" || c.Name == name:
			elsewhere = append(elsewhere, "--region "+c.Region+" --account "+c.Account)
		}
	}
	switch {
	case slices.Contains(names, name):
		return name, nil
	case name == "" && len(names) == 1:
		return names[0], nil
	case name != "" || len(names) == 0:
		what := strings.TrimSpace("cluster " + name)
		if len(elsewhere) == 0 {
			return "", fmt.Errorf("there is no %s in %s of account %s", what, region, account)
		}
		return "", fmt.Errorf("there is no %s in %s of account %s; there is one: %s", what, region, account, elsewhere[0])
	}
	return "", errors.New("there are several clusters; choose one: --cluster " + strings.Join(names, ", --cluster "))
}

// The steps of a pod, in order.
const (
	podAdmission     = "admission"
	podScheduling    = "scheduling"
	podNode          = "node"
	podAddress       = "address"
	podImage         = "image"
	podConfiguration = "configuration"
	podIdentity      = "identity"
	podRunning       = "running"
)

// A podChain is what is known so far about a pod's steps.
type podChain struct {
	x *Explainer
	// onHost are the steps at which the pod fails, as reported by its node.
	onHost []node.Step
	facts  *eks.PodFacts
	pod    *corev1.Pod
	// toFargate moves the pod to Fargate, if only an annotation keeps it away.
	toFargate *advice.Fix
	api.PodExplanation
}

func (c *podChain) ok(name, evidence string) {
	c.Steps = append(c.Steps, api.Step{Name: name, State: api.StepOK, Evidence: evidence})
}

func (c *podChain) fail(name, evidence string, why *api.Reason) {
	if s := c.hosted(name); s != nil && s.Decision != nil {
		own := why
		if why = c.x.reason(c.facts.Account, c.facts.Region, s.Decision); own != nil && len(why.Fixes) == 0 && why.Note == "" {
			why.Fixes = own.Fixes // the node only knows what it asked for, not the rest of the pod
		}
	}
	c.Steps = append(c.Steps, api.Step{Name: name, State: api.StepFailed, Evidence: evidence, Reason: paged(why)})
}

// hosted returns the node's own step, or nil. Kubernetes' events do not contain the rule or policy.
func (c *podChain) hosted(name string) *node.Step {
	names := map[string][]string{
		podAddress: {node.StepPodAddress}, podImage: {node.StepPodImage}, podConfiguration: {node.StepPodVolumes, node.StepPodConfig},
	}[name]
	for i := range c.onHost {
		if slices.Contains(names, c.onHost[i].Name) {
			return &c.onHost[i]
		}
	}
	return nil
}

// pending adds the steps from name on as not reached.
func (c *podChain) pending(name string) {
	order := []string{podAdmission, podScheduling, podNode, podAddress, podImage, podConfiguration, podIdentity, podRunning}
	for _, s := range order[slices.Index(order, name):] {
		c.Steps = append(c.Steps, api.Step{Name: s, State: api.StepPending})
	}
}

// explainPod follows a pod to its running containers or to where it is stuck.
func (x *Explainer) explainPod(ctx context.Context, facts *eks.PodFacts, ofFargate *fargateExplanation, namespace, name string) (api.PodExplanation, error) {
	c := &podChain{x: x, facts: facts, pod: facts.Pod, PodExplanation: api.PodExplanation{
		Cluster: facts.Cluster, Account: facts.Account, Region: facts.Region, Namespace: namespace, Pod: name, Steps: []api.Step{},
	}}
	if c.pod == nil {
		c.refusedAdmission(&facts.Events[len(facts.Events)-1])
		c.pending(podScheduling)
		return c.PodExplanation, nil
	}
	c.Pod, c.Node, c.Phase = c.pod.Name, c.pod.Spec.NodeName, string(c.pod.Status.Phase)
	if c.pod.DeletionTimestamp != nil {
		c.Notes = append(c.Notes, "it has been terminating since "+c.pod.DeletionTimestamp.UTC().Format("15:04:05"))
	}
	made := "created by hand"
	if len(c.pod.OwnerReferences) > 0 {
		made = "created by " + c.pod.OwnerReferences[0].Kind + " " + c.pod.OwnerReferences[0].Name
	}
	c.ok(podAdmission, made)
	c.logging(c.logs())
	if c.pod.Spec.NodeName == "" {
		if !c.fargate(ofFargate) {
			c.unscheduled()
		}
		c.pending(podNode)
		return c.PodExplanation, nil
	}
	c.ok(podScheduling, "to "+c.pod.Spec.NodeName)
	if c.pod.Status.Phase == corev1.PodSucceeded {
		c.Running = true
		c.ok(podRunning, "all containers have completed")
		return c.PodExplanation, nil
	}
	if err := c.onNode(); err != nil {
		return c.PodExplanation, err
	}
	for _, step := range []func() bool{c.address, c.image, c.configuration} {
		if !step() {
			break
		}
	}
	c.identity(ctx)
	c.containers()
	c.settle()
	return c.PodExplanation, c.programs()
}

// programs notes what programs that ran as the pod (drydock run --pod) last failed to reach.
func (c *podChain) programs() error {
	for e, err := range c.x.cfg.Journal.Query(journal.Filter{
		Account: c.Account, Kind: journal.KindDecision, Fields: map[string]string{"pod": c.Namespace + "/" + c.pod.Name, "cluster": c.Cluster},
	}) {
		if err != nil {
			return err
		}
		if why, ok := networkRefusal(e); ok && e.Region == c.Region && e.Time.After(c.pod.CreationTimestamp.Time) {
			c.Notes = append(c.Notes, fmt.Sprintf("a program that ran as this pod could not reach %s at %s: %s", text(e, "target"), e.Time.UTC().Format("15:04:05"), why.Text))
		}
		break
	}
	return nil
}

// settle sorts the steps, removes duplicates, and adds those that were not reached.
func (c *podChain) settle() {
	order := []string{podAdmission, podScheduling, podNode, podAddress, podImage, podConfiguration, podIdentity, podRunning}
	steps := c.Steps
	c.Steps = nil
	for _, name := range order {
		i := slices.IndexFunc(steps, func(s api.Step) bool { return s.Name == name })
		if i < 0 {
			c.Steps = append(c.Steps, api.Step{Name: name, State: api.StepPending})
			continue
		}
		c.Steps = append(c.Steps, steps[i])
	}
}

// refusedAdmission explains why the API server rejected a pod.
func (c *podChain) refusedAdmission(e *corev1.Event) {
	maker := strings.ToLower(e.InvolvedObject.Kind) + "/" + e.InvolvedObject.Name
	why := &api.Reason{By: node.ByKubernetes, Code: "Forbidden", Component: maker, Text: e.Message}
	namespace := " --namespace " + c.Namespace
	switch m := e.Message; {
	case strings.Contains(m, "error looking up service account"):
		name := quotedAfter(m, "serviceaccount ")
		why.Text = "the service account " + c.Namespace + "/" + name + ", which its pods run as, does not exist"
		why.Fixes = createServiceAccount(c.Namespace, name, "kubectl create serviceaccount "+name+namespace)
	case strings.Contains(m, "exceeded quota"):
		_, quota, _ := strings.Cut(m, "exceeded quota: ")
		quota, rest, _ := strings.Cut(quota, ",")
		why.Code, why.Text = "ExceededQuota", "ResourceQuota "+quota+" is used up:"+rest
		i := slices.IndexFunc(c.facts.Quotas, func(q corev1.ResourceQuota) bool { return q.Name == quota })
		if i >= 0 {
			why.Fixes = raisedQuota(&c.facts.Quotas[i], rest, namespace, c.facts.Wanting)
		}
		if len(why.Fixes) == 0 {
			why.Text = "ResourceQuota " + quota + " was used up; there is room now, and " + maker + " will try again"
		}
	case strings.Contains(m, "violates PodSecurity"):
		why.Code, why.Text = "PodSecurity", m[strings.Index(m, "violates PodSecurity"):]
		why.Fixes = podSecurity(c.Namespace, c.facts.Template)
	case strings.Contains(m, "failed calling webhook"):
		why.Code = "WebhookFailed"
		why.Fixes = oneSketch("find the webhook of that name, and mend or delete it", "kubectl get mutatingwebhookconfigurations,validatingwebhookconfigurations")
	case strings.Contains(m, "denied the request"):
		why.Code = "WebhookDenied"
	case strings.Contains(m, "no PriorityClass with name"):
		why.Fixes = oneSketch("name one of these classes in the pod's template", "kubectl get priorityclasses")
	case !strings.Contains(m, "forbidden"):
		why.Code = e.Reason
	}
	c.fail(podAdmission, e.Message, why)
}

// raisedQuota returns the fix that raises a quota by the request of one pod for each missing pod and no more. It returns
// nil if the quota has enough room by now. says is the API server's " requested: pods=1, used: pods=0, limited: pods=0".
// https://github.com/kubernetes/apiserver/blob/master/pkg/admission/plugin/resourcequota/controller.go
func raisedQuota(quota *corev1.ResourceQuota, says, namespace string, wanting int) []advice.Fix {
	amounts := func(name string) map[string]resource.Quantity {
		out := map[string]resource.Quantity{}
		_, list, _ := strings.Cut(says, name+": ")
		list, _, _ = strings.Cut(list, ", ")
		for pair := range strings.SplitSeq(list, ",") {
			name, amount, _ := strings.Cut(pair, "=")
			if q, err := resource.ParseQuantity(amount); err == nil {
				out[name] = q
			}
		}
		return out
	}
	used, requested := amounts("used"), amounts("requested")
	for name, now := range quota.Status.Used { // more recent than the event
		used[string(name)] = now
	}
	if len(requested) == 0 {
		return oneSketch("raise the quota in the editor, or delete what uses it up", "kubectl edit resourcequota "+quota.Name+namespace)
	}
	// lacking returns what all pods together need, for the resources whose limit is lower.
	lacking := func(limits corev1.ResourceList) corev1.ResourceList {
		out := corev1.ResourceList{}
		for name, wanted := range requested {
			wanted.Mul(int64(max(1, wanting)))
			wanted.Add(used[name])
			if limit, ok := limits[corev1.ResourceName(name)]; ok && wanted.Cmp(limit) > 0 {
				out[corev1.ResourceName(name)] = wanted
			}
		}
		return out
	}
	hard := lacking(quota.Spec.Hard)
	if len(hard) == 0 {
		return nil
	}
	patch, err := json.Marshal(map[string]any{"spec": map[string]any{"hard": hard}})
	if err != nil { // quantities always encode
		panic(err)
	}
	return advice.Try(func(changes []advice.Change) error {
		after := quota.DeepCopy()
		if err := json.Unmarshal([]byte(changes[0].Value), after); err != nil { // this merges, as kubectl's patch does
			return err
		}
		if more := lacking(after.Spec.Hard); len(more) > 0 {
			return fmt.Errorf("all pods together want more than the quota: %v", more)
		}
		return nil
	}, []advice.Change{{Kind: advice.RaiseQuota, Resource: quota.Name, Value: string(patch)}}, "kubectl patch resourcequota "+quota.Name+namespace+" --type merge --patch "+quoted(string(patch)))
}

// quotedAfter returns the first quoted word after a text.
func quotedAfter(s, text string) string {
	_, s, _ = strings.Cut(s, text)
	_, s, _ = strings.Cut(s, `"`)
	s, _, _ = strings.Cut(s, `"`)
	return s
}
