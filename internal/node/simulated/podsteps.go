package simulated

import (
	"fmt"
	"reflect"
	"slices"

	"github.com/drydock-dev/drydock/internal/node"
)

// maxPodSteps bounds how many pods of one node have recorded steps.
const maxPodSteps = 4096

// PodSteps implements node.Kubelets.
func (r *Runtime) PodSteps(instanceID, namespace, name string) []node.Step {
	m := r.instance(instanceID)
	if m == nil {
		return nil
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.Clone(m.podSteps[namespace+"/"+name])
}

// notePod records what holds a pod back now.
func (k *kubelet) notePod(p *pod) {
	var steps []node.Step
	if !p.ended() && !p.deleting || p.phase == "Failed" && p.message != "" && !p.hasSandbox {
		steps = p.troubles(k.ipam.problem)
	}
	k.m.setPodSteps(p.namespace+"/"+p.name, steps)
}

func (m *instance) setPodSteps(key string, steps []node.Step) {
	m.mu.Lock()
	defer m.mu.Unlock()
	last := m.podSteps[key]
	switch {
	case len(steps) == 0:
		delete(m.podSteps, key)
		return
	case last == nil && len(m.podSteps) >= maxPodSteps:
		return
	case m.podSteps == nil:
		m.podSteps = map[string][]node.Step{}
	}
	now := m.rt.clock.Now()
	for i := range steps {
		s := &steps[i]
		s.Account, s.Region, s.InstanceID, s.Cluster, s.Pod, s.Time = m.in.Account, m.in.Region, m.in.ID, m.info.Cluster, key, now
		for _, l := range last { // keep the time since when it holds
			if l.Name == s.Name && l.Container == s.Container && l.Evidence == s.Evidence && reflect.DeepEqual(l.Decision, s.Decision) {
				s.Time = l.Time
			}
		}
	}
	m.podSteps[key] = steps
}

// troubles returns the failed steps of a pod. noAddress is why the node has no address for it.
func (m *podMachine) troubles(noAddress error) []node.Step {
	var out []node.Step
	failed := func(name, container, cause string, err error, text string) {
		out = append(out, node.Step{Name: name, Container: container, Evidence: text, Cause: cause, Decision: node.DecisionOf(err)})
	}
	if m.phase == "Failed" && !m.hasSandbox {
		failed(node.StepPodAdmission, "", "", nil, m.reason+": "+m.message)
		return out
	}
	if m.mountErr != nil {
		failed(node.StepPodVolumes, "", "", m.mountErr, m.mountErr.Error())
	}
	if !m.sandboxed.IsZero() && !m.hasSandbox {
		failed(node.StepPodAddress, "", m.noSandbox, noAddress, textOr(noAddress, "no address is free: the instance has as many as its type allows, or is waiting for more"))
	}
	for _, cs := range [][]container{m.inits, m.apps} {
		for i := range cs {
			c := &cs[i]
			switch {
			case c.state != waiting:
			case c.configErr != nil:
				failed(node.StepPodConfig, c.name, "", c.configErr, c.configErr.Error())
			case c.pull.err != nil:
				failed(node.StepPodImage, c.name, node.CauseImagePull, c.pull.err, fmt.Sprintf("Failed to pull image %q: %v", c.image, c.pull.err))
			case c.reason == reasonErrImageNeverPull:
				failed(node.StepPodImage, c.name, reasonErrImageNeverPull, nil, c.message)
			case c.reason == reasonInvalidImageName:
				failed(node.StepPodImage, c.name, node.CauseImageName, nil, c.message)
			}
		}
	}
	return out
}

func textOr(err error, text string) string {
	if err != nil {
		return err.Error()
	}
	return text
}
