package balancer

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strconv"
	"sync"
	"time"

	elbv2types "github.com/aws/aws-sdk-go-v2/service/elasticloadbalancingv2/types"
)

// maxChecks is how many targets of a group are checked at once.
const maxChecks = 32

// eager is how often a target is checked at most until it is healthy for the first time, if waits are shortened.
const eager = 500 * time.Millisecond

// health returns the health of a target, or nil if it is not checked. Reasons and descriptions are from
// https://docs.aws.amazon.com/elasticloadbalancing/latest/application/target-group-health-checks.html#target-health-reason-codes
func (g *group) health(id TargetID) *elbv2types.TargetHealth {
	g.mu.Lock()
	defer g.mu.Unlock()
	t := g.targets[id]
	if t == nil || t.state == "" {
		return nil
	}
	h := &elbv2types.TargetHealth{State: t.state, Reason: t.reason}
	if t.description != "" {
		d := t.description
		h.Description = &d
	}
	return h
}

// checked reports whether programs run behind one of the targets.
func (g *group) checked() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, t := range g.targets {
		if t.state != "" {
			return true
		}
	}
	return false
}

// run checks the targets until the group ends.
func (g *group) run() {
	slots := make(chan struct{}, maxChecks)
	var checks sync.WaitGroup
	defer checks.Wait()
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-g.ctx.Done():
			return
		case <-g.kick:
		case <-timer.C:
		}
		due, next := g.due(time.Now())
		for _, t := range due {
			select {
			case slots <- struct{}{}:
			case <-g.ctx.Done():
				return
			}
			checks.Go(func() {
				defer func() { <-slots }()
				g.checkOne(t)
			})
		}
		timer.Reset(next)
	}
}

// due returns the targets that are to be checked now, and how long none is to be checked after that. Which targets run
// programs changes when machines boot.
func (g *group) due(now time.Time) ([]choice, time.Duration) {
	g.mu.Lock()
	defer g.mu.Unlock()
	p := g.b.plane
	interval := g.interval()
	next := interval
	var out []choice
	for _, t := range g.targets {
		if t.checking {
			next = min(next, eager)
			continue
		}
		if t.To.Balancer == "" && !p.network.Runs(g.b.key.Account, g.b.key.Region, t.To) {
			t.state, t.good, t.bad = "", 0, 0
			if p.cfg.Patience > 1 {
				next = min(next, 2*eager)
			}
			continue
		}
		if t.state == "" {
			t.state, t.reason, t.description = elbv2types.TargetHealthStateEnumInitial, elbv2types.TargetHealthReasonEnumInitialHealthChecking, "Initial health checks in progress"
			t.due = now
		}
		if wait := t.due.Sub(now); wait > 0 {
			next = min(next, wait)
			continue
		}
		t.checking = true
		wait := interval
		if t.state == elbv2types.TargetHealthStateEnumInitial && p.cfg.Patience > 1 {
			wait = min(wait, eager)
		}
		t.due = now.Add(wait)
		next = min(next, wait)
		out = append(out, choice{t, g.cfg})
	}
	return out, max(next, 10*time.Millisecond)
}

// interval is the time between checks of a target. The caller holds mu.
func (g *group) interval() time.Duration {
	return max(g.cfg.Check.Interval/time.Duration(g.b.plane.cfg.Patience), 100*time.Millisecond)
}

// checkOne checks a target and takes the result into account: a target that is new needs one good check, one that was
// unhealthy as many as the threshold says.
// https://docs.aws.amazon.com/elasticloadbalancing/latest/application/target-group-health-checks.html
func (g *group) checkOne(c choice) {
	ctx, cancel := context.WithTimeout(g.ctx, max(c.Check.Timeout, time.Second))
	reason, description := c.check(ctx)
	cancel()
	g.mu.Lock()
	defer g.mu.Unlock()
	t := c.target
	t.checking = false
	if g.ctx.Err() != nil || t.state == "" {
		return
	}
	if reason == "" {
		t.good, t.bad = t.good+1, 0
		if t.state == elbv2types.TargetHealthStateEnumInitial || t.good >= c.Check.Healthy {
			t.state, t.reason, t.description = elbv2types.TargetHealthStateEnumHealthy, "", ""
		}
		return
	}
	t.good, t.bad = 0, t.bad+1
	if t.bad >= c.Check.Unhealthy {
		t.state, t.reason, t.description = elbv2types.TargetHealthStateEnumUnhealthy, reason, description
	}
}

// check does one health check. It returns why it failed, or nothing.
func (c choice) check(ctx context.Context) (reason elbv2types.TargetHealthReasonEnum, description string) {
	to := c.To
	to.Port = uint16(c.checkPort.Load()) //nolint:gosec // a port
	dial := func(ctx context.Context, _, _ string) (net.Conn, error) { return c.g.b.dial(ctx, to) }
	var err error
	switch c.Check.Protocol {
	case "HTTP", "HTTPS":
		var code int
		if code, err = c.get(ctx, dial); err == nil {
			if c.Check.Codes(code) {
				return "", ""
			}
			return elbv2types.TargetHealthReasonEnumResponseCodeMismatch, fmt.Sprintf("Health checks failed with these codes: [%d]", code)
		}
	default:
		var conn net.Conn
		if conn, err = dial(ctx, "", ""); err == nil {
			if c.Check.Protocol == "SSL" || c.Check.Protocol == "TLS" {
				err = tls.Client(conn, anyTarget()).HandshakeContext(ctx)
			}
			_ = conn.Close()
		}
	}
	var ne net.Error
	switch {
	case err == nil:
		return "", ""
	case errors.As(err, &ne) && ne.Timeout(), errors.Is(err, context.DeadlineExceeded):
		return elbv2types.TargetHealthReasonEnumTimeout, "Request timed out"
	}
	return elbv2types.TargetHealthReasonEnumFailedHealthChecks, "Health checks failed"
}

// anyTarget is the TLS configuration to targets, whose certificates load balancers do not verify.
// https://docs.aws.amazon.com/elasticloadbalancing/latest/application/load-balancer-target-groups.html#target-group-routing-configuration
func anyTarget() *tls.Config {
	return &tls.Config{InsecureSkipVerify: true, MinVersion: tls.VersionTLS10} //nolint:gosec // as on AWS
}

// get asks for the path of the health check, and returns the HTTP or gRPC status.
func (c choice) get(ctx context.Context, dial func(ctx context.Context, network, address string) (net.Conn, error)) (int, error) {
	tr := &http.Transport{DialContext: dial, TLSClientConfig: anyTarget(), DisableKeepAlives: true, Protocols: protocolsOf(c.ProtocolVersion)}
	defer tr.CloseIdleConnections()
	grpc := c.ProtocolVersion == "GRPC"
	method, scheme := http.MethodGet, "http"
	if grpc {
		method = http.MethodPost
	}
	if c.Check.Protocol == "HTTPS" {
		scheme = "https"
	}
	host := net.JoinHostPort(c.To.Host(), strconv.Itoa(int(c.checkPort.Load())))
	r, err := http.NewRequestWithContext(ctx, method, scheme+"://"+host+c.Check.Path, http.NoBody)
	if err != nil {
		return 0, err
	}
	r.Header.Set("User-Agent", "ELB-HealthChecker/2.0")
	if grpc {
		r.Header.Set("Content-Type", "application/grpc")
		r.Header.Set("Te", "trailers")
	}
	resp, err := tr.RoundTrip(r)
	if err != nil {
		return 0, err
	}
	defer resp.Body.Close()
	if !grpc {
		return resp.StatusCode, nil
	}
	if _, err := discard(resp.Body); err != nil {
		return 0, err
	}
	status := resp.Trailer.Get("Grpc-Status")
	if status == "" {
		status = resp.Header.Get("Grpc-Status")
	}
	return strconv.Atoi(status)
}

// problem says why no target is healthy, or nothing if one is.
func (g *group) problem() string {
	g.mu.Lock()
	defer g.mu.Unlock()
	said := "no target is registered"
	for _, w := range g.cfg.Targets {
		switch t := g.targets[w.TargetID]; t.state {
		case elbv2types.TargetHealthStateEnumHealthy:
			return ""
		case "":
			said = fmt.Sprintf("no program runs behind target %s: load balancers lead to nodes that run containers", t.ID)
		default:
			said = fmt.Sprintf("no target is healthy: %s port %d is %s: %s", t.ID, t.Port, t.state, t.description)
		}
	}
	return said
}
