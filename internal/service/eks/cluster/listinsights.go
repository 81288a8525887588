package cluster

import (
	"context"
	"maps"
	"slices"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	awseks "github.com/aws/aws-sdk-go-v2/service/eks"
	ekstypes "github.com/aws/aws-sdk-go-v2/service/eks/types"

	"github.com/drydock-dev/drydock/internal/service/eks/base"
	"github.com/drydock-dev/drydock/internal/service/eks/ekserr"
	"github.com/drydock-dev/drydock/internal/service/eks/record"
	"github.com/drydock-dev/drydock/internal/store"
)

// The operations on insights.
//
// AWS deviation: EKS computes insights once a day and when a refresh is started. Here every answer
// is computed from the cluster's current state, so a refresh completes at once.
// https://docs.aws.amazon.com/eks/latest/userguide/cluster-insights.html

// ListInsights lists the insights of a cluster.
func (s *Service) ListInsights(ctx context.Context, in *awseks.ListInsightsInput) (*awseks.ListInsightsOutput, error) {
	f := in.Filter
	all, err := s.insightsOf(ctx, in.ClusterName, f == nil || len(f.Categories) == 0 || slices.Contains(f.Categories, ekstypes.CategoryRollbackReadiness))
	if err != nil {
		return nil, err
	}
	if f != nil {
		all = slices.DeleteFunc(all, func(i ekstypes.Insight) bool {
			return len(f.Categories) > 0 && !slices.Contains(f.Categories, i.Category) ||
				len(f.KubernetesVersions) > 0 && !slices.Contains(f.KubernetesVersions, aws.ToString(i.KubernetesVersion)) ||
				len(f.Statuses) > 0 && !slices.Contains(f.Statuses, i.InsightStatus.Status)
		})
	}
	order := func(i ekstypes.Insight) string {
		return strings.Join([]string{string(i.Category), aws.ToString(i.KubernetesVersion), *i.Name, *i.Id}, "/")
	}
	slices.SortFunc(all, func(a, b ekstypes.Insight) int { return strings.Compare(order(a), order(b)) })
	page, next, err := base.Page(all, order, in.MaxResults, in.NextToken)
	out := &awseks.ListInsightsOutput{Insights: []ekstypes.InsightSummary{}, NextToken: next}
	for _, i := range page {
		out.Insights = append(out.Insights, ekstypes.InsightSummary{
			Id: i.Id, Name: i.Name, Category: i.Category, Description: i.Description, InsightStatus: i.InsightStatus,
			KubernetesVersion: i.KubernetesVersion, LastRefreshTime: i.LastRefreshTime, LastTransitionTime: i.LastTransitionTime,
		})
	}
	return out, err
}

// DescribeInsight returns an insight with its findings.
func (s *Service) DescribeInsight(ctx context.Context, in *awseks.DescribeInsightInput) (*awseks.DescribeInsightOutput, error) {
	for _, rollback := range []bool{false, true} {
		all, err := s.insightsOf(ctx, in.ClusterName, rollback)
		if err != nil {
			return nil, err
		}
		for _, i := range all {
			if *i.Id == aws.ToString(in.Id) {
				return &awseks.DescribeInsightOutput{Insight: &i}, nil
			}
		}
	}
	return nil, ekserr.NotFound("No insight found for ID: %s", aws.ToString(in.Id))
}

// StartInsightsRefresh computes the insights of a cluster.
func (s *Service) StartInsightsRefresh(ctx context.Context, in *awseks.StartInsightsRefreshInput) (*awseks.StartInsightsRefreshOutput, error) {
	started := s.Now()
	if _, err := s.insightsOf(ctx, in.ClusterName, true); err != nil {
		return nil, err
	}
	key, _, err := s.Cluster(ctx, in.ClusterName)
	if err != nil {
		return nil, err
	}
	err = s.changeInsights(ctx, key, func(r *record.Insights) { r.Started, r.Ended = started, s.Now() })
	return &awseks.StartInsightsRefreshOutput{Status: ekstypes.InsightsRefreshStatusInProgress, Message: new("Insights refresh is in progress")}, err
}

// DescribeInsightsRefresh returns the last refresh. If none was started, it is the cluster's creation.
func (s *Service) DescribeInsightsRefresh(ctx context.Context, in *awseks.DescribeInsightsRefreshInput) (*awseks.DescribeInsightsRefreshOutput, error) {
	key, rec, err := s.ActiveCluster(ctx, in.ClusterName)
	if err != nil {
		return nil, err
	}
	last, err := record.ClusterInsights.Get(s.Store, key.Below("insights"))
	if store.IgnoreNotFound(err) != nil {
		return nil, err
	}
	if last.Ended.IsZero() {
		last.Started, last.Ended = *rec.Cluster.CreatedAt, *rec.Cluster.CreatedAt
	}
	return &awseks.DescribeInsightsRefreshOutput{
		Status: ekstypes.InsightsRefreshStatusCompleted, Message: new("Insights refresh completed successfully"), StartedAt: &last.Started, EndedAt: &last.Ended,
	}, nil
}

// insightsOf computes the insights of a cluster, with or without those about a rollback, and stores when the status of each
// last changed.
func (s *Service) insightsOf(ctx context.Context, name *string, rollback bool) ([]ekstypes.Insight, error) {
	key, rec, err := s.ActiveCluster(ctx, name)
	if err != nil {
		return nil, err
	}
	ev, err := s.gather(ctx, key, rec)
	if err != nil {
		return nil, err
	}
	if rollback {
		s.gatherRollback(ctx, key, ev)
	}
	all := ev.insights()
	known, err := record.ClusterInsights.Get(s.Store, key.Below("insights"))
	if store.IgnoreNotFound(err) != nil {
		return nil, err
	}
	statuses := map[string]record.InsightStatus{}
	for i := range all {
		id := *all[i].Id
		was, ok := known.Statuses[id]
		if !ok || was.Status != all[i].InsightStatus.Status {
			was.Since = ev.now
		}
		if all[i].LastTransitionTime == nil { // the source's have their own
			all[i].LastTransitionTime = &was.Since
		}
		statuses[id] = record.InsightStatus{Status: all[i].InsightStatus.Status, Since: *all[i].LastTransitionTime}
	}
	set := func(r *record.Insights) {
		if r.Statuses == nil || rollback {
			r.Statuses = statuses
			return
		}
		r.Statuses = maps.Clone(r.Statuses) // those that were not computed stay
		maps.Copy(r.Statuses, statuses)
	}
	now := known
	if set(&now); maps.EqualFunc(now.Statuses, known.Statuses, func(a, b record.InsightStatus) bool { return a.Status == b.Status }) {
		return all, nil
	}
	return all, s.changeInsights(ctx, key, set)
}

// changeInsights changes what is stored about a cluster's insights, unless the cluster has been deleted.
func (s *Service) changeInsights(ctx context.Context, key store.Key, change func(*record.Insights)) error {
	return s.Store.Update(ctx, func(tx *store.Tx) error {
		if _, err := record.Clusters.Get(tx, key); err != nil {
			return store.NotFoundAs(err, ekserr.NoCluster(key.ID))
		}
		r, err := record.ClusterInsights.Get(tx, key.Below("insights"))
		if store.IgnoreNotFound(err) != nil {
			return err
		}
		change(&r)
		return record.ClusterInsights.Put(tx, key.Below("insights"), r)
	})
}
