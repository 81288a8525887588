package server

import (
	"errors"
	"net/http"

	"github.com/drydock-dev/drydock/internal/authz"
	"github.com/drydock-dev/drydock/internal/awsapi"
	"github.com/drydock-dev/drydock/internal/awsapi/model"
	"github.com/drydock-dev/drydock/internal/awsapi/sigv4"
	"github.com/drydock-dev/drydock/internal/ids"
)

// Presigned returns the call of a presigned URL that is not a request of an API, such as OpenTunnel's WebSocket.
// service is the service's name, which is also its signing name. An error is a *sigv4.Error if the client is at fault.
func (s *Server) Presigned(r *http.Request, service, operation string) (*awsapi.Call, error) {
	req := &sigv4.Request{Method: r.Method, EscapedPath: r.URL.EscapedPath(), RawQuery: r.URL.RawQuery, Host: r.Host, Header: r.Header}
	auth, err := sigv4.Parse(req)
	if err == nil && !auth.Presigned {
		err = &sigv4.Error{Kind: sigv4.Missing}
	}
	if err != nil {
		return nil, err
	}
	now := s.cfg.Clock.Now()
	if auth.Expires > 0 && now.After(auth.Time.Add(auth.Expires)) {
		return nil, &sigv4.Error{Kind: sigv4.URLExpired}
	}
	got, err := s.Verifier().Verify(r.Context(), req, auth, service)
	if err != nil {
		return nil, err
	}
	svc, err := model.Get(service)
	if err != nil {
		return nil, err
	}
	call := &awsapi.Call{
		RequestID: ids.UUID(), Service: svc.Package, Operation: operation, Account: got.Principal.Account, Region: auth.Region, Principal: got.Principal,
		UserAgent: r.UserAgent(), SourceIP: sourceIP(r.RemoteAddr), Time: now, Host: r.Host, TLS: r.TLS != nil,
	}
	if s.cfg.Origin != nil {
		if endpoint, address := s.cfg.Origin(r.RemoteAddr); address.IsValid() {
			call.VPCEndpoint, call.SourceIP = endpoint, address
		}
	}
	return call, nil
}

// RecordPresigned records a call of Presigned with its parameters and result, as the server records requests. It
// returns the error for the client.
func (s *Server) RecordPresigned(r *http.Request, service string, call *awsapi.Call, parameters any, err error) error {
	svc, unknown := model.Get(service)
	if unknown != nil {
		return unknown
	}
	i := &invocation{s: s, start: call.Time, service: svc, call: *call, tls: r.TLS}
	status := http.StatusSwitchingProtocols
	if denial, ok := errors.AsType[*authz.Denial](err); ok {
		i.noteDenial(denial)
		status, err = http.StatusForbidden, denial.Render()
	} else if err != nil {
		status = http.StatusBadRequest
	}
	e := i.event()
	e.RequestParameters = parameters
	i.fail(e, err)
	i.write(status, e, err, false)
	return err
}
