package awscli_test

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/drydock-dev/drydock/internal/machine/guest/awscli"
	"github.com/drydock-dev/drydock/internal/machine/guest/shell"
	"github.com/drydock-dev/drydock/internal/machine/guest/vfs"
)

// A service answers calls and records them.
type service struct {
	calls  []string
	answer func(req *http.Request, body string) (int, string)
}

func (s *service) RoundTrip(req *http.Request) (*http.Response, error) {
	b, err := io.ReadAll(req.Body)
	if err != nil {
		return nil, err
	}
	s.calls = append(s.calls, canonical(req, string(b)))
	if !strings.HasPrefix(req.Header.Get("Authorization"), "AWS4-HMAC-SHA256 Credential=AKID/") {
		return nil, fmt.Errorf("not signed: %q", req.Header.Get("Authorization"))
	}
	status, text := s.answer(req, string(b))
	if status == 0 {
		return nil, &net.OpError{Op: "dial", Err: &net.DNSError{Err: text, IsTimeout: text == "i/o timeout", IsNotFound: true}}
	}
	return &http.Response{StatusCode: status, Header: http.Header{}, Body: io.NopCloser(strings.NewReader(text)), Request: req}, nil
}

// canonical returns a request without what differs between clients.
func canonical(req *http.Request, body string) string {
	out := req.Method + " " + req.URL.EscapedPath()
	if q := req.URL.Query(); len(q) > 0 {
		out += "?" + q.Encode()
	}
	if t := req.Header.Get("X-Amz-Target"); t != "" {
		out += " " + t
	}
	form, err := url.ParseQuery(body)
	var doc map[string]any
	switch {
	case json.Unmarshal([]byte(body), &doc) == nil:
		delete(doc, "clientRequestToken")
		b, _ := json.Marshal(doc)
		body = string(b)
	case err == nil && form.Get("Action") != "":
		var parts []string
		for k, v := range form {
			parts = append(parts, k+"="+strings.Join(v, ","))
		}
		slices.Sort(parts)
		body = strings.Join(parts, "&")
	}
	return strings.TrimSpace(out + " " + body)
}

// metadata is the metadata service of an instance with a role.
type metadata struct{}

func (metadata) RoundTrip(req *http.Request) (*http.Response, error) {
	text := map[string]string{
		"/latest/api/token":                               "t",
		"/latest/meta-data/placement/region":              "eu-west-1",
		"/latest/meta-data/iam/security-credentials/":     "node",
		"/latest/meta-data/iam/security-credentials/node": `{"Code":"Success","AccessKeyId":"AKID","SecretAccessKey":"s","Token":"t"}`,
	}[req.URL.Path]
	status := http.StatusOK
	if text == "" {
		status = http.StatusNotFound
	}
	return &http.Response{StatusCode: status, Header: http.Header{}, Body: io.NopCloser(strings.NewReader(text)), Request: req}, nil
}

const (
	identity  = `<GetCallerIdentityResponse xmlns="https://sts.amazonaws.com/doc/2011-06-15/"><GetCallerIdentityResult><Arn>arn:aws:sts::1:assumed-role/node/i-1</Arn><UserId>A:i-1</UserId><Account>111122223333</Account></GetCallerIdentityResult></GetCallerIdentityResponse>`
	instances = `<DescribeInstancesResponse xmlns="http://ec2.amazonaws.com/doc/2016-11-15/"><reservationSet><item><reservationId>r-1</reservationId><groupSet/><instancesSet><item><instanceId>i-1</instanceId><privateDnsName>ip-10-0-0-1.ec2.internal</privateDnsName><ebsOptimized>false</ebsOptimized><amiLaunchIndex>0</amiLaunchIndex><launchTime>2024-01-02T03:04:05.000Z</launchTime><tagSet><item><key>Name</key><value>a b</value></item><item><key>team</key><value>x</value></item></tagSet></item></instancesSet></item></reservationSet></DescribeInstancesResponse>`
	parameter = `{"Parameter":{"Name":"/a/b","Type":"SecureString","Value":"secret","Version":3,"LastModifiedDate":1700000000.5,"ARN":"arn:aws:ssm:eu-west-1:1:parameter/a/b","DataType":"text"}}`
	cluster   = `{"cluster":{"name":"dev","status":"ACTIVE","endpoint":"https://x","certificateAuthority":{"data":"Q0E="},"kubernetesNetworkConfig":{"serviceIpv4Cidr":"172.20.0.0/16","ipFamily":"ipv4"},"createdAt":1700000000.123,"tags":{}}}`
)

var table = []struct {
	name, command, answer, call, want string
	status                            int // of the answer; 200
}{
	{name: "sts", command: "sts get-caller-identity", answer: identity, call: "POST / Action=GetCallerIdentity&Version=2011-06-15",
		want: "{\n    \"Account\": \"111122223333\",\n    \"Arn\": \"arn:aws:sts::1:assumed-role/node/i-1\",\n    \"UserId\": \"A:i-1\"\n}\n"},
	{name: "text", command: "sts get-caller-identity --query Account --output text", answer: identity, call: "POST / Action=GetCallerIdentity&Version=2011-06-15", want: "111122223333\n"},
	{name: "describe-instances", command: "ec2 describe-instances --instance-ids i-1 i-2 --query 'Reservations[0].Instances[0].PrivateDnsName' --output text", answer: instances,
		call: "POST / Action=DescribeInstances&InstanceId.1=i-1&InstanceId.2=i-2&Version=2016-11-15", want: "ip-10-0-0-1.ec2.internal\n"},
	{name: "filters", command: "ec2 describe-instances --filters Name=tag:team,Values=x,y 'Name=instance-state-name,Values=running' --output text", answer: instances,
		call: "POST / Action=DescribeInstances&Filter.1.Name=tag:team&Filter.1.Value.1=x&Filter.1.Value.2=y&Filter.2.Name=instance-state-name&Filter.2.Value.1=running&Version=2016-11-15",
		want: "RESERVATIONS\tr-1\nINSTANCES\t0\tFalse\ti-1\t2024-01-02T03:04:05+00:00\tip-10-0-0-1.ec2.internal\nTAGS\tName\ta b\nTAGS\tteam\tx\n"},
	{name: "columns", command: "ec2 describe-instances --query 'Reservations[].Instances[].[InstanceId,EbsOptimized,KeyName]' --output text", answer: instances,
		call: "POST / Action=DescribeInstances&Version=2016-11-15", want: "i-1\tFalse\tNone\n"},
	{name: "tags", command: "ec2 create-tags --resources i-1 --tags Key=Name,Value='a b' Key=empty,Value=", answer: `<CreateTagsResponse><return>true</return></CreateTagsResponse>`,
		call: "POST / Action=CreateTags&ResourceId.1=i-1&Tag.1.Key=Name&Tag.1.Value=a b&Tag.2.Key=empty&Tag.2.Value=&Version=2016-11-15", want: ""},
	{name: "a flag", command: "ec2 modify-instance-attribute --instance-id i-1 --no-source-dest-check", answer: `<ModifyInstanceAttributeResponse><return>true</return></ModifyInstanceAttributeResponse>`,
		call: "POST / Action=ModifyInstanceAttribute&InstanceId=i-1&SourceDestCheck.Value=false&Version=2016-11-15", want: ""},
	{name: "describe-cluster", command: "eks describe-cluster --name dev --query 'cluster.{endpoint: endpoint, ca: certificateAuthority.data}' --output text --region us-east-1", answer: cluster, call: "GET /clusters/dev", want: "Q0E=\thttps://x\n"},
	{name: "a time", command: "eks describe-cluster --name dev --query cluster.createdAt", answer: cluster, call: "GET /clusters/dev", want: "\"2023-11-14T22:13:20.123000+00:00\"\n"},
	{name: "ssm", command: "ssm get-parameter --name /a/b --with-decryption --query Parameter.Value --output text", answer: parameter, call: `POST / AmazonSSM.GetParameter {"Name":"/a/b","WithDecryption":true}`, want: "secret\n"},
	{name: "JSON", command: `autoscaling complete-lifecycle-action --lifecycle-hook-name h --auto-scaling-group-name g --lifecycle-action-result CONTINUE --instance-id i-1`, answer: `<CompleteLifecycleActionResponse><CompleteLifecycleActionResult/></CompleteLifecycleActionResponse>`,
		call: "POST / Action=CompleteLifecycleAction&AutoScalingGroupName=g&InstanceId=i-1&LifecycleActionResult=CONTINUE&LifecycleHookName=h&Version=2011-01-01", want: ""},
	{name: "shorthand", command: `eks update-cluster-config --name dev --resources-vpc-config endpointPublicAccess=true,publicAccessCidrs=1.2.3.4/32,5.6.7.8/32`, answer: `{"update":{"id":"u","status":"InProgress"}}`,
		call: `POST /clusters/dev/update-config {"resourcesVpcConfig":{"endpointPublicAccess":true,"publicAccessCidrs":["1.2.3.4/32","5.6.7.8/32"]}}`,
		want: "{\n    \"update\": {\n        \"id\": \"u\",\n        \"status\": \"InProgress\"\n    }\n}\n"},
	{name: "a map", command: `eks tag-resource --resource-arn arn:aws:eks:eu-west-1:1:cluster/dev --tags a=b,c=d=e`, answer: `{}`,
		call: `POST /tags/arn%3Aaws%3Aeks%3Aeu-west-1%3A1%3Acluster%2Fdev {"tags":{"a":"b","c":"d=e"}}`, want: ""},
	{name: "nothing found", command: "ec2 describe-tags --filters Name=resource-id,Values=i-1 --query 'Tags[0].Value' --output text", answer: `<DescribeTagsResponse><tagSet/></DescribeTagsResponse>`,
		call: "POST / Action=DescribeTags&Filter.1.Name=resource-id&Filter.1.Value.1=i-1&Version=2016-11-15", want: "None\n"},
}

func run(t testing.TB, s *service, command string, env ...string) (string, int) {
	t.Helper()
	files := vfs.New(vfs.DefaultLimits, nil)
	var out bytes.Buffer
	cli := &awscli.CLI{
		Metadata: metadata{}, HTTP: s, Now: func() time.Time { return time.Unix(1700000000, 0) },
		Wait: func(context.Context, time.Duration) bool { return true },
	}
	res, err := shell.Run(t.Context(), shell.Job{
		FS: files, Script: []byte("aws " + command), Name: "s", Env: append([]string{"HOME=/root"}, env...), Stdout: &out, Stderr: &out,
		Outside: func(ctx context.Context, c *shell.Call) (int, bool) { return cli.Run(ctx, c), c.Args[0] == "aws" },
	})
	if err != nil {
		t.Fatal(err)
	}
	return out.String(), res.Status
}

func TestCommands(t *testing.T) {
	for _, tc := range table {
		t.Run(tc.name, func(t *testing.T) {
			s := &service{answer: func(*http.Request, string) (int, string) { return 200, tc.answer }}
			out, status := run(t, s, tc.command)
			if diff := cmp.Diff(tc.want, out); diff != "" || status != 0 {
				t.Errorf("status %d\n%s", status, diff)
			}
			if diff := cmp.Diff([]string{tc.call}, s.calls); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestFailures(t *testing.T) {
	for _, tc := range []struct {
		name, command string
		code          int
		answer        string
		want          string
		status        int
	}{
		{"denied by EC2", "ec2 describe-instances", 403, `<Response><Errors><Error><Code>UnauthorizedOperation</Code><Message>You are not authorized.</Message></Error></Errors></Response>`,
			"\nAn error occurred (UnauthorizedOperation) when calling the DescribeInstances operation: You are not authorized.\n", 254},
		{"denied by STS", "sts get-caller-identity", 403, `<ErrorResponse><Error><Type>Sender</Type><Code>InvalidClientTokenId</Code><Message>bad</Message></Error></ErrorResponse>`,
			"\nAn error occurred (InvalidClientTokenId) when calling the GetCallerIdentity operation: bad\n", 254},
		{"not found", "eks describe-cluster --name x", 404, `{"__type":"ResourceNotFoundException","message":"No cluster found for name: x."}`,
			"\nAn error occurred (ResourceNotFoundException) when calling the DescribeCluster operation: No cluster found for name: x.\n", 254},
		{"a name that is none", "eks describe-cluster --name x", 0, "no such host", "\nCould not connect to the endpoint URL: \"https://eks.eu-west-1.amazonaws.com/clusters/x\"\n", 255},
		{"no answer", "sts get-caller-identity --region us-east-1", 0, "i/o timeout", "\nConnect timeout on endpoint URL: \"https://sts.us-east-1.amazonaws.com/\"\n", 255},
		{"S3 without S3", "s3 cp s3://bucket/a/key .", 501, "", "fatal error: An error occurred (501) when calling the HeadObject operation: Not Implemented\n", 1},
		{"S3 without a way", "s3 cp s3://bucket/key /tmp/", 0, "i/o timeout", "fatal error: Connect timeout on endpoint URL: \"https://bucket.s3.eu-west-1.amazonaws.com/key\"\n", 1},
	} {
		t.Run(tc.name, func(t *testing.T) {
			s := &service{answer: func(*http.Request, string) (int, string) { return tc.code, tc.answer }}
			out, status := run(t, s, tc.command)
			if diff := cmp.Diff(tc.want, out); diff != "" || status != tc.status {
				t.Errorf("status %d, want %d\n%s", status, tc.status, diff)
			}
		})
	}
}

func TestUsage(t *testing.T) {
	for command, want := range map[string]struct {
		text   string
		status int
	}{
		"--version":                                  {"aws-cli/2", 0},
		"eks describe-cluster":                       {"aws: error: the following arguments are required: --name\n", 252},
		"eks describe-clusterz --name x":             {"aws: error: argument operation: Found invalid choice 'describe-clusterz'\n", 252},
		"eks describe-cluster --name x --nope y":     {"\nUnknown options: --nope, y\n", 252},
		"eks describe-cluster --name x y":            {"\nUnknown options: y\n", 252},
		"rds describe-db-instances":                  {"aws: error: the service rds is not supported on simulated nodes\n", 252},
		"s3api list-buckets":                         {"aws: error: the service s3api is not supported on simulated nodes\n", 252},
		"sts get-caller-identity --output table":     {"aws: error: --output table is not supported on simulated nodes\n", 252},
		"sts get-caller-identity --query '['":        {"aws: error: Bad value for --query [", 252},
		"sts get-caller-identity --profile x":        {"\nThe config profile (x) could not be found\n", 255},
		"ec2 describe-instances --filters Name":      {"Error parsing parameter '--filters': Expected: '=', received: 'EOF' for input:\nName\n    ^\n", 252},
		"ec2 describe-instances --filters Nam=x":     {"Unknown parameter in input: \"Nam\", must be one of: Name, Values\n", 252},
		"ec2 describe-instances --filters '[{'":      {"Error parsing parameter '--filters': Invalid JSON:", 252},
		"ec2 run-instances --user-data file:///none": {"Unable to load paramfile file:///none: [Errno 2] No such file or directory: '/none'\n", 252},
		"sts get-caller-identity --region 'a b'":     {"Provided region_name 'a b' doesn't match a supported format.\n", 255},
		"ec2 wait image-available":                   {"aws ec2 wait image-available is not supported on simulated nodes\n", 252},
		"configure get region":                       {"", 1},
		"configure set region us-west-2 && aws configure get region && aws configure set region a && grep -c region ~/.aws/config": {"us-west-2\n1\n", 0},
	} {
		out, status := run(t, &service{answer: func(*http.Request, string) (int, string) { return 200, identity }}, command)
		if !strings.Contains(out, want.text) || status != want.status {
			t.Errorf("%s: status %d\n%s", command, status, out)
		}
	}
}

func TestPagesAndWaiters(t *testing.T) {
	s := &service{}
	s.answer = func(_ *http.Request, body string) (int, string) {
		token := ""
		if !strings.Contains(body, "NextToken") {
			token = "<nextToken>2</nextToken>"
		}
		return 200, fmt.Sprintf(`<R><tagSet><item><key>k%d</key></item></tagSet>%s</R>`, len(s.calls), token)
	}
	if out, status := run(t, s, "ec2 describe-tags --query 'Tags[].Key' --output text"); out != "k1\tk2\n" || status != 0 {
		t.Errorf("%d %q", status, out)
	}
	s = &service{}
	s.answer = func(*http.Request, string) (int, string) {
		if len(s.calls) < 3 {
			return 200, `{"cluster":{"status":"CREATING"}}`
		}
		return 200, cluster
	}
	if out, status := run(t, s, "eks wait cluster-active --name dev"); out != "" || status != 0 || len(s.calls) != 3 {
		t.Errorf("%d %q, %d calls", status, out, len(s.calls))
	}
	s = &service{answer: func(*http.Request, string) (int, string) { return 200, `{"cluster":{"status":"FAILED"}}` }}
	if out, status := run(t, s, "eks wait cluster-active --name dev"); out != "\nWaiter ClusterActive failed: Waiter encountered a terminal failure state\n" || status != 255 {
		t.Errorf("%d %q", status, out)
	}
}

func TestEnvironment(t *testing.T) {
	s := &service{answer: func(req *http.Request, _ string) (int, string) {
		if !strings.Contains(req.Header.Get("Authorization"), "/ap-south-1/sts/") || req.URL.Host != "sts.ap-south-1.amazonaws.com" {
			t.Errorf("%s %s", req.URL, req.Header)
		}
		return 200, identity
	}}
	if out, status := run(t, s, "sts get-caller-identity", "AWS_DEFAULT_REGION=ap-south-1", "AWS_ACCESS_KEY_ID=AKID", "AWS_SECRET_ACCESS_KEY=x", "AWS_DEFAULT_OUTPUT=text"); status != 0 || out != "111122223333\tarn:aws:sts::1:assumed-role/node/i-1\tA:i-1\n" {
		t.Errorf("%d %q", status, out)
	}
}

func FuzzRun(f *testing.F) {
	for _, tc := range table {
		f.Add(tc.command, tc.answer)
	}
	f.Add(`ec2 describe-instances --filters 'Name={a=[b,{c=d}]},Values="x\",y",z' '[{"Name":1}]'`, "<a><b/></a>")
	f.Fuzz(func(t *testing.T, command, answer string) {
		words := strings.Fields(strings.ReplaceAll(command, "'", ""))
		c := shell.NewCall(append([]string{"aws"}, words...), nil)
		c.FS, c.Stdin, c.Stdout, c.Stderr = vfs.New(vfs.DefaultLimits, nil), strings.NewReader(""), io.Discard, io.Discard
		cli := &awscli.CLI{
			Metadata: metadata{}, HTTP: &service{answer: func(*http.Request, string) (int, string) { return 200, answer }},
			Now: time.Now, Wait: func(context.Context, time.Duration) bool { return false },
		}
		cli.Run(t.Context(), c)
	})
}

// The cost of reading an answer is in proportion to its size, however many pieces its texts consist of.
func TestAnswersInManyPieces(t *testing.T) {
	text := strings.Repeat("a<!---->", 100_000)
	s := &service{answer: func(*http.Request, string) (int, string) {
		return 200, strings.Replace(identity, "111122223333", text, 1)
	}}
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	out, status := run(t, s, "sts get-caller-identity --output text")
	runtime.ReadMemStats(&after)
	if took := after.TotalAlloc - before.TotalAlloc; status != 0 || len(out) < 100_000 || took > 1<<29 {
		t.Errorf("status %d, %d bytes of %d read, by %d bytes of memory", status, len(out), len(text), took)
	}
}

// The token must be a presigned call that names the cluster, in the form that a kubeconfig's exec plugin returns.
func TestGetToken(t *testing.T) {
	out, status := run(t, &service{}, "eks get-token --cluster-name dev --output json")
	var got struct {
		Kind, APIVersion string
		Status           struct{ ExpirationTimestamp, Token string }
	}
	if err := json.Unmarshal([]byte(out), &got); err != nil || status != 0 || got.Kind != "ExecCredential" || got.APIVersion != "client.authentication.k8s.io/v1beta1" || got.Status.ExpirationTimestamp != "2023-11-14T22:27:20Z" {
		t.Fatalf("status %d, %v\n%s", status, err, out)
	}
	text, _ := strings.CutPrefix(got.Status.Token, "k8s-aws-v1.")
	b, err := base64.RawURLEncoding.DecodeString(text)
	u, err2 := url.Parse(string(b))
	if err != nil || err2 != nil || u.Host != "sts.eu-west-1.amazonaws.com" || u.Query().Get("X-Amz-SignedHeaders") != "host;x-k8s-aws-id" || !strings.HasPrefix(u.Query().Get("X-Amz-Credential"), "AKID/") {
		t.Errorf("%s: %v, %v", b, err, err2)
	}
	if out, status := run(t, &service{}, "eks get-token"); status != 252 || !strings.Contains(out, "Either parameter --cluster-name or --cluster-id must be specified.") {
		t.Errorf("status %d\n%s", status, out)
	}
}
