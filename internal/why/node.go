package why

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"slices"
	"strings"
	"time"

	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"github.com/aws/aws-sdk-go-v2/aws"

	"github.com/drydock-dev/drydock/internal/api"
	"github.com/drydock-dev/drydock/internal/api/httpapi"
	"github.com/drydock-dev/drydock/internal/journal"
	"github.com/drydock-dev/drydock/internal/machine"
	"github.com/drydock-dev/drydock/internal/node"
)

// named returns the account, region and name in a request. If one is missing or invalid, it responds with an error
// and returns false.
func named(w http.ResponseWriter, r *http.Request) (account, region, name string, ok bool) {
	account, region, err := httpapi.Place(r)
	name = r.URL.Query().Get("name")
	if err == nil && name == "" {
		err = errors.New("name is missing")
	}
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
	}
	return account, region, name, err == nil
}

// getWhyNode explains how far an instance got in joining its cluster. ?name= is the instance ID or the name of its
// node.
func (x *Explainer) getWhyNode(w http.ResponseWriter, r *http.Request) {
	account, region, name, ok := named(w, r)
	if !ok {
		return
	}
	id, ok := x.FindNode(account, region, name)
	if !ok {
		unknown := x.unknown(account, unreadInstances)
		if len(unknown) > 0 {
			refuse(w, &unknownError{name, unknown}, 0)
			return
		}
		http.Error(w, "no instance or node "+name+" is known in "+region, http.StatusNotFound)
		return
	}
	e, err := x.explainNode(account, region, id, nil)
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	x.missingCNI(r.Context(), &e, time.Now())
	x.ofTwin(&e)
	httpapi.Answer(w, e)
}

// getNodes lists what GET why/node can be asked about: the instances of ?account= in ?region= that are not
// terminated, and their nodes.
func (x *Explainer) getNodes(w http.ResponseWriter, r *http.Request) {
	account, region, err := httpapi.Place(r)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	out := []string{}
	for _, m := range x.cfg.Machines.Instances(account, region) {
		out = append(out, m.ID)
		if info, ok := x.cfg.Machines.Info(m.ID); ok && info.NodeName != "" {
			out = append(out, info.NodeName)
		}
	}
	httpapi.Answer(w, out)
}

// FindNode finds an instance by its ID, a node's name or a private DNS name.
func (x *Explainer) FindNode(account, region, name string) (string, bool) {
	if strings.HasPrefix(name, "i-") && !strings.Contains(name, ".") {
		if _, ok := x.cfg.EC2.InstanceByID(account, region, name); ok {
			return name, true
		}
	}
	for _, m := range x.cfg.Machines.Instances(account, region) {
		if info, ok := x.cfg.Machines.Info(m.ID); m.PrivateDNSName == name || ok && info.NodeName == name {
			return m.ID, true
		}
	}
	if m, ok := x.cfg.Machines.FargateNode(account, region, name); ok {
		return m.ID, true
	}
	return "", false
}

// explainNode returns an instance's steps: from its runtime, or from the journal if the instance is off.
func (x *Explainer) explainNode(account, region, id string, have answers) (api.NodeExplanation, error) {
	e := api.NodeExplanation{Instance: id, Account: account, Region: region, State: "terminated", Steps: []api.Step{}}
	instance, known := x.cfg.EC2.InstanceByID(account, region, id)
	if known && instance.State != nil {
		e.State = string(instance.State.Name)
	}
	info, runs := x.cfg.Machines.Info(id)
	if m, ok := x.cfg.Machines.Fargate(id); ok {
		info, runs = x.cfg.Machines.Info(id)
		e.State, e.Role = "running", m.RoleARN
	}
	steps := info.Steps
	if runs {
		e.Phase, e.Cluster, e.Node, e.Problem = string(info.Phase), info.Cluster, info.NodeName, info.Problem
		e.NextTry = info.NextTry
		e.Ready = info.Phase == node.PhaseReady
	} else {
		var err error
		if steps, err = x.stepsInJournal(account, region, id); err != nil {
			return e, err
		}
	}
	var machine *machine.Instance
	if m, err := x.cfg.Machines.Instance(id); err == nil {
		machine, e.Role = &m, m.RoleARN
		e.Notes = append(e.Notes, x.faultNotes(account, region, id, m.AvailabilityZone, m.VPCID)...)
		tag := "kubernetes.io/cluster/" + e.Cluster
		if e.Cluster != "" && !slices.ContainsFunc(instance.Tags, func(t ec2types.Tag) bool { return aws.ToString(t.Key) == tag }) {
			e.Notes = append(e.Notes, "the instance has no tag "+tag+": the cloud provider finds the instance by its ID, but load balancer controllers may not")
		}
	}
	failed := false
	for _, s := range steps {
		ns := api.Step{Name: s.Name, State: api.StepOK, Evidence: s.Evidence, Time: s.Time, Reason: x.reasonOf(account, region, s.Decision, steps, have)}
		switch {
		case !s.OK:
			ns.State, failed = api.StepFailed, true
			if ns.Reason == nil {
				ns.Reason = x.hint(&e, machine, &s)
			}
			if onceOnly(s.Name) {
				x.thenRelaunch(&e, machine, ns.Reason)
			}
		case s.Warning:
			ns.State = api.StepWarning
		}
		ns.Reason = paged(ns.Reason)
		e.Steps = append(e.Steps, ns)
	}
	if runs && !e.Ready {
		outOfTouch(&e)
		if !e.OutOfTouch {
			x.whole(context.Background(), &e, machine, steps, have)
		}
	}
	if runs && (failed || !e.Ready) {
		e.Steps = withPending(e.Steps)
	}
	return e, nil
}

// outOfTouch marks a node that was Ready and then failed at a step that it had already taken. Only Kubernetes knows
// how long it will still consider the node Ready.
func outOfTouch(e *api.NodeExplanation) {
	i := slices.IndexFunc(e.Steps, func(s api.Step) bool { return s.Name == node.StepReady && s.State == api.StepOK })
	if i < 0 || !slices.ContainsFunc(e.Steps, func(s api.Step) bool { return s.State == api.StepFailed && s.Time.After(e.Steps[i].Time) }) {
		return
	}
	e.OutOfTouch = true
	e.Steps[i].State = api.StepWarning
	e.Steps[i].Evidence += ", before it lost contact"
}

// withPending adds the steps that were not reached, except those that not every instance takes.
func withPending(steps []api.Step) []api.Step {
	last := -1
	order := node.Steps()
	for _, s := range steps {
		last = max(last, slices.Index(order, s.Name))
	}
	for _, name := range order[last+1:] {
		switch name {
		case node.StepScript, node.StepDescribe, node.StepLogs, node.StepStop:
		default:
			steps = append(steps, api.Step{Name: name, State: api.StepPending})
		}
	}
	return steps
}

// stepsInJournal returns the last step of each name of an instance that no longer runs.
func (x *Explainer) stepsInJournal(account, region, id string) ([]node.Step, error) {
	var out []node.Step
	seen := map[string]bool{}
	filter := journal.Filter{Account: account, Region: region, Kind: journal.KindStep, Fields: map[string]string{"instance": id}}
	for e, err := range x.cfg.Journal.Query(filter) {
		if err != nil {
			return nil, err
		}
		s := node.Step{Time: e.Time, InstanceID: id}
		s.Name, _ = e.Fields["step"].(string)
		s.Evidence, _ = e.Fields["evidence"].(string)
		s.Cause, _ = e.Fields["cause"].(string)
		s.OK, _ = e.Fields["ok"].(bool)
		s.Warning, _ = e.Fields["warning"].(bool)
		if raw, ok := e.Fields["decision"]; ok {
			if b, err := json.Marshal(raw); err == nil && json.Unmarshal(b, &s.Decision) != nil {
				s.Decision = nil
			}
		}
		key := s.Name
		if s.Name == node.StepScript || s.Name == node.StepStop { // and the subject
			key += s.Evidence
		}
		if !seen[key] {
			seen[key] = true
			out = append(out, s)
		}
	}
	node.SortSteps(out)
	return out, nil
}
