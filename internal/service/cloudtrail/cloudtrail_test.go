package cloudtrail_test

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	awscloudtrail "github.com/aws/aws-sdk-go-v2/service/cloudtrail"
	cloudtrailtypes "github.com/aws/aws-sdk-go-v2/service/cloudtrail/types"
	awsiam "github.com/aws/aws-sdk-go-v2/service/iam"
	"github.com/aws/smithy-go"

	"github.com/drydock-dev/drydock/internal/awsapi"
	"github.com/drydock-dev/drydock/internal/journal"
	"github.com/drydock-dev/drydock/internal/service/cloudtrail"
	"github.com/drydock-dev/drydock/internal/service/iam"
	"github.com/drydock-dev/drydock/internal/store"
	"github.com/drydock-dev/drydock/internal/testkit"
)

func newServer(t *testing.T) *testkit.Server {
	j, err := journal.Open(t.TempDir(), journal.Limits{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = j.Close() })
	return testkit.NewServer(t, testkit.Config{Journal: j, Services: func(st *store.Store) []awsapi.Service {
		return []awsapi.Service{iam.New(iam.Config{Store: st}).AWS(), cloudtrail.New(cloudtrail.Config{Journal: j}).AWS()}
	}})
}

// TestLargeEvents checks that parameters over 100 KB are omitted, with their size and the reason,
// while the rest of the event is kept. An IAM policy can be that large because of its white space.
func TestLargeEvents(t *testing.T) {
	s := newServer(t)
	ctx, account := t.Context(), s.Account(t)
	people, trail := awsiam.NewFromConfig(s.AWSConfig(account)), awscloudtrail.NewFromConfig(s.AWSConfig(account))
	for name, size := range map[string]int{"small": 90 << 10, "large": 110 << 10} {
		document := strings.Replace(`{"Version":"2012-10-17","Statement":[{"Effect":"Allow","Action":"*","Resource":"*"}]}`, ":", ":"+strings.Repeat(" ", size), 1)
		if _, err := people.CreatePolicy(ctx, &awsiam.CreatePolicyInput{PolicyName: &name, PolicyDocument: &document}); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := people.DeleteUser(ctx, &awsiam.DeleteUserInput{UserName: aws.String("nobody")}); err == nil {
		t.Fatal("nobody was deleted")
	}
	out, err := trail.LookupEvents(ctx, nil)
	if err != nil || len(out.Events) != 3 {
		t.Fatalf("%+v, %v; want 3 events", out, err)
	}
	for _, e := range out.Events {
		var event struct {
			ErrorCode         string
			RequestParameters struct {
				PolicyName, PolicyDocument, Reason string
				Omitted                            bool
				OriginalSize                       int
			}
			ResponseElements struct{ Policy struct{ PolicyName string } }
		}
		if err := json.Unmarshal([]byte(*e.CloudTrailEvent), &event); err != nil {
			t.Fatal(err)
		}
		switch r := event.RequestParameters; {
		case *e.EventName == "DeleteUser": // the exception's name, not the code on the wire
			if event.ErrorCode != "NoSuchEntityException" {
				t.Errorf("%s", *e.CloudTrailEvent)
			}
		case event.ResponseElements.Policy.PolicyName == "small":
			if r.Omitted || len(r.PolicyDocument) < 90<<10 || r.PolicyName != "small" {
				t.Errorf("the small event: omitted %v, %d bytes of policy", r.Omitted, len(r.PolicyDocument))
			}
		case event.ResponseElements.Policy.PolicyName == "large":
			if !r.Omitted || r.OriginalSize < 110<<10 || r.Reason != "requestParameters too large" || r.PolicyDocument != "" {
				t.Errorf("the large event: %.300s", *e.CloudTrailEvent)
			}
		default:
			t.Errorf("unexpected %.300s", *e.CloudTrailEvent)
		}
	}
}

func TestLookupEvents(t *testing.T) {
	s := newServer(t)
	ctx, account := t.Context(), s.Account(t)
	people := awsiam.NewFromConfig(s.AWSConfig(account))
	for _, name := range []string{"ann", "bob", "cid"} {
		if _, err := people.CreateUser(ctx, &awsiam.CreateUserInput{UserName: &name}); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := people.DeleteUser(ctx, &awsiam.DeleteUserInput{UserName: aws.String("bob")}); err != nil {
		t.Fatal(err)
	}
	if _, err := people.CreateUser(ctx, &awsiam.CreateUserInput{UserName: aws.String("ann")}); err == nil {
		t.Fatal("ann twice")
	}
	trail := awscloudtrail.NewFromConfig(s.AWSConfig(account))
	all, err := trail.LookupEvents(ctx, nil)
	if err != nil || len(all.Events) != 5 || *all.Events[0].EventName != "CreateUser" || *all.Events[1].EventName != "DeleteUser" {
		t.Fatalf("%+v, %v; want 5 events, newest first", all, err)
	}
	type key = cloudtrailtypes.LookupAttributeKey
	for _, tt := range []struct {
		key   key
		value string
		want  int
	}{
		{cloudtrailtypes.LookupAttributeKeyEventId, *all.Events[3].EventId, 1},
		{cloudtrailtypes.LookupAttributeKeyEventName, "CreateUser", 4},
		{cloudtrailtypes.LookupAttributeKeyEventName, "createuser", 0},
		{cloudtrailtypes.LookupAttributeKeyReadOnly, "false", 5},
		{cloudtrailtypes.LookupAttributeKeyReadOnly, "true", 0},
		{cloudtrailtypes.LookupAttributeKeyUsername, "root", 5},
		{cloudtrailtypes.LookupAttributeKeyResourceType, "AWS::IAM::User", 5},
		{cloudtrailtypes.LookupAttributeKeyResourceName, "bob", 2},
		{cloudtrailtypes.LookupAttributeKeyEventSource, "iam.amazonaws.com", 5},
		{cloudtrailtypes.LookupAttributeKeyAccessKeyId, account, 5},
	} {
		t.Run(string(tt.key)+" "+tt.value, func(t *testing.T) {
			out, err := trail.LookupEvents(ctx, &awscloudtrail.LookupEventsInput{LookupAttributes: []cloudtrailtypes.LookupAttribute{{AttributeKey: tt.key, AttributeValue: &tt.value}}})
			if err != nil || len(out.Events) != tt.want {
				t.Errorf("%d events, %v; want %d", len(out.Events), err, tt.want)
			}
		})
	}
	if out, err := awscloudtrail.NewFromConfig(s.AWSConfig(s.Account(t))).LookupEvents(ctx, nil); err != nil || len(out.Events) != 0 {
		t.Errorf("another account sees %d events, %v", len(out.Events), err)
	}
	if out, err := trail.LookupEvents(ctx, &awscloudtrail.LookupEventsInput{EndTime: aws.Time(time.Now().Add(-time.Hour))}); err != nil || len(out.Events) != 0 {
		t.Errorf("%d events of an hour ago, %v", len(out.Events), err)
	}
	attributes := func(keys ...key) []cloudtrailtypes.LookupAttribute {
		var out []cloudtrailtypes.LookupAttribute
		for _, k := range keys {
			out = append(out, cloudtrailtypes.LookupAttribute{AttributeKey: k, AttributeValue: aws.String("x")})
		}
		return out
	}
	page, err := trail.LookupEvents(ctx, &awscloudtrail.LookupEventsInput{MaxResults: aws.Int32(2)})
	if err != nil || len(page.Events) != 2 || page.NextToken == nil {
		t.Fatalf("%+v, %v", page, err)
	}
	for name, tt := range map[string]struct {
		in   awscloudtrail.LookupEventsInput
		code string
	}{
		"two attributes":          {awscloudtrail.LookupEventsInput{LookupAttributes: attributes("EventName", "Username")}, "InvalidLookupAttributesException"},
		"an unknown attribute":    {awscloudtrail.LookupEventsInput{LookupAttributes: attributes("Colour")}, "InvalidLookupAttributesException"},
		"too many results":        {awscloudtrail.LookupEventsInput{MaxResults: aws.Int32(51)}, "InvalidMaxResultsException"},
		"an end before the start": {awscloudtrail.LookupEventsInput{StartTime: aws.Time(time.Now()), EndTime: aws.Time(time.Now().Add(-time.Hour))}, "InvalidTimeRangeException"},
		"a foreign token":         {awscloudtrail.LookupEventsInput{NextToken: aws.String("x")}, "InvalidNextTokenException"},
		"another request's token": {awscloudtrail.LookupEventsInput{NextToken: page.NextToken, LookupAttributes: attributes("EventName")}, "InvalidNextTokenException"},
		"a member nobody honours": {awscloudtrail.LookupEventsInput{EventCategory: "insight"}, "NotImplemented"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := trail.LookupEvents(ctx, &tt.in)
			var api smithy.APIError
			if !errors.As(err, &api) || api.ErrorCode() != tt.code {
				t.Errorf("%v, want %s", err, tt.code)
			}
		})
	}
}
