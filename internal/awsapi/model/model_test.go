package model_test

import (
	"strings"
	"testing"

	"github.com/drydock-dev/drydock/internal/awsapi/model"
	"github.com/drydock-dev/drydock/internal/awsapi/model/botocore"
)

func get(t testing.TB, name string) *model.Service {
	t.Helper()
	svc, err := model.Get(name)
	if err != nil {
		t.Fatal(err)
	}
	return svc
}

func TestEveryModelParses(t *testing.T) {
	names := model.Names()
	if len(names) != 31 {
		t.Errorf("%d models: %v", len(names), names)
	}
	operations := 0
	for _, name := range names {
		svc := get(t, name)
		operations += len(svc.Operations)
		if svc.Name != name || svc.Package != botocore.PackageOf(name) || svc.ServiceID == "" || svc.SigningName == "" || svc.APIVersion == "" {
			t.Errorf("%s: incomplete metadata: %+v", name, svc)
		}
		if svc.Protocol == model.ProtocolJSON && (svc.TargetPrefix == "" || svc.JSONVersion == "") {
			t.Errorf("%s: a JSON service needs a target prefix and a version", name)
		}
		if svc.XMLNamespace == "" && !strings.Contains(svc.Protocol, "json") {
			t.Errorf("%s: an XML service needs a namespace", name)
		}
		for opName, op := range svc.Operations {
			if op.Service != svc || op.Name != opName || op.Method == "" || op.URI == "" || op.Status == 0 {
				t.Errorf("%s.%s: incomplete: %+v", name, opName, op)
			}
		}
	}
	if operations != 2349 {
		t.Errorf("%d operations", operations)
	}
}

func TestGetTakesSDKPackageNames(t *testing.T) {
	for pkg, name := range map[string]string{"elasticloadbalancingv2": "elbv2", "eventbridge": "events", "eksauth": "eks-auth", "eks": "eks"} {
		if svc := get(t, pkg); svc.Name != name {
			t.Errorf("%s is %s", pkg, svc.Name)
		}
	}
	if _, err := model.Get("dynamodb"); err == nil {
		t.Error("there is a model of dynamodb")
	}
}

func TestMatchREST(t *testing.T) {
	for _, c := range []struct{ service, method, path, query, want string }{
		{"eks", "POST", "/clusters", "", "CreateCluster"},
		{"eks", "GET", "/clusters", "maxResults=1", "ListClusters"},
		{"eks", "GET", "/clusters/", "", "ListClusters"},
		{"eks", "GET", "/clusters/dev", "", "DescribeCluster"},
		{"eks", "GET", "/clusters/a%2Fb", "", "DescribeCluster"},
		{"eks", "DELETE", "/clusters/dev/node-groups/ng", "", "DeleteNodegroup"},
		{"eks", "GET", "/clusters/dev/access-entries/arn%3Aaws%3Aiam%3A%3A1%3Arole%2Fr/access-policies", "", "ListAssociatedAccessPolicies"},
		{"eks", "GET", "/tags/arn%3Aaws%3Aeks%3Aus-east-1%3A1%3Acluster%2Fdev", "", "ListTagsForResource"},
		{"eks", "GET", "/addons/supported-versions", "", "DescribeAddonVersions"},
		{"eks", "GET", "/cluster-versions", "", "DescribeClusterVersions"},
		{"eks", "PATCH", "/clusters", "", ""},
		{"eks", "GET", "/clusters/dev/", "", "DescribeCluster"},
		{"eks", "GET", "/clusters//node-groups", "", ""},
		{"eks", "GET", "/", "", ""},
		{"eks", "GET", "", "", ""},
		{"s3", "GET", "/", "", "ListBuckets"},
		{"s3", "GET", "/b", "", "ListObjects"},
		{"s3", "GET", "/b/", "list-type=2", "ListObjectsV2"},
		{"s3", "GET", "/b", "lifecycle", "GetBucketLifecycleConfiguration"},
		{"s3", "PUT", "/b/k/with/slashes/", "", "PutObject"},
		{"s3", "PUT", "/b/k", "partNumber=1&uploadId=u", "UploadPart"},
		{"s3", "PUT", "/b/k", "x-id=CopyObject", "CopyObject"},
		{"s3", "POST", "/b/k", "uploads", "CreateMultipartUpload"},
		{"s3", "GET", "/b/k", "uploadId=u", "ListParts"},
		{"route53", "POST", "/2013-04-01/hostedzone/Z1/rrset", "", "ChangeResourceRecordSets"},
		{"route53", "POST", "/2013-04-01/hostedzone/Z1/rrset/", "", "ChangeResourceRecordSets"},
		{"iam", "POST", "/", "", ""},
	} {
		t.Run(c.service+" "+c.method+" "+c.path+"?"+c.query, func(t *testing.T) {
			op, ok := get(t, c.service).MatchREST(c.method, c.path, c.query)
			got := ""
			if ok {
				got = op.Name
			}
			if got != c.want {
				t.Errorf("%q, want %q", got, c.want)
			}
		})
	}
}

func TestPathLabels(t *testing.T) {
	op := get(t, "eks").Operations["DescribeAccessEntry"]
	labels, ok := op.PathLabels("/clusters/dev/access-entries/arn%3Aaws%3Aiam%3A%3A1%3Arole%2Fa%2Fb")
	if !ok || labels["name"] != "dev" || labels["principalArn"] != "arn:aws:iam::1:role/a/b" {
		t.Errorf("%v %v", labels, ok)
	}
	if _, ok := op.PathLabels("/clusters/dev/access-entries/%zz"); ok {
		t.Error("a broken escape is accepted")
	}
	object := get(t, "s3").Operations["GetObject"]
	if labels, ok := object.PathLabels("/b/a//b%2Fc/"); !ok || labels["Key"] != "a//b/c/" {
		t.Errorf("%v %v", labels, ok)
	}
}

func TestErrorShape(t *testing.T) {
	iam := get(t, "iam")
	for _, code := range []string{"NoSuchEntity", "NoSuchEntityException"} {
		if s := iam.ErrorShape(code); s == nil || s.Code != "NoSuchEntity" || s.Status != 404 || !s.Exception {
			t.Errorf("%s: %+v", code, s)
		}
	}
	if s := iam.ErrorShape("Role"); s != nil {
		t.Errorf("Role is an exception: %+v", s)
	}
}

func TestQueryView(t *testing.T) {
	sqs := get(t, "sqs")
	v := sqs.Query()
	if v == nil || v.Protocol != model.ProtocolQuery || v.Operations["SendMessage"].Service != v {
		t.Fatalf("%+v", v)
	}
	if m := sqs.Operations["CreateQueue"].Input.Member("Attributes"); m.LocationName != "" {
		t.Errorf("the JSON model is changed: %+v", m)
	}
	if get(t, "ssm").Query() != nil {
		t.Error("ssm has a query view")
	}
}

func TestUnsignedOperations(t *testing.T) {
	sts := get(t, "sts")
	if !sts.Operations["AssumeRoleWithWebIdentity"].Unsigned || sts.Operations["AssumeRole"].Unsigned {
		t.Error("AssumeRoleWithWebIdentity is the unsigned one")
	}
}

func TestParseNamesTheBadLine(t *testing.T) {
	for data, want := range map[string]string{
		"":                                  "no metadata record",
		`{"metadata":{"name":"x"}}` + "\n{": "line 2: unexpected end of JSON input",
		`{"metadata":{"name":"x"}}` + "\n" + `{"operation":{"name":"A","input":"B"}}`: `model x: operation A: no shape "B"`,
	} {
		if _, err := model.Parse([]byte(data)); err == nil || err.Error() != want {
			t.Errorf("%q: %v, want %s", data, err, want)
		}
	}
}

func BenchmarkMatchREST(b *testing.B) {
	eks := get(b, "eks")
	b.ReportAllocs()
	for b.Loop() {
		if _, ok := eks.MatchREST("GET", "/clusters/dev/node-groups/ng", ""); !ok {
			b.Fatal("no match")
		}
	}
}

func BenchmarkParseEC2(b *testing.B) {
	data, err := model.Source("ec2")
	if err != nil {
		b.Fatal(err)
	}
	b.SetBytes(int64(len(data)))
	for b.Loop() {
		if _, err := model.Parse(data); err != nil {
			b.Fatal(err)
		}
	}
}
