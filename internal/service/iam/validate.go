package iam

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"unicode/utf8"

	iamtypes "github.com/aws/aws-sdk-go-v2/service/iam/types"
)

// checks collects the constraints of the API model that a request breaks; IAM
// reports them together. A name or path of wrong characters has a text of its
// own and comes first.
type checks struct {
	failed []string
	first  error
}

func (c *checks) err() error {
	switch {
	case len(c.failed) > 0:
		return constraints(c.failed)
	default:
		return c.first
	}
}

func (c *checks) fail(value, field, constraint string) {
	c.failed = append(c.failed, fmt.Sprintf("Value '%s' at '%s' failed to satisfy constraint: %s", value, field, constraint))
}

// length checks a string's length in characters.
func (c *checks) length(field, value string, least, most int) {
	switch n := utf8.RuneCountInString(value); {
	case n < least:
		c.fail(value, field, "Member must have length greater than or equal to "+strconv.Itoa(least))
	case n > most:
		c.fail(value, field, "Member must have length less than or equal to "+strconv.Itoa(most))
	}
}

// pattern checks a string against a pattern of the API model.
func (c *checks) pattern(field, value string, re *regexp.Regexp, text string) {
	if !re.MatchString(value) {
		c.fail(value, field, "Member must satisfy regular expression pattern: "+text)
	}
}

func (c *checks) between(field string, value *int32, least, most int32) {
	switch {
	case value == nil:
	case *value < least:
		c.fail(strconv.Itoa(int(*value)), field, "Member must have value greater than or equal to "+strconv.Itoa(int(least)))
	case *value > most:
		c.fail(strconv.Itoa(int(*value)), field, "Member must have value less than or equal to "+strconv.Itoa(int(most)))
	}
}

var (
	nameRE        = regexp.MustCompile(`^[\w+=,.@-]+$`)
	pathRE        = regexp.MustCompile(`^(/|/[\x21-\x7E]+/)$`)
	prefixRE      = regexp.MustCompile(`^/[\x21-\x7F]*$`)
	descriptionRE = regexp.MustCompile(`^[\x09\x0A\x0D\x20-\x7E\x{A1}-\x{FF}]*$`)
	documentRE    = regexp.MustCompile(`^[\x09\x0A\x0D\x20-\x{FF}]+$`)
	versionRE     = regexp.MustCompile(`^v[1-9][0-9]*(\.[A-Za-z0-9-]*)?$`)
	tagKeyRE      = regexp.MustCompile(`^[\p{L}\p{Z}\p{N}_.:/=+\-@]+$`)
	tagValueRE    = regexp.MustCompile(`^[\p{L}\p{Z}\p{N}_.:/=+\-@]*$`)
)

// The patterns of tags as the API model writes them.
const (
	tagKeyText   = `[\p{L}\p{Z}\p{N}_.:/=+\-@]+`
	tagValueText = `[\p{L}\p{Z}\p{N}_.:/=+\-@]*`
)

func (c *checks) name(field, value string, most int) {
	c.length(field, value, 1, most)
	if value != "" && !nameRE.MatchString(value) && c.first == nil {
		c.first = invalidName(field)
	}
}

func (c *checks) path(field string, value *string) {
	if value == nil {
		return
	}
	c.length(field, *value, 1, 512)
	if *value != "" && !pathRE.MatchString(*value) && c.first == nil {
		c.first = invalidPath(field)
	}
}

func (c *checks) pathPrefix(value *string) {
	if value != nil {
		c.length("pathPrefix", *value, 1, 512)
		c.pattern("pathPrefix", *value, prefixRE, `\u002F[\u0021-\u007F]*`)
	}
}

func (c *checks) description(value *string) {
	if value != nil {
		c.length("description", *value, 0, 1000)
		c.pattern("description", *value, descriptionRE, `[\u0009\u000A\u000D\u0020-\u007E\u00A1-\u00FF]*`)
	}
}

func (c *checks) document(field, value string) {
	c.length(field, value, 1, 131072)
	if value != "" && !documentRE.MatchString(value) {
		c.fail(value, field, `Member must satisfy regular expression pattern: [\u0009\u000A\u000D\u0020-\u00FF]+`)
	}
}

func (c *checks) arn(field, value string) { c.length(field, value, 20, 2048) }

// page checks what every List operation takes.
func (c *checks) page(marker *string, maxItems *int32) {
	if marker != nil {
		c.length("marker", *marker, 1, 320)
	}
	c.between("maxItems", maxItems, 1, 1000)
}

func (c *checks) tags(tags []iamtypes.Tag) {
	if len(tags) > maxTags {
		c.fail("["+strconv.Itoa(len(tags))+" tags]", "tags", "Member must have length less than or equal to "+strconv.Itoa(maxTags))
	}
	for i, t := range tags {
		k, v := str(t.Key), str(t.Value)
		at := "tags." + strconv.Itoa(i+1) + ".member."
		c.length(at+"key", k, 1, 128)
		c.pattern(at+"key", k, tagKeyRE, tagKeyText)
		c.length(at+"value", v, 0, 256)
		c.pattern(at+"value", v, tagValueRE, tagValueText)
		if strings.HasPrefix(strings.ToLower(k), "aws:") && c.first == nil {
			c.first = invalidInput("Tag keys that start with aws: are reserved for AWS.") // no source
		}
	}
}

func str(p *string) string {
	if p == nil {
		return ""
	}
	return *p
}
