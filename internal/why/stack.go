package why

import (
	"context"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"

	"github.com/drydock-dev/drydock/internal/api"
	"github.com/drydock-dev/drydock/internal/api/httpapi"
	"github.com/drydock-dev/drydock/internal/service/cloudformation"
	"github.com/drydock-dev/drydock/internal/store"
)

// Stacks is the part of CloudFormation that the package needs.
type Stacks interface {
	Story(account, region, name string) (cloudformation.Story, error)
	StackNames(account, region string) []string
}

// getStacks lists the stacks that GET why/stack can be asked about by name.
func (x *Explainer) getStacks(w http.ResponseWriter, r *http.Request) {
	account, region, err := httpapi.Place(r)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	httpapi.Answer(w, x.cfg.Stacks.StackNames(account, region))
}

// getWhyStack explains the stack ?name=, which may be an ARN.
func (x *Explainer) getWhyStack(w http.ResponseWriter, r *http.Request) {
	account, region, name, ok := named(w, r)
	if !ok {
		return
	}
	out, ok, err := x.explainStack(r.Context(), account, region, name, 0)
	switch {
	case err != nil:
		http.Error(w, err.Error(), http.StatusInternalServerError)
	case !ok:
		http.Error(w, "no stack "+name+" is in "+region+"; a deleted stack is known by its ARN", http.StatusNotFound)
	default:
		httpapi.Answer(w, out)
	}
}

// A stackQuestion is a stack that is being explained.
type stackQuestion struct {
	x               *Explainer
	account, region string
	cloudformation.Story
	out   *api.StackExplanation
	depth int // of nesting
	// scope are the events of the operation that is explained and of its consequences. deletes means that a user asked
	// for a deletion.
	scope   []cloudformation.StoryEvent
	deletes bool
}

// maxNesting bounds how far nested stacks are followed.
const maxNesting = 5

func (x *Explainer) explainStack(ctx context.Context, account, region, name string, depth int) (api.StackExplanation, bool, error) {
	story, err := x.cfg.Stacks.Story(account, region, name)
	if err != nil {
		return api.StackExplanation{}, false, store.IgnoreNotFound(err)
	}
	q := &stackQuestion{x: x, account: account, region: region, Story: story, depth: depth}
	q.out = &api.StackExplanation{
		Stack: aws.ToString(q.StackName), ARN: aws.ToString(q.StackId), Account: account, Region: region, Status: string(q.StackStatus), Reason: aws.ToString(q.StackStatusReason),
		Principal: aws.ToString(q.RoleARN), Steps: []api.Step{}, Resources: []api.StackResource{},
	}
	if q.out.Principal == "" {
		q.out.Principal = q.Caller.ARN
	}
	for _, r := range q.Resources {
		q.out.Resources = append(q.out.Resources, api.StackResource{
			LogicalID: r.LogicalID, PhysicalID: r.PhysicalID, Type: r.Type, DependsOn: r.DependsOn, Status: string(r.Status), Reason: r.Reason,
		})
	}
	q.choose()
	q.out.Healthy = slices.Contains(wellStatuses, q.out.Status) || q.out.Status == "DELETE_COMPLETE" && !q.failed()
	if err := q.steps(ctx); err != nil {
		return api.StackExplanation{}, false, err
	}
	q.notes()
	return *q.out, true, nil
}

// wellStatuses are those of stacks whose last operation succeeded.
var wellStatuses = []string{"CREATE_COMPLETE", "UPDATE_COMPLETE", "IMPORT_COMPLETE"}

// choose finds the events that explain the stack's state: those since the last operation that a user asked for began,
// except that a stack which was deleted because its creation or update had failed is explained by that.
func (q *stackQuestion) choose() {
	var begins []int
	for i, e := range q.Events {
		if e.LogicalID != q.out.Stack || e.PhysicalID != q.out.ARN {
			continue
		}
		switch e.Status {
		case "CREATE_IN_PROGRESS", "UPDATE_IN_PROGRESS", "IMPORT_IN_PROGRESS":
			begins = append(begins, i)
		case "DELETE_IN_PROGRESS":
			if i == 0 || q.Events[i-1].Operation != e.Operation { // it does not follow from a failed creation
				begins = append(begins, i)
			}
		}
	}
	if len(begins) == 0 { // it is a change set so far
		return
	}
	last := begins[len(begins)-1]
	q.scope = q.Events[last:]
	q.deletes = q.Events[last].Status == "DELETE_IN_PROGRESS"
	if q.deletes && q.out.Status == "DELETE_COMPLETE" && len(begins) > 1 {
		before := *q
		before.scope = q.Events[begins[len(begins)-2]:last]
		if before.failed() && before.scope[0].Status != "DELETE_IN_PROGRESS" {
			q.scope, q.deletes = before.scope, false
		}
	}
}

// failed reports whether the stack's operation failed.
func (q *stackQuestion) failed() bool {
	return slices.ContainsFunc(q.scope, func(e cloudformation.StoryEvent) bool {
		return e.PhysicalID == q.out.ARN && (strings.HasSuffix(e.Status, "_FAILED") || strings.Contains(e.Status, "ROLLBACK"))
	})
}

// A progress is what an operation did with a resource.
type progress struct {
	first, last cloudformation.StoryEvent
	// bad is the last event about its failure, and undone means that a rollback deleted it.
	bad        *cloudformation.StoryEvent
	undone     bool
	physicalID string
}

func cancelled(e *cloudformation.StoryEvent) bool {
	return e.Reason == "Resource creation cancelled" || e.Reason == "Resource update cancelled"
}

// steps adds the resources in the order in which they were begun, then those that were not begun.
func (q *stackQuestion) steps(ctx context.Context) error {
	var order []string
	of := map[string]*progress{}
	late := q.tookTooLong()
	for i := range q.scope {
		e := &q.scope[i]
		if e.PhysicalID == q.out.ARN {
			continue
		}
		p := of[e.LogicalID]
		if p == nil {
			p = &progress{first: *e}
			of[e.LogicalID] = p
			order = append(order, e.LogicalID)
		}
		if p.last = *e; e.PhysicalID != "" {
			p.physicalID = e.PhysicalID
		}
		switch {
		case strings.HasSuffix(e.Status, "_FAILED") && (!cancelled(e) || late):
			p.bad = e
		case e.Status == "DELETE_COMPLETE" && !q.deletes:
			p.undone = true
		case e.Status == "DELETE_COMPLETE", e.Status == "UPDATE_COMPLETE" && q.out.Healthy:
			p.bad = nil // a retry succeeded
		}
	}
	depends := map[string][]string{}
	for _, r := range q.Resources {
		depends[r.LogicalID] = r.DependsOn
	}
	begun := map[string]bool{}
	for _, id := range order {
		begun[id] = true
	}
	if q.deletes { // a resource goes before those that it depends on
		turned := map[string][]string{}
		for id, on := range depends {
			for _, d := range on {
				turned[d] = append(turned[d], id)
			}
		}
		for _, users := range turned {
			slices.Sort(users)
		}
		depends = turned
	}
	if s := q.whole(of); s != nil {
		q.out.Steps = append(q.out.Steps, *s)
	}
	type failing struct {
		at   time.Time
		what api.StackFailure
	}
	var failures []failing
	for _, id := range order {
		p := of[id]
		step := api.Step{Name: id, State: api.StepOK, Time: p.last.Time, Evidence: p.last.Type + " " + q.did(p)}
		if on := slices.DeleteFunc(slices.Clone(depends[id]), func(d string) bool { return !begun[d] }); len(on) > 0 {
			step.Evidence += ", after " + strings.Join(on, ", ")
		}
		switch {
		case p.bad != nil:
			step.State = api.StepFailed
			what := api.StackFailure{LogicalID: id, PhysicalID: p.physicalID, Type: p.bad.Type, Status: p.bad.Status, Reason: p.bad.Reason, Time: p.bad.Time}
			var over bool
			var err error
			if step.Reason, over, err = q.reason(ctx, p.bad, &what); err != nil {
				return err
			}
			if over || q.out.Healthy {
				step.State = api.StepWarning
			}
			failures = append(failures, failing{p.bad.Time, what})
		case cancelled(&p.last):
			step.State = api.StepPending
		case strings.HasSuffix(p.last.Status, "_IN_PROGRESS"):
			step.State = api.StepPending
			if step.Reason = q.waits(ctx, id, p); step.Reason != nil {
				step.State = api.StepFailed
			}
		}
		q.out.Steps = append(q.out.Steps, step)
	}
	slices.SortStableFunc(failures, func(a, b failing) int { return a.at.Compare(b.at) })
	for _, f := range failures {
		q.out.Failures = append(q.out.Failures, f.what)
	}
	if q.out.Healthy || slices.Contains([]string{"UPDATE_ROLLBACK_COMPLETE", "DELETE_COMPLETE"}, q.out.Status) {
		return nil // the rest is as it was
	}
	for _, r := range q.Resources {
		if begun[r.LogicalID] || r.Status != "" && !q.deletes {
			continue
		}
		if q.deletes && (r.Status == "DELETE_COMPLETE" || r.Status == "DELETE_SKIPPED" || r.Status == "") {
			continue
		}
		step := api.Step{Name: r.LogicalID, State: api.StepPending, Evidence: r.Type}
		var on []string
		for _, d := range depends[r.LogicalID] {
			if p := of[d]; p == nil || p.bad != nil || !strings.HasSuffix(p.last.Status, "_COMPLETE") || p.undone {
				on = append(on, d)
			}
		}
		switch {
		case len(on) > 0:
			step.Evidence += " waits for " + strings.Join(on, ", ")
		default:
			step.Evidence += " was not begun"
		}
		q.out.Steps = append(q.out.Steps, step)
	}
	return nil
}

// did says what the operation did with a resource, and how long that took if it was more than a second.
func (q *stackQuestion) did(p *progress) string {
	out := ""
	switch {
	case p.bad != nil:
		kind, _, _ := strings.Cut(p.bad.Status, "_")
		out = "failed to " + strings.ToLower(kind)
	case cancelled(&p.last):
		out = strings.TrimPrefix(p.last.Reason, "Resource ")
	case p.undone:
		out = "created"
	case strings.HasSuffix(p.last.Status, "_IN_PROGRESS"):
		out = api.StackWorking + " for " + time.Since(p.first.Time).Truncate(time.Second).String()
	case p.last.Status == "DELETE_SKIPPED":
		out = "retained"
	default:
		out = map[string]string{"CREATE_COMPLETE": "created", "UPDATE_COMPLETE": "updated", "DELETE_COMPLETE": "deleted", "IMPORT_COMPLETE": "imported"}[p.last.Status]
	}
	if took := p.last.Time.Sub(p.first.Time).Truncate(time.Second); took > 0 && !p.undone && strings.HasSuffix(p.last.Status, "_COMPLETE") {
		out += " in " + took.String()
	}
	if p.undone {
		out += ", deleted again"
	}
	return out
}

// tookTooLong reports whether the stack's time ran out. What was still in progress then is to blame.
func (q *stackQuestion) tookTooLong() bool {
	return slices.ContainsFunc(q.scope, func(e cloudformation.StoryEvent) bool {
		return strings.HasPrefix(e.Reason, "Stack creation time exceeded the specified timeout")
	})
}

// whole returns a step for a failure of the stack rather than of a resource: of its parameters, exports or outputs.
func (q *stackQuestion) whole(of map[string]*progress) *api.Step {
	for _, p := range of {
		if p.bad != nil {
			return nil
		}
	}
	for _, e := range q.scope {
		if e.PhysicalID != q.out.ARN || e.Reason == "" || !strings.Contains(e.Status, "ROLLBACK_IN_PROGRESS") && !strings.HasSuffix(e.Status, "_FAILED") && e.Status != "DELETE_IN_PROGRESS" {
			continue
		}
		text := strings.TrimSuffix(strings.TrimSuffix(strings.TrimSpace(e.Reason), "Rollback requested by user."), " ")
		if text == "" || strings.Contains(text, "User Initiated") {
			continue
		}
		return &api.Step{Name: "stack", State: api.StepFailed, Time: e.Time, Evidence: e.Status, Reason: &api.Reason{
			By: "CloudFormation", Text: text, Fixes: q.again(q.templateFixes(text)),
		}}
	}
	return nil
}

// notes adds what else matters to a user who wants to change or delete the stack.
func (q *stackQuestion) notes() {
	at := " --stack-name " + q.out.Stack + " --region " + q.region
	if aws.ToBool(q.EnableTerminationProtection) {
		q.out.Notes = append(q.out.Notes, "termination protection refuses its deletion; aws cloudformation update-termination-protection --no-enable-termination-protection"+at+" lifts it")
	}
	for _, name := range slices.Sorted(maps.Keys(q.Users)) {
		q.out.Notes = append(q.out.Notes, fmt.Sprintf("the export %s is used by %s: it cannot be changed, and the stack not be deleted, before those stop importing it", name, strings.Join(q.Users[name], ", ")))
	}
	for _, r := range q.Resources {
		if r.Status == "DELETE_SKIPPED" && r.PhysicalID != "" {
			q.out.Notes = append(q.out.Notes, r.LogicalID+" ("+r.PhysicalID+") was retained and still exists")
		}
	}
	if q.out.Status == "UPDATE_ROLLBACK_COMPLETE" {
		q.out.Notes = append(q.out.Notes, "the stack is as it was before the update; update it again when what failed is fixed")
	}
}
