package cloudtrail_test

import (
	"context"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	awscloudtrail "github.com/aws/aws-sdk-go-v2/service/cloudtrail"
	cloudtrailtypes "github.com/aws/aws-sdk-go-v2/service/cloudtrail/types"
	awsiam "github.com/aws/aws-sdk-go-v2/service/iam"

	"github.com/drydock-dev/drydock/internal/awsapi"
	"github.com/drydock-dev/drydock/internal/journal"
	"github.com/drydock-dev/drydock/internal/service/cloudtrail"
	"github.com/drydock-dev/drydock/internal/service/iam"
	"github.com/drydock-dev/drydock/internal/serviceevents/eventstest"
	"github.com/drydock-dev/drydock/internal/store"
	"github.com/drydock-dev/drydock/internal/testkit"
)

// newTrails returns a server and a bus that receives the calls that trails log.
func newTrails(t *testing.T) (*testkit.Server, *eventstest.Bus) {
	j, err := journal.Open(t.TempDir(), journal.Limits{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = j.Close() })
	bus, ready := &eventstest.Bus{}, make(chan *cloudtrail.Service, 1)
	s := testkit.NewServer(t, testkit.Config{Journal: j, Services: func(st *store.Store) []awsapi.Service {
		trail := cloudtrail.New(cloudtrail.Config{Store: st, Journal: j, Log: testkit.Log(t)})
		ready <- trail
		return []awsapi.Service{iam.New(iam.Config{Store: st}).AWS(), trail.AWS()}
	}})
	trail := <-ready
	testkit.Run(t, func(ctx context.Context) error { return trail.Events(ctx, bus) })
	return s, bus
}

// TestTrailsSendCallsToEventBridge checks that calls are sent only while a trail logs, and only if
// they change something.
func TestTrailsSendCallsToEventBridge(t *testing.T) {
	s, bus := newTrails(t)
	ctx, account := t.Context(), s.Account(t)
	people, trail := awsiam.NewFromConfig(s.AWSConfig(account)), awscloudtrail.NewFromConfig(s.AWSConfig(account))
	create := func(name string) {
		testkit.Must(people.CreateUser(ctx, &awsiam.CreateUserInput{UserName: &name}))(t)
	}
	create("before")
	testkit.Must(trail.CreateTrail(ctx, &awscloudtrail.CreateTrailInput{Name: aws.String("main"), S3BucketName: aws.String("logs"), IsMultiRegionTrail: aws.Bool(true)}))(t)
	create("not-logging")
	testkit.Must(trail.StartLogging(ctx, &awscloudtrail.StartLoggingInput{Name: aws.String("main")}))(t)
	create("ann")
	testkit.Must(people.GetUser(ctx, &awsiam.GetUserInput{UserName: aws.String("ann")}))(t)
	// Whether the call that starts logging is itself sent depends on a race.
	e := bus.Next(t, "AWS API Call via CloudTrail")
	if strings.Contains(string(e.Detail), `"StartLogging"`) {
		e = bus.Next(t, "AWS API Call via CloudTrail")
	}
	if e.Source != "aws.iam" || e.Account != account || e.Region != "us-east-1" || !strings.Contains(string(e.Detail), `"eventName":"CreateUser"`) || !strings.Contains(string(e.Detail), `"userName":"ann"`) {
		t.Errorf("%+v %s", e, e.Detail)
	}
	create("bob")
	if e := bus.Next(t, "AWS API Call via CloudTrail"); !strings.Contains(string(e.Detail), `"userName":"bob"`) {
		t.Errorf("%s", e.Detail)
	}
	other := s.Account(t)
	testkit.Must(awsiam.NewFromConfig(s.AWSConfig(other)).CreateUser(ctx, &awsiam.CreateUserInput{UserName: aws.String("foreign")}))(t)
	testkit.Must(trail.StopLogging(ctx, &awscloudtrail.StopLoggingInput{Name: aws.String("main")}))(t)
	create("after")
	testkit.Must(trail.StartLogging(ctx, &awscloudtrail.StartLoggingInput{Name: aws.String("main")}))(t)
	create("last")
	for {
		e := string(bus.Next(t, "AWS API Call via CloudTrail").Detail)
		if strings.Contains(e, `"userName":"last"`) {
			break
		}
		if strings.Contains(e, "foreign") {
			t.Error(e)
		}
	}
	if left := bus.Left(); len(left) > 0 {
		t.Errorf("besides: %q", left)
	}
}

func TestTrails(t *testing.T) {
	s, _ := newTrails(t)
	ctx, account := t.Context(), s.Account(t)
	c := awscloudtrail.NewFromConfig(s.AWSConfig(account))
	made := testkit.Must(c.CreateTrail(ctx, &awscloudtrail.CreateTrailInput{
		Name: aws.String("main"), S3BucketName: aws.String("logs"), S3KeyPrefix: aws.String("ct"), TagsList: []cloudtrailtypes.Tag{{Key: aws.String("team"), Value: aws.String("a")}},
	}))(t)
	name := "arn:aws:cloudtrail:us-east-1:" + account + ":trail/main"
	if *made.TrailARN != name || !*made.IncludeGlobalServiceEvents || *made.IsMultiRegionTrail {
		t.Errorf("%+v", made)
	}
	status := func() *awscloudtrail.GetTrailStatusOutput {
		return testkit.Must(c.GetTrailStatus(ctx, &awscloudtrail.GetTrailStatusInput{Name: &name}))(t)
	}
	if st := status(); *st.IsLogging || st.StartLoggingTime != nil {
		t.Errorf("%+v", st)
	}
	testkit.Must(c.StartLogging(ctx, &awscloudtrail.StartLoggingInput{Name: &name}))(t)
	if st := status(); !*st.IsLogging || st.StartLoggingTime == nil {
		t.Errorf("%+v", st)
	}
	testkit.Must(c.UpdateTrail(ctx, &awscloudtrail.UpdateTrailInput{Name: &name, IsMultiRegionTrail: aws.Bool(true)}))(t)
	if got := testkit.Must(c.GetTrail(ctx, &awscloudtrail.GetTrailInput{Name: aws.String("main")}))(t).Trail; !*got.IsMultiRegionTrail || *got.S3BucketName != "logs" || *got.S3KeyPrefix != "ct" || *got.HomeRegion != "us-east-1" {
		t.Errorf("%+v", got)
	}
	// Another region sees the trail's shadow, but cannot change it.
	cfg := s.AWSConfig(account)
	cfg.Region = "eu-west-1"
	abroad := awscloudtrail.NewFromConfig(cfg)
	if all := testkit.Must(abroad.DescribeTrails(ctx, nil))(t).TrailList; len(all) != 1 || *all[0].TrailARN != name {
		t.Errorf("%+v", all)
	}
	if all := testkit.Must(abroad.DescribeTrails(ctx, &awscloudtrail.DescribeTrailsInput{IncludeShadowTrails: aws.Bool(false)}))(t).TrailList; len(all) != 0 {
		t.Errorf("%+v", all)
	}
	if all := testkit.Must(abroad.ListTrails(ctx, nil))(t).Trails; len(all) != 1 || *all[0].HomeRegion != "us-east-1" {
		t.Errorf("%+v", all)
	}
	_, err := abroad.DeleteTrail(ctx, &awscloudtrail.DeleteTrailInput{Name: &name})
	testkit.WantError(t, err, "InvalidHomeRegionException", "The trail "+name+" was created in the region us-east-1 and can only be changed there, not in eu-west-1.")

	testkit.Must(c.AddTags(ctx, &awscloudtrail.AddTagsInput{ResourceId: &name, TagsList: []cloudtrailtypes.Tag{{Key: aws.String("env"), Value: aws.String("x")}}}))(t)
	testkit.Must(c.RemoveTags(ctx, &awscloudtrail.RemoveTagsInput{ResourceId: &name, TagsList: []cloudtrailtypes.Tag{{Key: aws.String("team")}}}))(t)
	if tags := testkit.Must(c.ListTags(ctx, &awscloudtrail.ListTagsInput{ResourceIdList: []string{name}}))(t).ResourceTagList[0].TagsList; len(tags) != 1 || *tags[0].Key != "env" {
		t.Errorf("%+v", tags)
	}
	if sel := testkit.Must(c.GetEventSelectors(ctx, &awscloudtrail.GetEventSelectorsInput{TrailName: &name}))(t).EventSelectors; len(sel) != 1 || !*sel[0].IncludeManagementEvents {
		t.Errorf("%+v", sel)
	}

	_, err = c.CreateTrail(ctx, &awscloudtrail.CreateTrailInput{Name: aws.String("main"), S3BucketName: aws.String("logs")})
	testkit.WantError(t, err, "TrailAlreadyExistsException", "Trail main already exists for customer: "+account)
	_, err = c.CreateTrail(ctx, &awscloudtrail.CreateTrailInput{Name: aws.String("x"), S3BucketName: aws.String("logs")})
	testkit.WantError(t, err, "InvalidTrailNameException", "Trail name too short. Minimum allowed length: 3 characters. Specified name length: 1 characters.")
	_, err = c.CreateTrail(ctx, &awscloudtrail.CreateTrailInput{Name: aws.String("all"), S3BucketName: aws.String("logs"), IsMultiRegionTrail: aws.Bool(true), IncludeGlobalServiceEvents: aws.Bool(false)})
	testkit.WantError(t, err, "InvalidParameterCombinationException", "Multi-Region trail must include global service events.")
	testkit.Must(c.DeleteTrail(ctx, &awscloudtrail.DeleteTrailInput{Name: aws.String("main")}))(t)
	_, err = c.GetTrail(ctx, &awscloudtrail.GetTrailInput{Name: aws.String("main")})
	testkit.WantError(t, err, "TrailNotFoundException", "Unknown trail: "+name+" for the user: "+account)
}
