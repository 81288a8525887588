package route53_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	awsec2 "github.com/aws/aws-sdk-go-v2/service/ec2"
	awsiam "github.com/aws/aws-sdk-go-v2/service/iam"
	awsroute53 "github.com/aws/aws-sdk-go-v2/service/route53"
	route53types "github.com/aws/aws-sdk-go-v2/service/route53/types"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/drydock-dev/drydock/internal/authz"
	"github.com/drydock-dev/drydock/internal/awsapi"
	"github.com/drydock-dev/drydock/internal/awsapi/server"
	"github.com/drydock-dev/drydock/internal/awsapi/sigv4"
	"github.com/drydock-dev/drydock/internal/awscall"
	"github.com/drydock-dev/drydock/internal/reach"
	"github.com/drydock-dev/drydock/internal/service/ec2"
	"github.com/drydock-dev/drydock/internal/service/iam"
	"github.com/drydock-dev/drydock/internal/service/route53"
	"github.com/drydock-dev/drydock/internal/store"
	"github.com/drydock-dev/drydock/internal/testkit"
)

// A world is an AWS API server with IAM, EC2 and Route 53 behind it.
type world struct {
	*testkit.Server
	dns   *route53.Service
	clock *clocktesting.FakeClock
}

func newWorld(t testing.TB) *world {
	t.Helper()
	w := &world{clock: clocktesting.NewFakeClock(time.Now())}
	var users *iam.Service
	var authorizer *authz.Authorizer
	w.Server = testkit.NewServer(t, testkit.Config{
		Calling: func(st *store.Store, front *server.Server) []awsapi.Service {
			users = iam.New(iam.Config{Store: st, Log: testkit.Log(t)})
			network := ec2.New(ec2.Config{Store: st, Log: testkit.Log(t)})
			w.dns = route53.New(route53.Config{Store: st, EC2: awscall.EC2{API: front}, Clock: w.clock})
			authorizer = authz.New(authz.Config{Services: []awsapi.Service{users.AWS(), network.AWS(), w.dns.AWS()}, Policies: users.PoliciesOf, Resolvers: map[string]authz.Resolver{"iam": users.Authz(), "ec2": network.Authz()}, Store: st})
			authorizer.Register("route53", w.dns.Module().Resolver)
			return []awsapi.Service{users.AWS(), network.AWS(), w.dns.AWS()}
		},
		Lookup: func(ctx context.Context, key, _ string) (sigv4.Credential, error) {
			secret, p, err := users.LookupAccessKey(ctx, key)
			if err != nil {
				return sigv4.Credential{}, sigv4.ErrUnknownKey
			}
			return sigv4.Credential{SecretKey: secret, Principal: p}, nil
		},
		AuthorizeInput: func(ctx context.Context, call *awsapi.Call, in any) error { return authorizer.Authorize(ctx, call, in) },
	})
	return w
}

// An account is an AWS account with clients of its root user.
type account struct {
	t  testing.TB
	w  *world
	c  *awsroute53.Client
	id string
}

func (w *world) account(t testing.TB) *account {
	id := w.Account(t)
	return &account{t, w, awsroute53.NewFromConfig(w.AWSConfig(id)), id}
}

// user creates a user with an inline policy.
func (a *account) user(name, policy string) *awsroute53.Client {
	a.t.Helper()
	c := awsiam.NewFromConfig(a.w.AWSConfig(a.id))
	testkit.Must(c.CreateUser(a.t.Context(), &awsiam.CreateUserInput{UserName: &name}))(a.t)
	testkit.Must(c.PutUserPolicy(a.t.Context(), &awsiam.PutUserPolicyInput{UserName: &name, PolicyName: aws.String("p"), PolicyDocument: &policy}))(a.t)
	k := testkit.Must(c.CreateAccessKey(a.t.Context(), &awsiam.CreateAccessKeyInput{UserName: &name}))(a.t).AccessKey
	return awsroute53.NewFromConfig(a.w.AWSConfigWith(credentials.NewStaticCredentialsProvider(*k.AccessKeyId, *k.SecretAccessKey, "")))
}

func (a *account) vpc(cidr string) *route53types.VPC {
	a.t.Helper()
	out := testkit.Must(awsec2.NewFromConfig(a.w.AWSConfig(a.id)).CreateVpc(a.t.Context(), &awsec2.CreateVpcInput{CidrBlock: &cidr}))(a.t)
	return &route53types.VPC{VPCId: out.Vpc.VpcId, VPCRegion: testkit.Region}
}

// zone creates a zone, which is private if it has a VPC.
func (a *account) zone(name string, vpc *route53types.VPC) string {
	a.t.Helper()
	out := testkit.Must(a.c.CreateHostedZone(a.t.Context(), &awsroute53.CreateHostedZoneInput{Name: &name, CallerReference: aws.String(rand(a.t)), VPC: vpc}))(a.t)
	return strings.TrimPrefix(*out.HostedZone.Id, "/hostedzone/")
}

var serial int

func rand(testing.TB) string {
	serial++
	return fmt.Sprint("reference ", serial)
}

// change makes changes that are written as "ACTION TYPE NAME VALUE,VALUE", with ;alias for an alias.
func (a *account) change(zone string, lines ...string) error {
	a.t.Helper()
	return changeAs(a.t, a.c, zone, lines...)
}

func changeAs(t testing.TB, c *awsroute53.Client, zone string, lines ...string) error {
	t.Helper()
	batch := &route53types.ChangeBatch{}
	for _, l := range lines {
		f := strings.SplitN(l, " ", 4)
		set := &route53types.ResourceRecordSet{Type: route53types.RRType(f[1]), Name: &f[2]}
		if target, ok := strings.CutPrefix(f[3], "alias:"); ok {
			id, name, _ := strings.Cut(target, ":")
			set.AliasTarget = &route53types.AliasTarget{HostedZoneId: &id, DNSName: &name}
		} else {
			set.TTL = aws.Int64(300)
			for v := range strings.SplitSeq(f[3], ",") {
				set.ResourceRecords = append(set.ResourceRecords, route53types.ResourceRecord{Value: &v})
			}
		}
		batch.Changes = append(batch.Changes, route53types.Change{Action: route53types.ChangeAction(f[0]), ResourceRecordSet: set})
	}
	_, err := c.ChangeResourceRecordSets(t.Context(), &awsroute53.ChangeResourceRecordSetsInput{HostedZoneId: &zone, ChangeBatch: batch})
	return err
}

// records lists the record sets of a zone as "TYPE NAME VALUE,VALUE", without NS and SOA.
func (a *account) records(zone string, size int32) string {
	a.t.Helper()
	var out []string
	p := awsroute53.NewListResourceRecordSetsPaginator(a.c, &awsroute53.ListResourceRecordSetsInput{HostedZoneId: &zone, MaxItems: &size})
	for p.HasMorePages() {
		for _, s := range testkit.Must(p.NextPage(a.t.Context()))(a.t).ResourceRecordSets {
			if s.Type == route53types.RRTypeNs || s.Type == route53types.RRTypeSoa {
				continue
			}
			var values []string
			for _, r := range s.ResourceRecords {
				values = append(values, *r.Value)
			}
			if s.AliasTarget != nil {
				values = []string{"alias:" + *s.AliasTarget.DNSName}
			}
			out = append(out, string(s.Type)+" "+*s.Name+" "+strings.Join(values, ","))
		}
	}
	return strings.Join(out, "\n")
}

func TestZones(t *testing.T) {
	w := newWorld(t)
	a := w.account(t)
	ctx, c := t.Context(), a.c
	made := testkit.Must(c.CreateHostedZone(ctx, &awsroute53.CreateHostedZoneInput{
		Name: aws.String("Shop.Example.com"), CallerReference: aws.String("once"), HostedZoneConfig: &route53types.HostedZoneConfig{Comment: aws.String("the shop")},
	}))(t)
	id := strings.TrimPrefix(*made.HostedZone.Id, "/hostedzone/")
	if *made.HostedZone.Name != "shop.example.com." || *made.HostedZone.ResourceRecordSetCount != 2 || len(made.DelegationSet.NameServers) != 4 || made.ChangeInfo.Status != "PENDING" ||
		*made.Location != "https://route53.amazonaws.com/2013-04-01/hostedzone/"+id {
		t.Errorf("created %+v", made)
	}
	if err := awsroute53.NewResourceRecordSetsChangedWaiter(c).Wait(ctx, &awsroute53.GetChangeInput{Id: made.ChangeInfo.Id}, time.Minute); err != nil {
		t.Error(err)
	}
	got := testkit.Must(c.GetHostedZone(ctx, &awsroute53.GetHostedZoneInput{Id: made.HostedZone.Id}))(t)
	if *got.HostedZone.Config.Comment != "the shop" || got.HostedZone.Config.PrivateZone || len(got.DelegationSet.NameServers) != 4 || len(got.VPCs) != 0 {
		t.Errorf("zone %+v", got)
	}
	b := a.zone("a.example.org", nil)
	list := testkit.Must(c.ListHostedZonesByName(ctx, &awsroute53.ListHostedZonesByNameInput{}))(t).HostedZones
	if len(list) != 2 || *list[0].Name != "shop.example.com." || *list[1].Name != "a.example.org." {
		t.Errorf("by name: %+v", list)
	}
	if list := testkit.Must(c.ListHostedZonesByName(ctx, &awsroute53.ListHostedZonesByNameInput{DNSName: aws.String("example.org")}))(t).HostedZones; len(list) != 1 || *list[0].Id != "/hostedzone/"+b {
		t.Errorf("from example.org on: %+v", list)
	}
	p, n := awsroute53.NewListHostedZonesPaginator(c, &awsroute53.ListHostedZonesInput{MaxItems: aws.Int32(1)}), 0
	for p.HasMorePages() {
		n += len(testkit.Must(p.NextPage(ctx))(t).HostedZones)
	}
	if count := *testkit.Must(c.GetHostedZoneCount(ctx, &awsroute53.GetHostedZoneCountInput{}))(t).HostedZoneCount; n != 2 || count != 2 {
		t.Errorf("%d zones on pages, %d counted", n, count)
	}
	if s := testkit.Must(c.GetDNSSEC(ctx, &awsroute53.GetDNSSECInput{HostedZoneId: &id}))(t).Status; *s.ServeSignature != "NOT_SIGNING" {
		t.Errorf("DNSSEC %+v", s)
	}
	testkit.Must(c.UpdateHostedZoneComment(ctx, &awsroute53.UpdateHostedZoneCommentInput{Id: &id}))(t)
	if got := testkit.Must(c.GetHostedZone(ctx, &awsroute53.GetHostedZoneInput{Id: &id}))(t); got.HostedZone.Config.Comment != nil {
		t.Errorf("comment %q", *got.HostedZone.Config.Comment)
	}

	tag := func(k, v string) route53types.Tag { return route53types.Tag{Key: &k, Value: &v} }
	testkit.Must(c.ChangeTagsForResource(ctx, &awsroute53.ChangeTagsForResourceInput{ResourceType: "hostedzone", ResourceId: &id, AddTags: []route53types.Tag{tag("a", "1"), tag("b", "2")}}))(t)
	testkit.Must(c.ChangeTagsForResource(ctx, &awsroute53.ChangeTagsForResourceInput{ResourceType: "hostedzone", ResourceId: &id, RemoveTagKeys: []string{"a"}}))(t)
	sets := testkit.Must(c.ListTagsForResources(ctx, &awsroute53.ListTagsForResourcesInput{ResourceType: "hostedzone", ResourceIds: []string{id, b}}))(t).ResourceTagSets
	if len(sets) != 2 || len(sets[0].Tags) != 1 || *sets[0].Tags[0].Key != "b" || *sets[0].ResourceId != id || len(sets[1].Tags) != 0 {
		t.Errorf("tags %+v", sets)
	}
	if r := w.dns.Module().Tagging.Resources(a.id, "us-east-1"); len(r) != 2 {
		t.Errorf("taggable %+v", r)
	}

	for _, tt := range []struct{ name, reference, code, text string }{
		{"b.example.org", "once", "HostedZoneAlreadyExists", "A hosted zone has already been created with the specified caller reference."},
		{"example.com", "new", "InvalidDomainName", "example.com is reserved by AWS!"},
		{"a..example.org", "new", "InvalidDomainName", "FATAL problem: DomainLabelEmpty (Domain label is empty) encountered with 'a..example.org'"},
		{"a b.example.org", "new", "InvalidDomainName", "FATAL problem: UnsupportedCharacter (Value contains unsupported characters) encountered with ' '"},
	} {
		_, err := c.CreateHostedZone(ctx, &awsroute53.CreateHostedZoneInput{Name: &tt.name, CallerReference: &tt.reference})
		testkit.WantError(t, err, tt.code, tt.text)
	}
	_, err := c.CreateHostedZone(ctx, &awsroute53.CreateHostedZoneInput{Name: aws.String("x.internal"), CallerReference: aws.String("new"), HostedZoneConfig: &route53types.HostedZoneConfig{PrivateZone: true}})
	testkit.WantErrorWith(t, err, "InvalidInput", "you must also specify values for VPCId and VPCRegion")
	_, err = c.GetHostedZone(ctx, &awsroute53.GetHostedZoneInput{Id: aws.String("Z00NONE")})
	testkit.WantError(t, err, "NoSuchHostedZone", "No hosted zone found with ID: Z00NONE")
	_, err = c.GetChange(ctx, &awsroute53.GetChangeInput{Id: aws.String("C00NONE")})
	testkit.WantError(t, err, "NoSuchChange", "Could not find resource with Change ID: C00NONE")
	_, err = w.account(t).c.GetHostedZone(ctx, &awsroute53.GetHostedZoneInput{Id: &id})
	testkit.WantErrorWith(t, err, "NoSuchHostedZone", id)

	if err := a.change(id, "CREATE A www.shop.example.com 192.0.2.1"); err != nil {
		t.Fatal(err)
	}
	_, err = c.DeleteHostedZone(ctx, &awsroute53.DeleteHostedZoneInput{Id: &id})
	testkit.WantError(t, err, "HostedZoneNotEmpty", "The specified hosted zone contains non-required resource record sets and so cannot be deleted.")
	if err := a.change(id, "DELETE A www.shop.example.com 192.0.2.1"); err != nil {
		t.Fatal(err)
	}
	testkit.Must(c.DeleteHostedZone(ctx, &awsroute53.DeleteHostedZoneInput{Id: &id}))(t)
	// Changes are kept for a day.
	w.clock.Step(25 * time.Hour)
	testkit.Must(c.DeleteHostedZone(ctx, &awsroute53.DeleteHostedZoneInput{Id: &b}))(t)
	_, err = c.GetChange(ctx, &awsroute53.GetChangeInput{Id: made.ChangeInfo.Id})
	testkit.WantErrorWith(t, err, "NoSuchChange", "Could not find")
}

// Batches of changes, each applied to the zone as the previous ones left it, with the error texts that ExternalDNS and
// Terraform show.
func TestChanges(t *testing.T) {
	w := newWorld(t)
	a := w.account(t)
	zone, other := a.zone("shop.test", nil), a.zone("other.test", nil)
	for _, tt := range []struct {
		batch []string
		code  string
		want  string // the error, or nothing
	}{
		{[]string{"CREATE A www.shop.test 192.0.2.1,192.0.2.2", "CREATE TXT www.shop.test \"heritage=external-dns\""}, "", ""},
		{[]string{"CREATE A WWW.shop.test. 192.0.2.3"}, "InvalidChangeBatch", "[Tried to create resource record set [name='www.shop.test.', type='A'] but it already exists]"},
		{[]string{"UPSERT A www.shop.test 192.0.2.3", "CREATE A *.shop.test 192.0.2.4"}, "", ""},
		{[]string{"DELETE A no.shop.test 192.0.2.3", "DELETE A www.shop.test 192.0.2.9"}, "InvalidChangeBatch",
			"[Tried to delete resource record set [name='no.shop.test.', type='A'] but it was not found, Tried to delete resource record set [name='www.shop.test.', type='A'] but the values provided do not match the current values]"},
		{[]string{"CREATE CNAME www.shop.test x.test"}, "InvalidChangeBatch", "[RRSet of type CNAME with DNS name www.shop.test. is not permitted as it conflicts with other records with the same DNS name in zone shop.test.]"},
		{[]string{"CREATE CNAME cdn.shop.test x.test"}, "", ""},
		{[]string{"CREATE A cdn.shop.test 192.0.2.1"}, "InvalidChangeBatch", "[RRSet of type A with DNS name cdn.shop.test. is not permitted because a conflicting RRSet of type CNAME with the same DNS name already exists in zone shop.test.]"},
		{[]string{"DELETE CNAME cdn.shop.test x.test", "CREATE A cdn.shop.test 192.0.2.1"}, "", ""},
		{[]string{"CREATE CNAME shop.test x.test"}, "InvalidChangeBatch", "[RRSet of type CNAME with DNS name shop.test. is not permitted at apex in zone shop.test.]"},
		{[]string{"CREATE A www.other.test 192.0.2.1"}, "InvalidChangeBatch", "[RRSet with DNS name www.other.test. is not permitted in zone shop.test.]"},
		{[]string{"CREATE A wrong.shop.test 192.0.2.300"}, "InvalidChangeBatch", "[Invalid Resource Record: 'FATAL problem: ARRDATAIllegalIPv4Address (Value is not a valid IPv4 address) encountered with '192.0.2.300'']"},
		{[]string{"CREATE TXT txt.shop.test v=spf1"}, "InvalidChangeBatch", "[Invalid Resource Record: 'FATAL problem: InvalidCharacterString (Value should be enclosed in quotation marks) encountered with 'v=spf1'']"},
		{[]string{"CREATE TXT txt.shop.test \"" + strings.Repeat("x", 256) + "\""}, "InvalidChangeBatch",
			"[Invalid Resource Record: 'FATAL problem: CharacterStringTooLong (Value is too long) encountered with '\"" + strings.Repeat("x", 256) + "\"'']"},
		{[]string{"CREATE TXT txt.shop.test \"" + strings.Repeat("x", 255) + "\" \"y\"", "CREATE MX shop.test 10 mail.shop.test", "CREATE SRV _s._tcp.shop.test 1 2 3 www.shop.test", "CREATE CAA shop.test 0 issue \"amazon.com\"", "CREATE AAAA www.shop.test 2001:db8::1"}, "", ""},
		{[]string{`CREATE A a\040b\344.shop.test 192.0.2.9`}, "", ""}, // a space and a non-ASCII character
		{[]string{"DELETE A \\052.shop.test 192.0.2.4", `CREATE A \052.shop.test 192.0.2.4`}, "", ""},
		{[]string{"UPSERT A a.shop.test 192.0.2.1", "UPSERT A a.shop.test 192.0.2.2"}, "InvalidChangeBatch", "[The request contains an invalid set of changes for a resource record set 'A a.shop.test.']"},
		{[]string{"CREATE A alias.shop.test alias:" + zone + ":www.shop.test", "CREATE A lb.shop.test alias:Z35SXDOTRQ7X7K:dualstack.LB-1.us-east-1.elb.amazonaws.com"}, "", ""},
		{[]string{"CREATE A alias2.shop.test alias:" + zone + ":none.shop.test"}, "InvalidChangeBatch", "[Tried to create an alias that targets none.shop.test., type A in zone " + zone + ", but that target was not found]"},
		{[]string{"CREATE A alias2.shop.test alias:" + other + ":www.other.test"}, "InvalidChangeBatch", "[Tried to create an alias that targets www.other.test., type A in zone " + other + ", but the alias target name does not lie within the target zone]"},
		{[]string{"CREATE A alias2.shop.test alias:Z35SXDOTRQ7X7K:www.shop.test"}, "InvalidChangeBatch", "[Tried to create an alias that targets www.shop.test., type A in zone Z35SXDOTRQ7X7K, but the alias target name does not lie within the target zone]"},
		{[]string{"DELETE AAAA www.shop.test 2001:db8::1", "DELETE TXT txt.shop.test none"}, "InvalidChangeBatch", "[Tried to delete resource record set [name='txt.shop.test.', type='TXT'] but the values provided do not match the current values]"},
	} {
		err := a.change(zone, tt.batch...)
		if tt.code == "" && err != nil {
			t.Errorf("%q: %v", tt.batch, err)
		} else if tt.code != "" {
			testkit.WantError(t, err, tt.code, tt.want)
		}
	}
	// A refused batch changes nothing. Names are sorted by their labels, last to first.
	want := strings.TrimSpace(`
CAA shop.test. 0 issue "amazon.com"
MX shop.test. 10 mail.shop.test
A \052.shop.test. 192.0.2.4
SRV _s._tcp.shop.test. 1 2 3 www.shop.test
A a\040b\344.shop.test. 192.0.2.9
A alias.shop.test. alias:www.shop.test.
A cdn.shop.test. 192.0.2.1
A lb.shop.test. alias:dualstack.lb-1.us-east-1.elb.amazonaws.com.
TXT txt.shop.test. "` + strings.Repeat("x", 255) + `" "y"
A www.shop.test. 192.0.2.3
AAAA www.shop.test. 2001:db8::1
TXT www.shop.test. "heritage=external-dns"`)
	if got := a.records(zone, 2); got != want {
		t.Errorf("records:\n%s\nwant:\n%s", got, want)
	}
	if n := *testkit.Must(a.c.GetHostedZone(t.Context(), &awsroute53.GetHostedZoneInput{Id: &zone}))(t).HostedZone.ResourceRecordSetCount; n != 14 {
		t.Errorf("%d record sets", n)
	}

	set := func(fn func(*route53types.ResourceRecordSet)) error {
		s := &route53types.ResourceRecordSet{Name: aws.String("w.shop.test"), Type: "A", TTL: aws.Int64(60), ResourceRecords: []route53types.ResourceRecord{{Value: aws.String("192.0.2.1")}}}
		fn(s)
		_, err := a.c.ChangeResourceRecordSets(t.Context(), &awsroute53.ChangeResourceRecordSetsInput{HostedZoneId: &zone, ChangeBatch: &route53types.ChangeBatch{Changes: []route53types.Change{{Action: "CREATE", ResourceRecordSet: s}}}})
		return err
	}
	err := set(func(s *route53types.ResourceRecordSet) { s.TTL, s.ResourceRecords = nil, nil })
	testkit.WantError(t, err, "InvalidInput", "Invalid request: Expected exactly one of [AliasTarget, all of [TTL, and ResourceRecords], or TrafficPolicyInstanceId], but found none in Change with [Action=CREATE, Name=w.shop.test, Type=A, SetIdentifier=null]")
	err = set(func(s *route53types.ResourceRecordSet) { s.TTL = nil })
	testkit.WantErrorWith(t, err, "InvalidInput", "Missing field 'TTL' in Change with")
	err = set(func(s *route53types.ResourceRecordSet) { s.Weight = aws.Int64(1) })
	testkit.WantErrorWith(t, err, "InvalidInput", "Missing field 'SetIdentifier' in Change with")
	err = set(func(s *route53types.ResourceRecordSet) { s.HealthCheckId = aws.String("x") })
	testkit.WantErrorWith(t, err, "NotImplemented", "HealthCheckId")
	weighted := func(id string, weight int64) error {
		return set(func(s *route53types.ResourceRecordSet) { s.SetIdentifier, s.Weight = &id, &weight })
	}
	if err := weighted("one", 1); err != nil {
		t.Error(err)
	}
	if err := weighted("two", 9); err != nil {
		t.Error(err)
	}
	err = set(func(s *route53types.ResourceRecordSet) { s.SetIdentifier, s.Region = aws.String("here"), "us-east-1" })
	testkit.WantErrorWith(t, err, "InvalidChangeBatch", "[RRSet with DNS name w.shop.test., type A, SetIdentifier here, and Region Name=us-east-1 cannot be created because a non-latency RRSet with the same name and type already exists.]")
	err = set(func(*route53types.ResourceRecordSet) {})
	testkit.WantErrorWith(t, err, "InvalidChangeBatch", "cannot be created as other RRSets exist with the same name and type.")

	apex := testkit.Must(a.c.ListResourceRecordSets(t.Context(), &awsroute53.ListResourceRecordSetsInput{HostedZoneId: &other}))(t).ResourceRecordSets
	_, err = a.c.ChangeResourceRecordSets(t.Context(), &awsroute53.ChangeResourceRecordSetsInput{HostedZoneId: &other, ChangeBatch: &route53types.ChangeBatch{Changes: []route53types.Change{{Action: "DELETE", ResourceRecordSet: &apex[1]}}}})
	testkit.WantError(t, err, "InvalidChangeBatch", "[A HostedZone must contain exactly one SOA record.]")
}

// A batch of the largest size is one transaction.
func TestLargeBatch(t *testing.T) {
	a := newWorld(t).account(t)
	zone := a.zone("large.test", nil)
	var lines []string
	for i := range 1000 {
		lines = append(lines, fmt.Sprintf("CREATE A n%d.large.test 192.0.2.%d", i, i%250))
	}
	if err := a.change(zone, lines...); err != nil {
		t.Fatal(err)
	}
	if n := strings.Count(a.records(zone, 300)+"\n", "\n"); n != 1000 {
		t.Errorf("%d records", n)
	}
	testkit.WantErrorWith(t, a.change(zone, append(lines, "CREATE A x.large.test 192.0.2.1")...), "InvalidChangeBatch", "[Number of records limit of 1000 exceeded.]")
	var twice []string
	for _, l := range lines[:501] {
		twice = append(twice, strings.Replace(l, "CREATE", "UPSERT", 1))
	}
	testkit.WantErrorWith(t, a.change(zone, twice...), "InvalidChangeBatch", "[Number of records limit of 1000 exceeded.]")
	lines = nil
	for i := range 130 {
		lines = append(lines, fmt.Sprintf("CREATE TXT t%d.large.test %q", i, strings.Repeat("x", 250)))
	}
	testkit.WantErrorWith(t, a.change(zone, lines...), "InvalidChangeBatch", "[RDATA character limit of 32000 exceeded.]")
}

func TestPrivateZones(t *testing.T) {
	w := newWorld(t)
	a, friend := w.account(t), w.account(t)
	ctx, c := t.Context(), a.c
	one, two, theirs := a.vpc("10.1.0.0/16"), a.vpc("10.2.0.0/16"), friend.vpc("10.3.0.0/16")
	zone := a.zone("corp.internal", one)
	got := testkit.Must(c.GetHostedZone(ctx, &awsroute53.GetHostedZoneInput{Id: &zone}))(t)
	if !got.HostedZone.Config.PrivateZone || got.DelegationSet != nil || len(got.VPCs) != 1 || *got.VPCs[0].VPCId != *one.VPCId {
		t.Errorf("zone %+v", got)
	}
	_, err := c.CreateHostedZone(ctx, &awsroute53.CreateHostedZoneInput{Name: aws.String("corp.internal"), CallerReference: aws.String("x"), VPC: one})
	testkit.WantError(t, err, "ConflictingDomainExists", "The VPC that you chose, "+*one.VPCId+" in region us-east-1, is already associated with another private hosted zone that has an overlapping name space, corp.internal..")
	_, err = c.CreateHostedZone(ctx, &awsroute53.CreateHostedZoneInput{Name: aws.String("corp.internal"), CallerReference: aws.String("x"), VPC: &route53types.VPC{VPCId: aws.String("vpc-0123456789abcdef0"), VPCRegion: "us-east-1"}})
	testkit.WantErrorWith(t, err, "InvalidVPCId", "The VPC ID is invalid.")
	associate := func(c *awsroute53.Client, zone string, vpc *route53types.VPC) error {
		_, err := c.AssociateVPCWithHostedZone(ctx, &awsroute53.AssociateVPCWithHostedZoneInput{HostedZoneId: &zone, VPC: vpc})
		return err
	}
	leave := func(c *awsroute53.Client, vpc *route53types.VPC) error {
		_, err := c.DisassociateVPCFromHostedZone(ctx, &awsroute53.DisassociateVPCFromHostedZoneInput{HostedZoneId: &zone, VPC: vpc})
		return err
	}
	testkit.WantError(t, leave(c, one), "LastVPCAssociation", "Cannot remove last VPC association for the private zone")
	testkit.WantErrorWith(t, leave(c, two), "VPCAssociationNotFound", *two.VPCId)
	if err := associate(c, zone, two); err != nil {
		t.Error(err)
	}
	testkit.WantErrorWith(t, associate(c, zone, two), "ConflictingDomainExists", *two.VPCId)
	public := a.zone("public.test", nil)
	testkit.WantError(t, associate(c, public, two), "PublicZoneVPCAssociation", "Attempting to associate public zone: "+public+" with vpc: "+*two.VPCId)

	// Another account's VPC must be authorized.
	testkit.WantErrorWith(t, associate(friend.c, zone, theirs), "NotAuthorizedException", *theirs.VPCId)
	testkit.WantErrorWith(t, associate(c, zone, theirs), "InvalidVPCId", "The VPC ID is invalid.")
	testkit.Must(c.CreateVPCAssociationAuthorization(ctx, &awsroute53.CreateVPCAssociationAuthorizationInput{HostedZoneId: &zone, VPC: theirs}))(t)
	if l := testkit.Must(c.ListVPCAssociationAuthorizations(ctx, &awsroute53.ListVPCAssociationAuthorizationsInput{HostedZoneId: &zone}))(t).VPCs; len(l) != 1 {
		t.Errorf("authorized %+v", l)
	}
	if err := associate(friend.c, zone, theirs); err != nil {
		t.Error(err)
	}
	testkit.Must(c.DeleteVPCAssociationAuthorization(ctx, &awsroute53.DeleteVPCAssociationAuthorizationInput{HostedZoneId: &zone, VPC: theirs}))(t)
	_, err = c.DeleteVPCAssociationAuthorization(ctx, &awsroute53.DeleteVPCAssociationAuthorizationInput{HostedZoneId: &zone, VPC: theirs})
	testkit.WantErrorWith(t, err, "VPCAssociationAuthorizationNotFound", "not authorized")
	l := testkit.Must(friend.c.ListHostedZonesByVPC(ctx, &awsroute53.ListHostedZonesByVPCInput{VPCId: theirs.VPCId, VPCRegion: theirs.VPCRegion}))(t).HostedZoneSummaries
	if len(l) != 1 || *l[0].HostedZoneId != zone || *l[0].Owner.OwningAccount != a.id {
		t.Errorf("zones of the VPC: %+v", l)
	}
	if err := leave(friend.c, theirs); err != nil {
		t.Error(err)
	}
	testkit.WantErrorWith(t, leave(friend.c, one), "NoSuchHostedZone", zone)

	// The user must be allowed to see the VPC.
	half := a.user("half", `{"Statement":{"Effect":"Allow","Action":"route53:*","Resource":"*"}}`)
	_, err = half.CreateHostedZone(ctx, &awsroute53.CreateHostedZoneInput{Name: aws.String("new.internal"), CallerReference: aws.String("y"), VPC: one})
	testkit.WantErrorWith(t, err, "AccessDenied", "ec2:DescribeVpcs")
}

// The zones that Zones returns resolve as their records say.
func TestZonesResolve(t *testing.T) {
	w := newWorld(t)
	a := w.account(t)
	vpc := a.vpc("10.1.0.0/16")
	zone := a.zone("corp.internal", vpc)
	if err := a.change(zone, "CREATE A db.corp.internal 10.1.0.5,10.1.0.6", "CREATE CNAME www.corp.internal db.corp.internal", "CREATE A *.apps.corp.internal 10.1.0.7",
		"CREATE A lb.corp.internal alias:Z35SXDOTRQ7X7K:dualstack.lb-1.us-east-1.elb.amazonaws.com", "CREATE TXT db.corp.internal \"x\""); err != nil {
		t.Fatal(err)
	}
	weighted := func(id string, weight int64, value string) route53types.Change {
		return route53types.Change{Action: "CREATE", ResourceRecordSet: &route53types.ResourceRecordSet{
			Name: aws.String("w.corp.internal"), Type: "A", TTL: aws.Int64(60), SetIdentifier: &id, Weight: &weight, ResourceRecords: []route53types.ResourceRecord{{Value: &value}},
		}}
	}
	testkit.Must(a.c.ChangeResourceRecordSets(t.Context(), &awsroute53.ChangeResourceRecordSetsInput{HostedZoneId: &zone, ChangeBatch: &route53types.ChangeBatch{Changes: []route53types.Change{
		weighted("a", 1, "10.1.0.1"), weighted("b", 9, "10.1.0.9"), weighted("c", 2, "10.1.0.2"),
	}}}))(t)
	resolve := func(name string) string {
		draft := reach.New("us-east-1").Edit()
		draft.Put(&reach.VPC{ID: *vpc.VPCId, DNSSupport: true, DNSHostnames: true})
		for _, z := range w.dns.Zones("us-east-1") {
			draft.Put(z)
		}
		r := draft.Snapshot().Resolve(reach.At(*vpc.VPCId), name)
		if r.Explanation != nil {
			return r.Explanation.Text
		}
		return fmt.Sprint(r.Addresses)
	}
	for name, want := range map[string]string{
		"db.corp.internal": "[10.1.0.5 10.1.0.6]", "WWW.corp.internal.": "[10.1.0.5 10.1.0.6]", "x.apps.corp.internal": "[10.1.0.7]", "w.corp.internal": "[10.1.0.9]",
		"none.corp.internal": "none.corp.internal has no address in the private hosted zone " + zone + " (corp.internal)",
	} {
		if got := resolve(name); got != want {
			t.Errorf("%s: %s, want %s", name, got, want)
		}
	}
	// A change is visible at once, and other regions do not have the zone.
	if err := a.change(zone, "UPSERT A db.corp.internal 10.1.0.8"); err != nil {
		t.Fatal(err)
	}
	if got := resolve("www.corp.internal"); got != "[10.1.0.8]" {
		t.Errorf("after the change: %s", got)
	}
	if l := w.dns.Zones("eu-west-1"); len(l) != 0 {
		t.Errorf("zones of eu-west-1: %+v", l)
	}
}

// The policies that ExternalDNS and cert-manager recommend, narrowed by names, types and actions.
// https://docs.aws.amazon.com/Route53/latest/DeveloperGuide/specifying-conditions-route53.html
func TestAuthorization(t *testing.T) {
	w := newWorld(t)
	a := w.account(t)
	zone, other := a.zone("shop.test", nil), a.zone("other.test", nil)
	c := a.user("solver", `{"Statement":[{"Effect":"Allow","Action":"route53:GetChange","Resource":"arn:aws:route53:::change/*"},
		{"Effect":"Allow","Action":"route53:ChangeResourceRecordSets","Resource":"arn:aws:route53:::hostedzone/`+zone+`","Condition":{
			"ForAllValues:StringLike":{"route53:ChangeResourceRecordSetsNormalizedRecordNames":["_acme-challenge.*"]},
			"ForAllValues:StringEquals":{"route53:ChangeResourceRecordSetsRecordTypes":["TXT"],"route53:ChangeResourceRecordSetsActions":["CREATE","UPSERT"]}}},
		{"Effect":"Allow","Action":"route53:ListHostedZonesByName","Resource":"*"}]}`)
	if err := changeAs(t, c, zone, "UPSERT TXT _ACME-challenge.shop.test. \"x\""); err != nil {
		t.Error(err)
	}
	denied := func(zone string, line string) {
		t.Helper()
		testkit.WantErrorWith(t, changeAs(t, c, zone, line), "AccessDenied", "route53:ChangeResourceRecordSets on resource: arn:aws:route53:::hostedzone/"+zone)
	}
	denied(zone, "UPSERT TXT www.shop.test \"x\"")
	denied(zone, "UPSERT A _acme-challenge.shop.test 192.0.2.1")
	denied(zone, "DELETE TXT _acme-challenge.shop.test \"x\"")
	denied(other, "UPSERT TXT _acme-challenge.other.test \"x\"")
	ctx := t.Context()
	testkit.Must(c.ListHostedZonesByName(ctx, &awsroute53.ListHostedZonesByNameInput{}))(t)
	_, err := c.GetChange(ctx, &awsroute53.GetChangeInput{Id: aws.String("C1")})
	testkit.WantErrorWith(t, err, "NoSuchChange", "C1")
	_, err = c.ListTagsForResource(ctx, &awsroute53.ListTagsForResourceInput{ResourceType: "hostedzone", ResourceId: &zone})
	testkit.WantErrorWith(t, err, "AccessDenied", "route53:ListTagsForResource on resource: arn:aws:route53:::hostedzone/"+zone)

	vpcs := a.user("private", `{"Statement":[{"Effect":"Allow","Action":"ec2:DescribeVpcs","Resource":"*"},
		{"Effect":"Allow","Action":"route53:CreateHostedZone","Resource":"*","Condition":{"StringLike":{"route53:VPCs":"VPCId=*,VPCRegion=us-east-1"}}}]}`)
	testkit.Must(vpcs.CreateHostedZone(ctx, &awsroute53.CreateHostedZoneInput{Name: aws.String("corp.internal"), CallerReference: aws.String("1"), VPC: a.vpc("10.1.0.0/16")}))(t)
	_, err = vpcs.CreateHostedZone(ctx, &awsroute53.CreateHostedZoneInput{Name: aws.String("public.test"), CallerReference: aws.String("2")})
	testkit.WantErrorWith(t, err, "AccessDenied", "route53:CreateHostedZone")
}
