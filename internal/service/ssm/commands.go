package ssm

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	awsssm "github.com/aws/aws-sdk-go-v2/service/ssm"
	ssmtypes "github.com/aws/aws-sdk-go-v2/service/ssm/types"

	"github.com/drydock-dev/drydock/internal/awsapi/awserr"
	"github.com/drydock-dev/drydock/internal/awsapi/paging"
	"github.com/drydock-dev/drydock/internal/ids"
	"github.com/drydock-dev/drydock/internal/machine"
	"github.com/drydock-dev/drydock/internal/store"
)

// documentScript is the only document that Run Command supports.
const documentScript = "AWS-RunShellScript"

// Bounds of commands. maxStdout and maxStderr are AWS's.
// https://docs.aws.amazon.com/systems-manager/latest/APIReference/API_GetCommandInvocation.html
const (
	maxStdout   = 24_000
	maxStderr   = 8_000
	maxScript   = 64 << 10
	maxTargets  = 50
	maxCommands = 200 // kept per account and region
	maxRunning  = 500 // invocations of all accounts
)

// A commandRecord is a command with its invocations.
type commandRecord struct {
	ID         string
	Comment    string `json:",omitempty"`
	Parameters map[string][]string
	Requested  time.Time
	Timeout    int32 // seconds
	Targets    []ssmtypes.Target
	// Invocations are in the order of their instances' IDs.
	Invocations []invocation
}

type invocation struct {
	InstanceID     string
	Started, Ended time.Time
	Status         string // Pending, InProgress, Success, Failed, Cancelled, TimedOut
	Code           int32
	Stdout, Stderr string
}

var commands = store.NewCollection[commandRecord]("ssm", "command")

func errInstanceState(account string, instances []string) error {
	return &ssmtypes.InvalidInstanceId{Message: aws.String(fmt.Sprintf("Instances [[%s]] not in a valid state for account %s", strings.Join(instances, ", "), account))}
}

// commandTargets returns the instances that a command runs on: the named ones, which must all be connected, and the
// connected ones that match its targets.
func (s *Service) commandTargets(ctx context.Context, sc scope, named []string, targets []ssmtypes.Target) ([]string, error) {
	var out, bad []string
	for _, id := range named {
		if _, ok := s.target(ctx, sc, id); !ok {
			bad = append(bad, id)
		}
		out = append(out, id)
	}
	if bad != nil {
		return nil, errInstanceState(sc.Account, bad)
	}
	if len(targets) > 0 {
		for _, i := range s.fleet.Instances(sc.Account, sc.Region) {
			if !slices.ContainsFunc(targets, func(t ssmtypes.Target) bool { return !s.targeted(&i, &t) }) && s.fleet.Agent(ctx, i.ID) == nil {
				out = append(out, i.ID)
			}
		}
	}
	slices.Sort(out)
	return slices.Compact(out), nil
}

// targeted reports whether an instance matches a target. The target's key is InstanceIds, tag:KEY or tag-key.
func (s *Service) targeted(i *machine.Instance, t *ssmtypes.Target) bool {
	key, tags := aws.ToString(t.Key), s.fleet.Tags(i.Account, i.Region, i.ID)
	if name, ok := strings.CutPrefix(key, "tag:"); ok {
		value, has := tags[name]
		return has && slices.Contains(t.Values, value)
	}
	if key == "tag-key" {
		return slices.ContainsFunc(t.Values, func(v string) bool { _, ok := tags[v]; return ok })
	}
	return strings.EqualFold(key, "InstanceIds") && slices.Contains(t.Values, i.ID)
}

// A script is what a command runs on each instance.
type script struct {
	text, dir string
	timeout   time.Duration
}

// scriptOf reads the parameters of AWS-RunShellScript.
func scriptOf(given map[string][]string) (script, error) {
	out := script{timeout: time.Hour}
	for name, values := range given {
		switch value := strings.Join(values, "\n"); name {
		case "commands":
			out.text = value
		case "workingDirectory":
			out.dir = value
		case "executionTimeout":
			n, err := strconv.Atoi(value)
			if err != nil || n < 1 || n > 172_800 {
				return out, &ssmtypes.InvalidParameters{Message: aws.String("executionTimeout must be between 1 and 172800 seconds")}
			}
			out.timeout = time.Duration(n) * time.Second
		default:
			return out, &ssmtypes.InvalidParameters{Message: aws.String("document " + documentScript + " has no parameter " + name)}
		}
	}
	if out.text == "" || len(out.text) > maxScript {
		return out, &ssmtypes.InvalidParameters{Message: aws.String(fmt.Sprintf("commands must have between 1 and %d bytes", maxScript))}
	}
	return out, nil
}

// SendCommand runs a script on instances.
func (s *Service) SendCommand(ctx context.Context, in *awsssm.SendCommandInput) (*awsssm.SendCommandOutput, error) {
	sc, name := scopeOf(ctx), aws.ToString(in.DocumentName)
	if name != documentScript && name != "arn:aws:ssm:"+sc.Region+"::document/"+documentScript {
		if strings.HasPrefix(name, "AWS-") {
			return nil, awserr.NotImplemented("commands with the document " + name)
		}
		return nil, &ssmtypes.InvalidDocument{Message: aws.String("Document with name " + name + " does not exist.")}
	}
	what, err := scriptOf(in.Parameters)
	if err != nil {
		return nil, err
	}
	if len(in.InstanceIds) == 0 && len(in.Targets) == 0 || len(in.InstanceIds) > maxTargets {
		return nil, errValidation("A command needs targets, or between 1 and %d instance IDs.", maxTargets)
	}
	targets, err := s.commandTargets(ctx, sc, in.InstanceIds, in.Targets)
	if err != nil {
		return nil, err
	}
	c := commandRecord{ID: ids.UUID(), Comment: aws.ToString(in.Comment), Parameters: in.Parameters, Requested: s.now(), Timeout: 3600, Targets: in.Targets}
	if in.TimeoutSeconds != nil {
		c.Timeout = *in.TimeoutSeconds
	}
	for _, id := range targets {
		c.Invocations = append(c.Invocations, invocation{InstanceID: id, Status: "Pending"})
	}
	running, ok := s.began(sc, c.ID, len(targets))
	if !ok {
		return nil, awserr.New("ThrottlingException", "Rate exceeded")
	}
	if err := s.keepCommand(ctx, sc, c); err != nil {
		s.done(c.ID, len(targets))
		return nil, err
	}
	go s.runAll(running, sc, c.ID, targets, what)
	out := c.sdk(s.now())
	return &awsssm.SendCommandOutput{Command: &out}, nil
}

// A runningCommand is a command that has not ended.
type runningCommand struct {
	account string
	cancel  context.CancelCauseFunc
}

// began reserves room for a command and returns its context, which CancelCommand ends. It returns false if too many
// invocations are running.
func (s *Service) began(sc scope, id string, invocations int) (context.Context, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ending || s.running+invocations > maxRunning {
		return nil, false
	}
	ctx, cancel := context.WithCancelCause(context.Background())
	s.running += invocations
	s.cancels[id] = runningCommand{sc.Account, cancel}
	s.working.Add(1)
	return ctx, true
}

// done removes a command that has ended.
func (s *Service) done(id string, invocations int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.running -= invocations
	s.cancels[id].cancel(nil)
	delete(s.cancels, id)
	s.working.Done()
}

// keepCommand stores the record of a new command and removes the oldest ones that have ended.
func (s *Service) keepCommand(ctx context.Context, sc scope, c commandRecord) error {
	s.mu.Lock()
	running := maps.Clone(s.cancels)
	s.mu.Unlock()
	all := slices.DeleteFunc(commands.All(s.store, sc.All()), func(i store.Item[commandRecord]) bool {
		_, ok := running[i.Value.ID]
		return ok
	})
	slices.SortFunc(all, func(a, b store.Item[commandRecord]) int { return a.Value.Requested.Compare(b.Value.Requested) })
	return s.store.Update(ctx, func(tx *store.Tx) error {
		for _, i := range all[:min(max(0, len(all)-maxCommands+1), 20)] {
			commands.Delete(tx, i.Key)
		}
		return commands.Create(tx, sc.Key(c.ID), c)
	})
}

// concurrent is how many invocations of one command run at once: AWS's default for MaxConcurrency.
const concurrent = 50

func (s *Service) runAll(ctx context.Context, sc scope, id string, targets []string, what script) {
	defer s.done(id, len(targets))
	slots := make(chan struct{}, concurrent)
	var running sync.WaitGroup
	for n, target := range targets {
		slots <- struct{}{}
		running.Go(func() {
			defer func() { <-slots }()
			s.runOne(ctx, sc, id, n, target, what)
		})
	}
	running.Wait()
}

func (s *Service) runOne(ctx context.Context, sc scope, id string, n int, target string, what script) {
	update := func(change func(*invocation)) {
		store, cancel := context.WithTimeout(context.WithoutCancel(ctx), 10*time.Second)
		defer cancel()
		if err := commands.UpdateOne(store, s.store, sc.Key(id), func(c *commandRecord) error { change(&c.Invocations[n]); return nil }); err != nil {
			s.log.Warn("the state of a command could not be stored", "command", id, "instance", target, "error", err)
		}
	}
	update(func(i *invocation) { i.Status, i.Started = "InProgress", s.now() })
	stdout, stderr := &head{left: maxStdout}, &head{left: maxStderr}
	limited, cancel := context.WithTimeout(ctx, what.timeout)
	defer cancel()
	status, err := 1, machine.ErrOff
	if m, ok := s.fleet.Machine(target); ok {
		status, err = machine.Run(limited, m, machine.Command{Args: []string{"sh", "-c", what.text}, Dir: what.dir, Stdout: stdout, Stderr: stderr})
	}
	update(func(i *invocation) {
		i.Ended, i.Code, i.Stdout, i.Stderr = s.now(), int32(status), stdout.text.String(), stderr.text.String() //nolint:gosec // a byte
		switch {
		case errors.Is(context.Cause(ctx), errEnding):
			i.Status, i.Code = "TimedOut", -1
		case ctx.Err() != nil:
			i.Status, i.Code = "Cancelled", -1
		case errors.Is(err, context.DeadlineExceeded):
			i.Status, i.Code = "TimedOut", -1
		case err == nil && status == 0:
			i.Status = "Success"
		default:
			i.Status = "Failed"
			if status != 0 && err == nil {
				i.Stderr += "failed to run commands: exit status " + strconv.Itoa(status)
			} else if err != nil {
				i.Code = 1
				i.Stderr += "failed to run commands: " + err.Error()
			}
		}
	})
}

// A head keeps the beginning of what is written to it.
type head struct {
	text bytes.Buffer
	left int
}

func (h *head) Write(p []byte) (int, error) {
	n := min(h.left, len(p))
	h.left -= n
	h.text.Write(p[:n])
	return len(p), nil
}

// status returns the state of a whole command, and how many of its invocations have completed and failed.
func (c *commandRecord) status() (status string, completed, failed int32) {
	status = "Success"
	for _, i := range c.Invocations {
		switch i.Status {
		case "Pending", "InProgress":
			status = "InProgress"
			continue
		case "Success":
		default:
			failed++
			if status == "Success" {
				status = i.Status
			}
		}
		completed++
	}
	return status, completed, failed
}

func (c *commandRecord) sdk(now time.Time) ssmtypes.Command {
	status, completed, failed := c.status()
	var instances []string
	if len(c.Targets) == 0 {
		for _, i := range c.Invocations {
			instances = append(instances, i.InstanceID)
		}
	}
	if status == "InProgress" && c.Requested.Equal(now) {
		status = "Pending"
	}
	return ssmtypes.Command{
		CommandId: aws.String(c.ID), Comment: aws.String(c.Comment), DocumentName: aws.String(documentScript), DocumentVersion: aws.String("$DEFAULT"), Parameters: c.Parameters,
		RequestedDateTime: aws.Time(c.Requested), ExpiresAfter: aws.Time(c.Requested.Add(time.Duration(c.Timeout) * time.Second)), TimeoutSeconds: aws.Int32(c.Timeout),
		InstanceIds: append([]string{}, instances...), Targets: append([]ssmtypes.Target{}, c.Targets...), Status: ssmtypes.CommandStatus(status), StatusDetails: aws.String(status),
		TargetCount: int32(len(c.Invocations)), CompletedCount: completed, ErrorCount: failed, MaxConcurrency: aws.String("50"), MaxErrors: aws.String("0"), //nolint:gosec // few
	}
}

// found returns the caller's commands that a request asks for. Invocations that were running when the daemon ended have
// timed out.
func (s *Service) found(ctx context.Context, id, instance *string) []commandRecord {
	var out []commandRecord
	s.mu.Lock()
	running := maps.Clone(s.cancels) // before the records are read, which say how the others have ended
	s.mu.Unlock()
	for _, i := range commands.All(s.store, scopeOf(ctx).All()) {
		c := i.Value
		if id != nil && c.ID != *id || instance != nil && !slices.ContainsFunc(c.Invocations, func(i invocation) bool { return i.InstanceID == *instance }) {
			continue
		}
		c.Invocations = slices.Clone(c.Invocations) // the store shares them with other readers
		_, isRunning := running[c.ID]
		for n := range c.Invocations {
			if i := &c.Invocations[n]; !isRunning && (i.Status == "Pending" || i.Status == "InProgress") {
				i.Status, i.Code = "TimedOut", -1
			}
		}
		out = append(out, c)
	}
	slices.SortFunc(out, func(a, b commandRecord) int { return b.Requested.Compare(a.Requested) })
	return out
}

// GetCommandInvocation returns the result of a command on one instance.
func (s *Service) GetCommandInvocation(ctx context.Context, in *awsssm.GetCommandInvocationInput) (*awsssm.GetCommandInvocationOutput, error) {
	found := s.found(ctx, in.CommandId, in.InstanceId)
	if len(found) == 0 {
		return nil, &ssmtypes.InvocationDoesNotExist{Message: aws.String("")}
	}
	c := found[0]
	i := c.Invocations[slices.IndexFunc(c.Invocations, func(i invocation) bool { return i.InstanceID == *in.InstanceId })]
	out := &awsssm.GetCommandInvocationOutput{
		CommandId: in.CommandId, InstanceId: in.InstanceId, Comment: aws.String(c.Comment), DocumentName: aws.String(documentScript), DocumentVersion: aws.String("$DEFAULT"),
		PluginName: aws.String("aws:runShellScript"), ResponseCode: i.Code, Status: ssmtypes.CommandInvocationStatus(i.Status), StatusDetails: aws.String(i.Status),
		StandardOutputContent: aws.String(i.Stdout), StandardErrorContent: aws.String(i.Stderr), StandardOutputUrl: aws.String(""), StandardErrorUrl: aws.String(""),
		ExecutionStartDateTime: aws.String(stamp(i.Started)), ExecutionEndDateTime: aws.String(stamp(i.Ended)), ExecutionElapsedTime: aws.String(""),
	}
	if i.Ended.IsZero() {
		out.ResponseCode = -1
	} else {
		out.ExecutionElapsedTime = aws.String(fmt.Sprintf("PT%.3fS", i.Ended.Sub(i.Started).Seconds()))
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
		all = append(all, c.sdk(s.now()))
	}
	list, next, err := paging.CutInOrder(paging.Rules{Usual: 50, BadToken: func(string) error { return errNextToken() }}, all,
		func(c ssmtypes.Command) string { return *c.CommandId }, in.MaxResults, in.NextToken)
	if err != nil {
		return nil, err
	}
	return &awsssm.ListCommandsOutput{Commands: append([]ssmtypes.Command{}, list...), NextToken: next}, nil
}

// maxDetail is how much output ListCommandInvocations returns.
// https://docs.aws.amazon.com/systems-manager/latest/APIReference/API_CommandPlugin.html
const maxDetail = 2500

// ListCommandInvocations lists the results of commands on instances.
func (s *Service) ListCommandInvocations(ctx context.Context, in *awsssm.ListCommandInvocationsInput) (*awsssm.ListCommandInvocationsOutput, error) {
	var all []ssmtypes.CommandInvocation
	for _, c := range s.found(ctx, in.CommandId, in.InstanceId) {
		for _, i := range c.Invocations {
			if in.InstanceId != nil && i.InstanceID != *in.InstanceId {
				continue
			}
			out := ssmtypes.CommandInvocation{
				CommandId: aws.String(c.ID), InstanceId: aws.String(i.InstanceID), InstanceName: aws.String(""), Comment: aws.String(c.Comment), DocumentName: aws.String(documentScript),
				DocumentVersion: aws.String("$DEFAULT"), RequestedDateTime: aws.Time(c.Requested), Status: ssmtypes.CommandInvocationStatus(i.Status), StatusDetails: aws.String(i.Status),
				StandardOutputUrl: aws.String(""), StandardErrorUrl: aws.String(""), CommandPlugins: []ssmtypes.CommandPlugin{},
			}
			if in.Details {
				text := i.Stdout
				if i.Stderr != "" {
					text += "\n----------ERROR-------\n" + i.Stderr
				}
				if len(text) > maxDetail {
					text = text[:maxDetail]
				}
				p := ssmtypes.CommandPlugin{
					Name: aws.String("aws:runShellScript"), Output: aws.String(strings.ToValidUTF8(text, "")), ResponseCode: i.Code, Status: ssmtypes.CommandPluginStatus(i.Status), StatusDetails: aws.String(i.Status),
				}
				if !i.Started.IsZero() {
					p.ResponseStartDateTime = aws.Time(i.Started)
				}
				if !i.Ended.IsZero() {
					p.ResponseFinishDateTime = aws.Time(i.Ended)
				}
				out.CommandPlugins = append(out.CommandPlugins, p)
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

// CancelCommand ends the invocations of a command that are still running.
func (s *Service) CancelCommand(ctx context.Context, in *awsssm.CancelCommandInput) (*awsssm.CancelCommandOutput, error) {
	if len(s.found(ctx, in.CommandId, nil)) == 0 {
		return nil, &ssmtypes.InvalidCommandId{Message: aws.String("")}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if c, ok := s.cancels[*in.CommandId]; ok {
		c.cancel(nil)
	}
	return &awsssm.CancelCommandOutput{}, nil
}
