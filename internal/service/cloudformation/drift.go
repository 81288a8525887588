package cloudformation

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	awscloudformation "github.com/aws/aws-sdk-go-v2/service/cloudformation"
	cloudformationtypes "github.com/aws/aws-sdk-go-v2/service/cloudformation/types"

	"github.com/drydock-dev/drydock/internal/awsapi"
	"github.com/drydock-dev/drydock/internal/awsapi/paging"
	"github.com/drydock-dev/drydock/internal/ids"
	"github.com/drydock-dev/drydock/internal/service/cloudformation/template"
	"github.com/drydock-dev/drydock/internal/store"
)

// Drift is the difference between a resource and its properties in the template. Only properties that the template sets
// are compared. AWS detects drift after the call returns; here the result is available at once.

var (
	// drifts are keyed by STACK/LOGICAL, detections by STACK/ID.
	drifts     = store.NewCollection[driftRecord]("cloudformation", "drift")
	detections = store.NewCollection[detectionRecord]("cloudformation", "driftdetection")
)

// A driftRecord is the result of the last detection for a resource.
type driftRecord struct {
	Physical, Type   string
	Status           cloudformationtypes.StackResourceDriftStatus
	Checked          time.Time
	Expected, Actual string // JSON
	Differences      []cloudformationtypes.PropertyDifference
}

// keptDetections is the number of detections that are kept for a stack. AWS says that the number may vary.
// https://docs.aws.amazon.com/AWSCloudFormation/latest/APIReference/API_DescribeStackDriftDetectionStatus.html
const keptDetections = 20

// A detectionRecord is a detection on a whole stack.
type detectionRecord struct {
	ID      string
	Begun   time.Time
	Status  cloudformationtypes.StackDriftDetectionStatus
	Reason  string `json:",omitempty"`
	Stack   cloudformationtypes.StackDriftStatus
	Drifted int32
}

// steady are the states in which drift can be detected.
// https://docs.aws.amazon.com/AWSCloudFormation/latest/UserGuide/using-cfn-stack-drift.html
var steady = []cloudformationtypes.StackStatus{
	cloudformationtypes.StackStatusCreateComplete, cloudformationtypes.StackStatusUpdateComplete, cloudformationtypes.StackStatusUpdateRollbackComplete,
	cloudformationtypes.StackStatusUpdateRollbackFailed, cloudformationtypes.StackStatusImportComplete, cloudformationtypes.StackStatusImportRollbackComplete,
}

// drifting returns a stack and an operation that reads its resources to detect drift. The operation acts as the
// caller, because AWS requires the caller's permission to read each resource, even if the stack has a role.
// https://docs.aws.amazon.com/AWSCloudFormation/latest/UserGuide/using-cfn-stack-drift.html
func (s *Service) drifting(ctx context.Context, name string) (*foundStack, *operation, error) {
	f, err := findLive(s.store, scopeOf(ctx), name)
	if err != nil {
		return nil, nil, store.NotFoundAs(err, stackNotFoundInBrackets(name))
	}
	if !slices.Contains(steady, f.Status) {
		return nil, nil, invalid("Drift detection cannot be performed on stack [%s] in the state %s", f.arn(), f.Status) // our own wording
	}
	rec := f.stackRecord
	rec.Operation, rec.RoleARN = newOperation(awsapi.CallFrom(ctx), nil), ""
	return &f, &operation{s: s, key: f.key, rec: rec, arn: f.arn()}, nil
}

// DetectStackDrift compares the resources of a stack with their templates.
func (s *Service) DetectStackDrift(ctx context.Context, in *awscloudformation.DetectStackDriftInput) (*awscloudformation.DetectStackDriftOutput, error) {
	f, o, err := s.drifting(ctx, *in.StackName)
	if err != nil {
		return nil, err
	}
	for _, id := range in.LogicalResourceIds {
		if r, ok := o.resource(id); !ok || gone(r.Status) {
			return nil, resourceNotFound(*in.StackName, id)
		}
	}
	d := detectionRecord{ID: ids.UUID(), Begun: s.now(), Status: cloudformationtypes.StackDriftDetectionStatusDetectionComplete, Stack: cloudformationtypes.StackDriftStatusInSync}
	found, failed := map[string]driftRecord{}, []string{}
	for _, rec := range s.resourcesOf(*f) {
		if len(in.LogicalResourceIds) > 0 && !slices.Contains(in.LogicalResourceIds, rec.LogicalID) || actual[rec.Type] == nil || gone(rec.Status) {
			continue
		}
		drift, err := o.drift(ctx, rec)
		if err != nil {
			failed = append(failed, rec.LogicalID)
			continue
		}
		found[rec.LogicalID] = drift
		if drift.Status != cloudformationtypes.StackResourceDriftStatusInSync {
			d.Drifted++
			d.Stack = cloudformationtypes.StackDriftStatusDrifted
		}
	}
	if len(failed) > 0 {
		d.Status, d.Reason = cloudformationtypes.StackDriftDetectionStatusDetectionFailed, fmt.Sprintf("Failed to detect drift on resources [%s]", strings.Join(failed, ", ")) // from memory
	}
	// One transaction for each resource, since a stack may have more than fit into one.
	for id, drift := range found {
		if err := s.store.Update(ctx, func(tx *store.Tx) error { return drifts.Put(tx, below(f.key, id), drift) }); err != nil {
			return nil, err
		}
	}
	return &awscloudformation.DetectStackDriftOutput{StackDriftDetectionId: &d.ID}, s.store.Update(ctx, func(tx *store.Tx) error {
		earlier := detections.All(tx, within(f.key))
		slices.SortFunc(earlier, func(a, b store.Item[detectionRecord]) int { return b.Value.Begun.Compare(a.Value.Begun) })
		for _, old := range earlier[min(len(earlier), keptDetections-1):] {
			detections.Delete(tx, old.Key)
		}
		if err := detections.Put(tx, below(f.key, d.ID), d); err != nil {
			return err
		}
		return stacks.Update(tx, f.key, func(rec *stackRecord) error {
			rec.Drift, rec.DriftChecked = d.Stack, d.Begun
			return nil
		})
	})
}

// DetectStackResourceDrift compares one resource with its template.
func (s *Service) DetectStackResourceDrift(ctx context.Context, in *awscloudformation.DetectStackResourceDriftInput) (*awscloudformation.DetectStackResourceDriftOutput, error) {
	f, o, err := s.drifting(ctx, *in.StackName)
	if err != nil {
		return nil, err
	}
	rec, ok := o.resource(*in.LogicalResourceId)
	switch {
	case !ok || gone(rec.Status):
		return nil, resourceNotFound(*in.StackName, *in.LogicalResourceId)
	case actual[rec.Type] == nil:
		return nil, invalid("Drift detection is not supported for resource type %s", rec.Type) // our own wording
	}
	drift, err := o.drift(ctx, rec)
	if err != nil {
		return nil, invalid("%s", err.Error())
	}
	shown := drift.describe(f, rec.LogicalID)
	return &awscloudformation.DetectStackResourceDriftOutput{StackResourceDrift: &shown}, s.store.Update(ctx, func(tx *store.Tx) error {
		return drifts.Put(tx, below(f.key, rec.LogicalID), drift)
	})
}

// DescribeStackDriftDetectionStatus describes a detection.
func (s *Service) DescribeStackDriftDetectionStatus(ctx context.Context, in *awscloudformation.DescribeStackDriftDetectionStatusInput) (*awscloudformation.DescribeStackDriftDetectionStatusOutput, error) {
	for _, item := range detections.All(s.store, scopeOf(ctx).All()) {
		d := item.Value
		if d.ID != *in.StackDriftDetectionId {
			continue
		}
		key := item.Key
		key.ID, _, _ = strings.Cut(key.ID, "/")
		rec, err := stacks.Get(s.store, key)
		if err != nil {
			return nil, err
		}
		return &awscloudformation.DescribeStackDriftDetectionStatusOutput{
			StackId: aws.String(stackARN(key, &rec)), StackDriftDetectionId: &d.ID, DetectionStatus: d.Status, DetectionStatusReason: nonEmpty(d.Reason), StackDriftStatus: d.Stack,
			DriftedStackResourceCount: &d.Drifted, Timestamp: &d.Begun,
		}, nil
	}
	return nil, invalid("Drift detection with id %s does not exist", *in.StackDriftDetectionId) // our own wording
}

// DescribeStackResourceDrifts describes the result of the last detection for each resource.
func (s *Service) DescribeStackResourceDrifts(ctx context.Context, in *awscloudformation.DescribeStackResourceDriftsInput) (*awscloudformation.DescribeStackResourceDriftsOutput, error) {
	f, err := find(s.store, scopeOf(ctx), *in.StackName)
	if err != nil {
		return nil, store.NotFoundAs(err, stackNotFoundInBrackets(*in.StackName))
	}
	list := []cloudformationtypes.StackResourceDrift{}
	for _, r := range s.resourcesOf(f) {
		drift, ok := s.driftOf(f.key, &r)
		if ok && (len(in.StackResourceDriftStatusFilters) == 0 || slices.Contains(in.StackResourceDriftStatusFilters, drift.Status)) {
			list = append(list, drift.describe(&f, r.LogicalID))
		}
	}
	page, next, err := paging.Cut(paged("drifts of "+f.ID), list, func(d cloudformationtypes.StackResourceDrift) string { return *d.LogicalResourceId }, in.MaxResults, in.NextToken)
	return &awscloudformation.DescribeStackResourceDriftsOutput{StackResourceDrifts: page, NextToken: next}, err
}

func (d *driftRecord) describe(f *foundStack, logical string) cloudformationtypes.StackResourceDrift {
	return cloudformationtypes.StackResourceDrift{
		StackId: aws.String(f.arn()), LogicalResourceId: &logical, PhysicalResourceId: nonEmpty(d.Physical), ResourceType: &d.Type, StackResourceDriftStatus: d.Status, Timestamp: &d.Checked,
		ExpectedProperties: nonEmpty(d.Expected), ActualProperties: nonEmpty(d.Actual), PropertyDifferences: append([]cloudformationtypes.PropertyDifference{}, d.Differences...),
	}
}

// driftOf returns the result of the last detection for a resource, unless the resource has changed since.
func (s *Service) driftOf(stack store.Key, r *resourceRecord) (driftRecord, bool) {
	d, err := drifts.Get(s.store, below(stack, r.LogicalID))
	return d, err == nil && !d.Checked.Before(r.Changed) && d.Physical == r.PhysicalID
}

// driftInformation describes the drift of a stack, if it was detected after the stack's last change.
func (f *foundStack) driftInformation() *cloudformationtypes.StackDriftInformation {
	if f.Drift == "" || f.DriftChecked.Before(f.Updated) {
		return &cloudformationtypes.StackDriftInformation{StackDriftStatus: cloudformationtypes.StackDriftStatusNotChecked}
	}
	return &cloudformationtypes.StackDriftInformation{StackDriftStatus: f.Drift, LastCheckTimestamp: &f.DriftChecked}
}

func (s *Service) resourceDrift(stack store.Key, r *resourceRecord) *cloudformationtypes.StackResourceDriftInformation {
	d, ok := s.driftOf(stack, r)
	if !ok {
		return &cloudformationtypes.StackResourceDriftInformation{StackResourceDriftStatus: cloudformationtypes.StackResourceDriftStatusNotChecked}
	}
	return &cloudformationtypes.StackResourceDriftInformation{StackResourceDriftStatus: d.Status, LastCheckTimestamp: &d.Checked}
}

// drift compares a resource with its template.
func (o *operation) drift(ctx context.Context, rec resourceRecord) (driftRecord, error) {
	as, err := o.as(ctx)
	if err != nil {
		return driftRecord{}, err
	}
	r := o.request(as, &rec, &rec.resourceState)
	out := driftRecord{Physical: rec.PhysicalID, Type: rec.Type, Checked: o.s.now(), Status: cloudformationtypes.StackResourceDriftStatusInSync}
	expected := r.props.Clone()
	for _, p := range []string{"LoginProfile", "PublicKeyMaterial"} { // no service returns them
		expected.Delete(p)
	}
	out.Expected = string(masked([]byte(template.JSON(expected)), o.rec.Parameters))
	is, err := actual[rec.Type](r)
	switch {
	case errors.Is(err, errNone), notFound(err):
		out.Status = cloudformationtypes.StackResourceDriftStatusDeleted
		return out, nil
	case err != nil:
		return driftRecord{}, r.reason(err)
	}
	now := expected.Clone()
	for _, k := range expected.Keys() {
		want, have := expected.Get(k), is.Get(k)
		if text, ok := want.(string); ok { // a template may have a document as text
			if m, isMap := have.(*template.Map); isMap {
				want = document(&text)
				have = m
			}
		}
		if k == "Tags" && have != nil {
			have = r.withoutStackTags(have)
		}
		if have == nil || refers(want) || alike(want, have) {
			continue
		}
		now.Set(k, have)
		out.Differences = append(out.Differences, differences("/"+k, want, have)...)
	}
	if len(out.Differences) > 0 {
		out.Status = cloudformationtypes.StackResourceDriftStatusModified
	}
	slices.SortStableFunc(out.Differences, func(a, b cloudformationtypes.PropertyDifference) int {
		return strings.Compare(*a.PropertyPath, *b.PropertyPath)
	})
	for i := range out.Differences {
		d := &out.Differences[i]
		d.ExpectedValue = aws.String(string(masked([]byte(*d.ExpectedValue), o.rec.Parameters)))
	}
	out.Actual = string(masked([]byte(template.JSON(now)), o.rec.Parameters))
	return out, nil
}

// withoutStackTags removes the tags that the resource has because of its stack.
func (r *request) withoutStackTags(tags any) any {
	all, ok := tags.([]any)
	if !ok {
		return tags
	}
	return slices.DeleteFunc(slices.Clone(all), func(e any) bool {
		m, _ := e.(*template.Map)
		t := tagRecord{text(m, "Key"), text(m, "Value")}
		return strings.HasPrefix(t.Key, "aws:") || slices.Contains(r.stackTags, t) && !slices.Contains(r.ownTags(), t)
	})
}

// alike reports whether two values are equal, regardless of the order of lists and of how scalars are written.
func alike(a, b any) bool {
	al, aIsList := a.([]any)
	bl, bIsList := b.([]any)
	am, aIsMap := a.(*template.Map)
	bm, bIsMap := b.(*template.Map)
	switch {
	case aIsList && bIsList:
		left := slices.Clone(bl)
		for _, e := range al {
			i := slices.IndexFunc(left, func(o any) bool { return alike(e, o) })
			if i < 0 {
				return false
			}
			left = slices.Delete(left, i, i+1)
		}
		return len(left) == 0
	case aIsList && len(al) == 1: // a policy may have a single action as text
		return alike(al[0], b)
	case bIsList && len(bl) == 1:
		return alike(a, bl[0])
	case aIsMap && bIsMap:
		return len(am.Keys()) == len(bm.Keys()) && !slices.ContainsFunc(am.Keys(), func(k string) bool { return !bm.Has(k) || !alike(am.Get(k), bm.Get(k)) })
	}
	at, aok := template.Text(a)
	bt, bok := template.Text(b)
	_, aNumber := a.(template.Number)
	_, bNumber := b.(template.Number)
	if aNumber || bNumber {
		an, aerr := strconv.ParseFloat(at, 64)
		bn, berr := strconv.ParseFloat(bt, 64)
		return aerr == nil && berr == nil && an == bn
	}
	return aok && bok && at == bt
}

// differences returns the differences between two values. The form of paths and values was recorded in
// localstack/localstack, tests/aws/services/cloudformation/api/test_drift_detection.snapshot.json.
func differences(path string, want, have any) (out []cloudformationtypes.PropertyDifference) {
	add := func(path string, want, have any, kind cloudformationtypes.DifferenceType) {
		out = append(out, cloudformationtypes.PropertyDifference{PropertyPath: &path, ExpectedValue: aws.String(plain(want)), ActualValue: aws.String(plain(have)), DifferenceType: kind})
	}
	wl, wIsList := want.([]any)
	hl, hIsList := have.([]any)
	wm, wIsMap := want.(*template.Map)
	hm, hIsMap := have.(*template.Map)
	switch {
	case wIsMap && hIsMap:
		for _, k := range wm.Keys() {
			switch {
			case !hm.Has(k):
				add(path+"/"+k, wm.Get(k), nil, cloudformationtypes.DifferenceTypeRemove)
			case !alike(wm.Get(k), hm.Get(k)):
				out = append(out, differences(path+"/"+k, wm.Get(k), hm.Get(k))...)
			}
		}
		for _, k := range hm.Keys() {
			if !wm.Has(k) {
				add(path+"/"+k, nil, hm.Get(k), cloudformationtypes.DifferenceTypeAdd)
			}
		}
	case wIsList && hIsList:
		left := slices.Clone(hl)
		for i, e := range wl {
			if n := slices.IndexFunc(left, func(o any) bool { return alike(e, o) }); n >= 0 {
				left = slices.Delete(left, n, n+1)
			} else {
				add(path+"/"+strconv.Itoa(i), e, nil, cloudformationtypes.DifferenceTypeRemove)
			}
		}
		for i, e := range hl {
			if slices.ContainsFunc(left, func(o any) bool { return alike(e, o) }) {
				add(path+"/"+strconv.Itoa(i), nil, e, cloudformationtypes.DifferenceTypeAdd)
			}
		}
	default:
		add(path, want, have, cloudformationtypes.DifferenceTypeNotEqual)
	}
	return out
}

// plain returns a value as text, which is "null" if there is no value.
func plain(v any) string {
	if v == nil {
		return "null"
	}
	if text, ok := template.Text(v); ok {
		return text
	}
	return template.JSON(v)
}
