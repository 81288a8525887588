package base

import (
	"time"

	ekstypes "github.com/aws/aws-sdk-go-v2/service/eks/types"

	"github.com/drydock-dev/drydock/internal/ids"
	"github.com/drydock-dev/drydock/internal/service/eks/ekserr"
	"github.com/drydock-dev/drydock/internal/service/eks/record"
	"github.com/drydock-dev/drydock/internal/store"
)

// NewUpdate returns an update that begins now.
func (s *Service) NewUpdate(t ekstypes.UpdateType, params ...ekstypes.UpdateParam) *record.Update {
	return &record.Update{Update: ekstypes.Update{
		Id:        new(ids.UUID()),
		Status:    ekstypes.UpdateStatusInProgress,
		Type:      t,
		Params:    params,
		CreatedAt: new(s.Clock.Now().UTC().Truncate(time.Millisecond)),
		Errors:    []ekstypes.ErrorDetail{},
	}}
}

// RepeatedUpdate returns the update that an earlier request with the same
// token created, or nil if there is none.
func (s *Service) RepeatedUpdate(r store.Reader, cluster store.Key, token *string, request string) (*ekstypes.Update, error) {
	if token == nil {
		return nil, nil
	}
	for _, i := range record.Updates.All(r, record.AllBelow(cluster)) {
		if i.Value.Token != *token {
			continue
		}
		if i.Value.Request != request {
			return nil, ekserr.TokenReused(cluster.ID)
		}
		return &i.Value.Update, nil
	}
	return nil, nil
}

// UpdateInProgress returns the refusal of what, naming the update that runs.
func (s *Service) UpdateInProgress(r store.Reader, cluster store.Key, nodegroup, what string) error {
	items := record.Updates.All(r, record.AllBelow(cluster))
	id := "unknown"
	for _, i := range items {
		if i.Value.Nodegroup == nodegroup && i.Value.Addon == "" && i.Value.Update.Status == ekstypes.UpdateStatusInProgress {
			id = *i.Value.Update.Id
		}
	}
	return ekserr.UpdateInProgress(what, cluster.ID, id)
}

// UpdateParam returns a parameter of an update.
func UpdateParam(t ekstypes.UpdateParamType, value string) ekstypes.UpdateParam {
	return ekstypes.UpdateParam{Type: t, Value: &value}
}
