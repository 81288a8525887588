package app

import (
	"context"
	"strings"

	"github.com/drydock-dev/drydock/internal/arn"
)

// issuerKeys answers what STS asks of clusters: the keys that verify the tokens
// of their service accounts.
func (d *daemon) issuerKeys(_ context.Context, issuer string) (keySet []byte, ok bool) {
	id := issuer[strings.LastIndexByte(issuer, '/')+1:]
	p, err := d.planes.Get(id)
	if err != nil || p.Issuer != issuer {
		return nil, false
	}
	keySet, err = d.planes.JWKS(id)
	return keySet, err == nil
}

// roleUsage answers what IAM asks before it deletes a service's role: clusters need
// that of EKS.
func (d *daemon) roleUsage(_ context.Context, account, service string) map[string][]string {
	if service != "eks.amazonaws.com" {
		return nil
	}
	usage := map[string][]string{}
	for _, p := range d.planes.Planes() {
		if k := p.Key; k.Account == account {
			usage[k.Region] = append(usage[k.Region], arn.New("eks", k.Region, account, "cluster/"+k.Name))
		}
	}
	return usage
}
