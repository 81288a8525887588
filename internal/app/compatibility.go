package app

import (
	"io"

	"github.com/drydock-dev/drydock/internal/awsapi/server"
	"github.com/drydock-dev/drydock/internal/service/autoscaling"
	"github.com/drydock-dev/drydock/internal/service/cloudtrail"
	"github.com/drydock-dev/drydock/internal/service/ec2"
	"github.com/drydock-dev/drydock/internal/service/eks"
	"github.com/drydock-dev/drydock/internal/service/iam"
	"github.com/drydock-dev/drydock/internal/service/pricing"
	"github.com/drydock-dev/drydock/internal/service/servicequotas"
	"github.com/drydock-dev/drydock/internal/service/ssm"
	"github.com/drydock-dev/drydock/internal/service/sts"
)

// WriteCompatibility writes docs/compatibility.md. The operation tables are
// constant, so it needs no running service.
func WriteCompatibility(w io.Writer) error {
	table, err := server.Compatibility(constantServices().services())
	if err != nil {
		return err
	}
	return server.WriteCompatibility(w, table)
}

// constantServices are services that know their operations and nothing else.
func constantServices() *daemon {
	return &daemon{
		eks: new(eks.Service), ec2: new(ec2.Service), scaling: new(autoscaling.Service), iam: new(iam.Service), sts: new(sts.Service), ssm: new(ssm.Service),
		pricing: new(pricing.Service), quotas: new(servicequotas.Service), trail: new(cloudtrail.Service),
	}
}
