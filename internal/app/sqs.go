package app

import (
	"github.com/drydock-dev/drydock/internal/awsapi/server"
	"github.com/drydock-dev/drydock/internal/awscall"
	"github.com/drydock-dev/drydock/internal/service/sqs"
)

// newSQS makes SQS, which keeps its messages in the store of bytes.
func (d *daemon) newSQS() *sqs.Service {
	return sqs.New(sqs.Config{
		Store:           d.store,
		Bytes:           d.bytes,
		KMS:             awscall.KMS{API: d.server},
		PrincipalExists: identities{d.iam}.exists,
		Draining:        server.Draining,
		Pause:           d.timing.QueuePause,
		Log:             d.log,
	})
}
