package server

import (
	"context"
	"crypto/tls"
	"errors"
	"log/slog"
	"net/http"
	"time"

	"github.com/aws/smithy-go"

	"github.com/drydock-dev/drydock/internal/arn"
	"github.com/drydock-dev/drydock/internal/authz"
	"github.com/drydock-dev/drydock/internal/awsapi"
	"github.com/drydock-dev/drydock/internal/awsapi/awserr"
	"github.com/drydock-dev/drydock/internal/awsapi/model"
	"github.com/drydock-dev/drydock/internal/awsapi/sigv4"
	"github.com/drydock-dev/drydock/internal/awsapi/wire"
	"github.com/drydock-dev/drydock/internal/fault"
	"github.com/drydock-dev/drydock/internal/journal"
)

// An invocation is one call of one operation once its input is known, whether it came over HTTP or from another
// service in process (Call). Both pass the same stages.
type invocation struct {
	s       *Server
	start   time.Time
	service *model.Service // nil until routed
	handler *operation     // nil until known
	call    awsapi.Call
	tls     *tls.ConnectionState // for a request over https
	in      any
	denial  *authz.Denial // nil if allowed or not authorized yet
	fault   *fault.Fault  // the fault that made it fail
	delayed *fault.Fault  // the fault that delayed it
	again   *answer       // the cached answer to the same request; nil if nothing is cached or the answer may be out of date
}

// perform takes a decoded call through validation, faults and policies to its handler. Validation comes before
// authorization: in the framework that most services share, a request that violates the model never reaches the code
// that checks permissions, and no public record of a service with the opposite order is known.
func (i *invocation) perform(ctx context.Context) (any, error) {
	ctx = awsapi.WithCall(ctx, &i.call)
	if err := wire.Validate(i.handler.model, i.handler.constraints, i.in, i.call.Members); err != nil {
		return nil, err
	}
	if err := i.inject(ctx); err != nil {
		return nil, err
	}
	if err := i.authorize(ctx); err != nil {
		return nil, err
	}
	if i.handler.isDryRun(i.in) {
		return nil, i.dryRun(ctx)
	}
	out, err := i.answer(ctx)
	// Handlers that authorize by themselves (sts:AssumeRole) attach the reason to their errors.
	if denial := (*authz.Denial)(nil); errors.As(err, &denial) {
		i.noteDenial(denial)
	}
	return out, err
}

func (i *invocation) authorize(ctx context.Context) error {
	if i.handler.Exempt || i.handler.Unsigned {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, handlerTimeout) // it may concern many resources
	defer cancel()
	err := i.s.cfg.Authorize(ctx, &i.call, i.in)
	if denial := (*authz.Denial)(nil); errors.As(err, &denial) {
		i.noteDenial(denial)
		if i.call.Principal.Type == awsapi.AnonymousCaller {
			return &sigv4.Error{Kind: sigv4.Missing} // anonymous callers learn nothing from the error
		}
		return denial.Render()
	}
	return err
}

// noteDenial records why the call is denied, for explanations.
func (i *invocation) noteDenial(denial *authz.Denial) {
	i.denial = denial
	account := i.call.Account
	if account == "" { // the call is unsigned and concerns a role
		if a, err := arn.Parse(denial.Request.Resource); err == nil {
			account = a.Account
		}
	}
	i.s.cfg.Journal.Append(journal.Entry{
		Time: i.start, Account: account, Region: i.call.Region, Kind: journal.KindDecision, Fields: denial.Record(i.call.RequestID),
	})
}

// dryRun answers EC2's DryRun: the caller is allowed, and nothing was done. Handlers that support dry runs check the
// request first, as EC2 does. Karpenter relies on that to distinguish a launch template that cannot work from one
// that it may not use. https://docs.aws.amazon.com/AWSEC2/latest/APIReference/CommonParameters.html
func (i *invocation) dryRun(ctx context.Context) error {
	if i.handler.handlesDryRun {
		if _, err := i.handler.invoke(ctx, i.in); err != nil {
			return err
		}
	}
	return awserr.New("DryRunOperation", "Request would have succeeded, but DryRun flag is set.").WithStatus(http.StatusPreconditionFailed)
}

func (i *invocation) log(ctx context.Context, level slog.Level, what string, err error) {
	i.s.cfg.Log.Log(ctx, level, what,
		"service", i.call.Service, "operation", i.call.Operation, "account", i.call.Account,
		"region", i.call.Region, "requestId", i.call.RequestID, "err", err)
}

func (i *invocation) record(status int, out any, err error) {
	if i.s.cfg.Journal == nil {
		return
	}
	i.write(status, i.trail(out, err), err, i.handler != nil && (i.handler.readOnly || i.handler.DataEvent))
}

// write records a call. event is what CloudTrail records, or nil. Successful reads may be dropped.
func (i *invocation) write(status int, event *trailEvent, err error, read bool) {
	fields := map[string]any{
		"requestId": i.call.RequestID, "service": i.call.Service, "operation": i.call.Operation,
		"principal": i.call.Principal.ARN, "accessKeyId": i.call.Principal.AccessKeyID,
		"sourceIp": sourceText(&i.call), "userAgent": i.call.UserAgent,
		"status": status, "millis": i.s.cfg.Clock.Since(i.start).Milliseconds(),
	}
	var api smithy.APIError
	if errors.As(err, &api) {
		fields["errorCode"], fields["errorMessage"] = api.ErrorCode(), api.ErrorMessage()
	}
	if f := i.fault; f != nil {
		fields["fault"] = f.ID
	}
	if f := i.delayed; f != nil {
		fields["delayedBy"] = f
	}
	if by := i.call.By(); by != "" {
		fields["invokedBy"] = by
	}
	if event != nil {
		fields["event"] = event
		if owners := event.shared(); owners != nil {
			i.s.cfg.Journal.Append(journal.Entry{
				Time: i.start, Account: owners.RecipientAccountID, Region: i.call.Region, Kind: journal.KindCall,
				Fields: map[string]any{"requestId": i.call.RequestID, "service": i.call.Service, "operation": i.call.Operation, "event": owners},
			})
		}
	}
	i.s.cfg.Journal.Append(journal.Entry{
		Time: i.start, Account: i.account(), Region: i.call.Region, Kind: journal.KindCall,
		Minor: err == nil && read, Fields: fields,
	})
}
