package why

import (
	"fmt"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	awsiam "github.com/aws/aws-sdk-go-v2/service/iam"

	"github.com/drydock-dev/drydock/internal/awsapi"
	"github.com/drydock-dev/drydock/internal/service/eks"
	"github.com/drydock-dev/drydock/internal/service/iam"
	"github.com/drydock-dev/drydock/internal/store"
	"github.com/drydock-dev/drydock/internal/testkit"
)

// TestWhyServiceAccount shows what `drydock why serviceaccount` says of chains that
// hold and of each way in which they break.
func TestWhyServiceAccount(t *testing.T) {
	var x *Explainer
	s := testkit.NewServer(t, testkit.Config{Services: func(st *store.Store) []awsapi.Service {
		service := iam.New(iam.Config{Store: st})
		x = New(Config{IAM: service})
		return []awsapi.Service{service.AWS()}
	}})
	ctx, account := t.Context(), s.Account(t)
	client := awsiam.NewFromConfig(s.AWSConfig(account))
	const host = "oidc.eks.us-east-1.amazonaws.com/id/0123456789ABCDEF0123456789ABCDEF"
	role := func(name, trust string) string {
		t.Helper()
		out, err := client.CreateRole(ctx, &awsiam.CreateRoleInput{RoleName: &name, AssumeRolePolicyDocument: &trust})
		if err != nil {
			t.Fatal(err)
		}
		return *out.Role.Arn
	}
	federated := func(keys, subject string) string {
		return fmt.Sprintf(`{"Version":"2012-10-17","Statement":[{"Effect":"Allow","Principal":{"Federated":"arn:aws:iam::%s:oidc-provider/%s"},
			"Action":"sts:AssumeRoleWithWebIdentity","Condition":{"StringEquals":{"%s:sub":"%s","%s:aud":"sts.amazonaws.com"}}}]}`, account, host, keys, subject, keys)
	}
	service := func(actions, condition string) string {
		return `{"Version":"2012-10-17","Statement":[{"Effect":"Allow","Principal":{"Service":"pods.eks.amazonaws.com"},"Action":[` + actions + `]` + condition + `}]}`
	}
	cart := "system:serviceaccount:shop:cart"
	right := role("right", federated(host, cart))
	otherSubject := role("other-subject", federated(host, "system:serviceaccount:shop:basket"))
	otherRegion := role("other-region", federated(strings.Replace(host, "us-east-1", "eu-west-1", 1), cart))
	pods := role("pods", service(`"sts:AssumeRole","sts:TagSession"`, ""))
	noTags := role("no-tags", service(`"sts:AssumeRole"`, ""))
	otherNamespace := role("other-namespace", service(`"sts:AssumeRole","sts:TagSession"`, `,"Condition":{"StringEquals":{"aws:RequestTag/kubernetes-namespace":"bank"}}`))
	onePod := role("one-pod", service(`"sts:AssumeRole","sts:TagSession"`, `,"Condition":{"StringLike":{"aws:RequestTag/kubernetes-pod-name":"cart-*"}}`))
	for name, document := range map[string]string{
		"buckets": `{"Version":"2012-10-17","Statement":[{"Effect":"Allow","Action":["s3:Get*","s3:List*"],"Resource":"*"},{"Effect":"Deny","Action":"s3:GetBucketPolicy","Resource":"*"}]}`,
		"queues":  `{"Version":"2012-10-17","Statement":{"Effect":"Allow","Action":["sqs:A","sqs:B","sqs:C","sqs:D","sqs:E","sqs:F","sqs:G"],"Resource":"*"}}`,
	} {
		if _, err := client.PutRolePolicy(ctx, &awsiam.PutRolePolicyInput{RoleName: aws.String("right"), PolicyName: &name, PolicyDocument: &document}); err != nil {
			t.Fatal(err)
		}
	}

	var b strings.Builder
	n := testkit.NewNormalizer().Hide("ACCOUNT", account)
	explain := func(title, broken string, change func(*eks.ServiceAccountIdentity)) {
		t.Helper()
		sa := eks.ServiceAccountIdentity{
			Cluster: "dev", ClusterARN: "arn:aws:eks:us-east-1:" + account + ":cluster/dev", Account: account, Region: "us-east-1",
			Namespace: "shop", ServiceAccount: "cart", Issuer: "https://" + host, Subject: cart, Exists: true,
			RoleARN: right, Audience: "sts.amazonaws.com", Expiration: 86400,
		}
		change(&sa)
		e := x.explainServiceAccount(ctx, &sa)
		got := ""
		if l := e.Broken(); l != nil {
			got = l.Name
		}
		if got != broken {
			t.Errorf("%s: broken at %q, want %q", title, got, broken)
		}
		b.WriteString("== " + title + "\n" + n.Replace(e.Text()) + "\n")
	}
	unchanged := func(*eks.ServiceAccountIdentity) {}
	explain("no provider", "provider", unchanged)
	_, err := client.CreateOpenIDConnectProvider(ctx, &awsiam.CreateOpenIDConnectProviderInput{Url: aws.String("https://" + host), ClientIDList: []string{"sts.amazonaws.com"}})
	if err != nil {
		t.Fatal(err)
	}
	explain("all is right", "", func(sa *eks.ServiceAccountIdentity) { sa.Pods = []string{"cart-1"} })
	explain("no service account", "service account", func(sa *eks.ServiceAccountIdentity) { sa.Exists, sa.RoleARN = false, "" })
	explain("no annotation", "annotation", func(sa *eks.ServiceAccountIdentity) { sa.RoleARN = "" })
	explain("an annotation that is no role", "annotation", func(sa *eks.ServiceAccountIdentity) { sa.RoleARN = "right" })
	explain("older pods", "token", func(sa *eks.ServiceAccountIdentity) {
		sa.Pods, sa.WithoutToken = []string{"cart-1", "cart-2"}, []string{"cart-2"}
	})
	explain("another audience", "provider", func(sa *eks.ServiceAccountIdentity) { sa.Audience = "mine" })
	explain("no role", "role", func(sa *eks.ServiceAccountIdentity) { sa.RoleARN += "s" })
	explain("no role of a path", "role", func(sa *eks.ServiceAccountIdentity) {
		sa.RoleARN = strings.Replace(right, "right", "team/shop/right", 1)
	})
	explain("no role that there could be", "role", func(sa *eks.ServiceAccountIdentity) { sa.RoleARN += ";reboot" })
	explain("another subject", "trust policy", func(sa *eks.ServiceAccountIdentity) { sa.RoleARN = otherSubject })
	explain("another region's issuer", "trust policy", func(sa *eks.ServiceAccountIdentity) { sa.RoleARN = otherRegion })
	associated := func(role string) func(*eks.ServiceAccountIdentity) {
		return func(sa *eks.ServiceAccountIdentity) {
			sa.RoleARN, sa.Audience = "", "pods.eks.amazonaws.com"
			sa.Association = &eks.PodIdentity{ID: "a-1", RoleARN: role, SessionTags: true}
		}
	}
	explain("an association", "", associated(pods))
	explain("an association besides the annotation", "", func(sa *eks.ServiceAccountIdentity) {
		associated(pods)(sa)
		sa.RoleARN = right
	})
	explain("an association without sts:TagSession", "trust policy", associated(noTags))
	explain("an association for another namespace", "trust policy", associated(otherNamespace))
	explain("an association for some pods", "", associated(onePod))
	testkit.Golden(t, "why_serviceaccount.golden", b.String())

	// What mends a trust policy is a command that does.
	oldest := role("oldest", strings.ReplaceAll(strings.ReplaceAll(service(`"sts:AssumeRole"`, `,"Condition":{"StringNotEquals":{"aws:SourceAccount":"nobody's"}}`), "[{", "{"), "}]", "}"))
	for name, change := range map[string]func(*eks.ServiceAccountIdentity){
		"other-subject": func(sa *eks.ServiceAccountIdentity) { sa.RoleARN = otherSubject },
		"no-tags":       associated(noTags),
		"oldest":        associated(oldest),
	} {
		sa := eks.ServiceAccountIdentity{
			Cluster: "dev", ClusterARN: "arn:aws:eks:us-east-1:" + account + ":cluster/dev", Account: account, Region: "us-east-1",
			Namespace: "shop", ServiceAccount: "cart", Issuer: "https://" + host, Subject: cart, Exists: true, Audience: "sts.amazonaws.com",
		}
		change(&sa)
		e := x.explainServiceAccount(ctx, &sa)
		document, ok := strings.CutPrefix(e.Broken().Fixes[0].Shell(), "aws iam update-assume-role-policy --role-name "+name+" --policy-document '")
		document = strings.TrimSuffix(document, "'")
		if !ok || strings.Contains(document, "'") {
			t.Fatalf("%s: %s", name, e.Broken().Fixes[0].Shell())
		}
		if _, err := client.UpdateAssumeRolePolicy(ctx, &awsiam.UpdateAssumeRolePolicyInput{RoleName: &name, PolicyDocument: &document}); err != nil {
			t.Fatalf("%s: %v\n%s", name, err, document)
		}
		if e = x.explainServiceAccount(ctx, &sa); e.Broken() != nil || strings.Count(document, `"Effect"`) != 2 {
			t.Errorf("%s: %s\n%s", name, document, e.Text())
		}
	}
}
