package ssm_test

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	awslogs "github.com/aws/aws-sdk-go-v2/service/cloudwatchlogs"
	awss3 "github.com/aws/aws-sdk-go-v2/service/s3"
	awsssm "github.com/aws/aws-sdk-go-v2/service/ssm"
	ssmtypes "github.com/aws/aws-sdk-go-v2/service/ssm/types"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/drydock-dev/drydock/internal/service/ssm"
	"github.com/drydock-dev/drydock/internal/testkit"
)

// command sends a command and waits until it has ended on all instances.
func (w *world) command(t testing.TB, in *awsssm.SendCommandInput) (*ssmtypes.Command, []ssmtypes.CommandInvocation) {
	t.Helper()
	if in.InstanceIds == nil {
		in.InstanceIds = []string{instanceID}
	}
	sent, err := w.client.SendCommand(t.Context(), in)
	if err != nil {
		t.Fatal(err)
	}
	var out *awsssm.ListCommandsOutput
	testkit.Eventually(t, 20*time.Second, func() (err error) {
		out, err = w.client.ListCommands(t.Context(), &awsssm.ListCommandsInput{CommandId: sent.Command.CommandId})
		if err == nil && out.Commands[0].CompletedCount < out.Commands[0].TargetCount {
			err = errors.New("the command is running")
		}
		return err
	})
	all, err := w.client.ListCommandInvocations(t.Context(), &awsssm.ListCommandInvocationsInput{CommandId: sent.Command.CommandId, Details: true})
	if err != nil {
		t.Fatal(err)
	}
	return &out.Commands[0], all.CommandInvocations
}

func TestCommandsOfDocuments(t *testing.T) {
	w := newWorld(t, nil)
	w.create(t, "greeting", "Command", greeting)
	c, all := w.command(t, &awsssm.SendCommandInput{DocumentName: aws.String("greeting"), Parameters: map[string][]string{"more": {"date", "id"}}})
	if c.Status != "Success" || *c.DocumentName != "greeting" || len(all) != 1 || len(all[0].CommandPlugins) != 2 {
		t.Fatalf("%+v, %+v", c, all)
	}
	if skipped, ran := all[0].CommandPlugins[0], all[0].CommandPlugins[1]; *ran.Name != "greet" || *ran.Output != "echo hello world\ndate\nid\necho bye" || !strings.Contains(*skipped.Output, "skipped due to unsatisfied preconditions") {
		t.Errorf("%+v, %+v", skipped, ran)
	}
	get := &awsssm.GetCommandInvocationInput{CommandId: c.CommandId, InstanceId: aws.String(instanceID)}
	_, err := w.client.GetCommandInvocation(t.Context(), get)
	testkit.WantError(t, err, "InvalidPluginName", "")
	get.PluginName = aws.String("greet")
	if out, err := w.client.GetCommandInvocation(t.Context(), get); err != nil || !strings.HasSuffix(*out.StandardOutputContent, "echo bye") {
		t.Errorf("%+v, %v", out, err)
	}
	send := func(document string, parameters map[string][]string) error {
		_, err := w.client.SendCommand(t.Context(), &awsssm.SendCommandInput{DocumentName: &document, InstanceIds: []string{instanceID}, Parameters: parameters})
		return err
	}
	testkit.WantError(t, send("greeting", map[string][]string{"who": {"x; rm"}}), "InvalidParameters", `Parameter "who" has value "x; rm" not matching "^[a-z]+$".`)
	testkit.WantErrorWith(t, send("greeting", map[string][]string{"whom": {"x"}}), "InvalidParameters", "has no parameter whom")
	testkit.WantErrorWith(t, send("AWS-RunPatchBaseline", nil), "NotImplemented", "AWS-RunPatchBaseline")
	testkit.WantErrorWith(t, send("AWS-StartSSHSession", nil), "InvalidDocument", "Document type Session")

	w.create(t, "steps", "Command", `{"schemaVersion":"2.2","mainSteps":[
		{"name":"a","action":"aws:runShellScript","inputs":{"runCommand":["fail"]}},
		{"name":"b","action":"aws:runShellScript","inputs":{"runCommand":["fail"],"onFailure":"exit"}},
		{"name":"c","action":"aws:runShellScript","inputs":{"runCommand":["date"]}}]}`)
	c, all = w.command(t, &awsssm.SendCommandInput{DocumentName: aws.String("steps")})
	var states []string
	for _, p := range all[0].CommandPlugins {
		states = append(states, *p.Name+" "+string(p.Status)+" "+*p.Output)
	}
	if got := strings.Join(states, "; "); c.Status != "Failed" || !strings.HasPrefix(got, "a Failed \n----------ERROR-------\nno such file") || !strings.Contains(got, "b Failed") || !strings.HasSuffix(got, "c Failed ") {
		t.Errorf("%s: %s", c.Status, got)
	}
}

func TestOutputOfCommands(t *testing.T) {
	w := newWorld(t, nil)
	ctx := t.Context()
	buckets := awss3.NewFromConfig(w.AWSConfig(w.fleet.account), func(o *awss3.Options) { o.UsePathStyle = true })
	bucket := aws.String("output-" + w.fleet.account)
	if _, err := buckets.CreateBucket(ctx, &awss3.CreateBucketInput{Bucket: bucket}); err != nil {
		t.Fatal(err)
	}
	c, all := w.command(t, &awsssm.SendCommandInput{
		DocumentName: aws.String("AWS-RunShellScript"), Parameters: map[string][]string{"commands": {"much"}}, OutputS3BucketName: bucket, OutputS3KeyPrefix: aws.String("runs"),
		CloudWatchOutputConfig: &ssmtypes.CloudWatchOutputConfig{CloudWatchOutputEnabled: true},
	})
	key := "runs/" + *c.CommandId + "/" + instanceID + "/awsrunShellScript/0.awsrunShellScript/stdout"
	if got := *all[0].CommandPlugins[0].StandardOutputUrl; got != "https://s3.us-east-1.amazonaws.com/"+*bucket+"/"+key {
		t.Errorf("the output is at %s", got)
	}
	object, err := buckets.GetObject(ctx, &awss3.GetObjectInput{Bucket: bucket, Key: &key})
	if err != nil {
		t.Fatal(err)
	}
	if b, err := io.ReadAll(object.Body); err != nil || len(b) != 100_000 {
		t.Errorf("%d bytes in S3, %v", len(b), err)
	}
	out, err := awslogs.NewFromConfig(w.AWSConfig(w.fleet.account)).GetLogEvents(ctx, &awslogs.GetLogEventsInput{
		LogGroupName: aws.String("/aws/ssm/AWS-RunShellScript"), LogStreamName: aws.String(*c.CommandId + "/" + instanceID + "/aws-runShellScript/stdout"), StartFromHead: aws.Bool(true),
	})
	if err != nil || len(out.Events) != 1 || len(*out.Events[0].Message) != 100_000 {
		t.Errorf("%d events, %v", len(out.Events), err)
	}
}

// TestErrorsOfCommands checks that a command stops after too many failures, and that only as many invocations as allowed
// run at once.
func TestErrorsOfCommands(t *testing.T) {
	w := newWorld(t, nil)
	w.fleet.more = []string{"i-11111111", "i-22222222", "i-33333333"}
	everywhere := func(script, concurrency, errs string) (string, *ssmtypes.Command) {
		c, all := w.command(t, &awsssm.SendCommandInput{
			DocumentName: aws.String("AWS-RunShellScript"), Parameters: map[string][]string{"commands": {script}}, InstanceIds: []string{instanceID, "i-11111111", "i-22222222", "i-33333333"},
			MaxConcurrency: &concurrency, MaxErrors: &errs,
		})
		var details []string
		for _, i := range all {
			details = append(details, *i.StatusDetails)
		}
		return strings.Join(details, " "), c
	}
	if got, c := everywhere("fail", "1", "1"); got != "Failed Failed Terminated Terminated" || c.Status != "Failed" || c.ErrorCount != 4 {
		t.Errorf("%s, %+v", got, c)
	}
	if got, _ := everywhere("fail", "25%", "100%"); got != "Failed Failed Failed Failed" {
		t.Error(got)
	}
	if got, _ := everywhere("date", "100%", "0"); got != "Success Success Success Success" {
		t.Error(got)
	}
}

func TestFiltersOfCommands(t *testing.T) {
	w := newWorld(t, nil)
	w.create(t, "greeting", "Command", greeting)
	w.command(t, &awsssm.SendCommandInput{DocumentName: aws.String("greeting"), Parameters: map[string][]string{"more": {"date"}}})
	w.command(t, &awsssm.SendCommandInput{DocumentName: aws.String("AWS-RunShellScript"), Parameters: map[string][]string{"commands": {"fail"}}})
	for _, tc := range []struct {
		key                   ssmtypes.CommandFilterKey
		value                 string
		commands, invocations int // how many are found; -1 means an error
	}{
		{"Status", "Failed", 1, 1},
		{"Status", "Success", 1, 1},
		{"Status", "Pending", 0, 0},
		{"DocumentName", "greeting", 1, 1},
		{"InvokedAfter", "2020-01-01T00:00:00Z", 2, 2},
		{"InvokedBefore", "2020-01-01T00:00:00Z", 0, 0},
		{"InvokedBefore", "yesterday", -1, -1},
		{"ExecutionStage", "Complete", 2, -1},
		{"ExecutionStage", "Executing", 0, -1},
	} {
		filters := []ssmtypes.CommandFilter{{Key: tc.key, Value: &tc.value}}
		commands, invocations := -1, -1
		if out, err := w.client.ListCommands(t.Context(), &awsssm.ListCommandsInput{Filters: filters}); err == nil {
			commands = len(out.Commands)
		}
		if out, err := w.client.ListCommandInvocations(t.Context(), &awsssm.ListCommandInvocationsInput{Filters: filters}); err == nil {
			invocations = len(out.CommandInvocations)
		} else if tc.key == "ExecutionStage" {
			testkit.WantError(t, err, "InvalidFilterKey", "")
		}
		if commands != tc.commands || invocations != tc.invocations {
			t.Errorf("%s %s: %d commands and %d invocations, want %d and %d", tc.key, tc.value, commands, invocations, tc.commands, tc.invocations)
		}
	}
}

// TestCommandsWithoutInstances checks the state of a command whose targets match nothing.
func TestCommandsWithoutInstances(t *testing.T) {
	w := newWorld(t, nil)
	c, all := w.command(t, &awsssm.SendCommandInput{
		DocumentName: aws.String("AWS-RunShellScript"), Parameters: map[string][]string{"commands": {"date"}}, InstanceIds: []string{},
		Targets: []ssmtypes.Target{{Key: aws.String("tag:team"), Values: []string{"nobody"}}},
	})
	if c.Status != "Success" || *c.StatusDetails != "NoInstancesInTag" || len(all) != 0 {
		t.Errorf("%+v, %+v", c, all)
	}
}

// TestDelivery checks that commands for an online instance wait until its agent can get them.
func TestDelivery(t *testing.T) {
	clock := clocktesting.NewFakeClock(time.Date(2026, 5, 4, 10, 0, 0, 0, time.UTC))
	w := newWorld(t, clock)
	ctx := t.Context()
	w.fleet.off.Store(instanceID, ssm.RunCommands)
	send := func() *string {
		return testkit.Must(w.client.SendCommand(ctx, &awsssm.SendCommandInput{
			DocumentName: aws.String("AWS-RunShellScript"), InstanceIds: []string{instanceID}, Parameters: map[string][]string{"commands": {"date"}}, TimeoutSeconds: aws.Int32(60),
		}))(t).Command.CommandId
	}
	becomes := func(id *string, details string) {
		t.Helper()
		testkit.Eventually(t, 20*time.Second, func() error {
			out, err := w.client.GetCommandInvocation(ctx, &awsssm.GetCommandInvocationInput{CommandId: id, InstanceId: aws.String(instanceID)})
			if err == nil && *out.StatusDetails != details {
				clock.Step(50 * time.Millisecond)
				err = fmt.Errorf("the command is %s, want %s", *out.StatusDetails, details)
			}
			return err
		})
	}
	late, cancelled, delivered := send(), send(), send()
	becomes(late, "Pending")
	testkit.Must(w.client.CancelCommand(ctx, &awsssm.CancelCommandInput{CommandId: cancelled}))(t)
	becomes(cancelled, "Cancelled")
	becomes(delivered, "Pending")
	w.fleet.off.Delete(instanceID)
	becomes(delivered, "Success")
	becomes(late, "Success")
	w.fleet.off.Store(instanceID, ssm.RunCommands)
	late = send()
	becomes(late, "Pending")
	clock.Step(time.Minute)
	becomes(late, "DeliveryTimedOut")
	w.fleet.off.Store(instanceID, ssm.Register)
	_, err := w.client.SendCommand(ctx, &awsssm.SendCommandInput{DocumentName: aws.String("AWS-RunShellScript"), InstanceIds: []string{instanceID}, Parameters: map[string][]string{"commands": {"date"}}})
	testkit.WantError(t, err, "InvalidInstanceId", "")
}

// TestCancelOnSomeInstances cancels a command on one of three instances, of which one runs it at a time.
func TestCancelOnSomeInstances(t *testing.T) {
	w := newWorld(t, nil)
	ctx := t.Context()
	w.fleet.more = []string{"i-11111111", "i-22222222"}
	all := append([]string{instanceID}, w.fleet.more...)
	id := testkit.Must(w.client.SendCommand(ctx, &awsssm.SendCommandInput{
		DocumentName: aws.String("AWS-RunShellScript"), InstanceIds: all, Parameters: map[string][]string{"commands": {"hang"}}, MaxConcurrency: aws.String("1"), MaxErrors: aws.String("0"),
	}))(t).Command.CommandId
	become := func(want ...string) {
		t.Helper()
		testkit.Eventually(t, 20*time.Second, func() error {
			var got []string
			for _, i := range all {
				out, err := w.client.GetCommandInvocation(ctx, &awsssm.GetCommandInvocationInput{CommandId: id, InstanceId: &i})
				if err != nil {
					return err
				}
				got = append(got, *out.StatusDetails)
			}
			if !slices.Equal(got, want) {
				return fmt.Errorf("%q, want %q", got, want)
			}
			return nil
		})
	}
	cancel := func(instances ...string) error {
		_, err := w.client.CancelCommand(ctx, &awsssm.CancelCommandInput{CommandId: id, InstanceIds: instances})
		return err
	}
	become("InProgress", "Pending", "Pending")
	testkit.WantError(t, cancel(instanceID, instanceID), "DuplicateInstanceId", "")
	testkit.WantError(t, cancel(instanceID, "i-33333333"), "InvalidInstanceId", "")
	for _, err := range []error{cancel("i-11111111"), cancel(instanceID)} {
		if err != nil {
			t.Error(err)
		}
	}
	become("Cancelled", "Cancelled", "InProgress")
	if err := cancel(); err != nil {
		t.Error(err)
	}
	become("Cancelled", "Cancelled", "Cancelled")
}
