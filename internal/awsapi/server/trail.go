package server

import (
	"crypto/tls"
	"encoding/json"
	"errors"
	"net/http"
	"reflect"
	"strconv"
	"strings"
	"time"

	"github.com/aws/smithy-go"

	"github.com/drydock-dev/drydock/internal/arn"
	"github.com/drydock-dev/drydock/internal/awsapi"
	"github.com/drydock-dev/drydock/internal/awsapi/awserr"
	"github.com/drydock-dev/drydock/internal/awsapi/model"
	"github.com/drydock-dev/drydock/internal/awsapi/wire"
	"github.com/drydock-dev/drydock/internal/ids"
)

// A trailEvent is a call as CloudTrail records it.
// https://docs.aws.amazon.com/awscloudtrail/latest/userguide/cloudtrail-event-reference-record-contents.html
type trailEvent struct {
	EventVersion       string          `json:"eventVersion"`
	UserIdentity       trailIdentity   `json:"userIdentity"`
	EventTime          string          `json:"eventTime"`
	EventSource        string          `json:"eventSource"`
	EventName          string          `json:"eventName"`
	AWSRegion          string          `json:"awsRegion"`
	SourceIPAddress    string          `json:"sourceIPAddress"`
	UserAgent          string          `json:"userAgent"`
	ErrorCode          string          `json:"errorCode,omitempty"`
	ErrorMessage       string          `json:"errorMessage,omitempty"`
	RequestParameters  any             `json:"requestParameters"`
	ResponseElements   any             `json:"responseElements"`
	RequestID          string          `json:"requestID"`
	EventID            string          `json:"eventID"`
	ReadOnly           bool            `json:"readOnly"`
	Resources          []trailResource `json:"resources,omitempty"`
	EventType          string          `json:"eventType"`
	ManagementEvent    bool            `json:"managementEvent"`
	RecipientAccountID string          `json:"recipientAccountId"`
	SharedEventID      string          `json:"sharedEventID,omitempty"`
	VPCEndpointID      string          `json:"vpcEndpointId,omitempty"`
	EventCategory      string          `json:"eventCategory"`
	TLSDetails         *trailTLS       `json:"tlsDetails,omitempty"`
}

type trailResource struct {
	AccountID string `json:"accountId"`
	Type      string `json:"type,omitempty"` // Systems Manager leaves it out
	ARN       string `json:"ARN"`
}

type trailTLS struct {
	Version string `json:"tlsVersion"`
	Cipher  string `json:"cipherSuite"`
	Host    string `json:"clientProvidedHostHeader"`
}

// https://docs.aws.amazon.com/awscloudtrail/latest/userguide/cloudtrail-event-reference-user-identity.html
type trailIdentity struct {
	Type           string        `json:"type"`
	PrincipalID    string        `json:"principalId,omitempty"`
	ARN            string        `json:"arn,omitempty"`
	AccountID      string        `json:"accountId,omitempty"`
	AccessKeyID    string        `json:"accessKeyId,omitempty"`
	UserName       string        `json:"userName,omitempty"`
	SessionContext *trailSession `json:"sessionContext,omitempty"`
	InvokedBy      string        `json:"invokedBy,omitempty"`
	// IdentityProvider is the provider of the token that a WebIdentityUser presented.
	IdentityProvider string `json:"identityProvider,omitempty"`
}

type trailSession struct {
	SessionIssuer *trailIdentity   `json:"sessionIssuer,omitempty"`
	WebIdentity   *trailFederation `json:"webIdFederationData,omitempty"`
	Attributes    trailAttributes  `json:"attributes"`
}

// A trailFederation identifies the provider of the token that started a role session.
type trailFederation struct {
	Provider   string   `json:"federatedProvider"`
	Attributes struct{} `json:"attributes"`
}

type trailAttributes struct {
	CreationDate     string `json:"creationDate"`
	MFAAuthenticated string `json:"mfaAuthenticated"`
}

// trail returns the call as CloudTrail records it, or nil if it does not. It does not record successful reads, calls
// of unknown accounts, or data events.
func (i *invocation) trail(out any, err error) *trailEvent {
	account := i.account()
	if i.handler == nil || account == "" || i.handler.DataEvent || i.handler.readOnly && i.denial == nil && i.fault == nil {
		return nil
	}
	e := i.event()
	e.UserIdentity, e.RecipientAccountID = i.identity(out), account
	e.RequestParameters = bounded("requestParameters", i.parameters(err))
	e.ReadOnly = i.handler.readOnly || trailReads[i.service.Name+"."+i.call.Operation]
	if !i.fail(e, err) && out != nil {
		e.Resources = i.resources(out)
		if !e.ReadOnly || i.service.Name == "sts" {
			e.ResponseElements = bounded("responseElements", wire.TrailResponse(i.handler.model, out, i.call.RequestID))
		}
	}
	return e
}

// event returns what is known of a call without its operation.
func (i *invocation) event() *trailEvent {
	return &trailEvent{
		EventVersion: "1.11", UserIdentity: identityOf(&i.call),
		EventTime: timeText(i.start), EventSource: i.service.SigningName + ".amazonaws.com", EventName: i.call.Operation,
		AWSRegion: i.call.Region, SourceIPAddress: sourceText(&i.call), UserAgent: clipped(i.call.UserAgent),
		RequestID: i.call.RequestID, EventID: ids.UUID(),
		EventType: "AwsApiCall", ManagementEvent: true, RecipientAccountID: i.call.Account,
		VPCEndpointID: i.call.VPCEndpoint.ID, EventCategory: "Management", TLSDetails: i.tlsDetails(),
	}
}

// fail adds an error of AWS's to an event. It reports whether err is one.
func (i *invocation) fail(e *trailEvent, err error) bool {
	var api smithy.APIError
	if !errors.As(err, &api) {
		return false
	}
	e.ErrorCode, e.ErrorMessage = i.errorName(api.ErrorCode()), clipped(api.ErrorMessage())
	switch { // both as seen in records of EC2 and other services
	case i.service.Protocol == model.ProtocolEC2:
		e.ErrorCode = ec2Side(err) + "." + e.ErrorCode
	case i.denial != nil:
		e.ErrorCode = "AccessDenied"
	}
	return true
}

// shared returns e as the account that owns the resource gets it, or nil if that is the caller's own account. All
// that the owner learns about the caller is the account and the unique ID.
// https://docs.aws.amazon.com/awscloudtrail/latest/userguide/shared-event-ID.html
// https://docs.aws.amazon.com/IAM/latest/UserGuide/cloudtrail-integration.html
func (e *trailEvent) shared() *trailEvent {
	if len(e.Resources) == 0 || e.Resources[0].AccountID == "" || e.Resources[0].AccountID == e.RecipientAccountID {
		return nil
	}
	e.SharedEventID = ids.UUID()
	owners := *e
	owners.EventID, owners.RecipientAccountID = ids.UUID(), e.Resources[0].AccountID
	owners.UserIdentity = trailIdentity{
		Type: "AWSAccount", PrincipalID: e.UserIdentity.PrincipalID, AccountID: e.UserIdentity.AccountID, InvokedBy: e.UserIdentity.InvokedBy,
	}
	return &owners
}

// trailReads are calls that CloudTrail reports as read-only although their names do not say so. They are recorded
// even if they succeed. https://docs.aws.amazon.com/kms/latest/developerguide/understanding-kms-entries.html
var trailReads = map[string]bool{
	"sts.AssumeRole": true, "sts.AssumeRoleWithWebIdentity": true, "sts.AssumeRoleWithSAML": true,
	"kms.Encrypt": true, "kms.Decrypt": true, "kms.ReEncrypt": true, "kms.GenerateDataKey": true, "kms.GenerateDataKeyWithoutPlaintext": true,
	"kms.GenerateDataKeyPair": true, "kms.GenerateDataKeyPairWithoutPlaintext": true, "kms.Sign": true, "kms.Verify": true, "kms.GenerateMac": true, "kms.VerifyMac": true,
}

// resources returns the resources that the call acted on. Only three services report them.
func (i *invocation) resources(out any) []trailResource {
	switch i.service.Name {
	case "sts":
		if role := textOf(i.in, "RoleArn"); role != "" {
			return []trailResource{resourceOf("AWS::IAM::Role", role)}
		}
	case "kms":
		for _, key := range []string{textOf(out, "KeyMetadata", "Arn"), textOf(out, "KeyId"), textOf(i.in, "KeyId")} {
			if strings.HasPrefix(key, "arn:") && strings.Contains(key, ":key/") {
				return []trailResource{resourceOf("AWS::KMS::Key", key)}
			}
		}
	case "ssm":
		if name := textOf(i.in, "Name"); name != "" && strings.HasSuffix(i.call.Operation, "Parameter") {
			return []trailResource{resourceOf("", arn.New("ssm", i.call.Region, i.call.Account, "parameter/"+strings.TrimPrefix(name, "/")))}
		}
	}
	return nil
}

func resourceOf(kind, name string) trailResource {
	parsed, _ := arn.Parse(name) // the account of a malformed ARN is empty
	return trailResource{AccountID: parsed.Account, Type: kind, ARN: name}
}

// textOf follows a path of field names from of, a pointer to an SDK struct, and returns the string there, or "" if the path leads nowhere.
func textOf(of any, path ...string) string {
	v := reflect.ValueOf(of)
	for _, name := range path {
		if v = reflect.Indirect(v); v.Kind() != reflect.Struct {
			return ""
		}
		v = v.FieldByName(name)
	}
	if v = reflect.Indirect(v); v.Kind() != reflect.String {
		return ""
	}
	return v.String()
}

// tlsDetails returns nil for calls between services, as on AWS.
func (i *invocation) tlsDetails() *trailTLS {
	if i.tls == nil {
		return nil
	}
	return &trailTLS{
		Version: strings.ReplaceAll(tls.VersionName(i.tls.Version), "TLS ", "TLSv"), Cipher: tls.CipherSuiteName(i.tls.CipherSuite), Host: i.call.Host,
	}
}

// parameters returns the request's parameters. Some services reject a call before they have read it, and their
// records have none: IAM and STS when they deny it, Systems Manager and CloudTrail when they throttle it.
func (i *invocation) parameters(err error) any {
	switch {
	case awsapi.IsThrottle(err) && i.service.Protocol == model.ProtocolJSON:
		return nil
	case i.denial != nil && (i.service.Name == "iam" || i.service.Name == "sts"):
		return nil
	}
	return wire.TrailRequest(i.handler.model, i.in)
}

// errorName returns an error's code. Query services record the name of its exception instead: NoSuchEntityException
// of IAM, InvalidDBInstanceStateFault of RDS.
func (i *invocation) errorName(code string) string {
	if i.service.Protocol == model.ProtocolQuery {
		if shape := i.service.ErrorShape(code); shape != nil {
			return shape.Name
		}
	}
	return code
}

// ec2Side says whom EC2 blames for an error. Throttling is the client's fault, whatever its status:
// https://docs.aws.amazon.com/ec2/latest/devguide/ec2-api-throttling.html
func ec2Side(err error) string {
	e, ok := errors.AsType[*awserr.Error](err)
	if ok && e.Status >= http.StatusInternalServerError && e.Code != "RequestLimitExceeded" {
		return "Server"
	}
	return "Client"
}

// account returns the account that the call concerns: the caller's, or that of the role that an unsigned call asks
// for. It returns "" if neither is known.
func (i *invocation) account() string {
	if i.call.Account != "" || i.in == nil {
		return i.call.Account
	}
	return i.webIdentity(nil).Account
}

// webIdentity returns the caller of an unsigned call, as far as the operation reveals it.
func (i *invocation) webIdentity(out any) awsapi.WebIdentity {
	if i.handler == nil || i.handler.WebIdentity == nil {
		return awsapi.WebIdentity{}
	}
	return i.handler.WebIdentity(i.in, out)
}

// identity returns the caller in CloudTrail's words. For a web identity, the answer reveals whose token it was.
func (i *invocation) identity(out any) trailIdentity {
	if i.call.Principal.Type != awsapi.AnonymousCaller {
		return identityOf(&i.call)
	}
	id := trailIdentity{Type: "WebIdentityUser"}
	if i.handler != nil && !i.handler.Unsigned {
		// https://docs.aws.amazon.com/AmazonS3/latest/userguide/cloudtrail-logging-understanding-s3-entries.html
		return trailIdentity{Type: "AWSAccount", AccountID: "ANONYMOUS_PRINCIPAL"}
	}
	who := i.webIdentity(out)
	if who.SAML {
		id.Type = "SAMLUser"
	}
	if who.Provider != "" {
		id.IdentityProvider, id.UserName = who.Provider, who.Subject
		id.PrincipalID = who.Provider + ":" + who.Audience + ":" + who.Subject
		if who.SAML {
			id.PrincipalID = who.Provider + ":" + who.Subject
		}
	}
	return id
}

// sourceText returns where a call came from. For a call by a service, CloudTrail names the service instead of an
// address.
func sourceText(call *awsapi.Call) string {
	if by := call.By(); by != "" {
		return by
	}
	return call.SourceIP.String()
}

// identityOf returns the caller. A service under its service-linked role appears as that role's session, as in the
// records of launches by Auto Scaling:
// https://docs.aws.amazon.com/awscloudtrail/latest/userguide/cloudtrail-event-reference-user-identity.html
func identityOf(call *awsapi.Call) trailIdentity {
	p := &call.Principal
	id := trailIdentity{Type: string(p.Type), PrincipalID: p.UserID, ARN: p.ARN, AccountID: p.Account, AccessKeyID: p.AccessKeyID, InvokedBy: call.By()}
	switch p.Type {
	case awsapi.IAMUser:
		id.UserName = p.Name
	case awsapi.AWSService:
		if p.RoleARN == "" {
			return trailIdentity{Type: "AWSService", InvokedBy: call.By()}
		}
		role := p.RoleARN[strings.LastIndexByte(p.RoleARN, '/')+1:]
		id.Type, id.ARN = string(awsapi.AssumedRole), "arn:"+awsapi.Partition+":sts::"+p.Account+":assumed-role/"+role+"/"+p.SessionName
		at := timeText(call.Time)
		id.SessionContext = &trailSession{
			SessionIssuer: &trailIdentity{Type: "Role", ARN: p.RoleARN, AccountID: p.Account, UserName: role},
			Attributes:    trailAttributes{CreationDate: at, MFAAuthenticated: "false"},
		}
		return id
	}
	if p.IssuedAt.IsZero() {
		return id
	}
	id.SessionContext = &trailSession{Attributes: trailAttributes{CreationDate: timeText(p.IssuedAt), MFAAuthenticated: strconv.FormatBool(!p.MFAAt.IsZero())}}
	if p.FederatedProvider != "" {
		id.SessionContext.WebIdentity = &trailFederation{Provider: p.FederatedProvider}
	}
	issuer := &trailIdentity{AccountID: p.Account, UserName: p.Name}
	switch p.Type {
	case awsapi.AssumedRole:
		issuer.Type, issuer.ARN = "Role", p.RoleARN
		issuer.PrincipalID, _, _ = strings.Cut(p.UserID, ":")
		id.SessionContext.SessionIssuer = issuer
	case awsapi.FederatedUser:
		issuer.Type, issuer.ARN = "IAMUser", "arn:aws:iam::"+p.Account+":user/"+p.Name
		if p.Name == "" {
			issuer.Type, issuer.ARN = "Root", "arn:aws:iam::"+p.Account+":root"
		}
		id.SessionContext.SessionIssuer = issuer
	}
	return id
}

func timeText(t time.Time) string { return t.UTC().Format("2006-01-02T15:04:05Z") }

// CloudTrail's limits for the fields of a record. It omits parameters and elements that are larger as a whole, and
// truncates texts.
// https://docs.aws.amazon.com/awscloudtrail/latest/userguide/cloudtrail-event-reference-record-contents.html
const (
	maxTrailField = 100 << 10
	maxTrailText  = 1 << 10
)

// bounded returns v, or CloudTrail's text for a value that is too large. The text is as recorded:
// https://github.com/elastic/detection-rules/pull/4788
func bounded(what string, v any) any {
	if v == nil {
		return nil
	}
	b, err := json.Marshal(v)
	if err != nil {
		return nil
	}
	if len(b) > maxTrailField {
		return map[string]any{"omitted": true, "originalSize": len(b), "reason": what + " too large"}
	}
	return json.RawMessage(b)
}

func clipped(s string) string {
	if len(s) > maxTrailText {
		return strings.ToValidUTF8(s[:maxTrailText], "")
	}
	return s
}
