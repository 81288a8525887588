package ssm_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	awsssm "github.com/aws/aws-sdk-go-v2/service/ssm"
	ssmtypes "github.com/aws/aws-sdk-go-v2/service/ssm/types"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/drydock-dev/drydock/internal/service/ssm"
	"github.com/drydock-dev/drydock/internal/testkit"
)

// associate creates an association that runs a script on all instances. Its ID is returned.
func (w *world) associate(t testing.TB, script string, with ...func(*awsssm.CreateAssociationInput)) string {
	t.Helper()
	in := &awsssm.CreateAssociationInput{
		Name: aws.String("AWS-RunShellScript"), Parameters: map[string][]string{"commands": {script}}, Targets: []ssmtypes.Target{{Key: aws.String("InstanceIds"), Values: []string{"*"}}},
	}
	for _, fn := range with {
		fn(in)
	}
	out, err := w.client.CreateAssociation(t.Context(), in)
	if err != nil {
		t.Fatal(err)
	}
	if o := out.AssociationDescription.Overview; *o.Status != "Pending" || *o.DetailedStatus != "Creating" {
		t.Errorf("a new association is %s, %s", *o.Status, *o.DetailedStatus)
	}
	return *out.AssociationDescription.AssociationId
}

// overview returns the summary of an association as text: Success{Success:2}.
func (w *world) overview(t testing.TB, id string) (string, *ssmtypes.AssociationDescription) {
	t.Helper()
	d := testkit.Must(w.client.DescribeAssociation(t.Context(), &awsssm.DescribeAssociationInput{AssociationId: &id}))(t).AssociationDescription
	return *d.Overview.Status + strings.TrimPrefix(fmt.Sprint(d.Overview.AssociationStatusAggregatedCount), "map"), d
}

// becomes waits until an association has the given summary and number of runs.
func (w *world) becomes(t testing.TB, id, overview string, runs int) *ssmtypes.AssociationDescription {
	t.Helper()
	var d *ssmtypes.AssociationDescription
	testkit.Eventually(t, 20*time.Second, func() error {
		var got string
		got, d = w.overview(t, id)
		if n := len(w.runs(t, id)); got != overview || n != runs {
			return fmt.Errorf("the association is %s after %d runs, want %s after %d", got, n, overview, runs)
		}
		return nil
	})
	return d
}

func (w *world) runs(t testing.TB, id string) []ssmtypes.AssociationExecution {
	t.Helper()
	return testkit.Must(w.client.DescribeAssociationExecutions(t.Context(), &awsssm.DescribeAssociationExecutionsInput{AssociationId: &id}))(t).AssociationExecutions
}

func TestAssociations(t *testing.T) {
	w := newWorld(t, nil)
	w.fleet.more = []string{"i-11111111"}
	w.fleet.off.Store("i-11111111", ssm.Register)
	ctx := t.Context()
	id := w.associate(t, "date", func(in *awsssm.CreateAssociationInput) {
		in.AssociationName = aws.String("dates")
		in.Tags = []ssmtypes.Tag{{Key: aws.String("team"), Value: aws.String("shop")}}
	})
	d := w.becomes(t, id, "Pending[Pending:1 Success:1]", 1)
	if *d.AssociationVersion != "1" || *d.DocumentVersion != "$DEFAULT" || *d.AssociationName != "dates" || d.LastSuccessfulExecutionDate == nil {
		t.Errorf("%+v", d)
	}

	// The other instance comes online later.
	w.fleet.off.Delete("i-11111111")
	w.becomes(t, id, "Success[Success:2]", 2)
	run := w.runs(t, id)[0]
	if *run.Status != "Success" || *run.ResourceCountByStatus != "{Success=1}" || *run.AssociationVersion != "1" {
		t.Errorf("%+v", run)
	}
	targets := testkit.Must(w.client.DescribeAssociationExecutionTargets(ctx, &awsssm.DescribeAssociationExecutionTargetsInput{AssociationId: &id, ExecutionId: run.ExecutionId}))(t).AssociationExecutionTargets
	if len(targets) != 1 || *targets[0].ResourceId != "i-11111111" || *targets[0].ResourceType != "ManagedInstance" || *targets[0].OutputSource.OutputSourceType != "RunCommand" {
		t.Fatalf("%+v", targets)
	}
	command := targets[0].OutputSource.OutputSourceId
	if out, err := w.client.GetCommandInvocation(ctx, &awsssm.GetCommandInvocationInput{CommandId: command, InstanceId: aws.String("i-11111111")}); err != nil || *out.StandardOutputContent != "date" {
		t.Errorf("%+v, %v", out, err)
	}
	if all := testkit.Must(w.client.ListCommands(ctx, &awsssm.ListCommandsInput{}))(t).Commands; len(all) != 0 {
		t.Errorf("ListCommands lists %d runs of associations", len(all))
	}
	info := testkit.Must(w.client.DescribeInstanceInformation(ctx, &awsssm.DescribeInstanceInformationInput{}))(t).InstanceInformationList
	if *info[0].AssociationStatus != "Success" || info[0].AssociationOverview.InstanceAssociationStatusAggregatedCount["Success"] != 1 || info[0].LastSuccessfulAssociationExecutionDate == nil {
		t.Errorf("%+v", info[0])
	}

	// A new version loses what the request omits, and runs again.
	updated := testkit.Must(w.client.UpdateAssociation(ctx, &awsssm.UpdateAssociationInput{AssociationId: &id, Parameters: map[string][]string{"commands": {"fail"}}}))(t).AssociationDescription
	if *updated.AssociationVersion != "2" || updated.AssociationName != nil || len(updated.Targets) != 1 {
		t.Errorf("%+v", updated)
	}
	w.becomes(t, id, "Failed[Failed:2]", 3)
	states := testkit.Must(w.client.DescribeInstanceAssociationsStatus(ctx, &awsssm.DescribeInstanceAssociationsStatusInput{InstanceId: aws.String(instanceID)}))(t).InstanceAssociationStatusInfos
	if len(states) != 1 || *states[0].Status != "Failed" || *states[0].ExecutionSummary != "1 out of 1 plugin processed, 0 success, 1 failed, 0 timedout, 0 skipped. " {
		t.Errorf("%+v", states)
	}
	versions := testkit.Must(w.client.ListAssociationVersions(ctx, &awsssm.ListAssociationVersionsInput{AssociationId: &id}))(t).AssociationVersions
	if len(versions) != 2 || *versions[0].AssociationName != "dates" || versions[1].Parameters["commands"][0] != "fail" {
		t.Errorf("%+v", versions)
	}
	_, err := w.client.UpdateAssociation(ctx, &awsssm.UpdateAssociationInput{AssociationId: &id, AssociationVersion: aws.String("1")})
	testkit.WantError(t, err, "InvalidAssociationVersion", "")

	// It runs once more on request.
	testkit.Must(w.client.StartAssociationsOnce(ctx, &awsssm.StartAssociationsOnceInput{AssociationIds: []string{id}}))(t)
	w.becomes(t, id, "Failed[Failed:2]", 4)

	// Old runs are forgotten, but the latest one of each target is kept.
	for n := range 22 {
		testkit.Must(w.client.StartAssociationsOnce(ctx, &awsssm.StartAssociationsOnceInput{AssociationIds: []string{id}}))(t)
		w.becomes(t, id, "Failed[Failed:2]", min(5+n, 20))
	}

	tags := testkit.Must(w.client.ListTagsForResource(ctx, &awsssm.ListTagsForResourceInput{ResourceId: &id, ResourceType: ssmtypes.ResourceTypeForTaggingAssociation}))(t).TagList
	if len(tags) != 1 || *tags[0].Value != "shop" {
		t.Errorf("%+v", tags)
	}
	for key, value := range map[ssmtypes.AssociationFilterKey]string{"Name": "AWS-RunShellScript", "AssociationId": id, "AssociationStatusName": "Failed", "LastExecutedAfter": "2024-01-01T00:00:00Z"} {
		list := func(value string) int {
			return len(testkit.Must(w.client.ListAssociations(ctx, &awsssm.ListAssociationsInput{AssociationFilterList: []ssmtypes.AssociationFilter{{Key: key, Value: &value}}}))(t).Associations)
		}
		other := "other"
		if key == "LastExecutedAfter" {
			other = "2099-01-01T00:00:00Z"
		}
		if list(value) != 1 || list(other) != 0 {
			t.Errorf("the filter %s finds %d with %s and %d with %s", key, list(value), value, list(other), other)
		}
	}
	testkit.Must(w.client.DeleteAssociation(ctx, &awsssm.DeleteAssociationInput{AssociationId: &id}))(t)
	_, err = w.client.DescribeAssociation(ctx, &awsssm.DescribeAssociationInput{AssociationId: &id})
	testkit.WantError(t, err, "AssociationDoesNotExist", "")
	testkit.Eventually(t, 20*time.Second, func() error {
		if _, err := w.client.GetCommandInvocation(ctx, &awsssm.GetCommandInvocationInput{CommandId: command, InstanceId: aws.String("i-11111111")}); err == nil {
			return fmt.Errorf("the deleted association's command is still there")
		}
		return nil
	})
}

// TestScheduledAssociations moves a clock past the times when associations are due.
func TestScheduledAssociations(t *testing.T) {
	clock := clocktesting.NewFakeClock(time.Date(2026, 5, 4, 10, 59, 0, 0, time.UTC))
	w := newWorld(t, clock)
	every := w.associate(t, "date", func(in *awsssm.CreateAssociationInput) { in.ScheduleExpression = aws.String("rate(1 hour)") })
	waits := w.associate(t, "date", func(in *awsssm.CreateAssociationInput) {
		in.ScheduleExpression, in.ApplyOnlyAtCronInterval = aws.String("cron(0 0 12 ? * MON *)"), true
	})
	once := w.associate(t, "date", func(in *awsssm.CreateAssociationInput) {
		in.ScheduleExpression, in.ApplyOnlyAtCronInterval = aws.String("at(2026-05-04T11:30:00)"), true
	})
	later := w.associate(t, "date", func(in *awsssm.CreateAssociationInput) {
		in.ScheduleExpression, in.ApplyOnlyAtCronInterval, in.ScheduleOffset = aws.String("cron(0 12 ? * MON#1 *)"), true, aws.Int32(2)
	})
	missed := w.associate(t, "date", func(in *awsssm.CreateAssociationInput) {
		in.ScheduleExpression, in.ApplyOnlyAtCronInterval = aws.String("at(2020-05-04T11:30:00)"), true
	})
	want := func(at string, runs ...int) {
		t.Helper()
		moment, err := time.Parse("2 15:04", at)
		if err != nil {
			t.Fatal(err)
		}
		target := time.Date(2026, 5, moment.Day(), moment.Hour(), moment.Minute(), 0, 0, time.UTC)
		for i, id := range []string{every, waits, once, later, missed} {
			overview := "Success[Success:1]"
			if runs[i] == 0 {
				overview = "Pending[Pending:1]"
			}
			testkit.Eventually(t, 20*time.Second, func() error {
				if clock.Now().Before(target) {
					clock.SetTime(target)
				} else {
					clock.Step(100 * time.Millisecond) // calls that were still to come are not missed
				}
				if got, _ := w.overview(t, id); got != overview || len(w.runs(t, id)) != runs[i] {
					return fmt.Errorf("at %s, association %d is %s after %d runs, want %d", at, i, got, len(w.runs(t, id)), runs[i])
				}
				return nil
			})
		}
	}
	want("4 10:59", 1, 0, 0, 0, 1)
	want("4 11:29", 1, 0, 0, 0, 1)
	want("4 11:31", 1, 0, 1, 0, 1)
	want("4 12:01", 2, 1, 1, 0, 1)
	want("6 11:00", 3, 1, 1, 0, 1) // the daemon missed several times
	want("6 12:01", 4, 1, 1, 1, 1)
}

func TestRefusedAssociations(t *testing.T) {
	w := newWorld(t, nil)
	w.create(t, "greeting", "Command", greeting)
	create := func(fn func(*awsssm.CreateAssociationInput)) error {
		in := &awsssm.CreateAssociationInput{Name: aws.String("AWS-RunShellScript"), Parameters: map[string][]string{"commands": {"date"}}, InstanceId: aws.String(instanceID)}
		fn(in)
		_, err := w.client.CreateAssociation(t.Context(), in)
		return err
	}
	for code, fn := range map[string]func(*awsssm.CreateAssociationInput){
		"InvalidTarget": func(in *awsssm.CreateAssociationInput) { in.InstanceId = nil },
		"InvalidTarget ": func(in *awsssm.CreateAssociationInput) {
			in.Targets = []ssmtypes.Target{{Key: aws.String("tag:team"), Values: []string{"shop"}}}
		},
		"InvalidInstanceId": func(in *awsssm.CreateAssociationInput) { in.InstanceId = aws.String("i-22222222") },
		"InvalidDocument":   func(in *awsssm.CreateAssociationInput) { in.Name = aws.String("nothing") },
		"InvalidParameters": func(in *awsssm.CreateAssociationInput) { in.Parameters = map[string][]string{"other": {"x"}} },
		"InvalidSchedule":   func(in *awsssm.CreateAssociationInput) { in.ScheduleExpression = aws.String("rate(29 minutes)") },
		"InvalidSchedule ":  func(in *awsssm.CreateAssociationInput) { in.ApplyOnlyAtCronInterval = true },
		"InvalidSchedule  ": func(in *awsssm.CreateAssociationInput) {
			in.ScheduleExpression, in.ApplyOnlyAtCronInterval = aws.String("rate(1 hour)"), true
		},
		"NotImplemented": func(in *awsssm.CreateAssociationInput) { in.CalendarNames = []string{"mine"} },
	} {
		testkit.WantError(t, create(fn), strings.TrimSpace(code), "")
	}
	if err := create(func(*awsssm.CreateAssociationInput) {}); err != nil {
		t.Fatal(err)
	}
	testkit.WantError(t, create(func(*awsssm.CreateAssociationInput) {}), "AssociationAlreadyExists", "")
	d := testkit.Must(w.client.DescribeAssociation(t.Context(), &awsssm.DescribeAssociationInput{Name: aws.String("AWS-RunShellScript"), InstanceId: aws.String(instanceID)}))(t).AssociationDescription
	if d.Status == nil || *d.Status.Message != "Associated with AWS-RunShellScript" || string(d.Status.Name) != "Associated" {
		t.Errorf("%+v", d.Status)
	}
}

// TestBrokenAssociations checks that a run fails if its document has been deleted, and that a run that is too slow times
// out when the next one begins.
func TestBrokenAssociations(t *testing.T) {
	w := newWorld(t, nil)
	ctx := t.Context()
	w.create(t, "greeting", "Command", greeting)
	id := w.associate(t, "", func(in *awsssm.CreateAssociationInput) { in.Name, in.Parameters = aws.String("greeting"), nil })
	w.becomes(t, id, "Success[Success:1]", 1)
	testkit.Must(w.client.DeleteDocument(ctx, &awsssm.DeleteDocumentInput{Name: aws.String("greeting")}))(t)
	testkit.Must(w.client.StartAssociationsOnce(ctx, &awsssm.StartAssociationsOnceInput{AssociationIds: []string{id}}))(t)
	w.becomes(t, id, "Failed[Failed:1]", 2)

	slow := w.associate(t, "hang")
	w.becomes(t, slow, "Pending[InProgress:1]", 1)
	testkit.Must(w.client.UpdateAssociation(ctx, &awsssm.UpdateAssociationInput{AssociationId: &slow, Parameters: map[string][]string{"commands": {"date"}}}))(t)
	w.becomes(t, slow, "Success[Success:1]", 2)
	testkit.Eventually(t, 10*time.Second, func() error {
		if old := w.runs(t, slow)[1]; *old.DetailedStatus != "ExecutionTimedOut" {
			return fmt.Errorf("the first run is %s, %s", *old.Status, *old.DetailedStatus)
		}
		return nil
	})
}

// TestRightsToAssociate checks that associations are created only with documents and instances that policies allow.
func TestRightsToAssociate(t *testing.T) {
	w := newWorld(t, nil)
	for name, c := range map[string]struct {
		resources string
		refused   string
	}{
		"all":         {`"*"`, ""},
		"nodocument":  {`["arn:aws:ssm:*:*:association/*","arn:aws:ec2:*:*:instance/*"]`, "document/AWS-RunShellScript"},
		"noinstance":  {`["arn:aws:ssm:*:*:association/*","arn:aws:ssm:*:*:document/*"]`, "instance/" + instanceID},
		"association": {`["arn:aws:ssm:*:*:document/*","arn:aws:ec2:*:*:instance/*"]`, "association/*"},
	} {
		client := awsssm.NewFromConfig(w.AWSConfigWith(w.user(t, name, `{"Effect":"Allow","Action":"ssm:CreateAssociation","Resource":`+c.resources+`}`)))
		_, err := client.CreateAssociation(t.Context(), &awsssm.CreateAssociationInput{
			Name: aws.String("AWS-RunShellScript"), Parameters: map[string][]string{"commands": {"date"}}, Targets: []ssmtypes.Target{{Key: aws.String("InstanceIds"), Values: []string{instanceID}}},
		})
		if c.refused == "" {
			if err != nil {
				t.Errorf("%s: %v", name, err)
			}
			continue
		}
		testkit.WantErrorWith(t, err, "AccessDeniedException", c.refused)
	}
}
