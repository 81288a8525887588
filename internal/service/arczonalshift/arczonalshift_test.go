package arczonalshift_test

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	awsshift "github.com/aws/aws-sdk-go-v2/service/arczonalshift"
	shifttypes "github.com/aws/aws-sdk-go-v2/service/arczonalshift/types"
	awsiam "github.com/aws/aws-sdk-go-v2/service/iam"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/drydock-dev/drydock/internal/authz"
	"github.com/drydock-dev/drydock/internal/awsapi"
	"github.com/drydock-dev/drydock/internal/awsapi/sigv4"
	"github.com/drydock-dev/drydock/internal/service/arczonalshift"
	"github.com/drydock-dev/drydock/internal/service/iam"
	"github.com/drydock-dev/drydock/internal/store"
	"github.com/drydock-dev/drydock/internal/testkit"
)

// A world is an AWS API server with IAM and ARC behind it, an account's root user, and two managed clusters.
type world struct {
	*testkit.Server
	t       *testing.T
	account string
	arc     *arczonalshift.Service
	c       *awsshift.Client
	clock   *clocktesting.FakePassiveClock
	created time.Time // when the clusters were created
}

func newWorld(t *testing.T, endpoint string) *world {
	w := &world{t: t, clock: clocktesting.NewFakePassiveClock(time.Now().Truncate(time.Second))}
	w.created = w.clock.Now()
	var users *iam.Service
	var authorizer *authz.Authorizer
	w.Server = testkit.NewServer(t, testkit.Config{
		Services: func(st *store.Store) []awsapi.Service {
			users = iam.New(iam.Config{Store: st, Log: testkit.Log(t)})
			w.arc = arczonalshift.New(arczonalshift.Config{Store: st, Clock: w.clock})
			authorizer = authz.New(authz.Config{
				Services: []awsapi.Service{users.AWS(), w.arc.AWS()},
				Policies: users.PoliciesOf, Resolvers: map[string]authz.Resolver{"iam": users.Authz()}, Store: st,
				EndpointPolicy: func(context.Context, string, string, string) (string, bool) { return endpoint, true },
			})
			m := w.arc.Module(w.resources)
			authorizer.Register("arczonalshift", m.Resolver)
			return []awsapi.Service{users.AWS(), m.Service}
		},
		Lookup: func(ctx context.Context, key, _ string) (sigv4.Credential, error) {
			secret, p, err := users.LookupAccessKey(ctx, key)
			if err != nil {
				return sigv4.Credential{}, sigv4.ErrUnknownKey
			}
			return sigv4.Credential{SecretKey: secret, Principal: p}, nil
		},
		Origin: func(string) (awsapi.VPCEndpoint, netip.Addr) {
			if endpoint == "" {
				return awsapi.VPCEndpoint{}, netip.Addr{}
			}
			return awsapi.VPCEndpoint{ID: "vpce-0123456789abcdef0", VPCID: "vpc-0123456789abcdef0"}, netip.MustParseAddr("10.0.0.5")
		},
		AuthorizeInput: func(ctx context.Context, call *awsapi.Call, in any) error { return authorizer.Authorize(ctx, call, in) },
	})
	w.account = w.Account(t)
	w.c = awsshift.NewFromConfig(w.AWSConfig(w.account))
	return w
}

func (w *world) resources(string, string) []arczonalshift.Resource {
	var out []arczonalshift.Resource
	for _, name := range []string{"dev", "prod"} {
		out = append(out, arczonalshift.Resource{
			ARN: *w.cluster(name), Name: name, Created: w.created, Tags: map[string]string{"team": name},
			Zones: func(context.Context) ([]string, error) { return []string{"use1-az1", "use1-az2"}, nil },
		})
	}
	return out
}

func (w *world) cluster(name string) *string {
	return aws.String("arn:aws:eks:" + testkit.Region + ":" + w.account + ":cluster/" + name)
}

// user returns a client of a new user with an inline policy.
func (w *world) user(name, policy string) *awsshift.Client {
	c := awsiam.NewFromConfig(w.AWSConfig(w.account))
	testkit.Must(c.CreateUser(w.t.Context(), &awsiam.CreateUserInput{UserName: &name}))(w.t)
	testkit.Must(c.PutUserPolicy(w.t.Context(), &awsiam.PutUserPolicyInput{UserName: &name, PolicyName: aws.String("p"), PolicyDocument: &policy}))(w.t)
	key := testkit.Must(c.CreateAccessKey(w.t.Context(), &awsiam.CreateAccessKeyInput{UserName: &name}))(w.t).AccessKey
	cfg := w.AWSConfig(w.account)
	cfg.Credentials = credentials.NewStaticCredentialsProvider(*key.AccessKeyId, *key.SecretAccessKey, "")
	return awsshift.NewFromConfig(cfg)
}

func (w *world) start(cluster, zone, expires string) (*awsshift.StartZonalShiftOutput, error) {
	return w.c.StartZonalShift(w.t.Context(), &awsshift.StartZonalShiftInput{ResourceIdentifier: w.cluster(cluster), AwayFrom: &zone, ExpiresIn: &expires, Comment: aws.String("why")})
}

func (w *world) describe(cluster string) string {
	w.t.Helper()
	out := testkit.Must(w.c.GetManagedResource(w.t.Context(), &awsshift.GetManagedResourceInput{ResourceIdentifier: w.cluster(cluster)}))(w.t)
	text := fmt.Sprint(*out.Name, out.AppliedWeights, out.ZonalAutoshiftStatus)
	for _, sh := range out.ZonalShifts {
		text += fmt.Sprint(" ", *sh.AwayFrom, " ", sh.AppliedStatus, " ", sh.ExpiryTime.Sub(*sh.StartTime), " ", *sh.Comment)
	}
	return text
}

func TestShift(t *testing.T) {
	w := newWorld(t, "")
	const calm = "devmap[use1-az1:1 use1-az2:1]DISABLED"
	if got := w.describe("dev"); got != calm {
		t.Error(got)
	}
	sh := testkit.Must(w.start("dev", "use1-az1", "90m"))(t)
	const shifted = "devmap[use1-az1:0 use1-az2:1]DISABLED use1-az1 APPLIED 1h30m0s why"
	if got := w.describe("dev"); sh.Status != shifttypes.ZonalShiftStatusActive || got != shifted {
		t.Error(sh.Status, got)
	}
	_, err := w.start("dev", "use1-az2", "1h")
	var conflict *shifttypes.ConflictException
	if !errors.As(err, &conflict) || conflict.Reason != shifttypes.ConflictExceptionReasonZonalShiftAlreadyExists || aws.ToString(conflict.ZonalShiftId) != *sh.ZonalShiftId {
		t.Errorf("%v", err)
	}
	other := testkit.Must(w.start("prod", "use1-az2", "1m"))(t)
	list := testkit.Must(w.c.ListManagedResources(t.Context(), &awsshift.ListManagedResourcesInput{MaxResults: aws.Int32(1)}))(t)
	if len(list.Items) != 1 || list.Items[0].AppliedWeights["use1-az1"] != 0 || list.NextToken == nil || len(list.Items[0].AvailabilityZones) != 2 {
		t.Errorf("%+v", list.Items)
	}
	if list = testkit.Must(w.c.ListManagedResources(t.Context(), &awsshift.ListManagedResourcesInput{NextToken: list.NextToken}))(t); len(list.Items) != 1 || *list.Items[0].Name != "prod" {
		t.Errorf("%+v", list.Items)
	}

	// The end is counted from the update. It passes without anybody's doing.
	w.clock.SetTime(w.clock.Now().Add(time.Hour))
	up := testkit.Must(w.c.UpdateZonalShift(t.Context(), &awsshift.UpdateZonalShiftInput{ZonalShiftId: sh.ZonalShiftId, ExpiresIn: aws.String("2h"), Comment: aws.String("still")}))(t)
	if got := w.describe("dev"); !strings.HasSuffix(got, "APPLIED 3h0m0s still") || up.ExpiryTime.Sub(*up.StartTime) != 3*time.Hour {
		t.Error(got)
	}
	_, err = w.c.CancelZonalShift(t.Context(), &awsshift.CancelZonalShiftInput{ZonalShiftId: other.ZonalShiftId})
	if !errors.As(err, &conflict) || conflict.Reason != shifttypes.ConflictExceptionReasonZonalShiftStatusNotActive {
		t.Errorf("%v", err)
	}
	// Another instance of the service, as after a crash, knows the same. A new cluster of the same name is not shifted.
	again := arczonalshift.New(arczonalshift.Config{Store: w.Store, Clock: w.clock})
	if zone, until := again.Zone(*w.cluster("dev"), w.created); zone != "use1-az1" || !until.Equal(*up.ExpiryTime) {
		t.Error(zone, until)
	}
	if zone, _ := again.Zone(*w.cluster("dev"), w.clock.Now()); zone != "" {
		t.Error(zone)
	}
	if out := testkit.Must(w.c.CancelZonalShift(t.Context(), &awsshift.CancelZonalShiftInput{ZonalShiftId: sh.ZonalShiftId}))(t); out.Status != shifttypes.ZonalShiftStatusCanceled {
		t.Error(out.Status)
	}
	if got := w.describe("dev"); got != calm {
		t.Error(got)
	}
	for status, want := range map[shifttypes.ZonalShiftStatus]string{"": *sh.ZonalShiftId + *other.ZonalShiftId, "ACTIVE": "", "EXPIRED": *other.ZonalShiftId, "CANCELED": *sh.ZonalShiftId} {
		got := ""
		for _, i := range testkit.Must(w.c.ListZonalShifts(t.Context(), &awsshift.ListZonalShiftsInput{Status: status}))(t).Items {
			got += *i.ZonalShiftId
		}
		if len(got) != len(want) || status != "" && got != want {
			t.Errorf("%s: %s", status, got)
		}
	}
	w.clock.SetTime(w.clock.Now().Add(40 * 24 * time.Hour))
	testkit.Must(w.start("dev", "use1-az1", "1m"))(t)
	if all := testkit.Must(w.c.ListZonalShifts(t.Context(), &awsshift.ListZonalShiftsInput{ResourceIdentifier: w.cluster("dev")}))(t); len(all.Items) != 1 {
		t.Errorf("%+v", all.Items)
	}
}

func TestRefused(t *testing.T) {
	w := newWorld(t, "")
	for _, c := range []struct {
		cluster, zone, expires, code string
		reason                       shifttypes.ValidationExceptionReason
	}{
		{"dev", "use1-az1", "73h", "ValidationException", "InvalidExpiresIn"},
		{"dev", "use1-az1", "4321m", "ValidationException", "InvalidExpiresIn"},
		{"dev", "use1-az1", "1d", "ValidationException", ""},
		{"dev", "use1-az1", "0h", "ValidationException", ""},
		{"dev", "us-east-1a", "1h", "ValidationException", "InvalidAz"},
		{"dev", "euw1-az1", "1h", "ValidationException", "InvalidAz"},
		{"dev", "use1-az3", "1h", "ValidationException", "UnsupportedAz"},
		{"none", "use1-az1", "1h", "ResourceNotFoundException", ""},
	} {
		_, err := w.start(c.cluster, c.zone, c.expires)
		testkit.WantError(t, err, c.code, "…")
		var v *shifttypes.ValidationException
		if c.reason != "" && (!errors.As(err, &v) || v.Reason != c.reason) {
			t.Errorf("%+v: %v", c, err)
		}
	}
	_, err := w.c.GetManagedResource(t.Context(), &awsshift.GetManagedResourceInput{ResourceIdentifier: aws.String("my-cluster")})
	testkit.WantError(t, err, "ValidationException", "…")
	_, err = w.c.CancelZonalShift(t.Context(), &awsshift.CancelZonalShiftInput{ZonalShiftId: aws.String("00000000-0000-0000-0000-000000000000")})
	testkit.WantError(t, err, "ResourceNotFoundException", "…")
	_, err = w.c.ListZonalShifts(t.Context(), &awsshift.ListZonalShiftsInput{NextToken: aws.String("x")})
	testkit.WantError(t, err, "ValidationException", "…")
	_, err = w.c.ListAutoshifts(t.Context(), &awsshift.ListAutoshiftsInput{})
	testkit.WantError(t, err, "NotImplemented", "…")
}

// Policies name the cluster in the condition key, as Karpenter's, or as the resource, as the Terraform module's.
func TestPolicies(t *testing.T) {
	w := newWorld(t, "")
	byKey := w.user("key", `{"Version":"2012-10-17","Statement":[{"Effect":"Allow","Action":"arc-zonal-shift:GetManagedResource","Resource":"*","Condition":{"StringEquals":{"arc-zonal-shift:ResourceIdentifier":"`+*w.cluster("dev")+`"}}}]}`)
	byARN := w.user("arn", `{"Version":"2012-10-17","Statement":[{"Effect":"Allow","Action":"arc-zonal-shift:*","Resource":"`+*w.cluster("dev")+`"}]}`)
	byTag := w.user("tag", `{"Version":"2012-10-17","Statement":[{"Effect":"Allow","Action":"arc-zonal-shift:Get*","Resource":"*","Condition":{"StringEquals":{"aws:ResourceTag/team":"dev"}}}]}`)
	for _, c := range []*awsshift.Client{byKey, byARN, byTag} {
		testkit.Must(c.GetManagedResource(t.Context(), &awsshift.GetManagedResourceInput{ResourceIdentifier: w.cluster("dev")}))(t)
		_, err := c.GetManagedResource(t.Context(), &awsshift.GetManagedResourceInput{ResourceIdentifier: w.cluster("prod")})
		testkit.WantErrorWith(t, err, "AccessDeniedException", "is not authorized to perform: arc-zonal-shift:GetManagedResource on resource: "+*w.cluster("prod"))
	}
	// A shift is authorized on its resource.
	mine, others := testkit.Must(w.start("dev", "use1-az1", "1h"))(t), testkit.Must(w.start("prod", "use1-az1", "1h"))(t)
	testkit.Must(byARN.CancelZonalShift(t.Context(), &awsshift.CancelZonalShiftInput{ZonalShiftId: mine.ZonalShiftId}))(t)
	_, err := byARN.CancelZonalShift(t.Context(), &awsshift.CancelZonalShiftInput{ZonalShiftId: others.ZonalShiftId})
	testkit.WantErrorWith(t, err, "AccessDeniedException", "arc-zonal-shift:CancelZonalShift on resource: "+*w.cluster("prod"))

	w = newWorld(t, `{"Version":"2012-10-17","Statement":[{"Effect":"Allow","Principal":"*","Action":"arc-zonal-shift:List*","Resource":"*"}]}`)
	testkit.Must(w.c.ListZonalShifts(t.Context(), &awsshift.ListZonalShiftsInput{}))(t)
	_, err = w.start("dev", "use1-az1", "1h")
	testkit.WantErrorWith(t, err, "AccessDeniedException", "arc-zonal-shift:StartZonalShift")
}
