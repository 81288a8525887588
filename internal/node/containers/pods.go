package containers

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	timing "github.com/drydock-dev/drydock/internal/clock"
	"github.com/drydock-dev/drydock/internal/node"
)

// followAWSNode sends the pod of aws-node on this node when it is there and whenever another takes its place, until ctx
// ends. It records whether the images of the pod were pulled.
func (i *instance) followAWSNode(ctx context.Context, c *client, configured chan<- *corev1.Pod) {
	const first = 200 * time.Millisecond
	delay := first
	var last types.UID
	see := func(p *corev1.Pod) {
		delay = first
		if p.DeletionTimestamp != nil {
			return
		}
		i.noteImage(ctx, p)
		if p.UID == last {
			return
		}
		select {
		case configured <- p.DeepCopy():
			last = p.UID
		case <-ctx.Done():
		}
	}
	selector := url.Values{"fieldSelector": {"spec.nodeName=" + c.node}, "labelSelector": {"k8s-app=aws-node"}}
	for {
		_ = c.watchPods(ctx, "kube-system", selector, see) // the node may not be there yet, and watches end
		if !timing.Sleep(ctx, i.rt.clock, delay) {
			return
		}
		delay = min(2*delay, 5*time.Second)
	}
}

// watchPods calls see for the pods of a namespace that match, and for each again when it has changed, until the watch ends.
func (c *client) watchPods(ctx context.Context, namespace string, selector url.Values, see func(*corev1.Pod)) error {
	path := "/api/v1/namespaces/" + namespace + "/pods?" + selector.Encode()
	var list corev1.PodList
	if err := c.get(ctx, path, &list); err != nil {
		return err
	}
	for n := range list.Items {
		see(&list.Items[n])
	}
	if list.ResourceVersion == "" {
		return errors.New("the pods cannot be listed yet")
	}
	res, err := c.send(ctx, http.MethodGet, path+"&watch=1&timeoutSeconds=600&resourceVersion="+list.ResourceVersion, nil)
	if err != nil {
		return err
	}
	defer res.Body.Close()
	if res.StatusCode != http.StatusOK {
		return errors.New(res.Status)
	}
	for events := json.NewDecoder(res.Body); ; {
		var e struct {
			Type   string
			Object json.RawMessage
		}
		if err := events.Decode(&e); err != nil {
			return err
		}
		var p corev1.Pod
		switch e.Type {
		case "ADDED", "MODIFIED":
			if err := json.Unmarshal(e.Object, &p); err != nil {
				return err
			}
			see(&p)
		case "ERROR": // such as a version that is too old
			return errors.New(string(e.Object))
		}
	}
}

// noteImage records whether the images of aws-node have been pulled.
func (i *instance) noteImage(ctx context.Context, p *corev1.Pod) {
	if s := i.imageTrouble(ctx, p); s != nil {
		s.Name = node.StepImage
		i.record(ctx, *s)
		return
	}
	for _, s := range p.Status.ContainerStatuses {
		if s.Name == "aws-node" && s.State.Running != nil {
			i.step(ctx, node.StepImage, nil, s.Image)
		}
	}
}

// imageTrouble returns the step of the first container whose image cannot be pulled, or nil.
func (i *instance) imageTrouble(ctx context.Context, p *corev1.Pod) *node.Step {
	for _, s := range slices.Concat(p.Status.InitContainerStatuses, p.Status.ContainerStatuses) {
		w := s.State.Waiting
		if w == nil {
			continue
		}
		step := &node.Step{Name: node.StepPodImage, Container: s.Name, Evidence: w.Message}
		switch w.Reason {
		case "ErrImagePull", "ImagePullBackOff":
			// Back-off pulling image "…": ErrImagePull: …
			text := w.Message
			if _, cause, ok := strings.Cut(text, "ErrImagePull: "); ok {
				text = cause
			}
			step.Evidence, step.Cause = fmt.Sprintf("Failed to pull image %q: %s", s.Image, text), node.CauseImagePull
			if i.rt.options.TryPull != nil {
				step.Decision = node.DecisionOf(i.rt.options.TryPull(ctx, i.in.ID, s.Image))
			}
		case "ErrImageNeverPull":
			step.Cause = w.Reason
		case "InvalidImageName":
			step.Cause = node.CauseImageName
		default:
			continue
		}
		return step
	}
	return nil
}

// PodSteps implements node.Kubelets: it adds what the kubelet's own events of a pod do not say, which is why an image could
// not be pulled or that there is no free address.
func (r *Runtime) PodSteps(instanceID, namespace, name string) []node.Step {
	i := r.instance(instanceID)
	if i == nil {
		return nil
	}
	i.mu.Lock()
	c, full, cluster := i.client, i.full, i.info.Cluster
	i.mu.Unlock()
	if c == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), callPatience)
	defer cancel()
	var p corev1.Pod
	if err := c.get(ctx, "/api/v1/namespaces/"+url.PathEscape(namespace)+"/pods/"+url.PathEscape(name), &p); err != nil || p.UID == "" {
		return nil
	}
	var out []node.Step
	if full && p.Status.PodIP == "" && !p.Spec.HostNetwork && p.Status.Phase == corev1.PodPending {
		out = append(out, node.Step{Name: node.StepPodAddress, Cause: node.CauseNoPodAddress, Evidence: "all addresses of the node are in use"})
	}
	if s := i.imageTrouble(ctx, &p); s != nil {
		out = append(out, *s)
	}
	for n := range out {
		s := &out[n]
		s.Account, s.Region, s.InstanceID, s.Cluster, s.Pod, s.Time = i.in.Account, i.in.Region, i.in.ID, cluster, namespace+"/"+name, i.rt.clock.Now()
	}
	return out
}
