package eksauth_test

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/smithy-go"
	"github.com/google/go-cmp/cmp"
	testclock "k8s.io/utils/clock/testing"

	"github.com/drydock-dev/drydock/internal/awsapi"
	"github.com/drydock-dev/drydock/internal/awsapi/awserr"
	"github.com/drydock-dev/drydock/internal/podidentityagent"
	"github.com/drydock-dev/drydock/internal/service/eksauth"
)

var now = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

// newService returns a service that knows one pod, by the token "good", and records the latest
// session.
func newService(session *eksauth.Session) *eksauth.Service {
	return eksauth.New(eksauth.Config{
		Clock: testclock.NewFakePassiveClock(now),
		Review: func(ctx context.Context, cluster, token string) (eksauth.Pod, error) {
			pod := eksauth.Pod{
				Cluster: cluster, ClusterARN: "arn:aws:eks:us-east-1:1:cluster/" + cluster, Namespace: "shop", ServiceAccount: "cart",
				Name: "cart-" + strings.Repeat("7", 60), UID: "u", AssociationARN: "arn", AssociationID: "a-1", RoleARN: "role of " + awsapi.CallFrom(ctx).Account,
			}
			switch token {
			case "good":
				return pod, nil
			case "untagged":
				pod.WithoutTags = true
				return pod, nil
			case "distrusted":
				pod.RoleARN = ""
				return pod, nil
			case "old":
				return eksauth.Pod{}, &eksauth.ExpiredError{At: now.Add(-time.Hour)}
			case "lonely":
				return eksauth.Pod{}, eksauth.ErrNoAssociation
			case "broken":
				return eksauth.Pod{}, errors.New("secrets of the machine")
			}
			return eksauth.Pod{}, eksauth.ErrInvalidToken
		},
		Assume: func(_ context.Context, s eksauth.Session) (eksauth.RoleSession, error) {
			*session = s
			if s.Pod.RoleARN == "" {
				return eksauth.RoleSession{}, &eksauth.NotAssumableError{Why: errors.New("no trust")}
			}
			return eksauth.RoleSession{AccessKeyID: "ASIA", SecretAccessKey: "s", SessionToken: "t", Expiration: now.Add(time.Hour), ARN: "arn:aws:sts::1:assumed-role/r/s", ID: "AROA:x", Account: "1"}, nil
		},
	})
}

func TestAssumeRoleForPodIdentity(t *testing.T) {
	var session eksauth.Session
	s := newService(&session)
	ctx := awsapi.WithCall(t.Context(), &awsapi.Call{Account: "1", Region: "us-east-1"})
	out, err := s.AssumeRoleForPodIdentity(ctx, &eksauth.AssumeRoleForPodIdentityInput{ClusterName: aws.String("a-cluster-with-a-long-name"), Token: aws.String("good")})
	if err != nil {
		t.Fatal(err)
	}
	expiration := now.Add(time.Hour)
	want := &eksauth.AssumeRoleForPodIdentityOutput{
		AssumedRoleUser:        &eksauth.AssumedRoleUser{Arn: aws.String("arn:aws:sts::1:assumed-role/r/s"), AssumeRoleId: aws.String("AROA:x")},
		Audience:               aws.String("pods.eks.amazonaws.com"),
		Credentials:            &eksauth.Credentials{AccessKeyId: aws.String("ASIA"), SecretAccessKey: aws.String("s"), SessionToken: aws.String("t"), Expiration: &expiration},
		PodIdentityAssociation: &eksauth.PodIdentityAssociation{AssociationArn: aws.String("arn"), AssociationId: aws.String("a-1")},
		Subject:                &eksauth.Subject{Namespace: aws.String("shop"), ServiceAccount: aws.String("cart")},
	}
	if diff := cmp.Diff(want, out); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if !regexp.MustCompile(`^eks-a-cluster-w-cart-777777-[0-9a-f-]{36}$`).MatchString(session.Name) || len(session.Name) > 64 {
		t.Errorf("session name %q of %d characters", session.Name, len(session.Name))
	}
	if len(session.Tags) != 6 || session.Tags["kubernetes-pod-uid"] != "u" || session.Tags["eks-cluster-name"] != "a-cluster-with-a-long-name" {
		t.Errorf("tags %v", session.Tags)
	}
	if _, err := s.AssumeRoleForPodIdentity(ctx, &eksauth.AssumeRoleForPodIdentityInput{ClusterName: aws.String("dev"), Token: aws.String("untagged")}); err != nil || session.Tags != nil {
		t.Errorf("without tags: %v, %v", session.Tags, err)
	}
	for token, want := range map[string]string{
		"old":        "ExpiredTokenException: The token included in the request is expired: current date/time 2026-01-02T03:04:05Z must be before the expiration date/time 2026-01-02T02:04:05Z.",
		"lonely":     "ResourceNotFoundException: No pod identity association found for the service account of the token.",
		"distrusted": "AccessDeniedException: Unauthorized Exception! EKS does not have permissions to assume the associated role.",
		"x":          "InvalidTokenException: The token included in the request is invalid.",
	} {
		t.Run(token, func(t *testing.T) {
			_, err := s.AssumeRoleForPodIdentity(ctx, &eksauth.AssumeRoleForPodIdentityInput{ClusterName: aws.String("dev"), Token: &token})
			var api smithy.APIError
			if !errors.As(err, &api) || api.ErrorCode()+": "+api.ErrorMessage() != want {
				t.Errorf("error = %v, want %s", err, want)
			}
		})
	}
}

func TestAgent(t *testing.T) {
	var session eksauth.Session
	s := newService(&session)
	agent := httptest.NewServer(eksauth.Agent(func(ctx context.Context, token string) (*eksauth.AssumeRoleForPodIdentityOutput, error) {
		ctx = awsapi.WithCall(ctx, &awsapi.Call{Account: "1", Region: "us-east-1"})
		return s.AssumeRoleForPodIdentity(ctx, &eksauth.AssumeRoleForPodIdentityInput{ClusterName: aws.String("dev"), Token: &token})
	}))
	defer agent.Close()
	for _, tt := range []struct {
		token  string
		status int
		body   string // a pattern
	}{
		{"good", 200, `^\{"AccessKeyId":"ASIA","SecretAccessKey":"s","Token":"t","AccountId":"1","Expiration":"2026-01-02T04:04:05Z"\}$`},
		{"old", 400, `^\[[0-9a-f-]{36}\]: \(ExpiredTokenException\): The token included in the request is expired: .*, fault: client$`},
		{"", 400, `InvalidTokenException`},
		{"lonely", 404, `ResourceNotFoundException`},
		{"broken", 500, `^internal error$`},
	} {
		t.Run(tt.token, func(t *testing.T) {
			req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, agent.URL+"/v1/credentials", nil)
			if err != nil {
				t.Fatal(err)
			}
			req.Header.Set("Authorization", tt.token)
			resp, err := agent.Client().Do(req)
			if err != nil {
				t.Fatal(err)
			}
			defer resp.Body.Close()
			b, err := io.ReadAll(resp.Body)
			if err != nil {
				t.Fatal(err)
			}
			if body := strings.TrimSpace(string(b)); resp.StatusCode != tt.status || !regexp.MustCompile(tt.body).MatchString(body) {
				t.Errorf("%d %s", resp.StatusCode, body)
			}
			if tt.status == http.StatusOK && !json.Valid(b) {
				t.Error("not JSON")
			}
		})
	}
	if session.Pod.Cluster != "dev" || session.Pod.RoleARN != "role of 1" {
		t.Errorf("asked for %+v", session.Pod)
	}
}

// If the agent cannot call EKS Auth, it returns its SDK's error message.
func TestAgentThatMayNotCall(t *testing.T) {
	for _, tt := range []struct {
		err    error
		status int
		body   string
	}{
		{awserr.New("AccessDeniedException", "User: x is not authorized"), 400, "(AccessDeniedException): User: x is not authorized, fault: client\n"},
		{&podidentityagent.UnsentError{Err: errors.New("dial tcp: i/o timeout")}, 500, "dial tcp: i/o timeout\n"},
		{errors.New("secrets of the machine"), 500, "internal error\n"},
	} {
		r := httptest.NewRequest(http.MethodGet, "/v1/credentials", nil)
		r.Header.Set("Authorization", "good")
		w := httptest.NewRecorder()
		eksauth.Agent(func(context.Context, string) (*eksauth.AssumeRoleForPodIdentityOutput, error) { return nil, tt.err }).ServeHTTP(w, r)
		if w.Code != tt.status || !strings.HasSuffix(w.Body.String(), tt.body) {
			t.Errorf("%v: %d %q, want %d %q", tt.err, w.Code, w.Body, tt.status, tt.body)
		}
	}
}
