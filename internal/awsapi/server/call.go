package server

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"runtime/debug"
	"time"

	"github.com/drydock-dev/drydock/internal/authz"
	"github.com/drydock-dev/drydock/internal/awsapi"
	"github.com/drydock-dev/drydock/internal/awsapi/wire"
	"github.com/drydock-dev/drydock/internal/fault"
	"github.com/drydock-dev/drydock/internal/ids"
	"github.com/drydock-dev/drydock/internal/store"
)

var _ awsapi.API = (*Server)(nil)

// A throttled call between services is retried with a delay that doubles, as AWS's own services and SDKs do. After
// the last try the caller gets the error: a user's request fails, and a reconciler tries again later.
const (
	throttleTries = 4
	throttleDelay = 100 * time.Millisecond
)

// Call implements [awsapi.API].
func (s *Server) Call(ctx context.Context, in any) (any, error) {
	op := s.registry.byInput(in)
	if op == nil {
		return nil, s.registry.unhandled(in)
	}
	if store.InTransaction() {
		err := fmt.Errorf("%s is called inside a store transaction, which may run several times", op.action())
		s.cfg.Log.ErrorContext(ctx, "call between services", "err", err)
		return nil, err
	}
	for try := 1; ; try++ {
		out, err := s.callOnce(ctx, op, in)
		if try == throttleTries || !awsapi.IsThrottle(err) {
			return out, err
		}
		if err := s.pause(ctx, throttleDelay<<(try-1)); err != nil {
			return nil, err
		}
	}
}

func (s *Server) callOnce(ctx context.Context, op *operation, in any) (any, error) {
	now := s.cfg.Clock.Now()
	caller := awsapi.CallFrom(ctx)
	i := &invocation{
		s: s, start: now, service: op.model.Service, handler: op, in: in,
		call: caller.Forward(authz.ServicePrincipal(caller.Service), op.model.Service.Package, op.Name, ids.UUID(), now),
	}
	i.call.Members = wire.MembersOf(op.model, in)
	if partitionWide[op.model.Service.Name] {
		i.call.Region = "us-east-1"
	}
	out, err := i.inProcess(ctx)
	if f := fault.Of(err); f != nil {
		i.noteFault(f, err)
	}
	// CloudTrail does not record a service's reads, and reconcilers make many of them.
	if !op.readOnly || err != nil {
		i.record(statusOf(op, err), out, err)
	}
	if err != nil {
		err = &awsapi.CallError{RequestID: i.call.RequestID, Service: i.call.Service, Operation: i.call.Operation, Err: err}
	}
	return out, err
}

// inProcess performs the call. It recovers from a panic as for a request.
func (i *invocation) inProcess(ctx context.Context) (out any, err error) {
	defer func() {
		if p := recover(); p != nil {
			out, err = nil, fmt.Errorf("panic: %v\n%s", p, debug.Stack())
			i.log(ctx, slog.LevelError, "call failed with an internal error", err)
		}
	}()
	if refused := i.handler.refused(i.call.Members, i.in); len(refused) > 0 {
		return nil, notHonoured(i.handler.action(), refused)
	}
	return i.perform(ctx)
}

// statusOf returns the HTTP status that the call would have had, for the journal.
func statusOf(op *operation, err error) int {
	if err == nil {
		return http.StatusOK
	}
	return wire.EncodeErrorAs(op.model.Service, op.model, err, "", "").Status
}

// pause waits for d, or until ctx or the server ends.
func (s *Server) pause(ctx context.Context, d time.Duration) error {
	t := s.cfg.Clock.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C():
	case <-Draining(ctx):
	case <-ctx.Done():
		return ctx.Err()
	}
	return nil
}
