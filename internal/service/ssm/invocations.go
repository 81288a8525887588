package ssm

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	awsssm "github.com/aws/aws-sdk-go-v2/service/ssm"
	ssmtypes "github.com/aws/aws-sdk-go-v2/service/ssm/types"

	"github.com/drydock-dev/drydock/internal/awsapi/paging"
	"github.com/drydock-dev/drydock/internal/store"
)

// A foundCommand is a command with its invocations, in the order of its instances.
type foundCommand struct {
	commandRecord
	invocations []invocationRecord
}

// found returns the commands of the caller's account that match a request, newest first. Runs of associations match only
// by ID.
func (s *Service) found(ctx context.Context, id, instance *string) []foundCommand {
	sc := scopeOf(ctx)
	return s.withInvocations(sc, func() []store.Item[commandRecord] {
		all := commands.All(s.store, sc.All())
		if id != nil {
			all = append(all, runs.All(s.store, sc.All())...)
		}
		return slices.DeleteFunc(all, func(i store.Item[commandRecord]) bool {
			return id != nil && i.Value.ID != *id || instance != nil && !slices.Contains(i.Value.Instances, *instance)
		})
	})
}

// withInvocations returns commands with their invocations, newest first. Invocations that were running when the daemon
// stopped count as timed out.
func (s *Service) withInvocations(sc scope, read func() []store.Item[commandRecord]) []foundCommand {
	s.mu.Lock()
	running := maps.Clone(s.cancels) // taken first, so that a command that ends in between has its final record
	s.mu.Unlock()
	var out []foundCommand
	for _, i := range read() {
		c := foundCommand{commandRecord: i.Value}
		_, isRunning := running[c.ID]
		have := map[string]invocationRecord{}
		for _, v := range invocations.All(s.store, sc.Key(c.ID).AllBelow()) {
			have[v.Value.InstanceID] = v.Value
		}
		for _, instance := range c.Instances {
			v, ok := have[instance]
			if !ok {
				v = invocationRecord{InstanceID: instance, Status: "Pending", Details: "Pending"}
			}
			if !isRunning && (v.Status == "Pending" || v.Status == "InProgress") {
				v.Status, v.Details = "TimedOut", "ExecutionTimedOut"
			}
			c.invocations = append(c.invocations, v)
		}
		out = append(out, c)
	}
	slices.SortFunc(out, func(a, b foundCommand) int { return b.Requested.Compare(a.Requested) })
	return out
}

// status returns the state of a whole command, and how many of its invocations have completed and failed. NoInstancesInTag
// means that its targets match nothing.
// https://docs.aws.amazon.com/systems-manager/latest/userguide/monitor-commands.html
func status(all []invocationRecord) (status, details string, completed, failed int32) {
	if len(all) == 0 {
		return "Success", "NoInstancesInTag", 0, 0
	}
	status, details = "Success", "Success"
	for _, i := range all {
		switch i.Status {
		case "Pending", "InProgress":
			status, details = "InProgress", "InProgress"
			continue
		case "Success":
		default:
			failed++
			if status == "Success" {
				status, details = i.Status, i.Details
			}
		}
		completed++
	}
	return status, details, completed, failed
}

func (c *commandRecord) sdk(all []invocationRecord) ssmtypes.Command {
	state, details, completed, failed := status(all)
	var instances []string
	if len(c.Targets) == 0 {
		instances = c.Instances
	}
	return ssmtypes.Command{
		CommandId: aws.String(c.ID), Comment: aws.String(c.Comment), DocumentName: aws.String(c.Document), DocumentVersion: aws.String(c.Version), Parameters: c.Parameters,
		RequestedDateTime: aws.Time(c.Requested), ExpiresAfter: aws.Time(c.Requested.Add(time.Duration(c.Timeout) * time.Second)), TimeoutSeconds: aws.Int32(c.Timeout),
		InstanceIds: append([]string{}, instances...), Targets: append([]ssmtypes.Target{}, c.Targets...), Status: ssmtypes.CommandStatus(state), StatusDetails: aws.String(details),
		TargetCount: int32(len(c.Instances)), CompletedCount: completed, ErrorCount: failed, MaxConcurrency: aws.String(c.Concurrency), MaxErrors: aws.String(c.Errors), //nolint:gosec // few
		OutputS3BucketName: aws.String(c.Bucket), OutputS3KeyPrefix: aws.String(c.Prefix), CloudWatchOutputConfig: c.cloudWatch(),
		ServiceRole: aws.String(c.Role), NotificationConfig: c.Notify.sdk(),
	}
}

// passes reports whether a command, or one of its invocations, with this state passes all filters.
func (c *commandRecord) passes(status, details string, filters []ssmtypes.CommandFilter) (bool, error) {
	for _, f := range filters {
		value, ok := aws.ToString(f.Value), false
		switch f.Key {
		case ssmtypes.CommandFilterKeyInvokedAfter, ssmtypes.CommandFilterKeyInvokedBefore:
			var err error
			if ok, err = invoked(string(f.Key), value, c.Requested); err != nil {
				return false, err
			}
		case ssmtypes.CommandFilterKeyStatus:
			ok = status == value || details == value
		case ssmtypes.CommandFilterKeyExecutionStage:
			executing := status == "Pending" || status == "InProgress"
			ok = value == "Executing" && executing || value == "Complete" && !executing
		case ssmtypes.CommandFilterKeyDocumentName:
			ok = c.Document == value
		}
		if !ok {
			return false, nil
		}
	}
	return true, nil
}

// invoked reports whether a command or session that began at a time passes the filter InvokedAfter or InvokedBefore.
func invoked(key, value string, began time.Time) (bool, error) {
	t, err := time.Parse(time.RFC3339, value)
	if err != nil {
		return false, errValidation("The filter %s has the value %s, which is not a time.", key, value)
	}
	return began.After(t) == (key == "InvokedAfter"), nil
}

func (c *commandRecord) cloudWatch() *ssmtypes.CloudWatchOutputConfig {
	return &ssmtypes.CloudWatchOutputConfig{CloudWatchLogGroupName: aws.String(c.Group), CloudWatchOutputEnabled: c.CloudWatch}
}

// outputURL returns the address in S3 of the output of a command's step.
func (c *commandRecord) outputURL(region, instance string, st *stepRecord, kind string) *string {
	if c.Bucket == "" {
		return aws.String("")
	}
	return aws.String("https://s3." + region + ".amazonaws.com/" + c.Bucket + "/" + c.outputPath(instance, st.Action, st.Name, kind))
}

// GetCommandInvocation returns the result of a command on one instance, or of one of its steps.
func (s *Service) GetCommandInvocation(ctx context.Context, in *awsssm.GetCommandInvocationInput) (*awsssm.GetCommandInvocationOutput, error) {
	found := s.found(ctx, in.CommandId, in.InstanceId)
	if len(found) == 0 {
		return nil, &ssmtypes.InvocationDoesNotExist{Message: aws.String("")}
	}
	c := found[0]
	i := c.invocations[slices.Index(c.Instances, *in.InstanceId)]
	out := &awsssm.GetCommandInvocationOutput{
		CommandId: in.CommandId, InstanceId: in.InstanceId, Comment: aws.String(c.Comment), DocumentName: aws.String(c.Document), DocumentVersion: aws.String(c.Version),
		PluginName: in.PluginName, ResponseCode: -1, Status: ssmtypes.CommandInvocationStatus(i.Status), StatusDetails: aws.String(i.Details),
		StandardOutputContent: aws.String(""), StandardErrorContent: aws.String(""), StandardOutputUrl: aws.String(""), StandardErrorUrl: aws.String(""),
		ExecutionStartDateTime: aws.String(""), ExecutionEndDateTime: aws.String(""), ExecutionElapsedTime: aws.String(""), CloudWatchOutputConfig: c.cloudWatch(),
	}
	name := aws.ToString(in.PluginName)
	if name == "" && len(i.Steps) > 1 {
		return nil, &ssmtypes.InvalidPluginName{Message: aws.String("The document has several steps. Name one in PluginName.")}
	}
	at := slices.IndexFunc(i.Steps, func(st stepRecord) bool { return name == "" || st.Name == name })
	if at < 0 {
		if name != "" && i.Steps != nil {
			return nil, &ssmtypes.InvalidPluginName{Message: aws.String("The plugin name isn't valid.")}
		}
		return out, nil
	}
	st := &i.Steps[at]
	out.PluginName, out.StandardOutputContent, out.StandardErrorContent = aws.String(st.Name), aws.String(st.Stdout), aws.String(st.Stderr)
	out.StandardOutputUrl, out.StandardErrorUrl = c.outputURL(scopeOf(ctx).Region, i.InstanceID, st, "stdout"), c.outputURL(scopeOf(ctx).Region, i.InstanceID, st, "stderr")
	out.ExecutionStartDateTime, out.ExecutionEndDateTime = aws.String(stamp(st.Started)), aws.String(stamp(st.Ended))
	if name != "" {
		out.Status, out.StatusDetails = ssmtypes.CommandInvocationStatus(st.Status), aws.String(st.Details)
	}
	if !st.Ended.IsZero() {
		out.ResponseCode, out.ExecutionElapsedTime = st.Code, aws.String(fmt.Sprintf("PT%.3fS", st.Ended.Sub(st.Started).Seconds()))
	}
	return out, nil
}

func stamp(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.UTC().Format("2006-01-02T15:04:05.000Z")
}

// ListCommands lists commands, newest first.
func (s *Service) ListCommands(ctx context.Context, in *awsssm.ListCommandsInput) (*awsssm.ListCommandsOutput, error) {
	var all []ssmtypes.Command
	for _, c := range s.found(ctx, in.CommandId, in.InstanceId) {
		out := c.sdk(c.invocations)
		ok, err := c.passes(string(out.Status), *out.StatusDetails, in.Filters)
		if err != nil {
			return nil, err
		}
		if ok {
			all = append(all, out)
		}
	}
	list, next, err := paging.CutInOrder(paging.Rules{Usual: 50, BadToken: func(string) error { return errNextToken() }}, all,
		func(c ssmtypes.Command) string { return *c.CommandId }, in.MaxResults, in.NextToken)
	if err != nil {
		return nil, err
	}
	return &awsssm.ListCommandsOutput{Commands: append([]ssmtypes.Command{}, list...), NextToken: next}, nil
}

// maxDetail is how much output ListCommandInvocations returns: the agent sends 2,400 bytes of the 2,500 that the API
// reference allows.
const maxDetail = 2400

// What the agent writes between the output and the errors of a step, and where it has cut them.
// https://github.com/aws/amazon-ssm-agent/blob/mainline/agent/framework/processor/executer/iohandler/iohandler.go
const (
	errorTitle = "\n----------ERROR-------\n"
	outputCut  = "\n---Output truncated---"
	errorCut   = "\n---Error truncated----"
)

// detail joins the output and the errors of a step in at most size bytes. If both are long, they share the space; otherwise
// the short one is whole.
func detail(stdout, stderr string, size int) string {
	title := ""
	if stderr != "" {
		title = errorTitle
		size -= len(title)
	}
	switch half := size / 2; {
	case len(stdout)+len(stderr) < size:
	case len(stdout) > half && len(stderr) > half:
		each := (size - len(outputCut) - len(errorCut)) / 2
		stdout, stderr = cut(stdout, each)+outputCut, cut(stderr, each)+errorCut
	case len(stdout) < half:
		stderr = cut(stderr, size-len(errorCut)-len(stdout)) + errorCut
	default:
		stdout = cut(stdout, size-len(outputCut)-len(stderr)) + outputCut
	}
	return stdout + title + stderr
}

// ListCommandInvocations lists the results of commands on instances.
func (s *Service) ListCommandInvocations(ctx context.Context, in *awsssm.ListCommandInvocationsInput) (*awsssm.ListCommandInvocationsOutput, error) {
	if slices.ContainsFunc(in.Filters, func(f ssmtypes.CommandFilter) bool { return f.Key == ssmtypes.CommandFilterKeyExecutionStage }) {
		return nil, errInvalidFilterKey("The specified key isn't valid.")
	}
	var all []ssmtypes.CommandInvocation
	for _, c := range s.found(ctx, in.CommandId, in.InstanceId) {
		for _, i := range c.invocations {
			if in.InstanceId != nil && i.InstanceID != *in.InstanceId {
				continue
			}
			if ok, err := c.passes(i.Status, i.Details, in.Filters); err != nil {
				return nil, err
			} else if !ok {
				continue
			}
			out := ssmtypes.CommandInvocation{
				CommandId: aws.String(c.ID), InstanceId: aws.String(i.InstanceID), InstanceName: aws.String(""), Comment: aws.String(c.Comment), DocumentName: aws.String(c.Document),
				DocumentVersion: aws.String(c.Version), RequestedDateTime: aws.Time(c.Requested), Status: ssmtypes.CommandInvocationStatus(i.Status), StatusDetails: aws.String(i.Details),
				StandardOutputUrl: aws.String(""), StandardErrorUrl: aws.String(""), CommandPlugins: []ssmtypes.CommandPlugin{}, CloudWatchOutputConfig: c.cloudWatch(),
				ServiceRole: aws.String(c.Role), NotificationConfig: c.Notify.sdk(),
			}
			for _, st := range i.Steps {
				if in.Details {
					out.CommandPlugins = append(out.CommandPlugins, st.sdk(&c.commandRecord, scopeOf(ctx).Region, i.InstanceID))
				}
			}
			all = append(all, out)
		}
	}
	list, next, err := paging.CutInOrder(paging.Rules{Usual: 50, BadToken: func(string) error { return errNextToken() }}, all,
		func(i ssmtypes.CommandInvocation) string { return *i.CommandId + "/" + *i.InstanceId }, in.MaxResults, in.NextToken)
	if err != nil {
		return nil, err
	}
	return &awsssm.ListCommandInvocationsOutput{CommandInvocations: append([]ssmtypes.CommandInvocation{}, list...), NextToken: next}, nil
}

func (st *stepRecord) sdk(c *commandRecord, region, instance string) ssmtypes.CommandPlugin {
	out := ssmtypes.CommandPlugin{
		Name: aws.String(st.Name), Output: aws.String(detail(st.Stdout, st.Stderr, maxDetail)), ResponseCode: st.Code, Status: ssmtypes.CommandPluginStatus(st.Status), StatusDetails: aws.String(st.Details),
		StandardOutputUrl: c.outputURL(region, instance, st, "stdout"), StandardErrorUrl: c.outputURL(region, instance, st, "stderr"),
		OutputS3BucketName: optional(c.Bucket), OutputS3KeyPrefix: optional(c.Prefix),
	}
	if !st.Started.IsZero() {
		out.ResponseStartDateTime = aws.Time(st.Started)
	}
	if !st.Ended.IsZero() {
		out.ResponseFinishDateTime = aws.Time(st.Ended)
	}
	return out
}
