package autoscaling

import (
	"context"
	"errors"
	"maps"
	"slices"

	autoscalingtypes "github.com/aws/aws-sdk-go-v2/service/autoscaling/types"
	"github.com/aws/smithy-go"
)

// TargetGroups are those of load balancers, with which a group registers its
// instances. It is called as EC2 is.
type TargetGroups interface {
	// TargetGroupExists reports whether there is a target group.
	TargetGroupExists(account, region, arn string) bool
	RegisterInstances(ctx context.Context, arn string, ids []string) error
	DeregisterInstances(ctx context.Context, arn string, ids []string) error
}

// checkTargetGroups refuses target groups that are not there.
func (s *Service) checkTargetGroups(sc scope, arns []string) error {
	for _, a := range arns {
		if s.cfg.TargetGroups != nil && !s.cfg.TargetGroups.TargetGroupExists(sc.account, sc.region, a) {
			return errValidation("Provided Target Groups may not be valid. Please ensure they exist and try again.")
		}
	}
	return nil
}

// targets registers the instances in service with the group's target groups, and
// takes those away that it registered and that are in service no more. What is
// registered is in the group's record: others may register instances too.
// https://docs.aws.amazon.com/autoscaling/ec2/userguide/attach-load-balancer-asg.html
func (w *work) targets(ctx context.Context) error {
	if w.s.cfg.TargetGroups == nil || len(w.g.Group.TargetGroupARNs)+len(w.g.Registered) == 0 {
		return nil
	}
	all, err := w.members()
	if err != nil {
		return err
	}
	var serving []string
	for _, m := range all {
		if m.State == autoscalingtypes.LifecycleStateInService {
			serving = append(serving, m.ID)
		}
	}
	now := map[string][]string{}
	for a, have := range w.g.Registered {
		gone := slices.DeleteFunc(slices.Clone(have), func(id string) bool {
			return slices.Contains(serving, id) && slices.Contains(w.g.Group.TargetGroupARNs, a)
		})
		if len(gone) > 0 {
			if err := w.passing(w.s.cfg.TargetGroups.DeregisterInstances(w.svc, a, gone)); err != nil {
				return err
			}
		}
	}
	for _, a := range w.g.Group.TargetGroupARNs {
		fresh := slices.DeleteFunc(slices.Clone(serving), func(id string) bool { return slices.Contains(w.g.Registered[a], id) })
		if len(fresh) > 0 {
			if err := w.passing(w.s.cfg.TargetGroups.RegisterInstances(w.svc, a, fresh)); err != nil {
				return err
			}
		}
		if len(serving) > 0 {
			now[a] = slices.Sorted(slices.Values(serving))
		}
	}
	if maps.EqualFunc(now, w.g.Registered, slices.Equal) {
		return nil
	}
	return ignoreNotFound(groups.UpdateOne(ctx, w.s.store, w.key, func(g *groupRecord) error {
		g.Registered = now
		return nil
	}))
}

// passing drops refusals: a target group that was deleted, an instance that ended
// meanwhile.
func (w *work) passing(err error) error {
	if api, ok := errors.AsType[smithy.APIError](err); ok && api.ErrorFault() == smithy.FaultClient {
		w.s.log.Debug("autoscaling: targets of a load balancer", "group", w.key.String(), "err", err)
		return nil
	}
	return err
}
