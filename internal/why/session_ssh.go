package why

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"path"
	"regexp"
	"strings"
	"time"

	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"
	"github.com/aws/aws-sdk-go-v2/service/ec2instanceconnect"

	"github.com/drydock-dev/drydock/internal/advice"
	"github.com/drydock-dev/drydock/internal/api"
	"github.com/drydock-dev/drydock/internal/catalog/images"
	"github.com/drydock-dev/drydock/internal/fault"
	"github.com/drydock-dev/drydock/internal/machine"
	"github.com/drydock-dev/drydock/internal/node"
	"github.com/drydock-dev/drydock/internal/node/ami"
	"github.com/drydock-dev/drydock/internal/reach"
	"github.com/drydock-dev/drydock/internal/service/ssm"
)

// The links of a session by SSH, with or without EC2 Instance Connect.

// explainSSH follows the chain of an SSH connection as a user, from the laptop or through the Instance Connect endpoint from.
func (c *sessionChain) explainSSH(ctx context.Context, from, user string) {
	if c.By == byEIC {
		c.mayCall(ctx, "ec2-instance-connect", "ec2-instance-connect:SendSSHPublicKey", &ec2instanceconnect.SendSSHPublicKeyInput{InstanceId: &c.Instance, InstanceOSUser: &user})
	} else {
		c.ok(sessionPermission, "none is needed")
	}
	if !c.instance() || !c.agent(ctx) {
		c.pending()
		return
	}
	c.service(ctx, "sshd")
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
	commands, changes := c.sendKey(user)
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

// sendKey returns the commands that send the caller's own key, or a new one, by EC2 Instance Connect.
func (c *sessionChain) sendKey(user string) ([]string, []advice.Change) {
	return []string{
		`test -f "${KEY:=$HOME/.ssh/id_ed25519}" || { mkdir -m 700 -p "$(dirname "$KEY")"; ssh-keygen -q -t ed25519 -N '' -f "$KEY"; }`,
		"aws ec2-instance-connect send-ssh-public-key --instance-id " + c.Instance + " --instance-os-user " + user + ` --ssh-public-key "file://$KEY.pub" --region ` + c.Region,
	}, []advice.Change{{Kind: advice.SendKey, Resource: c.Instance, Value: user}}
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
