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
			input: &awsautoscaling.CreateAutoScalingGroupInput{}, own: "AutoScalingGroupName Cooldown VPCZoneIdentifier Tags MetricsCollection",
			inPlace: "AvailabilityZones CapacityRebalance Context Cooldown DefaultInstanceWarmup DeletionProtection DesiredCapacity DesiredCapacityType HealthCheckGracePeriod HealthCheckType LaunchConfigurationName LaunchTemplate LoadBalancerNames MaxSize MetricsCollection MinSize MixedInstancesPolicy NewInstancesProtectedFromScaleIn ServiceLinkedRoleARN Tags TargetGroupARNs TerminationPolicies VPCZoneIdentifier", update: updateScalingGroup,
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
				var err error
				if in.Tags, err = r.groupTags(); err != nil {
					return "", err
				}
				_, err = call[awsautoscaling.CreateAutoScalingGroupOutput](r, in)
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
			input: &awssqs.CreateQueueInput{}, own: "ContentBasedDeduplication DeduplicationScope DelaySeconds FifoQueue FifoThroughputLimit KmsDataKeyReusePeriodSeconds KmsMasterKeyId MaximumMessageSize MessageRetentionPeriod QueueName ReceiveMessageWaitTimeSeconds RedriveAllowPolicy RedrivePolicy SqsManagedSseEnabled Tags VisibilityTimeout",
			adopts:  true,
			inPlace: "ContentBasedDeduplication DeduplicationScope DelaySeconds FifoThroughputLimit KmsDataKeyReusePeriodSeconds KmsMasterKeyId MaximumMessageSize MessageRetentionPeriod ReceiveMessageWaitTimeSeconds RedriveAllowPolicy RedrivePolicy SqsManagedSseEnabled Tags VisibilityTimeout",
			update:  updateQueue,
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
					if k != "QueueName" && k != "Tags" {
						in.Attributes[k] = r.document(k)
					}
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
			input: &awssqs.SetQueueAttributesInput{}, own: "Queues PolicyDocument",
			inPlace: "PolicyDocument Queues",
			update: func(r *request) error {
				if err := r.setPolicy("", r.goneFrom("Queues")); err != nil {
					return err
				}
				return r.setPolicy(r.document("PolicyDocument"), r.list("Queues"))
			},
			create: func(r *request) (string, error) {
				return r.generated(r.o.rec.Name, 80), r.setPolicy(r.document("PolicyDocument"), r.list("Queues"))
			},
			read:   func(r *request) (map[string]any, error) { return map[string]any{"Id": r.id}, nil },
			remove: func(r *request) error { return r.setPolicy("", r.list("Queues")) },
		},
		"AWS::SQS::QueueInlinePolicy": {
			input: &awssqs.SetQueueAttributesInput{}, own: "Queue PolicyDocument", inPlace: "PolicyDocument",
			update: func(r *request) error { return r.setInlinePolicy(r.document("PolicyDocument")) },
			create: func(r *request) (string, error) {
				return r.text("Queue"), r.setInlinePolicy(r.document("PolicyDocument"))
			},
			remove: func(r *request) error { return unlessGone(r.setInlinePolicy("")) },
		},
		"AWS::KMS::Key": {
			input: &awskms.CreateKeyInput{}, own: "Tags KeyPolicy EnableKeyRotation RotationPeriodInDays Enabled PendingWindowInDays",
			inPlace: "Description EnableKeyRotation Enabled KeyPolicy PendingWindowInDays RotationPeriodInDays Tags",
			update:  updateKey,
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
				if codeOf(err) == "KMSInvalidStateException" { // it is already pending deletion
					return nil
				}
				return err
			},
		},
		"AWS::KMS::Alias": {
			input:   &awskms.CreateAliasInput{},
			inPlace: "TargetKeyId",
			update: func(r *request) error {
				_, err := create[awskms.UpdateAliasOutput](r, &awskms.UpdateAliasInput{}, "")
				return err
			},
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
			input: &awsssm.PutParameterInput{}, own: "Name Tags",
			inPlace: "AllowedPattern Description Tags Tier Value",
			update:  updateParameter,
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
				plain := r.unrevealed() // because attributes are recorded
				return map[string]any{"Name": r.id, "Type": plain.text("Type"), "Value": plain.text("Value")}, nil
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

// parameterName returns the given name, or CFN-LOGICAL-RANDOM, which does not contain the
// stack's name.
func (r *request) parameterName() string {
	if name := r.text("Name"); name != "" {
		return name
	}
	return r.generated("CFN", 1011)
}

// document returns a property that is a policy, as JSON.
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

func (r *request) setPolicy(document string, queues []string) error {
	for _, url := range queues {
		_, err := call[awssqs.SetQueueAttributesOutput](r, &awssqs.SetQueueAttributesInput{QueueUrl: &url, Attributes: map[string]string{"Policy": document}})
		if err != nil && (document != "" || !notFound(err)) {
			return fmt.Errorf("the policy of %s: %w", url, err)
		}
	}
	return nil
}

// queueDefaults are the values of queue attributes that the template does not set.
// https://docs.aws.amazon.com/AWSSimpleQueueService/latest/APIReference/API_SetQueueAttributes.html
var queueDefaults = map[string]string{
	"ContentBasedDeduplication": "false", "DeduplicationScope": "queue", "DelaySeconds": "0", "FifoThroughputLimit": "perQueue", "KmsDataKeyReusePeriodSeconds": "300",
	"MaximumMessageSize": "1048576", "MessageRetentionPeriod": "345600", "ReceiveMessageWaitTimeSeconds": "0", "SqsManagedSseEnabled": "true", "VisibilityTimeout": "30",
}

func updateQueue(r *request) error {
	in := &awssqs.SetQueueAttributesInput{QueueUrl: &r.id, Attributes: map[string]string{}}
	for _, k := range r.differences() {
		switch {
		case k == "Tags":
		case r.props.Has(k):
			in.Attributes[k] = r.document(k)
		default:
			in.Attributes[k] = queueDefaults[k]
		}
	}
	if len(in.Attributes) > 0 {
		if _, err := call[awssqs.SetQueueAttributesOutput](r, in); err != nil {
			return err
		}
	}
	set, gone := r.tagChanges()
	if len(gone) > 0 {
		if _, err := call[awssqs.UntagQueueOutput](r, &awssqs.UntagQueueInput{QueueUrl: &r.id, TagKeys: gone}); err != nil {
			return err
		}
	}
	if len(set) == 0 {
		return nil
	}
	_, err := call[awssqs.TagQueueOutput](r, &awssqs.TagQueueInput{QueueUrl: &r.id, Tags: tagsAsMap(set)})
	return err
}

func updateKey(r *request) error {
	if r.changed("Description") {
		if _, err := call[awskms.UpdateKeyDescriptionOutput](r, &awskms.UpdateKeyDescriptionInput{KeyId: &r.id, Description: aws.String(r.text("Description"))}); err != nil {
			return err
		}
	}
	if document := r.document("KeyPolicy"); document != "" && r.changed("KeyPolicy") {
		if _, err := call[awskms.PutKeyPolicyOutput](r, &awskms.PutKeyPolicyInput{KeyId: &r.id, Policy: &document}); err != nil {
			return err
		}
	}
	if r.changed("Enabled") && r.text("Enabled") != "false" {
		if _, err := call[awskms.EnableKeyOutput](r, &awskms.EnableKeyInput{KeyId: &r.id}); err != nil {
			return err
		}
	}
	if r.changed("EnableKeyRotation") && r.text("EnableKeyRotation") != "true" {
		if _, err := call[awskms.DisableKeyRotationOutput](r, &awskms.DisableKeyRotationInput{KeyId: &r.id}); err != nil {
			return err
		}
	}
	set, gone := r.tagChanges()
	if len(gone) > 0 {
		if _, err := call[awskms.UntagResourceOutput](r, &awskms.UntagResourceInput{KeyId: &r.id, TagKeys: gone}); err != nil {
			return err
		}
	}
	if len(set) == 0 {
		return nil
	}
	in := &awskms.TagResourceInput{KeyId: &r.id}
	for _, t := range set {
		in.Tags = append(in.Tags, kmstypes.Tag{TagKey: &t.Key, TagValue: &t.Value})
	}
	_, err := call[awskms.TagResourceOutput](r, in)
	return err
}

func updateParameter(r *request) error {
	if r.changed("AllowedPattern", "Description", "Tier", "Value") {
		in := &awsssm.PutParameterInput{}
		if err := r.fill(in, "Name Tags"); err != nil {
			return err
		}
		in.Name, in.Overwrite = &r.id, aws.Bool(true)
		if _, err := call[awsssm.PutParameterOutput](r, in); err != nil {
			return err
		}
	}
	set, gone := r.tagChanges()
	if len(gone) > 0 {
		in := &awsssm.RemoveTagsFromResourceInput{ResourceType: ssmtypes.ResourceTypeForTaggingParameter, ResourceId: &r.id, TagKeys: gone}
		if _, err := call[awsssm.RemoveTagsFromResourceOutput](r, in); err != nil {
			return err
		}
	}
	if len(set) == 0 {
		return nil
	}
	in := &awsssm.AddTagsToResourceInput{ResourceType: ssmtypes.ResourceTypeForTaggingParameter, ResourceId: &r.id}
	for _, t := range set {
		in.Tags = append(in.Tags, ssmtypes.Tag{Key: &t.Key, Value: &t.Value})
	}
	_, err := call[awsssm.AddTagsToResourceOutput](r, in)
	return err
}
