package cloudtrail

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	awscloudtrail "github.com/aws/aws-sdk-go-v2/service/cloudtrail"
	cloudtrailtypes "github.com/aws/aws-sdk-go-v2/service/cloudtrail/types"

	"github.com/drydock-dev/drydock/internal/awsapi"
	"github.com/drydock-dev/drydock/internal/awsapi/paging"
	"github.com/drydock-dev/drydock/internal/journal"
)

const (
	maxResults = 50
	retention  = 90 * 24 * time.Hour
)

// LookupEvents returns events of the account and region, newest first.
func (s *Service) LookupEvents(ctx context.Context, in *awscloudtrail.LookupEventsInput) (*awscloudtrail.LookupEventsOutput, error) {
	page, err := pages(in).Start(in.MaxResults, in.NextToken)
	if err != nil {
		return nil, err
	}
	match, err := attribute(in.LookupAttributes)
	if err != nil {
		return nil, err
	}
	since, until := s.clock.Now().Add(-retention), time.Time{}
	if in.StartTime != nil && in.StartTime.After(since) {
		since = *in.StartTime
	}
	if in.EndTime != nil {
		until = in.EndTime.Add(time.Second) // inclusive, with a precision of seconds
		if until.Before(since) {
			return nil, invalidTimeRange()
		}
	}
	call := awsapi.CallFrom(ctx)
	out := &awscloudtrail.LookupEventsOutput{Events: []cloudtrailtypes.Event{}}
	seen := page.After == ""
	filter := journal.Filter{Account: call.Account, Region: call.Region, Kind: journal.KindCall, Since: since, Until: until}
	for entry, err := range s.journal.Query(filter) {
		if err != nil {
			return nil, err
		}
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		e, ok := read(entry)
		switch {
		case !ok:
			continue
		case !seen:
			seen = e.EventID == page.After
			continue
		case !match(e):
			continue
		case page.Full():
			out.NextToken = page.Next()
			return out, nil
		}
		out.Events = append(out.Events, e.sdk())
		page.Add(e.EventID)
	}
	if !seen {
		return nil, invalidNextToken() // deleted in the meantime
	}
	return out, nil
}

// An event is a record of the journal, with the fields needed here.
type event struct {
	EventID           string         `json:"eventID"`
	EventName         string         `json:"eventName"`
	EventSource       string         `json:"eventSource"`
	EventTime         time.Time      `json:"eventTime"`
	ReadOnly          bool           `json:"readOnly"`
	RequestParameters map[string]any `json:"requestParameters"`
	ResponseElements  map[string]any `json:"responseElements"`
	UserIdentity      struct {
		Type, ARN, AccessKeyID, UserName string
	} `json:"userIdentity"`

	text string
}

func read(entry journal.Entry) (*event, bool) {
	raw, ok := entry.Fields["event"]
	if !ok {
		return nil, false
	}
	var b bytes.Buffer
	w := json.NewEncoder(&b)
	w.SetEscapeHTML(false) // keep <sensitiveDataRemoved> readable
	if err := w.Encode(raw); err != nil {
		return nil, false
	}
	e := &event{text: strings.TrimSpace(b.String())}
	return e, json.Unmarshal(b.Bytes(), e) == nil && e.EventID != ""
}

// username returns the user name, the token's subject, the name of the role session, or root.
func (e *event) username() string {
	switch id := e.UserIdentity; id.Type {
	case "Root":
		return "root"
	case "IAMUser", "WebIdentityUser":
		return id.UserName
	default:
		return id.ARN[strings.LastIndexByte(id.ARN, '/')+1:]
	}
}

func (e *event) sdk() cloudtrailtypes.Event {
	return cloudtrailtypes.Event{
		AccessKeyId: known(e.UserIdentity.AccessKeyID), CloudTrailEvent: aws.String(e.text),
		EventId: aws.String(e.EventID), EventName: aws.String(e.EventName), EventSource: aws.String(e.EventSource),
		EventTime: aws.Time(e.EventTime), ReadOnly: aws.String(strconv.FormatBool(e.ReadOnly)),
		Resources: e.resources(), Username: known(e.username()),
	}
}

func known(s string) *string {
	if s == "" {
		return nil // the caller is from another account
	}
	return &s
}

// attribute returns a predicate for the requested attribute. AWS allows at most one.
func attribute(list []cloudtrailtypes.LookupAttribute) (func(*event) bool, error) {
	switch len(list) {
	case 0:
		return func(*event) bool { return true }, nil
	case 1:
	default:
		return nil, invalidLookupAttributes("You can specify only one lookup attribute.")
	}
	want := aws.ToString(list[0].AttributeValue)
	if want == "" {
		return nil, invalidLookupAttributes("The lookup attribute has no value.")
	}
	key := list[0].AttributeKey
	if !slices.Contains(key.Values(), key) {
		return nil, invalidLookupAttributes(fmt.Sprintf("%q is not a valid lookup attribute.", string(key)))
	}
	named := func(of func(cloudtrailtypes.Resource) *string) func(*event) bool {
		return func(e *event) bool {
			return slices.ContainsFunc(e.resources(), func(r cloudtrailtypes.Resource) bool { return aws.ToString(of(r)) == want })
		}
	}
	return map[cloudtrailtypes.LookupAttributeKey]func(*event) bool{
		cloudtrailtypes.LookupAttributeKeyEventId:      func(e *event) bool { return e.EventID == want },
		cloudtrailtypes.LookupAttributeKeyEventName:    func(e *event) bool { return e.EventName == want },
		cloudtrailtypes.LookupAttributeKeyEventSource:  func(e *event) bool { return e.EventSource == want },
		cloudtrailtypes.LookupAttributeKeyReadOnly:     func(e *event) bool { return strconv.FormatBool(e.ReadOnly) == want },
		cloudtrailtypes.LookupAttributeKeyUsername:     func(e *event) bool { return e.username() == want },
		cloudtrailtypes.LookupAttributeKeyAccessKeyId:  func(e *event) bool { return e.UserIdentity.AccessKeyID == want },
		cloudtrailtypes.LookupAttributeKeyResourceName: named(func(r cloudtrailtypes.Resource) *string { return r.ResourceName }),
		cloudtrailtypes.LookupAttributeKeyResourceType: named(func(r cloudtrailtypes.Resource) *string { return r.ResourceType }),
	}[key], nil
}

// pages returns the paging rules. A token is valid only for the same request.
func pages(in *awscloudtrail.LookupEventsInput) paging.Rules {
	request, _ := json.Marshal([]any{in.LookupAttributes, in.StartTime, in.EndTime}) // strings and times always marshal
	return paging.Rules{
		Usual: maxResults, Question: string(request),
		Size: func(n int32) (int, error) {
			if n < 1 || n > maxResults {
				return 0, invalidMaxResults()
			}
			return int(n), nil
		},
		BadToken: func(string) error { return invalidNextToken() },
	}
}
