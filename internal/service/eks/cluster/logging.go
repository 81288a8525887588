package cluster

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/aws/aws-sdk-go-v2/aws"
	awslogs "github.com/aws/aws-sdk-go-v2/service/cloudwatchlogs"
	logstypes "github.com/aws/aws-sdk-go-v2/service/cloudwatchlogs/types"
	ekstypes "github.com/aws/aws-sdk-go-v2/service/eks/types"

	"github.com/drydock-dev/drydock/internal/awsapi/awserr"
	"github.com/drydock-dev/drydock/internal/service/eks/base"
	"github.com/drydock-dev/drydock/internal/service/eks/ekserr"
	"github.com/drydock-dev/drydock/internal/service/eks/plane"
	"github.com/drydock-dev/drydock/internal/service/eks/record"
	"github.com/drydock-dev/drydock/internal/store"
)

// components maps each type of log to the control plane components that write it.
// https://docs.aws.amazon.com/eks/latest/userguide/control-plane-logs.html
var components = map[ekstypes.LogType][]string{
	ekstypes.LogTypeApi:               {"kube-apiserver"},
	ekstypes.LogTypeAudit:             {"kube-apiserver-audit"},
	ekstypes.LogTypeAuthenticator:     {"authenticator"},
	ekstypes.LogTypeControllerManager: {"kube-controller-manager", "cloud-controller-manager"},
	ekstypes.LogTypeScheduler:         {"kube-scheduler"},
}

// logGroup returns the name of a cluster's log group.
func logGroup(cluster string) string { return "/aws/eks/" + cluster + "/cluster" }

// enabledLogs returns the types of logs that a configuration enables, sorted.
func enabledLogs(in *ekstypes.Logging) []ekstypes.LogType {
	var out []ekstypes.LogType
	for _, setup := range in.ClusterLogging {
		if setup.Enabled != nil && *setup.Enabled {
			out = append(out, setup.Types...)
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// changedLogs returns the types of logs that are enabled after a request, given those enabled before. Types that the
// request leaves out do not change.
func changedLogs(cluster string, before []ekstypes.LogType, in *ekstypes.Logging) ([]ekstypes.LogType, error) {
	after := slices.Clone(before)
	if in == nil {
		return after, nil
	}
	for _, setup := range in.ClusterLogging {
		for _, t := range setup.Types {
			if !slices.Contains(t.Values(), t) {
				return nil, ekserr.InvalidParameter(cluster, "Invalid log type: %s", t)
			}
			after = slices.DeleteFunc(after, func(other ekstypes.LogType) bool { return other == t })
			if setup.Enabled != nil && *setup.Enabled {
				after = append(after, t)
			}
		}
	}
	slices.Sort(after)
	return after, nil
}

// loggingOf returns the configuration of a cluster with the given types of logs enabled.
func loggingOf(enabled []ekstypes.LogType) *ekstypes.Logging {
	out := &ekstypes.Logging{ClusterLogging: []ekstypes.LogSetup{}}
	var disabled []ekstypes.LogType
	for _, t := range ekstypes.LogType("").Values() {
		if !slices.Contains(enabled, t) {
			disabled = append(disabled, t)
		}
	}
	if len(enabled) > 0 {
		out.ClusterLogging = append(out.ClusterLogging, ekstypes.LogSetup{Enabled: new(true), Types: enabled})
	}
	if len(disabled) > 0 {
		out.ClusterLogging = append(out.ClusterLogging, ekstypes.LogSetup{Enabled: new(false), Types: disabled})
	}
	return out
}

// loggingChange validates a change to the enabled types of logs, and returns the update.
func (s *Service) loggingChange(rec record.Cluster, in *ekstypes.Logging) (*record.Update, error) {
	before := enabledLogs(rec.Cluster.Logging)
	after, err := changedLogs(rec.Name(), before, in)
	if err != nil {
		return nil, err
	}
	if slices.Equal(before, after) {
		return nil, errSameLogging(rec.Name())
	}
	setups := []map[string]any{}
	for _, setup := range in.ClusterLogging {
		setups = append(setups, map[string]any{"types": setup.Types, "enabled": aws.ToBool(setup.Enabled)})
	}
	up := s.NewUpdate(ekstypes.UpdateTypeLoggingUpdate, base.UpdateParam(ekstypes.UpdateParamTypeClusterLogging, base.JSON(map[string]any{"clusterLogging": setups})))
	up.Logging = &record.LoggingChange{Types: after}
	return up, nil
}

// applyLogging creates the log group if any type of log is enabled, and makes the plane write the enabled types.
func (s *Service) applyLogging(ctx context.Context, key store.Key, planeID string, enabled []ekstypes.LogType) error {
	var wanted []string
	for _, t := range enabled {
		wanted = append(wanted, components[t]...)
	}
	if len(wanted) > 0 {
		if err := s.createLogGroup(s.AsService(ctx, key.Account, key.Region), logGroup(key.ID)); err != nil {
			return fmt.Errorf("creating the log group: %w", err)
		}
	}
	s.troubles.forget(planeID) // of lines that may not be written any longer
	return s.ControlPlanes.SetLogging(ctx, planeID, wanted)
}

func (s *Service) createLogGroup(svc context.Context, group string) error {
	_, err := s.Logs.CreateLogGroup(svc, &awslogs.CreateLogGroupInput{LogGroupName: &group})
	return ignoreExisting(err)
}

func ignoreExisting(err error) error {
	if awserr.CodeOf(err) == "ResourceAlreadyExistsException" {
		return nil
	}
	return err
}

// WriteLogs writes log lines of a control plane to the log group of its cluster. instance identifies a run of the
// control plane. As on EKS, a deleted log group is created again.
// https://github.com/terraform-aws-modules/terraform-aws-eks/issues/920
func (s *Service) WriteLogs(ctx context.Context, planeID, instance string, lines []plane.LogLine) error {
	err := s.writeLogs(ctx, planeID, instance, lines)
	s.troubles.note(planeID, err, s.Now())
	return err
}

func (s *Service) writeLogs(ctx context.Context, planeID, instance string, lines []plane.LogLine) error {
	key, rec, err := s.ClusterByPlane(planeID)
	switch {
	case errors.Is(err, base.ErrUnknownPlane), err == nil && rec.Cluster.Status == ekstypes.ClusterStatusDeleting:
		return nil // the cluster is gone, or soon will be
	case err != nil:
		return err
	}
	svc, group := s.AsService(ctx, key.Account, key.Region), logGroup(key.ID)
	streams := map[string][]logstypes.InputLogEvent{}
	for _, line := range lines {
		stream := line.Component + "-" + instance
		streams[stream] = append(streams[stream], logstypes.InputLogEvent{Timestamp: &line.Time, Message: &line.Text})
	}
	for stream, events := range streams {
		slices.SortStableFunc(events, func(a, b logstypes.InputLogEvent) int { return cmp.Compare(*a.Timestamp, *b.Timestamp) })
		put := &awslogs.PutLogEventsInput{LogGroupName: &group, LogStreamName: &stream, LogEvents: events}
		_, err := s.Logs.PutLogEvents(svc, put)
		if awserr.CodeOf(err) == "ResourceNotFoundException" {
			if err := s.createLogGroup(svc, group); err != nil {
				return err
			}
			if _, err := s.Logs.CreateLogStream(svc, &awslogs.CreateLogStreamInput{LogGroupName: &group, LogStreamName: &stream}); ignoreExisting(err) != nil {
				return err
			}
			_, err = s.Logs.PutLogEvents(svc, put)
		}
		if err != nil {
			return fmt.Errorf("writing to %s of %s: %w", stream, group, err)
		}
	}
	return nil
}
