package logs

import (
	"context"
	"maps"
	"slices"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	awslogs "github.com/aws/aws-sdk-go-v2/service/cloudwatchlogs"
	logstypes "github.com/aws/aws-sdk-go-v2/service/cloudwatchlogs/types"
	awskms "github.com/aws/aws-sdk-go-v2/service/kms"
	kmstypes "github.com/aws/aws-sdk-go-v2/service/kms/types"

	"github.com/drydock-dev/drydock/internal/awsapi"
	"github.com/drydock-dev/drydock/internal/awsapi/awserr"
	"github.com/drydock-dev/drydock/internal/awsapi/paging"
	"github.com/drydock-dev/drydock/internal/awsapi/tagging"
	"github.com/drydock-dev/drydock/internal/bytestore"
	"github.com/drydock-dev/drydock/internal/ids"
	"github.com/drydock-dev/drydock/internal/store"
)

// CreateLogGroup creates a log group.
func (s *Service) CreateLogGroup(ctx context.Context, in *awslogs.CreateLogGroupInput) (*awslogs.CreateLogGroupOutput, error) {
	sc, name := scopeOf(ctx), *in.LogGroupName
	if in.LogGroupClass == logstypes.LogGroupClassDelivery {
		return nil, awserr.NotImplemented("the log group class DELIVERY")
	}
	g := groupRecord{ID: ids.UUID(), Name: name, Created: s.now(), Class: string(logstypes.LogGroupClassStandard), KMSKey: aws.ToString(in.KmsKeyId), Protected: aws.ToBool(in.DeletionProtectionEnabled)}
	if in.LogGroupClass != "" {
		g.Class = string(in.LogGroupClass)
	}
	var err error
	if g.Tags, err = putTags(nil, in.Tags); err != nil {
		return nil, err
	}
	if _, err := groups.Get(s.store, sc.Key(name)); !notFound(err) {
		if err == nil {
			err = errGroupExists()
		}
		return nil, err
	}
	if err := s.checkKey(ctx, sc, name, g.KMSKey); err != nil {
		return nil, err
	}
	err = s.store.Update(ctx, func(tx *store.Tx) error {
		err := groups.Create(tx, sc.Key(name), g)
		return existsAs(err, errGroupExists())
	})
	return &awslogs.CreateLogGroupOutput{}, err
}

// checkKey asks KMS whether CloudWatch Logs may use a key for a group. The key's policy must allow
// the service, not its caller.
// https://docs.aws.amazon.com/AmazonCloudWatch/latest/logs/encrypt-log-data-kms.html
func (s *Service) checkKey(ctx context.Context, sc scope, group, key string) error {
	if key == "" || s.cfg.KMS == nil {
		return nil
	}
	arn := sc.groupARN(group)
	asLogs := awsapi.AsServicePrincipal(ctx, sc.Account, sc.Region, "logs."+sc.Region+".amazonaws.com", arn, s.now())
	_, err := s.cfg.KMS.GenerateDataKey(asLogs, &awskms.GenerateDataKeyInput{
		KeyId: &key, KeySpec: kmstypes.DataKeySpecAes256, EncryptionContext: map[string]string{"aws:logs:arn": arn},
	})
	if err != nil && !awsapi.IsThrottle(err) {
		return errKey(arn)
	}
	return err
}

// DeleteLogGroup deletes a group with its streams and their events.
func (s *Service) DeleteLogGroup(ctx context.Context, in *awslogs.DeleteLogGroupInput) (*awslogs.DeleteLogGroupOutput, error) {
	sc, name := scopeOf(ctx), *in.LogGroupName
	var id string
	err := s.store.Update(ctx, func(tx *store.Tx) error {
		g, err := groups.Get(tx, sc.Key(name))
		if err != nil {
			return store.NotFoundAs(err, errNoGroup())
		}
		if g.Protected {
			return errProtected()
		}
		for _, r := range streams.All(tx, sc.Below(g.ID)) {
			streams.Delete(tx, r.Key)
		}
		groups.Delete(tx, sc.Key(name))
		id = g.ID
		return nil
	})
	if err != nil {
		return nil, err
	}
	s.mu.Lock()
	for known := range s.streams {
		if known.group == id {
			delete(s.streams, known)
		}
	}
	dropped := s.bytes.Do(bytestore.Drop(sc.bucket(id)))
	s.mu.Unlock()
	return &awslogs.DeleteLogGroupOutput{}, dropped.Wait()
}

func pages(usual int, question ...string) paging.Rules {
	return paging.Rules{Usual: usual, Question: strings.Join(question, "\x00"), BadToken: errToken}
}

// list calls fn for a page of the matching groups, and returns the token for the next page.
func (s *Service) list(sc scope, page *paging.Cursor, prefix string, match func(*groupRecord) bool, fn func(*groupRecord)) *string {
	in := sc.All()
	in.Prefix = prefix
	groups.Scan(s.store, in, page.After, func(_ store.Key, g groupRecord) bool {
		if !match(&g) {
			return true
		}
		if page.Full() {
			return false
		}
		fn(&g)
		page.Add(g.Name)
		return true
	})
	return page.Next()
}

// DescribeLogGroups lists groups by name.
func (s *Service) DescribeLogGroups(ctx context.Context, in *awslogs.DescribeLogGroupsInput) (*awslogs.DescribeLogGroupsOutput, error) {
	sc, prefix, part := scopeOf(ctx), aws.ToString(in.LogGroupNamePrefix), aws.ToString(in.LogGroupNamePattern)
	if prefix != "" && part != "" {
		return nil, errPrefixAndPattern()
	}
	var names []string
	for _, id := range in.LogGroupIdentifiers {
		names = append(names, sc.groupName(id))
	}
	page, err := pages(50, prefix, part).Start(in.Limit, in.NextToken)
	if err != nil {
		return nil, err
	}
	out := &awslogs.DescribeLogGroupsOutput{LogGroups: []logstypes.LogGroup{}}
	out.NextToken = s.list(sc, page, prefix, func(g *groupRecord) bool {
		return strings.Contains(g.Name, part) && (in.LogGroupClass == "" || string(in.LogGroupClass) == g.Class) && (names == nil || slices.Contains(names, g.Name))
	}, func(g *groupRecord) { out.LogGroups = append(out.LogGroups, s.shown(sc, g)) })
	return out, nil
}

func (s *Service) shown(sc scope, g *groupRecord) logstypes.LogGroup {
	arn := sc.groupARN(g.Name)
	out := logstypes.LogGroup{
		Arn: aws.String(arn + ":*"), LogGroupArn: &arn, LogGroupName: &g.Name, LogGroupClass: logstypes.LogGroupClass(g.Class), CreationTime: millis(g.Created),
		MetricFilterCount: aws.Int32(0), StoredBytes: aws.Int64(s.bytes.Size(sc.bucket(g.ID))), DeletionProtectionEnabled: &g.Protected,
	}
	if g.Retention != 0 {
		out.RetentionInDays = &g.Retention
	}
	if g.KMSKey != "" {
		out.KmsKeyId = &g.KMSKey
	}
	return out
}

// ListLogGroups lists groups with few details. Its pattern has up to five parts of names, separated
// by bars. A ^ before a part means that the name begins with it.
func (s *Service) ListLogGroups(ctx context.Context, in *awslogs.ListLogGroupsInput) (*awslogs.ListLogGroupsOutput, error) {
	sc, pattern := scopeOf(ctx), aws.ToString(in.LogGroupNamePattern)
	page, err := pages(50, pattern).Start(in.Limit, in.NextToken)
	if err != nil {
		return nil, err
	}
	matches := func(name string) bool {
		for part := range strings.SplitSeq(pattern, "|") {
			begin, anchored := strings.CutPrefix(part, "^")
			if anchored && strings.HasPrefix(name, begin) || !anchored && strings.Contains(name, part) {
				return true
			}
		}
		return false
	}
	out := &awslogs.ListLogGroupsOutput{LogGroups: []logstypes.LogGroupSummary{}}
	out.NextToken = s.list(sc, page, "", func(g *groupRecord) bool {
		return matches(g.Name) && (in.LogGroupClass == "" || string(in.LogGroupClass) == g.Class)
	}, func(g *groupRecord) {
		out.LogGroups = append(out.LogGroups, logstypes.LogGroupSummary{LogGroupArn: aws.String(sc.groupARN(g.Name)), LogGroupName: &g.Name, LogGroupClass: logstypes.LogGroupClass(g.Class)})
	})
	return out, nil
}

// PutRetentionPolicy sets how long events are kept. Older events disappear at once.
func (s *Service) PutRetentionPolicy(ctx context.Context, in *awslogs.PutRetentionPolicyInput) (*awslogs.PutRetentionPolicyOutput, error) {
	return &awslogs.PutRetentionPolicyOutput{}, s.changeGroup(ctx, *in.LogGroupName, func(g *groupRecord) error {
		g.Retention = *in.RetentionInDays
		return nil
	})
}

// DeleteRetentionPolicy makes a group keep its events forever.
func (s *Service) DeleteRetentionPolicy(ctx context.Context, in *awslogs.DeleteRetentionPolicyInput) (*awslogs.DeleteRetentionPolicyOutput, error) {
	return &awslogs.DeleteRetentionPolicyOutput{}, s.changeGroup(ctx, *in.LogGroupName, func(g *groupRecord) error {
		g.Retention = 0
		return nil
	})
}

// PutLogGroupDeletionProtection turns a group's protection from DeleteLogGroup on or off.
func (s *Service) PutLogGroupDeletionProtection(ctx context.Context, in *awslogs.PutLogGroupDeletionProtectionInput) (*awslogs.PutLogGroupDeletionProtectionOutput, error) {
	return &awslogs.PutLogGroupDeletionProtectionOutput{}, s.changeGroup(ctx, scopeOf(ctx).groupName(*in.LogGroupIdentifier), func(g *groupRecord) error {
		g.Protected = *in.DeletionProtectionEnabled
		return nil
	})
}

// AssociateKmsKey sets a group's KMS key.
func (s *Service) AssociateKmsKey(ctx context.Context, in *awslogs.AssociateKmsKeyInput) (*awslogs.AssociateKmsKeyOutput, error) {
	sc := scopeOf(ctx)
	name, err := sc.named(in.LogGroupName, in.ResourceIdentifier)
	if err != nil {
		return nil, err
	}
	if _, err := s.group(sc, name); err != nil {
		return nil, err
	}
	if err := s.checkKey(ctx, sc, name, *in.KmsKeyId); err != nil {
		return nil, err
	}
	return &awslogs.AssociateKmsKeyOutput{}, s.changeGroup(ctx, name, func(g *groupRecord) error {
		g.KMSKey = *in.KmsKeyId
		return nil
	})
}

// DisassociateKmsKey removes a group's KMS key.
func (s *Service) DisassociateKmsKey(ctx context.Context, in *awslogs.DisassociateKmsKeyInput) (*awslogs.DisassociateKmsKeyOutput, error) {
	name, err := scopeOf(ctx).named(in.LogGroupName, in.ResourceIdentifier)
	if err != nil {
		return nil, err
	}
	return &awslogs.DisassociateKmsKeyOutput{}, s.changeGroup(ctx, name, func(g *groupRecord) error {
		g.KMSKey = ""
		return nil
	})
}

func putTags(old, more map[string]string) (map[string]string, error) {
	rules := tagging.Rules{Most: 50, Reserved: errReservedTag, TooMany: errManyTags}
	return tagging.Put(rules, old, slices.Sorted(maps.Keys(more)), func(name string) (key, value *string) {
		v := more[name]
		return &name, &v
	})
}

func (s *Service) tag(ctx context.Context, group string, tags map[string]string) error {
	return s.changeGroup(ctx, group, func(g *groupRecord) (err error) {
		g.Tags, err = putTags(g.Tags, tags)
		return err
	})
}

func (s *Service) untag(ctx context.Context, group string, keys []string) error {
	return s.changeGroup(ctx, group, func(g *groupRecord) error {
		for _, k := range keys {
			delete(g.Tags, k)
		}
		return nil
	})
}

func (s *Service) tagsOf(ctx context.Context, group string) (map[string]string, error) {
	g, err := s.group(scopeOf(ctx), group)
	if g.Tags == nil {
		g.Tags = map[string]string{}
	}
	return g.Tags, err
}

// TagLogGroup adds or replaces tags of a group. It predates TagResource.
func (s *Service) TagLogGroup(ctx context.Context, in *awslogs.TagLogGroupInput) (*awslogs.TagLogGroupOutput, error) {
	return &awslogs.TagLogGroupOutput{}, s.tag(ctx, *in.LogGroupName, in.Tags)
}

// UntagLogGroup removes tags from a group.
func (s *Service) UntagLogGroup(ctx context.Context, in *awslogs.UntagLogGroupInput) (*awslogs.UntagLogGroupOutput, error) {
	return &awslogs.UntagLogGroupOutput{}, s.untag(ctx, *in.LogGroupName, in.Tags)
}

// ListTagsLogGroup lists the tags of a group.
func (s *Service) ListTagsLogGroup(ctx context.Context, in *awslogs.ListTagsLogGroupInput) (*awslogs.ListTagsLogGroupOutput, error) {
	tags, err := s.tagsOf(ctx, *in.LogGroupName)
	return &awslogs.ListTagsLogGroupOutput{Tags: tags}, err
}

// TagResource adds or replaces tags of a group.
func (s *Service) TagResource(ctx context.Context, in *awslogs.TagResourceInput) (*awslogs.TagResourceOutput, error) {
	return &awslogs.TagResourceOutput{}, s.tag(ctx, scopeOf(ctx).groupName(*in.ResourceArn), in.Tags)
}

// UntagResource removes tags from a group.
func (s *Service) UntagResource(ctx context.Context, in *awslogs.UntagResourceInput) (*awslogs.UntagResourceOutput, error) {
	return &awslogs.UntagResourceOutput{}, s.untag(ctx, scopeOf(ctx).groupName(*in.ResourceArn), in.TagKeys)
}

// ListTagsForResource lists the tags of a group.
func (s *Service) ListTagsForResource(ctx context.Context, in *awslogs.ListTagsForResourceInput) (*awslogs.ListTagsForResourceOutput, error) {
	tags, err := s.tagsOf(ctx, scopeOf(ctx).groupName(*in.ResourceArn))
	return &awslogs.ListTagsForResourceOutput{Tags: tags}, err
}

// DescribeSubscriptionFilters returns an empty list, because PutSubscriptionFilter is refused.
func (s *Service) DescribeSubscriptionFilters(ctx context.Context, in *awslogs.DescribeSubscriptionFiltersInput) (*awslogs.DescribeSubscriptionFiltersOutput, error) {
	_, err := s.group(scopeOf(ctx), *in.LogGroupName)
	return &awslogs.DescribeSubscriptionFiltersOutput{SubscriptionFilters: []logstypes.SubscriptionFilter{}}, err
}
