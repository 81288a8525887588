package eni

import (
	"testing"

	"github.com/drydock-dev/drydock/internal/catalog/instancetypes"
)

func TestMaxPerInterface(t *testing.T) {
	most := 0
	for _, name := range instancetypes.Names() {
		typ, _ := instancetypes.Lookup(name)
		most = max(most, typ.IPv4PerENI)
	}
	if most != maxPerInterface {
		t.Errorf("the largest type has %d addresses per interface, not %d", most, maxPerInterface)
	}
}
