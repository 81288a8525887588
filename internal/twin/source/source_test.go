package source

import (
	"bytes"
	"compress/gzip"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	awsec2 "github.com/aws/aws-sdk-go-v2/service/ec2"
	awselbv2 "github.com/aws/aws-sdk-go-v2/service/elasticloadbalancingv2"
	awsiam "github.com/aws/aws-sdk-go-v2/service/iam"
	awssts "github.com/aws/aws-sdk-go-v2/service/sts"
	"golang.org/x/time/rate"

	"github.com/drydock-dev/drydock/internal/twin"
	"github.com/drydock-dev/drydock/internal/twin/recording"
)

// A fakeAWS answers with empty lists, except for the operations in answers.
type fakeAWS struct {
	account string
	answers map[string]http.HandlerFunc

	mu    sync.Mutex
	calls map[string]int
}

func (f *fakeAWS) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	form, _ := url.ParseQuery(string(body))
	action := form.Get("Action")
	if target := r.Header.Get("X-Amz-Target"); target != "" { // of SSM
		action = target[strings.LastIndexByte(target, '.')+1:]
	} else if action == "" { // of EKS
		action = r.URL.Path
	}
	f.mu.Lock()
	f.calls[action]++
	f.mu.Unlock()
	r.Form, r.Body = form, io.NopCloser(bytes.NewReader(body))
	switch h := f.answers[action]; {
	case h != nil:
		h(w, r)
	case action == "GetCallerIdentity":
		fmt.Fprintf(w, `<GetCallerIdentityResponse xmlns="https://sts.amazonaws.com/doc/2011-06-15/"><GetCallerIdentityResult><Arn>arn:aws:iam::%s:user/reader</Arn><UserId>AIDA</UserId><Account>%[1]s</Account></GetCallerIdentityResult></GetCallerIdentityResponse>`, f.account)
	case strings.HasPrefix(r.URL.Path, "/2013-04-01/"): // Route 53
		io.WriteString(w, "<ListHostedZonesResponse><HostedZones></HostedZones><IsTruncated>false</IsTruncated></ListHostedZonesResponse>")
	case form.Get("Action") == "":
		io.WriteString(w, "{}")
	default:
		fmt.Fprintf(w, `<%sResponse><%[1]sResult></%[1]sResult></%[1]sResponse>`, action)
	}
}

func (f *fakeAWS) count(action string) int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.calls[action]
}

func fake(t *testing.T, answers map[string]http.HandlerFunc) (*fakeAWS, aws.Config) {
	t.Helper()
	f := &fakeAWS{account: "111122223333", answers: answers, calls: map[string]int{}}
	s := httptest.NewServer(f)
	t.Cleanup(s.Close)
	return f, aws.Config{Region: "eu-west-1", BaseEndpoint: &s.URL, Credentials: credentials.NewStaticCredentialsProvider("AKIA", "secret", "")}
}

var fast = Options{Rate: 100_000}

func vpcs(token string) string {
	return `<DescribeVpcsResponse><vpcSet></vpcSet><nextToken>` + token + `</nextToken></DescribeVpcsResponse>`
}

// Whatever a source answers, reading it ends, and with an error that names the operation.
func TestHostileSources(t *testing.T) {
	n := 0
	for _, tt := range []struct {
		name, operation, want string
		answer                http.HandlerFunc
	}{
		{"a token that repeats", "DescribeVpcs", "ec2:DescribeVpcs: the source repeats a page token", func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, vpcs("again")) }},
		{"endless pages", "DescribeVpcs", "ec2:DescribeVpcs: the source's answers are too large: more than 5000 pages", func(w http.ResponseWriter, _ *http.Request) {
			n++ // pages are asked one after the other
			io.WriteString(w, vpcs(fmt.Sprint(n)))
		}},
		{"a response without an end", "DescribeSubnets", "too large", func(w http.ResponseWriter, _ *http.Request) {
			io.WriteString(w, "<DescribeSubnetsResponse><subnetSet>")
			item := strings.Repeat("<item><subnetId>subnet-0123456789abcdef0</subnetId></item>", 20_000)
			for {
				if _, err := io.WriteString(w, item); err != nil {
					return
				}
			}
		}},
		{"values of another type", "DescribeSubnets", "ec2:DescribeSubnets", func(w http.ResponseWriter, _ *http.Request) {
			io.WriteString(w, "<DescribeSubnetsResponse><subnetSet><item><availableIpAddressCount>many</availableIpAddressCount></item></subnetSet></DescribeSubnetsResponse>")
		}},
		{"a cluster of another type", "/clusters", "eks:ListClusters", func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, `{"clusters":{"a":1}}`) }},
		{"an account that is not a number", "GetCallerIdentity", "want 12 digits", func(w http.ResponseWriter, _ *http.Request) {
			io.WriteString(w, `<GetCallerIdentityResponse><GetCallerIdentityResult><Arn>arn:aws:iam::../../x:root</Arn><Account>../../x</Account></GetCallerIdentityResult></GetCallerIdentityResponse>`)
		}},
		{"another partition", "GetCallerIdentity", `partition "aws-cn" is not supported`, func(w http.ResponseWriter, _ *http.Request) {
			io.WriteString(w, `<GetCallerIdentityResponse><GetCallerIdentityResult><Arn>arn:aws-cn:iam::111122223333:root</Arn><Account>111122223333</Account></GetCallerIdentityResult></GetCallerIdentityResponse>`)
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			_, cfg := fake(t, map[string]http.HandlerFunc{tt.operation: tt.answer})
			if _, err := Read(t.Context(), cfg, fast); err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("got %v, want %q", err, tt.want)
			}
		})
	}
}

func refuse(status int, code string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(status)
		fmt.Fprintf(w, `<Response><Errors><Error><Code>%s</Code><Message>no</Message></Error></Errors><RequestID>1</RequestID></Response>`, code)
	}
}

// A missing permission leaves a gap, a throttle only slows down, and everything else is an error.
func TestRefusals(t *testing.T) {
	_, cfg := fake(t, map[string]http.HandlerFunc{"DescribeNetworkAcls": refuse(403, "UnauthorizedOperation"), "DescribeNatGateways": refuse(501, "NotImplemented")})
	r, err := Read(t.Context(), cfg, fast)
	if err != nil {
		t.Fatal(err)
	}
	var texts []string
	for _, g := range r.Gaps() {
		texts = append(texts, g.String())
	}
	all := strings.Join(texts, "\n")
	if len(texts) != 2 || !strings.Contains(all, "the source did not allow ec2:DescribeNetworkAcls") || !strings.Contains(all, "the source answered ec2:DescribeNatGateways with NotImplemented") {
		t.Errorf("gaps: %s", all)
	}

	var once sync.Once
	throttled := 0
	f, cfg := fake(t, nil)
	f.answers = map[string]http.HandlerFunc{"DescribeAddresses": func(w http.ResponseWriter, r *http.Request) {
		slow := false
		once.Do(func() { slow = true })
		if slow {
			throttled++
			refuse(503, "RequestLimitExceeded")(w, r)
			return
		}
		io.WriteString(w, "<DescribeAddressesResponse><addressesSet></addressesSet></DescribeAddressesResponse>")
	}}
	if r, err := Read(t.Context(), cfg, fast); err != nil || len(r.Gaps()) > 0 || throttled != 1 || f.count("DescribeAddresses") != 2 {
		t.Errorf("a throttle is not only slow: %v, %d calls", err, f.count("DescribeAddresses"))
	}

	_, cfg = fake(t, map[string]http.HandlerFunc{"DescribeAddresses": refuse(400, "InvalidParameterValue")})
	if _, err := Read(t.Context(), cfg, fast); err == nil || !strings.Contains(err.Error(), "ec2:DescribeAddresses") {
		t.Errorf("got %v", err)
	}
}

// refuseQuery is refuse for services of the query protocol.
func refuseQuery(w http.ResponseWriter, code string) {
	w.WriteHeader(http.StatusBadRequest)
	fmt.Fprintf(w, `<ErrorResponse><Error><Type>Sender</Type><Code>%s</Code><Message>no</Message></Error></ErrorResponse>`, code)
}

// Of many updates, the first ones are read. That there are more is left out by choice, not unknown.
func TestManyUpdates(t *testing.T) {
	ids := make([]string, mostUpdates)
	for i := range ids {
		ids[i] = fmt.Sprint(i)
	}
	for more, want := range map[string]string{"": "[]", `,"nextToken":"2"`: "[only the first 20 updates of prod were read]", `,"nextToken":null`: "[]"} {
		f, cfg := fake(t, map[string]http.HandlerFunc{
			"/clusters":      func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, `{"clusters":["prod"]}`) },
			"/clusters/prod": func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, `{"cluster":{"name":"prod"}}`) },
			"/clusters/prod/updates": func(w http.ResponseWriter, r *http.Request) {
				if got := r.URL.Query().Get("maxResults"); got != "20" {
					t.Errorf("%s are asked for", got)
				}
				fmt.Fprintf(w, `{"updateIds":["%s"]%s}`, strings.Join(ids, `","`), more)
			},
		})
		opt := fast
		opt.NoKubernetes = true
		r, err := Read(t.Context(), cfg, opt)
		if err != nil {
			t.Fatal(err)
		}
		if got := fmt.Sprint(r.Gaps()); got != want || f.count("/clusters/prod/updates") != 1 || f.count("/clusters/prod/updates/19") != 1 {
			t.Errorf("with %s: gaps %s, calls %v", more, got, f.calls)
		}
	}
}

// What one resource is like does not end an import: it may be deleted after it was listed, or be in no state to be asked about.
func TestRefusalsAboutOneResource(t *testing.T) {
	f, cfg := fake(t, map[string]http.HandlerFunc{
		"DescribeLaunchTemplates": func(w http.ResponseWriter, _ *http.Request) {
			io.WriteString(w, `<DescribeLaunchTemplatesResponse><launchTemplates><item><launchTemplateId>lt-1</launchTemplateId></item></launchTemplates></DescribeLaunchTemplatesResponse>`)
		},
		// As AWS answers: cloud-custodian's recordings (tests/data/placebo, InvalidLaunchTemplateId.NotFound with status 400).
		"DescribeLaunchTemplateVersions": refuse(400, "InvalidLaunchTemplateId.NotFound"),
		"/clusters":                      func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, `{"clusters":["new"]}`) },
		"/clusters/new": func(w http.ResponseWriter, _ *http.Request) {
			io.WriteString(w, `{"cluster":{"name":"new","status":"CREATING","accessConfig":{"authenticationMode":"API"}}}`)
		},
		"/clusters/new/access-entries": func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("X-Amzn-Errortype", "InvalidRequestException")
			w.WriteHeader(400)
			io.WriteString(w, `{"message":"Cluster 'new' is not in ACTIVE status"}`)
		},
	})
	opt := fast
	opt.NoKubernetes = true
	r, err := Read(t.Context(), cfg, opt)
	if err != nil {
		t.Fatal(err)
	}
	if g := r.Gaps(); len(g) != 1 || g[0].Cluster != "new" || g[0].String() != "the source answered eks:ListAccessEntries with InvalidRequestException for new" {
		t.Errorf("gaps: %+v", g)
	}
	// Credentials that end in the middle end the import.
	f.answers["DescribeLaunchTemplateVersions"] = refuse(400, "RequestExpired")
	if _, err := Read(t.Context(), cfg, opt); err == nil || !strings.Contains(err.Error(), "ec2:DescribeLaunchTemplateVersions") {
		t.Errorf("got %v", err)
	}
}

// One of 20 load balancers is deleted while they are read: the tags of the others are still read.
func TestTagsOfDeletedLoadBalancers(t *testing.T) {
	const gone = "arn:lb/7"
	f, cfg := fake(t, map[string]http.HandlerFunc{
		"DescribeLoadBalancers": func(w http.ResponseWriter, r *http.Request) {
			if r.Form.Get("Version") != "2015-12-01" { // Classic Load Balancers
				io.WriteString(w, `<DescribeLoadBalancersResponse><DescribeLoadBalancersResult></DescribeLoadBalancersResult></DescribeLoadBalancersResponse>`)
				return
			}
			io.WriteString(w, `<DescribeLoadBalancersResponse><DescribeLoadBalancersResult><LoadBalancers>`)
			for i := range 25 {
				fmt.Fprintf(w, `<member><LoadBalancerArn>arn:lb/%d</LoadBalancerArn></member>`, i)
			}
			io.WriteString(w, `</LoadBalancers></DescribeLoadBalancersResult></DescribeLoadBalancersResponse>`)
		},
		"DescribeTags": func(w http.ResponseWriter, r *http.Request) {
			tags := ""
			for i := 1; r.Form.Get(fmt.Sprintf("ResourceArns.member.%d", i)) != ""; i++ {
				arn := r.Form.Get(fmt.Sprintf("ResourceArns.member.%d", i))
				if arn == gone {
					refuseQuery(w, "LoadBalancerNotFound")
					return
				}
				tags += `<member><ResourceArn>` + arn + `</ResourceArn><Tags><member><Key>a</Key><Value>b</Value></member></Tags></member>`
			}
			io.WriteString(w, `<DescribeTagsResponse><DescribeTagsResult><TagDescriptions>`+tags+`</TagDescriptions></DescribeTagsResult></DescribeTagsResponse>`)
		},
	})
	read := func() int {
		t.Helper()
		r, err := Read(t.Context(), cfg, fast)
		if err != nil {
			t.Fatal(err)
		}
		pages, err := recording.Pages[awselbv2.DescribeTagsInput, awselbv2.DescribeTagsOutput](r, recording.ELBv2, "DescribeTags")
		if err != nil {
			t.Fatal(err)
		}
		n := 0
		for _, p := range pages {
			n += len(p.Output.TagDescriptions)
		}
		return n
	}
	if n := read(); n != 24 {
		t.Errorf("read the tags of %d load balancers, want 24", n)
	}
	// A missing permission is not asked for again with fewer.
	asked := f.count("DescribeTags")
	f.answers["DescribeTags"] = func(w http.ResponseWriter, _ *http.Request) { refuseQuery(w, "AccessDenied") }
	if n := read(); n != 0 || f.count("DescribeTags") != asked+2 {
		t.Errorf("read %d tags with %d calls", n, f.count("DescribeTags")-asked)
	}
}

// Nothing but listed operations is ever sent, whoever writes the code that calls them.
func TestClientsRefuseEverythingElse(t *testing.T) {
	f, cfg := fake(t, nil)
	cfg = readOnly(cfg, rate.NewLimiter(rate.Inf, 1))
	ctx := t.Context()
	_, terminate := awsec2.NewFromConfig(cfg).TerminateInstances(ctx, &awsec2.TerminateInstancesInput{InstanceIds: []string{"i-0123456789abcdef0"}})
	_, password := awsec2.NewFromConfig(cfg).GetPasswordData(ctx, &awsec2.GetPasswordDataInput{InstanceId: aws.String("i-0123456789abcdef0")})
	_, key := awsiam.NewFromConfig(cfg).CreateAccessKey(ctx, &awsiam.CreateAccessKeyInput{})
	_, role := awssts.NewFromConfig(cfg).AssumeRole(ctx, &awssts.AssumeRoleInput{RoleArn: aws.String("arn:aws:iam::111122223333:role/admin"), RoleSessionName: aws.String("x")})
	for _, err := range []error{terminate, password, key, role} {
		if _, ok := errors.AsType[*RefusedError](err); !ok {
			t.Errorf("got %v", err)
		}
	}
	if len(f.calls) > 0 {
		t.Errorf("sent: %v", f.calls)
	}
	if _, err := awsec2.NewFromConfig(cfg).DescribeVpcs(ctx, &awsec2.DescribeVpcsInput{}); err != nil {
		t.Error(err)
	}
}

// An interrupted recording asks only what was not answered.
func TestInterruptedRecordingGoesOn(t *testing.T) {
	f, cfg := fake(t, map[string]http.HandlerFunc{"GetAccountAuthorizationDetails": refuse(400, "Broken")})
	opt := fast
	opt.Dir = filepath.Join(t.TempDir(), "recording")
	if _, err := Read(t.Context(), cfg, opt); err == nil {
		t.Fatal("no error")
	}
	if _, err := twin.ReadFolder(opt.Dir); err != nil {
		t.Fatal(err)
	}
	vpcs := f.count("DescribeVpcs")
	f.answers = nil
	r, err := Read(t.Context(), cfg, opt)
	if err != nil {
		t.Fatal(err)
	}
	if !r.Source.Complete || vpcs != 1 || f.count("DescribeVpcs") != 1 {
		t.Errorf("asked %d times, then %d times", vpcs, f.count("DescribeVpcs"))
	}
}

// The console output of nodes is read: of instances with their tags, and of those that only their user data makes nodes, also if that is
// gzipped.
func TestConsoleOutputOfNodes(t *testing.T) {
	var packed bytes.Buffer
	w := gzip.NewWriter(&packed)
	_, err := io.WriteString(w, "apiVersion: node.eks.aws/v1alpha1\nkind: NodeConfig\n")
	if err := errors.Join(err, w.Close()); err != nil {
		t.Fatal(err)
	}
	userData := map[string]string{"i-1": "", "i-2": "#!/bin/sh\n/etc/eks/bootstrap.sh prod\n", "i-3": packed.String(), "i-4": "#!/bin/sh\ntrue\n"}
	_, cfg := fake(t, map[string]http.HandlerFunc{
		"DescribeInstances": func(w http.ResponseWriter, _ *http.Request) {
			io.WriteString(w, `<DescribeInstancesResponse><reservationSet><item><instancesSet>`)
			for id := range userData {
				tags := ""
				if id == "i-1" {
					tags = `<tagSet><item><key>eks:cluster-name</key><value>prod</value></item></tagSet>`
				}
				fmt.Fprintf(w, `<item><instanceId>%s</instanceId><instanceState><name>running</name></instanceState>%s</item>`, id, tags)
			}
			io.WriteString(w, `</instancesSet></item></reservationSet></DescribeInstancesResponse>`)
		},
		"DescribeInstanceAttribute": func(w http.ResponseWriter, r *http.Request) {
			fmt.Fprintf(w, `<DescribeInstanceAttributeResponse><userData><value>%s</value></userData></DescribeInstanceAttributeResponse>`, base64.StdEncoding.EncodeToString([]byte(userData[r.Form.Get("InstanceId")])))
		},
	})
	r, err := Read(t.Context(), cfg, fast)
	if err != nil {
		t.Fatal(err)
	}
	pages, err := recording.Pages[awsec2.GetConsoleOutputInput, awsec2.GetConsoleOutputOutput](r, "ec2", "GetConsoleOutput")
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, p := range pages {
		got = append(got, *p.Input.InstanceId)
	}
	slices.Sort(got)
	if want := []string{"i-1", "i-2", "i-3"}; !slices.Equal(got, want) {
		t.Errorf("read the console output of %v, want %v", got, want)
	}
}

// Objects of a cluster are read page by page, only by GET. The values of Secrets are never kept, and what the cluster does
// not allow is a gap.
func TestKubernetes(t *testing.T) {
	for _, tt := range []struct{ unredacted, kubeconfig, secrets bool }{{}, {unredacted: true}, {kubeconfig: true}, {secrets: true}} {
		want := "Bearer k8s-aws-v1."
		if tt.kubeconfig {
			want = "Bearer by-kubeconfig"
		}
		var methods []string
		var mu sync.Mutex
		k := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			mu.Lock()
			methods = append(methods, r.Method)
			mu.Unlock()
			w.Header().Set("Content-Type", "application/json")
			if !strings.HasPrefix(r.Header.Get("Authorization"), want) {
				t.Errorf("%s is not authenticated", r.URL)
			}
			switch r.URL.Path {
			case "/api":
				io.WriteString(w, `{"kind":"APIVersions","versions":["v1"]}`)
			case "/apis":
				io.WriteString(w, `{"kind":"APIGroupList","apiVersion":"v1","groups":[]}`)
			case "/api/v1":
				io.WriteString(w, `{"kind":"APIResourceList","groupVersion":"v1","resources":[{"name":"secrets","kind":"Secret","namespaced":true,"verbs":["list"]},{"name":"configmaps","kind":"ConfigMap","namespaced":true,"verbs":["list"]},{"name":"pods","kind":"Pod","namespaced":true,"verbs":["list"]},{"name":"events","kind":"Event","namespaced":true,"verbs":["list"]}]}`)
			case "/api/v1/secrets":
				if r.URL.Query().Get("continue") == "" {
					io.WriteString(w, `{"kind":"SecretList","metadata":{"continue":"2"},"items":[{"metadata":{"name":"a"},"data":{"password":"aHVudGVyMg=="}}]}`)
					return
				}
				io.WriteString(w, `{"kind":"WidgetList","metadata":{},"items":[{"metadata":{"name":"b"},"stringData":{"x":"aHVudGVyMg=="}}]}`)
			case "/api/v1/configmaps":
				io.WriteString(w, `{"kind":"ConfigMapList","metadata":{},"items":[{"metadata":{"name":"c"},"data":{"db-password":"hunter3","level":"debug"}}]}`)
			case "/api/v1/pods":
				w.WriteHeader(403)
				io.WriteString(w, `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"Forbidden","code":403,"message":"no"}`)
			default:
				t.Errorf("%s is read", r.URL)
			}
		}))
		defer k.Close()
		endpoint := k.URL
		if tt.kubeconfig { // the endpoint is private, and a tunnel leads to it
			endpoint = "https://127.0.0.1:1"
		}
		ca := base64.StdEncoding.EncodeToString(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: k.Certificate().Raw}))
		_, cfg := fake(t, map[string]http.HandlerFunc{
			"/clusters": func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, `{"clusters":["prod"]}`) },
			"/clusters/prod": func(w http.ResponseWriter, _ *http.Request) {
				fmt.Fprintf(w, `{"cluster":{"name":"prod","endpoint":%q,"certificateAuthority":{"data":%q},"accessConfig":{"authenticationMode":"CONFIG_MAP"}}}`, endpoint, ca)
			},
		})
		opt := fast
		opt.Unredacted, opt.Secrets = tt.unredacted, tt.secrets
		if tt.kubeconfig {
			opt.Kubeconfig = filepath.Join(t.TempDir(), "kubeconfig")
			content := fmt.Sprintf(`{"clusters":[{"name":"prod","cluster":{"server":%q,"certificate-authority-data":%q}},{"name":"other","cluster":{"server":"https://127.0.0.1:2"}}],
				"users":[{"name":"me","user":{"token":"by-kubeconfig"}}],"contexts":[{"name":"a","context":{"cluster":"other","user":"me"}},{"name":"tunnel","context":{"cluster":"prod","user":"me"}}]}`, k.URL, ca)
			if err := os.WriteFile(opt.Kubeconfig, []byte(content), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		r, err := Read(t.Context(), cfg, opt)
		if err != nil {
			t.Fatal(err)
		}
		var all strings.Builder
		for _, a := range r.Answers {
			for _, p := range a.Pages {
				all.Write(p)
			}
		}
		text := all.String()
		if strings.Contains(text, "aHVudGVyMg") != tt.secrets || strings.Contains(text, `"password":""`) == tt.secrets || !strings.Contains(text, `"name":"b"`) {
			t.Errorf("secrets: %s", text)
		}
		if strings.Contains(text, "hunter3") != tt.unredacted || !strings.Contains(text, "debug") {
			t.Errorf("%+v: %s", tt, text)
		}
		if g := fmt.Sprint(r.Gaps()); !strings.Contains(g, "the source did not allow listing pods of cluster prod") {
			t.Errorf("gaps: %s", g)
		}
		for _, m := range methods {
			if m != http.MethodGet {
				t.Errorf("sent %s", m)
			}
		}
	}
}

// Reading ends no matter what an API server answers, and only that server receives the token.
func TestHostileAPIServers(t *testing.T) {
	n := 0
	var elsewhere atomic.Int64
	other := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { elsewhere.Add(1) }))
	defer other.Close()
	for _, tt := range []struct {
		name, want string // of the error, or of a gap
		pods       http.HandlerFunc
	}{
		{"a token that repeats", "kubernetes:List: the source repeats a page token", func(w http.ResponseWriter, _ *http.Request) {
			io.WriteString(w, `{"kind":"PodList","metadata":{"continue":"again"},"items":[]}`)
		}},
		{"endless pages", "kubernetes:List: the source's answers are too large", func(w http.ResponseWriter, _ *http.Request) {
			n++ // pages are asked one after the other
			fmt.Fprintf(w, `{"kind":"PodList","metadata":{"continue":"%d"},"items":[]}`, n)
		}},
		{"a response without an end", "too large", func(w http.ResponseWriter, _ *http.Request) {
			io.WriteString(w, `{"kind":"PodList","items":[`)
			item := strings.Repeat(`{"metadata":{"name":"a"}},`, 40_000)
			for {
				if _, err := io.WriteString(w, item); err != nil {
					return
				}
			}
		}},
		{"values of another type", "kubernetes:List", func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, `{"kind":"PodList","items":{"a":1}}`) }},
		{"a redirection", "the API server redirects requests", func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, other.URL, http.StatusFound) }},
	} {
		t.Run(tt.name, func(t *testing.T) {
			k := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				w.Header().Set("Content-Type", "application/json")
				switch r.URL.Path {
				case "/api":
					io.WriteString(w, `{"kind":"APIVersions","versions":["v1"]}`)
				case "/apis":
					io.WriteString(w, `{"kind":"APIGroupList","apiVersion":"v1","groups":[]}`)
				case "/api/v1":
					io.WriteString(w, `{"kind":"APIResourceList","groupVersion":"v1","resources":[{"name":"pods","kind":"Pod","namespaced":true,"verbs":["list"]}]}`)
				default:
					tt.pods(w, r)
				}
			}))
			defer k.Close()
			ca := base64.StdEncoding.EncodeToString(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: k.Certificate().Raw}))
			_, cfg := fake(t, map[string]http.HandlerFunc{
				"/clusters": func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, `{"clusters":["prod"]}`) },
				"/clusters/prod": func(w http.ResponseWriter, _ *http.Request) {
					fmt.Fprintf(w, `{"cluster":{"name":"prod","endpoint":%q,"certificateAuthority":{"data":%q},"accessConfig":{"authenticationMode":"CONFIG_MAP"}}}`, k.URL, ca)
				},
			})
			r, err := Read(t.Context(), cfg, fast)
			said := fmt.Sprint(err)
			if err == nil {
				said = fmt.Sprint(r.Gaps())
			}
			if !strings.Contains(said, tt.want) {
				t.Errorf("got %s, want %q", said, tt.want)
			}
		})
	}
	if elsewhere.Load() > 0 {
		t.Error("a redirection was followed, with the token")
	}
}

// A cluster that cannot be reached is a gap, and so is one that a kubeconfig does not have.
func TestKubernetesOutOfReach(t *testing.T) {
	_, cfg := fake(t, map[string]http.HandlerFunc{
		"/clusters": func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, `{"clusters":["prod"]}`) },
		"/clusters/prod": func(w http.ResponseWriter, _ *http.Request) {
			io.WriteString(w, `{"cluster":{"name":"prod","endpoint":"https://127.0.0.1:1","certificateAuthority":{"data":""},"resourcesVpcConfig":{"endpointPublicAccess":false,"endpointPrivateAccess":true},"accessConfig":{"authenticationMode":"CONFIG_MAP"}}}`)
		},
	})
	r, err := Read(t.Context(), cfg, fast)
	if err != nil {
		t.Fatal(err)
	}
	if g := r.Gaps(); len(g) != 1 || !strings.HasPrefix(g[0].String(), "the objects of cluster prod could not be read: ") {
		t.Errorf("gaps: %v", g)
	}
	if g := r.Gaps()[0].String(); !strings.HasSuffix(g, "; its endpoint is private: run the import where the VPC is reached, or give --kubeconfig for a tunnel") {
		t.Errorf("gap: %s", g)
	}
	opt := fast
	opt.Kubeconfig = filepath.Join(t.TempDir(), "kubeconfig")
	if err := os.WriteFile(opt.Kubeconfig, []byte(`{"contexts":[]}`), 0o600); err != nil {
		t.Fatal(err)
	}
	if r, err = Read(t.Context(), cfg, opt); err != nil {
		t.Fatal(err)
	}
	if g := r.Gaps(); len(g) != 1 || !strings.Contains(g[0].String(), "is for cluster prod: none has the server https://127.0.0.1:1, and none is named after it") {
		t.Errorf("gaps: %v", g)
	}
}

// The policies that bind a member of an organization are read level by level. The management account is bound by none.
func TestControls(t *testing.T) {
	asked := func(r *http.Request) string {
		var in struct{ TargetId, ChildId, PolicyId string }
		if err := json.NewDecoder(r.Body).Decode(&in); err != nil {
			t.Error(err)
		}
		return in.TargetId + in.ChildId + in.PolicyId
	}
	management := "999999999999"
	f, cfg := fake(t, map[string]http.HandlerFunc{
		"DescribeOrganization": func(w http.ResponseWriter, _ *http.Request) {
			fmt.Fprintf(w, `{"Organization":{"Id":"o-1","MasterAccountId":%q}}`, management)
		},
		"ListParents": func(w http.ResponseWriter, r *http.Request) {
			above := map[string]string{"111122223333": `{"Id":"ou-1","Type":"ORGANIZATIONAL_UNIT"}`, "ou-1": `{"Id":"r-1","Type":"ROOT"}`}
			fmt.Fprintf(w, `{"Parents":[%s]}`, above[asked(r)])
		},
		"ListPoliciesForTarget": func(w http.ResponseWriter, r *http.Request) {
			fmt.Fprintf(w, `{"Policies":[{"Id":"p-of-%s","Type":"SERVICE_CONTROL_POLICY"}]}`, asked(r))
		},
		"DescribePolicy": func(w http.ResponseWriter, r *http.Request) {
			fmt.Fprintf(w, `{"Policy":{"PolicySummary":{"Id":%q},"Content":"{}"}}`, asked(r))
		},
	})
	r, err := Read(t.Context(), cfg, fast)
	if err != nil {
		t.Fatal(err)
	}
	pages, err := recording.Pages[struct{ PolicyId string }, struct{}](r, recording.Organizations, "DescribePolicy")
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, p := range pages {
		got = append(got, p.Input.PolicyId)
	}
	if want := []string{"p-of-111122223333", "p-of-ou-1", "p-of-r-1"}; !slices.Equal(got, want) || f.count("ListParents") != 2 {
		t.Errorf("read %v, want %v; asked for parents %d times", got, want, f.count("ListParents"))
	}
	management = "111122223333"
	if _, err := Read(t.Context(), cfg, fast); err != nil || f.count("ListParents") != 2 {
		t.Errorf("the management account: %v, %d", err, f.count("ListParents"))
	}
}
