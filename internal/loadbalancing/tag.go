package loadbalancing

import (
	"fmt"
	"regexp"
	"unicode/utf8"

	"github.com/drydock-dev/drydock/internal/awsapi/awserr"
)

const tagPattern = `^([\p{L}\p{Z}\p{N}_.:/=+\-@]*)$`

var tagForm = regexp.MustCompile(tagPattern)

// CheckTag judges the tag at an index of a request, as the models of both APIs do. Their
// words for it are those of all services:
// https://github.com/localstack/localstack, tests/aws/services/kms/test_kms.snapshot.json
func CheckTag(index int, key, value string) error {
	check := func(member, text string, longest int) error {
		constraint := ""
		switch {
		case member == "key" && text == "":
			constraint = "have length greater than or equal to 1"
		case utf8.RuneCountInString(text) > longest:
			constraint = fmt.Sprintf("have length less than or equal to %d", longest)
		case !tagForm.MatchString(text):
			constraint = "satisfy regular expression pattern: " + tagPattern
		default:
			return nil
		}
		return awserr.Newf("ValidationError", "1 validation error detected: Value '%s' at 'tags.%d.member.%s' failed to satisfy constraint: Member must %s", text, index+1, member, constraint)
	}
	if err := check("key", key, 128); err != nil {
		return err
	}
	return check("value", value, 256)
}
