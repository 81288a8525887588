package why

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"path"
	"regexp"
	"slices"
	"strings"
	"time"

	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"
	"github.com/aws/aws-sdk-go-v2/service/ec2instanceconnect"
	awsssm "github.com/aws/aws-sdk-go-v2/service/ssm"
	"k8s.io/apimachinery/pkg/util/uuid"

	"github.com/drydock-dev/drydock/internal/advice"
	"github.com/drydock-dev/drydock/internal/api"
	"github.com/drydock-dev/drydock/internal/api/httpapi"
	"github.com/drydock-dev/drydock/internal/authz"
	"github.com/drydock-dev/drydock/internal/awsapi"
	"github.com/drydock-dev/drydock/internal/catalog/images"
	"github.com/drydock-dev/drydock/internal/fault"
	"github.com/drydock-dev/drydock/internal/journal"
	"github.com/drydock-dev/drydock/internal/machine"
	"github.com/drydock-dev/drydock/internal/node"
	"github.com/drydock-dev/drydock/internal/node/ami"
	"github.com/drydock-dev/drydock/internal/reach"
	"github.com/drydock-dev/drydock/internal/service/ssm"
)

// The ways onto an instance that getWhySession explains.
const (
	bySSM = "ssm" // Session Manager
	byEIC = "eic" // SSH with a key that EC2 Instance Connect sends
	bySSH = "ssh" // SSH with a key that is on the instance
)

// The reasons that are about a machine itself, and their codes.
const (
	byInstance       = "instance"
	codeInstanceOff  = "InstanceOff"
	codeNoAgent      = "NoAgent"
	codeAgentStopped = "AgentStopped"
	codeNoKey        = "NoKey"
	codeNoUser       = "NoUser"
	codeNoMetadata   = "NoMetadata"
	codeNoPackage    = "NoInstanceConnect"
)

// agentUnit is the agent's service.
const agentUnit = "amazon-ssm-agent"

// The steps of a session, in order.
const (
	sessionPermission = "permission" // the caller may start the session
	sessionInstance   = "instance"   // the instance is running
	sessionAgent      = "agent"      // its image has the agent
	sessionService    = "service"    // the agent runs
	sessionRole       = "role"       // the instance has credentials
	sessionNetwork    = "network"    // the agent reaches its endpoints
	sessionPolicies   = "policies"   // the policies of the role and the VPC endpoints let the agent register
	sessionConnected  = "connected"  // the agent has opened its control channel
	sessionUser       = "user"       // the instance has the user
	sessionPackage    = "package"    // by eic: sshd asks EC2 Instance Connect for keys
	sessionKey        = "key"        // the instance has a key for the user
)

// getWhySession explains whether the owner of the access key ?key= (with ?token=) can start a session with the instance
// or node ?name= in the way ?by=. ?document= is the document of a Systems Manager session. ?from= is the Instance Connect
// endpoint of an SSH connection, and ?user= its user. ?account= defaults to the caller's account.
func (x *Explainer) getWhySession(w http.ResponseWriter, r *http.Request) {
	account, region, name, ok := named(w, r)
	if !ok {
		return
	}
	q := r.URL.Query()
	who, err := x.cfg.Caller(r.Context(), q.Get("key"), q.Get("token"))
	if err != nil {
		http.Error(w, "the access key "+q.Get("key")+": "+err.Error(), http.StatusBadRequest)
		return
	}
	if q.Get("account") == "" {
		account = who.Account
	}
	by := q.Get("by")
	if by != bySSM && by != byEIC && by != bySSH {
		http.Error(w, fmt.Sprintf("a session by %q cannot be explained; want ssm, eic or ssh", by), http.StatusBadRequest)
		return
	}
	id, ok := x.FindNode(account, region, name)
	if _, fargate := x.cfg.Machines.Fargate(id); !ok || fargate {
		http.Error(w, "no instance "+name+" is known in "+region, http.StatusNotFound)
		return
	}
	c := &sessionChain{x: x, who: who, SessionExplanation: api.SessionExplanation{
		Instance: id, Account: account, Region: region, By: by, Principal: who.ARN, Steps: []api.Step{},
	}}
	if by == bySSM {
		c.explain(r.Context(), q.Get("document"))
	} else {
		c.explainSSH(r.Context(), q.Get("from"), cmp.Or(q.Get("user"), sshUser))
	}
	c.mendAll()
	httpapi.Answer(w, c.SessionExplanation)
}

// A sessionChain is a session that is being explained.
type sessionChain struct {
	x       *Explainer
	who     awsapi.Principal
	in      machine.Instance
	version string // of the agent
	api.SessionExplanation
}

func (c *sessionChain) add(name, state, evidence string, why *api.Reason) {
	c.Steps = append(c.Steps, api.Step{Name: name, State: state, Evidence: evidence, Reason: paged(why)})
}

func (c *sessionChain) ok(name, evidence string) { c.add(name, api.StepOK, evidence, nil) }

func (c *sessionChain) fail(name, evidence string, why *api.Reason) {
	c.add(name, api.StepFailed, evidence, why)
}

// pending adds the remaining steps, which cannot be checked yet.
func (c *sessionChain) pending() {
	order := []string{sessionPermission, sessionInstance, sessionAgent, sessionService, sessionRole, sessionNetwork, sessionPolicies, sessionConnected}
	switch c.By {
	case byEIC:
		order = []string{sessionPermission, sessionInstance, sessionAgent, sessionService, sessionNetwork, sessionUser, sessionPackage, sessionKey}
	case bySSH:
		order = []string{sessionPermission, sessionInstance, sessionAgent, sessionService, sessionNetwork, sessionUser, sessionKey}
	}
	for _, name := range order[slices.Index(order, c.Steps[len(c.Steps)-1].Name)+1:] {
		c.add(name, api.StepPending, "", nil)
	}
}

// explain follows the chain of a Systems Manager session. Most steps do not depend on each other, so every step that fails
// is shown, and the fix of the first one includes the fixes of the others.
func (c *sessionChain) explain(ctx context.Context, document string) {
	c.permission(ctx, document)
	if !c.instance() || !c.agent() {
		c.pending()
		return
	}
	agent := c.x.cfg.Machines.Agent(ctx, c.Instance, ssm.ServeSessions)
	c.service(agentUnit)
	if agent == nil { // the role may lack permissions, because it is not the only way to register
		c.ok(sessionRole, c.Role)
		c.ok(sessionNetwork, strings.Join(c.hosts(), ", "))
		c.ok(sessionPolicies, "")
		c.ok(sessionConnected, "the agent is connected")
		c.Open = c.FirstFailed() == nil
		return
	}
	who, identified := c.role(ctx)
	reached := c.network(ctx)
	if !identified {
		c.pending()
	} else if c.policies(ctx, who, reached) && c.FirstFailed() == nil {
		c.fail(sessionConnected, agent.Error(), nil)
	} else {
		c.pending()
	}
}

// permission checks what the caller needs: ssm:StartSession on the instance and, if the request names one, on the
// document. https://docs.aws.amazon.com/systems-manager/latest/userguide/getting-started-restrict-access-quickstart.html
func (c *sessionChain) permission(ctx context.Context, document string) {
	in := &awsssm.StartSessionInput{Target: &c.Instance}
	if document != "" {
		in.DocumentName = &document
	}
	c.mayCall(ctx, "ssm", "ssm:StartSession", in)
}

// mayCall checks whether the caller may make a call.
func (c *sessionChain) mayCall(ctx context.Context, service, action string, in any) {
	_, operation, _ := strings.Cut(action, ":")
	client := c.x.cfg.ClientAddress
	if !client.IsValid() {
		client = reach.Client
	}
	call := &awsapi.Call{
		// The policy that a fix adds is named after the request.
		RequestID: string(uuid.NewUUID()),
		Service:   service, Operation: operation, Account: c.who.Account, Region: c.Region, Principal: c.who, SourceIP: client, TLS: true, Time: time.Now(),
	}
	err := c.x.cfg.Authorizer.Authorize(awsapi.WithCall(ctx, call), call, in)
	if err == nil {
		c.ok(sessionPermission, action)
		return
	}
	why := &api.Reason{By: node.ByIAM, Code: "AccessDeniedException", Component: action, Text: err.Error()}
	if denial, ok := errors.AsType[*authz.Denial](err); ok {
		e := denial.Explain(call.RequestID)
		why.Text = denial.Decision.Reason
		why.Fixes = c.x.requestFixes(ctx, &e, cmp.Or(c.who.RoleARN, c.who.ARN))
	}
	c.fail(sessionPermission, err.Error(), why)
}

// instance checks that the machine is running and has booted. It returns false if the next steps cannot be checked.
func (c *sessionChain) instance() bool {
	in, err := c.x.cfg.Machines.Instance(c.Instance)
	if err != nil {
		state := "terminated"
		if i, ok := c.x.cfg.EC2.InstanceByID(c.Account, c.Region, c.Instance); ok && i.State != nil {
			state = string(i.State.Name)
		}
		why := &api.Reason{By: byInstance, Code: codeInstanceOff, Component: c.Instance, Text: "the instance is " + state, Fixes: c.x.startFixes(c.Account, c.Region, c.Instance)}
		if len(why.Fixes) == 0 {
			why.Note = "an instance that is " + state + " cannot be started"
		}
		c.fail(sessionInstance, state, why)
		return false
	}
	c.in, c.Role = in, in.RoleARN
	c.Notes = c.x.faultNotes(c.Account, c.Region, c.Instance, in.AvailabilityZone, in.VPCID)
	m, ok := c.x.cfg.Machines.Machine(c.Instance)
	i, known := c.x.cfg.EC2.InstanceByID(c.Account, c.Region, c.Instance)
	if ok && (!known || i.State == nil || i.State.Name != ec2types.InstanceStateNamePending) {
		select {
		case <-m.Booted():
			c.ok(sessionInstance, "running, "+in.Image.ID)
			return true
		default:
		}
	}
	c.add(sessionInstance, api.StepPending, "it is booting", nil)
	return false
}

// agent checks that the image has an agent or sshd.
func (c *sessionChain) agent() bool {
	m, ok := c.x.cfg.Machines.Machine(c.Instance)
	what, has := "sshd", ok && m.Abilities().Has(machine.Terminal)
	if c.By == bySSM {
		what, c.version = "SSM Agent", c.x.cfg.Machines.AgentVersion(c.Instance)
	}
	family := string(c.in.Image.Family)
	switch {
	case !has:
		// Nothing can be changed on the instance.
		c.fail(sessionAgent, family, &api.Reason{
			By: node.ByImage, Code: codeNoAgent, Component: c.in.Image.ID, Text: "Drydock runs no " + what + " for this image",
			Note:  "there is no way onto it: drydock why node and aws ec2 get-console-output show what it does",
			Fixes: oneSketch("launch an instance from an Amazon Linux or EKS image instead; this prints the ID of one", "aws ssm get-parameter --name /aws/service/ami-amazon-linux-latest/al2023-ami-kernel-default-x86_64 --query Parameter.Value --output text --region "+c.Region),
		})
	case c.By == bySSM && c.version == "":
		c.fail(sessionAgent, family, &api.Reason{
			By: byInstance, Code: codeNoAgent, Component: agentUnit, Text: "the package amazon-ssm-agent is not installed: the minimal images do not contain it, or someone removed it",
			Fixes: oneSketch("log in by SSH (drydock why session "+c.Instance+" --by ssh --region "+c.Region+"), and run this on the instance; or launch it again with this in its user data", "sudo yum install -y amazon-ssm-agent"),
		})
	case c.By == bySSM:
		c.ok(sessionAgent, family+", amazon-ssm-agent "+c.version)
		return true
	default:
		c.ok(sessionAgent, family)
		return true
	}
	return false
}

// service checks that the agent or sshd runs.
func (c *sessionChain) service(agentUnit string) {
	active, boots := c.x.cfg.Machines.Unit(c.Instance, agentUnit)
	if active {
		c.ok(sessionService, agentUnit+".service is active")
		return
	}
	if f := c.x.cfg.Faults.Instance(fault.Agent, c.Account, c.Region, c.Instance); f != nil && c.By == bySSM {
		d := node.FaultDecision(f, "the agent is killed whenever it runs")
		c.fail(sessionService, agentUnit+".service is not active", c.x.reason(c.Account, c.Region, &d))
		return
	}
	c.fail(sessionService, agentUnit+".service is not active", &api.Reason{
		By: byInstance, Code: codeAgentStopped, Component: agentUnit, Text: "the service was stopped on the instance",
		Fixes: advice.Try(func([]advice.Change) error {
			if !boots {
				return fmt.Errorf("%s.service does not start at boot either: it is masked", agentUnit)
			}
			return nil
		}, []advice.Change{{Kind: advice.RebootInstance, Resource: c.Instance}}, "aws ec2 reboot-instances --instance-ids "+c.Instance+" --region "+c.Region),
	})
}

// role checks that the instance's programs have credentials, and returns their principal.
func (c *sessionChain) role(ctx context.Context) (awsapi.Principal, bool) {
	who, err := c.x.cfg.Machines.Identity(ctx, c.in)
	if err == nil {
		c.ok(sessionRole, who.RoleARN)
		return who, true
	}
	s := node.Step{Name: sessionRole, Evidence: err.Error(), Cause: node.CauseOf(err), Decision: node.DecisionOf(err)}
	if s.Cause == "" {
		s.Name = node.StepMetadata
	}
	why := c.x.reason(c.Account, c.Region, s.Decision)
	if why == nil {
		why = c.x.hint(&api.NodeExplanation{Instance: c.Instance, Account: c.Account, Region: c.Region, Role: c.Role}, &c.in, &s)
	}
	c.fail(sessionRole, err.Error(), why)
	return who, false
}

// hosts returns the endpoints that the agent needs.
func (c *sessionChain) hosts() []string {
	out := []string{"ssm." + c.Region + ".amazonaws.com", "ssmmessages." + c.Region + ".amazonaws.com"}
	if ssm.NeedsEC2Messages(c.version) {
		out = append(out, "ec2messages."+c.Region+".amazonaws.com")
	}
	return out
}

// network checks the connections to the agent's endpoints. A fix makes all of them possible.
func (c *sessionChain) network(ctx context.Context) bool {
	q := advice.Connection{Through: c.x.through(ctx, c.Account, c.Region)}
	for _, h := range c.hosts() {
		q.Needs = append(q.Needs, need(c.Instance, h, 443))
	}
	for _, h := range c.hosts() {
		err := c.x.cfg.Machines.Connect(ctx, c.in, h, 443)
		if err == nil {
			continue
		}
		var why *api.Reason
		if d := node.DecisionOf(err); d != nil {
			alone := *d
			alone.Connection = nil
			why = c.x.reason(c.Account, c.Region, &alone)
			if s, err := c.x.cfg.Network(ctx, c.Account, c.Region); err == nil && d.Connection != nil && d.By == node.ByNetwork {
				a := advice.Network(s, q)
				why.Fixes, why.Note = a.Fixes, a.Note
			}
		}
		c.fail(sessionNetwork, h+": "+err.Error(), why)
		return false
	}
	c.ok(sessionNetwork, strings.Join(c.hosts(), ", "))
	return true
}

// policies checks that the role and the policies of VPC endpoints let the agent register.
func (c *sessionChain) policies(ctx context.Context, who awsapi.Principal, reached bool) bool {
	calls, actions := []node.Call{{Action: node.ActionRegisterAgent}, {Action: node.ActionControlChannel}}, node.ActionRegisterAgent+", "+node.ActionControlChannel
	if ssm.NeedsEC2Messages(c.version) {
		calls, actions = append(calls, node.Call{Action: node.ActionGetMessages}), actions+", "+node.ActionGetMessages
	}
	fixes, faults := c.x.cfg.Machines.Permit(ctx, c.in, who, calls)
	why, evidence := (*api.Reason)(nil), ""
	for i := 0; reached && i < len(calls) && why == nil; i++ {
		if err := c.x.cfg.Machines.Call(ctx, c.in, calls[i]); err != nil {
			evidence, why = err.Error(), c.x.reason(c.Account, c.Region, node.DecisionOf(err))
		}
	}
	switch {
	case why == nil && len(faults) > 0:
		evidence, why = faults[0].Text, c.x.reason(c.Account, c.Region, faults[0])
	case why == nil && len(fixes) > 0:
		evidence = "the role " + who.RoleARN + " may not register the agent"
		why = &api.Reason{By: node.ByIAM, Code: "AccessDeniedException", Component: node.ActionRegisterAgent, Text: evidence}
	case why == nil && evidence == "":
		c.ok(sessionPolicies, actions)
		return true
	}
	if why != nil && why.By == node.ByIAM && len(fixes) > 0 {
		f := fixes[0]
		for _, next := range fixes[1:] {
			f.Then(next)
		}
		why.Fixes = []advice.Fix{f}
	}
	c.fail(sessionPolicies, evidence, why)
	return false
}

// mendAll extends the fixes of the first failed step with the fixes of the others, because a session needs every step.
func (c *sessionChain) mendAll() {
	first := c.FirstFailed()
	if first == nil || first.Reason == nil {
		return
	}
	for i := range c.Steps {
		s := &c.Steps[i]
		if s == first || s.State != api.StepFailed {
			continue
		}
		for j := range first.Reason.Fixes {
			f := &first.Reason.Fixes[j]
			k := -1
			if s.Reason != nil {
				k = slices.IndexFunc(s.Reason.Fixes, func(g advice.Fix) bool { return g.Proven })
			}
			switch {
			case k < 0:
				f.Lacks(s.Name + " fails, too")
			case f.Sketch == "":
				f.Then(s.Reason.Fixes[k])
			}
		}
	}
}

// explainSSH follows the chain of an SSH connection as a user, from the laptop or through the Instance Connect endpoint from.
func (c *sessionChain) explainSSH(ctx context.Context, from, user string) {
	if c.By == byEIC {
		c.mayCall(ctx, "ec2-instance-connect", "ec2-instance-connect:SendSSHPublicKey", &ec2instanceconnect.SendSSHPublicKeyInput{InstanceId: &c.Instance, InstanceOSUser: &user})
	} else {
		c.ok(sessionPermission, "none is needed")
	}
	if !c.instance() || !c.agent() {
		c.pending()
		return
	}
	c.service("sshd")
	c.port22(ctx, from)
	if !c.user(ctx, user) {
		c.pending()
		return
	}
	if c.By == byEIC {
		switch command, why := c.connectPackage(ctx); {
		case why != nil:
			c.fail(sessionPackage, why.Text, why)
		case command == "": // the disk cannot be read, so the rest is unknown
			c.pending()
			return
		default:
			c.ok(sessionPackage, "sshd asks "+command+" for keys")
		}
	}
	c.keys(ctx, user)
	c.Open = c.FirstFailed() == nil
}

// onInstance returns the fix that runs a command on the instance as root by Run Command. The agent has to be connected for
// that, and the instance has to reach the given host unless it is empty.
func (c *sessionChain) onInstance(ctx context.Context, why, command, host string) []advice.Fix {
	return advice.Try(func([]advice.Change) error {
		if err := c.x.cfg.Machines.Agent(ctx, c.Instance, ssm.RunCommands); err != nil {
			return fmt.Errorf("Run Command cannot run it (drydock why session %s --region %s): %w; log in in another way and run it as root", c.Instance, c.Region, err)
		}
		if host == "" {
			return nil
		}
		return c.x.cfg.Machines.Connect(ctx, c.in, host, 443)
	}, []advice.Change{{Kind: advice.RunCommand, Resource: c.Instance, Value: why}},
		"aws ssm send-command --document-name AWS-RunShellScript --instance-ids "+c.Instance+" --parameters 'commands=[\""+command+"\"]' --region "+c.Region)
}

// connectPackage returns the program that sshd asks for the keys of EC2 Instance Connect, or the reason why it asks none.
func (c *sessionChain) connectPackage(ctx context.Context) (command string, why *api.Reason) {
	files := c.files()
	if files == nil {
		return "", nil // the machine is going off
	}
	command, err := ami.KeysCommand(files)
	if err == nil {
		return command, nil
	}
	why = &api.Reason{By: byInstance, Code: codeNoPackage, Component: ami.SSHDConfigFile, Text: "sshd does not accept keys of EC2 Instance Connect: " + err.Error()}
	switch {
	case command != "" && command != ami.ConnectFile(c.in.Image.Family):
		why.Note = "sshd can have only one AuthorizedKeysCommand: remove that line, and install the package ec2-instance-connect again"
	case c.in.Image.Family == images.Ubuntu:
		why.Note = "install the package ec2-instance-connect, which a simulated Ubuntu cannot, or launch the instance again"
	default: // the package may be installed, although its program or its line of sshd_config is gone
		why.Fixes = c.onInstance(ctx, "sshd accepts keys of EC2 Instance Connect", "yum reinstall -y ec2-instance-connect || yum install -y ec2-instance-connect", ami.Mirror(c.in))
	}
	return command, why
}

// maxUserFile is how much of /etc/passwd and authorized_keys is read.
const maxUserFile = 256 << 10

// files returns the files of the instance, or nil if it has none now.
func (c *sessionChain) files() machine.Files {
	m, ok := c.x.cfg.Machines.Machine(c.Instance)
	if !ok {
		return nil
	}
	files, err := m.Files()
	if err != nil {
		return nil
	}
	return files
}

// read returns a file of the instance, or nothing if it has no such file.
func (c *sessionChain) read(name string) []byte {
	files := c.files()
	if files == nil {
		return nil
	}
	data, _ := files.ReadFile(name) // the file may be missing
	return data[:min(len(data), maxUserFile)]
}

// passwd returns a user's line in /etc/passwd.
func (c *sessionChain) passwd(user string) (fields []string, ok bool) {
	for line := range strings.Lines(string(c.read("/etc/passwd"))) {
		if f := strings.Split(strings.TrimSpace(line), ":"); len(f) == 7 && f[0] == user {
			return f, true
		}
	}
	return nil, false
}

// user checks that the instance has the user, and that the user may log in.
func (c *sessionChain) user(ctx context.Context, name string) bool {
	f, ok := c.passwd(name)
	text, command := "the instance has no user "+name, "useradd -m "+name
	switch {
	case ok && strings.HasSuffix(f[6], "/nologin"):
		text, command = "the shell of "+name+" is "+f[6], "usermod -s /bin/bash "+name
	case ok:
		c.ok(sessionUser, name+", "+f[6])
		return true
	}
	why := &api.Reason{By: byInstance, Code: codeNoUser, Component: "/etc/passwd", Text: text}
	if userName.MatchString(name) {
		why.Fixes = c.onInstance(ctx, name+" may log in", command, "")
	} else {
		why.Note = "that is no name for a user on Linux; log in as the image's user, " + sshUser
	}
	c.fail(sessionUser, text, why)
	return false
}

// userName matches the names that useradd accepts.
var userName = regexp.MustCompile(`^[a-z_][a-z0-9_-]{0,31}$`)

// sshUser is the default user of the images that run sshd.
const sshUser = "ec2-user"

// port22 checks the connection to sshd.
func (c *sessionChain) port22(ctx context.Context, from string) {
	client := c.x.cfg.ClientAddress
	if !client.IsValid() {
		client = reach.Client
	}
	source := reach.Addr(client)
	if from != "" {
		source = reach.Endpoint{ID: from, Address: client}
	}
	s, err := c.x.cfg.Network(ctx, c.Account, c.Region)
	if err != nil {
		c.fail(sessionNetwork, err.Error(), nil)
		return
	}
	says := cmp.Or(from, "laptop ("+client.String()+")") + " to " + c.Instance + ":22"
	flow := reach.Flow{From: source, To: reach.At(c.Instance), Protocol: reach.TCP, Port: 22}
	v := s.Check(flow)
	if v.Reachable {
		c.ok(sessionNetwork, says)
		return
	}
	why := &api.Reason{By: node.ByNetwork}
	if len(v.Explanations) > 0 {
		e := v.Explanations[0]
		why.Code, why.Component, why.Text = e.Code, e.Component, e.Text
		if e.Code == reach.CodeFault {
			why.By = node.ByFault
		}
	}
	a := advice.Network(s, advice.Connection{Needs: []advice.Need{{Flow: flow}}, Through: c.x.through(ctx, c.Account, c.Region)})
	why.Fixes, why.Note = a.Fixes, a.Note
	c.fail(sessionNetwork, says, why)
}

// keys checks that the instance has a public key for the user: in authorized_keys, or from EC2 Instance Connect.
func (c *sessionChain) keys(ctx context.Context, user string) {
	home := "/home/" + user
	if f, ok := c.passwd(user); ok {
		home = f[5]
	}
	file := path.Join(home, ".ssh/authorized_keys")
	n := 0
	for line := range strings.Lines(string(c.read(file))) {
		if line = strings.TrimSpace(line); line != "" && !strings.HasPrefix(line, "#") {
			n++
		}
	}
	age, left, sent := c.x.cfg.LastKey(c.Instance, user)
	last := "EC2 Instance Connect has sent none for " + user + " in the last hour"
	switch {
	case left > 0:
		last = fmt.Sprintf("EC2 Instance Connect sent one for %s %s ago, which is valid for another %s", user, age.Round(time.Second), left.Round(time.Second))
	case sent:
		last = fmt.Sprintf("the last one that EC2 Instance Connect sent for %s, %s ago, has expired: a key is valid for 60 seconds", user, age.Round(time.Second))
	}
	if c.By == byEIC || n == 0 && left > 0 {
		if why := c.metadataOff(); why != nil {
			c.fail(sessionKey, "sshd cannot read the keys of EC2 Instance Connect, because the metadata service is off", why)
			return
		}
	}
	evidence := "no key is in " + file
	switch {
	case c.By == byEIC:
		c.ok(sessionKey, last)
		return
	case n > 0:
		c.ok(sessionKey, fmt.Sprintf("%s in %s", counted(n, "key"), file))
		return
	case left > 0:
		_, why := c.connectPackage(ctx)
		if why == nil {
			c.ok(sessionKey, last)
			return
		}
		c.fail(sessionKey, evidence+"; "+last+", but "+why.Text, why)
		return
	case sent:
		evidence += "; " + last
	}
	why := &api.Reason{By: byInstance, Code: codeNoKey, Component: file, Text: "the instance has no key for " + user}
	changes := []advice.Change{{Kind: advice.SendKey, Resource: c.Instance, Value: user}}
	commands := []string{
		`test -f "${KEY:=$HOME/.ssh/id_ed25519}" || ssh-keygen -q -t ed25519 -N '' -f "$KEY"`,
		"aws ec2-instance-connect send-ssh-public-key --instance-id " + c.Instance + " --instance-os-user " + user + ` --ssh-public-key "file://$KEY.pub" --region ` + c.Region,
	}
	var before *api.Reason // what a sent key needs
	if before = c.metadataOff(); before == nil {
		_, before = c.connectPackage(ctx)
	}
	why.Fixes = advice.Try(func([]advice.Change) error {
		if before != nil && len(before.Fixes) == 0 {
			return errors.New(before.Text)
		}
		return nil
	}, changes, commands...)
	if before != nil && len(before.Fixes) > 0 {
		f := before.Fixes[0]
		f.Then(why.Fixes[0])
		why.Fixes[0] = f
	}
	c.fail(sessionKey, evidence, why)
}

// metadataOff returns the reason why sshd cannot read keys from the metadata service, or nil if it can.
func (c *sessionChain) metadataOff() *api.Reason {
	f := c.x.cfg.Faults.Instance(fault.IMDS, c.Account, c.Region, c.Instance)
	if f != nil {
		d := node.FaultDecision(f, "the metadata service does not answer")
		return c.x.reason(c.Account, c.Region, &d)
	}
	i, ok := c.x.cfg.EC2.InstanceByID(c.Account, c.Region, c.Instance)
	if !ok || i.MetadataOptions == nil || i.MetadataOptions.HttpEndpoint != ec2types.InstanceMetadataEndpointStateDisabled {
		return nil
	}
	q := &question{x: c.x, e: &api.NodeExplanation{Instance: c.Instance, Account: c.Account, Region: c.Region}}
	return &api.Reason{
		By: byInstance, Code: codeNoMetadata, Component: c.Instance, Text: "the instance metadata service is disabled",
		Fixes: advice.Try(q.metadataAnswers, []advice.Change{{Kind: advice.EnableMetadata, Resource: c.Instance}},
			"aws ec2 modify-instance-metadata-options --instance-id "+c.Instance+" --http-endpoint enabled --region "+c.Region),
	}
}

// getTry returns the commands that explain why requests with the access key ?key= since ?since= failed because their
// target was not connected. It is for `drydock run`.
func (x *Explainer) getTry(w http.ResponseWriter, r *http.Request) {
	since, err := time.Parse(time.RFC3339Nano, r.URL.Query().Get("since"))
	if err != nil {
		http.Error(w, "since: "+err.Error(), http.StatusBadRequest)
		return
	}
	out := []string{}
	filter := journal.Filter{Kind: journal.KindCall, Since: since, Fields: map[string]string{"errorCode": "TargetNotConnected", "accessKeyId": r.URL.Query().Get("key")}}
	for e, err := range x.cfg.Journal.Query(filter) {
		if err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
		target, _, _ := strings.Cut(text(e, "errorMessage"), " ")
		try := "drydock why session " + target + " --region " + e.Region
		if e.Account != awsapi.DefaultAccount {
			try += " --account " + e.Account
		}
		if strings.HasPrefix(target, "i-") && !slices.Contains(out, try) {
			out = append(out, try)
		}
	}
	httpapi.Answer(w, out)
}
