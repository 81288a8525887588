package cloudformation

import (
	"slices"
	"strings"
	"time"

	cloudformationtypes "github.com/aws/aws-sdk-go-v2/service/cloudformation/types"

	"github.com/drydock-dev/drydock/internal/awsapi"
	"github.com/drydock-dev/drydock/internal/awsapi/regional"
	"github.com/drydock-dev/drydock/internal/service/cloudformation/template"
)

// A Story is what is known about a stack, for `drydock why stack`.
type Story struct {
	cloudformationtypes.Stack
	// Caller asked for the last operation.
	Caller awsapi.Principal
	// JSON says that the template is JSON, not YAML, Long that it is too long for a request.
	JSON, Long bool
	// Resources are those of the template, in its order, and after them others that the stack has or had.
	Resources []StoryResource
	// Events are those of the stack and its resources, the oldest first.
	Events []StoryEvent
	// Users has the names of the stacks that import each export.
	Users map[string][]string
}

// A StoryResource is a resource of a stack.
type StoryResource struct {
	LogicalID, PhysicalID, Type string
	DependsOn                   []string
	// Status is empty if no operation has reached the resource.
	Status  cloudformationtypes.ResourceStatus
	Reason  string
	Changed time.Time
}

// A StoryEvent is an event of a stack.
type StoryEvent struct {
	Time                          time.Time
	LogicalID, PhysicalID, Type   string
	Status, Reason, Operation     string
	RequestIDs                    []string // of the refused call and of the calls that led to it
	Service, Action, Code, Answer string   // of the call that CloudFormation made, and the answer
	// Instances are those that the resource had when it failed.
	Instances []string
	// Suffix is the random part of the name of the resource that failed.
	Suffix string
}

// Story returns what is known about the stack with a name or ARN, or store.ErrNotFound. A deleted stack is found only by its ARN.
func (s *Service) Story(account, region, name string) (Story, error) {
	sc := regional.At(account, region)
	f, err := find(s.store, sc, name)
	if err != nil {
		return Story{}, err
	}
	text := original(s.store, f.key, &f.versionRecord)
	out := Story{Stack: f.describe(), Caller: f.Operation.Caller, JSON: strings.HasPrefix(strings.TrimSpace(text), "{"), Long: len(text) > maxBody, Users: map[string][]string{}}
	at := map[string]int{}
	if t, err := template.Parse(processed(s.store, f.key, &f.versionRecord)); err == nil {
		if instance, err := bindTo(f.key, &f.stackRecord, t); err == nil {
			for _, r := range instance.Resources {
				at[r.ID] = len(out.Resources)
				out.Resources = append(out.Resources, StoryResource{LogicalID: r.ID, Type: r.Type, DependsOn: r.DependsOn})
			}
		}
	}
	for _, item := range resources.All(s.store, within(f.key)) {
		rec := item.Value
		r := StoryResource{rec.LogicalID, rec.shown(), rec.Type, rec.DependsOn, rec.Status, rec.Reason, rec.Changed}
		if i, ok := at[rec.LogicalID]; ok {
			out.Resources[i] = r
		} else {
			out.Resources = append(out.Resources, r)
		}
	}
	for _, item := range events.All(s.store, within(f.key)) {
		e := item.Value
		told := StoryEvent{Time: e.Time, LogicalID: e.LogicalID, PhysicalID: e.PhysicalID, Type: e.Type, Status: e.Status, Reason: e.Reason, Operation: e.Operation}
		if why := e.Failure; why != nil {
			told.Code, told.Answer, told.Instances, told.Suffix = why.Code, why.Message, why.Instances, why.Suffix
			for _, c := range why.Calls {
				told.RequestIDs = append(told.RequestIDs, c.RequestID)
				told.Service, told.Action = c.Service, c.Operation
			}
		}
		out.Events = append(out.Events, told)
	}
	for _, other := range all(s.store, sc) {
		for _, o := range f.Outputs {
			if o.Export != "" && other.ID != f.ID && other.Status != cloudformationtypes.StackStatusDeleteComplete && slices.Contains(other.Imports, o.Export) {
				out.Users[o.Export] = append(out.Users[o.Export], other.Name)
			}
		}
	}
	return out, nil
}

// StackNames returns the names of the stacks that exist.
func (s *Service) StackNames(account, region string) []string {
	out := []string{}
	for _, f := range all(s.store, regional.At(account, region)) {
		if f.Status != cloudformationtypes.StackStatusDeleteComplete {
			out = append(out, f.Name)
		}
	}
	return out
}
