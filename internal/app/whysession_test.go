package app

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	awsec2 "github.com/aws/aws-sdk-go-v2/service/ec2"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"
	awsiam "github.com/aws/aws-sdk-go-v2/service/iam"
	awsssm "github.com/aws/aws-sdk-go-v2/service/ssm"
	ssmtypes "github.com/aws/aws-sdk-go-v2/service/ssm/types"

	"github.com/drydock-dev/drydock/internal/api"
	"github.com/drydock-dev/drydock/internal/fault"
	"github.com/drydock-dev/drydock/internal/testkit"
)

// A sessionWorld is a network without a way out, an instance whose role has no policies, and a user without permissions.
type sessionWorld struct {
	*netWorld
	info   api.DaemonInfo
	daemon *api.Client
	iam    *awsiam.Client
	ssm    *awsssm.Client // the user's
	root   *awsssm.Client
	user   api.Caller
}

func newSessionWorld(t *testing.T) *sessionWorld {
	t.Helper()
	const account = "300000000000"
	info := startDaemon(t)
	w := &sessionWorld{info: info, daemon: &api.Client{Daemon: info}, netWorld: newNetWorld(t, info, account, "closed")}
	cfg := configFor(info, account, "test")
	w.iam, w.root = awsiam.NewFromConfig(cfg), awsssm.NewFromConfig(cfg)
	testkit.Must(w.iam.CreateRole(t.Context(), &awsiam.CreateRoleInput{RoleName: aws.String("node"), AssumeRolePolicyDocument: aws.String(
		`{"Version":"2012-10-17","Statement":[{"Effect":"Allow","Principal":{"Service":"ec2.amazonaws.com"},"Action":"sts:AssumeRole"}]}`)}))(t)
	testkit.Must(w.iam.CreateInstanceProfile(t.Context(), &awsiam.CreateInstanceProfileInput{InstanceProfileName: aws.String("node")}))(t)
	testkit.Must(w.iam.AddRoleToInstanceProfile(t.Context(), &awsiam.AddRoleToInstanceProfileInput{InstanceProfileName: aws.String("node"), RoleName: aws.String("node")}))(t)
	testkit.Must(w.iam.CreateUser(t.Context(), &awsiam.CreateUserInput{UserName: aws.String("dev")}))(t)
	key := testkit.Must(w.iam.CreateAccessKey(t.Context(), &awsiam.CreateAccessKeyInput{UserName: aws.String("dev")}))(t).AccessKey
	w.user, w.ssm = api.Caller{AccessKeyID: *key.AccessKeyId}, awsssm.NewFromConfig(configFor(info, *key.AccessKeyId, *key.SecretAccessKey))
	return w
}

const (
	al2023Image     = "resolve:ssm:/aws/service/ami-amazon-linux-latest/al2023-ami-kernel-default-x86_64"
	bottlerocketAMI = "resolve:ssm:/aws/service/bottlerocket/aws-k8s-1.33/x86_64/latest/image_id"
)

func (w *sessionWorld) run(t *testing.T, image, profile string) string {
	t.Helper()
	in := &awsec2.RunInstancesInput{
		ImageId: &image, InstanceType: ec2types.InstanceTypeT3Micro, MinCount: aws.Int32(1), MaxCount: aws.Int32(1), SubnetId: &w.subnets[0], SecurityGroupIds: []string{w.group},
	}
	if profile != "" {
		in.IamInstanceProfile = &ec2types.IamInstanceProfileSpecification{Name: &profile}
	}
	id := *testkit.Must(w.ec2.RunInstances(t.Context(), in))(t).Instances[0].InstanceId
	w.until(t, id, func(e *api.SessionExplanation) bool { return e.Steps[2].State != api.StepPending })
	return id
}

func (w *sessionWorld) why(t *testing.T, id, document string) api.SessionExplanation {
	t.Helper()
	return testkit.Must(w.daemon.WhySession(t.Context(), api.Place{Account: w.account, Region: "us-east-1"}, id, "ssm", document, "", "", w.user))(t)
}

func (w *sessionWorld) until(t *testing.T, id string, ok func(*api.SessionExplanation) bool) {
	t.Helper()
	testkit.Eventually(t, 30*time.Second, func() error {
		if e := w.why(t, id, ""); !ok(&e) {
			return errors.New(e.Text())
		}
		return nil
	})
}

func isOpen(e *api.SessionExplanation) bool { return e.Open }

// failed checks that a step is the first to fail, and returns it.
func (w *sessionWorld) failed(t *testing.T, e api.SessionExplanation, step, code string) *api.Step {
	t.Helper()
	s := e.FirstFailed()
	if s == nil || s.Name != step || s.Reason == nil || s.Reason.Code != code || e.Open {
		t.Fatalf("want %s to fail because of %s:\n%s", step, code, e.Text())
	}
	return s
}

// mend runs the first fix of an explanation as the account's root user.
func (w *sessionWorld) mend(t *testing.T, s *api.Step) {
	t.Helper()
	if len(s.Reason.Fixes) == 0 || !s.Reason.Fixes[0].Proven {
		t.Fatalf("no proven fix:\n%s", s.Text())
	}
	if out, ok := pasted(t, w.info, w.account, "test", s.Reason.Fixes[0]); !ok {
		t.Fatalf("%s\n%s", s.Reason.Fixes[0].Shell(), out)
	}
}

func (w *sessionWorld) start(t *testing.T, id, document string) error {
	t.Helper()
	in := &awsssm.StartSessionInput{Target: &id}
	if document != "" {
		in.DocumentName = &document
	}
	_, err := w.ssm.StartSession(t.Context(), in)
	return err
}

// TestWhySession breaks each link of the chain to a session, and runs the printed fixes.
func TestWhySession(t *testing.T) {
	w := newSessionWorld(t)
	id := w.run(t, al2023Image, "node")

	// The user has no permissions, the agent reaches nothing, and its role has no policies. One fix covers all of this.
	e := w.why(t, id, "")
	s := w.failed(t, e, "permission", "AccessDeniedException")
	states := map[string]string{}
	for _, s := range e.Steps {
		states[s.Name] = s.State
	}
	for name, want := range map[string]string{
		"instance": api.StepOK, "agent": api.StepOK, "service": api.StepOK, "role": api.StepOK,
		"network": api.StepFailed, "policies": api.StepFailed, "connected": api.StepPending,
	} {
		if states[name] != want {
			t.Errorf("%s is %s, want %s\n%s", name, states[name], want, e.Text())
		}
	}
	w.mend(t, s)
	w.until(t, id, isOpen)
	if err := w.start(t, id, ""); err != nil {
		t.Error(err)
	}

	// A document needs a permission of its own.
	const document = "AWS-StartPortForwardingSession"
	if err := w.start(t, id, document); err == nil {
		t.Error("the document needs no permission")
	}
	w.mend(t, w.failed(t, w.why(t, id, document), "permission", "AccessDeniedException"))
	if err := w.start(t, id, document); err != nil {
		t.Error(err)
	}

	// Someone stops the agent.
	testkit.Must(w.root.SendCommand(t.Context(), &awsssm.SendCommandInput{
		InstanceIds: []string{id}, DocumentName: aws.String("AWS-RunShellScript"), Parameters: map[string][]string{"commands": {"systemctl stop amazon-ssm-agent"}},
	}))(t)
	w.until(t, id, func(e *api.SessionExplanation) bool { return !e.Open })
	var gone *ssmtypes.TargetNotConnected
	before := time.Now()
	if err := w.start(t, id, ""); !errors.As(err, &gone) {
		t.Errorf("%v, want TargetNotConnected", err)
	}
	testkit.Eventually(t, 10*time.Second, func() error {
		list, err := w.daemon.Try(t.Context(), w.user.AccessKeyID, before)
		if want := "drydock why session " + id + " --region us-east-1 --account " + w.account; err == nil && !slices.Equal(list, []string{want}) {
			err = fmt.Errorf("%q, want %q", list, want)
		}
		return err
	})
	w.mend(t, w.failed(t, w.why(t, id, ""), "service", "AgentStopped"))
	w.until(t, id, isOpen)

	// A fault kills it.
	f := testkit.Must(w.daemon.SetFault(t.Context(), fault.Fault{Kind: fault.Agent, Account: w.account, Region: "us-east-1", Instance: id}))(t)
	w.until(t, id, func(e *api.SessionExplanation) bool { return !e.Open })
	if s := w.failed(t, w.why(t, id, ""), "service", "agent"); len(s.Reason.Fixes) != 1 || s.Reason.Fixes[0].Shell() != f.Fix() {
		t.Errorf("%s", s.Text())
	}
	testkit.Must(w.daemon.ClearFaults(t.Context(), api.Place{Account: w.account, Region: "us-east-1"}, fault.Agent))(t)
	w.until(t, id, isOpen)

	// The instance is off. Until it is, the fix waits for that, which the machines' aws CLI cannot.
	off := func(e *api.SessionExplanation) bool {
		return strings.Contains(e.Text(), "aws ec2 start-instances") && !strings.Contains(e.Text(), "aws ec2 wait")
	}
	testkit.Must(w.ec2.StopInstances(t.Context(), &awsec2.StopInstancesInput{InstanceIds: []string{id}}))(t)
	testkit.Eventually(t, 30*time.Second, func() error {
		if e := w.why(t, id, ""); e.FirstFailed() == nil || !off(&e) {
			return errors.New(e.Text())
		}
		return nil
	})
	w.mend(t, w.failed(t, w.why(t, id, ""), "instance", "InstanceOff"))
	w.until(t, id, isOpen)

	eic := testkit.Must(w.daemon.WhySession(t.Context(), api.Place{Account: w.account, Region: "us-east-1"}, id, "eic", "", "", "", w.user))(t)
	if s := eic.FirstFailed(); s == nil || s.Name != "permission" || !strings.Contains(s.Evidence, "ec2-instance-connect:SendSSHPublicKey") {
		t.Errorf("%s", eic.Text())
	}

	// The instance is off, and the caller may not send a key. The first fix includes the second.
	place := api.Place{Account: w.account, Region: "us-east-1"}
	testkit.Must(w.ec2.StopInstances(t.Context(), &awsec2.StopInstancesInput{InstanceIds: []string{id}}))(t)
	w.until(t, id, off)
	w.mend(t, w.failed(t, testkit.Must(w.daemon.WhySession(t.Context(), place, id, "eic", "", "", "", w.user))(t), "permission", "AccessDeniedException"))
	w.until(t, id, isOpen)

	// Without an account in the request, the caller's applies. The default user belongs to another account.
	if e := testkit.Must(w.daemon.WhySession(t.Context(), api.Place{Region: "us-east-1"}, id, "ssm", "", "", "", w.user))(t); e.Account != w.account {
		t.Errorf("the account is %s, want %s", e.Account, w.account)
	}

	// SSH has no way into the closed network, and the instance has no key.
	ssh := testkit.Must(w.daemon.WhySession(t.Context(), api.Place{Account: w.account, Region: "us-east-1"}, id, "ssh", "", "", "", w.user))(t)
	if s := ssh.FirstFailed(); s == nil || s.Name != "network" || s.Reason.By != "network" {
		t.Errorf("%s", ssh.Text())
	}
	if s := ssh.Steps[len(ssh.Steps)-1]; s.Name != "key" || s.Reason == nil || s.Reason.Code != "NoKey" {
		t.Errorf("%s", ssh.Text())
	}

	// Some problems have no fix that can be run, only a sketch of one.
	w.user = api.Caller{AccessKeyID: w.account}
	for _, tt := range []struct{ image, profile, step, code string }{
		{al2023Image, "", "role", "NoInstanceProfile"},
		{bottlerocketAMI, "node", "agent", "NoAgent"},
	} {
		s := w.failed(t, w.why(t, w.run(t, tt.image, tt.profile), ""), tt.step, tt.code)
		if len(s.Reason.Fixes) != 1 || s.Reason.Fixes[0].Sketch == "" {
			t.Errorf("%s", s.Text())
		}
	}
}
