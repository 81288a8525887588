package route53

import (
	"fmt"
	"net/netip"
	"regexp"
	"strconv"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	route53types "github.com/aws/aws-sdk-go-v2/service/route53/types"
)

// malformed returns what is wrong with the form of a change, or "".
func malformed(c *route53types.Change) string {
	set := c.ResourceRecordSet
	identifier := "null"
	if set.SetIdentifier != nil {
		identifier = *set.SetIdentifier
	}
	where := fmt.Sprintf("in Change with [Action=%s, Name=%s, Type=%s, SetIdentifier=%s]", c.Action, *set.Name, set.Type, identifier)
	const one = "Expected exactly one of [AliasTarget, all of [TTL, and ResourceRecords], or TrafficPolicyInstanceId], but found "
	values := set.TTL != nil || len(set.ResourceRecords) > 0
	policies := 0
	for _, has := range []bool{set.Weight != nil, set.Region != "", set.Failover != "", set.MultiValueAnswer != nil} {
		if has {
			policies++
		}
	}
	switch {
	case set.AliasTarget != nil && values:
		return one + "more than one " + where
	case set.AliasTarget == nil && !values:
		return one + "none " + where
	case set.AliasTarget == nil && set.TTL == nil:
		return "Missing field 'TTL' " + where
	case set.AliasTarget == nil && len(set.ResourceRecords) == 0:
		return "Missing field 'ResourceRecords' " + where
	case policies > 1:
		return "Expected exactly one of [Weight, Region, Failover, GeoLocation, or MultiValueAnswer], but found more than one " + where
	case policies == 0 && set.SetIdentifier != nil:
		return "Expected exactly one of [Weight, Region, Failover, GeoLocation, or MultiValueAnswer], but found none " + where
	case policies == 1 && set.SetIdentifier == nil:
		return "Missing field 'SetIdentifier' " + where
	}
	return ""
}

var (
	quotedText = regexp.MustCompile(`^("(?:[^"\\]|\\.)*"\s*)+$`)
	quoted     = regexp.MustCompile(`"((?:[^"\\]|\\.)*)"`)
	escape     = regexp.MustCompile(`\\(?:[0-7]{3}|.)`)
)

// invalidValues returns what is wrong with the values of a record set.
func invalidValues(set *route53types.ResourceRecordSet) []string {
	var out []string
	for _, r := range set.ResourceRecords {
		if p := invalid(set.Type, aws.ToString(r.Value)); p != nil {
			out = append(out, p.String())
		}
	}
	return out
}

// invalid returns what is wrong with a value, or nil.
// https://docs.aws.amazon.com/Route53/latest/DeveloperGuide/ResourceRecordTypes.html
func invalid(kind route53types.RRType, value string) *problem {
	fields := strings.Fields(value)
	host := func(name string) *problem {
		_, p := normalized(name)
		return p
	}
	numbers := func(texts []string, most uint64) bool {
		for _, t := range texts {
			if n, err := strconv.ParseUint(t, 10, 64); err != nil || n > most {
				return false
			}
		}
		return true
	}
	switch kind {
	case route53types.RRTypeA:
		if a, err := netip.ParseAddr(value); err != nil || !a.Is4() {
			return &problem{"ARRDATAIllegalIPv4Address", "Value is not a valid IPv4 address", value}
		}
	case route53types.RRTypeAaaa:
		if a, err := netip.ParseAddr(value); err != nil || !a.Is6() || a.Zone() != "" {
			return &problem{"AAAARRDATAIllegalIPv6Address", "Value is not a valid IPv6 address", value}
		}
	case route53types.RRTypeCname, route53types.RRTypeNs, route53types.RRTypePtr:
		return host(value)
	case route53types.RRTypeTxt, route53types.RRTypeSpf:
		if !quotedText.MatchString(value) {
			return &problem{"InvalidCharacterString", "Value should be enclosed in quotation marks", value}
		}
		for _, m := range quoted.FindAllStringSubmatch(value, -1) {
			if len(escape.ReplaceAllString(m[1], "x")) > 255 {
				return &problem{"CharacterStringTooLong", "Value is too long", value}
			}
		}
	case route53types.RRTypeMx:
		if len(fields) != 2 {
			return &problem{"MXRRDATANotTwoFields", "MX record doesn't have 2 fields", value}
		}
		if !numbers(fields[:1], 65535) {
			return &problem{"MXRRDATAInvalidPriority", "MX priority is not a number between 0 and 65535", value}
		}
		return host(fields[1])
	case route53types.RRTypeSrv:
		if len(fields) != 4 {
			return &problem{"SRVRRDATANotFourFields", "SRV record doesn't have 4 fields", value}
		}
		if !numbers(fields[:3], 65535) {
			return &problem{"SRVRRDATAInvalidNumber", "SRV priority, weight or port is not a number between 0 and 65535", value}
		}
		if fields[3] != "." {
			return host(fields[3])
		}
	case route53types.RRTypeCaa:
		if len(fields) < 3 || !numbers(fields[:1], 255) {
			return &problem{"CAARRDATANotThreeFields", "CAA record doesn't have 3 fields", value}
		}
		if !quotedText.MatchString(strings.Join(fields[2:], " ")) {
			return &problem{"InvalidCharacterString", "Value should be enclosed in quotation marks", fields[2]}
		}
	case route53types.RRTypeSoa:
		if len(fields) != 7 || !numbers(fields[2:], 1<<32-1) {
			return &problem{"SOARRDATANotSevenFields", "SOA record doesn't have 7 fields", value}
		}
	}
	return nil
}
