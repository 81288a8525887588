package why

import (
	"bytes"
	"context"
	"fmt"
	"regexp"

	"github.com/drydock-dev/drydock/internal/advice"
	"github.com/drydock-dev/drydock/internal/api"
	"github.com/drydock-dev/drydock/internal/awsapi"
	"github.com/drydock-dev/drydock/internal/catalog/images"
	"github.com/drydock-dev/drydock/internal/machine"
	"github.com/drydock-dev/drydock/internal/node"
	"github.com/drydock-dev/drydock/internal/node/ami"
	"github.com/drydock-dev/drydock/internal/node/userdata"
)

// agent checks that the image has an agent or sshd.
func (c *sessionChain) agent(ctx context.Context) bool {
	m, ok := c.x.cfg.Machines.Machine(c.Instance)
	what, has := "sshd", ok && m.Abilities().Has(machine.Terminal) && (c.By == bySSM || c.in.Image.Family != images.Bottlerocket) // which has no sshd
	if c.By == bySSM {
		what, c.version = "SSM Agent", c.x.cfg.Machines.AgentVersion(c.Instance)
	}
	family := string(c.in.Image.Family)
	switch {
	case !has:
		// Nothing can be changed on the instance.
		text, note := noSession(c.in.Image.Family, what, ok && m.Abilities().Has(machine.Terminal))
		c.fail(sessionAgent, family, &api.Reason{
			By: node.ByImage, Code: codeNoAgent, Component: c.in.Image.ID, Text: text,
			Note:  note,
			Fixes: oneSketch("launch an instance from an Amazon Linux or EKS image instead; this prints the ID of one", "aws ssm get-parameter --name /aws/service/ami-amazon-linux-latest/al2023-ami-kernel-default-x86_64 --query Parameter.Value --output text --region "+c.Region),
		})
	case c.By == bySSM && c.version == "":
		c.fail(sessionAgent, family, &api.Reason{
			By: byInstance, Code: codeNoAgent, Component: agentUnit, Text: "the package amazon-ssm-agent is not installed: the minimal images do not contain it, or someone removed it",
			Fixes: c.agentFixes(ctx),
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

// noSession says why an instance has no agent or sshd, and what there is instead. terminal says whether the machine has a shell.
func noSession(family images.Family, what string, terminal bool) (text, note string) {
	text, note = "Drydock runs no "+what+" for this image", "there is no way onto it: drydock why node and aws ec2 get-console-output show what it does"
	switch {
	case terminal:
		note = "Session Manager opens a shell in its control container"
	case family == images.Bottlerocket:
		text = "in Drydock, Bottlerocket instances that run containers have no sessions, neither by Session Manager nor by SSH"
		note = "simulated Bottlerocket instances (the tag drydock:runtime=simulated) have sessions by Session Manager"
	}
	return text, note
}

// installAgent installs the Systems Manager agent, and starts it.
const installAgent = "yum install -y amazon-ssm-agent"

// agentFixes returns the fixes for an instance without the agent: to install it by SSH, or to launch the instance again.
func (c *sessionChain) agentFixes(ctx context.Context) []advice.Fix {
	mirror := func() error { return c.x.cfg.Machines.Connect(ctx, c.in, ami.Mirror(c.in), 443) }
	fixes := c.bySSH(ctx, "the agent of Systems Manager is installed", mirror, installAgent)
	var judge func() error
	has := ami.HasAgent(c.in.Image)
	if !has {
		judge = mirror
	}
	edit, sketch := keepingAgent(has, c.in.UserData)
	e := &api.NodeExplanation{Instance: c.Instance, Account: c.Account, Region: c.Region}
	return advice.Rank(append(fixes, c.x.replaced(e, &c.in, sketch, nil, edit, judge)...))
}

// bySSH returns the fix that runs commands on the instance as root by SSH, if judge, unless nil, does not object.
func (c *sessionChain) bySSH(ctx context.Context, what string, judge func() error, commands ...string) []advice.Fix {
	ssh := sessionChain{x: c.x, who: c.who, SessionExplanation: api.SessionExplanation{Instance: c.Instance, Account: c.Account, Region: c.Region, By: byEIC}}
	ssh.explainSSH(ctx, "", sshUser)
	all, changes := c.sendKey(sshUser)
	for _, command := range commands {
		all = append(all, c.login()+" sudo "+command)
	}
	return advice.Try(func([]advice.Change) error {
		if s := ssh.FirstFailed(); s != nil {
			return fmt.Errorf("SSH does not work either (drydock why session %s --by eic --region %s): %s", c.Instance, c.Region, s.Evidence)
		}
		if judge == nil {
			return nil
		}
		return judge()
	}, append(changes, advice.Change{Kind: advice.RunCommand, Resource: c.Instance, Value: what}), all...)
}

// enableFixes returns the fixes for a service that does not start at boot: the agent's is started by SSH, and sshd by the agent.
func (c *sessionChain) enableFixes(ctx context.Context, unit string) []advice.Fix {
	what, unmask, enable := unit+".service runs", "systemctl unmask "+unit, "systemctl enable --now "+unit
	if c.By == bySSM {
		return c.bySSH(ctx, what, nil, unmask, enable)
	}
	return c.onInstance(ctx, what, unmask+"; "+enable, "")
}

// controlFixes returns the fixes for a Bottlerocket machine whose control container is disabled. Nothing on it can enable the
// container, but a new machine has it unless user data says otherwise.
func (c *sessionChain) controlFixes() []advice.Fix {
	sketch := ""
	if bytes.Contains(unzipped(c.in.UserData), []byte("host-containers")) { // perhaps it is what disables the container
		sketch = "set enabled = true under [settings.host-containers.control] in the file user-data before the instance is launched again"
	}
	e := &api.NodeExplanation{Instance: c.Instance, Account: c.Account, Region: c.Region}
	return c.x.replaced(e, &c.in, sketch, nil, "", nil)
}

// login returns the command that logs in with the key $KEY. That of a twin also works at its source.
func (c *sessionChain) login() string {
	const options = ` -i "$KEY" -o StrictHostKeyChecking=accept-new`
	if c.x.cfg.IsTwin != nil && c.x.cfg.IsTwin(c.Account) {
		address := c.in.PublicIP
		if !address.IsValid() {
			address = c.in.PrivateIP
		}
		return "ssh" + options + " " + sshUser + "@" + address.String()
	}
	login := "drydock ssh --region " + c.Region
	if c.Account != awsapi.DefaultAccount {
		login += " --account " + c.Account
	}
	return login + " " + sshUser + "@" + c.Instance + options
}

// unzipped returns user data without the encodings with which it may be given to an instance. If it cannot be unpacked, it returns it as it is.
func unzipped(userData []byte) []byte {
	text, err := userdata.Decode(userData)
	if err != nil {
		return userData
	}
	return text
}

// shellScript matches the first line of a script of a shell.
var shellScript = regexp.MustCompile(`^#![ \t]*/(?:usr/)?bin/(?:env[ \t]+)?(?:ba)?sh\s`)

// keepingAgent returns the edit of the file user-data after which an instance boots with the agent, which its image has or not. If
// only a person can do that, it returns a sketch.
func keepingAgent(has bool, userData []byte) (edit, sketch string) {
	switch {
	case bytes.Contains(unzipped(userData), []byte("amazon-ssm-agent")): // perhaps it is what removes the agent
		return "", "have the file user-data leave amazon-ssm-agent installed, which it names, before the instance is launched again"
	case has:
		return "", ""
	case len(userData) == 0:
		return `printf '#!/bin/sh\n%s\n' '` + installAgent + "' > user-data", ""
	case shellScript.Match(userData):
		return "{ head -n 1 user-data; echo " + installAgent + "; tail -n +2 user-data; } > user-data.new; mv user-data.new user-data", ""
	}
	return "", "have the file user-data run " + installAgent + " before the instance is launched again"
}
