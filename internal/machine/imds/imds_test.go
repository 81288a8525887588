package imds_test

import (
	"context"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/config"
	"github.com/aws/aws-sdk-go-v2/credentials/ec2rolecreds"
	awsimds "github.com/aws/aws-sdk-go-v2/feature/ec2/imds"
	testclock "k8s.io/utils/clock/testing"

	"github.com/drydock-dev/drydock/internal/catalog/images"
	"github.com/drydock-dev/drydock/internal/catalog/instancetypes"
	"github.com/drydock-dev/drydock/internal/machine"
	"github.com/drydock-dev/drydock/internal/machine/imds"
	"github.com/drydock-dev/drydock/internal/testkit/needs"
)

const id = "i-0123456789abcdef0"

// source has one instance.
type source struct {
	mu       sync.Mutex
	instance imds.Instance
	nics     []imds.Interface
	issued   int
	err      error
	clock    *testclock.FakePassiveClock
}

func (s *source) Instance(_ context.Context, instanceID string) (imds.Instance, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if instanceID != id {
		return imds.Instance{}, imds.ErrNotRunning
	}
	return s.instance, nil
}

func (s *source) Interfaces(context.Context, string) ([]imds.Interface, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.nics), nil
}

func (s *source) Credentials(_ context.Context, _ string, version int) (imds.Credentials, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.err != nil {
		return imds.Credentials{}, s.err
	}
	s.issued++
	return imds.Credentials{AccessKeyID: fmt.Sprintf("ASIA%d", s.issued), SecretAccessKey: "secret", SessionToken: fmt.Sprintf("v%d", version), Expiration: s.clock.Now().Add(6 * time.Hour)}, nil
}

func (s *source) edit(fn func(*imds.Instance)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	fn(&s.instance)
}

var identity = sync.OnceValues(func() (imds.Identity, error) {
	key, cert, err := imds.NewIdentity(time.Now())
	if err != nil {
		return imds.Identity{}, err
	}
	return imds.ParseIdentity(key, cert)
})

func world(t *testing.T) (*imds.Service, *source) {
	t.Helper()
	start := time.Date(2026, 11, 21, 10, 0, 0, 0, time.UTC)
	src := &source{clock: testclock.NewFakePassiveClock(start), instance: imds.Instance{
		Instance: machine.Instance{
			Account: "123456789012", Region: "eu-west-1", ID: id, ReservationID: "r-0123456789abcdef0", LaunchTime: start.Add(-time.Hour),
			Type: instancetypes.Type{Name: "m5.large"}, Image: images.Image{ID: "ami-0123456789abcdef0", Architecture: "x86_64"},
			AvailabilityZone: "eu-west-1a", ZoneID: "euw1-az3", MAC: "02:00:00:00:00:01",
			PrivateDNSName: "ip-10-0-0-5.eu-west-1.compute.internal", PrivateIP: netip.MustParseAddr("10.0.0.5"), KeyName: "mine",
			UserData: []byte("#!/bin/sh\n"), Tags: map[string]string{"Name": "web", "empty": ""}, ProfileARN: "arn:aws:iam::123456789012:instance-profile/p",
		},
		Options: imds.Options{TokensRequired: true, HopLimit: 1, Tags: true}, SecurityGroups: []string{"a", "b"}, PublicKey: "ssh-ed25519 AAAA mine",
		Hypervisor: "nitro", RootDevice: "/dev/xvda", Volumes: []string{"/dev/sdf"}, ProfileID: "AIPA1", RoleName: "node",
	}, nics: []imds.Interface{
		{
			ID: "eni-0123456789abcdef0", MAC: "02:00:00:00:00:01", OwnerID: "123456789012", SubnetID: "subnet-1", VPCID: "vpc-1", SubnetCIDR: "10.0.0.0/24",
			VPCCIDRs: []string{"10.0.0.0/16", "100.64.0.0/16"}, LocalHostname: "ip-10-0-0-5.eu-west-1.compute.internal",
			PrivateIPs: []netip.Addr{netip.MustParseAddr("10.0.0.5"), netip.MustParseAddr("10.0.0.6")}, SecurityGroupIDs: []string{"sg-1", "sg-2"}, SecurityGroups: []string{"a", "b"},
		},
	}}
	s := imds.New(imds.Config{
		Source: src, Secret: []byte("secret"), Clock: src.clock,
		Identity: func(context.Context) (imds.Identity, error) { return identity() },
	})
	return s, src
}

// do sends a request over real HTTP, as curl would.
func do(t *testing.T, h http.Handler, method, path string, headers ...string) (status int, body string, header http.Header) {
	t.Helper()
	srv := httptest.NewServer(h)
	defer srv.Close()
	req, err := http.NewRequestWithContext(t.Context(), method, srv.URL+path, nil)
	if err != nil {
		t.Fatal(err)
	}
	for i := 0; i < len(headers); i += 2 {
		req.Header.Set(headers[i], headers[i+1])
	}
	resp, err := srv.Client().Do(req)
	if err != nil {
		return 0, err.Error(), nil
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, string(b), resp.Header
}

const (
	ttl   = "X-aws-ec2-metadata-token-ttl-seconds"
	token = "X-aws-ec2-metadata-token"
)

func TestCategories(t *testing.T) {
	s, src := world(t)
	src.edit(func(in *imds.Instance) { in.Options.TokensRequired = false })
	h := s.Handler(id, 1)
	mac := "/latest/meta-data/network/interfaces/macs/02:00:00:00:00:01/"
	for path, want := range map[string]string{
		"/latest":                                                 "dynamic\nmeta-data\nuser-data",
		"/latest/user-data":                                       "#!/bin/sh\n",
		"/latest/meta-data/instance-id":                           id,
		"/latest/meta-data/instance-id/":                          id,
		"/2021-07-15/meta-data/instance-id":                       id,
		"/1.0/meta-data/ami-id":                                   "ami-0123456789abcdef0",
		"/latest/meta-data/instance-type":                         "m5.large",
		"/latest/meta-data/local-ipv4":                            "10.0.0.5",
		"/latest/meta-data/local-hostname":                        "ip-10-0-0-5.eu-west-1.compute.internal",
		"/latest/meta-data/hostname":                              "ip-10-0-0-5.eu-west-1.compute.internal",
		"/latest/meta-data/mac":                                   "02:00:00:00:00:01",
		"/latest/meta-data/security-groups":                       "a\nb",
		"/latest/meta-data/placement/":                            "availability-zone\navailability-zone-id\nregion",
		"/latest/meta-data/placement/region":                      "eu-west-1",
		"/latest/meta-data/services/domain":                       "amazonaws.com",
		"/latest/meta-data/services/partition":                    "aws",
		"/latest/meta-data/block-device-mapping":                  "ami\nebs1\nroot",
		"/latest/meta-data/block-device-mapping/root":             "/dev/xvda",
		"/latest/meta-data/public-keys/":                          "0=mine",
		"/latest/meta-data/public-keys/0":                         "openssh-key",
		"/latest/meta-data/public-keys/0/openssh-key":             "ssh-ed25519 AAAA mine",
		"/latest/meta-data/tags/instance":                         "Name\nempty",
		"/latest/meta-data/tags/instance/Name":                    "web",
		"/latest/meta-data/tags/instance/empty":                   "",
		"/latest/meta-data/iam/":                                  "info\nsecurity-credentials/",
		"/latest/meta-data/iam/security-credentials/":             "node",
		"/latest/meta-data/events/maintenance/scheduled":          "[]",
		"/latest/meta-data/instance-life-cycle":                   "on-demand",
		"/latest/meta-data/network/interfaces/macs":               "02:00:00:00:00:01/",
		mac + "device-number":                                     "0",
		mac + "interface-id":                                      "eni-0123456789abcdef0",
		mac + "local-ipv4s":                                       "10.0.0.5\n10.0.0.6",
		mac + "subnet-id":                                         "subnet-1",
		mac + "subnet-ipv4-cidr-block":                            "10.0.0.0/24",
		mac + "vpc-ipv4-cidr-block":                               "10.0.0.0/16",
		mac + "vpc-ipv4-cidr-blocks":                              "10.0.0.0/16\n100.64.0.0/16",
		mac + "security-group-ids":                                "sg-1\nsg-2",
		mac + "owner-id":                                          "123456789012",
		"/latest/dynamic":                                         "instance-identity/",
		"/latest/dynamic/instance-identity/":                      "document\npkcs7\nrsa2048\nsignature",
		"/latest/meta-data/identity-credentials/ec2/info/../info": "", // the path is not cleaned: not found
	} {
		status, got, header := do(t, h, http.MethodGet, path)
		if strings.Contains(path, "..") {
			if status != http.StatusNotFound {
				t.Errorf("%s: %d", path, status)
			}
			continue
		}
		if status != http.StatusOK || got != want || header.Get("Server") != "EC2ws" {
			t.Errorf("%s: %d %q, want %q", path, status, got, want)
		}
	}
	_, top, _ := do(t, h, http.MethodGet, "/latest/meta-data/")
	for _, want := range []string{"iam/", "network/", "public-keys/", "services/", "ami-id"} {
		if !strings.Contains("\n"+top+"\n", "\n"+want+"\n") {
			t.Errorf("the listing has no %s: %q", want, top)
		}
	}
	for _, path := range []string{
		"/latest/meta-data/public-ipv4", "/latest/meta-data/spot/instance-action", "/latest/meta-data/nothing", "/1999-01-01/meta-data", "/latest/user-data/x",
		"/latest/meta-data/autoscaling/target-lifecycle-state", "/latest/meta-data/events/recommendations/rebalance", "/x",
	} {
		status, got, _ := do(t, h, http.MethodGet, path)
		if status != http.StatusNotFound || !strings.Contains(got, "<title>404 - Not Found</title>") {
			t.Errorf("%s: %d %q", path, status, got)
		}
	}
	// Categories that appear and disappear.
	at := time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)
	src.edit(func(in *imds.Instance) {
		in.PublicIP = netip.MustParseAddr("203.0.113.5")
		in.Spot, in.SpotAction, in.SpotActionTime, in.Rebalance = true, "terminate", at, at
		in.TargetState = func(context.Context) (string, error) { return "InService", nil }
		src.nics[0].PublicIPs = map[netip.Addr]netip.Addr{in.PublicIP: in.PrivateIP}
		in.Options.Tags, in.UserData = false, nil
	})
	for path, want := range map[string]string{
		"/latest":                                                "dynamic\nmeta-data",
		"/latest/meta-data/public-ipv4":                          "203.0.113.5",
		"/latest/meta-data/instance-life-cycle":                  "spot",
		"/latest/meta-data/spot/instance-action":                 `{"action":"terminate","time":"2026-11-21T12:00:00Z"}`,
		"/latest/meta-data/spot/termination-time":                "2026-11-21T12:00:00Z",
		"/latest/meta-data/events/recommendations/rebalance":     `{"noticeTime":"2026-11-21T12:00:00Z"}`,
		"/latest/meta-data/autoscaling/target-lifecycle-state":   "InService",
		mac + "ipv4-associations/203.0.113.5":                    "10.0.0.5",
		mac + "public-ipv4s":                                     "203.0.113.5",
		"/latest/meta-data/network/interfaces/macs/":             "02:00:00:00:00:01/",
		"/latest/meta-data/placement/availability-zone-id":       "euw1-az3",
		"/latest/meta-data/identity-credentials/ec2/info/nobody": "",
	} {
		status, got, _ := do(t, h, http.MethodGet, path)
		if want == "" && status != http.StatusNotFound || want != "" && (status != http.StatusOK || got != want) {
			t.Errorf("%s: %d %q, want %q", path, status, got, want)
		}
	}
	for _, path := range []string{"/latest/user-data", "/latest/meta-data/tags", "/latest/meta-data/tags/instance/Name"} {
		if status, _, _ := do(t, h, http.MethodGet, path); status != http.StatusNotFound {
			t.Errorf("%s: %d", path, status)
		}
	}
}

func TestTokens(t *testing.T) {
	s, src := world(t)
	h := s.Handler(id, 1)
	const path = "/latest/meta-data/instance-id"
	status, tok, header := do(t, h, http.MethodPut, "/latest/api/token", ttl, "60")
	if status != http.StatusOK || len(tok) != 56 || header.Get(ttl) != "60" {
		t.Fatalf("%d %q %v", status, tok, header)
	}
	if status, got, header := do(t, h, http.MethodGet, path, token, tok); status != http.StatusOK || got != id || header.Get(ttl) != "60" {
		t.Errorf("%d %q %v", status, got, header)
	}
	if status, got, _ := do(t, h, http.MethodHead, path, token, tok); status != http.StatusOK || got != "" {
		t.Errorf("HEAD: %d %q", status, got)
	}
	unauthorized := "401 - Unauthorized"
	flipped := "B" + tok[1:]
	for _, tc := range []struct {
		name, method, path string
		headers            []string
		want               int
		text               string
	}{
		{"no token", "GET", path, nil, 401, unauthorized},
		{"no text of a token", "GET", path, []string{token, "x"}, 401, unauthorized},
		{"another token", "GET", path, []string{token, flipped}, 401, unauthorized},
		{"no ttl", "PUT", "/latest/api/token", nil, 400, "400 - Bad Request"},
		{"ttl of 0", "PUT", "/latest/api/token", []string{ttl, "0"}, 400, ""},
		{"ttl of more than 6 h", "PUT", "/latest/api/token", []string{ttl, "21601"}, 400, ""},
		{"ttl of words", "PUT", "/latest/api/token", []string{ttl, "soon"}, 400, ""},
		{"proxy", "PUT", "/latest/api/token", []string{ttl, "60", "X-Forwarded-For", "10.0.0.1"}, 403, "403 - Forbidden"},
		{"PUT elsewhere", "PUT", path, []string{ttl, "60"}, 405, ""},
		{"POST", "POST", path, []string{token, tok}, 405, "405 - Method Not Allowed"},
		{"not found", "GET", "/latest/meta-data/x", []string{token, tok}, 404, ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			status, got, _ := do(t, h, tc.method, tc.path, tc.headers...)
			if status != tc.want || !strings.Contains(got, tc.text) {
				t.Errorf("%d %q, want %d", status, got, tc.want)
			}
		})
	}
	src.clock.SetTime(src.clock.Now().Add(61 * time.Second))
	if status, _, _ := do(t, h, http.MethodGet, path, token, tok); status != http.StatusUnauthorized {
		t.Errorf("expired: %d", status)
	}
	src.edit(func(in *imds.Instance) { in.Options.TokensRequired = false })
	if status, _, _ := do(t, h, http.MethodGet, path, token, tok); status != http.StatusUnauthorized {
		t.Errorf("expired, where none is needed: %d", status)
	}
	if status, _, _ := do(t, h, http.MethodGet, path); status != http.StatusOK {
		t.Errorf("version 1: %d", status)
	}
	src.edit(func(in *imds.Instance) { in.Options.Disabled = true })
	for _, method := range []string{"GET", "PUT"} {
		if status, _, _ := do(t, h, method, "/latest/api/token", ttl, "60"); status != http.StatusForbidden {
			t.Errorf("disabled, %s: %d", method, status)
		}
	}
	if status, _, _ := do(t, s.Handler("i-0000000000000dead", 1), "GET", path); status != 0 {
		t.Errorf("an instance that is not there answered %d", status)
	}
}

// client is the SDK's client on an instance.
func client(s *imds.Service, hops int, fallback bool) *awsimds.Client {
	return awsimds.New(awsimds.Options{
		HTTPClient: &http.Client{Transport: s.Transport(id, hops)}, Retryer: aws.NopRetryer{},
		ClientEnableState: awsimds.ClientEnabled, EnableFallback: aws.BoolTernary(fallback),
	})
}

func TestSDK(t *testing.T) {
	s, src := world(t)
	ctx := t.Context()
	c := client(s, 1, false)
	doc, err := c.GetInstanceIdentityDocument(ctx, &awsimds.GetInstanceIdentityDocumentInput{})
	if err != nil || doc.InstanceID != id || doc.Region != "eu-west-1" || doc.AccountID != "123456789012" || doc.PrivateIP != "10.0.0.5" || doc.Version != "2017-09-30" {
		t.Errorf("%+v %v", doc, err)
	}
	region, err := c.GetRegion(ctx, &awsimds.GetRegionInput{})
	if err != nil || region.Region != "eu-west-1" {
		t.Errorf("%+v %v", region, err)
	}
	info, err := c.GetIAMInfo(ctx, &awsimds.GetIAMInfoInput{})
	if err != nil || info.InstanceProfileArn != "arn:aws:iam::123456789012:instance-profile/p" {
		t.Errorf("%+v %v", info, err)
	}
	data, err := c.GetUserData(ctx, &awsimds.GetUserDataInput{})
	if err != nil {
		t.Fatal(err)
	}
	if b, err := io.ReadAll(data.Content); err != nil || string(b) != "#!/bin/sh\n" {
		t.Errorf("%q %v", b, err)
	}
	// The default chain's requests, with rotation.
	retrieve := func() aws.Credentials {
		t.Helper()
		creds, err := ec2rolecreds.New(func(o *ec2rolecreds.Options) { o.Client = c }).Retrieve(ctx)
		if err != nil {
			t.Fatal(err)
		}
		return creds
	}
	if got := retrieve(); got.AccessKeyID != "ASIA1" || got.SessionToken != "v2" || !got.CanExpire {
		t.Errorf("%+v", got)
	}
	if got := retrieve(); got.AccessKeyID != "ASIA1" {
		t.Errorf("issued again: %+v", got)
	}
	src.clock.SetTime(src.clock.Now().Add(61 * time.Minute))
	// The SDK asks for a new token once its own is refused, and tries again.
	c = awsimds.New(awsimds.Options{HTTPClient: &http.Client{Transport: s.Transport(id, 1)}, ClientEnableState: awsimds.ClientEnabled})
	if got := retrieve(); got.AccessKeyID != "ASIA2" {
		t.Errorf("not rotated: %+v", got)
	}
	src.edit(func(in *imds.Instance) { in.RoleName = "other" })
	if got := retrieve(); got.AccessKeyID != "ASIA3" {
		t.Errorf("another role: %+v", got)
	}
	// Version 1 delivers credentials of its own, which say so.
	src.edit(func(in *imds.Instance) { in.Options.TokensRequired = false })
	res, err := (&http.Client{Transport: s.Transport(id, 1)}).Get("http://169.254.169.254/latest/meta-data/iam/security-credentials/other")
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	if b, err := io.ReadAll(res.Body); err != nil || !strings.Contains(string(b), `"Token" : "v1"`) {
		t.Errorf("%s %v", b, err)
	}
}

// TestDefaultChain uses an SDK on the instance without any configuration of its own.
func TestDefaultChain(t *testing.T) {
	s, _ := world(t)
	srv := httptest.NewServer(s.Handler(id, 1))
	defer srv.Close()
	for _, k := range []string{"AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN", "AWS_PROFILE", "AWS_REGION", "AWS_DEFAULT_REGION", "AWS_EC2_METADATA_DISABLED"} {
		t.Setenv(k, "")
	}
	t.Setenv("AWS_CONFIG_FILE", filepath.Join(t.TempDir(), "none"))
	t.Setenv("AWS_SHARED_CREDENTIALS_FILE", filepath.Join(t.TempDir(), "none"))
	t.Setenv("AWS_EC2_METADATA_SERVICE_ENDPOINT", srv.URL)
	cfg, err := config.LoadDefaultConfig(t.Context(), config.WithEC2IMDSRegion())
	if err != nil {
		t.Fatal(err)
	}
	creds, err := cfg.Credentials.Retrieve(t.Context())
	if err != nil || creds.AccessKeyID != "ASIA1" || cfg.Region != "eu-west-1" {
		t.Errorf("%+v %v in %q", creds, err, cfg.Region)
	}
}

// From a container with its own network, a limit of 1 hop loses the token's answer. If tokens are not required,
// version 1 still works.
func TestHopLimit(t *testing.T) {
	s, src := world(t)
	ask := func(hops int) error {
		_, err := client(s, hops, true).GetMetadata(t.Context(), &awsimds.GetMetadataInput{Path: "instance-id"})
		return err
	}
	for _, tc := range []struct {
		limit, hops int
		required    bool
		ok          bool
	}{
		{1, 1, true, true},
		{1, 2, true, false},
		{2, 2, true, true},
		{2, 3, true, false},
		{1, 2, false, true},
		{0, 1, true, true},
	} {
		src.edit(func(in *imds.Instance) { in.Options.HopLimit, in.Options.TokensRequired = tc.limit, tc.required })
		if err := ask(tc.hops); (err == nil) != tc.ok {
			t.Errorf("limit %d, %d hops, tokens required: %v: %v", tc.limit, tc.hops, tc.required, err)
		}
	}
	src.edit(func(in *imds.Instance) { in.Options.HopLimit = 1 })
	if status, _, _ := do(t, s.Handler(id, 2), http.MethodPut, "/latest/api/token", ttl, "60"); status != 0 {
		t.Errorf("the answer came through: %d", status)
	}
	if _, err := s.Transport("i-0000000000000dead", 1).RoundTrip(httptest.NewRequest("GET", "/", nil)); !errors.Is(err, imds.ErrNotRunning) {
		t.Errorf("%v", err)
	}
}

func TestRefusedRole(t *testing.T) {
	s, src := world(t)
	src.err = imds.NotTrusted("node")
	src.edit(func(in *imds.Instance) { in.Options.TokensRequired = false })
	h := s.Handler(id, 1)
	for _, path := range []string{"info", "security-credentials/node"} {
		status, got, _ := do(t, h, "GET", "/latest/meta-data/iam/"+path)
		var doc struct{ Code, Message string }
		if err := json.Unmarshal([]byte(got), &doc); err != nil || status != http.StatusOK || doc.Code != "AssumeRoleUnauthorizedAccess" || !strings.HasPrefix(doc.Message, "EC2 cannot assume the role node.") {
			t.Errorf("%s: %d %s", path, status, got)
		}
	}
	_, err := ec2rolecreds.New(func(o *ec2rolecreds.Options) { o.Client = client(s, 1, true) }).Retrieve(t.Context())
	if err == nil || !strings.Contains(err.Error(), "AssumeRoleUnauthorizedAccess") {
		t.Errorf("%v", err)
	}
	src.err = nil
	src.clock.SetTime(src.clock.Now().Add(6 * time.Second))
	if _, got, _ := do(t, h, "GET", "/latest/meta-data/iam/security-credentials/node"); !strings.Contains(got, `"Code" : "Success"`) {
		t.Errorf("trusted again: %s", got)
	}
	src.edit(func(in *imds.Instance) { in.RoleName = "" })
	if _, got, _ := do(t, h, "GET", "/latest/meta-data/iam/info"); !strings.Contains(got, "InstanceProfileNotFound") {
		t.Errorf("without its role: %s", got)
	}
	src.edit(func(in *imds.Instance) { in.ProfileARN = "" })
	if status, _, _ := do(t, h, "GET", "/latest/meta-data/iam/"); status != http.StatusNotFound {
		t.Errorf("without a profile: %d", status)
	}
}

func TestSignatures(t *testing.T) {
	s, src := world(t)
	src.edit(func(in *imds.Instance) { in.Options.TokensRequired = false })
	get := func(name string) string {
		t.Helper()
		status, got, _ := do(t, s.Handler(id, 1), "GET", "/latest/dynamic/instance-identity/"+name)
		if status != http.StatusOK {
			t.Fatalf("%s: %d", name, status)
		}
		return got
	}
	certificate, err := s.Certificate(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	block, _ := pem.Decode(certificate)
	cert, err := x509.ParseCertificate(block.Bytes)
	if err != nil {
		t.Fatal(err)
	}
	sig, err := base64.StdEncoding.DecodeString(get("signature"))
	if err != nil {
		t.Fatal(err)
	}
	doc := get("document")
	if err := cert.CheckSignature(x509.SHA256WithRSA, []byte(doc), sig); err != nil {
		t.Error(err)
	}
	if got, err := s.VerifyDocument(t.Context(), []byte(doc), sig); err != nil || got != id {
		t.Errorf("the document is %s's, %v", got, err)
	}
	if got, err := s.VerifyDocument(t.Context(), []byte(strings.ReplaceAll(doc, id, "i-1")), sig); err == nil {
		t.Errorf("a changed document is %s's", got)
	}
	for _, name := range []string{"pkcs7", "rsa2048"} {
		if signed, err := verifyPKCS7(get(name), cert); err != nil || string(signed) != doc {
			t.Errorf("%s: %v\n%s", name, err, signed)
		}
	}
	openssl, err := exec.LookPath("openssl")
	if err != nil {
		needs.Missing(t, "openssl is not installed")
	}
	// As in https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/verify-rsa2048.html
	dir := t.TempDir()
	for name, text := range map[string]string{"cert": string(certificate), "p7": "-----BEGIN PKCS7-----\n" + get("rsa2048") + "\n-----END PKCS7-----\n", "doc": doc} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	cmd := exec.CommandContext(t.Context(), openssl, "smime", "-verify", "-in", "p7", "-inform", "PEM", "-certfile", "cert", "-noverify")
	cmd.Dir = dir
	var stderr strings.Builder
	cmd.Stderr = &stderr
	if out, err := cmd.Output(); err != nil || string(out) != doc {
		t.Errorf("openssl: %v %s\n%s", err, out, stderr.String())
	}
}

func TestClient(t *testing.T) {
	s, src := world(t)
	c := imds.Client{Transport: s.Transport(id, 1)}
	ctx := t.Context()
	if got, err := c.Get(ctx, "meta-data/mac"); err != nil || string(got) != "02:00:00:00:00:01" {
		t.Errorf("%q %v", got, err)
	}
	if _, err := c.Get(ctx, "meta-data/nothing"); !errors.Is(err, imds.ErrNotFound) {
		t.Errorf("%v", err)
	}
	if creds, err := c.Credentials(ctx); err != nil || creds.AccessKeyID != "ASIA1" || creds.Expiration.IsZero() {
		t.Errorf("%+v %v", creds, err)
	}
	src.edit(func(in *imds.Instance) { in.RoleName = "" })
	if _, err := c.Credentials(ctx); !errors.Is(err, imds.ErrNotFound) {
		t.Errorf("no role: %v", err)
	}
	src.edit(func(in *imds.Instance) { in.Options.Disabled = true })
	if _, err := c.Get(ctx, "user-data"); err == nil || !strings.Contains(err.Error(), "403") {
		t.Errorf("disabled: %v", err)
	}
}

func BenchmarkCredentials(b *testing.B) {
	src := &source{clock: testclock.NewFakePassiveClock(time.Now()), instance: imds.Instance{Instance: machine.Instance{ID: id, ProfileARN: "p", Tags: map[string]string{"a": "b"}}, RoleName: "node"}}
	s := imds.New(imds.Config{Source: src, Secret: []byte("secret"), Clock: src.clock})
	c := imds.Client{Transport: s.Transport(id, 1)}
	for b.Loop() {
		if _, err := c.Credentials(b.Context()); err != nil {
			b.Fatal(err)
		}
	}
}
