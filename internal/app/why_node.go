package app

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"

	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"
	awseks "github.com/aws/aws-sdk-go-v2/service/eks"
	ekstypes "github.com/aws/aws-sdk-go-v2/service/eks/types"
	"github.com/aws/smithy-go"

	"github.com/aws/aws-sdk-go-v2/aws"

	"github.com/drydock-dev/drydock/internal/awsapi"
	"github.com/drydock-dev/drydock/internal/cli"
	"github.com/drydock-dev/drydock/internal/journal"
	"github.com/drydock-dev/drydock/internal/node"
	"github.com/drydock-dev/drydock/internal/service/ec2"
)

// whyPlace is the account and region that a question is about.
func whyPlace(r *http.Request) (account, region string, err error) {
	q := r.URL.Query()
	account, region = q.Get("account"), q.Get("region")
	if account == "" {
		account = awsapi.DefaultAccount
	}
	if region == "" {
		region = "us-east-1"
	}
	if !accountNumber.MatchString(account) {
		err = errors.New("account must be 12 digits")
	}
	return account, region, err
}

// getWhyNode answers how far the instance ?name=, an ID or a node's name, has come.
func (d *daemon) getWhyNode(w http.ResponseWriter, r *http.Request) {
	account, region, err := whyPlace(r)
	name := r.URL.Query().Get("name")
	if err == nil && name == "" {
		err = errors.New("name is missing")
	}
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	id, ok := d.findNode(account, region, name)
	if !ok {
		http.Error(w, "no instance or node "+name+" is known in "+region, http.StatusNotFound)
		return
	}
	e, err := d.explainNode(account, region, id)
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	answer(w, e)
}

// getNodes answers what GET why/node can be asked for: the instances of ?account= in
// ?region= that are not terminated, and their nodes.
func (d *daemon) getNodes(w http.ResponseWriter, r *http.Request) {
	account, region, err := whyPlace(r)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	out := []string{}
	for _, m := range d.machines.list(account, region) {
		out = append(out, m.InstanceID)
		if info, ok := d.machines.runtime.Info(m.InstanceID); ok && info.NodeName != "" {
			out = append(out, info.NodeName)
		}
	}
	answer(w, out)
}

// findNode returns the instance of an ID, a node's name or a private DNS name.
func (d *daemon) findNode(account, region, name string) (string, bool) {
	if strings.HasPrefix(name, "i-") && !strings.Contains(name, ".") {
		if _, ok := d.ec2.InstanceByID(account, region, name); ok {
			return name, true
		}
	}
	for _, m := range d.machines.list(account, region) {
		if info, ok := d.machines.runtime.Info(m.InstanceID); m.PrivateDNSName == name || ok && info.NodeName == name {
			return m.InstanceID, true
		}
	}
	if m, ok := d.fargates.byNode(account, region, name); ok {
		return m.ID, true
	}
	return "", false
}

// explainNode tells an instance's steps: as its runtime knows them, or from the
// journal once it is off.
func (d *daemon) explainNode(account, region, id string) (cli.NodeExplanation, error) {
	e := cli.NodeExplanation{Instance: id, Account: account, Region: region, State: "terminated", Steps: []cli.Step{}}
	instance, known := d.ec2.InstanceByID(account, region, id)
	if known && instance.State != nil {
		e.State = string(instance.State.Name)
	}
	info, runs := d.machines.runtime.Info(id)
	if m, ok := d.fargates.machine(id); ok {
		info, runs = d.fargates.runtime.Info(id)
		e.State, e.Role = "running", m.RoleARN
	}
	steps := info.Steps
	if runs {
		e.Phase, e.Cluster, e.Node, e.Problem = string(info.Phase), info.Cluster, info.NodeName, info.Problem
		e.Ready = info.Phase == node.PhaseReady
	} else {
		var err error
		if steps, err = d.stepsInJournal(account, region, id); err != nil {
			return e, err
		}
	}
	var machine *ec2.Machine
	if m, err := d.machines.get(id); err == nil {
		machine, e.Role = &m, m.RoleARN
		e.Notes = append(e.Notes, d.faultNotes(account, region, id, m.AvailabilityZone, m.VPCID)...)
		tag := "kubernetes.io/cluster/" + e.Cluster
		if e.Cluster != "" && !slices.ContainsFunc(instance.Tags, func(t ec2types.Tag) bool { return aws.ToString(t.Key) == tag }) {
			e.Notes = append(e.Notes, "the instance has no tag "+tag+": the cloud provider finds it by its ID, but load balancer controllers may not")
		}
	}
	failed := false
	for _, s := range steps {
		ns := cli.Step{Name: s.Name, State: cli.StepOK, Evidence: s.Evidence, Time: s.Time, Reason: reason(s.Decision)}
		switch {
		case !s.OK:
			ns.State, failed = cli.StepFailed, true
			if ns.Reason == nil {
				ns.Reason = hint(&e, machine, &s)
			}
		case s.Warning:
			ns.State = cli.StepWarning
		}
		e.Steps = append(e.Steps, ns)
	}
	if runs && !e.Ready {
		outOfTouch(&e)
	}
	if runs && (failed || !e.Ready) {
		e.Steps = withPending(e.Steps)
	}
	return e, nil
}

// outOfTouch marks a node that was Ready before a step failed that it had taken: only
// Kubernetes knows for how long it goes on to believe so.
func outOfTouch(e *cli.NodeExplanation) {
	i := slices.IndexFunc(e.Steps, func(s cli.Step) bool { return s.Name == node.StepReady && s.State == cli.StepOK })
	if i < 0 || !slices.ContainsFunc(e.Steps, func(s cli.Step) bool { return s.State == cli.StepFailed && s.Time.After(e.Steps[i].Time) }) {
		return
	}
	e.OutOfTouch = true
	e.Steps[i].State = cli.StepWarning
	e.Steps[i].Evidence += ", before it was out of touch"
}

// withPending adds the steps that were not reached, but for those that not every
// instance takes.
func withPending(steps []cli.Step) []cli.Step {
	last := -1
	order := node.Steps()
	for _, s := range steps {
		last = max(last, slices.Index(order, s.Name))
	}
	for _, name := range order[last+1:] {
		switch name {
		case node.StepScript, node.StepDescribe, node.StepStop:
		default:
			steps = append(steps, cli.Step{Name: name, State: cli.StepPending})
		}
	}
	return steps
}

func reason(d *node.Decision) *cli.Reason {
	if d == nil {
		return nil
	}
	return &cli.Reason{By: d.By, Code: d.Code, Component: d.Component, Text: d.Text, Fixes: d.Fixes}
}

// stepsInJournal are the last steps of each name of an instance that runs no more.
func (d *daemon) stepsInJournal(account, region, id string) ([]node.Step, error) {
	var out []node.Step
	seen := map[string]bool{}
	filter := journal.Filter{Account: account, Region: region, Kind: journal.KindStep, Fields: map[string]string{"instance": id}}
	for e, err := range d.journal.Query(filter) {
		if err != nil {
			return nil, err
		}
		s := node.Step{Time: e.Time, InstanceID: id}
		s.Name, _ = e.Fields["step"].(string)
		s.Evidence, _ = e.Fields["evidence"].(string)
		s.OK, _ = e.Fields["ok"].(bool)
		s.Warning, _ = e.Fields["warning"].(bool)
		if raw, ok := e.Fields["decision"]; ok {
			if b, err := json.Marshal(raw); err == nil && json.Unmarshal(b, &s.Decision) != nil {
				s.Decision = nil
			}
		}
		key := s.Name
		if s.Name == node.StepScript || s.Name == node.StepStop { // and who wanted it
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

// getWhyNodes answers about the nodes of ?cluster=, or of its ?nodegroup=.
func (d *daemon) getWhyNodes(w http.ResponseWriter, r *http.Request) {
	account, region, err := whyPlace(r)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	e, err := d.explainNodes(r.Context(), account, region, r.URL.Query().Get("cluster"), r.URL.Query().Get("nodegroup"))
	var ae smithy.APIError
	switch {
	case errors.As(err, &ae):
		http.Error(w, ae.ErrorMessage(), http.StatusNotFound)
	case err != nil:
		http.Error(w, err.Error(), http.StatusInternalServerError)
	default:
		answer(w, e)
	}
}

func (d *daemon) explainNodes(ctx context.Context, account, region, cluster, nodegroup string) (cli.NodesExplanation, error) {
	out := cli.NodesExplanation{Cluster: cluster, Nodegroup: nodegroup, Nodes: []cli.NodeExplanation{}}
	ctx = awsapi.WithCall(ctx, &awsapi.Call{Account: account, Region: region, Service: "eks"})
	c, err := d.eks.DescribeCluster(ctx, &awseks.DescribeClusterInput{Name: &cluster})
	if err != nil {
		return out, err
	}
	out.Status = string(c.Cluster.Status)
	if h := c.Cluster.Health; h != nil {
		for _, i := range h.Issues {
			out.Issues = append(out.Issues, fmt.Sprintf("%s: %s", i.Code, aws.ToString(i.Message)))
			out.Fixes = append(out.Fixes, keyFixes(&i, region, aws.ToString(c.Cluster.RoleArn))...)
		}
	}
	if nodegroup != "" {
		g, err := d.eks.DescribeNodegroup(ctx, &awseks.DescribeNodegroupInput{ClusterName: &cluster, NodegroupName: &nodegroup})
		if err != nil {
			return out, err
		}
		out.Status, out.Issues, out.Fixes = string(g.Nodegroup.Status), nil, nil
		if h := g.Nodegroup.Health; h != nil {
			for _, i := range h.Issues {
				out.Issues = append(out.Issues, fmt.Sprintf("%s: %s (%s)", i.Code, aws.ToString(i.Message), strings.Join(i.ResourceIds, ", ")))
			}
		}
	}
	if len(out.Issues) > 0 || nodegroup != "" && out.Status == string(ekstypes.NodegroupStatusCreating) {
		out.Notes = d.launchFaultNotes(account, region)
	}
	for _, m := range d.machines.list(account, region) {
		info, _ := d.machines.runtime.Info(m.InstanceID)
		of := m.Tags["eks:cluster-name"]
		if of == "" {
			of = info.Cluster
		}
		if of != cluster || nodegroup != "" && m.Tags["eks:nodegroup-name"] != nodegroup {
			continue
		}
		e, err := d.explainNode(account, region, m.InstanceID)
		if err != nil {
			return out, err
		}
		out.Nodes = append(out.Nodes, e)
	}
	return out, nil
}

// list returns the running machines of an account and region by ID.
func (m *machines) list(account, region string) []ec2.Machine {
	m.mu.Lock()
	defer m.mu.Unlock()
	var out []ec2.Machine
	for _, in := range m.running {
		if in.Account == account && in.Region == region {
			out = append(out, in)
		}
	}
	slices.SortFunc(out, func(a, b ec2.Machine) int { return strings.Compare(a.InstanceID, b.InstanceID) })
	return out
}
