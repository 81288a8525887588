package why

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"
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
	if !c.instance() || !c.agent(ctx) {
		c.pending()
		return
	}
	agent := c.x.cfg.Machines.Agent(ctx, c.Instance, ssm.ServeSessions)
	c.service(ctx, agentUnit)
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

// service checks that the agent or sshd runs.
func (c *sessionChain) service(ctx context.Context, unit string) {
	active, boots := c.x.cfg.Machines.Unit(c.Instance, unit)
	if active {
		c.ok(sessionService, unit+".service is active")
		return
	}
	if f := c.x.cfg.Faults.Instance(fault.Agent, c.Account, c.Region, c.Instance); f != nil && c.By == bySSM {
		d := node.FaultDecision(f, "the agent is killed whenever it runs")
		c.fail(sessionService, unit+".service is not active", c.x.reason(c.Account, c.Region, &d))
		return
	}
	why := &api.Reason{By: byInstance, Code: codeAgentStopped, Component: unit, Text: "the service was stopped on the instance"}
	switch {
	case boots:
		why.Fixes = advice.Try(func([]advice.Change) error { return nil },
			[]advice.Change{{Kind: advice.RebootInstance, Resource: c.Instance}}, "aws ec2 reboot-instances --instance-ids "+c.Instance+" --region "+c.Region)
	case c.in.Image.Family == images.Bottlerocket:
		why.Text = "the control container, in which the agent runs, is disabled: host-containers.control.enabled is false"
		why.Fixes = c.controlFixes()
	default:
		why.Text = "the service was stopped, and does not start at boot: it is disabled or masked"
		why.Fixes = c.enableFixes(ctx, unit)
	}
	c.fail(sessionService, unit+".service is not active", why)
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
	if s.Cause == node.CauseNoProfile {
		if fixes := c.profileFixes(ctx); len(fixes) > 0 {
			why.Fixes = fixes
		}
	}
	c.fail(sessionRole, err.Error(), why)
	return who, false
}

// profileFixes returns the fixes that give the instance the profile of another one, with whose role the agent may register. The
// profiles of node groups are left out, because EKS deletes them with the group.
func (c *sessionChain) profileFixes(ctx context.Context) []advice.Fix {
	var out []advice.Fix
	tried := map[string]bool{}
	for _, other := range c.x.cfg.Machines.Instances(c.Account, c.Region) {
		_, name, _ := strings.Cut(other.ProfileARN, "/")
		if name == "" || tried[name] || strings.HasPrefix(name, "eks-") {
			continue
		}
		tried[name] = true
		who, err := c.x.cfg.Machines.Identity(ctx, other)
		if err != nil {
			continue
		}
		calls, _ := c.calls()
		if missing, faults := c.x.cfg.Machines.Permit(ctx, c.in, who, calls); len(missing) > 0 || len(faults) > 0 {
			continue
		}
		out = append(out, advice.Try(func([]advice.Change) error { return nil }, // Permit has judged it
			[]advice.Change{{Kind: advice.AssociateProfile, Resource: c.Instance, Value: other.ProfileARN}},
			"aws ec2 associate-iam-instance-profile --instance-id "+c.Instance+" --iam-instance-profile Arn="+other.ProfileARN+" --region "+c.Region)...)
	}
	return out
}

// calls returns the calls that the agent needs, and their actions as text.
func (c *sessionChain) calls() (calls []node.Call, actions string) {
	calls, actions = []node.Call{{Action: node.ActionRegisterAgent}, {Action: node.ActionControlChannel}}, node.ActionRegisterAgent+", "+node.ActionControlChannel
	if ssm.NeedsEC2Messages(c.version) {
		calls, actions = append(calls, node.Call{Action: node.ActionGetMessages}), actions+", "+node.ActionGetMessages
	}
	return calls, actions
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
	calls, actions := c.calls()
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
