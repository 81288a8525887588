package server

import (
	"bytes"
	"errors"
	"net/http"
	"net/url"
	"strings"

	"github.com/drydock-dev/drydock/internal/awsapi/model"
	"github.com/drydock-dev/drydock/internal/awsapi/sigv4"
	"github.com/drydock-dev/drydock/internal/awsapi/wire"
)

// bodyLimits are the limits of services that differ from defaultLimit.
var bodyLimits = map[string]int64{
	"s3":  8 << 20,  // all but objects, which are not held in memory
	"ecr": 32 << 20, // layer parts of up to 20 MiB, base64

	"ecr-public": 32 << 20,
}

const (
	defaultLimit = 4 << 20
	// strangersLimit is for requests without a signature and for those that will be rejected anyway. The largest
	// unsigned operation, AssumeRoleWithSAML, takes an assertion of up to 100,000 characters, form-encoded.
	// https://docs.aws.amazon.com/STS/latest/APIReference/API_AssumeRoleWithSAML.html
	strangersLimit = 512 << 10
)

// limit returns how large a request's body may be, given what is known about its sender.
func (x *exchange) limit() int64 {
	if x.pending == nil {
		return strangersLimit
	}
	if x.s.cfg.MaxBody != 0 {
		return x.s.cfg.MaxBody
	}
	n, ok := bodyLimits[x.auth.Service]
	if !ok || x.auth.Service == "s3" && !x.pending.Proven {
		return defaultLimit
	}
	return n // clients of other services declare no hash that would prove the signature
}

func (x *exchange) readBody() error {
	if x.r.Body == nil || x.r.Body == http.NoBody || x.streams() {
		return nil
	}
	limit := x.limit()
	tooBig := func() error {
		x.w.Header().Set("Connection", "close") // skip the rest of the body
		if x.authErr != nil || x.refusal != nil {
			return nil // the request is rejected for that instead, and the error may depend on the beginning of the body
		}
		return tooLarge(x.guessService(), limit)
	}
	if x.r.ContentLength > limit {
		return tooBig()
	}
	// A stranger may announce any length, so memory is allocated as bytes arrive.
	var buf bytes.Buffer
	buf.Grow(int(min(max(x.r.ContentLength, 0), 64<<10)) + bytes.MinRead)
	_, err := buf.ReadFrom(http.MaxBytesReader(x.w, x.r.Body, limit))
	x.req.Body = buf.Bytes()
	if e := (*http.MaxBytesError)(nil); errors.As(err, &e) {
		return tooBig()
	}
	if err != nil {
		return incompleteBody()
	}
	return nil
}

// route finds the service by the credential scope. For requests without one, to operations that need no signature, it
// uses the request's content.
func (x *exchange) route() error {
	if x.authErr != nil {
		return x.authErr
	}
	if x.identity != "" {
		return x.routeInstance()
	}
	if x.auth == nil {
		return x.routeUnsigned()
	}
	candidates := bySigningName(x.auth.Service)
	switch len(candidates) {
	case 0:
		return unknownService(x.auth.Service)
	case 1:
		x.service = candidates[0]
	default: // elb and elbv2 differ only by the API version
		x.service = candidates[0]
		version := x.param("Version")
		for _, c := range candidates {
			if c.APIVersion == version {
				x.service = c
			}
		}
	}
	// SQS's older clients speak awsquery to what is now a JSON service.
	if q := x.service.Query(); q != nil && x.req.Header.Get("X-Amz-Target") == "" && x.param("Action") != "" {
		x.service = q
	}
	x.call.Service = x.service.Package
	return nil
}

// routeUnsigned accepts a request without a signature if its operation needs none.
func (x *exchange) routeUnsigned() error {
	for h := range x.s.registry.unsignedOperations {
		svc := h.model.Service
		match := false
		switch svc.Protocol {
		case model.ProtocolEC2, model.ProtocolQuery:
			match = x.param("Action") == h.Name && x.param("Version") == svc.APIVersion
		case model.ProtocolJSON:
			match = x.req.Header.Get("X-Amz-Target") == svc.TargetPrefix+"."+h.Name
		default:
			op, ok := svc.MatchREST(x.req.Method, x.req.EscapedPath, x.req.RawQuery)
			match = ok && op == h.model
		}
		if match {
			x.service, x.call.Service = svc, svc.Package
			x.call.Region = regionOfHost(x.req.Host)
			return nil
		}
	}
	if x.routeAnonymous() {
		return nil
	}
	return &sigv4.Error{Kind: sigv4.Missing}
}

// regionOfHost reads the region from SERVICE.REGION.amazonaws.com. A request without a credential scope names its
// region nowhere else.
func regionOfHost(host string) string {
	labels := strings.Split(host, ".")
	if len(labels) >= 4 && strings.Contains(host, ".amazonaws.com") && validRegion(labels[1]) {
		return labels[1]
	}
	return "us-east-1"
}

func (x *exchange) findOperation() error {
	svc := x.service
	var name string
	switch svc.Protocol {
	case model.ProtocolEC2, model.ProtocolQuery:
		name = x.param("Action")
		if name == "" {
			return missingAction(svc)
		}
		// EC2 still answers clients of its older API versions.
		if v := x.param("Version"); svc.Protocol == model.ProtocolQuery && v != svc.APIVersion {
			return unknownAction(svc, name, v)
		}
		x.op = svc.Operations[name]
	case model.ProtocolJSON:
		target := x.req.Header.Get("X-Amz-Target")
		prefix, op, _ := cutLast(target, ".")
		name = op
		if isTarget(svc, prefix) {
			x.op = svc.Operations[op]
		}
	default:
		name = x.req.Method + " " + x.req.EscapedPath
		x.op = x.restOperation(svc)
	}
	if x.op == nil {
		return unknownAction(svc, name, x.param("Version"))
	}
	x.call.Operation = x.op.Name
	if err := x.notForInstances(); err != nil {
		return err
	}
	if x.queryByLink() {
		return methodNotAllowed(svc, x.op.Name, x.req.Method)
	}
	if x.handler = x.s.registry.find(svc, x.op.Name); x.handler == nil {
		return notHandled(svc, x.op.Name)
	}
	return nil
}

// addQueueURL adds the queue's URL to a request of SQS's query protocol that was posted to that URL, because such a
// request need not repeat it.
// https://docs.aws.amazon.com/AWSSimpleQueueService/latest/SQSDeveloperGuide/sqs-making-api-requests.html
func (x *exchange) addQueueURL(req *wire.Request) {
	if x.service.Name != "sqs" || x.service.Protocol != model.ProtocolQuery || strings.Count(req.EscapedPath, "/") != 2 || x.param("QueueUrl") != "" {
		return
	}
	req.Body = append(bytes.Clone(req.Body), "&QueueUrl="+url.QueryEscape(req.EscapedPath)...)
}

// queryByLink reports whether a query-protocol request uses a method other than POST, so that a link on a web page
// could have sent it. It returns false for those that clients send that way. EKS tokens and Vault's logins contain
// presigned STS requests.
func (x *exchange) queryByLink() bool {
	svc := x.service
	if svc.Protocol != model.ProtocolEC2 && svc.Protocol != model.ProtocolQuery || x.req.Method == http.MethodPost {
		return false
	}
	presigned := svc.Name == "sts" && x.auth != nil && x.auth.Presigned
	return x.req.Method != http.MethodGet || !presigned && !instanceOperations[svc.Name+"."+x.op.Name]
}

// param returns a parameter of a query-protocol request, from its form or its query.
func (x *exchange) param(name string) string {
	if v, ok := formValue(x.req.RawQuery, name); ok {
		return v
	}
	if isForm(x.req.Header) {
		v, _ := formValue(string(x.req.Body), name)
		return v
	}
	return ""
}

func isForm(h http.Header) bool {
	ct, _, _ := strings.Cut(h.Get("Content-Type"), ";")
	// Some hand-written clients send no Content-Type at all.
	return ct == "" || strings.EqualFold(strings.TrimSpace(ct), "application/x-www-form-urlencoded")
}

// formValue finds one parameter without building a map of a large form.
func formValue(form, name string) (string, bool) {
	for form != "" {
		var pair string
		pair, form, _ = strings.Cut(form, "&")
		if k, v, ok := strings.Cut(pair, "="); ok && k == name {
			if u, err := url.QueryUnescape(v); err == nil {
				return u, true
			}
		}
	}
	return "", false
}

func cutLast(s, sep string) (before, after string, found bool) {
	if i := strings.LastIndex(s, sep); i >= 0 {
		return s[:i], s[i+len(sep):], true
	}
	return "", s, false
}

// guessService returns a service whose error shape the sender of an unroutable request understands: any service of
// the protocol that the request seems to use.
func (x *exchange) guessService() *model.Service {
	if x.service != nil {
		return x.service
	}
	if c := bySigningName(sigv4.ServiceHint(x.req.Header, x.req.RawQuery)); len(c) > 0 {
		return c[0]
	}
	name := "eks"
	switch {
	case x.req.Header.Get("X-Amz-Target") != "" || strings.HasPrefix(x.req.Header.Get("Content-Type"), "application/x-amz-json"):
		name = "ssm"
	case x.param("Action") != "" && x.param("Version") == "2016-11-15":
		name = "ec2"
	case x.param("Action") != "", x.req.Method == http.MethodPost && x.req.Header.Get("Content-Type") != "" && isForm(x.req.Header):
		name = "sts"
	}
	svc, err := model.Get(name)
	if err != nil {
		panic(err) // the model is embedded
	}
	return svc
}

// isTarget reports whether prefix is svc's prefix of X-Amz-Target. Some SDKs send only the last part of a dotted name
// (CloudTrail's).
func isTarget(svc *model.Service, prefix string) bool {
	_, last, _ := cutLast(svc.TargetPrefix, ".")
	return prefix == svc.TargetPrefix || last != "" && prefix == last
}
