package app

import (
	"encoding/base64"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	awsec2 "github.com/aws/aws-sdk-go-v2/service/ec2"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"
	awsconnect "github.com/aws/aws-sdk-go-v2/service/ec2instanceconnect"
	awsiam "github.com/aws/aws-sdk-go-v2/service/iam"
	awsssm "github.com/aws/aws-sdk-go-v2/service/ssm"
	ssmtypes "github.com/aws/aws-sdk-go-v2/service/ssm/types"

	"github.com/drydock-dev/drydock/internal/advice"
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

func newSessionWorld(t *testing.T, account string) *sessionWorld {
	t.Helper()
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

func (w *sessionWorld) run(t *testing.T, image, profile string, userData ...string) string {
	t.Helper()
	in := &awsec2.RunInstancesInput{
		ImageId: &image, InstanceType: ec2types.InstanceTypeT3Micro, MinCount: aws.Int32(1), MaxCount: aws.Int32(1), SubnetId: &w.subnets[0], SecurityGroupIds: []string{w.group},
	}
	if profile != "" {
		in.IamInstanceProfile = &ec2types.IamInstanceProfileSpecification{Name: &profile}
	}
	if len(userData) > 0 {
		in.UserData = aws.String(base64.StdEncoding.EncodeToString([]byte(userData[0])))
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

// onInstance runs a command on an instance as root, and waits for its end.
func (w *sessionWorld) onInstance(t *testing.T, id, command string) {
	t.Helper()
	sent := testkit.Must(w.root.SendCommand(t.Context(), &awsssm.SendCommandInput{
		InstanceIds: []string{id}, DocumentName: aws.String("AWS-RunShellScript"), Parameters: map[string][]string{"commands": {command}},
	}))(t).Command
	testkit.Eventually(t, 20*time.Second, func() error {
		out, err := w.root.GetCommandInvocation(t.Context(), &awsssm.GetCommandInvocationInput{CommandId: sent.CommandId, InstanceId: &id})
		if err == nil && out.Status != ssmtypes.CommandInvocationStatusSuccess {
			err = fmt.Errorf("%s: %s", out.Status, *out.StandardErrorContent)
		}
		return err
	})
}

// stepOf returns a step of a chain.
func stepOf(e *api.SessionExplanation, name string) *api.Step {
	i := slices.IndexFunc(e.Steps, func(s api.Step) bool { return s.Name == name })
	if i < 0 {
		return &api.Step{Reason: &api.Reason{}}
	}
	return &e.Steps[i]
}

// TestWhySession breaks each link of the chain to a session, and runs the printed fixes.
func TestWhySession(t *testing.T) {
	w := newSessionWorld(t, "300000000000")
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

	// The instance has no such user.
	place = api.Place{Account: w.account, Region: "us-east-1"}
	bySSH := func(by, user string) api.SessionExplanation {
		return testkit.Must(w.daemon.WhySession(t.Context(), place, id, by, "", "", user, api.Caller{AccessKeyID: w.account}))(t)
	}
	mended := func(by, user, step, code string) {
		t.Helper()
		e := bySSH(by, user)
		s := stepOf(&e, step)
		if s.State != api.StepFailed || s.Reason.Code != code {
			t.Fatalf("want %s to fail because of %s:\n%s", step, code, e.Text())
		}
		w.mend(t, s)
		testkit.Eventually(t, 20*time.Second, func() error {
			if e := bySSH(by, user); stepOf(&e, step).State != api.StepOK {
				return errors.New(e.Text())
			}
			return nil
		})
	}
	mended("ssh", "ann", "user", "NoUser")
	w.onInstance(t, id, "usermod -s /sbin/nologin ann")
	mended("ssh", "ann", "user", "NoUser")
	if e := bySSH("ssh", "A b"); stepOf(&e, "user").Reason.Note == "" {
		t.Error(e.Text())
	}

	// An instance without a profile gets that of another one, with whose role the agent registers.
	w.user = api.Caller{AccessKeyID: w.account}
	bare := w.run(t, al2023Image, "")
	w.mend(t, w.failed(t, w.why(t, bare, ""), "role", "NoInstanceProfile"))
	w.until(t, bare, isOpen)
	terminated := []string{id, bare}
	testkit.Must(w.ec2.TerminateInstances(t.Context(), &awsec2.TerminateInstancesInput{InstanceIds: terminated}))(t)
	for _, id := range terminated {
		w.until(t, id, func(e *api.SessionExplanation) bool { return strings.Contains(e.Text(), "terminated") })
	}

	// Some problems have no fix that can be run, only a sketch of one.
	for _, tt := range []struct{ image, profile, step, code string }{
		{al2023Image, "", "role", "NoInstanceProfile"},
		{bottlerocketAMI, "node", "agent", "NoAgent"}, // no sshd, but an agent
	} {
		id, by := w.run(t, tt.image, tt.profile), "ssm"
		if tt.image == bottlerocketAMI {
			w.until(t, id, isOpen)
			by = "ssh"
		}
		s := w.failed(t, testkit.Must(w.daemon.WhySession(t.Context(), place, id, by, "", "", "", w.user))(t), tt.step, tt.code)
		if len(s.Reason.Fixes) != 1 || s.Reason.Fixes[0].Sketch == "" {
			t.Errorf("%s", s.Text())
		}
	}
}

// TestWhySSH breaks what an SSH connection needs on the instance, and runs the printed fixes.
func TestWhySSH(t *testing.T) {
	const account = "300000000001"
	info := startDaemon(t)
	cfg := configFor(info, account, "test")
	w := &sessionWorld{info: info, daemon: &api.Client{Daemon: info}, netWorld: newNetWorld(t, info, account, "public"), root: awsssm.NewFromConfig(cfg), user: api.Caller{AccessKeyID: account}}
	place := api.Place{Account: account, Region: "us-east-1"}
	hostRole(t, cfg)
	testkit.Must(w.ec2.ModifySubnetAttribute(t.Context(), &awsec2.ModifySubnetAttributeInput{SubnetId: &w.subnets[0], MapPublicIpOnLaunch: &ec2types.AttributeBooleanValue{Value: aws.Bool(true)}}))(t)
	id := w.run(t, al2023Image, "")
	w.until(t, id, isOpen)
	connect := awsconnect.NewFromConfig(cfg)
	why := func(by string) api.SessionExplanation {
		return testkit.Must(w.daemon.WhySession(t.Context(), place, id, by, "", "", "", w.user))(t)
	}
	mend := func(by, step, code string, fix func(advice.Fix) advice.Fix) {
		t.Helper()
		e := why(by)
		s := stepOf(&e, step)
		if s.State != api.StepFailed || s.Reason == nil || s.Reason.Code != code || len(s.Reason.Fixes) == 0 || !s.Reason.Fixes[0].Proven {
			t.Fatalf("want %s to fail because of %s, with a proven fix:\n%s", step, code, e.Text())
		}
		f := s.Reason.Fixes[0]
		if fix != nil {
			f = fix(f)
		}
		if out, ok := pasted(t, w.info, w.account, "test", f); !ok {
			t.Fatalf("%s\n%s", f.Shell(), out)
		}
		testkit.Eventually(t, 20*time.Second, func() error {
			if e := why(by); stepOf(&e, step).State != api.StepOK {
				return errors.New(e.Text())
			}
			return nil
		})
	}
	// w.user's own key, so that the fix does not make one.
	const public = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIPbmsAKgOeFOyA8o3UAnzBDcFEcfvVVjqkAyMUMaSFnl me"
	withKey := func(f advice.Fix) advice.Fix {
		f.Commands = append([]string{"mkdir -p /tmp; echo secret > /tmp/key; echo " + public + " > /tmp/key.pub; KEY=/tmp/key"}, f.Commands...)
		return f
	}

	if e := why("eic"); stepOf(&e, "package").State != api.StepOK {
		t.Errorf("%s", e.Text())
	}
	// Without its package, without its program, and without its line in sshd_config.
	for _, command := range []string{"yum remove -y ec2-instance-connect", "rm /opt/aws/bin/eic_run_authorized_keys", "sed -i /AuthorizedKeys/d /etc/ssh/sshd_config"} {
		w.onInstance(t, id, command)
		if _, err := connect.SendSSHPublicKey(t.Context(), &awsconnect.SendSSHPublicKeyInput{InstanceId: &id, InstanceOSUser: aws.String("root"), SSHPublicKey: aws.String(public)}); err != nil {
			t.Errorf("AWS does not look into the instance: %v", err)
		}
		mend("eic", "package", "NoInstanceConnect", nil)
	}
	w.onInstance(t, id, "sed -i 's#/opt.*#/usr/local/bin/mine#' /etc/ssh/sshd_config")
	if e := why("eic"); stepOf(&e, "package").Reason.Note == "" {
		t.Errorf("%s", e.Text())
	}
	w.onInstance(t, id, "sed -i '/^AuthorizedKeysCommand/d' /etc/ssh/sshd_config")

	// Neither a key, nor the package, nor the metadata service: one fix for each.
	metadata := func(s ec2types.InstanceMetadataEndpointState) {
		testkit.Must(w.ec2.ModifyInstanceMetadataOptions(t.Context(), &awsec2.ModifyInstanceMetadataOptionsInput{InstanceId: &id, HttpEndpoint: s}))(t)
	}
	mend("ssh", "key", "NoKey", withKey)
	metadata(ec2types.InstanceMetadataEndpointStateDisabled)
	mend("ssh", "key", "NoMetadata", nil)
	metadata(ec2types.InstanceMetadataEndpointStateDisabled)
	mend("eic", "key", "NoMetadata", nil)

	// A fault of the metadata service.
	f := testkit.Must(w.daemon.SetFault(t.Context(), fault.Fault{Kind: fault.IMDS, Account: account, Region: "us-east-1", Instance: id}))(t)
	if e := why("eic"); stepOf(&e, "key").State != api.StepFailed || stepOf(&e, "key").Reason.Fixes[0].Shell() != f.Fix() {
		t.Errorf("%s", e.Text())
	}
	testkit.Must(w.daemon.ClearFaults(t.Context(), place, fault.IMDS))(t)

	// An sshd that does not start at boot is enabled by Run Command.
	w.onInstance(t, id, "systemctl disable --now sshd")
	mend("ssh", "service", "AgentStopped", nil)
	w.onInstance(t, id, "systemctl mask --now sshd")
	mend("eic", "service", "AgentStopped", nil)

	// Without an agent, there is no way for the fix.
	w.onInstance(t, id, "yum remove -y ec2-instance-connect; systemctl mask --now amazon-ssm-agent; true")
	testkit.Eventually(t, 20*time.Second, func() error {
		e := why("eic")
		if s := stepOf(&e, "package"); s.State != api.StepFailed || len(s.Reason.Fixes) != 1 || !strings.Contains(s.Reason.Fixes[0].Sketch, "drydock why session "+id) {
			return errors.New(e.Text())
		}
		return nil
	})

	// A reboot does not start the agent, which is masked. By SSH it could be unmasked, if that worked.
	e := why("ssm")
	if s := stepOf(&e, "service"); s.State != api.StepFailed || !strings.Contains(s.Reason.Text, "disabled or masked") || len(s.Reason.Fixes) != 1 ||
		!strings.Contains(s.Reason.Fixes[0].Shell(), "sudo systemctl unmask amazon-ssm-agent\n") || !strings.Contains(s.Reason.Fixes[0].Sketch, "--by eic") {
		t.Error(e.Text())
	}
}

// hostRole turns on default host management, so that agents of instances without a role register.
func hostRole(t *testing.T, cfg aws.Config) {
	t.Helper()
	client := awsiam.NewFromConfig(cfg)
	testkit.Must(client.CreateRole(t.Context(), &awsiam.CreateRoleInput{RoleName: aws.String("hosts"), Path: aws.String("/service-role/"), AssumeRolePolicyDocument: aws.String(
		`{"Version":"2012-10-17","Statement":[{"Effect":"Allow","Principal":{"Service":"ssm.amazonaws.com"},"Action":"sts:AssumeRole"}]}`)}))(t)
	testkit.Must(client.AttachRolePolicy(t.Context(), &awsiam.AttachRolePolicyInput{RoleName: aws.String("hosts"), PolicyArn: aws.String("arn:aws:iam::aws:policy/AmazonSSMManagedEC2InstanceDefaultPolicy")}))(t)
	testkit.Must(awsssm.NewFromConfig(cfg).UpdateServiceSetting(t.Context(), &awsssm.UpdateServiceSettingInput{
		SettingId: aws.String("/ssm/managed-instance/default-ec2-instance-management-role"), SettingValue: aws.String("service-role/hosts")}))(t)
}

// TestOlderAgents installs an agent that is older than 3.3.40.0, which needs ec2messages.
func TestOlderAgents(t *testing.T) {
	w := newSessionWorld(t, "300000000002")
	w.user = api.Caller{AccessKeyID: w.account}
	id := w.run(t, al2023Image, "node")
	w.mend(t, w.failed(t, w.why(t, id, ""), "network", "NO_ROUTE_TO_DESTINATION"))
	w.until(t, id, isOpen)
	describe := func() ssmtypes.InstanceInformation {
		t.Helper()
		list := testkit.Must(w.root.DescribeInstanceInformation(t.Context(), &awsssm.DescribeInstanceInformationInput{}))(t).InstanceInformationList
		if len(list) != 1 {
			t.Fatalf("%d instances have registered, want 1", len(list))
		}
		return list[0]
	}
	update := func(parameters map[string][]string, want string) {
		t.Helper()
		sent := testkit.Must(w.root.SendCommand(t.Context(), &awsssm.SendCommandInput{InstanceIds: []string{id}, DocumentName: aws.String("AWS-UpdateSSMAgent"), Parameters: parameters}))(t).Command
		testkit.Eventually(t, 20*time.Second, func() error {
			out, err := w.root.GetCommandInvocation(t.Context(), &awsssm.GetCommandInvocationInput{CommandId: sent.CommandId, InstanceId: &id})
			if err == nil && !strings.Contains(*out.StandardOutputContent, want) {
				err = fmt.Errorf("%s: %s%s", out.Status, *out.StandardOutputContent, *out.StandardErrorContent)
			}
			return err
		})
	}
	if i := describe(); *i.AgentVersion != "3.3.3050.0" || !*i.IsLatestVersion {
		t.Errorf("%s, %v", *i.AgentVersion, *i.IsLatestVersion)
	}

	// The instance reaches S3, from where the agent comes, but not ec2messages.
	update(map[string][]string{"version": {"3.2.2303.0"}, "allowDowngrade": {"true"}}, "amazon-ssm-agent updated successfully to 3.2.2303.0")
	if i := describe(); *i.AgentVersion != "3.2.2303.0" || *i.IsLatestVersion || i.PingStatus != ssmtypes.PingStatusConnectionLost {
		t.Errorf("%s, %v, %s", *i.AgentVersion, *i.IsLatestVersion, i.PingStatus)
	}
	s := w.failed(t, w.why(t, id, ""), "network", "NO_ROUTE_TO_DESTINATION")
	if !strings.Contains(s.Evidence, "ec2messages.us-east-1.amazonaws.com") {
		t.Errorf("%s", s.Text())
	}
	w.mend(t, s)
	w.until(t, id, isOpen)

	// Its role may do only what newer agents need.
	const arn = "arn:aws:iam::aws:policy/AmazonSSMManagedInstanceCore"
	testkit.Must(w.iam.DetachRolePolicy(t.Context(), &awsiam.DetachRolePolicyInput{RoleName: aws.String("node"), PolicyArn: aws.String(arn)}))(t)
	testkit.Must(w.iam.PutRolePolicy(t.Context(), &awsiam.PutRolePolicyInput{RoleName: aws.String("node"), PolicyName: aws.String("sessions"),
		PolicyDocument: aws.String(`{"Version":"2012-10-17","Statement":[{"Effect":"Allow","Action":["ssm:*","ssmmessages:*","s3:*"],"Resource":"*"}]}`)}))(t)
	w.until(t, id, func(e *api.SessionExplanation) bool { return !e.Open })
	s = w.failed(t, w.why(t, id, ""), "policies", "AccessDeniedException")
	if !strings.Contains(s.Text(), "ec2messages:GetMessages") {
		t.Errorf("%s", s.Text())
	}
	w.mend(t, s)
	w.until(t, id, isOpen)
	if v := *describe().AgentVersion; v != "3.2.2303.0" {
		t.Errorf("the agent is %s", v)
	}

	// Run Command removes the agent, which then is no more.
	update(nil, "amazon-ssm-agent updated successfully to 3.3.3050.0")
	if i := describe(); *i.AgentVersion != "3.3.3050.0" || i.PingStatus != ssmtypes.PingStatusOnline {
		t.Errorf("%s, %s", *i.AgentVersion, i.PingStatus)
	}
	testkit.Must(w.root.SendCommand(t.Context(), &awsssm.SendCommandInput{InstanceIds: []string{id}, DocumentName: aws.String("AWS-RunShellScript"), Parameters: map[string][]string{"commands": {"yum remove -y amazon-ssm-agent"}}}))(t)
	w.until(t, id, func(e *api.SessionExplanation) bool { return stepOf(e, "agent").State == api.StepFailed })
	relaunched := func(id string) {
		t.Helper()
		s := w.failed(t, w.why(t, id, ""), "agent", "NoAgent")
		w.mend(t, s)
		if !strings.Contains(s.Text(), "SSH does not work either") {
			t.Errorf("the laptop does not reach the instance:\n%s", s.Text())
		}
		list := testkit.Must(w.ec2.DescribeInstances(t.Context(), &awsec2.DescribeInstancesInput{Filters: []ec2types.Filter{
			{Name: aws.String("instance-state-name"), Values: []string{"pending", "running"}}, {Name: aws.String("iam-instance-profile.arn"), Values: []string{"*:instance-profile/node"}}}}))(t).Reservations
		if len(list) != 1 {
			t.Fatalf("%d instances, want the new one", len(list))
		}
		id = *list[0].Instances[0].InstanceId
		w.until(t, id, isOpen)
		testkit.Must(w.ec2.TerminateInstances(t.Context(), &awsec2.TerminateInstancesInput{InstanceIds: []string{id}}))(t)
	}
	relaunched(id)

	// The minimal images do not have it, so user data has to install it.
	const minimal = "resolve:ssm:/aws/service/ami-amazon-linux-latest/al2023-ami-minimal-kernel-default-x86_64"
	relaunched(w.run(t, minimal, "node"))
	relaunched(w.run(t, minimal, "node", "#!/bin/bash\necho booted\n"))
	if s := w.failed(t, w.why(t, w.run(t, minimal, "node", "#cloud-config\nruncmd: [date]\n"), ""), "agent", "NoAgent"); s.Reason.Fixes[0].Proven {
		t.Errorf("%s", s.Text())
	}
}
