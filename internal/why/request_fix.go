package why

import (
	"strings"

	"github.com/drydock-dev/drydock/internal/policy"
)

// fixRequest is the command that makes the first of suggestions come true that takes
// but one: a policy of its own for the role or user, of that ARN, that lacks a
// statement. Empty: there is none.
func fixRequest(requestID string, arn string, suggestions []policy.Suggestion) string {
	_, who, _ := strings.Cut(arn, ":iam::")
	_, who, _ = strings.Cut(who, ":")
	kind, path, _ := strings.Cut(who, "/")
	if kind != "role" && kind != "user" || strings.HasPrefix(path, "aws-service-role/") {
		return "" // the policies of anybody else cannot be changed
	}
	name := path[strings.LastIndexByte(path, '/')+1:]
	for _, s := range suggestions {
		if len(s.Changes) != 1 || s.Changes[0].Kind != policy.AddStatement || s.Changes[0].Type != policy.IdentityBased {
			continue
		}
		document := `{"Version":"2012-10-17","Statement":[` + s.Changes[0].Statement + `]}`
		// Named by the request: a name that is taken would be another policy's.
		return "aws iam put-" + kind + "-policy --" + kind + "-name " + name + " --policy-name request-" + requestID +
			" --policy-document '" + strings.ReplaceAll(document, "'", `'\''`) + "'"
	}
	return ""
}
