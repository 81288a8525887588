package load

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	awseks "github.com/aws/aws-sdk-go-v2/service/eks"
	ekstypes "github.com/aws/aws-sdk-go-v2/service/eks/types"

	"github.com/drydock-dev/drydock/internal/module"
	"github.com/drydock-dev/drydock/internal/service/eks/record"
)

// mostInsights is the maximum size of a cluster's insights, as JSON.
const mostInsights = 512 << 10

// loadInsights keeps the insights of clusters. One whose details were not read has the status that the list returned.
func (l *loader) loadInsights() error {
	found := map[string]map[string]ekstypes.Insight{}
	if err := each(l, "ListInsights", func(in *awseks.ListInsightsInput, out *awseks.ListInsightsOutput) error {
		of := aws.ToString(in.ClusterName)
		if found[of] == nil {
			found[of] = map[string]ekstypes.Insight{}
		}
		for _, i := range out.Insights {
			found[of][aws.ToString(i.Id)] = ekstypes.Insight{
				Id: i.Id, Name: i.Name, Category: i.Category, Description: i.Description, InsightStatus: i.InsightStatus, KubernetesVersion: i.KubernetesVersion,
				LastRefreshTime: i.LastRefreshTime, LastTransitionTime: i.LastTransitionTime,
			}
		}
		return nil
	}); err != nil {
		return err
	}
	if err := each(l, "DescribeInsight", func(in *awseks.DescribeInsightInput, out *awseks.DescribeInsightOutput) error {
		of, id := aws.ToString(in.ClusterName), aws.ToString(in.Id)
		if _, ok := found[of][id]; ok && out.Insight != nil && aws.ToString(out.Insight.Id) == id {
			found[of][id] = *out.Insight
		}
		return nil
	}); err != nil {
		return err
	}
	for _, name := range slices.Sorted(maps.Keys(found)) {
		if !l.clusters[name] {
			continue
		}
		rec := record.Insights{Source: &record.SourceInsights{Insights: []ekstypes.Insight{}}}
		for _, id := range slices.Sorted(maps.Keys(found[name])) {
			i := found[name][id]
			l.complete(&i)
			rec.Source.Insights = append(rec.Source.Insights, i)
		}
		if b, err := json.Marshal(rec); err != nil || len(b) > mostInsights {
			l.gap("ListInsights", name, "the insights of cluster %s are more than %d KiB, so they are unknown", name, mostInsights>>10)
			continue
		}
		l.writes = append(l.writes, module.Put(record.ClusterInsights, l.key(name).Below("insights"), rec))
	}
	return nil
}

// complete sets what EKS may leave out.
func (l *loader) complete(i *ekstypes.Insight) {
	set := func(texts ...**string) {
		for _, t := range texts {
			*t = cmp.Or(*t, new(""))
		}
	}
	status := func(s **ekstypes.InsightStatus) {
		if *s == nil {
			*s = &ekstypes.InsightStatus{Status: ekstypes.InsightStatusValueUnknown}
		}
		set(&(*s).Reason)
	}
	set(&i.Id, &i.Name, &i.Description, &i.Recommendation)
	status(&i.InsightStatus)
	i.LastTransitionTime = cmp.Or(i.LastTransitionTime, i.LastRefreshTime, &l.r.Source.Started)
	if i.CategorySpecificSummary == nil {
		i.CategorySpecificSummary = &ekstypes.InsightCategorySpecificSummary{}
	}
	for n := range i.Resources {
		status(&i.Resources[n].InsightStatus)
	}
	for n := range i.CategorySpecificSummary.DeprecationDetails {
		d := &i.CategorySpecificSummary.DeprecationDetails[n]
		set(&d.Usage, &d.ReplacedWith, &d.StopServingVersion, &d.StartServingReplacementVersion)
		for c := range d.ClientStats {
			set(&d.ClientStats[c].UserAgent)
		}
	}
}

// loadUpdates keeps the updates that have ended. The others are not continued here.
func (l *loader) loadUpdates() error {
	return each(l, "DescribeUpdate", func(in *awseks.DescribeUpdateInput, out *awseks.DescribeUpdateOutput) error {
		u := out.Update
		if u == nil || !l.clusters[aws.ToString(in.Name)] || u.Status == ekstypes.UpdateStatusInProgress {
			return nil
		}
		if !updateID.MatchString(aws.ToString(u.Id)) {
			return fmt.Errorf("an update of cluster %s has the invalid ID %q", *in.Name, aws.ToString(u.Id))
		}
		u.CreatedAt = cmp.Or(u.CreatedAt, &l.r.Source.Started)
		l.writes = append(l.writes, module.Put(record.Updates, l.key(*in.Name).Below(*u.Id), record.Update{
			Update: *u, Nodegroup: aws.ToString(in.NodegroupName), Addon: aws.ToString(in.AddonName), Capability: aws.ToString(in.CapabilityName),
		}))
		return nil
	})
}

func (l *loader) loadCapabilities() error {
	return each(l, "DescribeCapability", func(_ *awseks.DescribeCapabilityInput, out *awseks.DescribeCapabilityOutput) error {
		c := out.Capability
		if c == nil || !l.clusters[aws.ToString(c.ClusterName)] {
			return nil
		}
		name := aws.ToString(c.CapabilityName)
		if !partName.MatchString(name) {
			return fmt.Errorf("a capability of cluster %s has an invalid name", *c.ClusterName)
		}
		if err := l.checkARN(c.Arn, "capability/"+*c.ClusterName+"/"); err != nil {
			return err
		}
		if !strings.Contains(*c.Arn, "/"+name) {
			return fmt.Errorf("%q is not the ARN of capability %s", *c.Arn, name)
		}
		if c.Health == nil {
			c.Health = &ekstypes.CapabilityHealth{Issues: []ekstypes.CapabilityIssue{}}
		}
		l.writes = append(l.writes, module.Put(record.Capabilities, l.key(*c.ClusterName).Below(name), record.Capability{Capability: *c}))
		return nil
	})
}
