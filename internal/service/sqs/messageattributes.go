package sqs

import (
	"crypto/md5" //nolint:gosec // what SQS's clients compare
	"encoding/binary"
	"encoding/hex"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	sqstypes "github.com/aws/aws-sdk-go-v2/service/sqs/types"

	"github.com/drydock-dev/drydock/internal/awsapi"
)

// https://docs.aws.amazon.com/AWSSimpleQueueService/latest/SQSDeveloperGuide/sqs-message-metadata.html
// Letters need not be ASCII: [recorded] test_send_message_with_invalid_string_attributes, LocalStack's tests/aws/services/sqs/test_sqs.py
var attributeName = regexp.MustCompile(`^[\p{L}\p{N}_-]+(\.[\p{L}\p{N}_-]+)*$`)

// traceHeader is the only system attribute that can be sent.
const traceHeader = "AWSTraceHeader"

// traceForm is the form of a trace header that a message takes from the request.
// https://docs.aws.amazon.com/xray/latest/devguide/xray-concepts.html#xray-concepts-tracingheader
var traceForm = regexp.MustCompile(`^Root=1-[0-9a-f]{8}-[0-9a-f]{24}(;[A-Za-z]+=[^;[:cntrl:]]+)*$`)

// traceOf returns the trace header of a request, or "" if there is no valid one.
// [recorded] test_aws_trace_header_propagation, LocalStack's tests/aws/services/sqs/test_sqs.py
func traceOf(call *awsapi.Call) string {
	if len(call.TraceID) > 1024 || !traceForm.MatchString(call.TraceID) {
		return ""
	}
	return call.TraceID
}

func (d *draft) checkAttributes() error {
	if len(d.attributes) > 10 {
		return errManyAttributes(len(d.attributes))
	}
	for _, name := range slices.Sorted(maps.Keys(d.attributes)) {
		v := d.attributes[name]
		lower := strings.ToLower(name)
		if len(name) > 256 || !attributeName.MatchString(name) || strings.HasPrefix(lower, "aws.") || strings.HasPrefix(lower, "amazon.") {
			return errAttributeName(name)
		}
		a, err := readAttribute(name, aws.ToString(v.DataType), v.StringValue, v.BinaryValue, len(v.StringListValues)+len(v.BinaryListValues))
		if err != nil {
			return err
		}
		if d.content.Attributes == nil {
			d.content.Attributes = map[string]attribute{}
		}
		d.content.Attributes[name] = a
		d.size += len(name) + len(a.Type) + len(a.Text) + len(a.Binary)
	}
	d.md5Attrs = digestAttributes(d.content.Attributes)
	for name, v := range d.system {
		if name != traceHeader {
			return errSystemAttribute(name)
		}
		if _, err := readAttribute(name, aws.ToString(v.DataType), v.StringValue, v.BinaryValue, len(v.StringListValues)+len(v.BinaryListValues)); err != nil {
			return err
		}
		d.trace = aws.ToString(v.StringValue)
	}
	return nil
}

func readAttribute(name, kind string, text *string, binary []byte, lists int) (attribute, error) {
	base, _, _ := strings.Cut(kind, ".")
	a := attribute{Type: kind}
	switch {
	case lists > 0:
		return a, errListValues()
	case len(kind) > 256 || base != "String" && base != "Number" && base != "Binary":
		return a, errAttributeType(name)
	case base == "Binary":
		if a.Binary = binary; len(binary) == 0 {
			return a, errEmptyAttribute(name, base)
		}
	case aws.ToString(text) == "":
		return a, errEmptyAttribute(name, base)
	default:
		a.Text = *text
		if !valid(a.Text) {
			return a, errAttributeContents()
		}
		if _, err := strconv.ParseFloat(a.Text, 64); base == "Number" && err != nil {
			return a, errNumber(name)
		}
	}
	return a, nil
}

// wanted reports whether a receiver requests an attribute, by its name, All, * or PREFIX.*. No dot need follow the prefix.
// [recorded] test_receive_message_message_attribute_names_filters, LocalStack's tests/aws/services/sqs/test_sqs.py
func wanted(names []string, name string) bool {
	return slices.ContainsFunc(names, func(n string) bool {
		prefix, ok := strings.CutSuffix(n, ".*")
		return n == "All" || n == "*" || n == name || ok && strings.HasPrefix(name, prefix)
	})
}

func digest(text string) string {
	sum := md5.Sum([]byte(text)) //nolint:gosec // as above
	return hex.EncodeToString(sum[:])
}

// digestAttributes returns the MD5 of message attributes, or nil if there are none.
// https://docs.aws.amazon.com/AWSSimpleQueueService/latest/SQSDeveloperGuide/sqs-message-metadata.html#sqs-attributes-md5-message-digest-calculation
func digestAttributes(attributes map[string]attribute) *string {
	if len(attributes) == 0 {
		return nil
	}
	var b []byte
	add := func(s string) { b = append(binary.BigEndian.AppendUint32(b, uint32(len(s))), s...) }
	for _, name := range slices.Sorted(maps.Keys(attributes)) {
		a := attributes[name]
		add(name)
		add(a.Type)
		if strings.HasPrefix(a.Type, "Binary") {
			b = append(b, 2)
			add(string(a.Binary))
		} else {
			b = append(b, 1)
			add(a.Text)
		}
	}
	return aws.String(digest(string(b)))
}

func digestSystem(system map[string]sqstypes.MessageSystemAttributeValue) *string {
	attributes := map[string]attribute{}
	for name, v := range system {
		attributes[name] = attribute{Type: aws.ToString(v.DataType), Text: aws.ToString(v.StringValue), Binary: v.BinaryValue}
	}
	return digestAttributes(attributes)
}
