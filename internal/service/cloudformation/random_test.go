package cloudformation_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	awscloudformation "github.com/aws/aws-sdk-go-v2/service/cloudformation"
	awssqs "github.com/aws/aws-sdk-go-v2/service/sqs"
	awsssm "github.com/aws/aws-sdk-go-v2/service/ssm"
	"github.com/aws/smithy-go"

	"github.com/drydock-dev/drydock/internal/awsapi/awserr"
	"github.com/drydock-dev/drydock/internal/testkit"
)

// randomTemplate returns a template with some of eight resources, each of which may refer
// to earlier ones.
func randomTemplate(r *rand.Rand) string {
	var out []string
	for i := range 8 {
		if r.IntN(4) == 0 && i > 0 {
			continue
		}
		value := fmt.Sprintf(`"v%d"`, r.IntN(3))
		if len(out) > 0 && r.IntN(3) > 0 {
			on := out[r.IntN(len(out))]
			value = `{"Fn::Sub": "${` + on[1:2] + `}-` + fmt.Sprint(r.IntN(2)) + `"}`
		}
		policy := ""
		if r.IntN(6) == 0 {
			policy = `"Name": "/random/` + fmt.Sprint(i, r.IntN(2)) + `", `
		}
		id := string(rune('A' + i))
		body := `{"Type": "AWS::SSM::Parameter", "Properties": {"Type": "String", ` + strings.ReplaceAll(policy, " ", "") + ` "Value": ` + value + `}}`
		if i >= 6 { // the type of a resource never changes
			body = `{"Type": "AWS::SQS::Queue", "Properties": {"DelaySeconds": ` + fmt.Sprint(r.IntN(3)) + `, "Tags": [{"Key": "k", "Value": ` + value + `}]}}`
			if r.IntN(3) == 0 {
				body = strings.Replace(body, `"DelaySeconds"`, `"QueueName": "`+id+fmt.Sprint(r.IntN(2))+`", "DelaySeconds"`, 1)
			}
		}
		out = append(out, `"`+id+`": `+body)
	}
	return `{"Resources": {` + strings.Join(out, ", ") + `}}`
}

// TestRandomStacks makes random stacks, updates and refusals. A stack must always come to
// rest and list the resources that exist, and its deletion must leave nothing behind.
// TestKilledAnywhere and TestUpdateKilledAnywhere kill daemons at every call.
func TestRandomStacks(t *testing.T) {
	for seed := range uint64(12) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			r := rand.New(rand.NewPCG(seed, 0))
			w, ctx := newWorld(t), t.Context()
			api := &refuser{API: w.front}
			cancel, ended := w.run(api)
			defer func() { cancel(); <-ended }()
			var mu sync.Mutex
			odds := func(n int) {
				api.refuse.Store(func(in any) error {
					name := fmt.Sprintf("%T", in)
					if strings.Contains(name, ".Get") || strings.Contains(name, ".List") || strings.Contains(name, ".Describe") {
						return nil
					}
					mu.Lock()
					defer mu.Unlock()
					if n > 0 && r.IntN(n) == 0 {
						return awserr.New("AccessDeniedException", "not now")
					}
					return nil
				})
			}
			template := func() string {
				mu.Lock()
				defer mu.Unlock()
				return randomTemplate(r)
			}
			odds(12)
			id := w.create(t, fmt.Sprintf("random%d", seed), template())
			for range 6 {
				st := w.settled(t, id)
				switch st.StackStatus {
				case "CREATE_COMPLETE", "UPDATE_COMPLETE", "UPDATE_ROLLBACK_COMPLETE", "UPDATE_FAILED":
					keep := st.StackStatus == "UPDATE_FAILED" || len(*st.StackId)%2 == 0
					_, err := w.UpdateStack(ctx, &awscloudformation.UpdateStackInput{StackName: &id, TemplateBody: aws.String(template()), DisableRollback: &keep})
					var refused smithy.APIError
					if err != nil && !(errors.As(err, &refused) && refused.ErrorMessage() == "No updates are to be performed.") {
						t.Fatal(err)
					}
				case "UPDATE_ROLLBACK_FAILED":
					odds(0)
					testkit.Must(w.ContinueUpdateRollback(ctx, &awscloudformation.ContinueUpdateRollbackInput{StackName: &id}))(t)
					w.want(t, id, "UPDATE_ROLLBACK_COMPLETE")
					odds(12)
				case "ROLLBACK_COMPLETE", "ROLLBACK_FAILED":
				default:
					t.Fatalf("%s\n%s", st.StackStatus, w.script(t, id))
				}
			}
			st := w.settled(t, id)
			exists := func() (out []string) {
				out = append(out, testkit.Must(awssqs.NewFromConfig(w.cfg).ListQueues(ctx, &awssqs.ListQueuesInput{}))(t).QueueUrls...)
				for _, p := range testkit.Must(awsssm.NewFromConfig(w.cfg).DescribeParameters(ctx, &awsssm.DescribeParametersInput{}))(t).Parameters {
					out = append(out, *p.Name)
				}
				slices.Sort(out)
				return out
			}
			if !strings.Contains(w.script(t, id), "DELETE_FAILED") && st.StackStatus != "UPDATE_FAILED" {
				var listed []string
				for _, res := range testkit.Must(w.DescribeStackResources(ctx, &awscloudformation.DescribeStackResourcesInput{StackName: &id}))(t).StackResources {
					if res.PhysicalResourceId != nil && res.ResourceStatus != "DELETE_COMPLETE" {
						listed = append(listed, *res.PhysicalResourceId)
					}
				}
				slices.Sort(listed)
				if have := exists(); !slices.Equal(listed, have) {
					t.Errorf("%s lists\n%v\nthere are\n%v\n%s", st.StackStatus, listed, have, w.script(t, id))
				}
			}
			odds(0)
			w.delete(t, id)
			w.want(t, id, "DELETE_COMPLETE")
			testkit.Eventually(t, 5*time.Second, func() error {
				if left := exists(); len(left) > 0 {
					return fmt.Errorf("left are %v\n%s", left, w.script(t, id))
				}
				return nil
			})
		})
	}
}
