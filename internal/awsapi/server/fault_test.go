package server_test

import (
	"context"
	"errors"
	"net/http"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	awshttp "github.com/aws/aws-sdk-go-v2/aws/transport/http"
	awsec2 "github.com/aws/aws-sdk-go-v2/service/ec2"
	awseks "github.com/aws/aws-sdk-go-v2/service/eks"
	awsiam "github.com/aws/aws-sdk-go-v2/service/iam"
	awsssm "github.com/aws/aws-sdk-go-v2/service/ssm"
	"github.com/aws/smithy-go"
	"github.com/google/go-cmp/cmp"

	"github.com/drydock-dev/drydock/internal/awsapi"
	"github.com/drydock-dev/drydock/internal/fault"
	"github.com/drydock-dev/drydock/internal/journal"
	"github.com/drydock-dev/drydock/internal/store"
	"github.com/drydock-dev/drydock/internal/testkit"
)

// wellServices answer one operation of each protocol.
type (
	wellEC2 struct{ calls int }
	wellEKS struct{}
	wellIAM struct{}
	wellSSM struct{}
)

func (s *wellEC2) DescribeVpcs(context.Context, *awsec2.DescribeVpcsInput) (*awsec2.DescribeVpcsOutput, error) {
	s.calls++
	return &awsec2.DescribeVpcsOutput{}, nil
}
func (wellEKS) ListClusters(context.Context, *awseks.ListClustersInput) (*awseks.ListClustersOutput, error) {
	return &awseks.ListClustersOutput{Clusters: []string{}}, nil
}
func (wellIAM) ListRoles(context.Context, *awsiam.ListRolesInput) (*awsiam.ListRolesOutput, error) {
	return &awsiam.ListRolesOutput{}, nil
}
func (wellSSM) GetParameters(context.Context, *awsssm.GetParametersInput) (*awsssm.GetParametersOutput, error) {
	return &awsssm.GetParametersOutput{}, nil
}

type faultWorld struct {
	set     *fault.Set
	journal *journal.Journal
	cfg     aws.Config
	account string
	ec2     *wellEC2
}

func newFaultWorld(t *testing.T) *faultWorld {
	t.Helper()
	j, err := journal.Open(t.TempDir(), journal.Limits{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = j.Close() })
	w := &faultWorld{set: fault.NewSet(fault.Config{}), journal: j, ec2: &wellEC2{}}
	srv := testkit.NewServer(t, testkit.Config{Journal: j, Faults: w.set, Services: func(*store.Store) []awsapi.Service {
		return []awsapi.Service{
			{Name: "ec2", Handler: w.ec2, Operations: []awsapi.Operation{{Name: "DescribeVpcs"}}},
			{Name: "eks", Handler: wellEKS{}, Operations: []awsapi.Operation{{Name: "ListClusters"}}},
			{Name: "iam", Handler: wellIAM{}, Operations: []awsapi.Operation{{Name: "ListRoles"}}},
			{Name: "ssm", Handler: wellSSM{}, Operations: []awsapi.Operation{{Name: "GetParameters", Members: "Names"}}},
		}
	}})
	w.account = srv.Account(t)
	w.cfg = srv.AWSConfig(w.account)
	w.cfg.RetryMaxAttempts = 1
	return w
}

func (w *faultWorld) breaks(faults ...fault.Fault) {
	for i := range faults {
		faults[i].ID, faults[i].Account, faults[i].Region = "F-"+string(rune('1'+i)), w.account, testkit.Region
	}
	w.set.Replace(faults)
}

// Each protocol's services use their own words for throttling and for their own failures.
func TestFaultsOfCalls(t *testing.T) {
	w := newFaultWorld(t)
	calls := []struct {
		name string
		call func(context.Context) error
	}{
		{"ec2:DescribeVpcs", func(ctx context.Context) error {
			_, err := awsec2.NewFromConfig(w.cfg).DescribeVpcs(ctx, &awsec2.DescribeVpcsInput{})
			return err
		}},
		{"eks:ListClusters", func(ctx context.Context) error {
			_, err := awseks.NewFromConfig(w.cfg).ListClusters(ctx, &awseks.ListClustersInput{})
			return err
		}},
		{"iam:ListRoles", func(ctx context.Context) error {
			_, err := awsiam.NewFromConfig(w.cfg).ListRoles(ctx, &awsiam.ListRolesInput{})
			return err
		}},
		{"ssm:GetParameters", func(ctx context.Context) error {
			_, err := awsssm.NewFromConfig(w.cfg).GetParameters(ctx, &awsssm.GetParametersInput{Names: []string{"n"}})
			return err
		}},
	}
	type answer struct {
		Call, Code, Message string
		Status              int
	}
	for _, tt := range []struct {
		name  string
		fault fault.Fault
		want  []answer
	}{
		{"throttled", fault.Fault{Kind: fault.Throttle}, []answer{
			{"ec2:DescribeVpcs", "RequestLimitExceeded", "Request limit exceeded.", 503},
			{"eks:ListClusters", "TooManyRequestsException", "Too Many Requests", 429},
			{"iam:ListRoles", "Throttling", "Rate exceeded", 400},
			{"ssm:GetParameters", "ThrottlingException", "Rate exceeded", 400},
		}},
		{"broken", fault.Fault{Kind: fault.Error}, []answer{
			{"ec2:DescribeVpcs", "InternalError", "An internal error has occurred", 500},
			{"eks:ListClusters", "InternalFailure", "The request processing has failed because of an unknown error, exception or failure.", 500},
			{"iam:ListRoles", "InternalFailure", "The request processing has failed because of an unknown error, exception or failure.", 500},
			{"ssm:GetParameters", "InternalFailure", "The request processing has failed because of an unknown error, exception or failure.", 500},
		}},
		{"unavailable", fault.Fault{Kind: fault.Error, Status: http.StatusServiceUnavailable}, []answer{
			{"ec2:DescribeVpcs", "Unavailable", "The server is overloaded and can't handle the request.", 503},
			{"eks:ListClusters", "ServiceUnavailable", "The request has failed due to a temporary failure of the server.", 503},
			{"iam:ListRoles", "ServiceUnavailable", "The request has failed due to a temporary failure of the server.", 503},
			{"ssm:GetParameters", "ServiceUnavailable", "The request has failed due to a temporary failure of the server.", 503},
		}},
		{"a code of one's own", fault.Fault{Kind: fault.Error, Code: "Odd", Message: "Odd <& \"odd\"", Status: 418}, []answer{
			{"ec2:DescribeVpcs", "Odd", "Odd <& \"odd\"", 418},
			{"eks:ListClusters", "Odd", "Odd <& \"odd\"", 418},
			{"iam:ListRoles", "Odd", "Odd <& \"odd\"", 418},
			{"ssm:GetParameters", "Odd", "Odd <& \"odd\"", 418},
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			tt.fault.Operation = "*:*"
			w.breaks(tt.fault)
			var got []answer
			for _, c := range calls {
				err := c.call(t.Context())
				a := answer{Call: c.name}
				if api, ok := errors.AsType[smithy.APIError](err); ok {
					a.Code, a.Message = api.ErrorCode(), api.ErrorMessage()
				}
				if r, ok := errors.AsType[*awshttp.ResponseError](err); ok {
					a.Status = r.HTTPStatusCode()
				}
				got = append(got, a)
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
	w.set.Replace(nil)
	for _, c := range calls {
		if err := c.call(t.Context()); err != nil {
			t.Errorf("%s without a fault: %v", c.name, err)
		}
	}
}

func TestRetriesOutliveThrottling(t *testing.T) {
	w := newFaultWorld(t)
	w.breaks(fault.Fault{Kind: fault.Throttle, Operation: "ec2:*", Count: 2})
	w.cfg.RetryMaxAttempts = 3
	client := awsec2.NewFromConfig(w.cfg)
	if _, err := client.DescribeVpcs(t.Context(), &awsec2.DescribeVpcsInput{}); err != nil {
		t.Fatal(err)
	}
	if w.ec2.calls != 1 {
		t.Errorf("the handler was called %d times, want once: the others were throttled", w.ec2.calls)
	}
	var faulted, trail int
	for e, err := range w.journal.Query(journal.Filter{}) {
		if err != nil {
			t.Fatal(err)
		}
		if e.Kind == journal.KindDecision && e.Fields["fault"] != nil {
			faulted++
		}
		if event, ok := e.Fields["event"].(map[string]any); ok && event["errorCode"] == "Client.RequestLimitExceeded" && event["eventName"] == "DescribeVpcs" {
			trail++
		}
	}
	if faulted != 2 || trail != 2 {
		t.Errorf("the journal has %d faults and CloudTrail %d failed calls, want 2 of each", faulted, trail)
	}
}

// CloudTrail says who is at fault, as EC2 does.
func TestTrailOfFaults(t *testing.T) {
	for code, want := range map[string]string{"InternalError": "Server.InternalError", "RequestLimitExceeded": "Client.RequestLimitExceeded"} {
		w := newFaultWorld(t)
		w.breaks(fault.Fault{Kind: fault.Error, Operation: "ec2:*", Code: code, Status: 503})
		_, _ = awsec2.NewFromConfig(w.cfg).DescribeVpcs(t.Context(), &awsec2.DescribeVpcsInput{}) // its error is the journal's
		got := ""
		for e, err := range w.journal.Query(journal.Filter{Kind: journal.KindCall}) {
			if err != nil {
				t.Fatal(err)
			}
			if event, ok := e.Fields["event"].(map[string]any); ok {
				got, _ = event["errorCode"].(string)
			}
		}
		if got != want {
			t.Errorf("%s is %q in CloudTrail, want %q", code, got, want)
		}
	}
}

func TestLatencyEndsWithItsClient(t *testing.T) {
	w := newFaultWorld(t)
	w.breaks(fault.Fault{Kind: fault.Latency, Operation: "ec2:*", Delay: time.Minute})
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	began := time.Now()
	if _, err := awsec2.NewFromConfig(w.cfg).DescribeVpcs(ctx, &awsec2.DescribeVpcsInput{}); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("%v, want that the client gave up", err)
	}
	if took := time.Since(began); took > 40*time.Second {
		t.Errorf("it took %v", took)
	}
	w.breaks(fault.Fault{Kind: fault.Latency, Operation: "ec2:*", Delay: 30 * time.Millisecond})
	began = time.Now()
	if _, err := awsec2.NewFromConfig(w.cfg).DescribeVpcs(t.Context(), &awsec2.DescribeVpcsInput{}); err != nil || time.Since(began) < 30*time.Millisecond {
		t.Errorf("%v after %v", err, time.Since(began))
	}
}
