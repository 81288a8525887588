package access

import (
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	authnv1 "k8s.io/api/authentication/v1"
)

// AuthenticatorLines returns the lines that aws-iam-authenticator, which EKS runs, would log about a login. user and
// err are the result of Authenticate, and client is the address of the API server's connection.
// https://github.com/kubernetes-sigs/aws-iam-authenticator/blob/master/pkg/server/server.go; a line from EKS is in
// https://github.com/terraform-aws-modules/terraform-aws-eks/issues/2415
func AuthenticatorLines(now time.Time, client string, user authnv1.UserInfo, err error) []string {
	line := func(level, msg string, fields map[string]string) string {
		maps.Copy(fields, map[string]string{"client": client, "method": "POST", "path": "/authenticate"})
		out := fmt.Sprintf("time=%q level=%s msg=%q", now.UTC().Format(time.RFC3339), level, msg)
		for _, k := range slices.Sorted(maps.Keys(fields)) {
			out += " " + k + "=" + logrusValue(fields[k])
		}
		return out
	}
	identified := func(arn, accessKey, account, userID, session string) string {
		return line("info", "STS response", map[string]string{"accesskeyid": accessKey, "accountid": account, "arn": arn, "session": session, "userid": userID})
	}
	if err == nil {
		extra := func(name string) string { return strings.Join(user.Extra[name], ",") }
		account := strings.Split(user.UID, ":")[1]
		return []string{
			identified(extra("arn"), extra("accessKeyId"), account, extra("principalId"), extra("sessionName")),
			line("info", "access granted", map[string]string{
				"arn": extra("canonicalArn"), "groups": fmt.Sprint(user.Groups), "uid": user.UID, "username": user.Username,
			}),
		}
	}
	var refused *Refusal
	if !errors.As(err, &refused) {
		return []string{line("warning", "access denied", map[string]string{"error": err.Error()})}
	}
	switch refused.cause {
	case CauseToken:
		return []string{line("warning", "access denied", map[string]string{"error": "input token was not properly formatted: " + refused.Error()})}
	case CauseSignature:
		return []string{line("warning", "access denied", map[string]string{"error": "sts getCallerIdentity failed: error from AWS (expected 200, got 403)"})}
	}
	p := refused.principal
	id, session, _ := strings.Cut(p.UserID, ":")
	return []string{
		identified(p.ARN, p.AccessKeyID, p.Account, id, session),
		line("warning", "access denied", map[string]string{"arn": canonicalARN(p.ARN), "error": "ARN is not mapped"}),
	}
}

var logrusBare = regexp.MustCompile(`^[a-zA-Z0-9\-._/@^+]*$`)

// logrusValue formats a value as logrus's text formatter does.
func logrusValue(v string) string {
	if logrusBare.MatchString(v) {
		return v
	}
	return strconv.Quote(v)
}
