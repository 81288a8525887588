package cloudformation_test

import (
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	awscloudformation "github.com/aws/aws-sdk-go-v2/service/cloudformation"

	"github.com/drydock-dev/drydock/internal/awsapi/awserr"
	"github.com/drydock-dev/drydock/internal/store"
	"github.com/drydock-dev/drydock/internal/testkit"
)

// A stack whose record cannot be read is an internal failure: it neither "does not exist", nor is any name free, since
// it may be its name.
func TestUnreadableStacks(t *testing.T) {
	const body = `{"Resources": {"P": {"Type": "AWS::SSM::Parameter", "Properties": {"Type": "String", "Value": "x"}}}}`
	w, ctx := newWorldOn(t, nil, "cannot be read"), t.Context()
	other := w.create(t, "other", body)
	id := w.create(t, "one", body)
	damaged := store.NewCollection[string]("cloudformation", "stack")
	stack := store.Key{Account: w.account, Region: testkit.Region, ID: id[len(id)-36:]}
	if err := w.Store.Update(ctx, func(tx *store.Tx) error { return damaged.Put(tx, stack, "not an object") }); err != nil {
		t.Fatal(err)
	}
	for _, name := range []*string{aws.String("one"), &id} {
		for what, call := range map[string]func() error{
			"DescribeStacks": func() error {
				_, err := w.DescribeStacks(ctx, &awscloudformation.DescribeStacksInput{StackName: name})
				return err
			},
			"DescribeStackEvents": func() error {
				_, err := w.DescribeStackEvents(ctx, &awscloudformation.DescribeStackEventsInput{StackName: name})
				return err
			},
			"UpdateStack": func() error {
				_, err := w.UpdateStack(ctx, &awscloudformation.UpdateStackInput{StackName: name, TemplateBody: aws.String(body)})
				return err
			},
			"DeleteStack": func() error {
				_, err := w.DeleteStack(ctx, &awscloudformation.DeleteStackInput{StackName: name})
				return err
			},
			"CreateChangeSet": func() error {
				_, err := w.CreateChangeSet(ctx, &awscloudformation.CreateChangeSetInput{StackName: name, ChangeSetName: aws.String("c"), TemplateBody: aws.String(body), ChangeSetType: "CREATE"})
				return err
			},
		} {
			if err := call(); awserr.CodeOf(err) != "InternalFailure" {
				t.Errorf("%s of %s: %v", what, *name, err)
			}
		}
	}
	_, err := w.CreateStack(ctx, &awscloudformation.CreateStackInput{StackName: aws.String("one"), TemplateBody: aws.String(body)})
	if awserr.CodeOf(err) != "InternalFailure" {
		t.Errorf("CreateStack: %v", err)
	}
	for _, name := range []*string{aws.String("other"), &other} {
		testkit.Must(w.DescribeStacks(ctx, &awscloudformation.DescribeStacksInput{StackName: name}))(t)
	}
}
