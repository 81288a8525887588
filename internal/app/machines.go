package app

import (
	"context"
	"crypto/x509"
	"errors"
	"net/url"
	"os"
	"time"

	"github.com/drydock-dev/drydock/internal/awsapi/awserr"
	"github.com/drydock-dev/drydock/internal/fault"
	"github.com/drydock-dev/drydock/internal/fault/keeper"
	"github.com/drydock-dev/drydock/internal/journal"
	"github.com/drydock-dev/drydock/internal/node"
	"github.com/drydock-dev/drydock/internal/service/eks"
)

// endpoint returns the address at which machines reach AWS on this machine, and the CAs that they trust for it.
func (d *daemon) endpoint() (host string, trusted *x509.CertPool, err error) {
	endpoint, err := url.Parse(d.info.URL)
	if err != nil {
		return "", nil, err
	}
	pem, err := os.ReadFile(d.info.CAFile)
	if err != nil {
		return "", nil, err
	}
	trusted = x509.NewCertPool()
	trusted.AppendCertsFromPEM(pem)
	return endpoint.Host, trusted, nil
}

// recordStep records what a machine did, for `drydock why`.
func (d *daemon) recordStep(_ context.Context, s node.Step) {
	fields := map[string]any{"instance": s.InstanceID, "step": s.Name, "ok": s.OK, "cluster": s.Cluster, "evidence": s.Evidence}
	if s.Warning {
		fields["warning"] = true
	}
	if s.Cause != "" {
		fields["cause"] = s.Cause
	}
	if s.Decision != nil {
		fields["decision"] = s.Decision
	}
	d.journal.Append(journal.Entry{Time: s.Time, Account: s.Account, Region: s.Region, Kind: journal.KindStep, Fields: fields})
}

// notice does what precedes a fault that happens once, and returns when to ask again at the latest.
func (d *daemon) notice(ctx context.Context, f *fault.Fault, left time.Duration) time.Duration {
	if f.Kind != fault.FargatePatch {
		return d.sender.Notice(f, left)
	}
	if err := d.eks.PatchFargate(ctx, d.events, f, false); err != nil {
		d.log.Warn("patching the hosts of Fargate pods", "cluster", f.Cluster, "err", err)
		return min(left, time.Second)
	}
	return left
}

// interrupt does what a fault of a kind that happens once asks for, when it is due.
func (d *daemon) interrupt(ctx context.Context, f *fault.Fault) error {
	switch f.Kind {
	case fault.PlatformVersion:
		return moot(d.eks.MovePlatform(ctx, f.Account, f.Region, f.Cluster))
	case fault.EndOfSupport:
		return moot(d.eks.EndSupport(ctx, f.Account, f.Region, f.Cluster))
	case fault.FargatePatch:
		return errors.Join(d.eks.PatchFargate(ctx, d.events, f, true), d.sender.Done(f))
	}
	step, err := keeper.Interrupt(ctx, d.ec2, f)
	if step != nil {
		d.recordStep(ctx, *step)
	}
	return errors.Join(err, d.sender.Done(f))
}

// moot marks the error of a fault on a cluster that is gone, or that has the latest version.
func moot(err error) error {
	if awserr.CodeOf(err) == "ResourceNotFoundException" || errors.Is(err, eks.ErrLatestVersion) {
		return keeper.Moot(err)
	}
	return err
}
