package eks_test

import (
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	awseks "github.com/aws/aws-sdk-go-v2/service/eks"
	ekstypes "github.com/aws/aws-sdk-go-v2/service/eks/types"
)

// An update removes objects that it drops if they are the add-on's, but not a user's.
func TestAddOnUpdateLeavesWhatIsAUsers(t *testing.T) {
	const budget = "PodDisruptionBudget kube-system/coredns"
	same := func(path string) func(*world) {
		return func(w *world) { // a user sets the fields that EKS has set
			if err := w.objects().edit(budget, path, w.objects().field(budget, path)); err != nil {
				w.Fatal(err)
			}
		}
	}
	remade := func(w *world) { w.objects().usersOwn(budget) }
	for name, tc := range map[string]struct {
		before  func(*world)
		resolve ekstypes.ResolveConflicts
		stays   bool
	}{
		"the add-on's own":            {before: func(*world) {}, resolve: ekstypes.ResolveConflictsPreserve},
		"with a user's label":         {before: same("metadata.labels"), resolve: ekstypes.ResolveConflictsPreserve},
		"a user's as well":            {before: same("spec.maxUnavailable"), resolve: ekstypes.ResolveConflictsPreserve, stays: true},
		"a user's as well, and NONE":  {before: same("spec.maxUnavailable"), resolve: ekstypes.ResolveConflictsNone, stays: true},
		"a user's as well, and taken": {before: same("spec.maxUnavailable"), resolve: ekstypes.ResolveConflictsOverwrite},
		"a user's alone":              {before: remade, resolve: ekstypes.ResolveConflictsOverwrite, stays: true},
		"one created in the meantime": {before: func(w *world) {
			w.objects().mu.Lock()
			defer w.objects().mu.Unlock()
			w.objects().replaced = map[string]bool{budget: true}
		}, resolve: ekstypes.ResolveConflictsOverwrite, stays: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := addOnWorld(t)
			w.createAddon(&awseks.CreateAddonInput{AddonName: aws.String("coredns")})
			w.waitAddon("coredns", ekstypes.AddonStatusActive)
			tc.before(w)
			w.updateAddon(&awseks.UpdateAddonInput{
				AddonName: aws.String("coredns"), ResolveConflicts: tc.resolve,
				ConfigurationValues: aws.String(`{"podDisruptionBudget": {"enabled": false}}`),
			})
			w.waitAddon("coredns", ekstypes.AddonStatusActive)
			w.has(budget, tc.stays)
		})
	}
}
