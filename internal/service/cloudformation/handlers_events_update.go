package cloudformation

import (
	"errors"
	"slices"

	"github.com/aws/aws-sdk-go-v2/aws"
	awslogs "github.com/aws/aws-sdk-go-v2/service/cloudwatchlogs"
	awsevents "github.com/aws/aws-sdk-go-v2/service/eventbridge"
	eventstypes "github.com/aws/aws-sdk-go-v2/service/eventbridge/types"
)

// updateRule writes the rule again, removes targets that are gone, and updates the tags,
// which PutRule does not change. settle writes the current targets.
func updateRule(r *request) error {
	name, bus := aws.String(r.name("Name", 64)), nonEmpty(r.text("EventBusName"))
	in := &awsevents.PutRuleInput{}
	if err := r.fill(in, "Name Tags Targets"); err != nil {
		return err
	}
	in.Name = name
	out, err := call[awsevents.PutRuleOutput](r, in)
	if err != nil {
		return err
	}
	keep, gone := r.members("Targets", "Id"), &awsevents.RemoveTargetsInput{Rule: name, EventBusName: bus}
	for _, id := range r.was.members("Targets", "Id") {
		if !slices.Contains(keep, id) {
			gone.Ids = append(gone.Ids, id)
		}
	}
	if len(gone.Ids) > 0 {
		removed, err := call[awsevents.RemoveTargetsOutput](r, gone)
		if err == nil && len(removed.FailedEntries) > 0 {
			err = errors.New(aws.ToString(removed.FailedEntries[0].ErrorMessage))
		}
		if err != nil {
			return err
		}
	}
	set, keys := r.tagChanges()
	if len(keys) > 0 {
		if _, err := call[awsevents.UntagResourceOutput](r, &awsevents.UntagResourceInput{ResourceARN: out.RuleArn, TagKeys: keys}); err != nil {
			return err
		}
	}
	if len(set) == 0 {
		return nil
	}
	tags := &awsevents.TagResourceInput{ResourceARN: out.RuleArn}
	for _, t := range set {
		tags.Tags = append(tags.Tags, eventstypes.Tag{Key: &t.Key, Value: &t.Value})
	}
	_, err = call[awsevents.TagResourceOutput](r, tags)
	return err
}

// updateLogGroup makes the changes that settle does not: it removes the retention policy,
// and changes the key, the deletion protection and the tags.
func updateLogGroup(r *request) error {
	if r.changed("RetentionInDays") && !r.props.Has("RetentionInDays") {
		if _, err := call[awslogs.DeleteRetentionPolicyOutput](r, &awslogs.DeleteRetentionPolicyInput{LogGroupName: &r.id}); err != nil {
			return err
		}
	}
	if r.changed("KmsKeyId") {
		var err error
		if key := r.text("KmsKeyId"); key != "" {
			_, err = call[awslogs.AssociateKmsKeyOutput](r, &awslogs.AssociateKmsKeyInput{LogGroupName: &r.id, KmsKeyId: &key})
		} else {
			_, err = call[awslogs.DisassociateKmsKeyOutput](r, &awslogs.DisassociateKmsKeyInput{LogGroupName: &r.id})
		}
		if err != nil {
			return err
		}
	}
	if r.changed("DeletionProtectionEnabled") {
		in := &awslogs.PutLogGroupDeletionProtectionInput{LogGroupIdentifier: &r.id, DeletionProtectionEnabled: aws.Bool(r.text("DeletionProtectionEnabled") == "true")}
		if _, err := call[awslogs.PutLogGroupDeletionProtectionOutput](r, in); err != nil {
			return err
		}
	}
	g, err := r.logGroup(r.id)
	if err != nil {
		return err
	}
	set, gone := r.tagChanges()
	if len(gone) > 0 {
		if _, err := call[awslogs.UntagResourceOutput](r, &awslogs.UntagResourceInput{ResourceArn: g.LogGroupArn, TagKeys: gone}); err != nil {
			return err
		}
	}
	if len(set) == 0 {
		return nil
	}
	tags := map[string]string{}
	for _, t := range set {
		tags[t.Key] = t.Value
	}
	_, err = call[awslogs.TagResourceOutput](r, &awslogs.TagResourceInput{ResourceArn: g.LogGroupArn, Tags: tags})
	return err
}
