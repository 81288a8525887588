package cloudformation

import (
	"errors"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	awslogs "github.com/aws/aws-sdk-go-v2/service/cloudwatchlogs"
	logstypes "github.com/aws/aws-sdk-go-v2/service/cloudwatchlogs/types"
	awsevents "github.com/aws/aws-sdk-go-v2/service/eventbridge"
	eventstypes "github.com/aws/aws-sdk-go-v2/service/eventbridge/types"

	"github.com/drydock-dev/drydock/internal/service/cloudformation/template"
)

func eventHandlers() map[string]handler {
	return map[string]handler{
		"AWS::Events::Rule": made(handler{
			inPlace: "Description EventPattern RoleArn ScheduleExpression State Tags Targets", update: updateRule,
			find: func(r *request) (string, error) {
				_, err := call[awsevents.DescribeRuleOutput](r, &awsevents.DescribeRuleInput{Name: aws.String(r.name("Name", 64)), EventBusName: nonEmpty(r.text("EventBusName"))})
				if err != nil {
					return "", err
				}
				return r.ruleID(), nil
			},
			settle: func(r *request) error {
				in := &awsevents.PutTargetsInput{Rule: aws.String(r.name("Name", 64)), EventBusName: nonEmpty(r.text("EventBusName"))}
				err := each(r, "Targets", "", func(t *eventstypes.Target, _ *template.Map) error { in.Targets = append(in.Targets, *t); return nil })
				if err != nil || len(in.Targets) == 0 {
					return err
				}
				out, err := call[awsevents.PutTargetsOutput](r, in)
				if err == nil && len(out.FailedEntries) > 0 {
					err = errors.New(aws.ToString(out.FailedEntries[0].ErrorMessage))
				}
				return err
			},
			read: func(r *request) (map[string]any, error) {
				out, err := call[awsevents.DescribeRuleOutput](r, &awsevents.DescribeRuleInput{Name: aws.String(r.name("Name", 64)), EventBusName: nonEmpty(r.text("EventBusName"))})
				if err != nil {
					return nil, err
				}
				return map[string]any{"Arn": out.Arn}, nil
			},
			remove: func(r *request) error {
				name, bus := aws.String(r.name("Name", 64)), nonEmpty(r.text("EventBusName"))
				gone := &awsevents.RemoveTargetsInput{Rule: name, EventBusName: bus}
				err := each(r, "Targets", "", func(t *eventstypes.Target, _ *template.Map) error {
					gone.Ids = append(gone.Ids, aws.ToString(t.Id))
					return nil
				})
				if err != nil {
					return err
				}
				if len(gone.Ids) > 0 {
					if _, err := call[awsevents.RemoveTargetsOutput](r, gone); err != nil {
						return err
					}
				}
				_, err = call[awsevents.DeleteRuleOutput](r, &awsevents.DeleteRuleInput{Name: name, EventBusName: bus})
				return err
			},
		}, "Name Tags Targets", func(r *request, in *awsevents.PutRuleInput) {
			in.Name = aws.String(r.name("Name", 64))
			for _, t := range r.tags() {
				in.Tags = append(in.Tags, eventstypes.Tag{Key: &t.Key, Value: &t.Value})
			}
		}, func(r *request, _ *awsevents.PutRuleOutput) *string { return aws.String(r.ruleID()) }),
		"AWS::Logs::LogGroup": made(handler{
			inPlace: "DeletionProtectionEnabled KmsKeyId RetentionInDays Tags", update: updateLogGroup,
			find: func(r *request) (string, error) {
				g, err := r.logGroup(r.name("LogGroupName", 512))
				return aws.ToString(g.LogGroupName), err
			},
			settle: func(r *request) error {
				if !r.props.Has("RetentionInDays") {
					return nil
				}
				in := &awslogs.PutRetentionPolicyInput{LogGroupName: &r.id}
				m := &template.Map{}
				m.Set("RetentionInDays", r.props.Get("RetentionInDays"))
				if err := r.fillWith(in, m, nil, ""); err != nil {
					return err
				}
				_, err := call[awslogs.PutRetentionPolicyOutput](r, in)
				return err
			},
			read: func(r *request) (map[string]any, error) {
				g, err := r.logGroup(r.id)
				return map[string]any{"Arn": g.Arn}, err
			},
			remove: one[awslogs.DeleteLogGroupOutput](func(r *request) any { return &awslogs.DeleteLogGroupInput{LogGroupName: &r.id} }),
		}, "LogGroupName Tags RetentionInDays", func(r *request, in *awslogs.CreateLogGroupInput) {
			in.LogGroupName, in.Tags = aws.String(r.name("LogGroupName", 512)), r.tagMap()
		}, func(r *request, _ *awslogs.CreateLogGroupOutput) *string {
			return aws.String(r.name("LogGroupName", 512))
		}),
		"AWS::Logs::LogStream": made(handler{
			find: func(r *request) (string, error) {
				name := r.name("LogStreamName", 512)
				out, err := call[awslogs.DescribeLogStreamsOutput](r, &awslogs.DescribeLogStreamsInput{LogGroupName: aws.String(r.text("LogGroupName")), LogStreamNamePrefix: &name})
				if err != nil {
					return "", err
				}
				for _, s := range out.LogStreams {
					if aws.ToString(s.LogStreamName) == name {
						return name, nil
					}
				}
				return "", nil
			},
			remove: one[awslogs.DeleteLogStreamOutput](func(r *request) any {
				return &awslogs.DeleteLogStreamInput{LogGroupName: aws.String(r.text("LogGroupName")), LogStreamName: &r.id}
			}),
		}, "LogStreamName", func(r *request, in *awslogs.CreateLogStreamInput) {
			in.LogStreamName = aws.String(r.name("LogStreamName", 512))
		}, func(r *request, _ *awslogs.CreateLogStreamOutput) *string {
			return aws.String(r.name("LogStreamName", 512))
		}),
		// Drydock's CloudWatch Logs refuses every subscription filter with an error that says why.
		"AWS::Logs::SubscriptionFilter": again("ApplyOnTransformedLogs DestinationArn Distribution EmitSystemFields FieldSelectionCriteria FilterPattern RoleArn", made(handler{
			remove: one[awslogs.DeleteSubscriptionFilterOutput](func(r *request) any {
				return &awslogs.DeleteSubscriptionFilterInput{LogGroupName: aws.String(r.text("LogGroupName")), FilterName: aws.String(r.name("FilterName", 512))}
			}),
		}, "FilterName", func(r *request, in *awslogs.PutSubscriptionFilterInput) {
			in.FilterName = aws.String(r.name("FilterName", 512))
		}, func(r *request, _ *awslogs.PutSubscriptionFilterOutput) *string {
			return aws.String(r.name("FilterName", 512))
		})),
		"AWS::Logs::ResourcePolicy": again("PolicyDocument", made(handler{
			remove: one[awslogs.DeleteResourcePolicyOutput](func(r *request) any { return &awslogs.DeleteResourcePolicyInput{PolicyName: &r.id} }),
		}, "", func(*request, *awslogs.PutResourcePolicyInput) {}, func(r *request, _ *awslogs.PutResourcePolicyOutput) *string {
			return aws.String(r.text("PolicyName"))
		})),
	}
}

// ruleID returns what Ref returns for a rule: its name, after the name of its bus if that
// is not the default one.
// [seen] localstack/localstack, tests/aws/services/cloudformation
func (r *request) ruleID() string {
	name := r.name("Name", 64)
	if bus := r.text("EventBusName"); bus != "" && bus != "default" {
		return bus[strings.LastIndexByte(bus, '/')+1:] + "|" + name
	}
	return name
}

func (r *request) logGroup(name string) (logstypes.LogGroup, error) {
	out, err := call[awslogs.DescribeLogGroupsOutput](r, &awslogs.DescribeLogGroupsInput{LogGroupNamePrefix: &name})
	if err != nil {
		return logstypes.LogGroup{}, err
	}
	for _, g := range out.LogGroups {
		if aws.ToString(g.LogGroupName) == name {
			return g, nil
		}
	}
	return logstypes.LogGroup{}, nil
}
