package app

import (
	"context"
	"strings"
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
