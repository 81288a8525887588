package ssm

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	awsssm "github.com/aws/aws-sdk-go-v2/service/ssm"
	ssmtypes "github.com/aws/aws-sdk-go-v2/service/ssm/types"

	"github.com/drydock-dev/drydock/internal/awsapi/awserr"
	timing "github.com/drydock-dev/drydock/internal/clock"
	"github.com/drydock-dev/drydock/internal/ids"
	"github.com/drydock-dev/drydock/internal/machine"
	"github.com/drydock-dev/drydock/internal/service/ssm/document"
	"github.com/drydock-dev/drydock/internal/store"
)

// Bounds of commands. maxStdout and maxStderr are AWS's.
// https://docs.aws.amazon.com/systems-manager/latest/APIReference/API_GetCommandInvocation.html
const (
	maxStdout   = 24_000
	maxStderr   = 8_000
	maxOutput   = 600_000 // bytes of all steps of an invocation
	maxUploaded = 4 << 20 // bytes of a step's output for S3 and CloudWatch Logs
	maxScript   = 64 << 10
	maxTargets  = 50
	maxCommands = 200 // kept per account and region
	maxRunning  = 500 // invocations of all accounts

	// deliveryPoll is how often the delivery of a command is tried again.
	deliveryPoll = time.Second
)

// A commandRecord is a command. Its invocations have records of their own.
type commandRecord struct {
	ID                string
	Document, Version string
	Comment           string `json:",omitempty"`
	Parameters        map[string][]string
	Requested         time.Time
	Timeout           int32 // seconds until an invocation must have started
	Targets           []ssmtypes.Target
	Concurrency       string
	Errors            string
	Bucket, Prefix    string        `json:",omitempty"`
	CloudWatch        bool          `json:",omitempty"`
	Group             string        `json:",omitempty"`
	Role              string        `json:",omitempty"` // ARN of the role that publishes notifications
	Notify            notifications `json:",omitzero"`
	Instances         []string      // sorted
	Run               *runRecord    `json:",omitempty"` // nil if a user sent the command
}

// An invocationRecord is a command on one instance.
type invocationRecord struct {
	InstanceID      string
	Started, Ended  time.Time
	Status, Details string
	Steps           []stepRecord
}

type stepRecord struct {
	Name, Action    string
	Started, Ended  time.Time
	Status, Details string
	Code            int32
	Stdout, Stderr  string
}

var (
	// Version 1 had the invocations in the record of the command. They are not migrated. Version 4 added notifications.
	commands    = store.NewCollection[commandRecord]("ssm", "command", store.Same, store.Same, store.Same)
	invocations = store.NewCollection[invocationRecord]("ssm", "command-invocation") // COMMAND/INSTANCE
)

func errInstanceState(account string, instances []string) error {
	return &ssmtypes.InvalidInstanceId{Message: aws.String(fmt.Sprintf("Instances [[%s]] not in a valid state for account %s", strings.Join(instances, ", "), account))}
}

// commandTargets returns the instances that a command runs on: the named ones, which must all be online, and the online
// ones that match its targets.
func (s *Service) commandTargets(ctx context.Context, sc scope, named []string, targets []ssmtypes.Target) ([]string, error) {
	var out, bad []string
	for _, id := range named {
		if _, ok := s.target(ctx, sc, id, Register); !ok {
			bad = append(bad, id)
		}
		out = append(out, id)
	}
	if bad != nil {
		return nil, errInstanceState(sc.Account, bad)
	}
	for i := range targets {
		if err := checkTarget(&targets[i]); err != nil {
			return nil, err
		}
	}
	if len(targets) > 0 {
		for _, i := range s.fleet.Instances(sc.Account, sc.Region) {
			if !slices.ContainsFunc(targets, func(t ssmtypes.Target) bool { return !s.targeted(&i, &t) }) && s.fleet.Agent(ctx, i.ID, Register) == nil {
				out = append(out, i.ID)
			}
		}
	}
	slices.Sort(out)
	return slices.Compact(out), nil
}

// checkTarget returns an error if instances cannot be found by a target's key.
func checkTarget(t *ssmtypes.Target) error {
	switch key := aws.ToString(t.Key); {
	case strings.HasPrefix(key, "resource-groups:"):
		return awserr.NotImplemented("targets by " + key)
	case key != "tag-key" && !strings.HasPrefix(key, "tag:") && !strings.EqualFold(key, "InstanceIds"):
		return errValidation("The target key %q is not valid. Valid keys: InstanceIds, tag-key, tag:KEY, resource-groups:Name, resource-groups:ResourceTypeFilters.", key)
	}
	return nil
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

// scripts returns the scripts that a command runs on each instance, and the document's name for answers.
func (s *Service) scripts(ctx context.Context, sc scope, ref, version string, parameters map[string][]string) (name string, out []document.Script, err error) {
	d, err := s.document(sc, ref, version, "")
	if err != nil {
		if _, name := splitDocument(sc, ref); strings.HasPrefix(name, "AWS-") && awserr.CodeOf(err) == "InvalidDocument" {
			err = awserr.NotImplemented("commands with the document " + ref)
		}
		return "", nil, err
	}
	if d.rec.Type != document.Command {
		return "", nil, &ssmtypes.InvalidDocument{Message: aws.String("Document type " + d.rec.Type + " is not supported for commands.")}
	}
	values, err := s.values(ctx, sc, d.Document, parameters)
	if err == nil {
		out, err = d.Scripts(values)
	}
	for i := range out {
		if n := len(out[i].Text); err == nil && (n > maxScript || n == 0 && out[i].Skipped == "" && out[i].Action == document.RunShellScript) {
			err = &ssmtypes.InvalidParameters{Message: aws.String(fmt.Sprintf("commands must be between 1 and %d bytes long", maxScript))}
		}
	}
	return d.name, out, errDocument(err)
}

// limitOf returns a limit given as a number or a percentage of all.
func limitOf(text string, all int) int {
	if percent, ok := strings.CutSuffix(text, "%"); ok {
		n, _ := strconv.Atoi(percent) // the model has checked its form
		return int(math.Ceil(float64(all) * float64(n) / 100))
	}
	n, _ := strconv.Atoi(text)
	return n
}

// SendCommand runs a document on instances.
func (s *Service) SendCommand(ctx context.Context, in *awsssm.SendCommandInput) (*awsssm.SendCommandOutput, error) {
	sc := scopeOf(ctx)
	name, what, err := s.scripts(ctx, sc, aws.ToString(in.DocumentName), aws.ToString(in.DocumentVersion), in.Parameters)
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
	c := commandRecord{
		ID: ids.UUID(), Document: name, Version: cmp.Or(aws.ToString(in.DocumentVersion), "$DEFAULT"), Comment: aws.ToString(in.Comment), Parameters: in.Parameters, Requested: s.now(),
		Timeout: 3600, Targets: in.Targets, Concurrency: cmp.Or(aws.ToString(in.MaxConcurrency), "50"), Errors: cmp.Or(aws.ToString(in.MaxErrors), "0"),
		Bucket: aws.ToString(in.OutputS3BucketName), Prefix: aws.ToString(in.OutputS3KeyPrefix), Instances: targets,
	}
	if in.TimeoutSeconds != nil {
		c.Timeout = *in.TimeoutSeconds
	}
	if err := s.notifies(ctx, &c, in); err != nil {
		return nil, err
	}
	if w := in.CloudWatchOutputConfig; w != nil && w.CloudWatchOutputEnabled {
		_, plain := splitDocument(sc, name)
		c.CloudWatch, c.Group = true, cmp.Or(aws.ToString(w.CloudWatchLogGroupName), "/aws/ssm/"+plain)
	}
	running, ok := s.began(sc, c.ID, targets)
	if !ok {
		return nil, awserr.New("ThrottlingException", "Rate exceeded")
	}
	if err := s.keepCommand(ctx, sc, c); err != nil {
		s.done(c.ID, len(targets))
		return nil, err
	}
	go s.runAll(running, sc, &c, what)
	out := c.sdk(nil)
	out.Status, out.StatusDetails = ssmtypes.CommandStatusPending, aws.String("Pending")
	return &awsssm.SendCommandOutput{Command: &out}, nil
}

// A runningCommand is a command that has not ended.
type runningCommand struct {
	account   string
	cancel    context.CancelCauseFunc
	instances map[string]runningInvocation
}

// A runningInvocation is a command on one instance. CancelCommand ends its context.
type runningInvocation struct {
	ctx    context.Context
	cancel context.CancelCauseFunc
}

// began reserves room for a command on instances. It returns false if too many invocations are running.
func (s *Service) began(sc scope, id string, instances []string) (runningCommand, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ending || s.running+len(instances) > maxRunning {
		return runningCommand{}, false
	}
	ctx, cancel := context.WithCancelCause(context.Background())
	s.running += len(instances)
	c := runningCommand{sc.Account, cancel, map[string]runningInvocation{}}
	for _, i := range instances {
		own, cancel := context.WithCancelCause(ctx)
		c.instances[i] = runningInvocation{own, cancel}
	}
	s.cancels[id] = c
	s.working.Add(1)
	return c, true
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
	err := s.store.Update(ctx, func(tx *store.Tx) error { return commands.Create(tx, sc.Key(c.ID), c) })
	if err != nil {
		return err
	}
	s.mu.Lock()
	running := maps.Clone(s.cancels)
	s.mu.Unlock()
	all := slices.DeleteFunc(commands.All(s.store, sc.All()), func(i store.Item[commandRecord]) bool {
		_, ok := running[i.Value.ID]
		return ok
	})
	slices.SortFunc(all, func(a, b store.Item[commandRecord]) int { return a.Value.Requested.Compare(b.Value.Requested) })
	for _, old := range all[:min(max(0, len(all)-maxCommands), 20)] {
		if err := s.forgetCommand(ctx, sc, &old.Value); err != nil {
			return err
		}
	}
	return nil
}

// forgetCommand deletes the record of a command and those of its invocations.
func (s *Service) forgetCommand(ctx context.Context, sc scope, c *commandRecord) error {
	for chunk := range slices.Chunk(invocations.All(s.store, sc.Key(c.ID).AllBelow()), 90) {
		err := s.store.Update(ctx, func(tx *store.Tx) error {
			for _, i := range chunk {
				invocations.Delete(tx, i.Key)
			}
			return nil
		})
		if err != nil {
			return err
		}
	}
	return s.store.Update(ctx, func(tx *store.Tx) error { c.collection().Delete(tx, c.key(sc)); return nil })
}

// runAll runs a command on its instances, on as many at once as MaxConcurrency allows. After too many failures, it cancels
// the remaining invocations.
func (s *Service) runAll(run runningCommand, sc scope, c *commandRecord, what []document.Script) {
	defer s.done(c.ID, len(c.Instances))
	if len(c.Instances) > 0 {
		s.notify(sc, c, "", "InProgress")
	}
	slots := make(chan struct{}, max(1, limitOf(c.Concurrency, len(c.Instances))))
	most := limitOf(c.Errors, len(c.Instances))
	var mu sync.Mutex
	failed := 0
	var running sync.WaitGroup
	for _, target := range c.Instances {
		slots <- struct{}{}
		mu.Lock()
		stop := failed > most
		mu.Unlock()
		running.Go(func() {
			defer func() { <-slots }()
			ctx := run.instances[target].ctx
			if !s.runOne(ctx, sc, c, target, what, stop) && ctx.Err() == nil { // a cancelled invocation has not failed
				mu.Lock()
				failed++
				mu.Unlock()
			}
		})
	}
	running.Wait()
	if c.Notify.Topic != "" {
		var all []invocationRecord
		for _, i := range invocations.All(s.store, sc.Key(c.ID).AllBelow()) {
			all = append(all, i.Value)
		}
		state, _, _, _ := status(all)
		s.notify(sc, c, "", state)
	}
}

// deliver waits until the agent of an instance gets a command, at most until the command's time-out. The agent of an
// online instance may have no connection for messages.
func (s *Service) deliver(ctx context.Context, c *commandRecord, target string) {
	for s.fleet.Agent(ctx, target, RunCommands) != nil && s.now().Sub(c.Requested) <= time.Duration(c.Timeout)*time.Second {
		if !timing.Sleep(ctx, s.clock, deliveryPoll) {
			return
		}
	}
}

// runOne runs a command on one instance, and reports whether it succeeded. If stop is set, too many other invocations have
// failed, and this one is cancelled instead.
func (s *Service) runOne(ctx context.Context, sc scope, c *commandRecord, target string, what []document.Script, stop bool) bool {
	if !stop {
		s.deliver(ctx, c, target)
	}
	rec := invocationRecord{InstanceID: target, Status: "InProgress", Details: "InProgress", Started: s.now()}
	for _, w := range what {
		rec.Steps = append(rec.Steps, stepRecord{Name: w.Name, Action: w.Action, Status: "Pending", Details: "Pending", Code: -1})
	}
	keep := func() {
		store, cancel := context.WithTimeout(context.WithoutCancel(ctx), 10*time.Second)
		defer cancel()
		if err := s.keepInvocation(store, sc, c, rec); err != nil {
			s.log.Warn("the state of a command could not be stored", "command", c.ID, "instance", target, "error", err)
		}
	}
	end := func(status, details string) {
		rec.Status, rec.Details, rec.Ended = status, details, s.now()
		for i := range rec.Steps {
			if st := &rec.Steps[i]; st.Status == "Pending" {
				st.Status, st.Details = status, details
			}
		}
		keep()
		s.notify(sc, c, target, status)
	}
	switch {
	case stop:
		end("Cancelled", "Terminated")
		return false
	case ctx.Err() != nil:
		end(cancelled(ctx))
		return false
	case rec.Started.Sub(c.Requested) > time.Duration(c.Timeout)*time.Second:
		end("TimedOut", "DeliveryTimedOut")
		return false
	}
	keep()
	s.notify(sc, c, target, "InProgress")
	status, details := "Success", "Success"
	for i := range what {
		s.runStep(ctx, sc, c, target, &what[i], &rec.Steps[i], maxOutput/len(what))
		st := &rec.Steps[i]
		exits := st.exits(&what[i])
		if st.Status != "Success" {
			status, details = st.Status, st.Details
		}
		if status == "Cancelled" || exits {
			break
		}
		keep()
	}
	for i := range rec.Steps {
		if st := &rec.Steps[i]; st.Status == "Pending" && status == "Success" {
			st.Status, st.Details, st.Code = "Success", "Success", 0 // skipped
		}
	}
	end(status, details)
	return status == "Success"
}

// The exit codes with which a script ends its document.
const (
	exitWithSuccess = 168
	exitWithFailure = 169
)

// exits reports whether the following steps are skipped after a step, and marks the step as the agent does.
// https://github.com/aws/amazon-ssm-agent/blob/mainline/agent/framework/runpluginutil/runplugin.go
func (st *stepRecord) exits(what *document.Script) bool {
	if st.Ended.IsZero() || st.Status != "Success" && st.Status != "Failed" { // skipped, cancelled or timed out
		return st.Status != "Success" && what.ExitOnFailure
	}
	note := ""
	switch {
	case st.Code == exitWithSuccess:
		note = "\nStep exited with code 168. Therefore, marking step as succeeded. Further document steps will be skipped."
		st.Status, st.Details, st.Stderr = "Success", "Success", ""
	case st.Code == exitWithFailure:
		note = "\nStep exited with code 169. Therefore, marking step as Failed. Further document steps will be skipped."
		st.Stderr += note
	case st.Status == "Failed" && what.ExitOnFailure:
		note = "\nStep was found to have onFailure property. Further document steps will be skipped."
		st.Stderr += note
		if what.SucceedOnFailure {
			st.Status, st.Details, st.Code = "Success", "Success", exitWithSuccess
		}
	default:
		return st.Status == "Success" && what.ExitOnSuccess
	}
	st.Stdout += note
	return true
}

// cancelled returns the state of an invocation whose context has ended.
func cancelled(ctx context.Context) (status, details string) {
	if errors.Is(context.Cause(ctx), errEnding) {
		return "TimedOut", "ExecutionTimedOut"
	}
	return "Cancelled", "Cancelled"
}

// runStep runs a step of a command on an instance.
func (s *Service) runStep(ctx context.Context, sc scope, c *commandRecord, target string, what *document.Script, st *stepRecord, most int) {
	st.Started = s.now()
	if what.Failure != "" {
		st.Status, st.Details, st.Code, st.Stderr, st.Ended = "Failed", "Failed", 1, what.Failure, s.now()
		return
	}
	if what.Skipped != "" {
		st.Status, st.Details, st.Code, st.Stdout, st.Ended = "Success", "Success", 0, what.Skipped, s.now()
		return
	}
	uploaded := 0
	if c.Bucket != "" || c.CloudWatch {
		uploaded = maxUploaded
	}
	stdout, stderr := &head{left: max(min(maxStdout, most/2), uploaded)}, &head{left: max(min(maxStderr, most/2), uploaded)}
	limited, cancel := context.WithTimeout(ctx, time.Duration(what.TimeoutSeconds)*time.Second)
	defer cancel()
	status, err := 1, machine.ErrOff
	if m, ok := s.fleet.Machine(target); ok {
		status, err = s.perform(limited, sc, c, m, what, stdout, stderr)
	}
	st.Ended, st.Code = s.now(), int32(status) //nolint:gosec // a byte
	switch {
	case ctx.Err() != nil:
		st.Status, st.Details = cancelled(ctx)
		st.Code = -1
	case errors.Is(err, context.DeadlineExceeded):
		st.Status, st.Details, st.Code = "TimedOut", "ExecutionTimedOut", -1
	case err == nil && status == 0:
		st.Status, st.Details = "Success", "Success"
	default:
		st.Status, st.Details = "Failed", "Failed"
		if status != 0 && err == nil && what.Action == document.RunShellScript {
			fmt.Fprintf(&stderr.text, "failed to run commands: exit status %d", status)
		} else if err != nil {
			st.Code = 1
			fmt.Fprintf(&stderr.text, "failed to run commands: %v", err)
		}
	}
	s.upload(c, target, what, stdout.text.String(), stderr.text.String())
	st.Stdout, st.Stderr = cut(stdout.text.String(), min(maxStdout, most/2)), cut(stderr.text.String(), min(maxStderr, most/2))
}

// cut returns at most the first n bytes of a text, without half a character.
func cut(text string, n int) string { return strings.ToValidUTF8(text[:min(n, len(text))], "") }

// outputPath returns the key of a step's output in S3. outputStream returns its log stream in CloudWatch Logs.
// https://docs.aws.amazon.com/systems-manager/latest/userguide/sysman-rc-setting-up-cwlogs.html
func (c *commandRecord) outputPath(target, action, step, kind string) string {
	plugin := strings.ReplaceAll(action, ":", "")
	if step == action { // a document of schema 1.2
		step = "0." + plugin
	}
	return strings.TrimPrefix(strings.TrimSuffix(c.Prefix, "/")+"/"+c.ID+"/"+target+"/"+plugin+"/"+step+"/"+kind, "/")
}

func (c *commandRecord) outputStream(target, step, kind string) string {
	return c.ID + "/" + target + "/" + strings.ReplaceAll(step, ":", "-") + "/" + kind
}

// upload writes the output of a step to S3 and CloudWatch Logs as the instance's role. As with AWS's agent, a failure does
// not affect the command.
func (s *Service) upload(c *commandRecord, target string, what *document.Script, stdout, stderr string) {
	ctx, cancel := context.WithTimeout(context.Background(), logPatience) // the command may have been cancelled
	defer cancel()
	for kind, text := range map[string]string{"stdout": stdout, "stderr": stderr} {
		if text == "" {
			continue
		}
		var errs [2]error
		if c.Bucket != "" {
			errs[0] = s.putObject(ctx, target, c.Bucket, c.outputPath(target, what.Action, what.Name, kind), text)
		}
		if c.CloudWatch {
			errs[1] = s.putLog(ctx, target, c.Group, c.outputStream(target, what.Name, kind), text)
		}
		if err := errors.Join(errs[:]...); err != nil {
			s.log.Warn("the output of a command could not be written", "command", c.ID, "instance", target, "error", err)
		}
	}
}

// keepInvocation stores the state of a command on an instance, unless the command's record is gone.
func (s *Service) keepInvocation(ctx context.Context, sc scope, c *commandRecord, rec invocationRecord) error {
	return s.store.Update(ctx, func(tx *store.Tx) error {
		if _, err := c.collection().Get(tx, c.key(sc)); err != nil {
			return store.IgnoreNotFound(err)
		}
		return invocations.Put(tx, sc.Key(c.ID).Below(rec.InstanceID), rec)
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

// CancelCommand ends the invocations of a command that are still running, on all of its instances or on those given.
func (s *Service) CancelCommand(ctx context.Context, in *awsssm.CancelCommandInput) (*awsssm.CancelCommandOutput, error) {
	found := s.found(ctx, in.CommandId, nil)
	if len(found) == 0 {
		return nil, &ssmtypes.InvalidCommandId{Message: aws.String("")}
	}
	if len(in.InstanceIds) == 0 {
		s.cancel(nil, *in.CommandId)
		return &awsssm.CancelCommandOutput{}, nil
	}
	for i, id := range in.InstanceIds {
		if slices.Contains(in.InstanceIds[:i], id) {
			return nil, &ssmtypes.DuplicateInstanceId{Message: aws.String("")}
		}
		if !slices.Contains(found[0].Instances, id) {
			return nil, errInstanceState(scopeOf(ctx).Account, []string{id})
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, id := range in.InstanceIds {
		if i, ok := s.cancels[*in.CommandId].instances[id]; ok {
			i.cancel(nil)
		}
	}
	return &awsssm.CancelCommandOutput{}, nil
}

// cancel ends those of the commands that are running, with a cause as for context.CancelCauseFunc.
func (s *Service) cancel(cause error, commandIDs ...string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, id := range commandIDs {
		if c, ok := s.cancels[id]; ok {
			c.cancel(cause)
		}
	}
}
