package server_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	awsec2 "github.com/aws/aws-sdk-go-v2/service/ec2"
	awseks "github.com/aws/aws-sdk-go-v2/service/eks"
	ekstypes "github.com/aws/aws-sdk-go-v2/service/eks/types"
	awsiam "github.com/aws/aws-sdk-go-v2/service/iam"
	awsssm "github.com/aws/aws-sdk-go-v2/service/ssm"
	awssts "github.com/aws/aws-sdk-go-v2/service/sts"
	"github.com/aws/smithy-go"
	"github.com/google/go-cmp/cmp"

	"github.com/drydock-dev/drydock/internal/awsapi"
	"github.com/drydock-dev/drydock/internal/awsapi/server"
	"github.com/drydock-dev/drydock/internal/journal"
	"github.com/drydock-dev/drydock/internal/policy"
	"github.com/drydock-dev/drydock/internal/store"
	"github.com/drydock-dev/drydock/internal/testkit"
)

// code returns a client's view of err: CODE STATUS MESSAGE.
func code(err error) string {
	var api smithy.APIError
	if !errors.As(err, &api) {
		return "no API error: " + err.Error()
	}
	var resp interface{ HTTPStatusCode() int }
	status := 0
	if errors.As(err, &resp) {
		status = resp.HTTPStatusCode()
	}
	return api.ErrorCode() + " " + http.StatusText(status) + ": " + api.ErrorMessage()
}

func asAlice(s *testkit.Server) aws.Config {
	return s.AWSConfigWith(credentials.NewStaticCredentialsProvider(alice.AccessKeyID, alice.SecretAccessKey, ""))
}

func TestDenialsInEachProtocol(t *testing.T) {
	j, err := journal.Open(t.TempDir(), journal.Limits{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = j.Close() })
	decision := policy.Decision{}
	s, _ := start(t, testkit.Config{Lookup: keys, Journal: j, Authorize: func(_ context.Context, call *awsapi.Call) policy.Decision {
		return decision
	}})
	cfg := asAlice(s)
	ctx := t.Context()
	calls := map[string]func() error{
		"ec2": func() error {
			_, err := awsec2.NewFromConfig(cfg).DescribeVpcs(ctx, nil)
			return err
		},
		"iam": func() error {
			_, err := awsiam.NewFromConfig(cfg).GetUser(ctx, &awsiam.GetUserInput{UserName: aws.String("u")})
			return err
		},
		"ssm": func() error {
			_, err := awsssm.NewFromConfig(cfg).GetParameter(ctx, &awsssm.GetParameterInput{Name: aws.String("/a")})
			return err
		},
		"eks": func() error {
			_, err := awseks.NewFromConfig(cfg).ListClusters(ctx, nil)
			return err
		},
	}
	const who = "User: arn:aws:iam::111122223333:user/alice is not authorized to perform: "
	for _, tt := range []struct {
		name, service string
		decision      policy.Decision
		want          string
	}{
		{"ec2, no resource", "ec2", policy.Decision{Action: "ec2:DescribeVpcs", Resource: "*", Reason: "no identity-based policy allows the ec2:DescribeVpcs action"},
			"UnauthorizedOperation Forbidden: You are not authorized to perform this operation. " + who + "ec2:DescribeVpcs because no identity-based policy allows the ec2:DescribeVpcs action"},
		{"ec2, a resource", "ec2", policy.Decision{Action: "ec2:DescribeVpcs", Resource: "arn:aws:ec2:::vpc/v", Reason: "with an explicit deny in an identity-based policy", ExplicitDeny: true},
			"UnauthorizedOperation Forbidden: You are not authorized to perform this operation. " + who + "ec2:DescribeVpcs on resource: arn:aws:ec2:::vpc/v with an explicit deny in an identity-based policy"},
		{"query", "iam", policy.Decision{Action: "iam:GetUser", Resource: "user u", Reason: "no identity-based policy allows the iam:GetUser action"},
			"AccessDenied Forbidden: " + who + "iam:GetUser on resource: user u because no identity-based policy allows the iam:GetUser action"},
		{"json", "ssm", policy.Decision{Action: "ssm:GetParameter", Resource: "arn:p", Reason: "no identity-based policy allows the ssm:GetParameter action"},
			"AccessDeniedException Bad Request: " + who + "ssm:GetParameter on resource: arn:p because no identity-based policy allows the ssm:GetParameter action"},
		{"rest-json", "eks", policy.Decision{Action: "eks:ListClusters", Resource: "*", ExplicitDeny: true},
			"AccessDeniedException Forbidden: " + who + "eks:ListClusters on resource: * with an explicit deny"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			decision = tt.decision
			if diff := cmp.Diff(tt.want, code(calls[tt.service]())); diff != "" {
				t.Error(diff)
			}
		})
	}
	t.Run("exempt", func(t *testing.T) {
		if _, err := awssts.NewFromConfig(cfg).GetCallerIdentity(ctx, nil); err != nil {
			t.Error(err)
		}
	})
	t.Run("journal", func(t *testing.T) {
		n := 0
		for e, err := range j.Query(journal.Filter{Kind: journal.KindDecision, Account: "111122223333"}) {
			if err != nil || e.Fields["principal"] != "arn:aws:iam::111122223333:user/alice" || e.Fields["allowed"] != false {
				t.Errorf("%+v, %v", e, err)
			}
			n++
		}
		if n != 5 {
			t.Errorf("%d decisions", n)
		}
		for e, err := range j.Query(journal.Filter{Kind: journal.KindCall, Fields: map[string]string{"operation": "GetCallerIdentity"}}) {
			if err != nil || e.Fields["status"] != 200.0 || strings.Contains(strings.ToLower(stringOf(e)), "secret") {
				t.Errorf("%+v, %v", e, err)
			}
			return
		}
		t.Error("the call is not there")
	})
}

func stringOf(e journal.Entry) string {
	var b strings.Builder
	for k, v := range e.Fields {
		b.WriteString(k)
		if s, ok := v.(string); ok {
			b.WriteString(s)
		}
	}
	return b.String()
}

func TestErrorsOfHandlers(t *testing.T) {
	var log bytes.Buffer
	s, _ := start(t, testkit.Config{Log: slog.New(slog.NewTextHandler(&log, nil))})
	cfg := s.AWSConfig(s.Account(t))
	ctx := t.Context()
	run := func(image string, dry bool) error {
		_, err := awsec2.NewFromConfig(cfg).RunInstances(ctx, &awsec2.RunInstancesInput{ImageId: &image, MinCount: aws.Int32(1), MaxCount: aws.Int32(1), DryRun: &dry})
		return err
	}
	_, modelled := awsiam.NewFromConfig(cfg).GetUser(ctx, &awsiam.GetUserInput{UserName: aws.String("u")})
	_, coded := awsec2.NewFromConfig(cfg).DescribeVpcs(ctx, &awsec2.DescribeVpcsInput{VpcIds: []string{"vpc-9"}})
	_, members := awseks.NewFromConfig(cfg).DescribeCluster(ctx, &awseks.DescribeClusterInput{Name: aws.String("c")})
	_, bug := awsiam.NewFromConfig(cfg).GetUser(ctx, &awsiam.GetUserInput{})
	for _, tt := range []struct {
		name string
		err  error
		want string
	}{
		{"modelled", modelled, "NoSuchEntity Not Found: The user with name u cannot be found."},
		{"coded", coded, "InvalidVpcID.NotFound Bad Request: The vpc ID 'vpc-9' does not exist"},
		{"with members", members, "ResourceNotFoundException Not Found: No cluster found for name: c."},
		{"a bug", bug, "InternalFailure Internal Server Error: The request processing has failed because of an unknown error, exception or failure."},
		{"a panic", run("panic", false), "InternalError Internal Server Error: An internal error has occurred"},
		{"dry run", run("panic", true), "DryRunOperation Precondition Failed: Request would have succeeded, but DryRun flag is set."},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if diff := cmp.Diff(tt.want, code(tt.err)); diff != "" {
				t.Error(diff)
			}
		})
	}
	if notFound := (*ekstypes.ResourceNotFoundException)(nil); !errors.As(members, &notFound) || aws.ToString(notFound.ClusterName) != "c" {
		t.Errorf("the exception's members are lost: %v", members)
	}
	for _, want := range []string{"who?", "out of cheese", "toyEC2.RunInstances", "requestId="} {
		if !strings.Contains(log.String(), want) {
			t.Errorf("the log lacks %q", want)
		}
	}
}

func TestWaitersAreHeldUntilSettled(t *testing.T) {
	clusters := store.NewCollection[string]("test", "status")
	key := store.Key{Account: "1", ID: "c"}
	begin := func(t *testing.T) (*testkit.Server, func(string)) {
		s, y := start(t, testkit.Config{})
		set := func(status string) {
			if err := s.Store.Update(context.WithoutCancel(t.Context()), func(tx *store.Tx) error { return clusters.Put(tx, key, status) }); err != nil {
				t.Error(err)
			}
		}
		set("CREATING")
		y.describeCluster = func(context.Context) (*awseks.DescribeClusterOutput, error) {
			status, err := clusters.Get(s.Store, key)
			if err != nil {
				return nil, &ekstypes.ResourceNotFoundException{Message: aws.String("gone")}
			}
			return &awseks.DescribeClusterOutput{Cluster: &ekstypes.Cluster{Status: ekstypes.ClusterStatus(status)}}, nil
		}
		return s, set
	}
	in := &awseks.DescribeClusterInput{Name: aws.String("c")}
	// later calls fn while the test waits. The test does not end before fn, whose change is seen before it returns.
	later := func(t *testing.T, fn func()) {
		done := make(chan struct{})
		time.AfterFunc(100*time.Millisecond, func() { defer close(done); fn() })
		t.Cleanup(func() { <-done })
	}

	t.Run("an SDK waiter returns at once when the state is there", func(t *testing.T) {
		s, set := begin(t)
		began := time.Now()
		later(t, func() { set("CREATING"); set("ACTIVE") })
		w := awseks.NewClusterActiveWaiter(awseks.NewFromConfig(s.AWSConfig(s.Account(t))))
		if err := w.Wait(t.Context(), in, time.Minute); err != nil {
			t.Error(err)
		}
		// The waiter's own pause is 30 seconds.
		if took := time.Since(began); took > 25*time.Second {
			t.Errorf("took %v", took)
		}
	})
	t.Run("an error is final", func(t *testing.T) {
		s, set := begin(t)
		set("DELETING")
		later(t, func() {
			if err := s.Store.Update(context.Background(), func(tx *store.Tx) error { clusters.Delete(tx, key); return nil }); err != nil {
				t.Error(err)
			}
		})
		w := awseks.NewClusterDeletedWaiter(awseks.NewFromConfig(s.AWSConfig(s.Account(t))))
		if err := w.Wait(t.Context(), in, time.Minute); err != nil {
			t.Error(err)
		}
	})
	t.Run("other clients are not held", func(t *testing.T) {
		s, _ := begin(t)
		out, err := awseks.NewFromConfig(s.AWSConfig(s.Account(t))).DescribeCluster(t.Context(), in)
		if err != nil || out.Cluster.Status != "CREATING" {
			t.Errorf("%+v, %v", out, err)
		}
	})
	// held sends a request as a client with that user agent, and waits until it is held.
	held := func(t *testing.T, s *testkit.Server, userAgent string) <-chan string {
		t.Helper()
		q := raw{method: "GET", path: "/clusters/c", service: "eks", at: time.Now(), creds: aws.Credentials{AccessKeyID: s.Account(t), SecretAccessKey: "x"}, header: "User-Agent: " + userAgent}
		req := q.build(t, s.URL).WithContext(context.Background())
		answered := make(chan string, 1)
		go func() {
			resp, err := s.Client().Do(req)
			if err != nil {
				answered <- err.Error()
				return
			}
			body, err := io.ReadAll(resp.Body)
			answered <- string(body) + fmt.Sprint(errors.Join(err, resp.Body.Close()))
		}()
		testkit.Eventually(t, 5*time.Second, func() error {
			if s.Front.Held() == 0 {
				return errors.New("not held yet")
			}
			return nil
		})
		return answered
	}
	t.Run("botocore's waiters too", func(t *testing.T) {
		s, set := begin(t)
		answered := held(t, s, "aws-cli/1.45.11 md/Botocore#1.43.11 ua/2.1 os/linux lang/python#3.11.7 md/pyimpl#CPython m/D,N,Z,B,g,b cfg/retry-mode#legacy botocore/1.43.11")
		set("ACTIVE")
		if got := <-answered; !strings.Contains(got, `"ACTIVE"`) {
			t.Error(got)
		}
	})
	t.Run("a server that stops lets go", func(t *testing.T) {
		s, _ := begin(t)
		answered := held(t, s, "m/B")
		s.Stop() // it waits for 5 s, and a held answer comes after 10 s
		if got := <-answered; !strings.Contains(got, `"CREATING"`) {
			t.Error(got)
		}
	})
}

func TestAHeldAnswerIsGivenInTime(t *testing.T) {
	// The clock is synctest's: the 20 seconds take no time.
	synctest.Test(t, func(t *testing.T) {
		y := &toys{describeCluster: func(context.Context) (*awseks.DescribeClusterOutput, error) {
			return &awseks.DescribeClusterOutput{Cluster: &ekstypes.Cluster{Status: ekstypes.ClusterStatusCreating}}, nil
		}}
		never := make(chan struct{})
		s, err := server.New(server.Config{
			Services: y.services(nil), Lookup: keys,
			Authorize: func(context.Context, *awsapi.Call, any) error { return nil },
			Changed:   func() <-chan struct{} { return never },
		})
		if err != nil {
			t.Fatal(err)
		}
		q := raw{method: "GET", path: "/clusters/c", service: "eks", at: time.Now(), header: "User-Agent: m/B"}
		w := httptest.NewRecorder()
		began := time.Now()
		s.ServeHTTP(w, q.build(t, "http://localhost"))
		if took := time.Since(began); took != 20*time.Second || w.Code != http.StatusOK {
			t.Errorf("%d after %v: %s", w.Code, took, w.Body)
		}
	})
}

func TestDeclarationsThatDoNotFit(t *testing.T) {
	y := &toys{}
	for _, tt := range []struct {
		name    string
		service awsapi.Service
		want    string
	}{
		{"no such service", awsapi.Service{Name: "braket"}, `no API model "braket"`},
		{"no such operation", awsapi.Service{Name: "eks", Handler: toyEKS{y}, Operations: []awsapi.Operation{{Name: "MakeCluster"}}}, "eks MakeCluster: no such operation in the API model"},
		{"no method", awsapi.Service{Name: "eks", Handler: toyEKS{y}, Operations: []awsapi.Operation{{Name: "DeleteCluster"}}}, "has no such method"},
		{"wrong shape", awsapi.Service{Name: "eks", Handler: misfit{}, Operations: []awsapi.Operation{{Name: "DeleteCluster"}}}, "want func(context.Context, *eks.DeleteClusterInput) (*eks.DeleteClusterOutput, error)"},
		{"unknown member", awsapi.Service{Name: "eks", Handler: toyEKS{y}, Operations: []awsapi.Operation{{Name: "CreateCluster", Members: "name resourcesVpcConfig.subnets"}}}, `honours member "resourcesVpcConfig.subnets"`},
		{"twice", awsapi.Service{Name: "eks", Handler: toyEKS{y}, Operations: []awsapi.Operation{{Name: "ListClusters"}, {Name: "ListClusters"}}}, "declared twice"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if _, err := server.Compatibility([]awsapi.Service{tt.service}); err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("got %v, want %s", err, tt.want)
			}
		})
	}
	if _, err := server.New(server.Config{}); err == nil {
		t.Error("no Lookup, no Authorize, no error")
	}
}

type misfit struct{}

func (misfit) DeleteCluster(context.Context, *awseks.CreateClusterInput) (*awseks.DeleteClusterOutput, error) {
	return nil, nil
}

func TestCompatibilityComesFromTheTables(t *testing.T) {
	y := &toys{}
	all, err := server.Compatibility(y.services(nil))
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]server.OperationCompatibility{}
	for _, s := range all {
		for _, op := range s.Operations {
			got[s.Name+":"+op.Name] = op
		}
	}
	for name, want := range map[string]server.OperationCompatibility{
		"eks:DescribeCluster":   {Name: "DescribeCluster", State: server.Handled},
		"eks:DeleteCluster":     {Name: "DeleteCluster", State: server.None},
		"kms:Decrypt":           {Name: "Decrypt", State: server.None},
		"iam:CreateRole":        {Name: "CreateRole", State: server.Handled},
		"ec2:DescribeVpcs":      {Name: "DescribeVpcs", State: server.Partly, Refused: []string{"MaxResults", "NextToken"}},
		"sts:GetCallerIdentity": {Name: "GetCallerIdentity", State: server.Handled},
	} {
		if diff := cmp.Diff(want, got[name]); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
	}
	create := got["eks:CreateCluster"].Refused
	for _, want := range []string{"resourcesVpcConfig.endpointPublicAccess", "logging", "tags"} {
		if !strings.Contains(strings.Join(create, " "), want) {
			t.Errorf("%v lacks %s", create, want)
		}
	}
	var b bytes.Buffer
	scaling := slices.IndexFunc(all, func(s server.ServiceCompatibility) bool { return s.Name == "autoscaling" })
	if err := server.WriteCompatibility(&b, all[scaling:scaling+1]); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(b.String(), "| [Auto Scaling](#autoscaling) | ") || !strings.Contains(b.String(), "Not handled: AttachInstances, ") {
		t.Errorf("%s", b.String())
	}
}
