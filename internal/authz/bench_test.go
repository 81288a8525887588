package authz_test

import (
	"fmt"
	"net/netip"
	"strings"
	"testing"
	"time"

	awsec2 "github.com/aws/aws-sdk-go-v2/service/ec2"
	awsiam "github.com/aws/aws-sdk-go-v2/service/iam"

	"github.com/aws/aws-sdk-go-v2/aws"

	"github.com/drydock-dev/drydock/internal/awsapi"
)

// BenchmarkAuthorize measures what authorization adds to a call: of an administrator, of a user with ten policies of
// fifty statements, and of a launch, which has many checks.
func BenchmarkAuthorize(b *testing.B) {
	w := newWorld(b)
	ctx := b.Context()
	root, account := w.root(b)
	admin := w.user(b, root, "admin2", "")
	must[*awsiam.AttachUserPolicyOutput](b)(root.iam.AttachUserPolicy(ctx, &awsiam.AttachUserPolicyInput{
		UserName: aws.String("admin2"), PolicyArn: aws.String("arn:aws:iam::aws:policy/AdministratorAccess"),
	}))
	many := w.user(b, root, "many", "")
	for i := range 10 {
		var statements []string
		for n := range 50 {
			statements = append(statements, fmt.Sprintf(`{"Effect":"Allow","Action":"ec2:*","Resource":"arn:aws:ec2:*:*:vpc/%d%02d"}`, i, n))
		}
		if i == 9 {
			statements[49] = `{"Effect":"Allow","Action":"ec2:D*","Resource":"*"}`
		}
		p := must[*awsiam.CreatePolicyOutput](b)(root.iam.CreatePolicy(ctx, &awsiam.CreatePolicyInput{
			PolicyName: aws.String(fmt.Sprint("p", i)), PolicyDocument: aws.String(`{"Version":"2012-10-17","Statement":[` + strings.Join(statements, ",") + `]}`),
		}))
		must[*awsiam.AttachUserPolicyOutput](b)(root.iam.AttachUserPolicy(ctx, &awsiam.AttachUserPolicyInput{UserName: aws.String("many"), PolicyArn: p.Policy.Arn}))
	}
	must[*awsec2.DescribeVpcsOutput](b)(root.ec2.DescribeVpcs(ctx, nil)) // makes the default VPC
	call := func(who caller, operation string) *awsapi.Call {
		creds := must[aws.Credentials](b)(who.cfg.Credentials.Retrieve(ctx))
		_, p, err := w.iam.LookupAccessKey(ctx, creds.AccessKeyID)
		if err != nil {
			b.Fatal(err)
		}
		return &awsapi.Call{
			Service: "ec2", Operation: operation, Account: account, Region: "us-east-1", Principal: p,
			Time: time.Now(), SourceIP: netip.MustParseAddr("203.0.113.10"), UserAgent: "bench",
		}
	}
	for _, tt := range []struct {
		name string
		call *awsapi.Call
		in   any
	}{
		{"describe by an administrator", call(admin, "DescribeInstances"), &awsec2.DescribeInstancesInput{}},
		{"describe by ten policies of fifty statements", call(many, "DescribeInstances"), &awsec2.DescribeInstancesInput{}},
		{"launch by an administrator", call(admin, "RunInstances"), &awsec2.RunInstancesInput{ImageId: aws.String("ami-1"), MinCount: aws.Int32(1), MaxCount: aws.Int32(1)}},
	} {
		b.Run(tt.name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if err := w.authorizer.Authorize(ctx, tt.call, tt.in); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
