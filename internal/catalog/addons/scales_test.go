package addons_test

import (
	"testing"

	"github.com/drydock-dev/drydock/internal/catalog/addons"
)

func TestOnlyCoreDNSScales(t *testing.T) {
	for _, a := range addons.All() {
		if got := a.Scales(); got != (a.Name == "coredns") {
			t.Errorf("%s scales: %t", a.Name, got)
		}
	}
}
