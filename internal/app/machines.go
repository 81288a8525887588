package app

import (
	"context"
	"crypto/x509"
	"net/url"
	"os"

	"github.com/drydock-dev/drydock/internal/compute"
)

// newMachines makes what runs instances. The services that these call come later.
func (d *daemon) newMachines(ctx context.Context, volumes disks) (*compute.Machines, error) {
	endpoint, err := url.Parse(d.info.URL)
	if err != nil {
		return nil, err
	}
	pem, err := os.ReadFile(d.info.CAFile)
	if err != nil {
		return nil, err
	}
	trusted := x509.NewCertPool()
	trusted.AppendCertsFromPEM(pem)
	return compute.New(ctx, compute.Config{
		Store: d.store, Timing: d.timing, Disks: volumes, Network: theNetwork{d}, ControlPlanes: planes{d.planes}, Faults: d.faults.Set(),
		Origins: &d.origins, Endpoint: endpoint.Host, Trusted: trusted, WhyUnauthorized: d.whyUnauthorized, Step: d.recordStep, Log: d.log,
	})
}
