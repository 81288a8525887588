package cloudformation

import (
	"errors"
	"fmt"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	awsautoscaling "github.com/aws/aws-sdk-go-v2/service/autoscaling"
	autoscalingtypes "github.com/aws/aws-sdk-go-v2/service/autoscaling/types"
	awskms "github.com/aws/aws-sdk-go-v2/service/kms"
	kmstypes "github.com/aws/aws-sdk-go-v2/service/kms/types"
	awssqs "github.com/aws/aws-sdk-go-v2/service/sqs"
	sqstypes "github.com/aws/aws-sdk-go-v2/service/sqs/types"
	awsssm "github.com/aws/aws-sdk-go-v2/service/ssm"
	ssmtypes "github.com/aws/aws-sdk-go-v2/service/ssm/types"

	"github.com/drydock-dev/drydock/internal/service/cloudformation/template"
)

func otherHandlers() map[string]handler {
	return map[string]handler{
		"AWS::AutoScaling::AutoScalingGroup": {
			find: func(r *request) (string, error) {
				g, err := r.group(r.name("AutoScalingGroupName", 255))
				if err != nil || g == nil {
					return "", err
				}
				return *g.AutoScalingGroupName, nil
			},
			create: func(r *request) (string, error) {
				in := &awsautoscaling.CreateAutoScalingGroupInput{}
				if err := r.fill(in, "AutoScalingGroupName Cooldown VPCZoneIdentifier Tags MetricsCollection"); err != nil {
					return "", err
				}
				in.AutoScalingGroupName = aws.String(r.name("AutoScalingGroupName", 255))
				if zones := r.list("VPCZoneIdentifier"); len(zones) > 0 {
					in.VPCZoneIdentifier = aws.String(strings.Join(zones, ","))
				}
				if r.props.Has("Cooldown") {
					m := &template.Map{}
					m.Set("DefaultCooldown", r.props.Get("Cooldown"))
					if err := r.fillWith(in, m, nil, ""); err != nil {
						return "", err
					}
				}
				var given struct{ Tags []autoscalingtypes.Tag }
				if v := r.props.Get("Tags"); v != nil {
					m := &template.Map{}
					m.Set("Tags", v)
					if err := r.fillWith(&given, m, nil, ""); err != nil {
						return "", err
					}
				}
				in.Tags = given.Tags
				for _, t := range r.tags()[len(given.Tags):] { // the stack's, which instances get too
					in.Tags = append(in.Tags, autoscalingtypes.Tag{Key: &t.Key, Value: &t.Value, PropagateAtLaunch: aws.Bool(true)})
				}
				for _, t := range r.systemTags() {
					in.Tags = append(in.Tags, autoscalingtypes.Tag{Key: &t.Key, Value: &t.Value, PropagateAtLaunch: aws.Bool(true)})
				}
				_, err := call[awsautoscaling.CreateAutoScalingGroupOutput](r, in)
				return *in.AutoScalingGroupName, err
			},
			settle: func(r *request) error {
				collections, _ := r.props.Get("MetricsCollection").([]any)
				for _, c := range collections {
					in := &awsautoscaling.EnableMetricsCollectionInput{AutoScalingGroupName: &r.id}
					m, ok := c.(*template.Map)
					if !ok {
						return r.notHonoured("MetricsCollection")
					}
					if err := r.fillWith(in, m, nil, "MetricsCollection."); err != nil {
						return err
					}
					if _, err := call[awsautoscaling.EnableMetricsCollectionOutput](r, in); err != nil {
						return err
					}
				}
				return r.wait(func() (bool, error) {
					g, err := r.group(r.id)
					if err != nil || g == nil {
						return false, err
					}
					serving := 0
					for _, i := range g.Instances {
						if i.LifecycleState == autoscalingtypes.LifecycleStateInService {
							serving++
						}
					}
					if serving >= int(aws.ToInt32(g.DesiredCapacity)) {
						return true, nil
					}
					out, err := call[awsautoscaling.DescribeScalingActivitiesOutput](r, &awsautoscaling.DescribeScalingActivitiesInput{AutoScalingGroupName: &r.id, MaxRecords: aws.Int32(1)})
					if err == nil && len(out.Activities) > 0 && out.Activities[0].StatusCode == autoscalingtypes.ScalingActivityStatusCodeFailed {
						err = errors.New("Group did not stabilize. Last scaling activity: " + aws.ToString(out.Activities[0].StatusMessage)) //nolint:staticcheck // AWS's words
					}
					return false, err
				})
			},
			read: func(r *request) (map[string]any, error) {
				g, err := r.group(r.id)
				if err != nil || g == nil {
					return nil, err
				}
				return map[string]any{"AutoScalingGroupName": r.id, "AutoScalingGroupARN": g.AutoScalingGroupARN}, nil
			},
			remove: func(r *request) error {
				g, err := r.group(r.id)
				if err != nil || g == nil {
					return err
				}
				if g.Status == nil { // it is not being deleted yet
					none := aws.Int32(0)
					if _, err := call[awsautoscaling.UpdateAutoScalingGroupOutput](r, &awsautoscaling.UpdateAutoScalingGroupInput{AutoScalingGroupName: &r.id, MinSize: none, MaxSize: none, DesiredCapacity: none}); err != nil {
						return err
					}
					err := r.wait(func() (bool, error) {
						g, err := r.group(r.id)
						return g == nil || len(g.Instances) == 0, err
					})
					if err != nil {
						return err
					}
					if _, err := call[awsautoscaling.DeleteAutoScalingGroupOutput](r, &awsautoscaling.DeleteAutoScalingGroupInput{AutoScalingGroupName: &r.id}); err != nil {
						return err
					}
				}
				return r.wait(func() (bool, error) {
					g, err := r.group(r.id)
					return g == nil, err
				})
			},
		},
		"AWS::SQS::Queue": {
			adopts: true,
			find: func(r *request) (string, error) {
				out, err := call[awssqs.GetQueueUrlOutput](r, &awssqs.GetQueueUrlInput{QueueName: aws.String(r.queueName())})
				if err != nil {
					return "", err
				}
				return *out.QueueUrl, nil
			},
			create: func(r *request) (string, error) {
				in := &awssqs.CreateQueueInput{QueueName: aws.String(r.queueName()), Attributes: map[string]string{}, Tags: r.tagMap()}
				for _, k := range r.props.Keys() {
					if k == "QueueName" || k == "Tags" {
						continue
					}
					text, scalar := template.Text(r.props.Get(k))
					if !scalar {
						text = template.JSON(r.props.Get(k))
					}
					in.Attributes[k] = text
				}
				out, err := call[awssqs.CreateQueueOutput](r, in)
				if err != nil {
					return "", err
				}
				return *out.QueueUrl, nil
			},
			read: func(r *request) (map[string]any, error) {
				out, err := call[awssqs.GetQueueAttributesOutput](r, &awssqs.GetQueueAttributesInput{QueueUrl: &r.id, AttributeNames: []sqstypes.QueueAttributeName{sqstypes.QueueAttributeNameQueueArn}})
				if err != nil {
					return nil, err
				}
				return map[string]any{"QueueUrl": r.id, "Arn": out.Attributes["QueueArn"], "QueueName": r.id[strings.LastIndexByte(r.id, '/')+1:]}, nil
			},
			remove: func(r *request) error {
				_, err := call[awssqs.DeleteQueueOutput](r, &awssqs.DeleteQueueInput{QueueUrl: &r.id})
				return err
			},
		},
		"AWS::SQS::QueuePolicy": {
			create: func(r *request) (string, error) {
				return r.generated(r.o.rec.Name, 80), r.setPolicy(r.document("PolicyDocument"))
			},
			read:   func(r *request) (map[string]any, error) { return map[string]any{"Id": r.id}, nil },
			remove: func(r *request) error { return r.setPolicy("") },
		},
		"AWS::SQS::QueueInlinePolicy": {
			input: &awssqs.SetQueueAttributesInput{}, own: "Queue PolicyDocument",
			create: func(r *request) (string, error) {
				return r.text("Queue"), r.setInlinePolicy(r.document("PolicyDocument"))
			},
			remove: func(r *request) error { return unlessGone(r.setInlinePolicy("")) },
		},
		"AWS::KMS::Key": {
			create: func(r *request) (string, error) {
				in := &awskms.CreateKeyInput{}
				if err := r.fill(in, "Tags KeyPolicy EnableKeyRotation RotationPeriodInDays Enabled PendingWindowInDays"); err != nil {
					return "", err
				}
				in.Policy = nonEmpty(r.document("KeyPolicy"))
				for _, t := range r.tags() {
					in.Tags = append(in.Tags, kmstypes.Tag{TagKey: &t.Key, TagValue: &t.Value})
				}
				out, err := call[awskms.CreateKeyOutput](r, in)
				if err != nil {
					return "", err
				}
				return *out.KeyMetadata.KeyId, nil
			},
			settle: func(r *request) error {
				if r.text("EnableKeyRotation") == "true" {
					in := &awskms.EnableKeyRotationInput{KeyId: &r.id}
					if days := r.props.Get("RotationPeriodInDays"); days != nil {
						m := &template.Map{}
						m.Set("RotationPeriodInDays", days)
						if err := r.fillWith(in, m, nil, ""); err != nil {
							return err
						}
					}
					if _, err := call[awskms.EnableKeyRotationOutput](r, in); err != nil {
						return err
					}
				}
				if r.text("Enabled") == "false" {
					if _, err := call[awskms.DisableKeyOutput](r, &awskms.DisableKeyInput{KeyId: &r.id}); err != nil {
						return err
					}
				}
				return nil
			},
			read: func(r *request) (map[string]any, error) {
				out, err := call[awskms.DescribeKeyOutput](r, &awskms.DescribeKeyInput{KeyId: &r.id})
				if err != nil {
					return nil, err
				}
				return map[string]any{"KeyId": r.id, "Arn": out.KeyMetadata.Arn}, nil
			},
			remove: func(r *request) error {
				in := &awskms.ScheduleKeyDeletionInput{KeyId: &r.id}
				if days := r.props.Get("PendingWindowInDays"); days != nil {
					m := &template.Map{}
					m.Set("PendingWindowInDays", days)
					if err := r.fillWith(in, m, nil, ""); err != nil {
						return err
					}
				}
				_, err := call[awskms.ScheduleKeyDeletionOutput](r, in)
				if codeOf(err) == "KMSInvalidStateException" { // it is pending already
					return nil
				}
				return err
			},
		},
		"AWS::KMS::Alias": {
			find: func(r *request) (string, error) {
				key := r.text("TargetKeyId")
				out, err := call[awskms.ListAliasesOutput](r, &awskms.ListAliasesInput{KeyId: &key})
				if err != nil {
					return "", err
				}
				for _, a := range out.Aliases {
					if aws.ToString(a.AliasName) == r.text("AliasName") {
						return r.text("AliasName"), nil
					}
				}
				return "", nil
			},
			create: func(r *request) (string, error) {
				in := &awskms.CreateAliasInput{}
				_, err := create[awskms.CreateAliasOutput](r, in, "")
				return aws.ToString(in.AliasName), err
			},
			remove: func(r *request) error {
				_, err := call[awskms.DeleteAliasOutput](r, &awskms.DeleteAliasInput{AliasName: &r.id})
				return err
			},
		},
		"AWS::SSM::Parameter": {
			find: func(r *request) (string, error) {
				out, err := call[awsssm.GetParameterOutput](r, &awsssm.GetParameterInput{Name: aws.String(r.parameterName())})
				if err != nil {
					return "", err
				}
				return *out.Parameter.Name, nil
			},
			create: func(r *request) (string, error) {
				in := &awsssm.PutParameterInput{}
				if err := r.fill(in, "Name Tags"); err != nil {
					return "", err
				}
				in.Name = aws.String(r.parameterName())
				for _, t := range r.tags() {
					in.Tags = append(in.Tags, ssmtypes.Tag{Key: &t.Key, Value: &t.Value})
				}
				_, err := call[awsssm.PutParameterOutput](r, in)
				return *in.Name, err
			},
			read: func(r *request) (map[string]any, error) {
				return map[string]any{"Name": r.id, "Type": r.text("Type"), "Value": r.text("Value")}, nil
			},
			remove: func(r *request) error {
				_, err := call[awsssm.DeleteParameterOutput](r, &awsssm.DeleteParameterInput{Name: &r.id})
				return err
			},
		},
	}
}

func (r *request) group(name string) (*autoscalingtypes.AutoScalingGroup, error) {
	out, err := call[awsautoscaling.DescribeAutoScalingGroupsOutput](r, &awsautoscaling.DescribeAutoScalingGroupsInput{AutoScalingGroupNames: []string{name}})
	if err != nil || len(out.AutoScalingGroups) == 0 {
		return nil, err
	}
	return &out.AutoScalingGroups[0], nil
}

func (r *request) queueName() string {
	const fifo = ".fifo"
	if r.text("FifoQueue") == "true" && !r.props.Has("QueueName") {
		return r.name("QueueName", 80-len(fifo)) + fifo
	}
	return r.name("QueueName", 80)
}

// parameterName is CFN-LOGICAL-RANDOM, without the stack's name.
func (r *request) parameterName() string {
	if name := r.text("Name"); name != "" {
		return name
	}
	return r.generated("CFN", 1011)
}

// document is a property that is a policy, as text.
func (r *request) document(property string) string {
	if text, ok := template.Text(r.props.Get(property)); ok || !r.props.Has(property) {
		return text
	}
	return template.JSON(r.props.Get(property))
}

func (r *request) setInlinePolicy(document string) error {
	_, err := call[awssqs.SetQueueAttributesOutput](r, &awssqs.SetQueueAttributesInput{QueueUrl: aws.String(r.text("Queue")), Attributes: map[string]string{"Policy": document}})
	return err
}

func (r *request) setPolicy(document string) error {
	for _, url := range r.list("Queues") {
		_, err := call[awssqs.SetQueueAttributesOutput](r, &awssqs.SetQueueAttributesInput{QueueUrl: &url, Attributes: map[string]string{"Policy": document}})
		if err != nil && (document != "" || !notFound(err)) {
			return fmt.Errorf("the policy of %s: %w", url, err)
		}
	}
	return nil
}
