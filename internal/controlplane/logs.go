package controlplane

import (
	"context"
	"slices"
	"time"

	authnv1 "k8s.io/api/authentication/v1"

	"github.com/drydock-dev/drydock/internal/controlplane/launch"
)

// A LogLine is a line of a component's log.
type LogLine = launch.LogLine

// The components of a control plane that write logs. Their log streams' names begin with these names.
const (
	LogAPIServer              = launch.APIServer
	LogAudit                  = launch.Audit
	LogAuthenticator          = launch.Authenticator
	LogControllerManager      = launch.ControllerManager
	LogCloudControllerManager = launch.CloudControllerManager
	LogScheduler              = launch.Scheduler
)

// holdLogging is how long a request for the enabled logs may wait for a change. It is shorter than the server's own
// timeouts.
const holdLogging = 25 * time.Second

func (p *plane) writeLogs(ctx context.Context, lines []LogLine) error {
	if p.m.hooks.WriteLogs == nil {
		return nil
	}
	p.mu.Lock()
	var instance string
	if p.process != nil {
		instance = p.process.instance
	}
	p.mu.Unlock()
	return p.m.hooks.WriteLogs(ctx, p.id, instance, lines)
}

// authenticate answers the token webhook, and logs the result as aws-iam-authenticator does.
func (p *plane) authenticate(ctx context.Context, client, token string) authnv1.TokenReviewStatus {
	hooks := p.m.hooks
	user, err := hooks.Authenticate(ctx, p.id, token)
	if hooks.AuthenticatorLines != nil && slices.Contains(p.snapshot().Logging, launch.Authenticator) {
		now := p.m.cfg.Clock.Now()
		for _, text := range hooks.AuthenticatorLines(now, client, user, err) {
			p.authenticator.Add(LogLine{Component: launch.Authenticator, Time: now.UnixMilli(), Text: text})
		}
	}
	if err != nil {
		return authnv1.TokenReviewStatus{Error: err.Error()}
	}
	return authnv1.TokenReviewStatus{Authenticated: true, User: user}
}
