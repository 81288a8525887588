package eks

import (
	"strings"
	"testing"

	catalog "github.com/drydock-dev/drydock/internal/catalog/addons"
)

// The compatibility page lists every configuration value that is refused.
func TestTheNoteNamesWhatIsRefusedOfAddOns(t *testing.T) {
	for _, a := range catalog.All() {
		for name := range a.Refused {
			if !strings.Contains(addonNote, a.Name) || !strings.Contains(addonNote, name) {
				t.Errorf("it does not name %s of %s", name, a.Name)
			}
		}
	}
}
