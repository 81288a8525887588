package autoscaling

import (
	"cmp"
	"context"
	"encoding/json"
	"slices"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	awsautoscaling "github.com/aws/aws-sdk-go-v2/service/autoscaling"
	autoscalingtypes "github.com/aws/aws-sdk-go-v2/service/autoscaling/types"

	"github.com/drydock-dev/drydock/internal/awsapi/paging"
	"github.com/drydock-dev/drydock/internal/ids"
	"github.com/drydock-dev/drydock/internal/store"
)

const (
	// maxCause is the maximum length of an activity's Cause.
	// https://docs.aws.amazon.com/autoscaling/ec2/APIReference/API_Activity.html
	maxCause = 1023
	// keptActivities is how many completed activities a group keeps. AWS keeps those of six weeks.
	keptActivities = 2000
)

// because joins sentences as AWS does, with two spaces between them.
func because(sentences ...string) string {
	joined := strings.Join(sentences, "  ")
	return joined[:min(len(joined), maxCause)]
}

func details(sn subnet) *string {
	raw, err := json.Marshal(struct {
		Subnet string `json:"Subnet ID,omitempty"`
		Zone   string `json:"Availability Zone"`
	}{sn.ID, sn.Zone})
	if err != nil {
		return nil // strings always marshal
	}
	return aws.String(string(raw))
}

// begin stores a new activity and returns its ID.
func begin(tx *store.Tx, group store.Key, g *groupRecord, description, cause string, sn subnet, at time.Time) (string, error) {
	id := ids.UUID()
	return id, actions.Put(tx, group.Below(id), activityRecord{autoscalingtypes.Activity{
		ActivityId: &id, AutoScalingGroupName: g.Group.AutoScalingGroupName, AutoScalingGroupARN: g.Group.AutoScalingGroupARN,
		Description: &description, Cause: &cause, StartTime: &at, Details: details(sn), Progress: aws.Int32(50),
		StatusCode: autoscalingtypes.ScalingActivityStatusCodeInProgress,
	}})
}

// progress updates an activity that is in progress.
func progress(tx *store.Tx, group store.Key, id string, status autoscalingtypes.ScalingActivityStatusCode, percent int32) error {
	if id == "" {
		return nil
	}
	return store.IgnoreNotFound(actions.Update(tx, group.Below(id), func(a *activityRecord) error {
		if a.Activity.EndTime == nil {
			a.Activity.StatusCode, a.Activity.Progress = status, &percent
		}
		return nil
	}))
}

// end completes an activity. A message means that it failed.
func end(tx *store.Tx, group store.Key, id string, status autoscalingtypes.ScalingActivityStatusCode, message string, at time.Time) error {
	if id == "" {
		return nil
	}
	return store.IgnoreNotFound(actions.Update(tx, group.Below(id), func(a *activityRecord) error {
		if a.Activity.EndTime != nil {
			return nil
		}
		a.Activity.StatusCode, a.Activity.Progress = status, aws.Int32(100)
		a.Activity.EndTime = aws.Time(at.Truncate(time.Second))
		if message != "" {
			a.Activity.StatusMessage = &message
			a.Activity.Description = aws.String(*a.Activity.Description + ".  Status Reason: " + message)
		}
		return nil
	}))
}

// DescribeScalingActivities lists activities: those in progress first, then the latest.
func (s *Service) DescribeScalingActivities(ctx context.Context, in *awsautoscaling.DescribeScalingActivitiesInput) (*awsautoscaling.DescribeScalingActivitiesOutput, error) {
	sc := scopeOf(ctx)
	where := sc.All()
	deleted := aws.ToBool(in.IncludeDeletedGroups)
	if name := aws.ToString(in.AutoScalingGroupName); name != "" {
		where = sc.group(name).AllBelow()
		if _, err := groups.Get(s.store, sc.group(name)); store.IsNotFound(err) && !deleted {
			return nil, errNoGroup(name)
		} else if store.IgnoreNotFound(err) != nil {
			return nil, err
		}
	}
	live := map[string]bool{}
	for _, g := range groups.All(s.store, sc.All()) {
		live[*g.Value.Group.AutoScalingGroupARN] = true
	}
	all := actions.All(s.store, where)
	var found []autoscalingtypes.Activity
	for _, i := range all {
		a := i.Value.Activity
		if len(in.ActivityIds) > 0 && !slices.Contains(in.ActivityIds, *a.ActivityId) || !live[*a.AutoScalingGroupARN] && !deleted {
			continue
		}
		if !live[*a.AutoScalingGroupARN] {
			a.AutoScalingGroupState = aws.String("Deleted")
		}
		found = append(found, a)
	}
	slices.SortFunc(found, latestFirst)
	found, next, err := paging.CutInOrder(pages(100, 100), found, func(a autoscalingtypes.Activity) string { return *a.ActivityId }, in.MaxRecords, in.NextToken)
	if err != nil {
		return nil, err
	}
	out := &awsautoscaling.DescribeScalingActivitiesOutput{Activities: []autoscalingtypes.Activity{}, NextToken: next}
	out.Activities = append(out.Activities, found...)
	return out, nil
}

func latestFirst(a, b autoscalingtypes.Activity) int {
	if (a.EndTime == nil) != (b.EndTime == nil) {
		if a.EndTime == nil {
			return -1
		}
		return 1
	}
	return cmp.Or(b.StartTime.Compare(*a.StartTime), cmp.Compare(*a.ActivityId, *b.ActivityId))
}

// prune deletes a group's oldest activities if it has more than it keeps.
func (s *Service) prune(ctx context.Context, group store.Key) error {
	all := actions.All(s.store, group.AllBelow())
	if len(all) <= keptActivities+keptActivities/10 {
		return nil
	}
	slices.SortFunc(all, func(a, b store.Item[activityRecord]) int { return latestFirst(a.Value.Activity, b.Value.Activity) })
	for old := range slices.Chunk(all[keptActivities:], 90) {
		if err := s.store.Update(ctx, func(tx *store.Tx) error {
			for _, i := range old {
				if i.Value.Activity.EndTime != nil {
					actions.Delete(tx, i.Key)
				}
			}
			return nil
		}); err != nil {
			return err
		}
	}
	return nil
}
