package ssm

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	awsssm "github.com/aws/aws-sdk-go-v2/service/ssm"
	ssmtypes "github.com/aws/aws-sdk-go-v2/service/ssm/types"

	"github.com/drydock-dev/drydock/internal/awsapi/paging"
	"github.com/drydock-dev/drydock/internal/machine"
)

// associationStates returns the state of an association on each of its running targets, and when it last ran and last
// succeeded on any.
func (s *Service) associationStates(sc scope, a *associationRecord) (states map[string]invocationRecord, last, success *time.Time) {
	states = map[string]invocationRecord{}
	for _, i := range s.associationTargets(sc, &a.associationVersion) {
		states[i.ID] = invocationRecord{InstanceID: i.ID, Status: "Pending", Details: "Associated"}
	}
	seen := map[string]bool{}
	for _, r := range s.runsOf(sc, a.ID) {
		for _, i := range r.invocations {
			at := i.Ended
			if at.IsZero() {
				at = r.Requested
			}
			if last == nil || at.After(*last) {
				last = &at
			}
			if i.Status == "Success" && (success == nil || at.After(*success)) {
				success = &at
			}
			if _, target := states[i.InstanceID]; target && !seen[i.InstanceID] && !r.Run.Due.Before(a.Due) {
				states[i.InstanceID] = i
			}
			seen[i.InstanceID] = true
		}
	}
	return states, last, success
}

// overview summarizes the states of an association. While it has not run on a target, it is Pending.
func (s *Service) overview(sc scope, a *associationRecord) (out *ssmtypes.AssociationOverview, last, success *time.Time) {
	states, last, success := s.associationStates(sc, a)
	counts := map[string]int32{}
	for _, i := range states {
		counts[associationStatus(i.Status)]++
	}
	out = &ssmtypes.AssociationOverview{AssociationStatusAggregatedCount: counts}
	state, details := "Success", "Success"
	switch {
	case counts["Failed"] > 0:
		state, details = "Failed", "Failed"
	case len(states) == 0, counts["Pending"] > 0:
		state, details = "Pending", "Associated"
	case counts["InProgress"] > 0:
		state, details = "Pending", "InProgress"
	}
	out.Status, out.DetailedStatus = &state, &details
	return out, last, success
}

// associationStatus returns the status of an association that corresponds to that of an invocation.
func associationStatus(status string) string {
	switch status {
	case "Pending", "InProgress", "Success":
		return status
	}
	return "Failed" // also Cancelled and TimedOut
}

// runStatus returns the status of a run and how many of its targets have each status, as in {Success=1}.
func runStatus(r *foundCommand) (state, details, counts string) {
	state, details, _, _ = status(r.invocations)
	each := map[string]int{}
	for _, i := range r.invocations {
		each[associationStatus(i.Status)]++
	}
	var parts []string
	for _, k := range slices.Sorted(maps.Keys(each)) {
		parts = append(parts, k+"="+strconv.Itoa(each[k]))
	}
	return associationStatus(state), details, "{" + strings.Join(parts, ", ") + "}"
}

// lastExecution returns when an invocation ended, or nil if it has not.
func (i *invocationRecord) lastExecution() *time.Time {
	if i.Ended.IsZero() {
		return nil
	}
	return &i.Ended
}

// DescribeAssociationExecutions lists the runs of an association, the newest first.
func (s *Service) DescribeAssociationExecutions(ctx context.Context, in *awsssm.DescribeAssociationExecutionsInput) (*awsssm.DescribeAssociationExecutionsOutput, error) {
	sc := scopeOf(ctx)
	if _, err := s.association(sc, in.AssociationId, nil, nil); err != nil {
		return nil, err
	}
	var all []ssmtypes.AssociationExecution
	for _, r := range s.runsOf(sc, *in.AssociationId) {
		state, details, counts := runStatus(&r)
		e := ssmtypes.AssociationExecution{
			AssociationId: in.AssociationId, AssociationVersion: aws.String(strconv.FormatInt(r.Run.Version, 10)), ExecutionId: &r.Run.Execution, Status: &state, DetailedStatus: &details,
			CreatedTime: &r.Requested, ResourceCountByStatus: &counts,
		}
		for _, i := range r.invocations {
			if at := i.lastExecution(); at != nil && (e.LastExecutionDate == nil || at.After(*e.LastExecutionDate)) {
				e.LastExecutionDate = at
			}
		}
		passes := true
		for _, f := range in.Filters {
			ok, err := passesExecution(&e, f)
			if err != nil {
				return nil, err
			}
			passes = passes && ok
		}
		if passes {
			all = append(all, e)
		}
	}
	list, next, err := paging.CutInOrder(associationPages, all, func(e ssmtypes.AssociationExecution) string { return *e.ExecutionId }, in.MaxResults, in.NextToken)
	if err != nil {
		return nil, err
	}
	return &awsssm.DescribeAssociationExecutionsOutput{AssociationExecutions: append([]ssmtypes.AssociationExecution{}, list...), NextToken: next}, nil
}

func passesExecution(e *ssmtypes.AssociationExecution, f ssmtypes.AssociationExecutionFilter) (bool, error) {
	value := aws.ToString(f.Value)
	switch f.Key {
	case ssmtypes.AssociationExecutionFilterKeyExecutionId:
		return *e.ExecutionId == value, nil
	case ssmtypes.AssociationExecutionFilterKeyStatus:
		return *e.Status == value, nil
	}
	at, err := time.Parse(time.RFC3339, value)
	if err != nil {
		return false, errValidation("The filter value %q is not a time such as 2024-05-01T12:00:00Z.", value)
	}
	switch f.Type {
	case ssmtypes.AssociationFilterOperatorTypeGreaterThan:
		return e.CreatedTime.After(at), nil
	case ssmtypes.AssociationFilterOperatorTypeLessThan:
		return e.CreatedTime.Before(at), nil
	}
	return e.CreatedTime.Equal(at), nil
}

// DescribeAssociationExecutionTargets lists the instances of a run. The run's command has its output.
func (s *Service) DescribeAssociationExecutionTargets(ctx context.Context, in *awsssm.DescribeAssociationExecutionTargetsInput) (*awsssm.DescribeAssociationExecutionTargetsOutput, error) {
	sc := scopeOf(ctx)
	if _, err := s.association(sc, in.AssociationId, nil, nil); err != nil {
		return nil, err
	}
	all := s.runsOf(sc, *in.AssociationId)
	at := slices.IndexFunc(all, func(r foundCommand) bool { return r.Run.Execution == *in.ExecutionId })
	if at < 0 {
		return nil, &ssmtypes.AssociationExecutionDoesNotExist{Message: aws.String("The association execution does not exist.")} // our own text
	}
	r, list := &all[at], []ssmtypes.AssociationExecutionTarget{}
	for _, i := range r.invocations {
		t := ssmtypes.AssociationExecutionTarget{
			AssociationId: in.AssociationId, AssociationVersion: aws.String(strconv.FormatInt(r.Run.Version, 10)), ExecutionId: in.ExecutionId, ResourceId: aws.String(i.InstanceID),
			ResourceType: aws.String("ManagedInstance"), Status: aws.String(associationStatus(i.Status)), DetailedStatus: aws.String(i.Details), LastExecutionDate: i.lastExecution(),
			OutputSource: &ssmtypes.OutputSource{OutputSourceId: &r.ID, OutputSourceType: aws.String("RunCommand")},
		}
		have := map[ssmtypes.AssociationExecutionTargetsFilterKey]*string{"Status": t.Status, "ResourceId": t.ResourceId, "ResourceType": t.ResourceType}
		if !slices.ContainsFunc(in.Filters, func(f ssmtypes.AssociationExecutionTargetsFilter) bool { return *have[f.Key] != aws.ToString(f.Value) }) {
			list = append(list, t)
		}
	}
	list, next, err := paging.Cut(associationPages, list, func(t ssmtypes.AssociationExecutionTarget) string { return *t.ResourceId }, in.MaxResults, in.NextToken)
	if err != nil {
		return nil, err
	}
	return &awsssm.DescribeAssociationExecutionTargetsOutput{AssociationExecutionTargets: append([]ssmtypes.AssociationExecutionTarget{}, list...), NextToken: next}, nil
}

// An instanceAssociation is an association with one of its instances.
type instanceAssociation struct {
	associationRecord
	state invocationRecord
}

// A targetedAssociation is an association with its states, by target.
type targetedAssociation struct {
	associationRecord
	states map[string]invocationRecord
}

// associated returns the associations of an account and region, sorted by ID.
func (s *Service) associated(sc scope) (out []targetedAssociation) {
	for _, item := range associations.All(s.store, sc.All()) {
		states, _, _ := s.associationStates(sc, &item.Value)
		out = append(out, targetedAssociation{item.Value, states})
	}
	return out
}

// associationsOf returns those of the associations that have an instance as a target.
func associationsOf(all []targetedAssociation, instanceID string) (out []instanceAssociation) {
	for _, a := range all {
		if state, ok := a.states[instanceID]; ok {
			out = append(out, instanceAssociation{a.associationRecord, state})
		}
	}
	return out
}

// addAssociations adds the states of an instance's associations to the description of the instance.
func addAssociations(all []instanceAssociation, info *ssmtypes.InstanceInformation) {
	if len(all) == 0 {
		return
	}
	state, counts := "Success", map[string]int32{}
	for _, a := range all {
		of := associationStatus(a.state.Status)
		counts[of]++
		if of == "Failed" || state == "Success" {
			state = of
		}
		if at := a.state.lastExecution(); at != nil && (info.LastAssociationExecutionDate == nil || at.After(*info.LastAssociationExecutionDate)) {
			info.LastAssociationExecutionDate = at
			if of == "Success" {
				info.LastSuccessfulAssociationExecutionDate = at
			}
		}
	}
	info.AssociationStatus = &state
	info.AssociationOverview = &ssmtypes.InstanceAggregatedAssociationOverview{DetailedStatus: &state, InstanceAssociationStatusAggregatedCount: counts}
}

// runningInstance returns a running instance, or AWS's error.
func (s *Service) runningInstance(sc scope, id string) (machine.Instance, error) {
	list := s.instances(sc)
	i := slices.IndexFunc(list, func(i machine.Instance) bool { return i.ID == id })
	if i < 0 {
		return machine.Instance{}, errInstanceState(sc.Account, []string{id})
	}
	return list[i], nil
}

// DescribeInstanceAssociationsStatus lists the states of an instance's associations.
func (s *Service) DescribeInstanceAssociationsStatus(ctx context.Context, in *awsssm.DescribeInstanceAssociationsStatusInput) (*awsssm.DescribeInstanceAssociationsStatusOutput, error) {
	sc := scopeOf(ctx)
	i, err := s.runningInstance(sc, *in.InstanceId)
	if err != nil {
		return nil, err
	}
	var all []ssmtypes.InstanceAssociationStatusInfo
	for _, a := range associationsOf(s.associated(sc), i.ID) {
		all = append(all, ssmtypes.InstanceAssociationStatusInfo{
			AssociationId: &a.ID, AssociationName: optional(a.Name), AssociationVersion: aws.String(strconv.FormatInt(a.Version, 10)), Name: &a.Document, DocumentVersion: &a.DocumentVersion, InstanceId: in.InstanceId,
			Status: aws.String(associationStatus(a.state.Status)), DetailedStatus: &a.state.Details, ExecutionDate: a.state.lastExecution(), ExecutionSummary: a.state.summary(),
		})
	}
	list, next, err := paging.Cut(associationPages, all, func(i ssmtypes.InstanceAssociationStatusInfo) string { return *i.AssociationId }, in.MaxResults, in.NextToken)
	if err != nil {
		return nil, err
	}
	return &awsssm.DescribeInstanceAssociationsStatusOutput{InstanceAssociationStatusInfos: append([]ssmtypes.InstanceAssociationStatusInfo{}, list...), NextToken: next}, nil
}

// summary returns the agent's summary of a run that has ended. [seen] the AWS CLI's example of
// describe-instance-associations-status
func (i *invocationRecord) summary() *string {
	if i.Ended.IsZero() {
		return nil
	}
	each := map[string]int{}
	for _, st := range i.Steps {
		each[st.Status]++
	}
	return aws.String(fmt.Sprintf("%d out of %d plugin processed, %d success, %d failed, %d timedout, 0 skipped. ", len(i.Steps), len(i.Steps), each["Success"], each["Failed"], each["TimedOut"]))
}

// DescribeEffectiveInstanceAssociations lists the associations of an instance with the contents of their documents.
func (s *Service) DescribeEffectiveInstanceAssociations(ctx context.Context, in *awsssm.DescribeEffectiveInstanceAssociationsInput) (*awsssm.DescribeEffectiveInstanceAssociationsOutput, error) {
	sc := scopeOf(ctx)
	i, err := s.runningInstance(sc, *in.InstanceId)
	if err != nil {
		return nil, err
	}
	var all []ssmtypes.InstanceAssociation
	for _, a := range associationsOf(s.associated(sc), i.ID) {
		content := ""
		if d, err := s.document(sc, a.Document, a.DocumentVersion, ""); err == nil { // it may have been deleted
			content = d.version.Content
		}
		all = append(all, ssmtypes.InstanceAssociation{AssociationId: &a.ID, AssociationVersion: aws.String(strconv.FormatInt(a.Version, 10)), Content: optional(content), InstanceId: in.InstanceId})
	}
	list, next, err := paging.Cut(associationPages, all, func(i ssmtypes.InstanceAssociation) string { return *i.AssociationId }, in.MaxResults, in.NextToken)
	if err != nil {
		return nil, err
	}
	return &awsssm.DescribeEffectiveInstanceAssociationsOutput{Associations: append([]ssmtypes.InstanceAssociation{}, list...), NextToken: next}, nil
}
