package eks_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	awslogs "github.com/aws/aws-sdk-go-v2/service/cloudwatchlogs"
	awseks "github.com/aws/aws-sdk-go-v2/service/eks"
	ekstypes "github.com/aws/aws-sdk-go-v2/service/eks/types"
	"github.com/google/go-cmp/cmp"
	authnv1 "k8s.io/api/authentication/v1"

	"github.com/drydock-dev/drydock/internal/awsapi"
	"github.com/drydock-dev/drydock/internal/awsapi/awserr"
	"github.com/drydock-dev/drydock/internal/service/eks"
)

// fakeLogs is CloudWatch Logs as far as EKS uses it.
type fakeLogs struct {
	mu      sync.Mutex
	streams map[string][]string // by group, or by group and stream: messages
	callers []string
	err     error // of PutLogEvents
}

func (l *fakeLogs) fail(err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.err = err
}

func (l *fakeLogs) has(name string) bool { _, ok := l.streams[name]; return ok }

func (l *fakeLogs) create(ctx context.Context, parent, name string) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if parent != "" && !l.has(parent) {
		return awserr.New("ResourceNotFoundException", "")
	}
	if l.has(name) {
		return awserr.New("ResourceAlreadyExistsException", "")
	}
	if l.streams == nil {
		l.streams = map[string][]string{}
	}
	l.streams[name] = nil
	l.callers = append(l.callers, awsapi.CallFrom(ctx).Principal.ARN)
	return nil
}

func (l *fakeLogs) CreateLogGroup(ctx context.Context, in *awslogs.CreateLogGroupInput) (*awslogs.CreateLogGroupOutput, error) {
	return nil, l.create(ctx, "", *in.LogGroupName)
}

func (l *fakeLogs) CreateLogStream(ctx context.Context, in *awslogs.CreateLogStreamInput) (*awslogs.CreateLogStreamOutput, error) {
	return nil, l.create(ctx, *in.LogGroupName, *in.LogGroupName+" "+*in.LogStreamName)
}

func (l *fakeLogs) PutLogEvents(_ context.Context, in *awslogs.PutLogEventsInput) (*awslogs.PutLogEventsOutput, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	name := *in.LogGroupName + " " + *in.LogStreamName
	if l.err != nil {
		return nil, l.err
	}
	if !l.has(name) {
		return nil, awserr.New("ResourceNotFoundException", "")
	}
	for _, e := range in.LogEvents {
		l.streams[name] = append(l.streams[name], *e.Message)
	}
	return nil, nil
}

func TestControlPlaneLogs(t *testing.T) {
	w := newWorld(t)
	ctx := t.Context()
	setups := func(enabled bool, types ...ekstypes.LogType) *ekstypes.Logging {
		return &ekstypes.Logging{ClusterLogging: []ekstypes.LogSetup{{Enabled: &enabled, Types: types}}}
	}
	in := w.createInput("dev")
	in.Logging = setups(true, "scheduler", "audit")
	if _, err := w.client.CreateCluster(ctx, in); err != nil {
		t.Fatal(err)
	}
	w.waitCluster("dev", ekstypes.ClusterStatusActive)
	state := func() string {
		var text []string
		for _, s := range w.waitCluster("dev", ekstypes.ClusterStatusActive).Logging.ClusterLogging {
			text = append(text, fmt.Sprint(*s.Enabled, s.Types))
		}
		plane, _ := w.planes.only()
		w.planes.mu.Lock()
		defer w.planes.mu.Unlock()
		return strings.Join(text, " ") + " " + strings.Join(w.planes.logging[plane.ID], ",")
	}
	if got := state(); got != "true [audit scheduler] false [api authenticator controllerManager] kube-apiserver-audit,kube-scheduler" {
		t.Error(got)
	}

	_, err := w.update(&awseks.UpdateClusterConfigInput{Logging: setups(true, "audit")})
	wantError(t, err, "InvalidParameterException", "No changes needed for the logging config provided")
	up := w.mustUpdate(&awseks.UpdateClusterConfigInput{Logging: &ekstypes.Logging{ClusterLogging: []ekstypes.LogSetup{
		{Enabled: aws.Bool(true), Types: []ekstypes.LogType{"controllerManager"}}, {Enabled: aws.Bool(false), Types: []ekstypes.LogType{"audit"}},
	}}})
	if len(up.Params) != 1 || up.Type != ekstypes.UpdateTypeLoggingUpdate || up.Params[0].Type != ekstypes.UpdateParamTypeClusterLogging ||
		*up.Params[0].Value != `{"clusterLogging":[{"enabled":true,"types":["controllerManager"]},{"enabled":false,"types":["audit"]}]}` {
		t.Errorf("%+v", up)
	}
	if got := state(); got != "true [controllerManager scheduler] false [api audit authenticator] kube-controller-manager,cloud-controller-manager,kube-scheduler" {
		t.Error(got)
	}

	// What the control plane writes arrives in order, as EKS's service-linked role, even if the group has been deleted.
	plane, _ := w.planes.only()
	write := func(lines ...eks.LogLine) {
		t.Helper()
		if err := w.svc.WriteLogs(ctx, plane.ID, "0123", lines); err != nil {
			t.Error(err)
		}
	}
	write(eks.LogLine{Component: "kube-scheduler", Time: 2, Text: "b"}, eks.LogLine{Component: "kube-scheduler", Time: 1, Text: "a"})
	const group = "/aws/eks/dev/cluster"
	if diff := cmp.Diff(map[string][]string{group: nil, group + " kube-scheduler-0123": {"a", "b"}}, w.logs.streams); diff != "" {
		t.Error(diff)
	}
	clear(w.logs.streams)
	write(eks.LogLine{Component: "kube-scheduler", Time: 3, Text: "c"})
	if !slices.Equal(w.logs.streams[group+" kube-scheduler-0123"], []string{"c"}) {
		t.Error(w.logs.streams)
	}
	for _, c := range w.logs.callers {
		if !strings.Contains(c, "AWSServiceRoleForAmazonEKS") {
			t.Error(c)
		}
	}
	if err := w.svc.WriteLogs(ctx, "gone", "0123", []eks.LogLine{{Component: "kube-scheduler"}}); err != nil {
		t.Error(err)
	}
}

func TestAuthenticatorLines(t *testing.T) {
	w := newWorld(t)
	w.cluster("dev", ekstypes.AuthenticationModeApi)
	plane, _ := w.planes.only()
	now := time.Date(2026, 11, 23, 8, 0, 0, 0, time.UTC)
	lines := func(token string) string {
		user, err := w.svc.Authenticate(t.Context(), plane.ID, token)
		return strings.Join(eks.AuthenticatorLines(now, "127.0.0.1:51358", user, err), "\n")
	}
	got := lines("rubbish")
	if got != `time="2026-11-23T08:00:00Z" level=warning msg="access denied" client="127.0.0.1:51358" error="input token was not properly formatted: token is missing expected \"k8s-aws-v1.\" prefix" method=POST path=/authenticate` {
		t.Error(got)
	}
	granted := eks.AuthenticatorLines(now, "127.0.0.1:51358", authnv1.UserInfo{
		Username: "eks:node-manager", UID: "aws-iam-authenticator:111122223333:AROAX", Groups: []string{"system:masters"},
		Extra: map[string]authnv1.ExtraValue{
			"accessKeyId": {"ASIAX"}, "arn": {"arn:aws:sts::111122223333:assumed-role/admin/me"}, "canonicalArn": {"arn:aws:iam::111122223333:role/admin"},
			"principalId": {"AROAX"}, "sessionName": {"me"},
		},
	}, nil)
	if diff := cmp.Diff([]string{
		`time="2026-11-23T08:00:00Z" level=info msg="STS response" accesskeyid=ASIAX accountid=111122223333 arn="arn:aws:sts::111122223333:assumed-role/admin/me" client="127.0.0.1:51358" method=POST path=/authenticate session=me userid=AROAX`,
		`time="2026-11-23T08:00:00Z" level=info msg="access granted" arn="arn:aws:iam::111122223333:role/admin" client="127.0.0.1:51358" groups="[system:masters]" method=POST path=/authenticate uid="aws-iam-authenticator:111122223333:AROAX" username="eks:node-manager"`,
	}, granted); diff != "" {
		t.Error(diff)
	}
}
