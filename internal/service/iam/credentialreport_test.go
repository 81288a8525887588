package iam_test

import (
	"encoding/csv"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	awsiam "github.com/aws/aws-sdk-go-v2/service/iam"
	iamtypes "github.com/aws/aws-sdk-go-v2/service/iam/types"
	"github.com/google/go-cmp/cmp"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/drydock-dev/drydock/internal/testkit"
)

func TestCredentialReport(t *testing.T) {
	clock := clocktesting.NewFakeClock(time.Date(2026, 5, 4, 10, 0, 0, 0, time.UTC))
	w := newWorldAt(t, clock)
	ctx := t.Context()
	c, account := w.root(t)
	_, err := c.GetCredentialReport(ctx, &awsiam.GetCredentialReportInput{})
	testkit.WantError(t, err, "ReportNotPresent", "")
	check(t, errorOf(c.UpdateAccountPasswordPolicy(ctx, &awsiam.UpdateAccountPasswordPolicyInput{MaxPasswordAge: aws.Int32(90)})))
	for _, name := range []string{"zoe", "ann"} {
		check(t, errorOf(c.CreateUser(ctx, &awsiam.CreateUserInput{UserName: &name, Path: aws.String("/team/")})))
	}
	ann := aws.String("ann")
	check(t, errorOf(c.CreateLoginProfile(ctx, &awsiam.CreateLoginProfileInput{UserName: ann, Password: aws.String("Secret-1234")})))
	first := testkit.Must(c.CreateAccessKey(ctx, &awsiam.CreateAccessKeyInput{UserName: ann}))(t).AccessKey
	clock.Step(time.Hour)
	second := testkit.Must(c.CreateAccessKey(ctx, &awsiam.CreateAccessKeyInput{UserName: ann}))(t).AccessKey
	check(t, errorOf(c.UpdateAccessKey(ctx, &awsiam.UpdateAccessKeyInput{UserName: ann, AccessKeyId: second.AccessKeyId, Status: iamtypes.StatusTypeInactive})))
	check(t, errorOf(c.UpdateLoginProfile(ctx, &awsiam.UpdateLoginProfileInput{UserName: ann, Password: aws.String("Secret-5678")})))
	_, err = w.as(*first.AccessKeyId, *first.SecretAccessKey).GetUser(ctx, &awsiam.GetUserInput{})
	testkit.WantError(t, err, "AccessDenied", "")

	if out := testkit.Must(c.GenerateCredentialReport(ctx, &awsiam.GenerateCredentialReportInput{}))(t); out.State != "STARTED" || *out.Description != "No report exists. Starting a new report generation task" {
		t.Errorf("%+v", out)
	}
	if out := testkit.Must(c.GenerateCredentialReport(ctx, &awsiam.GenerateCredentialReportInput{}))(t); out.State != "COMPLETE" || out.Description != nil {
		t.Errorf("%+v", out)
	}
	report := func() [][]string {
		out := testkit.Must(c.GetCredentialReport(ctx, &awsiam.GetCredentialReportInput{}))(t)
		return testkit.Must(csv.NewReader(strings.NewReader(string(out.Content))).ReadAll())(t)
	}
	rows := report()
	if len(rows) != 4 || len(rows[0]) != 22 || rows[0][0] != "user" {
		t.Fatalf("%q", rows)
	}
	const none = "false,N/A,N/A,N/A,N/A"
	used := rows[2][10] // by the clock of the requests
	if _, err := time.Parse("2006-01-02T15:04:05+00:00", used); err != nil {
		t.Error(err)
	}
	created := rows[1][2]
	for i, want := range []string{
		"<root_account>,arn:aws:iam::" + account + ":root," + created + ",not_supported,no_information,not_supported,not_supported,false," + none + "," + none + ",false,N/A,false,N/A",
		"ann,arn:aws:iam::" + account + ":user/team/ann,2026-05-04T10:00:00+00:00,true,no_information,2026-05-04T11:00:00+00:00,2026-08-02T11:00:00+00:00,false," +
			"true,2026-05-04T10:00:00+00:00," + used + ",us-east-1,iam,false,2026-05-04T11:00:00+00:00,N/A,N/A,N/A,false,N/A,false,N/A",
		"zoe,arn:aws:iam::" + account + ":user/team/zoe,2026-05-04T10:00:00+00:00,false,N/A,N/A,N/A,false," + none + "," + none + ",false,N/A,false,N/A",
	} {
		if diff := cmp.Diff(want, strings.Join(rows[i+1], ",")); diff != "" {
			t.Errorf("(-want +got)\n%s", diff)
		}
	}

	// The report stays as it is until it expires.
	check(t, errorOf(c.DeleteUser(ctx, &awsiam.DeleteUserInput{UserName: aws.String("zoe")})))
	if len(report()) != 4 {
		t.Error("the report has changed")
	}
	clock.Step(4 * time.Hour)
	_, err = c.GetCredentialReport(ctx, &awsiam.GetCredentialReportInput{})
	testkit.WantError(t, err, "ReportExpired", "")
	check(t, errorOf(c.GenerateCredentialReport(ctx, &awsiam.GenerateCredentialReportInput{})))
	if len(report()) != 3 {
		t.Error("the report is not a new one")
	}
}

// errorOf returns the error of a call whose result does not matter.
func errorOf[T any](_ T, err error) error { return err }
