package acm_test

import (
	"context"
	"crypto/x509"
	"encoding/pem"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	awsacm "github.com/aws/aws-sdk-go-v2/service/acm"
	acmtypes "github.com/aws/aws-sdk-go-v2/service/acm/types"
	awsiam "github.com/aws/aws-sdk-go-v2/service/iam"
	awsroute53 "github.com/aws/aws-sdk-go-v2/service/route53"
	route53types "github.com/aws/aws-sdk-go-v2/service/route53/types"

	"github.com/drydock-dev/drydock/internal/authz"
	"github.com/drydock-dev/drydock/internal/awsapi"
	"github.com/drydock-dev/drydock/internal/awsapi/sigv4"
	"github.com/drydock-dev/drydock/internal/service/acm"
	"github.com/drydock-dev/drydock/internal/service/iam"
	"github.com/drydock-dev/drydock/internal/service/route53"
	"github.com/drydock-dev/drydock/internal/store"
	"github.com/drydock-dev/drydock/internal/testkit"
)

// A world is an AWS API server with IAM, Route 53 and ACM behind it, and an account's root user.
type world struct {
	*testkit.Server
	t       *testing.T
	acm     *acm.Service
	account string
	c       *awsacm.Client
	users   map[string][]string // of certificates
}

func newWorld(t *testing.T, endpoint string) *world {
	w := &world{t: t, users: map[string][]string{}}
	var users *iam.Service
	var authorizer *authz.Authorizer
	w.Server = testkit.NewServer(t, testkit.Config{
		Services: func(st *store.Store) []awsapi.Service {
			users = iam.New(iam.Config{Store: st, Log: testkit.Log(t)})
			dns := route53.New(route53.Config{Store: st})
			w.acm = acm.New(acm.Config{Store: st, CNAME: dns.CNAME, Log: testkit.Log(t), Users: func(_, _, certificate string) []string { return w.users[certificate] }})
			authorizer = authz.New(authz.Config{
				Services: []awsapi.Service{users.AWS(), dns.AWS(), w.acm.AWS()},
				Policies: users.PoliciesOf, Resolvers: map[string]authz.Resolver{"iam": users.Authz()}, Store: st,
				EndpointPolicy: func(context.Context, string, string, string) (string, bool) { return endpoint, true },
			})
			authorizer.Register("acm", w.acm.Module().Resolver)
			authorizer.Register("route53", dns.Module().Resolver)
			return []awsapi.Service{users.AWS(), dns.AWS(), w.acm.AWS()}
		},
		Lookup: func(ctx context.Context, key, _ string) (sigv4.Credential, error) {
			secret, p, err := users.LookupAccessKey(ctx, key)
			if err != nil {
				return sigv4.Credential{}, sigv4.ErrUnknownKey
			}
			return sigv4.Credential{SecretKey: secret, Principal: p}, nil
		},
		Origin: func(string) (awsapi.VPCEndpoint, netip.Addr) {
			if endpoint == "" {
				return awsapi.VPCEndpoint{}, netip.Addr{}
			}
			return awsapi.VPCEndpoint{ID: "vpce-0123456789abcdef0", VPCID: "vpc-0123456789abcdef0"}, netip.MustParseAddr("10.0.0.5")
		},
		AuthorizeInput: func(ctx context.Context, call *awsapi.Call, in any) error { return authorizer.Authorize(ctx, call, in) },
	})
	w.account = w.Account(t)
	w.c = awsacm.NewFromConfig(w.AWSConfig(w.account))
	testkit.Run(t, w.acm.Run)
	return w
}

// user returns a client of a new user with an inline policy.
func (w *world) user(name, policy string) *awsacm.Client {
	c := awsiam.NewFromConfig(w.AWSConfig(w.account))
	testkit.Must(c.CreateUser(w.t.Context(), &awsiam.CreateUserInput{UserName: &name}))(w.t)
	testkit.Must(c.PutUserPolicy(w.t.Context(), &awsiam.PutUserPolicyInput{UserName: &name, PolicyName: aws.String("p"), PolicyDocument: &policy}))(w.t)
	k := testkit.Must(c.CreateAccessKey(w.t.Context(), &awsiam.CreateAccessKeyInput{UserName: &name}))(w.t).AccessKey
	return awsacm.NewFromConfig(w.AWSConfigWith(credentials.NewStaticCredentialsProvider(*k.AccessKeyId, *k.SecretAccessKey, "")))
}

func (w *world) request(domain string, more ...string) string {
	w.t.Helper()
	return *testkit.Must(w.c.RequestCertificate(w.t.Context(), &awsacm.RequestCertificateInput{DomainName: &domain, SubjectAlternativeNames: more, ValidationMethod: acmtypes.ValidationMethodDns}))(w.t).CertificateArn
}

func (w *world) describe(arn string) *acmtypes.CertificateDetail {
	w.t.Helper()
	return testkit.Must(w.c.DescribeCertificate(w.t.Context(), &awsacm.DescribeCertificateInput{CertificateArn: &arn}))(w.t).Certificate
}

// validate creates a zone with the records that a certificate asks for.
func (w *world) validate(zone string, options []acmtypes.DomainValidation) {
	w.t.Helper()
	dns := awsroute53.NewFromConfig(w.AWSConfig(w.account))
	id := testkit.Must(dns.CreateHostedZone(w.t.Context(), &awsroute53.CreateHostedZoneInput{Name: &zone, CallerReference: &zone}))(w.t).HostedZone.Id
	batch := &route53types.ChangeBatch{}
	for _, o := range options {
		batch.Changes = append(batch.Changes, route53types.Change{Action: route53types.ChangeActionCreate, ResourceRecordSet: &route53types.ResourceRecordSet{
			Name: o.ResourceRecord.Name, Type: route53types.RRTypeCname, TTL: aws.Int64(60), ResourceRecords: []route53types.ResourceRecord{{Value: o.ResourceRecord.Value}},
		}})
	}
	testkit.Must(dns.ChangeResourceRecordSets(w.t.Context(), &awsroute53.ChangeResourceRecordSetsInput{HostedZoneId: id, ChangeBatch: batch}))(w.t)
}

func TestACertificateIsIssuedWhenItsRecordsAreThere(t *testing.T) {
	w := newWorld(t, "")
	arn := w.request("drydock.dev", "*.drydock.dev", "api.drydock.dev")
	d := w.describe(arn)
	if d.Status != acmtypes.CertificateStatusPendingValidation || len(d.DomainValidationOptions) != 3 || *d.Issuer != "Amazon" || d.KeyAlgorithm != "RSA-2048" || d.NotAfter != nil {
		t.Errorf("%+v", d)
	}
	if a, b := d.DomainValidationOptions[0].ResourceRecord, d.DomainValidationOptions[2].ResourceRecord; *a.Name != *b.Name || *a.Value != *b.Value || !strings.HasSuffix(*a.Name, ".drydock.dev.") || !strings.HasSuffix(*a.Value, ".acm-validations.aws.") {
		t.Errorf("records of the name and its wildcard: %s %s, %s %s", *a.Name, *a.Value, *b.Name, *b.Value)
	}
	_, err := w.c.GetCertificate(t.Context(), &awsacm.GetCertificateInput{CertificateArn: &arn})
	testkit.WantErrorWith(t, err, "RequestInProgressException", arn)
	if exists, usable := w.acm.State(w.account, testkit.Region, arn); !exists || usable {
		t.Error("state of a pending certificate", exists, usable)
	}

	// If several zones have the same name, Drydock cannot know which of them the name is delegated to.
	for n := range 8 {
		testkit.Must(awsroute53.NewFromConfig(w.AWSConfig(w.account)).CreateHostedZone(t.Context(), &awsroute53.CreateHostedZoneInput{Name: aws.String("drydock.dev"), CallerReference: aws.String(strconv.Itoa(n))}))(t)
	}
	w.validate("drydock.dev", d.DomainValidationOptions[1:])
	err = awsacm.NewCertificateValidatedWaiter(w.c).Wait(t.Context(), &awsacm.DescribeCertificateInput{CertificateArn: &arn}, time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	d = w.describe(arn)
	if d.Status != acmtypes.CertificateStatusIssued || d.Serial == nil || d.IssuedAt == nil || len(d.KeyUsages) != 2 || d.DomainValidationOptions[0].ValidationStatus != acmtypes.DomainStatusSuccess {
		t.Errorf("%+v", d)
	}
	got := testkit.Must(w.c.GetCertificate(t.Context(), &awsacm.GetCertificateInput{CertificateArn: &arn}))(t)
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM([]byte(*got.CertificateChain))
	block, _ := pem.Decode([]byte(*got.Certificate))
	x := testkit.Must(x509.ParseCertificate(block.Bytes))(t)
	if _, err := x.Verify(x509.VerifyOptions{Roots: roots, DNSName: "www.drydock.dev"}); err != nil {
		t.Error(err)
	}

	// Importing it needs its private key.
	_, err = w.c.ImportCertificate(t.Context(), &awsacm.ImportCertificateInput{Certificate: []byte(*got.Certificate), PrivateKey: []byte("mine")})
	testkit.WantErrorWith(t, err, "ValidationException", "private key")
}

func TestCertificatesInUseStay(t *testing.T) {
	w := newWorld(t, "")
	arn := w.request("drydock.dev")
	w.users[arn] = []string{"arn:aws:elasticloadbalancing:us-east-1:1:loadbalancer/app/a/1"}
	_, err := w.c.DeleteCertificate(t.Context(), &awsacm.DeleteCertificateInput{CertificateArn: &arn})
	testkit.WantErrorWith(t, err, "ResourceInUseException", "Certificate "+arn+" in account "+w.account+" is in use.")
	if d := w.describe(arn); !slices.Equal(d.InUseBy, w.users[arn]) {
		t.Error(d.InUseBy)
	}
	delete(w.users, arn)
	testkit.Must(w.c.DeleteCertificate(t.Context(), &awsacm.DeleteCertificateInput{CertificateArn: &arn}))(t)
	_, err = w.c.DescribeCertificate(t.Context(), &awsacm.DescribeCertificateInput{CertificateArn: &arn})
	testkit.WantErrorWith(t, err, "ResourceNotFoundException", "Could not find certificate "+arn)
	if exists, _ := w.acm.State(w.account, testkit.Region, arn); exists {
		t.Error("it is still there")
	}
}

func TestRequestsThatAreRefused(t *testing.T) {
	w := newWorld(t, "")
	dns := acmtypes.ValidationMethodDns
	for name, c := range map[string]struct {
		in   awsacm.RequestCertificateInput
		code string
	}{
		"by mail":         {awsacm.RequestCertificateInput{DomainName: aws.String("drydock.dev")}, "NotImplemented"},
		"no domain":       {awsacm.RequestCertificateInput{DomainName: aws.String("example"), ValidationMethod: dns}, "InvalidParameterException"},
		"too many":        {awsacm.RequestCertificateInput{DomainName: aws.String("drydock.dev"), ValidationMethod: dns, SubjectAlternativeNames: strings.Fields("a.b b.b c.b d.b e.b f.b g.b h.b i.b j.b")}, "LimitExceededException"},
		"reserved tag":    {awsacm.RequestCertificateInput{DomainName: aws.String("drydock.dev"), ValidationMethod: dns, Tags: []acmtypes.Tag{{Key: aws.String("aws:a")}}}, "InvalidTagException"},
		"another's names": {awsacm.RequestCertificateInput{DomainName: aws.String("drydock.dev"), ValidationMethod: dns, DomainValidationOptions: []acmtypes.DomainValidationOption{{DomainName: aws.String("drydock.dev"), ValidationDomain: aws.String("www.drydock.dev")}}}, "InvalidDomainValidationOptionsException"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := w.c.RequestCertificate(t.Context(), &c.in)
			testkit.WantErrorWith(t, err, c.code, "")
		})
	}
	in := &awsacm.RequestCertificateInput{DomainName: aws.String("drydock.dev"), ValidationMethod: dns, IdempotencyToken: aws.String("a")}
	if a, b := testkit.Must(w.c.RequestCertificate(t.Context(), in))(t), testkit.Must(w.c.RequestCertificate(t.Context(), in))(t); *a.CertificateArn != *b.CertificateArn {
		t.Error("a repeated request made another certificate")
	}
	if all := testkit.Must(w.c.ListCertificates(t.Context(), &awsacm.ListCertificatesInput{}))(t).CertificateSummaryList; len(all) != 1 || *all[0].DomainName != "drydock.dev" {
		t.Errorf("%+v", all)
	}
}

func TestPolicies(t *testing.T) {
	w := newWorld(t, "")
	own := w.request("own.drydock.dev")
	testkit.Must(w.c.AddTagsToCertificate(t.Context(), &awsacm.AddTagsToCertificateInput{CertificateArn: &own, Tags: []acmtypes.Tag{{Key: aws.String("team"), Value: aws.String("a")}}}))(t)
	other := w.request("other.drydock.dev")
	u := w.user("u", `{"Version":"2012-10-17","Statement":[
		{"Effect":"Allow","Action":"acm:DescribeCertificate","Resource":"*","Condition":{"StringEquals":{"aws:ResourceTag/team":"a"}}},
		{"Effect":"Allow","Action":"acm:RequestCertificate","Resource":"*","Condition":{"ForAllValues:StringLike":{"acm:DomainNames":"*.drydock.dev"},"StringEquals":{"acm:ValidationMethod":"DNS"}}}]}`)
	testkit.Must(u.DescribeCertificate(t.Context(), &awsacm.DescribeCertificateInput{CertificateArn: &own}))(t)
	_, err := u.DescribeCertificate(t.Context(), &awsacm.DescribeCertificateInput{CertificateArn: &other})
	testkit.WantErrorWith(t, err, "AccessDeniedException", "User: arn:aws:iam::"+w.account+":user/u is not authorized to perform: acm:DescribeCertificate on resource: "+other)
	in := &awsacm.RequestCertificateInput{DomainName: aws.String("a.drydock.dev"), ValidationMethod: acmtypes.ValidationMethodDns}
	testkit.Must(u.RequestCertificate(t.Context(), in))(t)
	in.SubjectAlternativeNames = []string{"example.net"}
	_, err = u.RequestCertificate(t.Context(), in)
	testkit.WantErrorWith(t, err, "AccessDeniedException", "acm:RequestCertificate")
	in.SubjectAlternativeNames, in.Tags = nil, []acmtypes.Tag{{Key: aws.String("a")}}
	_, err = u.RequestCertificate(t.Context(), in)
	testkit.WantErrorWith(t, err, "AccessDeniedException", "acm:AddTagsToCertificate")
}

func TestEndpointPolicy(t *testing.T) {
	w := newWorld(t, `{"Statement":[{"Effect":"Allow","Principal":"*","Action":"acm:ListCertificates","Resource":"*"}]}`)
	testkit.Must(w.c.ListCertificates(t.Context(), &awsacm.ListCertificatesInput{}))(t)
	_, err := w.c.RequestCertificate(t.Context(), &awsacm.RequestCertificateInput{DomainName: aws.String("drydock.dev"), ValidationMethod: acmtypes.ValidationMethodDns})
	testkit.WantErrorWith(t, err, "AccessDeniedException", "no VPC endpoint policy allows")
}
