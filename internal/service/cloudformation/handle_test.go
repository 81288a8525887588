package cloudformation_test

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	awscloudformation "github.com/aws/aws-sdk-go-v2/service/cloudformation"
	testclock "k8s.io/utils/clock/testing"

	"github.com/drydock-dev/drydock/internal/service/cloudformation"
	"github.com/drydock-dev/drydock/internal/testkit"
)

const conditions = `
Resources:
  Handle: {Type: AWS::CloudFormation::WaitConditionHandle}
  Wait: {Type: AWS::CloudFormation::WaitCondition, Properties: {Handle: !Ref Handle, Timeout: 600, Count: 2}}
Outputs: {Data: {Value: !GetAtt Wait.Data}}
`

// handle returns the URL of a stack's handle.
func (w *world) handle(t *testing.T, stack string) string {
	t.Helper()
	var out string
	testkit.Eventually(t, 20*time.Second, func() error {
		r, err := w.DescribeStackResource(t.Context(), &awscloudformation.DescribeStackResourceInput{StackName: &stack, LogicalResourceId: aws.String("Handle")})
		if err == nil && r.StackResourceDetail.PhysicalResourceId == nil {
			err = fmt.Errorf("%s", r.StackResourceDetail.ResourceStatus)
		}
		if err == nil {
			out = *r.StackResourceDetail.PhysicalResourceId
		}
		return err
	})
	return out
}

// put sends a request to the URL of a handle.
func put(t *testing.T, s *cloudformation.Service, method, target, body string, allowed func(action, object string) bool) (int, string) {
	t.Helper()
	req := httptest.NewRequestWithContext(t.Context(), method, target, strings.NewReader(body))
	if !cloudformation.ServesHandle(req) {
		t.Fatalf("%s is not a handle's", target)
	}
	if allowed == nil {
		allowed = func(string, string) bool { return true }
	}
	rec := httptest.NewRecorder()
	s.ServeHandle(rec, req, allowed)
	b := testkit.Must(io.ReadAll(rec.Result().Body))(t)
	return rec.Code, string(b)
}

// TestHandle signals a wait condition at the URL of its handle.
func TestHandle(t *testing.T) {
	w := newRunning(t)
	s := cloudformation.New(w.config)
	id := w.create(t, "wait", conditions)
	target := w.handle(t, id)
	u := testkit.Must(url.Parse(target))(t)
	if u.Host != "cloudformation-waitcondition-us-east-1.s3.us-east-1.amazonaws.com" || !strings.HasPrefix(u.EscapedPath(), "/"+url.QueryEscape(id)+"/") || !strings.HasSuffix(u.Path, "/Handle") || u.Query().Get("X-Amz-Expires") != "43199" {
		t.Error(target)
	}
	var asked []string
	ask := func(answer bool) func(string, string) bool {
		return func(action, object string) bool { asked = append(asked, action+" "+object); return answer }
	}
	const good = `{"Status": "SUCCESS", "Reason": "done", "UniqueId": "one", "Data": "1"}`
	for _, tt := range []struct {
		name, method, target, body string
		allowed                    func(string, string) bool
		status                     int
		want                       string
	}{
		{"a link", "GET", target, "", nil, 403, "<Code>SignatureDoesNotMatch</Code>"},
		{"another signature", "PUT", strings.Replace(target, "X-Amz-Signature=", "X-Amz-Signature=0", 1), good, nil, 403, "<Code>SignatureDoesNotMatch</Code>"},
		{"another handle", "PUT", strings.Replace(target, "/Handle?", "/Other?", 1), good, nil, 403, "<Code>SignatureDoesNotMatch</Code>"},
		{"another path", "PUT", "https://" + u.Host + "/x", good, nil, 403, "<Message>Access Denied</Message>"},
		{"another region", "PUT", strings.Replace(target, "waitcondition-us-east-1", "waitcondition-us-east-2", 1), good, nil, 403, "Access Denied"},
		{"too much", "PUT", target, strings.Repeat("x", 1<<20), nil, 400, "EntityTooLarge"},
		{"a VPC endpoint's policy", "PUT", target, good, ask(false), 403, "Access Denied"},
		{"not JSON", "PUT", target, "done", nil, 200, ""},
		{"no ID", "PUT", target, `{"Status": "SUCCESS", "Data": "1"}`, nil, 200, ""},
		{"another status", "PUT", target, `{"Status": "OK", "UniqueId": "one"}`, nil, 200, ""},
		{"a signal", "PUT", target, good, ask(true), 200, ""},
		{"the signal again", "PUT", target, strings.Replace(good, `"1"`, `"other"`, 1), nil, 200, ""},
	} {
		status, body := put(t, s, tt.method, tt.target, tt.body, tt.allowed)
		if status != tt.status || !strings.Contains(body, tt.want) || tt.want == "" && body != "" {
			t.Errorf("%s: %d %s, want %d %s", tt.name, status, body, tt.status, tt.want)
		}
	}
	if want := "s3:PutObject arn:aws:s3:::cloudformation-waitcondition-us-east-1" + u.Path; len(asked) != 2 || asked[0] != want {
		t.Errorf("asked about %v, want %s", asked, want)
	}
	if status, body := put(t, s, http.MethodPut, target, `{"Status": "SUCCESS", "UniqueId": "two", "Data": "2"}`, nil); status != 200 {
		t.Error(body)
	}
	if out := w.outputs(w.want(t, id, "CREATE_COMPLETE")); out["Data"] != `{"one":"1","two":"2"}` {
		t.Error(out)
	}

	id = w.create(t, "failed", conditions)
	if status, body := put(t, s, http.MethodPut, w.handle(t, id), `{"Status": "FAILURE", "Reason": "no disk", "UniqueId": "i-1", "Data": ""}`, nil); status != 200 {
		t.Error(body)
	}
	w.want(t, id, "ROLLBACK_COMPLETE")
	if script := w.script(t, id); !strings.Contains(script, "Wait CREATE_FAILED WaitCondition received failed message: 'no disk' for uniqueId: i-1\n") {
		t.Error(script)
	}

	id = w.create(t, "late", conditions)
	target = w.handle(t, id)
	cfg := w.config
	cfg.Clock = testclock.NewFakeClock(time.Now().Add(13 * time.Hour))
	if status, body := put(t, cloudformation.New(cfg), http.MethodPut, target, good, nil); status != 403 || !strings.Contains(body, "Request has expired") {
		t.Errorf("%d %s", status, body)
	}
	w.delete(t, id)
	w.want(t, id, "DELETE_COMPLETE")
}
