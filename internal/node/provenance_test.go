package node

import (
	"slices"
	"strings"
	"testing"
)

func TestEveryStepHasAProvenance(t *testing.T) {
	var steps []string
	for _, p := range Provenances() {
		steps = append(steps, p.Step)
		if len(p.Sources) == 0 && len(p.Assumed) == 0 {
			t.Errorf("%s: from where is it known?", p.Step)
		}
		for _, s := range p.Sources {
			if !strings.HasPrefix(s, "https://") {
				t.Errorf("%s: source %s", p.Step, s)
			}
		}
	}
	if !slices.Equal(steps, Steps()) {
		t.Errorf("provenances of %v, steps are %v", steps, Steps())
	}
}
