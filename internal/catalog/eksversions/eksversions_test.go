package eksversions_test

import (
	"testing"

	"github.com/drydock-dev/drydock/internal/catalog/eksversions"
)

func TestVersionsAreOrderedAndTheDefaultIsTheLatest(t *testing.T) {
	all := eksversions.All()
	for i, v := range all {
		if i > 0 && eksversions.Number(v.Minor) != eksversions.Number(all[i-1].Minor)+1 {
			t.Errorf("%s follows %s", v.Minor, all[i-1].Minor)
		}
		if got := v.Released.AddDate(0, 14, 0); got.Sub(v.EndOfStandardSupport).Abs().Hours() > 72 {
			t.Errorf("%s: standard support ends %s, want about %s", v.Minor, v.EndOfStandardSupport, got)
		}
		if got := v.EndOfStandardSupport.AddDate(1, 0, 0); !got.Equal(v.EndOfExtendedSupport) {
			t.Errorf("%s: extended support ends %s, want %s", v.Minor, v.EndOfExtendedSupport, got)
		}
	}
	if last := all[len(all)-1].Minor; last != eksversions.Default {
		t.Errorf("default is %s, latest %s", eksversions.Default, last)
	}
	if _, ok := eksversions.Lookup("1.32"); ok {
		t.Error("1.32 is offered")
	}
}
