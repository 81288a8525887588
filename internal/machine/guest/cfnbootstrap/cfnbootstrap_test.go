package cfnbootstrap_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/drydock-dev/drydock/internal/machine/guest/cfnbootstrap"
	"github.com/drydock-dev/drydock/internal/machine/guest/shell"
	"github.com/drydock-dev/drydock/internal/machine/guest/vfs"
)

type transport func(*http.Request) (*http.Response, error)

func (f transport) RoundTrip(req *http.Request) (*http.Response, error) { return f(req) }

func answer(status int, text string) (*http.Response, error) {
	return &http.Response{StatusCode: status, Body: io.NopCloser(strings.NewReader(text))}, nil
}

// metadata is what an instance's metadata service returns.
var metadata = transport(func(req *http.Request) (*http.Response, error) {
	text, ok := map[string]string{
		"/latest/api/token": "token", "/latest/meta-data/instance-id": "i-1",
		"/latest/dynamic/instance-identity/document": "{doc}\n", "/latest/dynamic/instance-identity/signature": "c2ln\nbmVk",
		"/latest/meta-data/iam/security-credentials/":     "role",
		"/latest/meta-data/iam/security-credentials/role": `{"Code":"Success","AccessKeyId":"ASIA","SecretAccessKey":"s","Token":"t","Expiration":"2030-01-01T00:00:00Z"}`,
	}[req.URL.Path]
	if !ok {
		return answer(http.StatusNotFound, "")
	}
	return answer(http.StatusOK, text)
})

// TestPrograms runs the programs against a service and compares what they send and print.
func TestPrograms(t *testing.T) {
	const (
		signaled = `{"SignalResourceResponse":{"ResponseMetadata":{"RequestId":"r"}}}`
		detail   = `{"DescribeStackResourceResponse":{"DescribeStackResourceResult":{"StackResourceDetail":{"LogicalResourceId":"R","Metadata":"{\"a\": {\"b\": \"c\", \"d.e\": [1, true]}}"}}}}`
		bare     = `{"DescribeStackResourceResponse":{"DescribeStackResourceResult":{"StackResourceDetail":{"LogicalResourceId":"R","Metadata":"{}"}}}}`
		sent     = "GET cloudformation.us-east-1.amazonaws.com/?Action=SignalResource&ContentType=JSON&LogicalResourceId=R&StackName=s&Status=SUCCESS&UniqueId=i-1&Version=2010-05-15 CFN_V1\n"
	)
	failed := strings.Replace(sent, "SUCCESS", "FAILURE", 1)
	refusal := `{"Error":{"Code":"ValidationError","Message":"Stack x is in CREATE_COMPLETE state and cannot be signaled","Type":"Sender"},"RequestId":"r"}`
	for _, tt := range []struct {
		line   string
		status int // of the answer; 0 for no answer, -1 for no such name
		answer string
		want   string // what is sent, and what is printed
		exit   int
	}{
		{"cfn-signal --stack s --resource R", 200, signaled, sent, 0},
		{"cfn-signal -e 0 --stack=s --res R", 200, signaled, sent, 0},
		{"cfn-signal -e3 --stack s --resource R", 200, signaled, failed, 0},
		{"cfn-signal --exit-code=1 --success true --stack s --resource R", 200, signaled, failed, 0},
		{"cfn-signal -s false --stack s --resource R", 200, signaled, failed, 0},
		{"cfn-signal -i other --stack s --resource R --region eu-west-1 --role role", 200, signaled, strings.NewReplacer("us-east-1", "eu-west-1", "UniqueId=i-1", "UniqueId=other", "CFN_V1", "AWS4-HMAC-SHA256").Replace(sent), 0},
		{"cfn-signal --stack s --resource R --access-key AKID --secret-key x", 200, signaled, strings.Replace(sent, "CFN_V1", "AWS4-HMAC-SHA256", 1), 0},
		{"cfn-signal --stack s --resource R", 400, refusal, sent + "ValidationError: Stack x is in CREATE_COMPLETE state and cannot be signaled\n", 1},
		{"cfn-signal --stack s --resource R", 0, "", strings.Repeat(sent, 5) + "Unknown error signaling R\n", 1},
		{"cfn-signal --stack s --resource R", -1, "", strings.Repeat(sent, 5) + "HTTPSConnectionPool(host='cloudformation.us-east-1.amazonaws.com', port=443): Max retries exceeded with url: /?Action=SignalResource&ContentType=JSON&LogicalResourceId=R&StackName=s&Status=SUCCESS&UniqueId=i-1&Version=2010-05-15 (Caused by NewConnectionError('<urllib3.connection.HTTPSConnection object at 0x7f3c5e1d2b50>: Failed to establish a new connection: [Errno -2] Name or service not known'))\n", 1},
		{"cfn-signal --stack s --resource R", 503, "busy", strings.Repeat(sent, 5) + "Unknown: busy\n", 1},
		{"cfn-signal", 200, "", "Error: No WaitConditionHandle URL or logical resource id specified\n", 1},
		{"cfn-signal --resource R", 200, "", "Error: You must specify a stack name when signaling a resource\n", 1},
		{"cfn-signal --resource R https://handle", 200, "", "Error: Cannot specify both a WaitConditionHandle URL and a logical resource id\n", 1},
		{"cfn-signal --none", 200, "", "Usage: cfn-signal [options]\n\ncfn-signal: error: no such option: --none\n", 2},
		{"cfn-signal --r R", 200, "", "Usage: cfn-signal [options]\n\ncfn-signal: error: ambiguous option: --r\n", 2},
		{"cfn-signal -e", 200, "", "Usage: cfn-signal [options]\n\ncfn-signal: error: -e option requires 1 argument\n", 2},
		{"cfn-signal -e x", 200, "", "Usage: cfn-signal [options]\n\ncfn-signal: error: option -e: invalid integer value: 'x'\n", 2},
		{"cfn-signal -s no", 200, "", "Usage: cfn-signal [options]\n\ncfn-signal: error: option -s: invalid choice: 'no' (choose from 'true', 'false')\n", 2},
		{"cfn-signal -d x https://handle/p?q=1", 200, "", "PUT handle/p?q=1 \n" + `{"Status":"SUCCESS","Reason":"","Data":"x","UniqueId":"i-1"}` + "\nCloudFormation signaled successfully with SUCCESS.\n", 0},
		{"cfn-signal -e 1 -i 7 aHR0cHM6Ly9oYW5kbGUvcA==", 200, "", "PUT handle/p \n" + `{"Status":"FAILURE","Reason":"Configuration failed.","Data":"","UniqueId":"7"}` + "\nCloudFormation signaled successfully with FAILURE.\n", 0},
		{"cfn-signal nowhere", 200, "", "Error: Invalid WaitConditionHandle URL specified: nowhere\n", 1},
		{"cfn-signal https://handle/p", 403, "<Error/>", "PUT handle/p \n" + `{"Status":"SUCCESS","Reason":"","Data":"","UniqueId":"i-1"}` + "\nError signaling CloudFormation: [Errno 403] HTTP Error 403 : <Error/>\n", 1},
		{"cfn-get-metadata -s s -r R -k a.b", 200, detail, "GET cloudformation.us-east-1.amazonaws.com/?Action=DescribeStackResource&ContentType=JSON&LogicalResourceId=R&StackName=s&Version=2010-05-15 CFN_V1\nc\n", 0},
		{`cfn-get-metadata -s s -r R -k a.d\.e`, 200, detail, "GET cloudformation.us-east-1.amazonaws.com/?Action=DescribeStackResource&ContentType=JSON&LogicalResourceId=R&StackName=s&Version=2010-05-15 CFN_V1\n[\n    1,\n    true\n]\n", 0},
		{"cfn-get-metadata -s s -r R -k none -v", 200, detail, "GET cloudformation.us-east-1.amazonaws.com/?Action=DescribeStackResource&ContentType=JSON&LogicalResourceId=R&StackName=s&Version=2010-05-15 CFN_V1\nError: none is not present in the metadata for R\n", 1},
		{"cfn-get-metadata -s s -r R", 200, bare, "GET cloudformation.us-east-1.amazonaws.com/?Action=DescribeStackResource&ContentType=JSON&LogicalResourceId=R&StackName=s&Version=2010-05-15 CFN_V1\nError: R does not specify any metadata\n", 1},
		{"cfn-get-metadata -s s", 200, bare, "Error: You must specify both a stack name and logical resource id\n", 1},
		{"cfn-init -s s -r R", 200, bare, "Error: cfn-init is not supported on simulated nodes; cfn-signal and cfn-get-metadata are\n", 1},
	} {
		t.Run(tt.line, func(t *testing.T) {
			var out bytes.Buffer
			tools := &cfnbootstrap.Tools{
				Metadata: metadata, Now: time.Now, Wait: func(context.Context, time.Duration) bool { return true },
				HTTP: transport(func(req *http.Request) (*http.Response, error) {
					scheme, text, _ := strings.Cut(req.Header.Get("Authorization"), " ")
					if scheme == "CFN_V1" && text != "e2RvY30=:c2lnbmVk" {
						t.Errorf("signed as %s", text)
					}
					fmt.Fprintf(&out, "%s %s%s %s\n", req.Method, req.URL.Host, req.URL.RequestURI(), scheme)
					if req.Body != nil {
						b, err := io.ReadAll(req.Body)
						fmt.Fprintf(&out, "%s\n", b)
						if err != nil {
							t.Error(err)
						}
					}
					switch tt.status {
					case 0:
						return nil, &net.OpError{Op: "dial", Err: context.DeadlineExceeded}
					case -1:
						return nil, &net.DNSError{Err: "no such host", IsNotFound: true}
					}
					return answer(tt.status, tt.answer)
				}),
			}
			res, err := shell.Run(t.Context(), shell.Job{
				FS: vfs.New(vfs.DefaultLimits, time.Now), Script: []byte("/opt/aws/bin/" + strings.ReplaceAll(tt.line, `\`, `\\`)), Name: "s", Stdout: &out, Stderr: &out,
				Outside: func(ctx context.Context, c *shell.Call) (int, bool) { return tools.Run(ctx, c), true },
			})
			if diff := cmp.Diff(tt.want, out.String()); diff != "" || err != nil || res.Status != tt.exit {
				t.Errorf("status %d, want %d, %v\n%s", res.Status, tt.exit, err, diff)
			}
		})
	}
}

// TestCredentialFile reads the keys from a file.
func TestCredentialFile(t *testing.T) {
	var out bytes.Buffer
	fs := vfs.New(vfs.DefaultLimits, time.Now)
	tools := &cfnbootstrap.Tools{Metadata: metadata, Now: time.Now, HTTP: transport(func(req *http.Request) (*http.Response, error) {
		fmt.Fprintln(&out, strings.Split(req.Header.Get("Authorization"), "/")[0])
		return answer(http.StatusOK, "{}")
	})}
	_, err := shell.Run(t.Context(), shell.Job{
		FS: fs, Name: "s", Stdout: &out, Stderr: &out,
		Script:  []byte("printf 'AWSAccessKeyId=AKID\\nAWSSecretKey=s\\n' > /f; cfn-signal -f /f --stack s --resource R; echo > /f; cfn-signal -f /f --stack s --resource R; cfn-signal -f /none --stack s --resource R"),
		Outside: func(ctx context.Context, c *shell.Call) (int, bool) { return tools.Run(ctx, c), true },
	})
	want := "AWS4-HMAC-SHA256 Credential=AKID\nError retrieving credentials from file:\n\tCredential file must contain the keys 'AWSAccessKeyId' and 'AWSSecretKey'\nError retrieving credentials from file:\n\tCredential file was not found at /none\n"
	if diff := cmp.Diff(want, out.String()); diff != "" || err != nil {
		t.Errorf("%v\n%s", err, diff)
	}
}
