package sts

import (
	"strconv"
	"strings"
	"time"

	"github.com/drydock-dev/drydock/internal/awsapi"
)

// networkKeys are the condition keys of any request, in lower case. Those that are
// not here are absent.
// https://docs.aws.amazon.com/IAM/latest/UserGuide/reference_policies_condition-keys.html
func networkKeys(call *awsapi.Call) map[string][]string {
	keys := map[string][]string{
		"aws:securetransport": {strconv.FormatBool(call.TLS)},
		"aws:currenttime":     {call.Time.UTC().Format(time.RFC3339)},
		"aws:epochtime":       {strconv.FormatInt(call.Time.Unix(), 10)},
		"aws:viaawsservice":   {"false"},
	}
	if call.Region != "" {
		keys["aws:requestedregion"] = []string{call.Region}
	}
	if call.SourceIP.IsValid() {
		keys["aws:sourceip"] = []string{call.SourceIP.String()}
	}
	if call.UserAgent != "" {
		keys["aws:useragent"] = []string{call.UserAgent}
	}
	return keys
}

// callKeys are the condition keys of a signed request, in lower case.
func callKeys(call *awsapi.Call) map[string][]string {
	keys := networkKeys(call)
	p := call.Principal
	keys["aws:principalaccount"] = []string{p.Account}
	keys["aws:principalarn"] = []string{p.ARN}
	keys["aws:principaltype"] = []string{principalType(p)}
	keys["aws:userid"] = []string{p.UserID}
	switch p.Type {
	case awsapi.AssumedRole:
		keys["aws:principalarn"] = []string{p.RoleARN} // the role's, not the session's
	case awsapi.IAMUser:
		keys["aws:username"] = []string{p.Name}
	}
	for k, v := range p.Tags {
		keys["aws:principaltag/"+strings.ToLower(k)] = []string{v}
	}
	if p.SourceIdentity != "" {
		keys["aws:sourceidentity"] = []string{p.SourceIdentity}
	}
	if p.FederatedProvider != "" {
		keys["aws:federatedprovider"] = []string{p.FederatedProvider}
	}
	if !p.IssuedAt.IsZero() {
		keys["aws:tokenissuetime"] = []string{p.IssuedAt.UTC().Format(time.RFC3339)}
		// Nobody has a second factor here; long-term keys do not even say so.
		keys["aws:multifactorauthpresent"] = []string{"false"}
	}
	return keys
}

// principalType is what aws:PrincipalType says.
func principalType(p awsapi.Principal) string {
	switch p.Type {
	case awsapi.Root:
		return "Account"
	case awsapi.IAMUser:
		return "User"
	case awsapi.AssumedRole:
		return "AssumedRole"
	case awsapi.FederatedUser:
		return "FederatedUser"
	}
	return "Anonymous"
}
