package ssm

import (
	"context"
	"errors"
	"io"
	"strings"

	"github.com/drydock-dev/drydock/internal/machine"
	"github.com/drydock-dev/drydock/internal/service/ssm/datachannel"
	"github.com/drydock-dev/drydock/internal/service/ssm/document"
)

// ssmUser is the user that sessions run as, unless preferences say otherwise. The agent creates it for the first session.
// https://docs.aws.amazon.com/systems-manager/latest/userguide/session-manager-getting-started-ssm-user-permissions.html
const ssmUser = "ssm-user"

// runProgram runs the shell or the commands of a session.
func (l *live) runProgram() error {
	m, ok := l.s.fleet.Machine(l.rec.Target)
	if !ok {
		return machine.ErrOff
	}
	what := "Unable to start shell: "
	if l.plan.kind != document.StandardStream {
		what = "Unable to start command: "
	}
	if l.plan.preferences.RunAsEnabled && l.plan.user == "" && !l.plan.program.Elevated {
		return failure(what + "please set the RunAs default user")
	}
	log, err := l.openLog()
	if err != nil {
		return err
	}
	defer log.close()
	l.mu.Lock()
	size := l.size
	l.mu.Unlock()
	out := io.MultiWriter(datachannel.Writer{Channel: l.channel, Payload: datachannel.Output}, log)
	c := machine.Command{
		User: l.plan.runsAs(), Args: []string{"sh"}, Dir: "/usr/bin", Stdin: l.keys, Stdout: out,
		Terminal: &machine.TerminalSpec{Type: "xterm-256color", Size: size},
	}
	if l.plan.user != "" {
		c.Args, c.Dir = nil, "" // the user's own shell and home
	}
	if profile := l.plan.preferences.ShellProfile.Linux; profile != "" {
		c.Stdin = io.MultiReader(strings.NewReader(strings.TrimSuffix(profile, "\n")+"\n"), l.keys) // the agent types it
	}
	switch l.plan.kind {
	case document.InteractiveCommands:
		c.Args = []string{"sh", "-c", l.plan.program.Commands}
	case document.NonInteractiveCommands:
		c.Args, c.Stdin, c.Terminal = []string{"sh", "-c", l.plan.program.Commands}, nil, nil
		c.Stderr = out
	}
	p, err := m.Exec(l.ctx, c)
	if errors.Is(err, machine.ErrNoUser) {
		if l.plan.user != "" {
			return failure(what + "failed to start pty since RunAs user " + l.plan.user + " does not exist")
		}
		if err = addUser(l.ctx, m); err == nil {
			p, err = m.Exec(l.ctx, c)
		}
	}
	if err != nil {
		return err
	}
	l.mu.Lock()
	l.program = p
	resized := l.size != size
	size = l.size
	l.mu.Unlock()
	if resized {
		if err := p.Resize(size); err != nil {
			return err
		}
	}
	_, err = p.Wait()
	return err
}

// addUser creates ssm-user. Another session may be creating it at the same time.
func addUser(ctx context.Context, m machine.Machine) error {
	status, err := machine.Run(ctx, m, machine.Command{Args: []string{"sh", "-c", `{ useradd -m -c "" ` + ssmUser + ` || id -u ` + ssmUser + `; } && mkdir -p /etc/sudoers.d && {
echo "# User rules for ssm-user"; echo "ssm-user ALL=(ALL) NOPASSWD:ALL"; } > /etc/sudoers.d/ssm-agent-users && chmod 440 /etc/sudoers.d/ssm-agent-users`}})
	if err == nil && status != 0 {
		err = errors.New("the user ssm-user could not be created")
	}
	return err
}
